"""Pods that concern extenders: asked about apart from all others, decided on the nodes as they are then."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kscheduler.api.core import Pod
from kscheduler.framework.cluster.preemption import Candidate, ReviewedCandidate
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, error, unschedulable
from kscheduler.scheduling.attempt.extender_lines import TURNS_PER_LINE
from kscheduler.scheduling.extenders.extender_results import UNASKED, ExtenderResults, Extenders, ExtenderVictimResults
from kscheduler.scheduling.extenders.rounds import MAX_ROUNDS, MOVED_ON
from kscheduler.scheduling.pod_log.lines import OUTCOMES
from tests.builders import make_node, make_pod
from tests.scheduling.around import SchedulerHarness
from tests.scheduling.attempt.test_workers import GatedBind, working
from tests.scheduling.eviction.stage import turns
from tests.scheduling.plugins_for_tests import AroundBinding, TurnsDown, cluster, profile
from tests.scheduling.test_pod_log import at

SLOW = {"labels": {"asks": "yes"}}
BUSY = unschedulable("busy", plugin="Extender")


class SlowExtenders:
    """Judges pods with the label `asks`; answers when the test says so. Implements `Extenders`."""

    def __init__(self, left: Sequence[str] | None = None) -> None:
        self.left = left
        self.gate = asyncio.Event()
        self.failure: BaseException | None = None
        self.is_broken = False
        self.queried: list[tuple[str, tuple[str, ...]]] = []
        self.bind_status: Status | None = None
        self.first = UNASKED
        self.allowed_node = ""
        self.victim_nodes: list[list[str]] = []

    def first_answers(self, pod: PodInfo) -> ExtenderResults | None:
        return self.first if "asks" in pod.labels else None

    def line_of(self, pod: PodInfo) -> str:
        return pod.labels["asks"]

    def binder_of(self, pod: Pod) -> str:
        del pod
        return "http://binder"

    async def about_nodes(self, pod: PodInfo, names: Sequence[str]) -> ExtenderResults:
        self.queried.append((pod.name, tuple(names)))
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        queried = frozenset(names)
        if self.is_broken:
            status = error("no answer", plugin="Extender")
            return ExtenderResults(queried, status=status, failed_by="http://slow")
        left = queried if self.left is None else queried & frozenset(self.left)
        by = dict.fromkeys(queried - left, "http://slow")
        return ExtenderResults(queried, left, dict.fromkeys(queried - left, BUSY), rejected_by=by)

    async def about_victims(
        self, pod: PodInfo, candidates: Sequence[Candidate], pods_on: Mapping[str, Mapping[str, PodInfo]]
    ) -> ExtenderVictimResults:
        self.victim_nodes.append(sorted(each.node_name for each in candidates))
        await self.gate.wait()
        assert all(victim.uid in pods_on[each.node_name] for each in candidates for victim in each.victims)
        return ExtenderVictimResults(
            {
                each.node_name: ReviewedCandidate(
                    frozenset(victim.uid for victim in each.victims),
                    each if each.node_name == self.allowed_node else None,
                )
                for each in candidates
            }
        )

    async def bind(self, pod: Pod, node_name: str) -> Status | None:
        return self.bind_status


def harness_of(extenders: Extenders, *plugins: Any, nodes: Sequence[str] = ("a", "b")) -> SchedulerHarness:
    return SchedulerHarness(profile(*plugins), cluster(*nodes), extenders=extenders)


def binder() -> GatedBind:
    bound = GatedBind()
    bound.gate.set()
    return bound


async def test_a_slow_extender_delays_its_own_pods_only() -> None:
    extenders, bound = SlowExtenders(), binder()
    harness = harness_of(extenders, bound)
    harness.add(*(make_pod(f"slow-{number}", **SLOW) for number in range(TURNS_PER_LINE + 5)))
    harness.add(*(make_pod(f"quick-{number}") for number in range(10)))
    async with working(harness):
        await turns()
        assert sorted(bound.bound) == sorted(f"quick-{number}" for number in range(10))
        assert len(extenders.queried) == TURNS_PER_LINE
        assert harness.clock.monotonic() == 0, "nobody waited"
        extenders.gate.set()
        await turns()
        assert len(bound.bound) == TURNS_PER_LINE + 15
        assert not harness.workers.profiles_in_use()


async def test_the_most_important_pod_that_waits_is_queried_about_next() -> None:
    extenders, bound = SlowExtenders(), binder()
    harness = harness_of(extenders, bound)
    harness.add(*(make_pod(f"slow-{number}", **SLOW) for number in range(TURNS_PER_LINE + 2)))
    async with working(harness):
        await turns()
        harness.add(make_pod("important", priority=100, **SLOW))
        await turns()
        assert len(extenders.queried) == TURNS_PER_LINE
        extenders.gate.set()
        extenders.gate.clear()
        await turns()
        assert extenders.queried[TURNS_PER_LINE][0] == "important"


async def test_nothing_is_assumed_while_extenders_think() -> None:
    extenders, bound = SlowExtenders(left=["b"]), binder()
    harness = harness_of(extenders, bound)
    pod = make_pod("slow", **SLOW)
    harness.add(pod)
    async with working(harness):
        await turns()
        assert extenders.queried == [("slow", ("a", "b"))]
        assert harness.cache.node_of(pod.metadata.uid) == ""
        extenders.gate.set()
        await turns()
        assert harness.cache.node_of(pod.metadata.uid) == "b"
        assert bound.bound == ["slow"]


async def test_what_happened_meanwhile_counts() -> None:
    extenders, bound = SlowExtenders(left=["a"]), binder()
    filtering = TurnsDown("Filter")
    harness = harness_of(extenders, filtering, bound)
    harness.add(make_pod("slow", **SLOW))
    async with working(harness):
        await turns()
        filtering.nodes = ("a",)
        extenders.gate.set()
        await turns()
        assert bound.bound == []
        assert harness.reported.notes == ["0/2 nodes are available: 1 busy, 1 not for Filter."]


async def test_extenders_are_queried_again_if_all_that_they_left_has_gone() -> None:
    extenders, bound = SlowExtenders(), binder()
    filtering = TurnsDown("Filter", "b")
    harness = harness_of(extenders, filtering, bound)
    harness.add(make_pod("slow", **SLOW))
    async with working(harness):
        await turns()
        assert extenders.queried == [("slow", ("a",))]
        filtering.nodes = ("a",)
        extenders.gate.set()
        await turns()
        assert extenders.queried[1:] == [("slow", ("b",))]
        assert bound.bound == ["slow"]


async def test_they_are_not_queried_for_ever() -> None:
    """Each time that they answer, all nodes have been replaced."""
    extenders, bound = SlowExtenders(), binder()
    harness = harness_of(extenders, bound, nodes=["n0"])
    harness.add(make_pod("slow", **SLOW))
    async with working(harness):
        await turns()
        for number in range(1, MAX_ROUNDS + 1):
            harness.cache.remove_node(f"n{number - 1}")
            harness.cache.add_node(make_node(f"n{number}"))
            extenders.gate.set()
            extenders.gate.clear()  # those that waited are let through, and no others
            await turns()
        assert extenders.queried == [("slow", (f"n{number}",)) for number in range(MAX_ROUNDS)]
        assert harness.reported.notes == [MOVED_ON]
        assert bound.bound == []


async def test_an_extender_that_fails_fails_the_attempt() -> None:
    extenders, bound = SlowExtenders(), binder()
    extenders.is_broken = True
    extenders.gate.set()
    harness = harness_of(extenders, bound)
    harness.add(make_pod("slow", **SLOW))
    async with working(harness):
        await turns()
        assert harness.reported.notes == ["no answer"]
        assert harness.where("default/slow") == "backoff"


async def test_a_bug_while_querying_ends_the_attempt_and_not_the_worker() -> None:
    service_log: list[str] = []
    extenders = SlowExtenders()
    extenders.failure = ZeroDivisionError("bug")
    extenders.gate.set()
    harness = harness_of(extenders, AroundBinding("Around", service_log))
    harness.add(make_pod("slow", **SLOW))
    async with working(harness):
        await turns()
        assert service_log == [], "nothing was reserved, so nothing is released"
        assert "ZeroDivisionError: bug" in harness.reported.notes[0]
        harness.add(make_pod("quick"))
        await turns()
        assert "Around.post_bind" in service_log


async def test_a_pod_that_got_a_node_meanwhile_is_left_alone() -> None:
    extenders, bound = SlowExtenders(), binder()
    harness = harness_of(extenders, bound)
    pod = make_pod("slow", **SLOW)
    harness.add(pod)
    async with working(harness):
        await turns()
        harness.cache.add_pod(make_pod("slow", node="a", **SLOW))
        extenders.gate.set()
        await turns()
        assert bound.bound == []
        assert harness.reported.notes == []


# --- the log ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_broken", [True, False], ids=["failed", "rejected"])
async def test_the_log_names_the_extender_that_the_condition_must_not_name(is_broken: bool) -> None:
    extenders, bound = SlowExtenders(left=()), binder()
    extenders.is_broken = is_broken
    extenders.gate.set()
    harness = harness_of(extenders, bound)
    with at(OUTCOMES) as lines:
        harness.add(make_pod("slow", **SLOW))
        async with working(harness):
            await turns()
    (line,) = (line for line in lines if line["event"] == ("attempt_failed" if is_broken else "pod_not_scheduled"))
    assert line["extender"] == "http://slow"
    assert harness.reported.notes == ["no answer" if is_broken else "0/2 nodes are available: 2 busy."]


async def test_the_log_names_the_extender_that_could_not_bind() -> None:
    extenders, bound = SlowExtenders(), binder()
    extenders.bind_status = error("taken", plugin="Extender")
    harness = harness_of(extenders, bound)
    with at(OUTCOMES) as lines:
        harness.add(make_pod("pod"))
        async with working(harness):
            await turns()
    (line,) = (line for line in lines if line["event"] == "attempt_failed")
    assert line["extender"] == "http://binder"


async def test_an_extender_that_left_a_node_is_not_named_when_something_else_fails() -> None:
    extenders, bound = SlowExtenders(left=["a"]), binder()
    extenders.gate.set()
    extenders.bind_status = None
    bound.failure = ConnectionResetError("a plugin of the user's")
    harness = harness_of(extenders, bound)
    with at(OUTCOMES) as lines:
        harness.add(make_pod("slow", **SLOW))
        async with working(harness):
            await turns()
    (line,) = (line for line in lines if line["event"] == "attempt_failed")
    assert "extender" not in line


# --- bind -------------------------------------------------------------------------------------------------------------


async def test_what_an_extender_has_bound_no_plugin_binds() -> None:
    extenders, bound = SlowExtenders(), binder()
    extenders.bind_status = SUCCESS
    harness = harness_of(extenders, bound)
    pod = make_pod("pod")
    harness.add(pod)
    async with working(harness):
        await turns()
        assert bound.bound == []
        node = harness.cache.node_of(pod.metadata.uid)
        assert node
        assert harness.recorded.notes == [f"Normal Scheduled: Successfully assigned default/pod to {node}"]


async def test_an_extender_that_cannot_bind_gives_the_node_back() -> None:
    extenders, bound = SlowExtenders(), binder()
    extenders.bind_status = error("taken", plugin="Extender")
    harness = harness_of(extenders, bound)
    pod = make_pod("pod")
    harness.add(pod)
    async with working(harness):
        await turns()
        assert bound.bound == []
        assert harness.cache.node_of(pod.metadata.uid) == ""
        assert harness.reported.notes == ["taken"]
