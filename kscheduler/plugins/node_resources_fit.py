"""NodeResourcesFit: a node must have room for what the pod requests, and some nodes with room are better than others.

A code is a set of bits, one per resource that is lacking; it is negative where the node could not hold the pod even if
it were empty. The reasons follow from the code and the pod's resource names alone, so no text is built while nodes are
judged. An extended resource that a class of devices stands for is left to DynamicResources where a node lists none of
it; where the strategy names such a resource, the points count its devices there.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import nsmallest
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Node, Pod
from kscheduler.api.devices import IMPLICIT_EXTENDED_RESOURCE, DeviceClass
from kscheduler.api.meta import KubeObject
from kscheduler.api.quantity import MAX_INT64
from kscheduler.config.feature_gates import RESIZE_PREEMPTION
from kscheduler.config.plugin_args import (
    DEFAULT_RESOURCES,
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    NodeResourcesFitArgs,
    ScoringStrategy,
)
from kscheduler.framework.cluster.device_amounts import device_amounts
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.framework.cluster.preemption import ProposedPlacement
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_info import allocatable_amounts
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.nodes.row_index import compact, side_by_side, values_at
from kscheduler.framework.plugin import PASS_ALL, UNSIGNABLE, Plugin, PreFilterResult, Source, status_of_code
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    Requests,
    Resizing,
    accounted_requests,
    is_extended,
    resize_is_deferred,
)
from kscheduler.framework.reasons.details import Detail
from kscheduler.framework.reasons.wording import amount_text
from kscheduler.framework.rules.scoring import (
    Usage,
    by_shape,
    least_allocated,
    most_allocated,
    points_by_utilization,
    sum_over,
    usage,
)
from kscheduler.framework.status import SUCCESS, Status

_NATIVE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
# How many bits of a positive int64 code are used; a pod with more resources gets numbered sets of bits instead.
_MAX_BITS: Final = 62
_NONE: Final[frozenset[str]] = frozenset()
# Nodes that an explanation names for each resource.
_CLOSEST: Final = 3

Strategy = Callable[[Usage], Scores]
# A bit; bool [rows], where that resource is short; bool [rows], where even the empty node would be too small.
Lack = tuple[int, NDArray[np.bool_], NDArray[np.bool_]]


class NodeResourcesFit(Plugin):
    """Rejects nodes without room; scores by one of three strategies."""

    name = "NodeResourcesFit"
    depends_on = (Source.AMOUNTS,)
    reads_spec_only = True
    hints_by_spec = True
    judges_without_labels = True

    def __init__(self, args: NodeResourcesFitArgs | None, handle: Handle) -> None:
        self._handle = handle
        self._devices = handle.devices if "DRAExtendedResource" in handle.features else None
        args = args or NodeResourcesFitArgs()
        self._counts_resizes = RESIZE_PREEMPTION in handle.features
        self._resizing = Resizing.BY_POD if handle.behaviours.sums_whole_resizes else Resizing.BY_CONTAINER
        by_pod = handle.behaviours.scores_pod_level_requests
        self._presumed: Callable[[PodInfo], Requests] = attrgetter(
            "nonzero_pod_requests" if by_pod else "nonzero_requests"
        )
        """What the score presumes that a pod requests."""
        self._wakes_nominated = handle.behaviours.shrunken_nodes_wake_nominated_pods
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        strategy = args.scoring_strategy or ScoringStrategy(LEAST_ALLOCATED)
        self._strategy = _strategy(strategy)
        resources = strategy.resources or DEFAULT_RESOURCES
        self._resources = tuple((resource.name, resource.weight or 1) for resource in resources)
        self._device_amounts = device_amounts(
            (resource.name for resource in resources),
            handle.devices,
            lambda: handle.view.nodes,
            handle.features,
            handle.behaviours.version,
        )

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Room appears when a pod goes or shrinks, a node is added or grows, or devices stand for a resource."""
        pod = ClusterEvent(Resource.POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN)
        node = ClusterEvent(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE)
        usual = ClusterEventWithHint(pod, self._after_pod_change), ClusterEventWithHint(node, self._after_node_change)
        return (*usual, *self._device_events(), *self._resize_events())

    def _device_events(self) -> Iterator[ClusterEventWithHint]:
        if self._devices is not None:
            device_class = ClusterEvent(Resource.DEVICE_CLASS, ActionType.ADD | ActionType.UPDATE)
            yield ClusterEventWithHint(device_class, _after_class_change)

    def _resize_events(self) -> Iterator[ClusterEventWithHint]:
        """A resize that has grown, or lost its room to another one, may need a preemption now."""
        if self._counts_resizes:
            for resource in (Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD):
                yield ClusterEventWithHint(ClusterEvent(resource, ActionType.UPDATE_POD_SCALE_UP), _after_growth)

    def sign(self, pod: PodInfo) -> Hashable:
        """The pod's requests, the requests that scoring assumes, and the resources that hints check.

        Its nominated node is not part of it: only hints about nodes read that, and whoever shares their answers knows
        (`state.queue.gated_pods`).
        """
        if len(pod.requests) + len(_NATIVE) + 1 > _MAX_BITS:
            return UNSIGNABLE  # its codes are numbered within one cycle
        if self._is_resize(pod):
            return UNSIGNABLE  # what it counts on its node matters
        requests = self._presumed(pod)
        presumed = tuple([requests.get(name, 0) for name, _ in self._resources])
        needed = frozenset([name for name, amount in pod.accounted.items() if amount])
        return frozenset(pod.requests.items()), presumed, needed

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Work out once what the pod requires. Never skips: the number of pods is checked for every pod."""
        del nodes
        cycle.write(self._requirements(pod))
        return PreFilterResult(SUCCESS)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """A set of bits per row, int64 [rows].

        Bit 0 is too many pods, bits 1 to 3 are cpu, memory and ephemeral-storage, then the pod's other resources
        follow, sorted by name. Example: 0b101 is "Too many pods" and "Insufficient memory".
        """
        required = cycle.find(_Requirements)
        if required is None:  # the profile leaves PreFilter out
            required = self._requirements(pod)
            cycle.write(required)
        return required.codes(nodes, rows)

    def status(self, cycle: CycleState, code: int) -> Status:
        """Everything that is lacking, in the order of the bits."""
        return status_of_code(code, cycle.read(_Requirements).reasons(code), self.name)

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """0..100 by the strategy, int64 [rows]. Until 1.37 pod-level requests of the pod do not count (Q4)."""
        del cycle
        requests = self._presumed(pod)
        demands = [(name, requests.get(name, 0), weight) for name, weight in self._resources]
        if self._device_amounts is None:
            return self._strategy(usage(nodes, rows, demands, nonzero=True))
        devices = self._device_amounts.of_all(demands, rows)
        return self._strategy(usage(nodes, rows, demands, nonzero=True, devices=devices))

    def score_placements(self, group: GroupDefinition, proposals: Sequence[ProposedPlacement]) -> Scores:
        """The fuller the placement would be as a whole, the more points, whatever the strategy for nodes is.

        0..100, int64 per proposal. As for nodes, resources that no member requests count if they are not extended; as
        upstream, devices do not count here.
        """
        del group
        nodes = self._handle.view.nodes
        points = []
        for proposal in proposals:
            demands = [
                (name, sum(self._presumed(pod).get(name, 0) for pod, _ in proposal.assignments), weight)
                for name, weight in self._resources
            ]
            points.append(int(most_allocated(sum_over(nodes, proposal.placement.rows, demands))[0]))
        return np.array(points, dtype=np.int64)

    def most_members(self, pods: Sequence[PodInfo], nodes: NodeTable, rows: Rows) -> NDArray[np.int64]:
        """As often as the least request of each resource that all of them need is free, of what counts on the row."""
        alike = {id(pod.requests): pod for pod in pods}.values()
        needs = [self._requirements(pod) for pod in alike]
        least = dict(needs[0].amounts)
        for each in needs[1:]:
            others = dict(each.amounts)
            least = {name: min(amount, others[name]) for name, amount in least.items() if name in others}
        most: NDArray[np.int64] = nodes.allowed_pods[rows] - nodes.pod_count[rows]
        for name, amount in least.items():
            allocatable = nodes.amounts(nodes.allocatable, name, rows)
            fitting = (allocatable - nodes.amounts(nodes.requested, name, rows)) // min(amount, MAX_INT64)
            if any(name in each.delegated for each in needs):
                fitting = np.where(allocatable > 0, fitting, most)
            most = np.minimum(most, fitting)
        return most

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """Which resource is short by how much, and which nodes come closest."""
        del cycle
        full = rows[nodes.pod_count[rows] >= nodes.allowed_pods[rows]]
        if len(full):
            yield _too_many_pods(nodes, full)
        requirements = self._requirements(pod)
        for name, amount in requirements.amounts:
            free = nodes.amounts(nodes.allocatable, name, rows) - nodes.amounts(nodes.requested, name, rows)
            lacks = free < amount
            if name in requirements.delegated:
                lacks &= nodes.amounts(nodes.allocatable, name, rows) > 0
            lacking = np.flatnonzero(lacks)
            if len(lacking):
                yield _short_of(name, amount, nodes, rows[lacking], free[lacking])

    def _requirements(self, pod: PodInfo) -> "_Requirements":
        requests = {name: amount for name, amount in pod.requests.items() if not self.ignores_resource(name)}
        counted = accounted_requests(pod.pod, Resizing.BY_POD) if self._is_resize(pod) else None
        return _Requirements(requests, self._delegated(requests), counted)

    def _delegated(self, requests: Requests) -> frozenset[str]:
        """The resources that a class of devices stands for: DynamicResources looks for them where a node lists none."""
        if self._devices is None or not self._devices.stand_for_any(requests):
            return _NONE
        return frozenset(name for name in requests if self._devices.class_of_resource(name) is not None)

    def _is_resize(self, pod: PodInfo) -> bool:
        """Whether the pod runs, and only more room on its node is looked for."""
        return self._counts_resizes and bool(pod.node_name) and resize_is_deferred(pod.pod)

    def ignores_resource(self, name: str) -> bool:
        """Whether the profile excludes this extended resource, which another component accounts for."""
        if not (self._ignored or self._ignored_groups) or not is_extended(name):
            return False
        return name in self._ignored or name.partition("/")[0] in self._ignored_groups

    def _after_node_change(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        """A node that could hold the pod if it were empty, and that is new or has grown where the pod needs it.

        Ignored resources are left out here as in the filter; upstream's hint looks at them and misses such nodes.
        """
        if not isinstance(new, Node):
            return QueueingHint.QUEUE
        if self._is_resize(pod) and new.metadata.name != pod.node_name:
            return QueueingHint.SKIP
        requirements = self._requirements(pod)
        after = allocatable_amounts(new.status.allocatable)
        if not requirements.are_held_by(after):
            has_lost = isinstance(old, Node) and self._has_lost_its_node(pod, requirements, old, new)
            return QueueingHint.QUEUE if has_lost else QueueingHint.SKIP
        if not isinstance(old, Node) or requirements.need_devices(after):
            return QueueingHint.QUEUE
        before = allocatable_amounts(old.status.allocatable)
        has_grown = any(after.get(name, 0) > before.get(name, 0) for name in (PODS, *dict(requirements.amounts)))
        return QueueingHint.QUEUE if has_grown else QueueingHint.SKIP

    def _has_lost_its_node(self, pod: PodInfo, requirements: "_Requirements", old: Node, new: Node) -> bool:
        """Whether the node that the pod is nominated to has become too small for it, were it empty.

        Other resources than cpu, memory and ephemeral-storage are passed over: a device plugin that restarts takes
        them away for a moment.
        """
        if self._own_node(pod) != new.metadata.name:
            return False
        after = allocatable_amounts(new.status.allocatable)
        is_too_small = any(after.get(name, 0) < amount for name, amount in requirements.amounts if name in _NATIVE)
        return is_too_small and requirements.are_held_by(allocatable_amounts(old.status.allocatable))

    def _own_node(self, pod: PodInfo) -> str:
        """The node that the pod is nominated to, where changes of it are its own matter: not for members of groups."""
        is_followed = self._wakes_nominated and pod.pod.spec.scheduling_group is None
        return pod.pod.status.nominated_node_name if is_followed else ""

    def _after_pod_change(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        """Room that a resize does not find on its own node is of no use to it."""
        changed = new or old
        if self._is_resize(pod) and isinstance(changed, Pod) and changed.spec.node_name != pod.node_name:
            return QueueingHint.SKIP
        return _after_pod_change(pod, old, new, self._resizing)


class _Columns(msgspec.Struct, frozen=True):
    """A pod's requirements, as places in the columns of a node table."""

    resources: int
    """The `NodeTable.resources_version` that the places belong to."""
    bits: tuple[int, ...]
    at: list[int]
    """The places of the resources' columns, in the order of `bits`."""
    amounts: NDArray[np.int64]
    """The requested amounts, [resource, 1]."""
    missing: NDArray[np.int64]
    """The part of them that the node does not count yet, [resource, 1]: everything, but for a resize."""
    nowhere: tuple[int, ...]
    """Bits of the resources that no node has, or of which an int64 cannot hold the requested amount."""
    counted: NDArray[np.bool_]
    """Whether the resource is required on every node, [resource, 1]."""


