"""In which domains a node more would help a waiting pod group most: those that have room for the most of its members.

A group that must be in one domain of a level, or has slices in domains of one, is not helped by a node just anywhere.
Of its levels those count that it may not leave: what it merely prefers does not decide whether it fits.
"""

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.api.well_known import HOSTNAME
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.scheduling.groups.group_cycle import GroupInputs
from kscheduler.scheduling.groups.member_rooms import rooms_for_members
from kscheduler.scheduling.groups.topology_placement import requested_topology
from kscheduler.state.topology_levels import LevelList, TopologyLevel

# Groups of a tree whose levels are looked at.
_MAX_GROUPS: Final = 64


class GroupDomains(msgspec.Struct, frozen=True, eq=False):
    """The domains of all nodes."""

    paths: NDArray[np.int64]
    """By row the number of its narrowest domain; -1: it is in none of some level that the group asks for."""
    rooms: tuple[NDArray[np.int64], ...]
    """By row for how many members there is room in its domain, at each level that is asked for, from wide to narrow."""

    def roomiest(self, rows: Rows, most: int) -> list[Rows]:
        """The rows of each domain, those of `most` domains: of most room first, of equals that of most rows."""
        placed = rows[self.paths[rows] >= 0]
        _, first, numbers = np.unique(self.paths[placed], return_index=True, return_inverse=True)
        domains = [placed[numbers == number] for number in range(len(first))]
        domains.sort(key=lambda each: ([-int(room[each[0]]) for room in self.rooms], -len(each), int(each[0])))
        return domains[:most]


def domains_of(inputs: GroupInputs) -> GroupDomains | None:
    """The domains that a group, or a tree of groups, may not leave; `None`: it may be on any node."""
    levels: dict[str, tuple[TopologyLevel, bool]] = {}
    for level, is_asked_for in _levels(inputs):
        _, before = levels.get(level.key, (level, False))
        levels[level.key] = level, before or is_asked_for
    levels.pop(HOSTNAME, None)  # each node is one, also a new one
    if not any(is_asked_for for _, is_asked_for in levels.values()):
        return None
    nodes = inputs.cache.nodes
    rows = nodes.rows()
    room = rooms_for_members(inputs, rows)
    path, is_in_all = np.zeros(len(rows), dtype=np.int64), np.ones(len(rows), dtype=np.bool_)
    rooms = []
    for level, is_asked_for in levels.values():
        numbers, values = level.column(nodes, rows)
        # A domain is one of the domain above it: racks of two blocks may have one name.
        _, path = np.unique(path * len(values) + numbers, return_inverse=True)
        if is_asked_for:
            is_in_all &= numbers > 0
            sums = np.zeros(int(path.max()) + 1, dtype=np.int64)
            np.add.at(sums, path, room)
            rooms.append(_by_row(rows, sums[path], nodes.capacity))
    return GroupDomains(_by_row(rows, np.where(is_in_all, path, -1), nodes.capacity), tuple(rooms))


def _by_row(rows: Rows, values: NDArray[np.int64], capacity: int) -> NDArray[np.int64]:
    column = np.full(capacity, -1, dtype=np.int64)
    column[rows] = values
    return column


def _levels(inputs: GroupInputs) -> Iterator[tuple[TopologyLevel, bool]]:
    """The levels of all groups of the tree from wide to narrow, and whether a group asks for the level itself."""
    waiting = [inputs]
    for _ in range(_MAX_GROUPS):
        if not waiting:
            return
        each = waiting.pop(0)
        waiting += each.children
        if each.group.topology_key:
            yield TopologyLevel(each.group.topology_key), True
        request = requested_topology(each)
        if request is None or request.problem or request.is_soft:
            continue
        nodes = each.cache.nodes
        found = each.cache.topology_levels.find(request, nodes, nodes.rows())
        if isinstance(found, LevelList):
            # Spare nodes are counted in each domain of the level that the group prefers.
            named = (request.required, request.slice_level, request.preferred if request.spare_nodes else "")
            places = {found.place_of(name) for name in named if name}
            for place, level in enumerate(found.levels[: max(places, default=-1) + 1]):
                yield level, place in places
