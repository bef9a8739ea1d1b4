"""The in-tree scores for one pod and one node, in plain integers and floats: the executable specification."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from kscheduler.api.core import Node, Pod, PreferredSchedulingTerm
from kscheduler.config.plugin_args import (
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ScoringStrategy,
)
from tests.specification.requests_by_hand import SUPPORTED_FOR_WHOLE_PODS, allocatable_of, request_of, requested_on
from tests.specification.rules import SCALARS, Place, term_matches, tolerated

Score = Callable[[Pod, Place], int]
MIB = 2**20


def cut(dividend: int, divisor: int) -> int:
    """Go's integer division: towards zero."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend >= 0) == (divisor > 0) else -quotient


def scaled(points: Sequence[int], *, reverse: bool = False) -> list[int]:
    """To 0..100 by the largest."""
    largest = max(points, default=0)
    if largest == 0:
        return [100 if reverse else 0 for _ in points]
    return [100 - cut(100 * one, largest) if reverse else cut(100 * one, largest) for one in points]


def taint_toleration(pod: Pod, place: Place, *, compares: bool = False) -> int:
    tolerations = [one for one in pod.spec.tolerations if one.effect in ("", "PreferNoSchedule")]
    unwelcome = [taint for taint in place.node.spec.taints if taint.effect == "PreferNoSchedule"]
    return sum(not tolerated(taint, tolerations, compares=compares) for taint in unwelcome)


def node_affinity(args: NodeAffinityArgs) -> Score:
    added = args.added_affinity.preferred_during_scheduling_ignored_during_execution if args.added_affinity else ()
    return lambda pod, place: sum(
        term.weight for term in (*added, *preferred_by(pod)) if term_matches(term.preference, place.node)
    )


def preferred_by(pod: Pod) -> tuple[PreferredSchedulingTerm, ...]:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    return affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()


def image_locality(nodes: Iterable[Node], sizes: Mapping[str, int]) -> Score:
    everywhere = [_names(node) for node in nodes]

    def score(pod: Pod, place: Place) -> int:
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        volumes = [volume.image.reference for volume in pod.spec.volumes if volume.image]
        total = 0
        for image in [*(container.image for container in containers), *volumes]:
            name = image if ":" in image else f"{image}:latest"
            if name in _names(place.node):
                share = sum(name in names for names in everywhere) / len(everywhere)
                total += int(sizes[name] * share)
        least, most = 23 * MIB, 1000 * MIB * len(containers)
        total = least if total < least else min(total, most)
        return cut(100 * (total - least), most - least)

    return score


def _names(node: Node) -> set[str]:
    return {name for image in node.status.images for name in image.names}


# Of a node and a resource that devices stand for: how many there are, and how many are taken.
Devices = Callable[[Node, str], tuple[int, int]]


def no_devices(_node: Node, _resource: str) -> tuple[int, int]:
    return 0, 0


def node_resources_fit(args: NodeResourcesFitArgs, devices: Devices = no_devices, *, pod_level: bool = False) -> Score:
    """`pod_level`: pod-level requests of the pod count, as from 1.38 on."""
    strategy = args.scoring_strategy
    assert strategy is not None

    def score(pod: Pod, place: Place) -> int:
        total = weights = 0
        for spec in strategy.resources:
            resource, weight = spec.name, spec.weight or 1
            presume = resource in ("cpu", "memory")
            capacity = allocatable_of(place.node, resource)
            whole = pod.spec.resources.requests if pod.spec.resources is not None and pod_level else {}
            is_whole = resource in whole and resource in SUPPORTED_FOR_WHOLE_PODS
            request = request_of(pod, resource, presume=presume, pod_level=is_whole)
            there = requested_on(place.pods, resource, presume=presume)
            if capacity == 0:
                capacity, there = devices(place.node, resource)
            if capacity == 0 or (resource in SCALARS and request == 0):
                continue
            used = there + request
            points = _points(strategy, used, capacity)
            if points > 0 or strategy.type != "RequestedToCapacityRatio":
                total += points * weight
                weights += weight
        if not weights:
            return 0
        if strategy.type == "RequestedToCapacityRatio":
            return math.floor(total / weights + 0.5)
        return cut(total, weights)

    return score


def _points(strategy: ScoringStrategy, used: int, capacity: int) -> int:
    if strategy.type == "LeastAllocated":
        return 0 if used > capacity else cut((capacity - used) * 100, capacity)
    if strategy.type == "MostAllocated":
        return cut(min(used, capacity) * 100, capacity)
    assert strategy.requested_to_capacity_ratio is not None
    shape = [(point.utilization, point.score * 10) for point in strategy.requested_to_capacity_ratio.shape]
    return line_through(shape, 100 if used > capacity else cut(used * 100, capacity))


def line_through(shape: Sequence[tuple[int, int]], utilization: int) -> int:
    """Piecewise linear, flat before the first and after the last corner."""
    if utilization <= shape[0][0]:
        return shape[0][1]
    for (x0, y0), (x1, y1) in pairwise(shape):
        if utilization <= x1:
            return y0 + cut((y1 - y0) * (utilization - x0), x1 - x0)
    return shape[-1][1]


def balanced_allocation(args: NodeResourcesBalancedAllocationArgs, devices: Devices = no_devices) -> Score:
    def score(pod: Pod, place: Place) -> int:
        alone: list[float] = []
        together: list[float] = []
        for spec in args.resources:
            capacity = allocatable_of(place.node, spec.name)
            request = request_of(pod, spec.name, running=True)
            there = requested_on(place.pods, spec.name)
            if capacity == 0:
                capacity, there = devices(place.node, spec.name)
            if capacity == 0 or (spec.name in SCALARS and request == 0):
                continue
            alone.append(min(1.0, float(there) / float(capacity)))
            together.append(min(1.0, float(there + request) / float(capacity)))
        return 50 + cut(50 + evenness(together) - evenness(alone), 2)

    return score


def evenness(fractions: Sequence[float]) -> int:
    """100 where all are equal, down to 50."""
    if len(fractions) < 2:
        return 100
    if len(fractions) == 2:
        return int((1 - abs((fractions[0] - fractions[1]) / 2)) * 100.0)
    mean = sum_in_order(fractions) / len(fractions)
    variance = sum_in_order([(one - mean) * (one - mean) for one in fractions]) / len(fractions)
    return int((1 - math.sqrt(variance)) * 100.0)


def sum_in_order(numbers: Sequence[float]) -> float:
    """Plain additions from left to right: Python's `sum` of floats compensates since 3.12, Go does not."""
    total = 0.0
    for number in numbers:
        total += number
    return total