class _Requirements:
    """What a pod requires of a node, and what its codes mean."""

    __slots__ = ("_columns", "_counted", "_numbered", "amounts", "delegated", "names")

    def __init__(self, requests: Requests, delegated: frozenset[str], counted: Requests | None = None) -> None:
        """`counted`: what the node counts of the pod already, for a resize. That is the largest of what its spec asks
        for, what the kubelet has allocated and what is in force: mostly nothing is missing, but the node is
        overcommitted.
        """
        self._counted = counted
        if counted is not None:  # nothing else can grow: an extended resource that has gone from the node is no matter
            requests = {n: amount for n, amount in requests.items() if n in _NATIVE or amount > counted.get(n, 0)}
        scalars = sorted(name for name, amount in requests.items() if amount > 0 and name not in _NATIVE)
        self.names = (*_NATIVE, *scalars)
        """Bit n stands for `names[n - 1]`; bit 0 is the number of pods."""
        self.amounts = tuple((name, requests[name]) for name in self.names if requests.get(name, 0) > 0)
        self.delegated = delegated
        """Names of resources that are required only on nodes that have some."""
        self._columns: _Columns | None = None
        self._numbered: dict[int, int] | None = {} if len(self.names) >= _MAX_BITS else None
        """Where a pod has too many resources for the bits of a code: each set of bits to its number, from 1."""

    def are_held_by(self, allocatable: Requests) -> bool:
        """Whether a node with this would hold the pod if it were empty."""
        return allocatable.get(PODS, 0) > 0 and all(
            allocatable.get(name, 0) >= amount
            for name, amount in self.amounts
            if name not in self.delegated or allocatable.get(name, 0)
        )

    def need_devices(self, allocatable: Requests) -> bool:
        """Whether a node with this leaves something to its devices."""
        return any(not allocatable.get(name, 0) for name in self.delegated)

    def codes(self, nodes: NodeTable, rows: Rows) -> Codes | None:
        """One code per row, int64 [rows], or PASS_ALL."""
        where = compact(rows)
        full = self._full(nodes, where)
        lacks = self._lacks(nodes, where, len(rows))
        if not lacks and not np.count_nonzero(full):
            return PASS_ALL
        if self._numbered is not None:
            return self._numbered_codes(full, lacks)
        codes = full.astype(np.int64)
        hopeless = np.zeros(len(rows), dtype=np.bool_)
        for bit, lacking, too_small in lacks:
            codes |= lacking.astype(np.int64) << bit
            hopeless |= too_small
        return np.where(hopeless, -codes, codes)

    def _full(self, nodes: NodeTable, where: slice | Rows) -> NDArray[np.bool_]:
        """Where one more pod is too many. A resize is one of the node's pods; kube-scheduler counts it once more."""
        pods, allowed = values_at(nodes.pod_count, where), values_at(nodes.allowed_pods, where)
        return pods >= allowed if self._counted is None else pods > allowed

    def reasons(self, code: int) -> tuple[str, ...]:
        """The reasons that the code stands for."""
        bits = abs(code)
        if self._numbered is not None:
            bits = tuple(self._numbered)[bits - 1]
        reasons = [f"Insufficient {name}" for bit, name in enumerate(self.names, 1) if bits >> bit & 1]
        return ("Too many pods", *reasons) if bits & 1 else tuple(reasons)

    def _lacks(self, nodes: NodeTable, where: slice | Rows, size: int) -> list[Lack]:
        """The requirements that at least one of the rows does not meet; `size` is the number of rows."""
        columns = self._columns
        if columns is None or columns.resources != nodes.resources_version:
            columns = self._columns = self._found_in(nodes)
        allocatable = side_by_side(nodes.allocatable, columns.at, where)
        lacking = allocatable - side_by_side(nodes.requested, columns.at, where) < columns.missing
        if self.delegated:
            lacking &= (allocatable > 0) | columns.counted
        lacks: list[Lack] = []
        if np.count_nonzero(lacking):
            each = zip(columns.bits, lacking, allocatable < columns.amounts, strict=True)
            lacks += [lack for lack in each if np.count_nonzero(lack[1])]
        if columns.nowhere:
            everywhere = np.ones(size, dtype=np.bool_)
            lacks.extend((bit, everywhere, everywhere) for bit in columns.nowhere)
        return lacks

    def _found_in(self, nodes: NodeTable) -> "_Columns":
        bit_of = {name: bit for bit, name in enumerate(self.names, 1)}
        present = [(name, amount) for name, amount in self.amounts if name in nodes.resources and amount <= MAX_INT64]
        bits = tuple(bit_of[name] for name, _ in present)
        return _Columns(
            resources=nodes.resources_version,
            bits=bits,
            at=[nodes.resources[name] for name, _ in present],
            amounts=np.array([amount for _, amount in present], dtype=np.int64).reshape(-1, 1),
            missing=np.array([self._missing(*each) for each in present], dtype=np.int64).reshape(-1, 1),
            nowhere=tuple(
                bit_of[name] for name, _ in self.amounts if bit_of[name] not in bits and name not in self.delegated
            ),
            counted=np.array([name not in self.delegated for name, _ in present], dtype=np.bool_).reshape(-1, 1),
        )

    def _missing(self, name: str, amount: int) -> int:
        """How much of a requested amount must be free."""
        return amount if self._counted is None else max(0, amount - self._counted.get(name, 0))

    def _numbered_codes(self, full: NDArray[np.bool_], lacks: list[Lack]) -> Codes:
        """int64 [rows], worked out row by row in Python: a pod with sixty extended resources is rare enough."""
        numbers = self._numbered if self._numbered is not None else {}
        codes = np.zeros(len(full), dtype=np.int64)
        for at in range(len(full)):
            bits = int(full[at]) + sum(1 << bit for bit, lacking, _ in lacks if lacking[at])
            number = numbers.setdefault(bits, len(numbers) + 1) if bits else 0
            codes[at] = -number if any(too_small[at] for _, _, too_small in lacks) else number
        return codes


