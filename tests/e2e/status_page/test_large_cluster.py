"""The page of 5,000 nodes in Chromium: each of them is there, and can be reached by pointer and by keyboard."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.status_page import shop
from tests.e2e.status_page.browser import looking
from tests.e2e.status_page.watched import Watched, watched

NODES, PODS = 5_000, 2_000
ZONE = shop.ZONES[1]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Watched]:
    del browser
    folder = tmp_path_factory.mktemp("watched")
    with watched(folder, shop.nodes(NODES), shop.running_pods(PODS, NODES)) as scene:
        scene.cluster.put("pods", shop.waiting_pods())
        scene.wait_for("/ui/", "0/5000 nodes are available")
        yield scene


def test_the_heat_map_has_every_node_in_its_zone(browser: Browser, scene: Watched) -> None:
    """A subpath of a shade, or of the frame of a cordoned node, is a cell."""
    with looking(browser) as (page, complaints):
        page.goto(f"{scene.url}/ui/")
        zones = [1667, 1667, 1666]
        expect(page.locator("svg.cells")).to_have_count(3)
        drawn = """svg => [...svg.querySelectorAll("path")]
            .reduce((count, path) => count + path.getAttribute("d").split("M").length - 1, 0)"""
        for each, count in zip(page.locator("svg.cells").all(), zones, strict=True):
            assert each.get_attribute("data-count") == str(count)
            assert each.evaluate(drawn) >= count
        row = page.locator("[data-live=pending] tr").filter(has_text="Insufficient nvidia.com/gpu")
        expect(row).to_contain_text("0/5000 nodes are available")
        assert complaints == []


def test_the_last_cell_leads_to_its_node(browser: Browser, scene: Watched) -> None:
    with looking(browser) as (page, complaints):
        page.goto(f"{scene.url}/ui/")
        cells = page.locator("svg.cells").first
        columns, pitch = (int(cells.get_attribute(f"data-{name}") or 0) for name in ("columns", "pitch"))
        x, y = (1666 % columns) * pitch + 2, (1666 // columns) * pitch + 2
        cells.scroll_into_view_if_needed()
        cells.click(position={"x": x, "y": y})
        page.wait_for_url("**/ui/nodes/node-4998")
        expect(page.locator("h1")).to_contain_text("node-4998")
        assert complaints == []


def test_from_the_keyboard_a_zone_opens_as_a_list_and_a_node_is_found_by_name(browser: Browser, scene: Watched) -> None:
    with looking(browser) as (page, complaints):
        page.goto(f"{scene.url}/ui/")
        page.get_by_role("link", name=ZONE).focus()
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/ui/nodes?zone={ZONE}")
        expect(page.get_by_role("link", name="node-0001", exact=True)).to_be_visible()
        page.get_by_role("searchbox").fill("node-4321")
        page.keyboard.press("Enter")
        page.wait_for_url("**/ui/nodes/node-4321")
        assert complaints == []
