"""Values in templates: strangers' are cut and cleaned, the picture of thousands of nodes is whole."""

from collections import Counter
from typing import Any

import pytest
from jinja2 import Environment
from msgspec.structs import replace

from kscheduler.answers.suggestions import StepAnswer, SuggestionAnswer
from kscheduler.server.status_page import rendering
from kscheduler.server.status_page.drawing import drawn
from kscheduler.server.status_page.facts.heat import BY
from kscheduler.server.status_page.facts.in_words import age_text, share_text, short_seconds
from kscheduler.server.status_page.rendering import LONGEST_TEXT, Templates, deleted_pods, node_url, pod_url, sentence
from tests.server.status_page.page_scene import STANDING, PageScene, page_scene

COMMON: dict[str, Any] = {
    "here": "",
    "query": "",
    "has_login": False,
    "refresh": 0,
    "is_still": False,
    "has_read": True,
}


async def test_the_picture_of_many_nodes_is_drawn_to_its_last_cell() -> None:
    scene = page_scene()
    for number in range(3_000):
        scene.add_node(f"n{number}")
    snapshot = await scene.page.view.fresh()
    html = scene.page.view.shown(snapshot, "use")["nodes"]
    assert html.count("M") == 3_000 + 1, "a move per cell, and that of the legend's frame"
    (zone,) = drawn(snapshot.cells, snapshot.letters["use"])
    assert all(f'd="{path}"' in html for _, path in zone.paths)


async def test_a_first_look_at_the_overview_compiles_no_other_page(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    environment = rendering._environment

    def observed() -> Environment:
        made = environment()
        compiled.extend(name for _, name in made.cache or ())
        return made

    monkeypatch.setattr(rendering, "_environment", observed)
    scene = page_scene()
    scene.add_node("n")
    await overview_of(scene)
    assert {"overview.html", "base.html", "macros.html", "sections/pending.html"} <= set(compiled)
    assert not {name for name in compiled if name.startswith(("pod", "node", "login"))}
    loaded = scene.page._templates._environment
    assert loaded is not None
    await scene.page._templates.load()
    assert {name for _, name in loaded.cache or ()} == set(loaded.list_templates())


async def test_a_strangers_long_text_is_cut_and_said_to_be() -> None:
    templates = Templates(lambda: 0.0)
    await templates.load()
    values = {**COMMON, "heading": "x", "text": "y" * 10**6}
    page = templates.page("message.html", **values).decode()
    assert Counter(page)["y"] < LONGEST_TEXT + 500
    assert f"({10**6 - LONGEST_TEXT} more characters)" in page


async def overview_of(scene: PageScene) -> dict[str, str]:
    return scene.page.view.shown(await scene.page.view.fresh(), "use")


async def test_without_nodes_there_is_no_legend_of_their_colours() -> None:
    scene = page_scene()
    html = (await overview_of(scene))["nodes"]
    assert "There are no nodes." in html
    assert "cordoned" not in html
    assert "Point at a cell" not in html


async def test_who_has_not_read_the_cluster_or_does_not_lead_says_so_and_what_that_means() -> None:
    not_yet = replace(STANDING, is_scheduling=False, has_read=False)
    assert "has not been read completely yet" in (await overview_of(page_scene(standing=not_yet)))["standing"]
    follows = replace(STANDING, leader="lease a/b: x leads", leads=False, is_scheduling=False)
    reported = (await overview_of(page_scene(standing=follows)))["standing"]
    assert "Standing by" in reported
    assert "on the leader's page" in reported
    leads = replace(STANDING, leader="lease a/b: x leads")
    assert "the one that leads" not in (await overview_of(page_scene(standing=leads)))["standing"]


async def test_a_page_from_before_the_cluster_was_read_says_that_it_may_lack_something() -> None:
    templates = Templates(lambda: 0.0)
    await templates.load()
    values = {**COMMON, "heading": "No pod a/b", "text": "never seen"}
    assert b"has not been read completely yet" in templates.page("message.html", **{**values, "has_read": False})
    assert b"has not been read completely yet" not in templates.page("message.html", **values)


async def test_of_many_notes_the_first_are_shown_and_the_others_folded() -> None:
    notes = tuple(f"note {number}" for number in range(9))
    reported = (await overview_of(page_scene(standing=replace(STANDING, notes=notes))))["standing"]
    before, _, folded_away = reported.partition("<details>")
    assert before.count("note ") == 4
    assert "5 more notes" in folded_away
    assert folded_away.count("note ") == 5


def test_a_sentence_keeps_the_letters_of_names_and_only_long_deletions_are_folded() -> None:
    assert sentence("the command makes PersistentVolumeClaim A") == "The command makes PersistentVolumeClaim A"
    assert sentence("") == ""
    pods = [{"namespace": "n", "name": f"p{number}"} for number in range(6)]

    def deleted(kind: str, pods: object) -> list[str]:
        return deleted_pods(SuggestionAnswer(kind, "", 1, "", "", (), (StepAnswer(kind, {"pods": pods}),)))

    assert deleted("deletePods", pods) == [f"n/p{number}" for number in range(6)]
    assert deleted("deletePods", pods[:5]) == []
    assert deleted("releaseDevices", ["n/p"] * 9) == []


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