def _too_many_pods(nodes: NodeTable, rows: Rows) -> Detail:
    most = sorted(rows.tolist(), key=lambda row: (-int(nodes.allowed_pods[row]), nodes.name_of(row)))[:_CLOSEST]
    closest = [
        {"node": nodes.name_of(row), "pods": int(nodes.pod_count[row]), "allowed": int(nodes.allowed_pods[row])}
        for row in most
    ]
    shown = ", ".join(f"{entry['node']} has {entry['pods']} of {entry['allowed']}" for entry in closest)
    return Detail("tooManyPods", f"pods: {shown}", rows, {"closest": closest})


def _short_of(name: str, amount: int, nodes: NodeTable, rows: Rows, free: Scores) -> Detail:
    """Rows that lack a resource, with the nodes that come closest.

    Nodes that could hold the pod if they were empty come first; among them, and among the others, those with the most
    of the resource free, then by name.
    """
    allocatable = nodes.amounts(nodes.allocatable, name, rows)
    names = map(nodes.name_of, rows.tolist())
    by_closeness = zip((allocatable < amount).tolist(), (-free).tolist(), names, range(len(rows)), strict=True)
    closest = [
        {
            "node": name,
            "free": int(free[at]),
            "allocatable": int(allocatable[at]),
            "short": amount - int(free[at]),
            "couldIfEmpty": int(allocatable[at]) >= amount,
        }
        for _, _, name, at in nsmallest(_CLOSEST, by_closeness)
    ]
    return Detail(
        "insufficientResource",
        _shortage_text(name, amount, closest, most=int(allocatable.max())),
        rows,
        {"resource": name, "requested": amount, "unit": "thousandths" if name == CPU else "units", "closest": closest},
    )


