"""A pod's page: what is true of a member of a group, and attempts with the same outcome as one entry."""

from typing import Any

import msgspec
import pytest

from kscheduler.explain.answer import PodExplanation
from kscheduler.explain.group_answer import PodGroupExplanation
from kscheduler.scheduling.pod_log.recent_attempts import FailedAttempt
from kscheduler.server.status_page.facts.pod_story import folded, pod_story, rejected_nodes, toleration_text
from kscheduler.server.status_page.facts.shown_explanation import shown_explanation
from kscheduler.server.status_page.rendering import Templates
from tests.builders import make_pod
from tests.server.status_page.page_scene import page_scene

Answer = PodExplanation | PodGroupExplanation


def of_pod(**fields: Any) -> PodExplanation:
    """An answer about a pod with these keys of JSON, and nothing else."""
    pod = {"namespace": "default", "name": "m", "uid": "", "schedulerName": "kscheduler"}
    head = {"id": "default/m", "pod": pod, "cycleOutcome": None, "isHypothetical": False}
    return msgspec.convert({**head, "outcome": "Unschedulable", "emulationVersion": "1.37", **fields}, PodExplanation)


def group(outcome: dict[str, Any] | None, **fields: Any) -> PodGroupExplanation:
    nothing = dict.fromkeys(("error", "preemption", "devices", "suggestions"))
    situation: dict[str, Any] = {
        "condition": None,
        "minimum": None,
        "onNodes": {},
        "ofOtherSchedulers": {},
        "inService": None,
    }
    tree = {**nothing, "id": "default/g", "podGroup": "default/g", "podGroupOutcome": outcome, "message": ""}
    tree |= {"placements": [], "situation": situation, "notes": [], "emulationVersion": "1.37", **fields}
    return msgspec.convert(tree, PodGroupExplanation)


def condition(status: str, message: str = "") -> dict[str, str]:
    return {"type": "PodGroupInitiallyScheduled", "status": status, "reason": "", "message": message}


NO_ROOM = {"condition": condition("False", "no room"), "pods": {"m": {"code": "Unschedulable", "message": "no cpu"}}}
NO_CLAIM = {"status": "Pending", "plugin": "P", "reasons": ["no claim"]}
GATE = {"preEnqueue": {"m": {"status": "Unschedulable", "plugin": "SchedulingGates", "reasons": ["gated"]}, "n": None}}
FITS = {"condition": condition("True"), "pods": {"m": {"node": "a"}}}
LEFT_OUT = {"condition": condition("True"), "pods": {"m": {"code": "Unschedulable", "message": "no cpu"}}}


@pytest.mark.parametrize(
    ("found", "texts"),
    [
        (group(NO_ROOM), ["with its pod group default/g, which would not get its nodes.", "no room", "no cpu"]),
        (group(GATE), ["default/g was not tried: some of its members", "m: gated (SchedulingGates)"]),
        (group(FITS), ["default/g would get its nodes, and it as well. It would go to <a", "/ui/nodes/a"]),
        (group(LEFT_OUT), ["default/g would get its nodes, but not this pod.", "no cpu"]),
        (group(None, error="two minds"), ["default/g cannot be decided.", "two minds"]),
        (group({}), ["Its pod group default/g was not tried."]),
        (
            of_pod(preFilter={"status": "Pending", "plugin": "P", "reasons": ["no claim"]}),
            ["No node was evaluated.", "no claim"],
        ),
    ],
)
async def test_what_is_true_of_a_pod_without_nodes_of_its_own(found: Answer, texts: list[str]) -> None:
    templates = Templates(lambda: 0.0)
    await templates.load()
    page = templates.render("pod_answer.html", refusal="", answer=shown_explanation(found, "m"), reported="")
    assert [text for text in texts if text not in page] == []
    assert "none of" not in page


def suggestion(kind: str, text: str, **facts: Any) -> dict[str, Any]:
    steps = [{"kind": each, "facts": facts if each == "deletePods" else {}} for each in kind.split("+")]
    command = {"command": f"kubectl {text}", "commandNote": "", "changes": []}
    return {"kind": kind, "text": text, "nodes": 1, **command, "steps": steps}


