"""The status page as people meet it: in Chromium, by keyboard, in the dark, without scripts, with hostile names."""

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.builders import node_tree, pod_tree
from tests.controlplane.process import wait_until
from tests.e2e.status_page import shop
from tests.e2e.status_page.browser import looking
from tests.e2e.status_page.watched import Watched, watched

NODES, PODS = 60, 300
STORY, BOUND, NODE = "/ui/pods/analytics/report-0", "/ui/pods/shop/checkout-7d9f-0", "/ui/nodes/node-017"
DEVICES, CLAIMS = f"/ui/nodes/{shop.WITH_DEVICES}", "/ui/pods/analytics/trainer"
PAGES = (
    "/ui/",
    "/ui/?by=pods",
    "/ui/pending",
    "/ui/?by=nvidia.com%2Fgpu",
    "/ui/nodes",
    "/ui/search?q=train",
    STORY,
    BOUND,
    NODE,
    "/ui/nodes/none",
    DEVICES,
    CLAIMS,
)
SERIOUS = {"serious", "critical"}
# Single words that are broken into lines.
WORDS_IN_PIECES = """[...document.querySelectorAll("thead th, td.figure, td time, td .good, td .bad")].filter(each => {
    const range = document.createRange();
    range.selectNodeContents(each);
    const lines = new Set([...range.getClientRects()].map(box => box.top));
    return !each.innerText.trim().includes(" ") && lines.size > 1;
}).map(each => each.outerHTML.slice(0, 90))"""
# From right to left, and beyond 16 bits.
FOREIGN = "\u0645\u0631\u062d\u0628\u0627 \U0001f680"
HOSTILE = '"><img src=x onerror=document.title="taken">\u202e</script><script>document.title="taken"</script>'


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Watched]:
    """A shop with pods that wait for six reasons. The browser comes first: without one nothing needs to be started."""
    del browser
    folder = tmp_path_factory.mktemp("watched")
    with watched(folder, shop.nodes(NODES), shop.running_pods(PODS, NODES)) as scene:
        scene.cluster.put("pods", shop.waiting_pods())
        scene.cluster.put("pods", shop.fresh_pods(10))
        for collection, tree in shop.devices():
            scene.cluster.put(collection, [tree])
        scene.wait_for(DEVICES, "Devices by class", "Who has devices")
        scene.wait_for("/ui/", "/ui/pods/shop/checkout-7d9f-0", "0/60 nodes are available")
        yield scene


def test_the_overview_says_what_waits_for_what_and_what_would_help(browser: Browser, scene: Watched) -> None:
    with looking(browser) as (page, complaints):
        page.goto(f"{scene.url}/ui/")
        expect(page.get_by_role("heading", name="Pending pods")).to_be_visible()
        row = page.get_by_role("row").filter(has_text="Insufficient nvidia.com/gpu")
        expect(row).to_contain_text("tolerate the taint nvidia.com/gpu=present:NoSchedule", timeout=30_000)
        expect(row).to_contain_text("kubectl patch pod train-0")
        expect(page.get_by_role("img", name="20 nodes")).to_have_count(3)
        expect(page.get_by_role("status")).to_have_text("live")
        assert complaints == []


def test_a_change_in_the_cluster_shows_without_loading_the_page(browser: Browser, scene: Watched) -> None:
    with looking(browser) as (page, complaints):
        page.goto(f"{scene.url}/ui/")
        expect(page.get_by_role("status")).to_have_text("live")
        page.evaluate("window.isTheSamePage = true")
        scene.cluster.put("pods", [pod_tree("latecomer", namespace="shop", requests={"cpu": "99"})])
        expect(page.locator("[data-live=decisions]")).to_contain_text("shop/latecomer", timeout=30_000)
        assert page.evaluate("window.isTheSamePage") is True
        assert complaints == []


def test_a_paused_page_stands_still_and_goes_on(browser: Browser, scene: Watched) -> None:
    with looking(browser) as (page, _):
        page.goto(f"{scene.url}/ui/")
        expect(page.get_by_role("status")).to_have_text("live")
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_role("status")).to_have_text("paused")
        scene.cluster.put("pods", [pod_tree("while-paused", namespace="shop", requests={"cpu": "99"})])
        scene.wait_for("/ui/", "shop/while-paused")
        expect(page.locator("[data-live=decisions]")).not_to_contain_text("shop/while-paused")
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("[data-live=decisions]")).to_contain_text("shop/while-paused", timeout=30_000)


