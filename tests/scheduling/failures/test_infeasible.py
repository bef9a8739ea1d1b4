"""What one pod has learned is not found out again for its like, and is forgotten when anything changes."""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from kscheduler.api.codec import convert
from kscheduler.api.core import Namespace
from kscheduler.api.kinds import PODS
from kscheduler.api.storage import StorageClass
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import NODE_ADD
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import Plugin, PostFilterResult, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import Diagnosis
from kscheduler.framework.status import SUCCESS, Status, unschedulable
from kscheduler.scheduling.failure import SCHEDULER_ERROR, UNSCHEDULABLE, Failure
from kscheduler.scheduling.failures import infeasible
from kscheduler.scheduling.failures.infeasible import KnownInfeasible
from kscheduler.state.cache import Cache
from tests.builders import make_node, make_pod, pod_info
from tests.scheduling.around import SchedulerHarness
from tests.scheduling.plugins_for_tests import TurnsDown, cluster, profile


class Signed(TurnsDown):
    """A filter that asks for nothing of the pod, and counts how often it is asked."""

    depends_on = (Source.ROW,)
    calls = 0

    def sign(self, pod: PodInfo) -> object:
        return ()

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        self.calls += 1
        return super().filter(cycle, pod, nodes, rows)


@pytest.fixture
def judge() -> Signed:
    return Signed("F", "a", "b")


@pytest.fixture
def harness(judge: Signed) -> SchedulerHarness:
    """Three pods of one class and one of another, on two nodes that take none of them."""
    harness = SchedulerHarness(profile(judge), cluster("a", "b"))
    harness.add(*(make_pod(f"p{number}") for number in range(3)), make_pod("z", labels={"app": "z"}))
    return harness


def drain(harness: SchedulerHarness) -> list[str]:
    """Decide the pods that are ready; returns those that found a node."""
    placed = []
    while (queued := harness.queue.pop_nowait(harness.clock.time())) is not None:
        attempt = harness.scheduler.decide(queued)
        if attempt is not None:
            placed.append(queued.pod.name)
    return placed


def test_pods_of_a_class_share_one_cycle_and_each_is_reported(harness: SchedulerHarness, judge: Signed) -> None:
    assert drain(harness) == []
    assert judge.calls == 2
    assert len(harness.reported.reports) == 4, "a condition and an Event for everybody"
    assert len(set(harness.reported.notes)) == 1
    assert harness.reported.classes == {}, "nobody has to be told anew"
    assert sum(harness.observations.schedule_attempts.values()) == 2, "those that were judged"
    assert harness.queue.statistics().unschedulable == 4


def test_a_change_has_one_of_them_judged_again_and_the_others_reported_what_is_new(
    harness: SchedulerHarness, judge: Signed
) -> None:
    drain(harness)
    judge.nodes = (*judge.nodes, "c")
    harness.cache.add_node(make_node("c"))
    node_add(harness)
    drain(harness)
    assert judge.calls == 4
    assert len(harness.reported.reports) == 6, "an Event for those that were judged"
    (name,) = harness.reported.classes
    members, condition = harness.reported.classes[name]
    assert sorted(members) == ["default/p0", "default/p1", "default/p2"]
    assert condition.message.startswith("0/3 nodes")


def node_add(harness: SchedulerHarness) -> None:
    harness.queue.move_all(NODE_ADD, None, None, harness.clock.time())


def test_all_find_a_node_once_there_is_one(harness: SchedulerHarness, judge: Signed) -> None:
    drain(harness)
    harness.cache.add_node(make_node("c"))
    node_add(harness)
    assert drain(harness) == ["p0", "p1", "p2", "z"]


def test_a_verdict_of_a_version_that_is_outdated_is_not_the_new_one_s(harness: SchedulerHarness) -> None:
    """The pod changes while it is tried: what was found out is true of what it was."""
    queued = harness.queue.pop_nowait(harness.clock.time())
    assert queued is not None
    old, new = queued.pod.pod, make_pod("p0", labels={"app": "new"})
    harness.stores[PODS].put(queued.key, new)
    harness.queue.update(old, PodInfo(new), harness.clock.time())
    harness.scheduler.decide(queued)
    drain(harness)
    node_add(harness)
    assert harness.queue.statistics().backoff == 4
    assert harness.queue.find("default/p0") is not None


def test_what_preemption_has_begun_for_one_is_not_true_of_the_others() -> None:
    known = KnownInfeasible(lambda _: "class", lambda: 0)
    failures = (
        Failure("m", UNSCHEDULABLE, frozenset({"F"}), nominated_node_name="n"),
        Failure("m", SCHEDULER_ERROR),
        Failure("no nodes", UNSCHEDULABLE),
    )
    for failure in failures:
        assert known.learned(pod_info("p"), failure) is failure
    assert known.verdict(pod_info("q")) is None