def deletion(number: int, **facts: Any) -> dict[str, Any]:
    pods = [{"namespace": "x", "name": f"p{number}"}]
    return suggestion("deletePods", f"delete x/p{number}", pods=pods, comeAgain=[], **facts)


async def shown(**tree: Any) -> str:
    templates = Templates(lambda: 0.0)
    await templates.load()
    return templates.render("pod_answer.html", refusal="", answer=shown_explanation(of_pod(**tree), "m"), reported="")


async def test_changes_of_one_kind_are_one_entry_and_the_others_are_folded() -> None:
    requests = [suggestion("request", "less cpu"), suggestion("request", "less memory")]
    again = deletion(99) | {"steps": [{"kind": "deletePods", "facts": {"comeAgain": ["p99"], "pods": []}}]}
    answer = shown_explanation(of_pod(suggestions=[*requests, *map(deletion, range(15)), again]), "m")
    assert [(each.best.text, len(each.others)) for each in answer.suggestions] == [
        ("less cpu", 0),
        ("less memory", 0),
        ("delete x/p0", 14),
        ("delete x/p99", 0),
    ]
    page = await shown(suggestions=[*requests, *map(deletion, range(15))])
    before, _, folded_away = page.partition("<details>")
    assert "14 others would also help" in folded_away
    assert "delete x/p0 " in before
    assert [number for number in range(1, 15) if f"delete x/p{number} " in before] == []
    assert all(f"delete x/p{number} " in folded_away for number in range(1, 15))


async def test_a_change_that_deletes_many_pods_is_one_line_and_their_names_are_folded() -> None:
    pods = [{"namespace": "shop", "name": f"web-{number}"} for number in range(15)]
    found = suggestion("deletePods", "delete 15 pods on n1 (priority 0)", pods=pods, comeAgain=[])
    page = await shown(suggestions=[found])
    before, _, folded_away = page.partition("<details>")
    assert "delete 15 pods on n1 (priority 0)" in before
    assert "web-" not in before
    assert "the 15 pods, and the command" in folded_away
    assert folded_away.count("/ui/pods/shop/web-") == 15
    assert "kubectl delete 15 pods" in folded_away


@pytest.mark.parametrize(("count", "named"), [(1, 1), (5, 5), (6, 4), (15, 4)])
async def test_of_many_victims_the_first_are_named_and_the_others_folded(count: int, named: int) -> None:
    victims = [f"web-{number}" for number in range(count)]
    page = await shown(preemption={"status": "Success", "message": "", "nominatedNode": "n1", "victims": victims})
    before, _, folded_away = page.partition("<details")
    assert before.count("web-") == named
    assert folded_away.count("web-") == count - named
    assert (f"and {count - named} more" in folded_away) == (count > named)


async def test_members_that_are_held_back_for_the_same_reason_are_reported_together() -> None:
    gate = {"status": "Unschedulable", "plugin": "GangScheduling", "reasons": ["too few"]}
    own = {"status": "Unschedulable", "plugin": "SchedulingGates", "reasons": ["gated"]}
    gates = {f"m-{number}": gate for number in range(6)} | {"n": own, "fine": None}
    answer = shown_explanation(group({"preEnqueue": gates}), "m-0")
    assert answer.message == "m-0, m-1, m-2, m-3 and 2 more: too few (GangScheduling); n: gated (SchedulingGates)"


async def test_a_pod_behind_its_gate_says_why_and_what_it_asks_for() -> None:
    scene = page_scene()
    claims: dict[str, Any] = {
        "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "b", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "c", "emptyDir": {}},
        ],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
    }
    pod = scene.add_pod("p", schedulerName="red", schedulingGates=[{"name": "a.example/gate"}], **claims)
    story = pod_story(scene.sources, pod)
    assert story.where.text == "is gated by SchedulingGates"
    assert story.where.why == "waiting for scheduling gates: [a.example/gate]"
    assert story.where.plugins == ()
    assert [each.words for each in story.where.awaited] == ["a pod loses its gates"]
    assert story.claims == (
        "PersistentVolumeClaim data",
        "PersistentVolumeClaim p-b",
    )
    (claim,) = story.device_claims
    assert (claim.template, claim.state, claim.tone) == ("one-gpu", "has not been made yet", "bad")
    templates = Templates(lambda: 1000.0)
    await templates.load()
    page = templates.render("pod_now.html", story=story)
    assert "looked at again when" in page
    assert "<code>UnschedulablePodUpdatePodSchedulingGatesEliminated</code>" in page
    assert "Nothing yet: there was no attempt." in page


