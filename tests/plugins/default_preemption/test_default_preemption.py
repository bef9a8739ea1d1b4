"""DefaultPreemption: who may preempt, how many nodes are tried out, what it wants done, what a faulty plugin spoils."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.api.releases import BEHAVIOURS, VERSION
from kscheduler.config.plugin_args import DefaultPreemptionArgs
from kscheduler.framework.cluster.preemption import PreemptionSearch
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_run import DryRun
from kscheduler.framework.events import QueueingHint
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.nodes.pod_columns import PodColumns
from kscheduler.framework.plugin import Plugin, PreFilterResult
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Code
from kscheduler.informers.store import Store
from kscheduler.plugins.default_preemption import DefaultPreemption
from kscheduler.plugins.default_preemption.budgets import BudgetRules
from kscheduler.plugins.default_preemption.choice import Candidates, Shortlist
from kscheduler.plugins.default_preemption.victims import VictimSearch
from kscheduler.plugins.node_resources_fit import NodeResourcesFit
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.eviction.disruption_budgets import StoredBudgets
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.cache import Cache
from tests.builders import make_node, make_pod, pod_info
from tests.scheduling.eviction.stage import Stage
from tests.scheduling.plugins_for_tests import profile


class UnderWay:
    """Preemptions under way, as a test wants them. Implements `Evictions`."""

    def __init__(self) -> None:
        self.busy: set[str] = set()
        self.clearing: set[tuple[str, str]] = set()
        """Nodes, and the UIDs of those who wait there."""

    def is_under_way(self, uid: str) -> bool:
        return uid in self.busy

    def has_any(self) -> bool:
        return bool(self.busy)

    def is_clearing(self, node_name: str, waiting: PodInfo) -> bool:
        return (node_name, waiting.uid) in self.clearing

    def nearly_done(self) -> tuple[str, ...]:
        return ()


class World:
    """A cluster of nodes with 2 cpu, and a profile with NodeResourcesFit and preemption."""

    def __init__(self, *more: Plugin, args: DefaultPreemptionArgs | None = None, version: str = VERSION) -> None:
        self.cache = Cache(BEHAVIOURS[version])
        self.evictions = UnderWay()
        self.budgets: Store[PodDisruptionBudget] = Store()
        self.handle = Handle(
            self.cache,
            None,  # type: ignore[arg-type]  # nobody binds here
            None,  # type: ignore[arg-type]
            nominator=self.cache.nominator,
            budgets=StoredBudgets(self.budgets),
            evictions=self.evictions,
            behaviours=BEHAVIOURS[version],
        )
        self.plugin = DefaultPreemption(args, self.handle)
        self._profile = profile(NodeResourcesFit(None, self.handle), *more)

    def node(self, name: str, *priorities: int, status: dict[str, Any] | None = None, **spec: Any) -> None:
        """A node with a pod of 1 cpu for each priority, named after node and place."""
        self.cache.add_node(make_node(name, cpu="2", spec=spec))
        for place, priority in enumerate(priorities):
            pod_name = f"{name}-{place}"
            pod = make_pod(pod_name, node=name, priority=priority, requests={"cpu": "1"}, labels={"on": name})
            self.cache.add_pod(with_status(pod, status) if status else pod)

    def budget(self, on: str, allowed: int, selector: dict[str, Any] | None = None) -> None:
        """The node's pods have a budget, or those that a selector of its own matches."""
        tree = {
            "metadata": {"name": on, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"on": on}} if selector is None else selector},
            "status": {"disruptionsAllowed": allowed},
        }
        self.budgets.put(f"default/{on}", convert(tree, PodDisruptionBudget))

    def profile(self) -> Profile:
        return replace(self._profile, post_filter=(self.plugin,))

    def preempt(self, pod: PodInfo | None = None) -> SchedulingRecord:
        return schedule(self.profile(), pod or preemptor(), self.cache)


def with_status(pod: Pod, status: dict[str, Any]) -> Pod:
    tree = dict(status)
    pod.metadata.deletion_timestamp = tree.pop("deletionTimestamp", None)
    return Pod(metadata=pod.metadata, spec=pod.spec, status=convert(tree, type(pod.status)))


