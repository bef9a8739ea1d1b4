"""A person with a token, and without, at the HTTPS port."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser, expect

from kscheduler.embedded.objects.access.reviews import token_request
from tests.controlplane.kscheduler_process import HTTPS
from tests.e2e.status_page import shop
from tests.e2e.status_page.browser import looking
from tests.e2e.status_page.watched import Watched, watched


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Watched]:
    del browser
    with watched(tmp_path_factory.mktemp("watched"), shop.nodes(6), ports=HTTPS) as scene:
        scene.cluster.grant("system:serviceaccount:shop:operator", "/ui", "/ui/*")
        yield scene


def token_of(account: str) -> str:
    return str(token_request("shop", account, {}, datetime.now(UTC))["status"]["token"])


def test_who_logs_in_comes_to_the_page_that_was_wanted_and_follows_it(browser: Browser, scene: Watched) -> None:
    with looking(browser, ignore_https_errors=True) as (page, complaints):
        page.goto(f"{scene.url}/ui/nodes/node-001")
        page.get_by_label("Token", exact=True).fill("not a token")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_be_visible()
        page.get_by_label("Token", exact=True).fill(token_of("operator"))
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="node-001")).to_be_visible()
        page.goto(f"{scene.url}/ui/")
        expect(page.get_by_role("status")).to_have_text("live")
        assert page.evaluate("document.cookie") == "", "no script reads the token"
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_label("Token", exact=True)).to_be_visible()
        page.goto(f"{scene.url}/ui/")
        expect(page.get_by_label("Token", exact=True)).to_be_visible()
        assert [line for line in complaints if "401" not in line] == []


def test_a_page_whose_login_has_ended_says_so(browser: Browser, scene: Watched) -> None:
    with looking(browser, ignore_https_errors=True) as (page, _):
        page.goto(f"{scene.url}/ui/nodes/node-001")
        page.get_by_label("Token", exact=True).fill(token_of("operator"))
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_have_text("live")
        page.context.clear_cookies()
        expect(page.get_by_role("status")).to_have_text("not live: the login has ended", timeout=30_000)


def test_who_may_not_is_reported_what_the_account_lacks(browser: Browser, scene: Watched) -> None:
    with looking(browser, ignore_https_errors=True) as (page, _):
        page.goto(f"{scene.url}/ui/")
        page.get_by_label("Token", exact=True).fill(token_of("visitor"))
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("system:serviceaccount:shop:visitor may not get /ui/")


def test_the_form_has_no_serious_finding_either(browser: Browser, scene: Watched) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with looking(browser, ignore_https_errors=True) as (page, complaints):
        page.goto(f"{scene.url}/ui/login")
        found = [
            each["id"] for each in Axe().run(page).response["violations"] if each["impact"] in ("serious", "critical")
        ]
        assert found == []
        assert complaints == []
