"""Which domains a group goes to: as few as possible, none larger than it must be. Kueue's rule, and fewer where it can.

    required        one domain of the level, or nothing
    preferred       one domain of the level, else one of the next wider level, ...; at the widest as few as possible
    both            one domain of the preferred level, else of a wider one, up to the required level
    unconstrained   anywhere; the domains with the least room are filled first

Of several domains that hold the whole group the one with the least room is taken (best fit), so that large ones stay
whole for large groups. Where several must share it, the largest come first, and the last is again the one with the
least room that holds the rest. Then the same is done within the chosen ones, level by level, down to the narrowest.

A *slice* is a number of members that stay in one domain of the slice level, which is not wider than the level that is
asked for. Down to that level all is counted in slices; without slices each member is one.

Kueue takes the tightest wide domain, even if its narrow ones are smaller than another's, and the group gets into more
of them than needed. Where a preferred group does not fit into one domain of its level, `fewest_domains` looks for the
fewest from there up to the widest; they are taken if they are fewer. Below the slice level Kueue begins with the least
room, and here the most room comes first.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from kscheduler.scheduling.domains.domain_tree import DomainNumbers, DomainTree, Rooms
from kscheduler.scheduling.domains.fewest_domains import Share, StepsLeft, fewest_domains


class DomainsWanted(msgspec.Struct, frozen=True):
    """What is to be placed."""

    count: int
    """Members, at least one. The last slice may have fewer members than the others."""
    level: int
    """The number of the level that is asked for: one domain of it, if possible. What is unconstrained begins at the
    narrowest (with slices, at the widest)."""
    required_level: int | None = None
    """Members may not leave one domain of this level, which is not narrower than `level`; `None`: they may."""
    is_unconstrained: bool = False
    slice_size: int = 1
    slice_level: int | None = None
    """`None`: the narrowest. Not wider than `level`."""

    @property
    def slices(self) -> int:
        """How many slices the members are."""
        return -(-self.count // self.slice_size)


class DomainChoice(msgspec.Struct, frozen=True, eq=False):
    """The domains that were chosen."""

    level: int
    """The level at which they were looked for: wider than what is asked for if nothing narrower holds the group."""
    shares: tuple[Share, ...]
    """Of the narrowest level, in the order of domains: how many members go to each."""


class Shortfall(msgspec.Struct, frozen=True):
    """Nothing holds the group."""

    level: int
    """The level at which it was looked for last."""
    slices: int
    """The most slices that find room there."""


def choose_domains(
    tree: DomainTree, rooms: Rooms, wanted: DomainsWanted, held: Rooms | None = None, steps: StepsLeft | None = None
) -> DomainChoice | Shortfall:
    """The domains for the members. `rooms`: how many more members each unit takes.

    `held`: how many members each unit has already; the others join these as far as the request says that they belong
    together. `steps`: for the search for fewer domains than Kueue would use; without any left there is none.
    """
    return _Choice(tree, rooms, wanted, held, StepsLeft() if steps is None else steps).run()


class _Choice:
    """One choice. Amounts are per level and domain."""

    def __init__(
        self, tree: DomainTree, rooms: Rooms, wanted: DomainsWanted, held: Rooms | None, steps: StepsLeft
    ) -> None:
        self._tree, self._wanted, self._steps = tree, wanted, steps
        self._slice_level = tree.narrowest if wanted.slice_level is None else wanted.slice_level
        self._rooms = [level.sums(rooms) for level in tree.levels]
        """How many members each domain takes."""
        self._slices = self._slices_by_level()
        """How many whole slices; of levels below the slice level members."""
        self._held = None if held is None or not held.any() else [level.sums(held) for level in tree.levels]
        self._fills_least = wanted.is_unconstrained

    def run(self) -> DomainChoice | Shortfall:
        found = self._fitting()
        if isinstance(found, Shortfall):
            return found
        level, domains = found
        shares = self._cover(level, domains, self._wanted.slices)
        down = self._descend(level, shares, self._wanted.level) if level < self._wanted.level else (level, shares)
        if level < self._wanted.level and self._held is None:
            down = self._wanted.level, self._fewer(level, domains, down[1])
        shares = self._as_members(*self._descend(*down, self._tree.narrowest))
        return DomainChoice(level, tuple(sorted(shares, key=lambda share: share.domain)))

    # --- how much room there is ---------------------------------------------------------------------------------------

    def _slices_by_level(self) -> list[Rooms]:
        wanted, levels = self._wanted, self._tree.levels
        slices = list(self._rooms)
        slices[self._slice_level] = self._rooms[self._slice_level] // wanted.slice_size
        for number in range(self._slice_level, 0, -1):
            above = np.zeros(len(levels[number - 1]), dtype=np.int64)
            np.add.at(above, levels[number].parents, slices[number])
            slices[number - 1] = above
        return slices

    def _in_order(self, level: int, domains: Sequence[int]) -> DomainNumbers:
        """The most slices first, of equal ones those with the least room beyond. Unconstrained: the fewest first.

        Domains in which there are members come before all others.
        """
        sign = 1 if self._fills_least else -1
        numbers = np.asarray(domains, dtype=np.intp)
        keys = [numbers, self._rooms[level][numbers], sign * self._slices[level][numbers]]
        if self._held is not None:
            keys.append(self._held[level][numbers] == 0)
        order: DomainNumbers = numbers[np.lexsort(keys)]
        return order

    # --- the level ----------------------------------------------------------------------------------------------------

    def _fitting(self) -> tuple[int, list[int]] | Shortfall:
        """The level, and the domains there that hold the group: one, or, only at the widest, several."""
        wanted = self._wanted
        for level in range(wanted.level, -1, -1):
            domains = self._in_order(level, self._holding_all(level))
            slices = self._slices[level][domains]
            tightest = _first_tightest(slices, wanted.slices)
            if tightest >= 0:
                return level, [int(domains[tightest])]
            if level == wanted.required_level:
                return Shortfall(level, int(slices.max(initial=0)))
            if wanted.is_unconstrained:
                break
        every = list(range(len(self._tree.levels[level])))
        there = int(self._slices[level].sum())
        return (level, every) if there >= wanted.slices else Shortfall(level, there)

    def _holding_all(self, level: int) -> Sequence[int]:
        """The domains in which all members are that have a node; all domains if none has."""
        if self._held is None:
            return range(len(self._tree.levels[level]))
        held = self._held[level]
        return np.flatnonzero(held == held.sum()).tolist()

    # --- going down ---------------------------------------------------------------------------------------------------

    def _cover(self, level: int, domains: Sequence[int], amount: int, *, by_members: bool = False) -> list[Share]:
        """As few of the domains as hold so many slices (`by_members`: members), and how many each gets."""
        rooms = self._rooms[level] if by_members else self._slices[level]
        order, shares = self._in_order(level, domains), list[Share]()
        for place, largest in enumerate(order.tolist()):
            domain = largest
            if not self._fills_least and rooms[domain] >= amount and not self._has_members(level, domain):
                # The last one: the tightest that holds the rest, of equal ones the first.
                domain = int(order[place + _first_tightest(rooms[order[place:]], amount)])
            if rooms[domain] > 0:
                shares.append(Share(domain, min(amount, int(rooms[domain]))))
                amount -= shares[-1].amount
            if not amount:
                break
        return shares

    def _has_members(self, level: int, domain: int) -> bool:
        return self._held is not None and bool(self._held[level][domain])

    def _children(self, level: int, domains: Sequence[int]) -> list[int]:
        """The domains of the next level that are in these."""
        return np.flatnonzero(np.isin(self._tree.levels[level + 1].parents, domains)).tolist()

    def _descend(self, level: int, shares: list[Share], until: int) -> tuple[int, list[Share]]:
        """The shares at a narrower level: in slices down to the slice level, in members below it."""
        while level < until:
            if level < self._slice_level:
                # Slices may go to any children, whichever parent was counted on for them.
                children = self._children(level, [share.domain for share in shares])
                shares = self._cover(level + 1, children, self._wanted.slices)
            else:
                shares = [
                    below
                    for share in self._as_members(level, shares)
                    for below in self._cover(
                        level + 1, self._children(level, [share.domain]), share.amount, by_members=True
                    )
                ]
            level += 1
        return level, shares

    def _as_members(self, level: int, shares: list[Share]) -> list[Share]:
        """At the slice level: slices as members; the last slice may be short."""
        if level != self._slice_level:
            return shares
        size, left = self._wanted.slice_size, self._wanted.count
        result = []
        for share in sorted(shares, key=lambda share: share.domain):
            result.append(Share(share.domain, min(left, share.amount * size)))
            left -= result[-1].amount
        return result

    def _fewer(self, level: int, domains: Sequence[int], shares: list[Share]) -> list[Share]:
        """The shares at the level that is asked for, or others of fewer domains on the way from `level` down to it."""
        wanted = self._wanted
        if len(domains) == 1:  # others of this level may hold the group in fewer narrow ones
            fitting = np.flatnonzero(self._slices[level] >= wanted.slices).tolist()
            starts = [[each] for each in self._in_order(level, fitting).tolist()]
        else:
            starts = [list(domains)]
        slices = self._slices[level : wanted.level + 1]
        levels = self._tree.levels[level : wanted.level + 1]
        fewest = fewest_domains(levels, slices, wanted.slices, starts, shares, self._steps)
        return self._cover(wanted.level, [share.domain for share in fewest], wanted.slices)


def _first_tightest(rooms: Rooms, amount: int) -> int:
    """The place of the least room that holds the amount, of equal ones the first; -1: none does."""
    holding = np.flatnonzero(rooms >= amount)
    return int(holding[rooms[holding].argmin()]) if len(holding) else -1