def preemptor(name: str = "new", **fields: Any) -> PodInfo:
    return pod_info(name, **{"priority": 10, "requests": {"cpu": "1"}, **fields})


def names(record: SchedulingRecord) -> list[str]:
    search = record.state.find(PreemptionSearch)
    return [] if search is None else [pod.name for pod in search.chosen.victims]


# --- who may ----------------------------------------------------------------------------------------------------------

DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "conditions": [DISRUPTED]}
ON_ITS_WAY = "preemption: not eligible due to a terminating pod on the nominated node."


def test_a_pod_that_must_never_preempt_does_not() -> None:
    world = World()
    world.node("a", 0, 0)
    record = world.preempt(preemptor(preemptionPolicy="Never"))
    assert record.post_filter_message == "preemption: not eligible due to preemptionPolicy=Never."
    assert (record.nominated_node_name, record.preemption) == (None, None)


@pytest.mark.parametrize(
    ("status", "priority", "may"),
    [
        (LEAVING, 0, False),
        (LEAVING, 10, True),
        ({"deletionTimestamp": LEAVING["deletionTimestamp"]}, 0, True),
        ({"conditions": [DISRUPTED]}, 0, True),
        ({**LEAVING, "conditions": [{**DISRUPTED, "status": "False"}]}, 0, True),
        ({**LEAVING, "conditions": [{**DISRUPTED, "reason": "EvictionByEvictionAPI"}]}, 0, True),
    ],
    ids=["its victim leaves", "a more important pod leaves", "deleted by hand", "stays", "condition false", "evicted"],
)
def test_a_preemptor_waits_while_a_victim_leaves_the_node_it_is_nominated_to(
    status: dict[str, Any], priority: int, may: bool
) -> None:
    world = World()
    world.node("a", priority, priority, status=status)
    world.node("b", 0, 0)
    record = world.preempt(preemptor(status={"nominatedNodeName": "a"}))
    assert record.status.code is Code.UNSCHEDULABLE
    assert (record.post_filter_message != ON_ITS_WAY) is may
    assert (record.preemption is not None) is may


def test_a_preemptor_waits_while_its_node_is_cleared_for_another_one_beside_it() -> None:
    world, pod = World(), preemptor(status={"nominatedNodeName": "a"})
    world.node("a", 0, 0)
    world.node("b", 0, 0)
    world.evictions.clearing.add(("a", pod.uid))
    record = world.preempt(pod)
    reported = "not eligible due to a pod on the nominated node that is about to be preempted."
    assert record.post_filter_message == f"preemption: {reported}"
    assert (record.nominated_node_name, record.preemption) == (None, None)
    assert world.preempt(preemptor("other")).nominated_node_name, "whoever is expected nowhere chooses"


def test_a_nomination_to_a_node_that_no_preemption_helps_is_no_reason_to_wait() -> None:
    world = World()
    world.node("small", 0, status=LEAVING)
    world.cache.add_node(make_node("small", cpu="500m"))
    world.node("b", 0, 0)
    for nominated in ("small", "gone"):
        record = world.preempt(preemptor(status={"nominatedNodeName": nominated}))
        assert record.nominated_node_name == "b"


# --- what it wants done -----------------------------------------------------------------------------------------------


def test_the_cycle_says_subject_to_evict_and_does_nothing_about_it() -> None:
    """It is called outside of any event loop, so it could not even start a task."""
    world, stage = World(), Stage()
    world.plugin = DefaultPreemption(None, msgspec.structs.replace(world.handle, evictions=stage.evictions))
    world.node("a", 0, 0)
    pod = preemptor()
    record = world.preempt(pod)
    assert record.preemption is not None
    assert (record.preemption.preemptor, record.preemption.node_name) == (pod, "a")
    assert (len(stage.evictions), stage.evictions.is_under_way(pod.uid)) == (0, False)
    assert world.preempt(pod).preemption == record.preemption, "so it can be asked again"


