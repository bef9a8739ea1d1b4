"""Nodes in domains: racks in blocks in zones, from the values that nodes have at each level.

A domain is known by the values on the way to it, not by its own alone: two blocks may both have a rack r0. In each
level domains are in the order of these values, so that a lower number comes first wherever two are equally good.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

# The number of a domain within its level, per unit (a node, or several) or per domain.
DomainNumbers = NDArray[np.intp]
# An amount per unit or per domain: how many pods or slices it has room for.
Rooms = NDArray[np.int64]
# The value of a domain at each level, from the widest on.
Path = tuple[str, ...]


class DomainLevel(msgspec.Struct, frozen=True, eq=False):
    """The domains of one level."""

    key: str
    """The label, or another name of the level."""
    paths: tuple[Path, ...]
    """By domain; ascending."""
    parents: DomainNumbers
    """By domain the one above it; 0 at the widest level."""
    of_units: DomainNumbers
    """By unit the domain that it is in."""

    def __len__(self) -> int:
        return len(self.paths)

    def sums(self, rooms: Rooms) -> Rooms:
        """The amounts of all units, by domain."""
        sums = np.zeros(len(self), dtype=np.int64)
        np.add.at(sums, self.of_units, rooms)
        return sums


class DomainTree(msgspec.Struct, frozen=True, eq=False):
    """Levels from wide to narrow, at least one."""

    levels: tuple[DomainLevel, ...]

    @property
    def narrowest(self) -> int:
        """The number of the narrowest level."""
        return len(self.levels) - 1


def domain_tree(keys: Sequence[str], columns: Sequence[tuple[NDArray[np.int32], Sequence[str | None]]]) -> DomainTree:
    """The tree of units. Per key (wide to narrow) a column: a value's number per unit, and the values by number.

    A unit whose value is missing (number 0) is in the domain of the empty value.
    """
    levels: list[DomainLevel] = []
    above: DomainNumbers = np.zeros(len(columns[0][0]), dtype=np.intp)
    for key, (numbers, values) in zip(keys, columns, strict=True):
        # Two parents may have a domain of the same value: the pair tells them apart.
        pairs = above * (len(values) + 1) + numbers
        _, firsts, of_units = np.unique(pairs, return_index=True, return_inverse=True)
        parents = above[firsts]
        ways = levels[-1].paths if levels else ((),)
        paths = [
            (*ways[parent], values[number] or "" if number else "")
            for parent, number in zip(parents.tolist(), numbers[firsts].tolist(), strict=True)
        ]
        order = sorted(range(len(paths)), key=paths.__getitem__)
        place = np.empty(len(order), dtype=np.intp)
        place[order] = np.arange(len(order))
        above = place[of_units.reshape(-1)]
        levels.append(DomainLevel(key, tuple(paths[number] for number in order), parents[order], above))
    return DomainTree(tuple(levels))
