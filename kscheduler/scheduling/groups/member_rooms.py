"""How many more members of a group each node takes: the engine's filters say where, the columns how many.

Members that are alike are judged once, as they would be without a nomination, and without the rules that the placement
of other members may satisfy (affinity to pods, an even spread). What they request divides what is free; of members that
differ the least of each resource counts. So the number is never too low; it may be too high, as room that members take
from each other is not known: the trial of the group tells.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kscheduler.api.core import TopologySpreadConstraint
from kscheduler.api.well_known import HOSTNAME
from kscheduler.framework.cluster.pod_groups import CycleOfGroup
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.spread_constraint import DO_NOT_SCHEDULE, SCHEDULE_ANYWAY
from kscheduler.scheduling.groups.group_cycle import GroupInputs, do_not_wait_for_each_other
from kscheduler.scheduling.profile import Profile

# So many kinds of members are judged; with more, every node counts as one that all filters pass.
MAX_SHAPES: Final = 8
# A node may allow any number of pods; the rooms of all nodes are added.
_MOST: Final = 1 << 32
_HARMLESS: Final = TopologySpreadConstraint(max_skew=1, topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY)


def rooms_for_members(inputs: GroupInputs, rows: Rows) -> NDArray[np.int64]:
    """How many members each of the rows takes at most, an int64 per row.

    Nominations of members are not as before: `do_not_wait_for_each_other`.
    """
    do_not_wait_for_each_other(inputs.cache.nominator, inputs.members)
    shapes = _shapes(inputs.members)
    nodes = inputs.cache.nodes
    rooms = nodes.allowed_pods[rows] - nodes.pod_count[rows]
    for name, amount in _least_requests(shapes).items():
        free = nodes.amounts(nodes.allocatable, name, rows) - nodes.amounts(nodes.requested, name, rows)
        rooms = np.minimum(rooms, free // amount)
    if all(_excludes_its_like(pod) for pod in shapes):
        rooms = np.minimum(rooms, 1)
    if len(shapes) <= MAX_SHAPES:
        rooms = np.where(_passing(inputs, shapes, rows), rooms, 0)
    # Not cut to the number of members: of two domains that hold the group the one with less room is the tighter.
    most: NDArray[np.int64] = np.clip(rooms, 0, _MOST)
    return most


def _shapes(members: Iterable[PodInfo]) -> list[PodInfo]:
    """One of each kind of members: those with equal specs; one more than are judged, at most."""
    shapes: list[PodInfo] = []
    for pod in members:
        spec = pod.pod.spec
        # Informers share equal specs, so that most comparisons end at once.
        if not any(spec is shape.pod.spec or spec == shape.pod.spec for shape in shapes):
            shapes.append(pod)
            if len(shapes) > MAX_SHAPES:
                break
    return shapes


def _least_requests(shapes: Sequence[PodInfo]) -> dict[str, int]:
    """The resources that every one of them requests, with the least amount."""
    if len(shapes) > MAX_SHAPES:
        return {}
    names = set.intersection(*(set(pod.requests) for pod in shapes))
    least = {name: min(pod.requests[name] for pod in shapes) for name in sorted(names)}
    return {name: amount for name, amount in least.items() if amount > 0}


def _excludes_its_like(pod: PodInfo) -> bool:
    """Whether no two such pods may be on one node."""
    if pod.host_ports:
        return True
    terms = pod.affinity_terms.required_anti_affinity
    labels, namespace = pod.pod.metadata.labels, pod.pod.metadata.namespace
    return any(
        term.topology_key == HOSTNAME and term.match.names(namespace, None) and term.match.selects(labels)
        for term in terms
    )


def _passing(inputs: GroupInputs, shapes: Sequence[PodInfo], rows: Rows) -> NDArray[np.bool_]:
    """Which of the rows pass the filters of some member."""
    nodes: NodeTable = inputs.cache.nodes
    passing = np.zeros(nodes.capacity, dtype=np.bool_)
    within = None if len(rows) == len(nodes) else rows
    for pod in shapes:
        alone = _on_its_own(pod)
        if _has_hard_defaults(inputs.profile, alone):
            alone = _without_default_constraints(alone)
        record = inputs.judge(alone, within, CycleOfGroup())
        if record.status.is_success and record.num_evaluated_nodes < record.num_all_nodes:
            return np.ones(len(rows), dtype=np.bool_)  # a sampled search knows some of the nodes only
        passing[record.feasible] = True
    return passing[rows]


def _on_its_own(pod: PodInfo) -> PodInfo:
    """The pod without what keeps it from nodes that it may pass once other members are placed."""
    spec, status = pod.pod.spec, pod.pod.status
    if status.nominated_node_name:  # else this node alone would be judged
        status = replace(status, nominated_node_name="")
    if spec.affinity is not None and spec.affinity.pod_affinity is not None:
        spec = replace(spec, affinity=replace(spec.affinity, pod_affinity=None))
    if any(each.when_unsatisfiable == DO_NOT_SCHEDULE for each in spec.topology_spread_constraints):
        # Not without constraints: a pod that has none gets those of the configuration.
        softer = [replace(each, when_unsatisfiable=SCHEDULE_ANYWAY) for each in spec.topology_spread_constraints]
        spec = replace(spec, topology_spread_constraints=tuple(softer))
    if spec is pod.pod.spec and status is pod.pod.status:
        return pod
    return PodInfo(replace(pod.pod, spec=spec, status=status))


def _has_hard_defaults(profile: Profile, pod: PodInfo) -> bool:
    """Whether constraints of the configuration may reject nodes for the pod."""
    telling: Iterable[Any] = (each for each in profile.instances if profile.traits[each.name].says_if_defaults_reject)
    return any(plugin.rejects_by_defaults(pod) for plugin in telling)


def _without_default_constraints(pod: PodInfo) -> PodInfo:
    """The pod with a constraint of its own that rejects no node and counts no pods."""
    spec = replace(pod.pod.spec, topology_spread_constraints=(_HARMLESS,))
    return PodInfo(replace(pod.pod, spec=spec))
