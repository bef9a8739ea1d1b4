"""Values in templates: strangers' are cut and cleaned, the picture of thousands of nodes is whole."""

from collections import Counter

import pytest

from kscheduler.server.status_page.drawing import drawn
from kscheduler.server.status_page.facts.heat import BY
from kscheduler.server.status_page.facts.in_words import age_text, share_text, short_seconds
from kscheduler.server.status_page.rendering import LONGEST_TEXT, Templates, node_url, pod_url
from tests.server.status_page.page_scene import page_scene


async def test_the_picture_of_many_nodes_is_drawn_to_its_last_cell() -> None:
    scene = page_scene()
    for number in range(3_000):
        scene.add_node(f"n{number}")
    snapshot = await scene.page.view.fresh()
    html = scene.page.view.shown(snapshot, "use")["nodes"]
    assert html.count("M") == 3_000 + 1, "a move per cell, and that of the legend's frame"
    (zone,) = drawn(snapshot.cells, snapshot.letters["use"])
    assert all(f'd="{path}"' in html for _, path in zone.paths)


async def test_a_strangers_long_text_is_cut_and_said_to_be() -> None:
    templates = Templates(lambda: 0.0)
    await templates.load()
    values = {"here": "", "query": "", "has_login": False, "refresh": 0, "heading": "x", "text": "y" * 10**6}
    page = templates.page("message.html", **values).decode()
    assert Counter(page)["y"] < LONGEST_TEXT + 500
    assert f"({10**6 - LONGEST_TEXT} more characters)" in page


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0s"),
        (0, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (125, "2m 5s"),
        (3600, "1h"),
        (36_700, "10h 11m"),
        (86_400 * 40, "40d"),
    ],
)
def test_ages_have_two_units_at_most(seconds: float, text: str) -> None:
    assert age_text(seconds) == text


def test_amounts_are_short() -> None:
    assert [short_seconds(each) for each in (0.0000123, 0.00456, 1.5, 4000)] == ["12.3 us", "4.56 ms", "1.5 s", "1h 6m"]
    assert [share_text(each) for each in (0, 0.034, 0.58, 0.999, 1.2)] == ["0 %", "3.4 %", "58 %", "99 %", "120 %"]


def test_addresses_hold_any_name() -> None:
    assert pod_url('a/"><b') == "/ui/pods/a/%22%3E%3Cb"
    assert node_url("ip-10-0-0-1.ec2.internal") == "/ui/nodes/ip-10-0-0-1.ec2.internal"
    assert "use" in BY
