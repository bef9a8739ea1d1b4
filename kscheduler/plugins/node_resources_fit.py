"""NodeResourcesFit: a node must have room for what the pod requests, and some nodes with room are better than others.

A code is a set of bits, one per thing that is lacking, negative where the node could not hold the pod even if it were
empty. The reasons follow from the code and the pod's resource names alone, so no text is made while nodes are judged.
Limit: extended resources that are backed by device claims (DRAExtendedResource) are looked for on the node only.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Node, Pod
from kscheduler.api.meta import KubeObject
from kscheduler.api.quantity import MAX_INT64
from kscheduler.config.plugin_args import (
    DEFAULT_RESOURCES,
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    NodeResourcesFitArgs,
    ScoringStrategy,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_info import allocatable_amounts
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.nodes.row_index import compact, side_by_side, values_at
from kscheduler.framework.plugin import PASS_ALL, UNSIGNABLE, Plugin, PreFilterResult, Source, status_of_code
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Requests, is_extended
from kscheduler.framework.reasons.details import Detail
from kscheduler.framework.reasons.wording import amount_text
from kscheduler.framework.rules.resource_scoring import (
    Usage,
    by_shape,
    least_allocated,
    most_allocated,
    points_by_utilization,
    usage,
)
from kscheduler.framework.status import SUCCESS, Status

_NATIVE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_MOST_BITS: Final = 62
"""Bits of a positive int64 code that are used; a pod with more resources gets numbered sets of bits instead."""
_CLOSEST: Final = 3
"""Nodes that an explanation names for each resource."""

Strategy = Callable[[Usage], Scores]
Lack = tuple[int, NDArray[np.bool_], NDArray[np.bool_]]
"""A bit, the rows that lack it, and those among them that could never have it."""


class NodeResourcesFit(Plugin):
    """Turns down nodes without room; scores by one of three strategies."""

    name = "NodeResourcesFit"
    depends_on = (Source.AMOUNTS,)
    reads_spec_only = True

    def __init__(self, args: NodeResourcesFitArgs | None, handle: Handle) -> None:
        del handle
        args = args or NodeResourcesFitArgs()
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        strategy = args.scoring_strategy or ScoringStrategy(LEAST_ALLOCATED)
        self._strategy = _strategy(strategy)
        resources = strategy.resources or DEFAULT_RESOURCES
        self._resources = tuple((resource.name, resource.weight or 1) for resource in resources)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Room appears when a pod goes or shrinks, and when a node is added or grows."""
        pod = ClusterEvent(Resource.POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN)
        node = ClusterEvent(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE)
        return ClusterEventWithHint(pod, _after_pod_change), ClusterEventWithHint(node, self._after_node_change)

    def sign(self, pod: PodInfo) -> Hashable:
        """What it requests, what scoring presumes it requests, and what hints take it to need."""
        if len(pod.requests) + len(_NATIVE) + 1 > _MOST_BITS:
            return UNSIGNABLE  # its codes are numbered within one cycle
        presumed = tuple(pod.nonzero_requests.get(name, 0) for name, _ in self._resources)
        needed = frozenset(name for name, amount in pod.accounted.items() if amount)
        return frozenset(pod.requests.items()), presumed, needed

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Work out what to look for, once. Never skips: the number of pods is checked for every pod."""
        del nodes
        cycle.write(self._wanted(pod))
        return PreFilterResult(SUCCESS)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """Bit 0 too many pods, 1 to 3 cpu, memory, ephemeral-storage, then the pod's other resources by name."""
        wanted = cycle.find(_Wanted)
        if wanted is None:  # the profile leaves PreFilter out
            wanted = self._wanted(pod)
            cycle.write(wanted)
        return wanted.codes(nodes, rows)

    def status(self, cycle: CycleState, code: int) -> Status:
        """Everything that is lacking, in the order in which it was looked for."""
        return status_of_code(code, cycle.read(_Wanted).reasons(code), self.name)

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """0..100 by the strategy. The incoming pod's pod-level requests do not count here, as upstream (Q4)."""
        del cycle
        demands = [(name, pod.nonzero_requests.get(name, 0), weight) for name, weight in self._resources]
        return self._strategy(usage(nodes, rows, demands, nonzero=True))

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """How much of what is short, and which nodes come closest."""
        del cycle
        full = rows[nodes.pod_count[rows] >= nodes.allowed_pods[rows]]
        if len(full):
            yield _too_many_pods(nodes, full)
        for name, amount in self._wanted(pod).amounts:
            free = nodes.amounts(nodes.allocatable, name, rows) - nodes.amounts(nodes.requested, name, rows)
            lacking = np.flatnonzero(free < amount)
            if len(lacking):
                yield _short_of(name, amount, nodes, rows[lacking], free[lacking])

    def _wanted(self, pod: PodInfo) -> "_Wanted":
        return _Wanted({name: amount for name, amount in pod.requests.items() if not self._ignores(name)})

    def _ignores(self, name: str) -> bool:
        """Extended resources that somebody else accounts for."""
        if not (self._ignored or self._ignored_groups) or not is_extended(name):
            return False
        return name in self._ignored or name.partition("/")[0] in self._ignored_groups

    def _after_node_change(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        """A node that could hold the pod if it were empty, and that is new or has grown where the pod needs it.

        Ignored resources are left out here as in the filter; upstream's hint looks at them and misses such nodes.
        """
        if not isinstance(new, Node):
            return QueueingHint.QUEUE
        wanted = self._wanted(pod).amounts
        after = allocatable_amounts(new.status.allocatable)
        if after.get(PODS, 0) < 1 or any(after.get(name, 0) < amount for name, amount in wanted):
            return QueueingHint.SKIP
        if not isinstance(old, Node):
            return QueueingHint.QUEUE
        before = allocatable_amounts(old.status.allocatable)
        has_grown = any(after.get(name, 0) > before.get(name, 0) for name in (PODS, *(name for name, _ in wanted)))
        return QueueingHint.QUEUE if has_grown else QueueingHint.SKIP


@dataclass(frozen=True, slots=True)
class _Sought:
    """What a pod needs, as a table has it in columns."""

    resources: int
    """Their version (`NodeTable.resources_version`)."""
    bits: tuple[int, ...]
    at: list[int]
    """Places of the columns."""
    amounts: NDArray[np.int64]
    """[resource, 1]"""
    nowhere: tuple[int, ...]
    """Bits of what no node has, or no node could have."""


class _Wanted:
    """What one pod needs of a node, and what its codes mean."""

    __slots__ = ("_numbered", "_sought", "amounts", "names")

    def __init__(self, requests: Requests) -> None:
        scalars = sorted(name for name, amount in requests.items() if amount > 0 and name not in _NATIVE)
        self.names = (*_NATIVE, *scalars)
        """Bit n stands for name n - 1."""
        self.amounts = tuple((name, requests[name]) for name in self.names if requests.get(name, 0) > 0)
        self._sought: _Sought | None = None
        self._numbered: dict[int, int] | None = {} if len(self.names) >= _MOST_BITS else None
        """Sets of bits to their numbers from 1, for a pod whose sets do not fit into a code."""

    def codes(self, nodes: NodeTable, rows: Rows) -> Codes | None:
        """One code per row, or PASS_ALL."""
        where = compact(rows)
        full = values_at(nodes.pod_count, where) >= values_at(nodes.allowed_pods, where)
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

    def reasons(self, code: int) -> tuple[str, ...]:
        """What the code says is lacking."""
        bits = abs(code)
        if self._numbered is not None:
            bits = tuple(self._numbered)[bits - 1]
        reasons = [f"Insufficient {name}" for bit, name in enumerate(self.names, 1) if bits >> bit & 1]
        return ("Too many pods", *reasons) if bits & 1 else tuple(reasons)

    def _lacks(self, nodes: NodeTable, where: slice | Rows, size: int) -> list[Lack]:
        """What is lacking somewhere."""
        sought = self._sought
        if sought is None or sought.resources != nodes.resources_version:
            sought = self._sought = self._found_in(nodes)
        allocatable = side_by_side(nodes.allocatable, sought.at, where)
        lacking = allocatable - side_by_side(nodes.requested, sought.at, where) < sought.amounts
        lacks: list[Lack] = []
        if np.count_nonzero(lacking):
            each = zip(sought.bits, lacking, allocatable < sought.amounts, strict=True)
            lacks.extend(lack for lack in each if np.count_nonzero(lack[1]))
        if sought.nowhere:
            everywhere = np.ones(size, dtype=np.bool_)
            lacks.extend((bit, everywhere, everywhere) for bit in sought.nowhere)
        return lacks

    def _found_in(self, nodes: NodeTable) -> "_Sought":
        bit_of = {name: bit for bit, name in enumerate(self.names, 1)}
        there = [(name, amount) for name, amount in self.amounts if name in nodes.resources and amount <= MAX_INT64]
        bits = tuple(bit_of[name] for name, _ in there)
        return _Sought(
            resources=nodes.resources_version,
            bits=bits,
            at=[nodes.resources[name] for name, _ in there],
            amounts=np.array([amount for _, amount in there], dtype=np.int64).reshape(-1, 1),
            nowhere=tuple(bit_of[name] for name, _ in self.amounts if bit_of[name] not in bits),
        )

    def _numbered_codes(self, full: NDArray[np.bool_], lacks: list[Lack]) -> Codes:
        """Row by row in Python: a pod with sixty extended resources is rare enough."""
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
    shown = ", ".join(f"{one['node']} has {one['pods']} of {one['allowed']}" for one in closest)
    return Detail("tooManyPods", f"pods: {shown}", rows, {"closest": closest})


def _short_of(name: str, amount: int, nodes: NodeTable, rows: Rows, free: Scores) -> Detail:
    """Rows that lack a resource. The closest are those that could hold the pod if they were empty, and of these (or of
    all that could not) those with the most of it free, then by name.
    """
    allocatable = nodes.amounts(nodes.allocatable, name, rows)
    names = [nodes.name_of(row) for row in rows.tolist()]
    order = sorted(range(len(rows)), key=lambda at: (int(allocatable[at]) < amount, -int(free[at]), names[at]))
    closest = [
        {
            "node": names[at],
            "free": int(free[at]),
            "allocatable": int(allocatable[at]),
            "short": amount - int(free[at]),
            "couldIfEmpty": int(allocatable[at]) >= amount,
        }
        for at in order[:_CLOSEST]
    ]
    return Detail(
        "insufficientResource",
        _shortage_text(name, amount, closest, most=int(allocatable.max())),
        rows,
        {"resource": name, "requested": amount, "unit": "thousandths" if name == CPU else "units", "closest": closest},
    )


def _shortage_text(name: str, amount: int, closest: Sequence[Mapping[str, Any]], most: int) -> str:
    wanted = f"{name}: asks for {amount_text(name, amount)}"
    if most == 0:
        return f"{wanted}, and none of these nodes has any"
    shown = "; ".join(
        f"{one['node']} has {amount_text(name, max(one['free'], 0))} free of {amount_text(name, one['allocatable'])}"
        f" ({amount_text(name, one['short'])} short)"
        for one in closest
    )
    too_large = "" if most >= amount else "; none of them is that large"
    return f"{wanted}; {shown}{too_large}"


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


def _after_pod_change(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """A pod that leaves a node or a nomination, the pod itself made smaller, or a running one that gives back."""
    if not isinstance(old, Pod):
        return QueueingHint.QUEUE
    if not isinstance(new, Pod):
        was_somewhere = bool(old.spec.node_name or old.status.nominated_node_name)
        return QueueingHint.QUEUE if was_somewhere else QueueingHint.SKIP
    after = PodInfo(new)
    if after.uid == pod.uid:
        return QueueingHint.QUEUE
    return QueueingHint.QUEUE if after.node_name and _gives_back(pod, PodInfo(old), after) else QueueingHint.SKIP


def _gives_back(pod: PodInfo, before: PodInfo, after: PodInfo) -> bool:
    needed = (name for name, amount in pod.accounted.items() if amount)
    return any(before.accounted.get(name, 0) > after.accounted.get(name, 0) for name in needed)
