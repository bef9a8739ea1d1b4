"""Nominated pods: a pod's own node first, and room for those that are expected elsewhere."""

from typing import Any

import numpy as np
import pytest

from kscheduler.assembly import profiles_over
from kscheduler.config.loader import default_configuration
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import Plugin, PreFilterResult
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Code, unresolvable
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.handlers.event_handlers import PodHandler
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.cache import Cache
from tests.builders import make_node, make_pod, pod_info
from tests.scheduling.around import SchedulerHarness
from tests.scheduling.plugins_for_tests import Likes, Looks, TurnsDown, cluster, profile

NOMINATED_TO_B: dict[str, Any] = {"status": {"nominatedNodeName": "b"}}


def in_tree(cache: Cache, *names: str) -> Profile:
    """The in-tree plugins of these names, as the default profile has them."""
    handle = Handle(cache, None, None)  # type: ignore[arg-type]  # nothing is bound and nobody waits
    built = [registry().build(name, None, handle) for name in names]
    return profile(*built)


def fit(cache: Cache) -> Profile:
    return in_tree(cache, "NodePorts", "NodeResourcesFit")


def expected(cache: Cache, node: str, name: str = "expected", priority: int = 0, **fields: Any) -> PodInfo:
    """A pod that is nominated to the node."""
    found = PodInfo(make_pod(name, status={"nominatedNodeName": node}, priority=priority, **fields))
    cache.nominator.add(found)
    return found


def rejected(record: SchedulingRecord) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {name: (status.plugin, status.reasons) for name, status in record.diagnosis.by_node()}


# --- the pod's own nominated node


def test_the_nominated_node_wins_over_a_better_one_without_being_scored() -> None:
    record = schedule(profile(Likes("L", {"a": 100})), pod_info(**NOMINATED_TO_B), cluster("a", "b"))
    assert record.node_name == "b"
    assert record.feasible_names() == ["b"]
    assert record.scores == ()


def test_nobody_else_is_judged_where_the_nominated_node_fits() -> None:
    judge = TurnsDown("J", "a")
    record = schedule(profile(judge), pod_info(**NOMINATED_TO_B), cluster("a", "b"))
    assert judge.queried == ["b"]
    assert rejected(record) == {}


def test_all_nodes_are_judged_where_the_nominated_one_is_full() -> None:
    record = schedule(profile(TurnsDown("J", "b")), pod_info(**NOMINATED_TO_B), cluster("a", "b", "c"))
    assert record.node_name in ("a", "c")
    assert rejected(record) == {"b": ("J", ("not for J",))}


@pytest.mark.parametrize("name", ["gone", ""])
def test_a_nominated_node_that_is_not_there_is_skipped(name: str) -> None:
    record = schedule(profile(), pod_info(status={"nominatedNodeName": name}), cluster("a"))
    assert record.node_name == "a"


def test_the_nominated_node_is_tried_even_outside_the_names_that_pre_filter_gave() -> None:
    narrowing = Looks("Narrow", SUCCESS, frozenset({"a"}))
    record = schedule(profile(narrowing), pod_info(**NOMINATED_TO_B), cluster("a", "b"))
    assert record.node_name == "b"
    rejecting = profile(narrowing, TurnsDown("J", "a", "b"))
    record = schedule(rejecting, pod_info(**NOMINATED_TO_B), cluster("a", "b", "c"))
    assert rejected(record) == {
        "a": ("J", ("not for J",)),
        "b": ("J", ("not for J",)),
        "c": ("", ("node(s) didn't satisfy plugin(s) [Narrow]",)),
    }


def test_a_plugin_that_fails_on_the_nominated_node_only_does_not_stop_the_search() -> None:
    class Fragile(TurnsDown):
        def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
            if len(rows) == 1:
                raise ValueError("one is too few")
            return super().filter(cycle, pod, nodes, rows)

    record = schedule(profile(Fragile("F", "b")), pod_info(**NOMINATED_TO_B), cluster("a", "b"))
    assert record.node_name == "a"


def test_pre_filter_has_the_first_word() -> None:
    judge = TurnsDown("J")
    record = schedule(profile(Looks("No", unresolvable("never")), judge), pod_info(**NOMINATED_TO_B), cluster("b"))
    assert record.message == "0/1 nodes are available: never."
    assert judge.queried == []


# --- other pods' nominations


@pytest.mark.parametrize(("priority", "fits"), [(0, False), (1, True)], ids=["equal yields", "higher does not"])
def test_room_is_left_for_a_nominated_pod_of_equal_or_higher_priority(priority: int, fits: bool) -> None:
    cache = cluster("a", "b")
    expected(cache, "a", requests={"cpu": "3"})
    record = schedule(fit(cache), pod_info(requests={"cpu": "2"}, priority=priority), cache)
    assert record.feasible_names() == (["a", "b"] if fits else ["b"])
    if not fits:
        assert rejected(record) == {"a": ("NodeResourcesFit", ("Insufficient cpu",))}


def test_a_nominated_pod_does_not_stand_in_its_own_way() -> None:
    cache = cluster("a")
    itself = expected(cache, "a", requests={"cpu": "3"})
    assert schedule(fit(cache), itself, cache).node_name == "a"


def test_pod_count_and_host_ports_of_nominated_pods_count() -> None:
    cache = Cache()
    cache.add_node(make_node("few", pods="1"))
    cache.add_node(make_node("port"))
    with_port = [{"name": "c", "ports": [{"hostPort": 80}]}]
    expected(cache, "few", "one")
    expected(cache, "port", "other", containers=with_port)
    record = schedule(fit(cache), pod_info(containers=with_port), cache)
    assert rejected(record) == {
        "few": ("NodeResourcesFit", ("Too many pods",)),
        "port": ("NodePorts", ("node(s) didn't have free ports for the requested pod ports",)),
    }