def _shortage_text(name: str, amount: int, closest: Sequence[Mapping[str, Any]], most: int) -> str:
    demand = f"{name}: asks for {amount_text(name, amount)}"
    if most == 0:
        return f"{demand}, and none of these nodes has any"
    shown = "; ".join(
        f"{node['node']} has {amount_text(name, max(node['free'], 0))} free of {amount_text(name, node['allocatable'])}"
        f" ({amount_text(name, node['short'])} short)"
        for node in closest
    )
    too_large = "" if most >= amount else "; none of them is that large"
    return f"{demand}; {shown}{too_large}"


def _strategy(strategy: ScoringStrategy) -> Strategy:
    if strategy.type == MOST_ALLOCATED:
        return most_allocated
    if strategy.type == LEAST_ALLOCATED:
        return least_allocated
    if strategy.type != REQUESTED_TO_CAPACITY_RATIO:
        raise ValueError(f"scoring strategy {strategy.type} is not supported")
    ratio = strategy.requested_to_capacity_ratio
    if ratio is None or not ratio.shape:
        raise ValueError("requestedToCapacityRatio must be specified when type is RequestedToCapacityRatio")
    points_at = points_by_utilization([(point.utilization, point.score) for point in ratio.shape])
    return partial(by_shape, points_at=points_at)