async def test_pods_that_each_wait_for_a_claim_of_their_own_wait_for_one_reason() -> None:
    scene = page_scene()
    for namespace in ("ml", "shop"):
        for number in range(3):
            claim = {"name": "gpu", "resourceClaimName": f"gpu-{number}"}
            scene.add_pod(f"p{number}", namespace=namespace, schedulerName="red", resourceClaims=[claim])
    for number in range(2):
        claim = {"name": "gpu", "resourceClaimTemplateName": "gpu"}
        scene.add_pod(f"t{number}", namespace="ml", schedulerName="red", resourceClaims=[claim])
    for gate in ("ml/a", "ml/b"):
        scene.add_pod(gate[3:], namespace="ml", schedulerName="red", schedulingGates=[{"name": gate}])
    scene.add_pod(
        "alone", namespace="one", schedulerName="red", resourceClaims=[{"name": "g", "resourceClaimName": "g"}]
    )
    pending = await scene.sources.pending(scene.sources.queue.waiting_keys())
    assert {(each.message, each.count) for each in pending.reasons} == {
        ('could not find ResourceClaim "ml/…"', 3),
        ('could not find ResourceClaim "shop/…"', 3),
        ('pod "ml/…": ResourceClaim not created yet', 2),
        ("waiting for scheduling gates: [ml/a]", 1),
        ("waiting for scheduling gates: [ml/b]", 1),
        ('could not find ResourceClaim "one/g"', 1),
    }


@pytest.mark.parametrize(
    ("toleration", "text"),
    [
        ({"key": "a", "value": "b", "effect": "NoSchedule"}, "a=b:NoSchedule"),
        ({"key": "a", "operator": "Exists"}, "a=any value"),
        ({"key": "a", "operator": "Gt", "value": "3"}, "a Gt 3"),
        ({"operator": "Exists"}, "all taints"),
        ({"key": "a", "effect": "NoExecute", "tolerationSeconds": 300}, "a:NoExecute for 300 s"),
    ],
)
def test_tolerations_are_written_as_taints_are(toleration: dict[str, Any], text: str) -> None:
    (found,) = make_pod("p", tolerations=[toleration]).spec.tolerations
    assert toleration_text(found) == text


def test_a_plugin_that_was_queried_in_two_rounds_is_one_row() -> None:
    attempt = failed("u", 1, "no cpu")._replace(rejected=(("Fit", 1), ("Taints", 5), ("Fit", 14)))
    assert rejected_nodes(attempt) == [("Fit", 15), ("Taints", 5)]


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
    assert "attempt 18, the last of 18 in a row with the same outcome" in page
    assert sum(each.count for each in folded(scene.sources.recent.attempts_of(pod.metadata.uid))) == len(messages)


async def test_more_details_than_are_read_are_counted() -> None:
    nothing: dict[str, Any] = {"kind": "amount", "besideNominatedPods": [], "facts": {}}
    details = [{**nothing, "text": f"cause {number}", "nodes": ["a", "b"]} for number in range(8)]
    tree = {
        "filter": {"a": {"plugin": "Fit", "code": "Unschedulable", "reasons": ["no"]}},
        "rejections": [{"plugin": "Fit", "source": None, "count": 1, "statuses": [], "details": details}],
        "preFilter": {"status": "Unschedulable", "plugin": "Volumes", "reasons": ["none"]},
        "preFilterDetails": [{**nothing, "text": "claim a is away", "nodes": [], "besideNominatedPods": ["x/y"]}],
    }
    answer = shown_explanation(of_pod(**tree), "m")
    assert [row.text for row in answer.details] == [
        "beside x/y (nominated there): claim a is away",
        *(f"cause {number}" for number in range(6)),
    ]
    assert (answer.details[0].plugin, answer.details[0].count, answer.left_off) == ("Volumes", 0, 2)
    templates = Templates(lambda: 0.0)
    await templates.load()
    page = templates.render("pod_answer.html", refusal="", answer=answer, reported="")
    assert "and 2 more groups of nodes" in page