def test_the_whole_way_from_the_overview_to_the_command_goes_by_keyboard(browser: Browser, scene: Watched) -> None:
    with looking(browser) as (page, complaints):
        page.goto(f"{scene.url}/ui/")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        page.keyboard.press("Enter")
        _tab_to(page, "analytics/report-0")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**{STORY}")
        expect(page.get_by_role("heading", name="What would help")).to_be_visible(timeout=30_000)
        _tab_to(page, "kubectl")
        assert complaints == []


def test_the_focus_stays_where_it_is_when_the_page_changes_under_it(browser: Browser, scene: Watched) -> None:
    with looking(browser) as (page, _):
        page.goto(f"{scene.url}/ui/")
        expect(page.get_by_role("status")).to_have_text("live")
        page.locator("[data-live=pending] a", has_text="analytics/train-0").last.focus()
        scene.cluster.put("pods", [pod_tree("one-more", namespace="shop", requests={"cpu": "77"})])
        expect(page.locator("[data-live=pending]")).to_contain_text("shop/one-more", timeout=30_000)
        assert page.evaluate("document.activeElement.textContent") == "analytics/train-0"
        links = "[...document.querySelectorAll('[data-live=pending] a[href$=\"/train-0\"]')]"
        assert page.evaluate(f"{links}.indexOf(document.activeElement)") == 1, "it is named in two places"


def test_what_was_unfolded_stays_so_when_the_page_changes_under_it(browser: Browser, scene: Watched) -> None:
    with looking(browser) as (page, complaints):
        page.goto(scene.url + STORY)
        expect(page.get_by_role("status")).to_have_text("live")
        summary = page.get_by_text("these events as named in metrics")
        summary.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_text("NodeUpdateNodeAllocatable")).to_be_visible()
        page.evaluate("document.querySelector('[data-fragment]').dataset.last = 'something else'")
        page.evaluate("document.querySelector('[data-stage]').id = 'of-before'")
        expect(page.locator("#of-before")).to_have_count(0, timeout=30_000)
        expect(page.get_by_text("NodeUpdateNodeAllocatable")).to_be_visible()
        assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
        assert complaints == []


def test_what_came_while_somebody_marked_a_text_is_shown_afterwards(browser: Browser, scene: Watched) -> None:
    with looking(browser) as (page, _):
        page.goto(f"{scene.url}/ui/")
        expect(page.get_by_role("status")).to_have_text("live")
        page.evaluate("getSelection().selectAllChildren(document.querySelector('[data-live=decisions]'))")
        scene.cluster.put("pods", [pod_tree("unread", namespace="shop", requests={"cpu": "99"})])
        expect(page.locator("[data-live=pending]")).to_contain_text("shop/unread", timeout=30_000)
        expect(page.locator("[data-live=decisions]")).not_to_contain_text("shop/unread")
        page.evaluate("getSelection().removeAllRanges()")
        expect(page.locator("[data-live=decisions]")).to_contain_text("shop/unread")


def test_a_pods_page_is_new_as_soon_as_the_pod_has_a_node_and_says_when_it_is_gone(
    browser: Browser, scene: Watched
) -> None:
    gated = pod_tree("freed", namespace="shop", requests={"cpu": "1"}, schedulingGates=[{"name": "a.example/gate"}])
    scene.cluster.put("pods", [gated])
    path = "/ui/pods/shop/freed"
    scene.wait_for(path, "a.example/gate")
    with looking(browser) as (page, _):
        page.goto(scene.url + path)
        expect(page.locator("main")).to_contain_text("waiting for scheduling gates: [a.example/gate]")
        expect(page.get_by_role("heading", name="What would help")).to_be_visible(timeout=30_000)
        scene.cluster.put("pods", [pod_tree("freed", namespace="shop", requests={"cpu": "1"})])
        expect(page.get_by_role("heading", name="If it were scheduled again now")).to_be_visible(timeout=30_000)
        expect(page.get_by_role("heading", name="What would help")).to_have_count(0)
        scene.cluster.remove_pod("shop", "freed")
        expect(page.get_by_role("status")).to_contain_text("it is gone", timeout=30_000)


