"""Whatever a cluster has been through, PodTopologySpread in columns says what its per-node specification says."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.api.core import Pod
from kscheduler.api.releases import BEHAVIOURS, VERSION
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.plugin import UNSIGNABLE
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules.node_match import COMPARISON_OPERATORS
from kscheduler.framework.status import Code
from kscheduler.plugins.pod_topology_spread import PodTopologySpread
from kscheduler.scenario.listed_kinds import listed_workloads
from kscheduler.scenario.scenario import ClusterObjects
from tests.specification import cases
from tests.specification.rules import LoggedFailure
from tests.specification.spread.clusters import (
    NAMES,
    UIDS,
    Defaults,
    SpreadCluster,
    clusters,
    defaults,
    judged_pods,
    running_pods,
    steps,
)
from tests.specification.spread.rules import Wanted, Workloads, normal_points, raw_points, verdicts, wanted

examples = cases.examples("spread")
random_picks = st.integers(0, 2 ** len(NAMES) - 1)


def built(cluster: SpreadCluster, chosen: Defaults) -> PodTopologySpread:
    handle = Handle(
        cluster.cache,
        None,  # type: ignore[arg-type]  # nothing is bound
        None,  # type: ignore[arg-type]  # nobody waits
        counters=cluster.cache.counters,
        workloads=listed_workloads(as_objects(cluster.workloads)),
        features=frozenset((COMPARISON_OPERATORS,)) if chosen.compares else frozenset(),
        behaviours=replace(BEHAVIOURS[VERSION], empty_selectors_count_all_pods=chosen.counts_all),
    )
    return PodTopologySpread(chosen.args, handle)


def as_objects(workloads: Workloads) -> ClusterObjects:
    def of(kind: str) -> Any:
        return tuple(one for one in workloads.owners if type(one).__name__ == kind)

    return ClusterObjects(
        services=tuple(workloads.services),
        replicationcontrollers=of("ReplicationController"),
        replicasets=of("ReplicaSet"),
        statefulsets=of("StatefulSet"),
    )


def constraints_of(pod: Pod, action: str, chosen: Defaults, cluster: SpreadCluster) -> list[Wanted]:
    return wanted(
        pod,
        action,
        chosen.constraints,
        cluster.workloads,
        compares=chosen.compares,
        counts_all=chosen.counts_all,
    )


def some_rows(cluster: SpreadCluster, pick: int) -> Rows:
    """Any subset of the rows: what earlier filters have left over."""
    rows = cluster.cache.nodes.rows()
    return rows[[bool(pick >> at & 1) for at in range(len(rows))]] if pick else rows


def judged(plugin: PodTopologySpread, cycle: CycleState, pod: PodInfo, cluster: SpreadCluster, rows: Rows) -> Any:
    """What the columns say, told as the specification tells it."""
    codes = plugin.filter(cycle, pod, cluster.cache.nodes, rows)
    if codes is None:
        return [None] * len(rows)
    assert codes.shape == rows.shape
    assert codes.dtype == np.int64
    reported: list[LoggedFailure] = []
    for code in codes.tolist():
        status = plugin.status(cycle, code) if code else None
        reported.append(None if status is None else (status.code is Code.UNSCHEDULABLE, frozenset(status.reasons)))
    return reported


def assert_verdicts(plugin: PodTopologySpread, cluster: SpreadCluster, pod: Pod, chosen: Defaults, rows: Rows) -> bool:
    """Returns whether the pod has hard constraints."""
    constraints = constraints_of(pod, "DoNotSchedule", chosen, cluster)
    cycle, info = CycleState(), PodInfo(pod)
    status = plugin.pre_filter(cycle, info, cluster.cache.nodes).status
    assert status.is_skip == (not constraints)
    if constraints:
        expected = verdicts(pod, constraints, cluster.places(), {})
        assert judged(plugin, cycle, info, cluster, rows) == [expected[row] for row in rows.tolist()]
    return bool(constraints)


def assert_points(plugin: PodTopologySpread, cluster: SpreadCluster, pod: Pod, chosen: Defaults, rows: Rows) -> bool:
    """Returns whether the pod has soft constraints."""
    constraints = constraints_of(pod, "ScheduleAnyway", chosen, cluster)
    cycle, info, nodes = CycleState(), PodInfo(pod), cluster.cache.nodes
    assert plugin.pre_score(cycle, info, nodes, rows).is_skip == (not constraints)
    if constraints:
        needs_keys = bool(pod.spec.topology_spread_constraints) or not chosen.is_system
        expected = raw_points(pod, constraints, cluster.places(), rows.tolist(), needs_keys=needs_keys)
        raw = plugin.score(cycle, info, nodes, rows)
        assert raw.dtype == np.int64
        assert raw.tolist() == [one or 0 for one in expected]
        assert plugin.normalize(cycle, info, rows, raw).tolist() == normal_points(expected)
    return bool(constraints)


@examples
@given(st.data(), clusters(), judged_pods(), defaults, random_picks)
def test_verdicts_and_points_through_a_history(
    data: st.DataObject, cluster: SpreadCluster, pod: Pod, chosen: Defaults, pick: int
) -> None:
    """Asked before and after each change, so that the counters are judged that follow it."""
    plugin = built(cluster, chosen)
    for _ in range(data.draw(st.integers(0, 4)) + 1):
        rows = some_rows(cluster, pick)
        is_filtered = assert_verdicts(plugin, cluster, pod, chosen, rows)
        is_scored = len(rows) > 0 and assert_points(plugin, cluster, pod, chosen, rows)
        cases.judged("spread", int(is_filtered or is_scored))
        data.draw(steps(cluster))


@examples
@given(st.data(), clusters(), judged_pods(), defaults)
def test_nominated_pods_count_as_if_they_were_there(
    data: st.DataObject, cluster: SpreadCluster, pod: Pod, chosen: Defaults
) -> None:
    constraints = constraints_of(pod, "DoNotSchedule", chosen, cluster)
    if not constraints:
        return
    plugin, cycle, info, nodes = built(cluster, chosen), CycleState(), PodInfo(pod), cluster.cache.nodes
    plugin.pre_filter(cycle, info, nodes)
    row = data.draw(st.sampled_from(nodes.rows().tolist()))
    added = [data.draw(running_pods(uid)) for uid in data.draw(st.lists(st.sampled_from(UIDS), min_size=1, max_size=3))]
    copied = cycle.copy()
    for one in added:
        plugin.add_pod(copied, info, PodInfo(one), nodes, row)
    for state, more in ((copied, {row: added}), (cycle, {})):
        assert_equal(
            judged(plugin, state, info, cluster, nodes.rows()), verdicts(pod, constraints, cluster.places(), more)
        )
        cases.judged("spread")


def assert_equal(reported: Sequence[LoggedFailure], expected: Mapping[int, LoggedFailure]) -> None:
    assert reported == [expected[row] for row in sorted(expected)]


@examples
@given(st.data(), clusters(), judged_pods(), judged_pods(), defaults)
def test_equal_signatures_mean_equal_codes_and_points(
    data: st.DataObject, cluster: SpreadCluster, one: Pod, other: Pod, chosen: Defaults
) -> None:
    """The second pod takes parts of the first, so that signatures meet."""
    parts = {name: getattr(data.draw(st.sampled_from([one, other])).spec, name) for name in one.spec.__struct_fields__}
    metadata = data.draw(st.sampled_from([one.metadata, other.metadata]))
    mixed = Pod(metadata=metadata, spec=type(one.spec)(**parts))
    plugin = built(cluster, chosen)
    seen: dict[Any, Any] = {}
    for pod in map(PodInfo, (one, other, mixed)):
        answer = raw_answer(plugin, cluster, pod)
        if plugin.sign(pod) is UNSIGNABLE:
            continue  # it shares nothing with anybody
        assert seen.setdefault((plugin.sign(pod), pod.namespace, frozenset(pod.labels.items())), answer) == answer


def raw_answer(plugin: PodTopologySpread, cluster: SpreadCluster, pod: PodInfo) -> Any:
    nodes, cycle = cluster.cache.nodes, CycleState()
    rows = nodes.rows()
    codes = points = None
    if plugin.pre_filter(cycle, pod, nodes).status.is_success:
        codes = judged(plugin, cycle, pod, cluster, rows)
    if plugin.pre_score(cycle, pod, nodes, rows).is_success:
        points = plugin.normalize(cycle, pod, rows, plugin.score(cycle, pod, nodes, rows)).tolist()
    return codes, points