def test_the_victims_are_handed_over_with_those_who_lose_their_nomination() -> None:
    world = World()
    world.node("a", 5, 1)
    for name, priority in (("lower", 9), ("equal", 10)):
        asks = {"cpu": "0"} if name == "equal" else {"cpu": "1"}
        waiting = pod_info(name, priority=priority, requests=asks, status={"nominatedNodeName": "a"})
        world.cache.nominator.add(waiting)
    record = world.preempt()
    wanted = record.preemption
    assert wanted is not None
    assert (wanted.node_name, wanted.plugin, wanted.preemptor.name) == ("a", "DefaultPreemption", "new")
    assert [pod.name for pod in wanted.victims] == names(record) == ["a-1"]
    assert [pod.name for pod in wanted.outbid] == ["lower"]
    assert (record.nominated_node_name, record.message) == ("a", "0/1 nodes are available: 1 Insufficient cpu.")


def test_where_nothing_helps_the_nomination_is_taken_back_and_each_node_has_its_reason() -> None:
    world = World()
    world.node("important", 10, 10)
    world.node("tiny", 0)
    world.cache.add_node(make_node("tiny", cpu="500m"))
    record = world.preempt()
    reported = "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
    assert record.post_filter_message == f"preemption: 0/2 nodes are available: {reported}"
    assert (record.nominated_node_name, record.preemption) == ("", None)


def test_a_preemptor_stays_out_of_the_queue_while_its_victims_are_taken_away() -> None:
    world, pod = World(), preemptor()
    assert world.plugin.pre_enqueue(pod) == SUCCESS
    world.evictions.busy.add(pod.uid)
    gate = world.plugin.pre_enqueue(pod)
    assert gate.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert gate.message == "waiting for the preemption for this pod to be finished"


def test_no_deletion_wakes_a_pod_for_preemptions_sake() -> None:
    (only,) = World().plugin.events_to_register()
    assert only.hint is not None
    assert only.hint(preemptor(), make_pod("gone", node="a"), None) is QueueingHint.SKIP


def test_priority_and_policy_are_what_it_reads_of_a_pod() -> None:
    sign = World().plugin.sign
    assert sign(preemptor("one")) == sign(preemptor("other"))
    assert len({sign(preemptor()), sign(preemptor(priority=11)), sign(preemptor(preemptionPolicy="Never"))}) == 3


# --- budgets ----------------------------------------------------------------------------------------------------------


def test_a_node_whose_budget_allows_it_is_preferred_however_important_its_victims() -> None:
    world = World()
    world.node("a", 0, 0)
    world.node("b", 9, 9)
    world.budget("a", 0)
    assert names(world.preempt()) == ["b-1"]
    world.budget("a", 1)
    assert names(world.preempt()) == ["a-0"]  # the second would break it, so that one comes back first


def test_a_budget_that_changes_is_read_anew_and_one_that_goes_protects_nobody() -> None:
    world = World()
    world.node("a", 0, 0)
    world.node("b", 9, 9)
    world.budget("a", 0)
    assert world.preempt().nominated_node_name == "b"
    world.budgets.remove("default/a")
    assert world.preempt().nominated_node_name == "a"


@pytest.mark.parametrize("selector", [{}, {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}])
def test_from_1_38_a_budget_protects_what_its_selector_matches_also_pods_without_labels(
    selector: dict[str, Any],
) -> None:
    """(1.38: D2) The pod of the other namespace is not the budget's, so that its node is chosen: only from 1.38 on."""
    chosen = {}
    for version in ("1.37", "1.38"):
        world = World(version=version)
        for name, priority, namespace in (("a", 0, "default"), ("b", 1, "other")):
            world.cache.add_node(make_node(name, cpu="1"))
            pod = make_pod(f"{name}-0", node=name, priority=priority, requests={"cpu": "1"}, namespace=namespace)
            world.cache.add_pod(pod)
        world.budget("a", 0, selector)
        candidates = world.preempt().state.read(PreemptionSearch)
        chosen[version] = candidates.chosen.node_name
        broken = {one.node_name: one.broken_budgets for one in candidates.candidates()}
        assert broken == {"a": int(version == "1.38"), "b": 0}
    assert chosen == {"1.37": "a", "1.38": "b"}


