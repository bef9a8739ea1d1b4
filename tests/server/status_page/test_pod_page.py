"""A pod's page: what is true of a member of a group, and attempts that ended alike as one entry."""

from typing import Any

import pytest

from kscheduler.scheduling.pod_log.recent_attempts import FailedAttempt
from kscheduler.server.status_page.facts.answer import shown_answer
from kscheduler.server.status_page.facts.pod_story import folded, pod_story
from kscheduler.server.status_page.rendering import Templates
from tests.server.status_page.page_scene import page_scene


def group(outcome: dict[str, Any] | None, **fields: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("filter", "feasible", "scores", "best", "error", "preemption"))
    return {**nothing, "podGroup": "default/g", "podGroupOutcome": outcome, "message": "", **fields}


def condition(status: str, message: str = "") -> dict[str, str]:
    return {"status": status, "message": message}


NO_ROOM = {"condition": condition("False", "no room"), "pods": {"m": {"code": "Unschedulable", "message": "no cpu"}}}
GATE = {"preEnqueue": {"m": {"plugin": "SchedulingGates", "reasons": ["gated"]}, "n": None}}
FITS = {"condition": condition("True"), "pods": {"m": {"node": "a"}}}
LEFT_OUT = {"condition": condition("True"), "pods": {"m": {"code": "Unschedulable", "message": "no cpu"}}}


@pytest.mark.parametrize(
    ("tree", "texts"),
    [
        (group(NO_ROOM), ["with its pod group default/g, which would not get its nodes.", "no room", "no cpu"]),
        (group(GATE), ["default/g was not tried: some of its members", "m: gated (SchedulingGates)"]),
        (group(FITS), ["default/g would get its nodes, and it as well. It would go to <a", "/ui/nodes/a"]),
        (group(LEFT_OUT), ["default/g would get its nodes, but not this pod.", "no cpu"]),
        (group(None, error="two minds"), ["default/g cannot be decided.", "two minds"]),
        (group({}), ["Its pod group default/g was not tried."]),
        ({"preFilter": {"reasons": ["no claim"]}}, ["No node was looked at.", "no claim"]),
    ],
)
async def test_what_is_true_of_a_pod_without_nodes_of_its_own(tree: dict[str, Any], texts: list[str]) -> None:
    templates = Templates(lambda: 0.0)
    await templates.load()
    page = templates.render("pod_answer.html", refusal="", answer=shown_answer(tree, "m"), told="")
    assert [text for text in texts if text not in page] == []
    assert "none of" not in page


def failed(uid: str, number: int, message: str) -> FailedAttempt:
    nothing: frozenset[str] = frozenset()
    what = {"number": number, "message": message, "is_error": False, "plugins": nothing, "pending": nothing}
    return FailedAttempt(uid, "default/p", 10.0 * number, rejected=(), nominated_node_name="", like="", **what)  # type: ignore[arg-type]


async def test_attempts_in_a_row_that_ended_alike_are_one_entry() -> None:
    scene = page_scene()
    pod = scene.add_pod("p")
    messages = [*["no cpu"] * 18, "no memory", "no cpu"]
    scene.sources.recent.failed.extend(
        failed(pod.metadata.uid, number, text) for number, text in enumerate(messages, 1)
    )
    story = pod_story(scene.sources, pod)
    assert [(each.last.number, each.count, each.first_at) for each in story.attempts] == [
        (20, 1, 200.0),
        (19, 1, 190.0),
        (18, 18, 10.0),
    ]
    templates = Templates(lambda: 1000.0)
    await templates.load()
    page = templates.render("pod_now.html", story=story)
    assert page.count("no cpu") == 2
    assert "attempt 18, the last of 18 in a row that ended alike" in page
    assert sum(each.count for each in folded(scene.sources.recent.attempts_of(pod.metadata.uid))) == len(messages)


async def test_more_details_than_are_read_are_counted() -> None:
    nothing: dict[str, Any] = {"kind": "amount", "besideNominatedPods": [], "facts": {}}
    details = [{**nothing, "text": f"cause {number}", "nodes": ["a", "b"]} for number in range(8)]
    tree = {
        "filter": {"a": {"plugin": "Fit", "reasons": ["no"]}},
        "rejections": [{"plugin": "Fit", "details": details}],
        "preFilter": {"plugin": "Volumes", "reasons": ["none"]},
        "preFilterDetails": [{**nothing, "text": "claim a is away", "nodes": [], "besideNominatedPods": ["x/y"]}],
    }
    answer = shown_answer(tree, "m")
    assert [row.text for row in answer.details] == [
        "beside x/y (nominated there): claim a is away",
        *(f"cause {number}" for number in range(6)),
    ]
    assert (answer.details[0].plugin, answer.details[0].count, answer.left_off) == ("Volumes", 0, 2)
    templates = Templates(lambda: 0.0)
    await templates.load()
    page = templates.render("pod_answer.html", refusal="", answer=answer, told="")
    assert "and 2 more groups of nodes" in page
