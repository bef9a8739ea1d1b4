"""Extenders are asked in order, about what is left, and a failure means what it means upstream."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
import structlog

from kscheduler.client.extenders.caller import CallGivenUpError, ExtenderError
from kscheduler.client.extenders.whole_objects import ObjectReadError
from kscheduler.config.types import Extender, ExtenderManagedResource
from kscheduler.framework.cluster.preemption import Candidate, ReviewedCandidate
from kscheduler.framework.status import Code, unresolvable, unschedulable
from kscheduler.scheduling.extenders.call_reports import CallReports
from kscheduler.scheduling.extenders.http_extender import MAX_WITH_NODES, ExtenderFailure, HTTPExtender, SentPod
from kscheduler.scheduling.extenders.http_extenders import HTTPExtenders
from kscheduler.scheduling.observations import Observations
from tests.builders import pod_info
from tests.scheduling.eviction.stage import turns
from tests.scheduling.extenders.fake_extenders import NamedObjects, fake_extender

POD = pod_info("pod", priority=9)
DOWN = ExtenderError("failed filter with extender at URL http://x: connection refused")
GPU = (ExtenderManagedResource("example.com/gpu"),)


async def test_each_extender_is_queried_about_what_the_one_before_left() -> None:
    first, first_calls = fake_extender("http://1", {"filter": {"NodeNames": ["a", "b"], "FailedNodes": {"c": "busy"}}})
    second, second_calls = fake_extender("http://2", {"filter": {"NodeNames": ["b"]}})
    answers = await HTTPExtenders([first, second], NamedObjects()).about_nodes(POD, ["a", "b", "c"])
    assert answers.status.is_success
    assert answers.asked_nodes == {"a", "b", "c"}
    assert answers.left == {"b"}
    assert answers.rejected == {
        "c": unschedulable("busy", plugin="Extender"),
        "a": unresolvable(plugin="Extender"),
    }
    assert first_calls.queried == [("filter", {"Pod": "pod", "Nodes": None, "NodeNames": ["a", "b", "c"]})]
    assert second_calls.queried == [("filter", {"Pod": "pod", "Nodes": None, "NodeNames": ["a", "b"]})]


async def test_nobody_is_queried_about_nothing() -> None:
    first, _ = fake_extender("http://1", {"filter": {"NodeNames": []}})
    second, calls = fake_extender("http://2", {"filter": {"NodeNames": []}, "prioritize": []})
    answers = await HTTPExtenders([first, second], NamedObjects()).about_nodes(POD, ["a"])
    assert answers.left == frozenset()
    assert calls.queried == []


async def test_an_extender_that_does_not_know_nodes_gets_them_whole() -> None:
    extender, calls = fake_extender(
        "http://1", {"filter": {"Nodes": {"items": [{"metadata": {"name": "b"}}]}}}, node_cache_capable=False
    )
    answers = await HTTPExtenders([extender], NamedObjects()).about_nodes(POD, ["a", "b"])
    assert answers.left == {"b"}
    sent = {"Pod": "pod", "Nodes": {"metadata": {}, "items": ["node a", "node b"]}, "NodeNames": None}
    assert calls.queried == [("filter", sent)]


async def test_points_of_all_extenders_are_added_and_those_without_an_answer_do_not_count() -> None:
    first, _ = fake_extender("http://1", {"prioritize": [{"Host": "a", "Score": 3}]}, weight=2)
    second, _ = fake_extender("http://2", {"prioritize": [{"Host": "a", "Score": 1}, {"Host": "b", "Score": 10}]})
    broken, _ = fake_extender("http://3", {"prioritize": DOWN})
    wrong, _ = fake_extender("http://4", {"prioritize": b'{"Host":"a"}'})
    answers = await HTTPExtenders([first, second, broken, wrong], NamedObjects()).about_nodes(POD, ["a", "b"])
    assert answers.status.is_success
    assert (answers.points_of("a"), answers.points_of("b"), answers.points_of("z")) == (70, 100, 0)
    assert [(points.extender, points.weight) for points in answers.points] == [("http://1", 2), ("http://2", 1)]


async def test_a_single_node_needs_no_points() -> None:
    extender, calls = fake_extender("http://1", {"filter": {"NodeNames": ["a"]}, "prioritize": []})
    await HTTPExtenders([extender], NamedObjects()).about_nodes(POD, ["a", "b"])
    assert [verb for verb, _ in calls.queried] == ["filter"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (DOWN, str(DOWN)),
        ({"Error": "out of order"}, "out of order"),
        (b"<html>", "the answer is not JSON"),
        ({"NodeNames": ["z"]}, 'extender "http://1" claims a filtered node "z"'),
    ],
)
async def test_a_failure_is_an_error_unless_the_extender_is_ignorable(answer: Any, message: str) -> None:
    broken, _ = fake_extender("http://1", {"filter": answer})
    answers = await HTTPExtenders([broken], NamedObjects()).about_nodes(POD, ["a"])
    assert answers.status.code is Code.ERROR
    assert answers.status.message.startswith(message)
    assert answers.left == frozenset()

    ignorable, _ = fake_extender("http://1", {"filter": answer}, ignorable=True)
    answers = await HTTPExtenders([ignorable], NamedObjects()).about_nodes(POD, ["a"])
    assert answers.status.is_success
    assert answers.left == {"a"}


async def test_ignorable_extenders_are_queried_last() -> None:
    ignorable, calls = fake_extender("http://1", {"filter": {"NodeNames": ["b"]}}, ignorable=True)
    other, _ = fake_extender("http://2", {"filter": {"NodeNames": ["b"]}})
    await HTTPExtenders([ignorable, other], NamedObjects()).about_nodes(POD, ["a", "b"])
    assert calls.queried[0][1]["NodeNames"] == ["b"]


async def test_only_interested_extenders_are_queried() -> None:
    extender, calls = fake_extender("http://1", {"filter": {}, "preempt": {}, "bind": {}}, managed_resources=GPU)
    querying = HTTPExtenders([extender], NamedObjects())
    assert not querying.judges(POD)
    assert not querying.preempts(POD)
    assert await querying.bind(POD.pod, "a") is None
    assert (await querying.about_nodes(POD, ["a"])).left == {"a"}
    assert calls.queried == []
    with_gpu = pod_info("gpu", requests={"example.com/gpu": "1"})
    assert querying.judges(with_gpu)
    assert querying.preempts(with_gpu)
    assert (querying.binder_of(with_gpu.pod), querying.binder_of(POD.pod)) == ("http://1", "")


async def test_an_extender_that_only_binds_is_not_queried_about_nodes() -> None:
    extender, _ = fake_extender("http://1", {"bind": {}})
    querying = HTTPExtenders([extender], NamedObjects())
    assert not querying.judges(POD)
    assert not querying.preempts(POD)


# --- preempt and bind -------------------------------------------------------------------------------------------------

V, W, X = (pod_info(name, uid=name, priority=priority) for name, priority in (("v", 1), ("w", 1), ("x", 5)))
PRESENT = {"n": {"v": V}, "m": {"w": W, "x": X}}
PROPOSED = (Candidate("n", (V,), 0), Candidate("m", (W,), 1))


async def test_victims_are_narrowed_by_one_after_the_other() -> None:
    first, first_calls = fake_extender(
        "http://1",
        {"preempt": {"NodeNameToMetaVictims": {"m": {"Pods": [{"UID": "w"}], "NumPDBViolations": 1}}}},
        node_cache_capable=False,
    )
    second, second_calls = fake_extender("http://2", {"preempt": {"NodeNameToMetaVictims": {}}})
    third, third_calls = fake_extender("http://3", {"preempt": {}})
    querying = HTTPExtenders([first, second, third], NamedObjects())
    assert querying.preempts(POD)
    allowed = await querying.about_victims(POD, PROPOSED, PRESENT)
    assert allowed.failure.is_success
    assert allowed.reviewed == {
        "n": ReviewedCandidate(frozenset({"v"}), None),
        "m": ReviewedCandidate(frozenset({"w"}), None),
    }
    assert first_calls.queried[0][1]["NodeNameToVictims"]["n"]["Pods"][0]["metadata"]["uid"] == "v"
    assert second_calls.queried[0][1]["NodeNameToMetaVictims"] == {"m": {"Pods": [{"UID": "w"}], "NumPDBViolations": 1}}
    assert third_calls.queried == []


async def test_a_node_that_needs_no_victims_goes_on_to_the_next_extender_and_is_dropped_if_none_names_any() -> None:
    """(1.38: D5)"""
    empty = {"Pods": [], "NumPDBViolations": 0}
    first, _ = fake_extender("http://1", {"preempt": {"NodeNameToMetaVictims": {"n": empty, "m": empty}}})
    named = {"n": empty, "m": {"Pods": [{"UID": "w"}], "NumPDBViolations": 0}}
    second, calls = fake_extender("http://2", {"preempt": {"NodeNameToMetaVictims": named}})
    proposed = (Candidate("n", (), 0), Candidate("m", (), 0))
    allowed = await HTTPExtenders([first, second], NamedObjects()).about_victims(POD, proposed, PRESENT)
    assert calls.queried[0][1]["NodeNameToMetaVictims"] == {"n": empty, "m": empty}
    assert allowed.failure.is_success
    assert allowed.reviewed == {
        "n": ReviewedCandidate(frozenset(), None),
        "m": ReviewedCandidate(frozenset(), Candidate("m", (W,), 0)),
    }


@pytest.mark.parametrize("is_ignorable", [True, False])
async def test_a_failure_to_preempt_counts_unless_ignorable(is_ignorable: bool) -> None:
    broken, _ = fake_extender("http://1", {"preempt": DOWN}, ignorable=is_ignorable)
    allowed = await HTTPExtenders([broken], NamedObjects()).about_victims(POD, PROPOSED, PRESENT)
    assert allowed.failure.is_success is is_ignorable
    assert list(allowed.passed_over) == (["http://1"] if is_ignorable else [])
    assert [each.allowed for each in allowed.reviewed.values()] == (list(PROPOSED) if is_ignorable else [])


async def test_other_victims_are_reviewed_ones_the_most_important_first() -> None:
    other = {"m": {"Pods": [{"UID": "w"}, {"UID": "x"}, {"UID": "w"}], "NumPDBViolations": 2}}
    extender, _ = fake_extender("http://1", {"preempt": {"NodeNameToMetaVictims": other}})
    allowed = await HTTPExtenders([extender], NamedObjects()).about_victims(POD, PROPOSED, PRESENT)
    assert allowed.reviewed == {
        "n": ReviewedCandidate(frozenset({"v"}), None),
        "m": ReviewedCandidate(frozenset({"w"}), Candidate("m", (X, W), 2)),
    }


def test_what_is_known_before_the_first_query() -> None:
    def first(**answers: Any) -> tuple[bool, bool] | None:
        extender, _ = fake_extender("http://1", answers)
        found = HTTPExtenders([extender], NamedObjects()).first_answers(POD)
        return None if found is None else (found.is_about_nodes, found.victims is not None)

    assert first(bind={}) is None
    assert first(filter={}) == (True, False)
    assert first(preempt={}) == (False, True)
    assert first(prioritize=[], preempt={}) == (True, True)


async def test_binding_names_pod_and_node_and_reports_a_refusal() -> None:
    extender, calls = fake_extender("http://1", {"bind": {}})
    await extender.bind(POD.pod, "n", lambda: True)
    meta = POD.pod.metadata
    sent = {"PodName": "pod", "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": "n"}
    assert calls.queried == [("bind", sent)]
    refusing, _ = fake_extender("http://1", {"bind": {"Error": "taken"}})
    with pytest.raises(ExtenderFailure, match=r"^taken$"):
        await refusing.bind(POD.pod, "n", lambda: True)


async def test_an_extender_binds_nothing_for_a_process_that_does_not_lead() -> None:
    extender, calls = fake_extender("http://1", {"bind": {}}, ignorable=True)
    status = await HTTPExtenders([extender], NamedObjects(), may_bind=lambda: False).bind(POD.pod, "n")
    assert status is not None
    assert status.code is Code.ERROR
    assert calls.queried == []


async def test_a_lost_lease_is_no_failure_of_an_extender() -> None:
    seconds = Observations().extender_seconds
    reports = CallReports("http://1", lambda: 0.0, seconds)
    extender, _ = fake_extender("http://1", {"bind": {}}, reports=reports)
    with structlog.testing.capture_logs() as lines:
        await HTTPExtenders([extender], NamedObjects(), may_bind=lambda: False).bind(POD.pod, "n")
    assert (lines, list(reports.notes()), dict(seconds)) == ([], [], {})


class UnreadableNodes(NamedObjects):
    """The API server gives no nodes."""

    async def nodes(self, names: Sequence[str]) -> Sequence[msgspec.Raw]:
        raise ObjectReadError("GET /api/v1/nodes: connection refused")


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
@pytest.mark.parametrize("is_ignorable", [False, True], ids=["needed", "ignorable"])
async def test_nodes_that_we_cannot_read_are_no_failure_of_an_extender(verb: str, is_ignorable: bool) -> None:
    """Otherwise a pod would be placed without the filter of an ignorable extender, because of our own outage."""
    seconds = Observations().extender_seconds
    reports = CallReports("http://1", lambda: 0.0, seconds)
    extender, calls = fake_extender(
        "http://1", {verb: {}}, reports=reports, node_cache_capable=False, ignorable=is_ignorable
    )
    with structlog.testing.capture_logs() as lines:
        answers = await HTTPExtenders([extender], UnreadableNodes()).about_nodes(POD, ["a", "b"])
    assert answers.status.code is Code.ERROR
    assert answers.status.message == "extenders cannot be asked: GET /api/v1/nodes: connection refused"
    assert (answers.objectors, calls.queried) == ((), [])
    assert (lines, dict(seconds)) == ([], {})


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt"])
async def test_a_call_that_this_process_gave_up_skips_no_extender(verb: str) -> None:
    """Its connections are closed at the end: a pod that is decided in that moment must not miss a filter."""
    given_up = CallGivenUpError("the extender is no longer configured")
    extender, _ = fake_extender("http://1", {verb: given_up}, ignorable=True)
    querying = HTTPExtenders([extender], NamedObjects())
    if verb == "preempt":
        status = (await querying.about_victims(POD, PROPOSED, PRESENT)).failure
    else:
        status = (await querying.about_nodes(POD, ["a", "b"])).status
    assert status.code is Code.ERROR
    assert status.message == "extenders cannot be asked: the extender is no longer configured"


async def test_who_was_queried_and_who_objects_is_known() -> None:
    first, _ = fake_extender("http://1", {"filter": {"NodeNames": ["b"]}, "prioritize": []})
    second, _ = fake_extender("http://2", {"filter": {"NodeNames": []}})
    third, _ = fake_extender("http://3", {"filter": {"NodeNames": []}, "prioritize": []})
    answers = await HTTPExtenders([first, second, third], NamedObjects()).about_nodes(POD, ["a", "b"])
    assert answers.called_extenders == {"http://1", "http://2"}
    assert answers.objectors == ("http://1", "http://2")
    broken, _ = fake_extender("http://4", {"filter": DOWN})
    answers = await HTTPExtenders([first, broken], NamedObjects()).about_nodes(POD, ["a", "b"])
    assert answers.objectors == ("http://4",)


async def test_few_queries_with_whole_nodes_are_under_way_at_a_time() -> None:
    """Each is as large as all nodes together."""
    under_way = most = 0

    class Slow:
        async def call(self, verb: str, body: bytes, may_send: Callable[[], bool] | None = None) -> bytes:
            nonlocal under_way, most
            del verb, body, may_send
            under_way += 1
            most = max(most, under_way)
            await turns()
            under_way -= 1
            return b'{"Nodes":{"items":[{"metadata":{"name":"a"}}]}}'

    extender = HTTPExtender(Extender("http://x", filter_verb="f"), Slow())
    querying = HTTPExtenders([extender], NamedObjects())
    answers = await asyncio.gather(*(querying.about_nodes(POD, ["a", "b"]) for _ in range(3 * MAX_WITH_NODES)))
    assert most == MAX_WITH_NODES
    assert all(each.left == {"a"} for each in answers)


@pytest.mark.parametrize(("score", "warnings"), [(0, 0), (10, 0), (11, 1), (-1, 1)])
async def test_a_score_that_is_not_within_0_to_10_counts_and_is_reported_of(score: int, warnings: int) -> None:
    scores = [{"Host": "a", "Score": score}, {"Host": "b", "Score": score}]
    extender, _ = fake_extender("http://1", {"prioritize": scores})
    with structlog.testing.capture_logs() as lines:
        for _ in range(2):
            points = await extender.points(SentPod("default/p", msgspec.Raw(b"{}")), ["a", "b"], NamedObjects().nodes)
    assert points == {"a": 10 * score, "b": 10 * score}
    assert [line["event"] for line in lines] == ["extender_scores_out_of_range"] * warnings