def _after_pod_change(pod: PodInfo, old: KubeObject | None, new: KubeObject | None, resizing: Resizing) -> QueueingHint:
    """A pod that is deleted from a node or a nomination, the pod itself scaled down, or a running pod scaled down."""
    if not isinstance(old, Pod):
        return QueueingHint.QUEUE
    if not isinstance(new, Pod):
        was_somewhere = bool(old.spec.node_name or old.status.nominated_node_name)
        return QueueingHint.QUEUE if was_somewhere else QueueingHint.SKIP
    after = PodInfo(new)
    if after.uid == pod.uid:
        return QueueingHint.QUEUE
    return QueueingHint.QUEUE if after.node_name and _gives_back(pod, old, new, resizing) else QueueingHint.SKIP


def _after_class_change(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """A class that stands for a resource of the pod: it is new, or names another resource than before."""
    if not isinstance(new, DeviceClass):
        return QueueingHint.QUEUE
    named = new.spec.extended_resource_name
    if isinstance(old, DeviceClass):
        is_needed = named != old.spec.extended_resource_name and named in pod.requests
    else:
        is_needed = named in pod.requests or f"{IMPLICIT_EXTENDED_RESOURCE}{new.metadata.name}" in pod.requests
    return QueueingHint.QUEUE if is_needed else QueueingHint.SKIP


def _after_growth(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """A deferred resize, after the pod itself or another one on its node has grown."""
    del old
    is_near = not isinstance(new, Pod) or new.spec.node_name == pod.node_name
    return QueueingHint.QUEUE if is_near and resize_is_deferred(pod.pod) else QueueingHint.SKIP


def _gives_back(pod: PodInfo, old: Pod, new: Pod, resizing: Resizing) -> bool:
    """Whether the other pod counts less than before of something that the pod needs."""
    before, after = accounted_requests(old, resizing), accounted_requests(new, resizing)
    return any(before.get(name, 0) > after.get(name, 0) for name, amount in pod.accounted.items() if amount)