class Calls(Plugin):
    """A PostFilter that asks somebody outside for a node, pod by pod, and nominates nobody."""

    name = "Calls"
    depends_on = (Source.ROW,)

    def __init__(self, answer: Status) -> None:
        self.answer = answer
        self.queried: list[str] = []

    def sign(self, pod: PodInfo) -> object:
        return ()

    def post_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, diagnosis: Diagnosis) -> PostFilterResult:
        self.queried.append(pod.name)
        return PostFilterResult(self.answer)


@pytest.mark.parametrize(
    ("answer", "queried"),
    [
        pytest.param(SUCCESS, ["p0", "p1", "p2"], id="it has done something"),
        pytest.param(unschedulable("no"), ["p0"], id="it can do nothing"),
    ],
)
def test_what_post_filter_does_for_a_pod_it_does_for_each(judge: Signed, answer: Status, queried: list[str]) -> None:
    """An autoscaler was asked for one node where a hundred pods of a class had none."""
    calls = Calls(answer)
    harness = SchedulerHarness(replace(profile(judge), post_filter=(calls,)), cluster("a", "b"))
    harness.add(*(make_pod(f"p{number}") for number in range(3)))
    assert drain(harness) == []
    assert calls.queried == queried
    assert harness.queue.statistics().unschedulable == 3


def test_the_safety_net_does_not_believe_what_is_known(harness: SchedulerHarness, judge: Signed) -> None:
    """It is for changes that nobody noticed, and the generation may not have noticed them either."""
    drain(harness)
    judge.nodes = ()
    harness.queue.flush_unschedulable(harness.clock.time() + 301)
    assert drain(harness) == ["p0", "p1", "p2", "z"]


def test_a_cluster_that_stands_still_is_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods of a StatefulSet, each a class of its own, come and go for days while no node says a word."""
    monkeypatch.setattr(infeasible, "MAX_KNOWN", 3)
    known = KnownInfeasible(lambda pod: pod.name, lambda: 0)
    for number in range(100):
        known.learned(pod_info(f"p{number}"), Failure("m", UNSCHEDULABLE, frozenset({"F"})))
    assert sum(known.verdict(pod_info(f"p{number}")) is not None for number in range(100)) <= 3
    assert known.verdict(pod_info("p99")) is not None


CHANGES: dict[str, Callable[[Cache], object]] = {
    "a node comes": lambda cache: cache.add_node(make_node("new")),
    "a node changes": lambda cache: cache.update_node(make_node("n", labels={"a": "b"})),
    "a node goes": lambda cache: cache.remove_node("n"),
    "a pod is assumed": lambda cache: cache.assume_pod(pod_info("p"), "n"),
    "a pod comes to a node that nobody knows": lambda cache: cache.add_pod(make_pod("p", node="ghost")),
    "a pod goes": lambda cache: cache.remove_pod("uid-of-there"),
    "labels of a pod change": lambda cache: cache.update_pod(make_pod("there", node="n", labels={"a": "b"})),
    "a pod is being deleted": lambda cache: cache.update_pod(
        make_pod("there", node="n", metadata={"deletionTimestamp": "2026-11-21T15:00:00Z"})
    ),
    "a node is nominated": lambda cache: cache.nominator.nominate(pod_info("p"), "n"),
    "a namespace changes": lambda cache: cache.counters.set_namespace(
        convert({"metadata": {"name": "default", "labels": {"a": "b"}}}, Namespace)
    ),
    "a storage class comes": lambda cache: cache.volumes.put(convert({"metadata": {"name": "fast"}}, StorageClass)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_any_change_that_a_verdict_may_depend_on_forgets_what_was_known(change: Callable[[Cache], object]) -> None:
    cache = Cache()
    cache.add_node(make_node("n"))
    cache.add_pod(make_pod("there", node="n"))
    known = KnownInfeasible(lambda _: "class", lambda: cache.generation)
    known.learned(pod_info("p"), Failure("m", UNSCHEDULABLE, frozenset({"F"})))
    assert known.verdict(pod_info("q")) is not None
    change(cache)
    assert known.verdict(pod_info("q")) is None


def test_querying_changes_nothing() -> None:
    cache = cluster("a")
    before = cache.generation
    cache.nominator.remove("nobody")
    cache.remove_pod("nobody")
    cache.remove_node("nobody")
    cache.nominator.nominate(pod_info("p"), "")
    assert cache.generation == before
    node = make_node("a")
    cache.update_node(msgspec.structs.replace(node, metadata=node.metadata))
    assert cache.generation > before, "conditions may matter to somebody's plugin"