def test_from_1_38_an_empty_selector_protects_pods_with_labels_too_and_none_protects_nobody() -> None:
    """(1.38: D2)"""
    for version, broken in (("1.37", 0), ("1.38", 1)):
        world = World(version=version)
        world.node("a", 0, 0)
        world.budget("a", 0, {})
        (candidate,) = world.preempt().state.read(PreemptionSearch).candidates()
        assert candidate.broken_budgets == broken
        world.budgets.put(
            "default/a", convert({"metadata": {"namespace": "default", "name": "a"}}, PodDisruptionBudget)
        )
        (candidate,) = world.preempt().state.read(PreemptionSearch).candidates()
        assert candidate.broken_budgets == 0


@pytest.mark.parametrize("version", BEHAVIOURS)
def test_of_pods_that_started_together_or_not_yet_the_smaller_uid_is_the_more_important(version: str) -> None:
    """(1.38: D3, D4) A pod without a start counts as started in 2262, after all others that have one."""
    world = World(version=version)
    world.cache.add_node(make_node("a", cpu="3"))
    at = {"b": "2026-01-01T00:00:00Z", "a": None, "c": None}
    for uid, start in at.items():
        pod = make_pod(f"pod-{uid}", uid=uid, node="a", requests={"cpu": "1"})
        world.cache.add_pod(with_status(pod, {"startTime": start} if start else {}))
    assert names(world.preempt()) == ["pod-c"]
    assert names(world.preempt(preemptor(requests={"cpu": "2"}))) == ["pod-a", "pod-c"]
    late = make_pod("pod-d", uid="d", node="a", requests={"cpu": "1"})
    world.cache.add_node(make_node("a", cpu="4"))
    world.cache.add_pod(with_status(late, {"startTime": "2263-01-01T00:00:00Z"}))
    assert names(world.preempt()) == ["pod-d"]


def test_budgets_of_a_namespace_come_in_the_order_of_their_names() -> None:
    store: Store[PodDisruptionBudget] = Store()
    budgets = StoredBudgets(store)
    for key in ("default/b", "other/a", "default/a"):
        namespace, name = key.split("/")
        store.put(key, convert({"metadata": {"namespace": namespace, "name": name}}, PodDisruptionBudget))
    assert [one.key for one in budgets.of_namespace("default")] == ["default/a", "default/b"]
    assert not budgets.of_namespace("absent")


# --- how many nodes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("percentage", "absolute", "tried"),
    [(10, 0, 8), (0, 3, 3), (50, 10, 40), (10, 100, 80), (100, 0, 80)],
    ids=["a share", "a number", "the larger", "all there are", "all"],
)
def test_so_many_candidates_are_looked_for(percentage: int, absolute: int, tried: int) -> None:
    world = World(
        args=DefaultPreemptionArgs(min_candidate_nodes_percentage=percentage, min_candidate_nodes_absolute=absolute)
    )
    for number in range(80):
        world.node(f"node-{number:02}", 0, 0)
    search = world.preempt().state.read(PreemptionSearch)
    found = [one.node_name for one in search.candidates()]
    assert len(found) == tried
    assert search.chosen.node_name in found


def test_the_same_pod_looks_at_the_same_nodes_each_time_and_another_pod_at_others() -> None:
    world = World(args=DefaultPreemptionArgs(min_candidate_nodes_percentage=0, min_candidate_nodes_absolute=5))
    for number in range(40):
        world.node(f"node-{number:02}", 0, 0)

    def looked_at(name: str) -> list[str]:
        return [one.node_name for one in world.preempt(preemptor(name)).state.read(PreemptionSearch).candidates()]

    assert looked_at("one") == looked_at("one")
    assert len({tuple(looked_at(f"pod-{number}")) for number in range(8)}) > 1


def test_the_search_goes_on_until_a_candidate_breaks_no_budget() -> None:
    world = World(args=DefaultPreemptionArgs(min_candidate_nodes_percentage=0, min_candidate_nodes_absolute=2))
    for number in range(90):
        world.node(f"node-{number:02}", 0, 0)
        world.budget(f"node-{number:02}", int(number == 44))
    record = world.preempt()
    assert record.nominated_node_name == "node-44"
    broken = [one.broken_budgets for one in record.state.read(PreemptionSearch).candidates()]
    assert sorted(broken) == [0, 1, 1]  # upstream's list of those that break one holds two as well