def _tab_to(page: Page, text: str) -> None:
    """Tab until what has the focus says this."""
    for _ in range(200):
        page.keyboard.press("Tab")
        said = page.evaluate(
            "/^(A|PRE|BUTTON)$/.test(document.activeElement.tagName) && document.activeElement.innerText"
        )
        if said and said.startswith(text):
            shown = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert shown != "none", "the focus must be seen"
            return
    raise AssertionError(f"200 tabs lead to nothing that says {text}")


def test_the_cell_under_the_pointer_is_named_and_leads_to_its_node(browser: Browser, scene: Watched) -> None:
    with looking(browser) as (page, complaints):
        page.goto(f"{scene.url}/ui/")
        cells = page.locator("svg.cells").first
        cells.scroll_into_view_if_needed()
        cells.hover(position={"x": 5, "y": 5})
        page.wait_for_timeout(500)
        cells.hover(position={"x": 6, "y": 6})
        expect(page.locator("#cell")).to_have_text("node-000")
        cells.click(position={"x": 6, "y": 6})
        page.wait_for_url("**/ui/nodes/node-000")
        assert complaints == []


@pytest.mark.parametrize("path", PAGES)
def test_without_scripts_every_page_is_whole(browser: Browser, scene: Watched, path: str) -> None:
    with looking(browser, java_script_enabled=False) as (page, _):
        page.goto(scene.url + path)
        expect(page.locator("h1")).to_have_count(1)
        expect(page.locator("main")).not_to_be_empty()
        expect(page.locator("footer")).to_contain_text("as of" if path != "/ui/nodes/none" else "kscheduler")


def test_without_scripts_the_story_has_what_would_help_and_the_page_reloads(browser: Browser, scene: Watched) -> None:
    with looking(browser, java_script_enabled=False) as (page, _):
        page.goto(scene.url + STORY)
        expect(page.locator("main")).to_contain_text("What would help", timeout=30_000)
        expect(page.locator("main")).to_contain_text("kubectl get pod report-0 -n analytics")
        page.goto(f"{scene.url}/ui/")
        assert page.locator("meta[http-equiv=refresh]").count() == 1
        page.goto(f"{scene.url}/ui/?still=1")
        assert page.locator("meta[http-equiv=refresh]").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing_serious(browser: Browser, scene: Watched, path: str, scheme: str) -> None:
    with looking(browser, color_scheme=scheme) as (page, complaints):
        page.goto(scene.url + path)
        page.wait_for_load_state("load")
        found = [each for each in Axe().run(page).response["violations"] if each["impact"] in SERIOUS]
        assert [(each["id"], [node["html"][:120] for node in each["nodes"]][:3]) for each in found] == []
        missing = [line for line in complaints if "404" not in line]
        assert missing == []


