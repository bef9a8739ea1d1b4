"""A browser logs in with a token in a form: the same reviews decide, and the cookie opens the page and nothing else."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from http.cookies import SimpleCookie

import aiohttp
import pytest

from kscheduler.server import browser_login
from kscheduler.server.browser_login import COOKIE, LONGEST_TOKEN, local_path
from kscheduler.telemetry.logs.caught import Boundary, caught
from tests.server.pki import trusting
from tests.server.secure_site import READER, SecureSite, secure_site, token_of
from tests.server.status_page.page_scene import page_scene

OTHER = "system:serviceaccount:monitoring:other"
BROWSER = {"Accept": "text/html,application/xhtml+xml", "Sec-Fetch-Site": "same-origin"}


@dataclass
class Explanation:
    status: int
    text: str
    location: str
    cookie: SimpleCookie


class Browser:
    """Requests as a browser makes them; it keeps no cookies by itself."""

    def __init__(self, site: SecureSite) -> None:
        self._site = site

    async def request(
        self, method: str, path: str, cookie: str = "", form: dict[str, str] | bytes | None = None, **headers: str
    ) -> Explanation:
        url = f"https://127.0.0.1:{self._site.server.port}{path}"
        sent = {**BROWSER, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if cookie:
            sent["Cookie"] = f"{COOKIE}={cookie}"
        connector = aiohttp.TCPConnector(ssl=trusting(), force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.request(method, url, headers=sent, data=form, allow_redirects=False) as response,
        ):
            text = await response.text()
            return Explanation(response.status, text, response.headers.get("Location", ""), response.cookies)

    async def log_in(self, token: str, wanted: str = "", **headers: str) -> Explanation:
        return await self.request("POST", "/ui/login", form={"token": token, "next": wanted}, **headers)


@pytest.fixture
async def site() -> AsyncIterator[SecureSite]:
    async with secure_site(status_page=page_scene().page) as site:
        await site.grant(READER, "/ui/*")
        yield site


@pytest.fixture
def browser(site: SecureSite) -> Browser:
    return Browser(site)


async def test_a_browser_without_credentials_is_sent_to_the_form(browser: Browser) -> None:
    answer = await browser.request("GET", "/ui/pods/shop/cart-1")
    assert (answer.status, answer.location) == (303, "/ui/login?next=/ui/pods/shop/cart-1")
    assert 'value="/ui/pods/shop/cart-1"' in (await browser.request("GET", answer.location)).text


async def test_a_program_without_credentials_is_refused_as_ever(site: SecureSite, browser: Browser) -> None:
    assert await site.status("/ui/") == 403
    assert (await browser.request("GET", "/ui/events")).status == 303
    assert (await browser.request("GET", "/ui/events", Accept="text/event-stream")).status == 403


async def test_a_token_that_may_opens_the_page_by_a_cookie_of_the_page_alone(browser: Browser) -> None:
    token = token_of(READER)
    answer = await browser.log_in(token, "/ui/nodes")
    assert (answer.status, answer.location) == (303, "/ui/nodes")
    cookie = answer.cookie[COOKIE]
    assert (cookie["path"], cookie["samesite"], cookie["secure"], cookie["httponly"]) == ("/ui", "Strict", True, True)
    ends = (cookie["expires"], cookie["max-age"], cookie["domain"])
    assert ends == ("", "", ""), "it ends with the browser's session"
    page = await browser.request("GET", "/ui/", cookie.value)
    assert page.status == 200
    assert "Log out" in page.text


async def test_the_cookie_opens_nothing_but_the_page(site: SecureSite, browser: Browser) -> None:
    await site.grant(READER, "/metrics", "/configz", name="more")
    for path in ("/metrics", "/configz", "/uix"):
        assert (await browser.request("GET", path, token_of(READER))).status == 403, path


async def test_a_token_that_may_not_is_refused_with_what_it_lacks(browser: Browser) -> None:
    answer = await browser.log_in(token_of(OTHER))
    assert answer.status == 401
    assert COOKIE not in answer.cookie
    assert "monitoring:other may not get /ui/" in answer.text


@pytest.mark.parametrize(
    "token",
    ["wrong", "", "a b", "a;b", 'a"b', "a\r\nX: y", "ä", "<script>alert(1)</script>", "x" * (LONGEST_TOKEN + 1)],
    ids=["unknown", "empty", "space", "semicolon", "quote", "line end", "letter", "script", "long"],
)
async def test_what_is_no_token_of_the_cluster_gets_the_form_again(browser: Browser, token: str) -> None:
    answer = await browser.log_in(token)
    assert answer.status == 401
    assert COOKIE not in answer.cookie
    assert 'role="alert"' in answer.text
    assert "<script>alert" not in answer.text


async def test_a_cookie_that_no_longer_opens_leads_to_the_form(site: SecureSite, browser: Browser) -> None:
    token = token_of(READER)
    assert (await browser.request("GET", "/ui/", token)).status == 200
    await site.grant(READER)
    await site.clock.advance(11)
    assert (await browser.request("GET", "/ui/", token)).location == "/ui/login?next=/ui/"
    assert (await browser.request("GET", "/ui/", "no-token-of-ours")).location == "/ui/login?next=/ui/"


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("multipart/form-data; boundary=x", b"nonsense", 415),
        ("multipart/form-data", b"nonsense", 415),
        ("application/json", b"{}", 415),
        ("application/x-www-form-urlencoded; charset=none-such", b"token=x", 401),
        ("application/x-www-form-urlencoded", b"token=%ff&&=&\xff", 401),
        ("application/x-www-form-urlencoded", b"x" * 100_000, 413),
    ],
    ids=["a bad part", "no boundary", "another kind", "an unknown charset", "no utf-8", "too large"],
)
async def test_a_body_that_is_no_form_is_refused_and_is_no_bug(
    browser: Browser, content_type: str, body: bytes, status: int
) -> None:
    """Every client that reaches the port may send it."""
    before = caught()[Boundary.HTTP]
    answer = await browser.request("POST", "/ui/login", form=body, Content_Type=content_type)
    assert answer.status == status
    assert caught()[Boundary.HTTP] == before


async def test_another_site_can_log_nobody_in_or_out(browser: Browser) -> None:
    for site in ("cross-site", "same-site"):
        answer = await browser.log_in(token_of(READER), Sec_Fetch_Site=site)
        assert (answer.status, COOKIE in answer.cookie) == (403, False)
        assert (await browser.request("POST", "/ui/logout", Sec_Fetch_Site=site)).status == 403


async def test_a_log_out_takes_the_cookie_away(browser: Browser) -> None:
    answer = await browser.request("POST", "/ui/logout", token_of(READER))
    assert (answer.status, answer.location) == (303, "/ui/login")
    assert answer.cookie[COOKIE]["max-age"] == "0"


async def test_style_and_script_are_open_and_say_nothing_of_the_cluster(browser: Browser) -> None:
    for name in ("page.css", "live.js", "icon.svg"):
        assert (await browser.request("GET", f"/ui/assets/{name}")).status == 200
    assert (await browser.request("GET", "/ui/assets/site.py")).status == 404


@pytest.mark.parametrize(
    ("wanted", "goes"),
    [
        ("/ui/pods/a/b", "/ui/pods/a/b"),
        ("/ui/?by=cpu", "/ui/?by=cpu"),
        ("https://evil.example/ui/", "/ui/"),
        ("//evil.example", "/ui/"),
        ("/ui//evil.example", "/ui/"),
        ("/ui/login", "/ui/"),
        ("/uix", "/ui/"),
        ("/ui/\r\nSet-Cookie: a=b", "/ui/"),
        ("", "/ui/"),
    ],
)
def test_after_the_login_only_a_page_of_ours_is_gone_to(wanted: str, goes: str) -> None:
    assert local_path(wanted) == goes


def test_a_header_says_who_asks_before_a_cookie_does() -> None:
    assert browser_login.is_token("eyJhbGciOi.eyJzdWIiOi_-.sig==")
    assert not browser_login.is_token("")
