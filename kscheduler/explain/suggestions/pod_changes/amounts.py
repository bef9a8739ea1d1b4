"""The smallest relaxation of a demand that helps: the largest request that fits, the smallest maxSkew.

Less of a request never fits on fewer nodes, and a larger maxSkew never does, so halving finds the limit. What is free
on the nodes says where it may lie; the cycle says where it does.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.devices.plan import MOST_RESULTS
from kscheduler.explain.suggestions.changed import ObjectChange, Operation
from kscheduler.explain.suggestions.pod_changes.demand import Demand, Patch
from kscheduler.explain.suggestions.pod_changes.near_resources import instead_of, is_of_devices
from kscheduler.explain.suggestions.pod_changes.pod_relaxations import MOST_SKEW
from kscheduler.explain.suggestions.pod_changes.requests_lowered import lowered
from kscheduler.explain.suggestions.suggestion import ChangeKind, Harm
from kscheduler.explain.suggestions.trials.trial import Trials
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.pod_topology_spread.filtering import HardSpread
from kscheduler.scheduling.cycle.schedule import find_feasible

# How many further amounts a suggestion names, for more nodes each.
_MORE_STEPS: Final = 2

# The rows that the pod fits on with a patch of this demand, and whatever else is changed.
RowsOf = Callable[[Patch], Rows]
Beside = tuple[Sequence[ObjectChange], Sequence[PodInfo]]
NOTHING_BESIDE: Final[Beside] = ((), ())


def smallest(
    demand: Demand, widest: Rows, rows_of: RowsOf, trials: Trials, beside: Beside = NOTHING_BESIDE
) -> tuple[Demand, Rows]:
    """The smallest relaxation that helps, with the rows it opens; `widest`: those of the largest, at least one.

    `beside`: what else is changed of other objects, and the pods that go.
    """
    if demand.kind is ChangeKind.REQUEST:
        return _largest_request(demand, widest, rows_of, trials, beside)
    if demand.kind is ChangeKind.MAX_SKEW:
        return _smallest_skew(demand, rows_of, _expected_skew(demand, widest, trials, beside))
    return demand, widest


def room_of(demand: Demand, rows: Rows, trials: Trials) -> NDArray[np.int64]:
    """What of the resource is free on the rows for this pod: int64 [rows], at most what it requests.

    Where devices stand for the resource it is all that the pod requests: what is free there only a search can say.
    """
    nodes = trials.cache.nodes
    free = nodes.amounts(nodes.allocatable, demand.resource, rows) - nodes.amounts(
        nodes.requested, demand.resource, rows
    )
    expected = trials.cache.nominated.before(trials.pod)
    arrivals = expected.among(rows) if expected is not None else None
    if arrivals is not None:
        for place, row in enumerate(arrivals.rows.tolist()):
            taken = sum(pod.accounted.get(demand.resource, 0) for pod in arrivals.on(place))
            free[np.searchsorted(rows, row)] -= taken
    queried = int(demand.facts["amount"])
    free[free > queried], free[free < 0] = queried, 0
    if _is_of_devices(demand, trials):
        free[nodes.amounts(nodes.allocatable, demand.resource, rows) == 0] = queried
    return free


def amounts_of_devices(demand: Demand, trials: Trials) -> list[int]:
    """The smaller amounts that nodes may have as devices, ascending; none of a resource that is no class of devices."""
    if not _is_of_devices(demand, trials):
        return []
    return list(range(1, min(int(demand.facts["amount"]) - 1, MOST_RESULTS) + 1))


def _is_of_devices(demand: Demand, trials: Trials) -> bool:
    return trials.cache.devices.stand_for_any((demand.resource,))


def requesting(demand: Demand, amount: int, trials: Trials) -> Demand:
    """The demand with this request, which is less than it is now. To request nothing at all comes last."""
    patch = lowered(trials.pod.pod, demand.resource, amount)
    assert patch is not None  # noqa: S101  it could be lowered to nothing
    queried = demand.facts["amount"]
    facts = {**demand.facts, "to": amount}
    less = replace(demand, patch=patch, size=(queried - amount) / queried, facts=facts)
    if amount:
        return less
    facts["supply"] = supply_of(demand, trials)
    return replace(less, comes_last=True, harm=harm_of_none(demand.resource))


def harm_of_none(resource: str) -> Harm:
    """What it does to a pod to request none of the resource."""
    return Harm.OF_THE_POD if is_of_devices(resource) else Harm.NONE


def supply_of(demand: Demand, trials: Trials) -> dict[str, object]:
    """What all nodes of the cluster have of the resource, anyone who may use it: "nowhere" is said only of nothing."""
    nodes = trials.cache.nodes
    rows = nodes.rows()
    allocatable = nodes.amounts(nodes.allocatable, demand.resource, rows)
    free = np.maximum(allocatable - nodes.amounts(nodes.requested, demand.resource, rows), 0)
    return {
        "amount": int(allocatable.sum()),
        "free": int(free.sum()),
        "nodes": int(np.count_nonzero(allocatable)),
        "asDevices": _is_of_devices(demand, trials),
        **instead_of(demand.resource, trials.cache),
    }


def _largest_request(
    demand: Demand, widest: Rows, rows_of: RowsOf, trials: Trials, beside: Beside
) -> tuple[Demand, Rows]:
    with trials.changed(*beside):  # a new node has a row only meanwhile
        free = room_of(demand, widest, trials)
    shares: list[int] = free[free < demand.facts["amount"]].tolist()
    possible = sorted({*shares, *amounts_of_devices(demand, trials)})
    if not possible or possible[0] > 0:
        possible.insert(0, 0)
    found = requesting(demand, 0, trials), widest

    def helps(amount: int) -> bool:
        nonlocal found
        tried = requesting(demand, amount, trials)
        rows = rows_of(tried.patch)
        if len(rows):
            found = tried, rows
        return len(rows) > 0

    _last(possible, helps)
    best, rows = found
    steps = [
        {"amount": amount, "nodes": len(opened)}
        for amount in _steps(free, best.facts["to"])
        if len(opened := rows_of(requesting(demand, amount, trials).patch)) > len(rows)
    ]
    return replace(best, facts={**best.facts, "steps": steps}), rows


def _steps(free: NDArray[np.int64], amount: int) -> list[int]:
    """Smaller requests that may open more: for a quarter of the nodes that come into question, and for all of them."""
    ordered = np.sort(free)[::-1]
    found = {int(ordered[-(-len(ordered) // share) - 1]) for share in (4, 1)}
    return sorted((value for value in found if 0 < value < amount), reverse=True)[:_MORE_STEPS]


def _expected_skew(demand: Demand, widest: Rows, trials: Trials, beside: Beside) -> int:
    """The maxSkew that the counts of the filter ask for on the best of the rows; 0 if there are none.

    It says where to look first. What other changes do to the counts it need not know: the cycle decides.
    """
    with trials.changed(*beside):
        state = find_feasible(trials.profile, trials.patched(demand.patch), trials.cache).state
    spread = state.find(HardSpread)
    counts = next((each for each in spread.counts if each.constraint.max_skew == MOST_SKEW), None) if spread else None
    if counts is None:
        return 0
    pods, minimum = counts.seen_from(widest)
    return int((pods + counts.is_own - minimum).min())


def _smallest_skew(demand: Demand, rows_of: RowsOf, expected: int) -> tuple[Demand, Rows]:
    found: dict[int, Rows] = {}

    def helps(skew: int) -> bool:
        rows = rows_of(_with_skew(demand, skew))
        if len(rows):
            found[skew] = rows
        return len(rows) > 0

    low, step, high = demand.skew, 1, MOST_SKEW
    if low < expected < MOST_SKEW and helps(expected):
        # Nearly always one less does not help, and this is the answer.
        high = expected
        low, high = (low, high - 1) if high - 1 > low and helps(high - 1) else (high - 1, high)
    else:
        while low + step < MOST_SKEW and not helps(low + step):
            low, step = low + step, step * 2
        high = min(low + step, MOST_SKEW)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if helps(middle) else (middle, high)
    if high not in found:
        found[high] = rows_of(_with_skew(demand, high))
    facts = {**demand.facts, "to": high}
    patch = _with_skew(demand, high)
    return replace(demand, patch=patch, size=(high - demand.skew) / high, facts=facts), found[high]


def _with_skew(demand: Demand, skew: int) -> Patch:
    (wide,) = demand.patch
    return (Operation(wide.op, wide.path, skew),)


def _last(values: Sequence[int], holds: Callable[[int], bool]) -> None:
    """Find the largest of ascending values for which it holds, presuming that it holds for the first; tries it last
    of all those that hold. The largest is tried first, as it nearly always is the one.
    """
    low, high = 0, len(values)
    if high > 1 and holds(values[-1]):
        return
    high -= high > 1
    while high - low > 1:
        middle = (low + high) // 2
        if holds(values[middle]):
            low = middle
        else:
            high = middle
    if low == 0 and values[0] > 0:
        holds(values[0])
