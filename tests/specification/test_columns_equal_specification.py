"""Whatever a cluster has been through, the columnar plugins say what the per-node specification says."""

from functools import partial
from typing import Any

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.core import Pod, PodSpec
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.config.plugin_args import (
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules.node_match import COMPARISON_OPERATORS
from kscheduler.framework.status import Code
from kscheduler.plugins.image_locality import ImageLocality
from kscheduler.plugins.node_affinity import NodeAffinity
from kscheduler.plugins.node_name import NodeName
from kscheduler.plugins.node_ports import NodePorts
from kscheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from kscheduler.plugins.node_resources_fit import NodeResourcesFit
from kscheduler.plugins.node_unschedulable import NodeUnschedulable
from kscheduler.plugins.taint_toleration import TaintToleration
from tests.specification import cases, rules, scores
from tests.specification.clusters import (
    IMAGE_SIZES,
    NODE_NAMES,
    Cluster,
    affinity_args,
    balanced_args,
    clusters,
    fit_args,
    pods,
    through_changes,
)
from tests.specification.requests_by_hand import request_of
from tests.specification.rules import LoggedFailure, Rule
from tests.specification.scores import Score

HANDLE: Any = Handle(None, None, None)  # type: ignore[arg-type]  # these plugins reach for nothing outside the table
judged_pods = st.sampled_from(["", "", "", NODE_NAMES[0]]).flatmap(lambda name: pods("judged", name))
random_picks = st.integers(0, 2 ** len(NODE_NAMES) - 1)


@st.composite
def crossed_pods(draw: st.DrawFn) -> list[Pod]:
    """Two pods and some that have each part of their spec from the one or the other, so that signatures meet."""
    one, other = draw(judged_pods), draw(judged_pods)
    crossed = []
    for number in range(3):
        parts = draw(st.fixed_dictionaries({name: st.sampled_from([one, other]) for name in PodSpec.__struct_fields__}))
        spec = PodSpec(**{name: getattr(parent.spec, name) for name, parent in parts.items()})
        crossed.append(Pod(metadata=ObjectMeta(name=f"crossed-{number}", uid=f"crossed-{number}"), spec=spec))
    return [one, other, *crossed]


examples = cases.examples("columns")


def tainted(compares: bool) -> TaintToleration:
    """With the gate TaintTolerationComparisonOperators on or off."""
    features = frozenset((COMPARISON_OPERATORS,)) if compares else frozenset()
    return TaintToleration(None, msgspec.structs.replace(HANDLE, features=features))


def some_rows(cluster: Cluster, pick: int) -> Rows:
    """Any subset of the rows: what earlier filters have left over."""
    rows = cluster.cache.nodes.rows()
    return rows[[bool(pick >> at & 1) for at in range(len(rows))]] if pick else rows


def verdicts(plugin: Any, cluster: Cluster, pod: PodInfo, rows: Rows) -> list[LoggedFailure]:
    """What a columnar filter says, told as the specification tells it."""
    state = CycleState()
    nodes = cluster.cache.nodes
    if hasattr(plugin, "pre_filter"):
        result = plugin.pre_filter(state, pod, nodes)
        if result.status.is_skip:
            return [None] * len(rows)
    codes = plugin.filter(state, pod, nodes, rows)
    if codes is None:
        return [None] * len(rows)
    assert codes.shape == rows.shape
    assert codes.dtype == np.int64
    reported = []
    for code in codes.tolist():
        status = plugin.status(state, code) if code else None
        if status is not None:
            assert status.plugin == plugin.name
            assert len(set(status.reasons)) == len(status.reasons)
        reported.append(None if status is None else (status.code is Code.UNSCHEDULABLE, frozenset(status.reasons)))
    return reported


def assert_filters_equal(plugin: Any, rule: Rule, cluster: Cluster, pod: Pod, rows: Rows) -> None:
    places = cluster.places()
    expected = [rule(pod, places[row]) for row in rows.tolist()]
    assert verdicts(plugin, cluster, PodInfo(pod), rows) == expected


def assert_scores_equal(plugin: Any, score: Score, cluster: Cluster, pod: Pod, rows: Rows) -> list[int]:
    places = cluster.places()
    points = points_of(plugin, cluster, PodInfo(pod), rows)
    assert points == [score(pod, places[row]) for row in rows.tolist()]
    return points


def points_of(plugin: Any, cluster: Cluster, pod: PodInfo, rows: Rows) -> list[int]:
    state = CycleState()
    if hasattr(plugin, "pre_score"):
        assert plugin.pre_score(state, pod, cluster.cache.nodes, rows).is_success
    points = plugin.score(state, pod, cluster.cache.nodes, rows)
    assert points.shape == rows.shape
    assert points.dtype == np.int64
    return list(points.tolist())


@examples
@given(st.data(), clusters(), judged_pods, random_picks, st.booleans())
def test_filters_that_take_no_arguments(
    data: st.DataObject, cluster: Cluster, pod: Pod, pick: int, compares: bool
) -> None:
    taints, by_hand = tainted(compares), partial(rules.taint_toleration, compares=compares)
    for _ in through_changes(data, cluster):
        rows = some_rows(cluster, pick)
        assert_filters_equal(NodeUnschedulable(None, HANDLE), rules.node_unschedulable, cluster, pod, rows)
        assert_filters_equal(NodeName(None, HANDLE), rules.node_name, cluster, pod, rows)
        assert_filters_equal(taints, by_hand, cluster, pod, rows)
        assert_filters_equal(NodePorts(None, HANDLE), rules.node_ports, cluster, pod, rows)
        cases.judged("columns")


@examples
@given(st.data(), clusters(), judged_pods, fit_args(), random_picks, st.booleans())
def test_resources_fit(
    data: st.DataObject, cluster: Cluster, pod: Pod, args: NodeResourcesFitArgs, pick: int, pod_level: bool
) -> None:
    behaviours = msgspec.structs.replace(HANDLE.behaviours, scores_pod_level_requests=pod_level)
    plugin = NodeResourcesFit(args, msgspec.structs.replace(HANDLE, behaviours=behaviours))
    if pod_level:
        pod = Pod(metadata=pod.metadata, spec=pod.spec)  # the specification knows resizes as 1.36 counts them
    for _ in through_changes(data, cluster):
        rows = some_rows(cluster, pick)
        assert_filters_equal(plugin, rules.node_resources_fit(args), cluster, pod, rows)
        specified = scores.node_resources_fit(args, pod_level=pod_level)
        points = assert_scores_equal(plugin, specified, cluster, pod, rows)
        assert all(0 <= one <= 100 for one in points)
        cases.judged("columns")


@examples
@given(st.data(), clusters(), judged_pods, balanced_args, random_picks)
def test_balanced_allocation(
    data: st.DataObject, cluster: Cluster, pod: Pod, args: NodeResourcesBalancedAllocationArgs, pick: int
) -> None:
    plugin = NodeResourcesBalancedAllocation(args, HANDLE)
    for _ in through_changes(data, cluster):
        rows = some_rows(cluster, pick)
        if not any(request_of(pod, resource.name, running=True) for resource in args.resources):
            assert plugin.pre_score(CycleState(), PodInfo(pod), cluster.cache.nodes, rows).is_skip
            return
        points = assert_scores_equal(plugin, scores.balanced_allocation(args), cluster, pod, rows)
        assert all(50 <= one <= 100 for one in points)
        cases.judged("columns")


@examples
@given(st.data(), clusters(), judged_pods, affinity_args, random_picks)
def test_node_affinity(data: st.DataObject, cluster: Cluster, pod: Pod, args: NodeAffinityArgs, pick: int) -> None:
    plugin = NodeAffinity(args, HANDLE)
    for _ in through_changes(data, cluster):
        rows = some_rows(cluster, pick)
        assert_affinity_filter_equal(plugin, args, cluster, pod, rows)
        assert_affinity_score_equal(plugin, args, cluster, pod, rows)
        cases.judged("columns")


def assert_affinity_filter_equal(
    plugin: NodeAffinity, args: NodeAffinityArgs, cluster: Cluster, pod: Pod, rows: Rows
) -> None:
    result = plugin.pre_filter(CycleState(), PodInfo(pod), cluster.cache.nodes)
    rule = rules.node_affinity(args)
    fitting = {place.node.metadata.name for place in cluster.places().values() if rule(pod, place) is None}
    if result.status.is_rejected:
        assert not fitting
        return
    if result.node_names is not None:
        assert fitting <= result.node_names
    assert_filters_equal(plugin, rule, cluster, pod, rows)


def assert_affinity_score_equal(
    plugin: NodeAffinity, args: NodeAffinityArgs, cluster: Cluster, pod: Pod, rows: Rows
) -> None:
    """A preferred term that cannot be parsed is an error of the whole pod, where a required one just does not match."""
    info, table = PodInfo(pod), cluster.cache.nodes
    preferred = scores.preferred_by(pod)
    added = args.added_affinity.preferred_during_scheduling_ignored_during_execution if args.added_affinity else ()
    if not all(rules.is_sound(term.preference) for term in preferred):
        assert plugin.pre_score(CycleState(), info, table, rows).code is Code.ERROR
    elif preferred or added:
        points = assert_scores_equal(plugin, scores.node_affinity(args), cluster, pod, rows)
        normal = plugin.normalize(CycleState(), info, rows, np.array(points, dtype=np.int64))
        assert normal.tolist() == scores.scaled(points)
    else:
        assert plugin.pre_score(CycleState(), info, table, rows).is_skip


@examples
@given(st.data(), clusters(), judged_pods, random_picks, st.booleans())
def test_taint_score_and_image_locality(
    data: st.DataObject, cluster: Cluster, pod: Pod, pick: int, compares: bool
) -> None:
    taints, by_hand = tainted(compares), partial(scores.taint_toleration, compares=compares)
    for _ in through_changes(data, cluster):
        rows = some_rows(cluster, pick)
        points = assert_scores_equal(taints, by_hand, cluster, pod, rows)
        normal = taints.normalize(CycleState(), PodInfo(pod), rows, np.array(points, dtype=np.int64))
        assert normal.tolist() == scores.scaled(points, reverse=True)
        images = scores.image_locality(cluster.nodes.values(), IMAGE_SIZES)
        assert_scores_equal(ImageLocality(None, HANDLE), images, cluster, pod, rows)
        cases.judged("columns")


@examples
@given(clusters(), crossed_pods(), fit_args(), balanced_args)
def test_equal_signatures_mean_equal_codes_and_points(
    cluster: Cluster, judged: list[Pod], args: NodeResourcesFitArgs, balanced: NodeResourcesBalancedAllocationArgs
) -> None:
    rows = cluster.cache.nodes.rows()
    plugins: list[Any] = [
        *(plugin(None, HANDLE) for plugin in (NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodePorts)),
        *(NodeResourcesFit(args, msgspec.structs.replace(HANDLE, behaviours=each)) for each in BEHAVIOURS.values()),
        NodeResourcesBalancedAllocation(balanced, HANDLE),
        ImageLocality(None, HANDLE),
    ]
    for plugin in plugins:
        seen: dict[Any, Any] = {}
        for pod in map(PodInfo, judged):
            answer = raw_answer(plugin, cluster, pod, rows)
            assert seen.setdefault((plugin.sign(pod), pod.namespace, frozenset(pod.labels.items())), answer) == answer


def raw_answer(plugin: Any, cluster: Cluster, pod: PodInfo, rows: Rows) -> tuple[Any, Any]:
    """Codes and raw points, or whether the plugin leaves them out."""
    nodes = cluster.cache.nodes
    state = CycleState()
    codes: Any = None
    if hasattr(plugin, "pre_filter"):
        result = plugin.pre_filter(state, pod, nodes)
        codes = (result.status, result.node_names)
    if hasattr(plugin, "filter") and (codes is None or codes[0].is_success):
        found = plugin.filter(state, pod, nodes, rows)
        codes = (codes, np.zeros(len(rows), dtype=np.int64).tolist() if found is None else found.tolist())
    points: Any = None
    if hasattr(plugin, "pre_score"):
        points = plugin.pre_score(state, pod, nodes, rows)
    if hasattr(plugin, "score") and (points is None or points.is_success):
        points = plugin.score(state, pod, nodes, rows).tolist()
    return codes, points