@pytest.mark.parametrize("size", [1, 3, 7])
def test_the_size_of_a_batch_decides_nothing(size: int) -> None:
    """Found in ring order: breaking, breaking, clean, breaking, clean ..., and three are wanted."""
    world = World(args=DefaultPreemptionArgs(min_candidate_nodes_percentage=100, min_candidate_nodes_absolute=0))
    for number in range(7):
        world.node(f"node-{number}", 0, 0)
        world.budget(f"node-{number}", number % 3 // 2)
    found = all_candidates(world)
    shortlist, rows, kept = Shortlist(3), world.cache.nodes.rows(), []
    for at in range(0, 7, size):
        batch = rows[at : at + size]
        if not shortlist.is_full:
            kept += shortlist.take(batch, [found.kept(np.isin(found.rows, batch))])
    assert np.concatenate([one.rows for one in kept]).tolist() == rows[:3].tolist()
    assert shortlist.is_full


def all_candidates(world: World) -> Candidates:
    """Every node as a candidate."""
    cycle = world.preempt().state
    rows = world.cache.nodes.rows()
    search = VictimSearch(
        preemptor(), world.cache.nodes, cycle, cycle.read(DryRun), PodColumns(), BudgetRules(world.handle.budgets)
    )
    (found,) = search.on(rows).found
    return found


# --- faults -----------------------------------------------------------------------------------------------------------


class Faulty(Plugin):
    """A filter, and counts of pods, that die on some nodes once their pods are gone."""

    name = "Faulty"

    def __init__(self, *nodes: str, counts: bool = False) -> None:
        self.nodes = nodes
        if counts:
            self.add_pod = self._count
            self.remove_pod = self._count

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        return PreFilterResult(SUCCESS)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        for row in rows.tolist():
            if nodes.name_of(row) in self.nodes and not nodes.info(row).pods:
                raise ValueError(f"{nodes.name_of(row)} is empty")
        return np.zeros(len(rows), dtype=np.int64)

    def _count(self, cycle: CycleState, pod: PodInfo, other: PodInfo, nodes: NodeTable, row: int) -> None:
        if nodes.name_of(row) in self.nodes:
            raise ValueError(f"cannot count {other.name}")


def test_a_filter_that_fails_on_one_node_spoils_that_node_only() -> None:
    world = World(Faulty("a"))
    world.node("a", 0, 0)
    world.node("b", 5, 5)
    record = world.preempt()
    assert (record.nominated_node_name, names(record)) == ("b", ["b-1"])


def test_where_only_errors_are_left_they_are_reported_and_the_nomination_stays() -> None:
    world = World(Faulty("a", "b"))
    world.node("a", 0, 0)
    world.node("b", 5, 5)
    record = world.preempt()
    assert record.post_filter is not None
    assert record.post_filter.code is Code.ERROR
    both = ", ".join(f'running "Faulty" filter plugin: {name} is empty' for name in ("a", "b"))
    assert record.post_filter_message == f"preemption: [{both}]"
    assert record.nominated_node_name is None


def test_a_count_that_fails_spoils_its_node_only() -> None:
    world = World(Faulty("a", counts=True))
    world.node("a", 0, 0)
    assert world.preempt().post_filter_message == (
        'preemption: running RemovePod on PreFilter plugin "Faulty": cannot count a-0'
    )
    world.node("b", 5, 5)
    assert world.preempt().nominated_node_name == "b"


class Fickle(Plugin):
    """Rejects all nodes, until it is asked a second time."""

    name = "Fickle"
    reasons = {1: "not at first"}  # noqa: RUF012

    def __init__(self) -> None:
        self.queried = 0

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        self.queried += 1
        return np.full(len(rows), int(self.queried == 1), dtype=np.int64)


@pytest.mark.parametrize(
    ("version", "message", "nominated"),
    [
        ("1.37", 'preemption: expected at least one victim pod on node "a"', None),
        (
            "1.38",
            "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
            "",
        ),
    ],
)
def test_a_node_where_the_pod_fits_without_a_victim_is_no_preemption(
    version: str, message: str, nominated: str | None
) -> None:
    """(1.38: D6) Until 1.37 an error."""
    world = World(Fickle(), version=version)
    world.node("a", 0)
    record = world.preempt()
    assert record.post_filter_message == message
    assert (record.preemption, record.nominated_node_name) == (None, nominated)
