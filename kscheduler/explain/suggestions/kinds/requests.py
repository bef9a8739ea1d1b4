"""A smaller request of a resource: the largest that fits, or none at all.

Less of a request never fits on fewer nodes, so halving finds the limit. What is free on the nodes says where it may
lie; the cycle says where it does.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from kscheduler.api.core import Pod
from kscheduler.devices.plan import MAX_RESULTS
from kscheduler.explain.suggestions.kinds.resources import (
    OfferedResource,
    instead_of,
    is_of_devices,
    lowered,
    quantity_text,
)
from kscheduler.explain.suggestions.object_changes import joined
from kscheduler.explain.suggestions.suggestion import Beside, Demand, GroupScale, Harm, Patch, PodChange, RowsOf, Step
from kscheduler.explain.suggestions.trials import Trials
from kscheduler.framework.nodes.exact_sums import exact_sum
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import CPU, PODS
from kscheduler.framework.reasons.wording import amount_text
from kscheduler.state.cache import Cache

# How many further amounts a suggestion names, for more nodes each.
_MORE_STEPS: Final = 2
# Of groups requests are lowered in so many steps at least: of 4 Gi in steps of 1 Mi, of less than 4 CPUs in
# thousandths.
_FINEST: Final = 4096


class FurtherAmount(msgspec.Struct, frozen=True):
    """A smaller request, which opens more nodes."""

    amount: int
    nodes: int


class Supply(msgspec.Struct, frozen=True, rename="camel"):
    """What all nodes of the cluster have of a resource, no matter who may use it: "nowhere" is said only of nothing."""

    amount: int
    free: int
    nodes: int
    as_devices: bool
    near: OfferedResource | None
    """The name that is probably meant, where nobody has the resource."""
    others: Sequence[OfferedResource]

    def text(self, resource: str, *, is_of_group: bool) -> str:
        """Why it is none at all: nobody has the resource, or not where the pod, or the members of a group, may be."""
        there = "nodes that they may be on have too little" if is_of_group else "nodes that it may be on have none"
        if self.as_devices:
            return f"the {there} free as devices"
        if not self.amount:
            return f"it is unavailable: no node has any{self._instead}"
        total, free = (amount_text(resource, amount) for amount in (self.amount, self.free))
        where = "1 node has" if self.nodes == 1 else f"{self.nodes} nodes have"
        return f"the {there} free ({where} {total} in all, {free} free)"

    @property
    def _instead(self) -> str:
        """What there is of other names: the one that is near, or the extended resources of nodes."""
        if self.near is not None:
            return f"; do you mean {self.near.resource}, which {self.near.who_has}?"
        others = [f"{each.resource} ({each.where})" for each in self.others]
        return f"; there is {', '.join(others)}" if others else ""


class LowerRequest(PodChange, frozen=True):
    """Less is requested of a resource (cpu in thousandths, others in units)."""

    kind = "request"
    touched = frozenset(("NodeResourcesFit",))

    resource: str
    amount: int
    """That is requested now."""
    to: int | UnsetType = UNSET
    supply: Supply | UnsetType = UNSET
    """Where it is none at all."""
    steps: Sequence[FurtherAmount] | UnsetType = UNSET

    @classmethod
    def demands(cls, pod: PodInfo, cache: Cache) -> Iterator[Demand]:
        for resource, amount in sorted(pod.requests.items()):
            if amount > 0 and resource != PODS and (patch := lowered(pod.pod, resource, 0)) is not None:
                yield Demand(cls(resource, amount), patch, 1.0)

    @property
    def lowered_resource(self) -> str:
        return self.resource

    @property
    def gives_up(self) -> str:
        return "" if self.to else self.resource

    def smallest(self, demand: Demand, widest: Rows, rows_of: RowsOf, beside: Beside) -> tuple[Demand, Rows]:
        """The largest request that fits."""
        trials = beside.trials
        with trials.changed(beside.changes, beside.gone):  # a new node has a row only meanwhile
            free = self.room(widest, trials)
        shares: list[int] = free[free < self.amount].tolist()
        possible = sorted({*shares, *self.amounts_of_devices(trials)})
        if not possible or possible[0] > 0:
            possible.insert(0, 0)
        found = self.lowered_to(0, demand, trials), widest

        def helps(amount: int) -> bool:
            nonlocal found
            tried = self.lowered_to(amount, demand, trials)
            rows = rows_of(tried.patch)
            if len(rows):
                found = tried, rows
            return len(rows) > 0

        _last(possible, helps)
        best, rows = found
        assert isinstance(best.facts, LowerRequest)  # noqa: S101  it is this one with an amount
        steps = [
            FurtherAmount(amount, len(opened))
            for amount in _steps(free, best.facts.to or 0)
            if len(opened := rows_of(self.lowered_to(amount, demand, trials).patch)) > len(rows)
        ]
        return replace(best, facts=msgspec.structs.replace(best.facts, steps=steps)), rows

    def smallest_pair(
        self, first: Demand, second: Demand, rows: Rows, trials: Trials
    ) -> tuple[tuple[Demand, Demand], Rows] | None:
        """On the node where least is given up of both together."""
        one, other = first.facts, second.facts
        assert isinstance(one, LowerRequest)  # noqa: S101  two demands of this kind
        assert isinstance(other, LowerRequest)  # noqa: S101
        rooms = one.room(rows, trials), other.room(rows, trials)
        given_up = (1 - rooms[0] / one.amount) + (1 - rooms[1] / other.amount)
        for place in np.argsort(given_up, kind="stable").tolist():
            both = (
                one.lowered_to(int(rooms[0][place]), first, trials),
                other.lowered_to(int(rooms[1][place]), second, trials),
            )
            if len(fitting := trials.rows((trials.of_pod(joined(each.patch for each in both)),))):
                return both, fitting
        return (one.lowered_to(0, first, trials), other.lowered_to(0, second, trials)), rows

    def in_group(self, demand: Demand, pod: Pod, trials: Trials) -> tuple[GroupScale[Demand], Demand] | None:
        # A power of two, so that what is shown is a round number of Mi or Ki.
        unit = 1 if self.resource == CPU else 1 << (max(self.amount // _FINEST, 1).bit_length() - 1)
        most = (self.amount - 1) // unit

        def at(number: int) -> Demand | None:
            amount = (most + 1 - number) * unit
            patch = lowered(pod, self.resource, amount)
            return None if patch is None else self._requesting(amount, demand, patch)

        return GroupScale(most, at), self._nothing(demand, trials)

    def lowered_to(self, amount: int, demand: Demand, trials: Trials) -> Demand:
        """The demand with this request, which is less than it is now. To request nothing at all comes last."""
        patch = lowered(trials.pod.pod, self.resource, amount)
        assert patch is not None  # noqa: S101  it could be lowered to nothing
        less = self._requesting(amount, demand, patch)
        return less if amount else self._nothing(less, trials)

    def room(self, rows: Rows, trials: Trials) -> NDArray[np.int64]:
        """What of the resource is free on the rows for this pod: int64 [rows], at most what it requests.

        Where devices stand for the resource it is all that the pod requests: what is free there only a search can say.
        """
        nodes = trials.cache.nodes
        allocatable = nodes.amounts(nodes.allocatable, self.resource, rows)
        free = allocatable - nodes.amounts(nodes.requested, self.resource, rows)
        expected = trials.cache.nominated.before(trials.pod)
        arrivals = expected.among(rows) if expected is not None else None
        if arrivals is not None:
            for place, row in enumerate(arrivals.rows.tolist()):
                taken = sum(pod.accounted.get(self.resource, 0) for pod in arrivals.on(place))
                free[np.searchsorted(rows, row)] -= taken
        free[free > self.amount], free[free < 0] = self.amount, 0
        if self._is_of_devices(trials):
            free[allocatable == 0] = self.amount
        return free

    def amounts_of_devices(self, trials: Trials) -> list[int]:
        """The smaller amounts that nodes may have as devices, ascending; none of what is no class of devices."""
        return list(range(1, min(self.amount - 1, MAX_RESULTS) + 1)) if self._is_of_devices(trials) else []

    def text(self, step: Step) -> str:
        now = amount_text(self.resource, self.amount)
        if not self.to:
            why = "" if self.supply is UNSET else self.supply.text(self.resource, is_of_group=self.waiting is not UNSET)
            return f"request no {self.resource} (now {now}): {why}"
        # What may be typed in must be exact; in brackets what it is about.
        exact, about = quantity_text(self.resource, self.to), amount_text(self.resource, self.to)
        shown = exact if exact == about else f"{exact} ({about})"
        more = [f"{quantity_text(self.resource, each.amount)} for {each.nodes}" for each in self.steps or ()]
        further = f"; {', '.join(more)} nodes" if more else ""
        return f"request {shown} of {self.resource} instead of {now}{further}"

    def _requesting(self, amount: int, demand: Demand, patch: Patch) -> Demand:
        facts = msgspec.structs.replace(self, to=amount)
        return replace(demand, patch=patch, size=(self.amount - amount) / self.amount, facts=facts)

    def _nothing(self, demand: Demand, trials: Trials) -> Demand:
        facts = msgspec.structs.replace(self, to=0, supply=self._supply(trials))
        harm = Harm.OF_THE_POD if is_of_devices(self.resource) else Harm.NONE
        return replace(demand, facts=facts, comes_last=True, harm=harm)

    def _supply(self, trials: Trials) -> Supply:
        nodes = trials.cache.nodes
        rows = nodes.rows()
        allocatable = nodes.amounts(nodes.allocatable, self.resource, rows)
        free = np.maximum(allocatable - nodes.amounts(nodes.requested, self.resource, rows), 0)
        near, others = instead_of(self.resource, trials.cache)
        return Supply(
            exact_sum(allocatable),
            exact_sum(free),
            int(np.count_nonzero(allocatable)),
            self._is_of_devices(trials),
            near,
            others,
        )

    def _is_of_devices(self, trials: Trials) -> bool:
        return trials.cache.devices.stand_for_any((self.resource,))


def _steps(free: NDArray[np.int64], amount: int) -> list[int]:
    """Smaller requests that may open more: for a quarter of the nodes that come into question, and for all of them."""
    ordered = np.sort(free)[::-1]
    found = {int(ordered[-(-len(ordered) // share) - 1]) for share in (4, 1)}
    return sorted((value for value in found if 0 < value < amount), reverse=True)[:_MORE_STEPS]


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