def test_a_node_must_also_do_without_the_nominated_pod() -> None:
    """Affinity to a pod that has not come yet must not be relied on."""

    class NeedsCompany(Plugin):
        name = "NeedsCompany"
        reasons = {1: "lonely"}  # noqa: RUF012

        def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
            return np.where(nodes.pod_count[rows] > 0, 0, 1)

    cache = cluster("a")
    expected(cache, "a")
    record = schedule(profile(NeedsCompany()), pod_info(), cache)
    assert rejected(record) == {"a": ("NeedsCompany", ("lonely",))}


def test_the_live_table_is_as_before() -> None:
    cache = cluster("a", "b")
    expected(cache, "a", requests={"cpu": "3", "example.com/gpu": "1"})
    before = cache.nodes.requested.copy()
    schedule(fit(cache), pod_info(requests={"cpu": "2"}), cache)
    assert np.array_equal(cache.nodes.requested, before)
    assert cache.nodes.pod_count[cache.nodes.rows()].tolist() == [0, 0]


class CountsPods(Plugin):
    """Allows so many pods in the whole cluster: a plugin whose PreFilter state tells of pods."""

    name = "CountsPods"
    reasons = {1: "too many"}  # noqa: RUF012

    def __init__(self, most: int, failure: Exception | None = None) -> None:
        self.most = most
        self.failure = failure

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        cycle.write(int(nodes.pod_count[nodes.rows()].sum()))
        return PreFilterResult(SUCCESS)

    def add_pod(self, cycle: CycleState, pod: PodInfo, added: PodInfo, nodes: NodeTable, row: int) -> None:
        if self.failure is not None:
            raise self.failure
        cycle.write(cycle.read(int) + 1)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        return np.full(len(rows), int(cycle.read(int) + 1 > self.most), dtype=np.int64)


def test_a_plugin_that_counts_pods_hears_of_those_expected_on_the_judged_node_alone() -> None:
    cache = cluster("a", "b", "c")
    for name, node in (("p", "a"), ("q", "a"), ("r", "b")):
        expected(cache, node, name)
    record = schedule(profile(CountsPods(2)), pod_info(), cache)
    assert record.feasible_names() == ["b", "c"], "two are expected on a, one on b, and none of them counts elsewhere"


def test_a_plugin_that_fails_to_count_ends_the_cycle() -> None:
    cache = cluster("a")
    expected(cache, "a")
    record = schedule(profile(CountsPods(2, ValueError("no"))), pod_info(), cache)
    assert record.status.code is Code.ERROR
    assert record.status.message == 'running AddPod on PreFilter plugin "CountsPods": no'


def test_the_default_profile_leaves_room_too() -> None:
    cache = cluster("a", "b")
    expected(cache, "b", requests={"cpu": "3"})
    default = profiles_over(cache, default_configuration(), registry())["kscheduler"]
    assert schedule(default, pod_info(requests={"cpu": "2"}), cache).node_name == "a"


# --- what the watch says


@pytest.fixture
def harness() -> SchedulerHarness:
    return SchedulerHarness(profile(TurnsDown("F")), cluster("a", "b"))


@pytest.fixture
def pods(harness: SchedulerHarness) -> PodHandler:
    return harness.pod_handler


def parked(harness: SchedulerHarness) -> None:
    """The pod `parked` waits for something to happen."""
    harness.queue.add(pod_info("parked"), harness.clock.time())
    queued = harness.queue.pop_nowait(harness.clock.time())
    assert queued is not None
    queued.unschedulable_plugins = frozenset({"F"})
    harness.queue.requeue(queued, harness.clock.time())
    assert harness.where("default/parked") == "unschedulable"


def test_pending_pods_of_ours_are_nominated_as_their_status_says(harness: SchedulerHarness, pods: PodHandler) -> None:
    nominated = make_pod("p", **NOMINATED_TO_B)
    pods.on_add(nominated, initial=True)
    pods.on_add(make_pod("foreign", schedulerName="other", **NOMINATED_TO_B), initial=True)
    assert [pod.key for pod in harness.cache.nominator.nominated_pods("b")] == ["default/p"]
    pods.on_update(nominated, make_pod("p", status={"nominatedNodeName": "a"}))
    assert [pod.key for pod in harness.cache.nominator.nominated_pods("a")] == ["default/p"]
    assert harness.cache.nominator.nominated_pods("b") == ()


def test_a_pod_that_gets_its_node_is_nominated_no_more(harness: SchedulerHarness, pods: PodHandler) -> None:
    nominated = make_pod("p", **NOMINATED_TO_B)
    pods.on_add(nominated, initial=True)
    pods.on_update(nominated, make_pod("p", node="a", **NOMINATED_TO_B))
    assert len(harness.cache.nominator) == 0


@pytest.mark.parametrize("ends", ["deleted", "cleared", "moved"])
def test_whoever_yielded_is_tried_again_when_the_nomination_ends(
    harness: SchedulerHarness, pods: PodHandler, ends: str
) -> None:
    nominated = make_pod("p", **NOMINATED_TO_B)
    pods.on_add(nominated, initial=False)
    harness.queue.delete("default/p")
    parked(harness)
    if ends == "deleted":
        pods.on_delete(nominated)
    else:
        pods.on_update(nominated, make_pod("p", status={"nominatedNodeName": "a" if ends == "moved" else ""}))
    assert harness.where("default/parked") != "unschedulable"
    assert harness.cache.nominator.nominated_pods("b") == ()
