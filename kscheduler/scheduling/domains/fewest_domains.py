"""The fewest domains that hold an amount: at the widest level first, then at the next, down to the narrowest.

A knapsack over the tree. What a domain of some level costs for m pieces is a step function: m pieces need at least so
many domains below it. The costs of siblings add up, so the best way to hold m pieces in the first k of them follows
from the first k - 1:

    best(k, m) = min over steps (room, cost) of domain k, or not at all:  best(k - 1, m - room) + 1 + cost

Counts of several levels are one integer, the widest level in its highest digits. Time: domains x steps x pieces; what
would take too long is left as it is. A group is tried in many domains, and a tree in many placements: all that one
attempt asks shares its steps (`StepsLeft`).
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.scheduling.domains.domain_tree import DomainLevel, Rooms

# So many elementary steps at most in one attempt: a tenth of a second.
_MAX_STEPS: Final = 5_000_000
_PER_DOMAIN: Final = 2_000
_NEVER: Final = 1 << 60


class Share(msgspec.Struct, frozen=True):
    """What a domain gets."""

    domain: int
    """Its number in its level."""
    amount: int


class StepsLeft:
    """How many steps an attempt may still take."""

    __slots__ = ("count",)

    def __init__(self, count: int = _MAX_STEPS) -> None:
        self.count = count

    def take(self, count: int) -> bool:
        """Take so many, unless there are fewer left."""
        is_enough = count <= self.count
        self.count -= count if is_enough else 0
        return is_enough


class _Step(msgspec.Struct, frozen=True):
    room: int
    cost: int
    """Of the levels below."""


def fewest_domains(
    levels: Sequence[DomainLevel],
    rooms: Sequence[Rooms],
    amount: int,
    starts: Sequence[Sequence[int]],
    known: list[Share],
    steps: StepsLeft,
) -> list[Share]:
    """Shares at the last of the levels that need the fewest domains; `known` unless others are fewer, or without steps.

    `rooms`: per level what each domain holds. `starts`: sets of domains of the first level; the shares are all within
    one of them, of equally good ones the first.
    """
    if not steps.take(sum(map(len, levels)) * (amount + _PER_DOMAIN)):
        return known
    return _Search(levels, rooms, amount).run(starts, known)


class _Search:
    def __init__(self, levels: Sequence[DomainLevel], rooms: Sequence[Rooms], amount: int) -> None:
        self._levels, self._rooms, self._amount = levels, rooms, amount
        self._weights = [1]
        for level in reversed(levels[1:]):
            self._weights.insert(0, self._weights[0] * (len(level) + 1))
        self._children: list[dict[int, list[int]]] = [{} for _ in levels]
        for number in range(1, len(levels)):
            for child, parent in enumerate(levels[number].parents.tolist()):
                self._children[number - 1].setdefault(parent, []).append(child)
        self._steps: dict[tuple[int, int], list[_Step]] = {}

    def run(self, starts: Sequence[Sequence[int]], known: list[Share]) -> list[Share]:
        if self._weights[0] * (len(self._levels[0]) + 1) >= _NEVER:
            return known
        best, shares = self._cost_of(known), known
        for start in starts:
            costs, taken = self._cover(0, start, self._amount)
            if int(costs[self._amount]) < best:
                best, shares = int(costs[self._amount]), self._shares(0, start, self._amount, taken)
        return shares

    def _cost_of(self, shares: Sequence[Share]) -> int:
        """What the shares at the last level cost, with the domains above them."""
        domains, cost = {share.domain for share in shares}, 0
        for number in range(len(self._levels) - 1, -1, -1):
            cost += len(domains) * self._weights[number]
            if number:
                domains = {int(self._levels[number].parents[domain]) for domain in domains}
        return cost

    def _cover(
        self, level: int, domains: Sequence[int], amount: int
    ) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
        """What m pieces cost, by m, and by domain which step of it holds them (-1: none)."""
        costs = np.full(amount + 1, _NEVER, dtype=np.int64)
        costs[0] = 0
        taken: list[NDArray[np.int64]] = []
        for domain in domains:
            better, which = costs.copy(), np.full(amount + 1, -1, dtype=np.int64)
            for number, step in enumerate(self._steps_of(level, domain)):
                room, own = min(step.room, amount), self._weights[level] + step.cost
                candidate = np.full(amount + 1, costs[0] + own, dtype=np.int64)
                candidate[room:] = costs[: amount + 1 - room] + own
                is_better = candidate < better
                better[is_better], which[is_better] = candidate[is_better], number
            costs = better
            taken.append(which)
        return costs, taken

    def _steps_of(self, level: int, domain: int) -> list[_Step]:
        """The most that the domain holds for each cost."""
        known = self._steps.get((level, domain))
        if known is None:
            known = self._steps[level, domain] = self._new_steps(level, domain)
        return known

    def _new_steps(self, level: int, domain: int) -> list[_Step]:
        room = min(int(self._rooms[level][domain]), self._amount)
        if not room:
            return []
        if level == len(self._levels) - 1:
            return [_Step(room, 0)]
        costs, _ = self._cover(level + 1, self._children[level][domain], room)
        ends = np.flatnonzero(np.diff(costs, append=_NEVER + 1))
        return [_Step(end, int(costs[end])) for end in ends.tolist() if end]

    def _shares(
        self, level: int, domains: Sequence[int], amount: int, taken: Sequence[NDArray[np.int64]]
    ) -> list[Share]:
        shares: list[Share] = []
        for domain, which in zip(reversed(domains), reversed(taken), strict=True):
            number = int(which[amount])
            if number < 0:
                continue
            held = min(self._steps_of(level, domain)[number].room, amount)
            amount -= held
            if level == len(self._levels) - 1:
                shares.append(Share(domain, held))
            else:
                children = self._children[level][domain]
                _, below = self._cover(level + 1, children, held)
                shares += self._shares(level + 1, children, held, below)
        return shares