def test_dark_and_light_are_two_pages_to_the_eye(browser: Browser, scene: Watched) -> None:
    grounds = {}
    for scheme in ("light", "dark"):
        with looking(browser, color_scheme=scheme) as (page, _):
            page.goto(f"{scene.url}/ui/")
            grounds[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert grounds == {"light": "rgb(244, 246, 248)", "dark": "rgb(14, 19, 25)"}


def test_a_narrow_window_needs_no_scrolling_to_the_side(browser: Browser, scene: Watched) -> None:
    for path in ("/ui/", "/ui/pending", STORY, NODE, "/ui/nodes", DEVICES):
        with looking(browser, viewport={"width": 390, "height": 800}) as (page, _):
            page.goto(scene.url + path)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
            assert page.evaluate(WORDS_IN_PIECES) == [], path


def test_devices_are_by_class_on_their_nodes_page_and_by_claim_on_their_pods(browser: Browser, scene: Watched) -> None:
    with looking(browser, java_script_enabled=False) as (page, _):
        page.goto(scene.url + DEVICES)
        row = page.get_by_role("region", name="Devices by class").get_by_role("row").filter(has_text=shop.DRIVER)
        expect(row).to_have_count(1)
        expect(row.locator("td.figure")).to_have_text(["3", "8", "1", "4"])
        expect(page.locator("main")).to_contain_text(f"Pool incomplete {shop.DRIVER}/node-005-shelf")
        page.get_by_role("region", name="Who has devices").get_by_role("link", name="analytics/trainer").click()
        asks = page.get_by_role("region", name="Requests")
        expect(asks).to_contain_text("ResourceClaim trainer-gpus has devices, reserved for this pod")
        expect(asks).to_contain_text(f"gpu: 3 of class {shop.DRIVER}")
        expect(asks).to_contain_text(f"{shop.DRIVER}/node-005/gpu-2")


def test_a_narrow_window_shows_reasons_whole(browser: Browser, scene: Watched) -> None:
    with looking(browser, viewport={"width": 390, "height": 800}) as (page, _):
        page.goto(f"{scene.url}/ui/pending")
        scroller = page.get_by_role("region", name="Reasons of pending pods")
        assert scroller.evaluate("place => place.scrollWidth <= place.clientWidth")


def _cells(scene: Watched) -> str:
    """Which nodes the overview shows."""
    found = re.search(r'data-cells="([^"]+)"', scene.page("/ui/"))
    assert found
    return found[1]


def test_the_longest_names_widen_no_page(browser: Browser, scene: Watched) -> None:
    long = ".".join(letter * 62 for letter in "wxyz")
    labels = {
        "topology.kubernetes.io/zone": "z" * 63,
        "a" * 253 + "/" + "b" * 63: "\u0645\u0631\u062d\u0628\u0627 \U0001f680",
    }
    taint = {"key": "t" * 253 + "/" + "u" * 63, "value": "v" * 63, "effect": "NoSchedule"}
    before = _cells(scene)
    scene.cluster.put("nodes", [node_tree(long, cpu="4", labels=labels, spec={"taints": [taint]})])
    scene.cluster.put("pods", [pod_tree(long, namespace="n" * 63, requests={"cpu": "400"})])
    story = f"/ui/pods/{'n' * 63}/{long}"
    scene.wait_for(story, "nodes are available")
    # A page with the cells of before would reload by itself, in the middle of a look at it.
    wait_until("the overview has the node", lambda: _cells(scene) != before, 30.0)
    for width in (390, 1440):
        with looking(browser, viewport={"width": width, "height": 800}) as (page, _):
            for path in ("/ui/", f"/ui/nodes/{long}", story, "/ui/search?q=xxx"):
                page.goto(scene.url + path)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    with looking(browser) as (page, _):
        page.goto(f"{scene.url}/ui/nodes/{long}")
        expect(page.locator("main")).to_contain_text(FOREIGN)


def test_on_paper_there_are_no_buttons_and_what_is_folded_is_there(browser: Browser, scene: Watched) -> None:
    with looking(browser) as (page, _):
        page.goto(scene.url + STORY)
        expect(page.get_by_text("NodeUpdateNodeAllocatable")).to_be_hidden()
        page.emulate_media(media="print")
        expect(page.get_by_role("navigation")).to_have_count(0)
        expect(page.get_by_role("button")).to_have_count(0)
        expect(page.get_by_text("NodeUpdateNodeAllocatable")).to_be_visible()


def test_hostile_names_do_nothing_and_are_read_as_they_are(browser: Browser, scene: Watched) -> None:
    labels = {"topology.kubernetes.io/zone": HOSTILE, "owner": HOSTILE}
    spec = {"taints": [{"key": "k", "value": HOSTILE, "effect": "NoSchedule"}]}
    scene.cluster.put("nodes", [node_tree("hostile", labels=labels, spec=spec)])
    scene.cluster.put("pods", [pod_tree("hostile", namespace="shop", requests={"cpu": "64"}, labels={"a": HOSTILE})])
    scene.cluster.put(
        "pods", [pod_tree("gated", namespace="shop", nodeSelector={"x": HOSTILE}, schedulingGates=[{"name": HOSTILE}])]
    )
    scene.wait_for("/ui/nodes", "hostile")
    paths = ("/ui/", "/ui/nodes/hostile", f"/ui/nodes?zone={quote(HOSTILE)}", "/ui/pods/shop/gated")
    for path in (*paths, f"/ui/search?q={quote(HOSTILE)}"):
        with looking(browser) as (page, complaints):
            page.goto(scene.url + path)
            page.wait_for_timeout(500)
            assert "taken" not in page.title(), path
            assert page.locator("img").count() == 0
            expect(page.locator("body")).to_contain_text("onerror=document.title")
            assert [line for line in complaints if "404" not in line] == []
