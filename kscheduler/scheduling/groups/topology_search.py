"""A group that asks for a topology: its domains are chosen by numbers, and the group is tried there by the engine.

    rooms of the nodes -> choose domains -> try the group there -> it fits: done
                              ^                     |
                              '- less room there <--'   a domain has taken fewer members than was thought

The rooms are never too low at the beginning (`member_rooms`), and each trial that fails lowers some of them to what the
engine has found. So the first domains that fit are the best that there are, as long as no more than `MAX_TRIALS` trials
are needed. A gang that nothing holds as a whole is placed with as many members as possible, down to its minimum.

Slices and ranks: each member is tried in its own domain only, the lowest ranks in the first one. Ranks give way where
the group fits only without them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from time import perf_counter
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.cluster.preemption import GroupPlacement
from kscheduler.framework.cluster.topology_request import (
    NARROWEST,
    WIDEST,
    TopologyRequest,
)
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.status import Code, unschedulable
from kscheduler.scheduling.domains.domain_choice import DomainsWanted, Shortfall, choose_domains
from kscheduler.scheduling.domains.domain_tree import DomainTree, domain_tree
from kscheduler.scheduling.groups.group_cycle import (
    GroupInputs,
    GroupResult,
    MemberResult,
    TriedPlacement,
    try_members,
    with_untried,
)
from kscheduler.scheduling.groups.member_rooms import rooms_for_members
from kscheduler.state.topology_levels import LevelColumn, LevelList

MAX_TRIALS: Final = 16
_MAX_NAMED: Final = 3
_NO_SLICE: Final = "no domain has room for its slice"


class _Part(msgspec.Struct, frozen=True, eq=False):
    """A domain of the narrowest level, with what it gets."""

    domain: int
    rows: Rows
    count: int


class TopologySearch:
    """One search. Units are the nodes that are in a domain of each level that the request names; where a wider one is
    required, a node without the preferred level is a domain of its own there.
    """

    def __init__(
        self, inputs: GroupInputs, request: TopologyRequest, levels: LevelList, rows: Rows, *, has_ranks: bool
    ) -> None:
        self._inputs, self._request, self._levels, self._all = inputs, request, levels, rows
        self._has_ranks = has_ranks
        self._steps = None if inputs.findings is None else inputs.findings.steps
        level = levels.place_of(request.preferred or request.required) if not request.is_unconstrained else -1
        self._slice_level = levels.place_of(request.slice_level) if request.slice_level else None
        if level < 0:  # unconstrained, or slices alone
            level = levels.place_of(WIDEST if request.slice_level else NARROWEST)
        self._level = level
        self._required = levels.place_of(request.required) if request.required else None
        # The level down to which members are counted out.
        self._last = max(level, levels.place_of(NARROWEST), self._slice_level or 0)
        self.problem = self._contradiction()
        """Levels in the wrong order; empty: they are in order."""
        if self.problem:
            return
        self._rows, self._tree = self._units()
        rooms = rooms_for_members(inputs, self._rows)
        self._is_spare = self._spares(rooms)
        self._rooms = np.where(self._is_spare, 0, rooms)
        self._held = self._held_members()
        self._tried: list[TriedPlacement] = []
        self._results: list[GroupResult] = []

    def _contradiction(self) -> str:
        request = self._request
        if self._required is not None and self._required > self._level:
            return f"prefers {request.preferred}, which is wider than the required {request.required}"
        if self._slice_level is not None and self._slice_level < self._level:
            return f"has slices in one {request.slice_level}, which is wider than what it asks for itself"
        return ""

    def run(self) -> GroupResult:
        """The result for all members."""
        least, shortfall = self._least(), None
        target = len(self._inputs.members)
        while target >= least and len(self._tried) < MAX_TRIALS:
            parts = self._choose(target)
            if isinstance(parts, Shortfall):
                shortfall = shortfall or parts
                # Slices that have begun are not among those that were looked for.
                begun = sum(part.count for part in self._begun_slices(target)[1])
                target = min(target - 1, begun + parts.slices * self._request.slice_size)
                continue
            ended = self._try(parts, target)
            if ended is not None:
                return ended
        if self._request.is_soft:
            result = self._try_on(self._all, GroupPlacement("", self._all), "anywhere")
            if result.status.code is Code.ERROR:
                return self._taken(len(self._results) - 1)
        best = self._most_members()
        return self._failure(shortfall) if best is None else self._taken(best)

    def _least(self) -> int:
        """So many members must be placed at least."""
        scheduled = self._inputs.cache.pod_groups.count_scheduled(self._inputs.group.key)
        return max(1, self._inputs.group.least - scheduled)

    def single_domains(self) -> list[GroupPlacement]:
        """The domains from the level that is asked for up to the required one, or the widest: `domains_for_tree`."""
        found: list[GroupPlacement] = []
        count, held = len(self._inputs.members), self._held
        for place in range(self._level, (self._required or 0) - 1, -1):
            level = self._tree.levels[place]
            rooms, kept = level.sums(self._rooms).tolist(), level.sums(held)
            domains = [each for each in range(len(level)) if not held.any() or kept[each] == held.sum()]
            holding = sorted((each for each in domains if rooms[each] >= count), key=lambda each: rooms[each])
            if place == self._required:  # a tree may fit without all of its groups
                holding += sorted((each for each in domains if 0 < rooms[each] < count), key=lambda each: -rooms[each])
            found += [GroupPlacement(_path(level.paths[each]), self._rows[level.of_units == each]) for each in holding]
        return found[:MAX_TRIALS]

    # --- the nodes ----------------------------------------------------------------------------------------------------

    def _units(self) -> tuple[Rows, DomainTree]:
        """The nodes that have all levels that they must have, in domains."""
        nodes, levels = self._inputs.cache.nodes, self._levels.levels[: self._last + 1]
        needed = self._level if self._required is None else self._required
        named = sorted({needed, *(() if self._slice_level is None else (self._slice_level,))})

        def made() -> tuple[Rows, DomainTree]:
            rows = self._all
            is_unit = np.ones(len(rows), dtype=np.bool_)
            for place in named:
                is_unit &= levels[place].column(nodes, rows)[0] > 0
            rows = rows[is_unit]
            columns = [level.column(nodes, rows) for level in levels]
            columns[self._level] = _each_alone(columns[self._level], nodes, rows)
            return rows, domain_tree([level.key for level in levels], columns)

        if len(self._all) < len(nodes):
            return made()
        key = self._levels.source, tuple(level.key for level in levels), tuple(named), self._level
        return self._inputs.cache.topology_levels.of_all_nodes(nodes, key, made)

    def _spares(self, rooms: NDArray[np.int64]) -> NDArray[np.bool_]:
        """In each domain the nodes with the most room, as many as are to stay free; of equal ones the last."""
        spares = self._request.spare_nodes
        if not spares or not len(rooms):
            return np.zeros(len(rooms), dtype=np.bool_)
        domains = self._tree.levels[self._level if self._slice_level is None else self._slice_level].of_units
        places = self._inputs.cache.nodes.name_places()[self._rows]
        order = np.lexsort((-places, -rooms, domains))
        _, firsts, counts = np.unique(domains[order], return_index=True, return_counts=True)
        is_spare = np.zeros(len(rooms), dtype=np.bool_)
        is_spare[order] = np.arange(len(order)) - np.repeat(firsts, counts) < spares
        return is_spare

    def _held_members(self) -> NDArray[np.int64]:
        """How many members run on each unit."""
        return self._by_unit(name for _, name in self._inputs.cache.pod_groups.assignments(self._inputs.group.key))

    def _by_unit(self, node_names: Iterable[str]) -> NDArray[np.int64]:
        """How often each unit is named."""
        nodes = self._inputs.cache.nodes
        rows = np.array([row for row in map(nodes.row_of, node_names) if row >= 0], dtype=np.intp)
        counts: NDArray[np.int64] = np.bincount(rows, minlength=nodes.capacity).astype(np.int64)[self._rows]
        return counts

    # --- choosing and trying ------------------------------------------------------------------------------------------

    def _choose(self, target: int) -> list[_Part] | Shortfall:
        if not len(self._rows):
            return Shortfall(self._level, 0)
        rooms, parts = self._begun_slices(target)
        left = target - sum(part.count for part in parts)
        if left <= 0:
            return parts
        request = self._request
        wanted = DomainsWanted(
            left,
            self._level,
            self._required,
            is_unconstrained=request.is_unconstrained,
            slice_size=request.slice_size,
            slice_level=self._slice_level,
        )
        choice = choose_domains(self._tree, rooms, wanted, self._held, self._steps)
        if isinstance(choice, Shortfall):
            return choice
        of_units = self._tree.levels[-1].of_units
        return [
            *parts,
            *(_Part(each.domain, self._rows[of_units == each.domain], each.amount) for each in choice.shares),
        ]

    def _begun_slices(self, target: int) -> tuple[NDArray[np.int64], list[_Part]]:
        """Slices some of whose members run are made whole first; the rooms that are left then."""
        if self._slice_level is None or not self._held.any():
            return self._rooms, []
        level, narrowest = self._tree.levels[self._slice_level], self._tree.levels[-1].of_units
        rooms, held, parts = self._rooms.copy(), level.sums(self._held), list[_Part]()
        for domain in np.flatnonzero(held % self._request.slice_size).tolist():
            missing = min(-int(held[domain]) % self._request.slice_size, target - sum(p.count for p in parts))
            for place in np.flatnonzero(level.of_units == domain).tolist():
                count = min(missing, int(rooms[place]))
                if count:
                    rooms[place] -= count
                    missing -= count
                    parts.append(_Part(int(narrowest[place]), self._rows[place : place + 1], count))
        return rooms, parts

    def _try(self, parts: Sequence[_Part], target: int) -> GroupResult | None:
        """Try the group there; the result if the search ends with it. Otherwise there is less room than before."""
        rows = np.concatenate([part.rows for part in parts])
        rows = np.unique(rows[~np.isin(rows, self._rows[self._is_spare])])
        placement, why = GroupPlacement(self._name_of(parts), rows), self._why(parts)
        if self._slice_level is not None or (self._has_ranks and len(parts) > 1):
            rows_of = self._allotted(parts)
            result = self._try_on(rows, placement, why, rows_of)
            ended = self._ended(result, target)
            if ended is not None:
                return ended
            if self._slice_level is not None:
                self._lower_where_rejected(parts, result, rows_of)
                return None
        result = self._try_on(rows, placement, why)
        ended = self._ended(result, target)
        if ended is None:
            # A member found no room in any of the parts, so none has room for more members than it got.
            self._lower([part.rows for part in parts], result)
        return ended

    def _allotted(self, parts: Sequence[_Part]) -> dict[str, Rows]:
        """By UID of a member the rows of its part: the first members go to the first part."""
        spares = self._rows[self._is_spare]
        rows_of: dict[str, Rows] = {}
        members = iter(self._inputs.members)
        for part in parts:
            own = part.rows[~np.isin(part.rows, spares)]
            rows_of.update((pod.uid, own) for pod in islice(members, part.count))
        return rows_of

    def _try_on(
        self, rows: Rows, placement: GroupPlacement, why: str, rows_of: Mapping[str, Rows] | None = None
    ) -> GroupResult:
        began, inputs = perf_counter(), self._inputs
        if rows_of is not None and self._slice_level is not None:
            # Further members would begin a slice for which there is no room.
            inputs = replace(inputs, members=inputs.members[: len(rows_of)])
        is_everywhere = len(rows) == len(inputs.cache.nodes)
        result = try_members(inputs, None if is_everywhere else rows, rows_of)
        self._tried.append(TriedPlacement(placement, result.status, perf_counter() - began, why=why))
        self._results.append(result)
        return result

    def _ended(self, result: GroupResult, target: int) -> GroupResult | None:
        is_error = result.status.code is Code.ERROR
        is_whole = result.status.is_success and _placed(result) >= target
        return self._taken(len(self._results) - 1) if is_error or is_whole else None

    def _lower_where_rejected(self, parts: Sequence[_Part], result: GroupResult, rows_of: Mapping[str, Rows]) -> None:
        """Lower the rooms of the parts in which a member was rejected; the trial may have ended before the others."""
        rejected = [rows_of[member.pod.uid] for member in result.members if _is_rejected_in(member, rows_of)]
        tight = np.concatenate(rejected) if rejected else np.concatenate([part.rows for part in parts])
        self._lower([part.rows for part in parts if np.isin(part.rows, tight).any()], result)

    def _lower(self, parts: Sequence[Rows], result: GroupResult) -> None:
        """There is room for those members only that found a node there."""
        found = self._by_unit(
            member.record.node_name
            for member in result.members
            if member.status.is_success and member.record is not None
        )
        is_here = np.isin(self._rows, np.concatenate(parts))
        self._rooms = np.where(is_here, np.minimum(self._rooms, found), self._rooms)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _most_members(self) -> int | None:
        """The trial that placed the most members, of those in which the group may be placed; `None`: there is none."""
        fitting = [number for number, result in enumerate(self._results) if result.status.is_success]
        return max(fitting, key=lambda number: _placed(self._results[number]), default=None)

    def _taken(self, number: int) -> GroupResult:
        self._tried[number].is_chosen = True
        result = self._results[number]
        if result.status.is_success:
            untried = self._inputs.members[len(result.members) :]
            result.members += [MemberResult(pod, unschedulable(_NO_SLICE)) for pod in untried]
        result.placements, result.generated = self._tried, len(self._tried)
        return with_missing_members(self._inputs, result)

    def _failure(self, shortfall: Shortfall | None) -> GroupResult:
        """No placement has room; the members have their reasons of the first trial."""
        if not self._results:  # the columns say that it fits nowhere: the trial says why
            self._try_on(self._rows, GroupPlacement("", self._rows), "for the reasons of the members")
        first = self._results[0]
        first.status = unschedulable(self.shortage(shortfall), plugin=first.status.plugin)
        first.placements, first.generated = self._tried, len(self._tried)
        return with_missing_members(self._inputs, first)

    # --- words --------------------------------------------------------------------------------------------------------

    def shortage(self, shortfall: Shortfall | None = None) -> str:
        """How much room is missing."""
        request, count = self._request, len(self._inputs.members)
        if not len(self._rows):
            return f"no node has the label {' and '.join(request.labels) or self._levels.levels[self._level].key}"
        place = self._level if shortfall is None else shortfall.level
        level = self._levels.levels[place]
        size = request.slice_size
        unit = f"slices of {size} members" if size > 1 else "members"
        if shortfall is None and self._tried:  # the trials were used up
            return f"{len(self._tried)} choices of domains of {level.key} were tried, and none holds {count} members"
        most = 0 if shortfall is None else shortfall.slices
        of = -(-count // size)
        domains = len(self._tree.levels[place])
        free = f" beside {request.spare_nodes} spare nodes" if request.spare_nodes else ""
        if self._required is not None:
            return f"0/{domains} domains of {level.key} have room for {of} {unit}: at most {most} fit into one{free}"
        return f"the {domains} domains of {level.key} have room for {most} of {of} {unit}{free}"

    def _name_of(self, parts: Sequence[_Part]) -> str:
        counts: dict[int, int] = {}
        for part in parts:
            counts[part.domain] = counts.get(part.domain, 0) + part.count
        paths = self._tree.levels[-1].paths
        if len(counts) == 1:
            return "/".join(each for each in paths[next(iter(counts))] if each)
        return ", ".join(_named((_path(paths[domain]), count) for domain, count in sorted(counts.items())))

    def _why(self, parts: Sequence[_Part]) -> str:
        """How many domains are used at each level."""
        domains, counts = {part.domain for part in parts}, []
        for level in reversed(self._tree.levels):
            counts.append(f"{len(domains)} of {len(level)} {level.key}")
            domains = {int(level.parents[domain]) for domain in domains}
        return ", ".join(reversed(counts))


def _each_alone(column: LevelColumn, nodes: NodeTable, rows: Rows) -> LevelColumn:
    """The level with each node that is in none of its domains in one of its own."""
    numbers, values = column
    missing = np.flatnonzero(numbers == 0)
    if not len(missing):
        return column
    alone = numbers.copy()
    alone[missing] = np.arange(len(values), len(values) + len(missing))
    return alone, [*values, *nodes.names(rows[missing])]


def _is_rejected_in(member: MemberResult, rows_of: Mapping[str, Rows]) -> bool:
    return member.status.is_rejected and member.pod.uid in rows_of


def _placed(result: GroupResult) -> int:
    return sum(member.status.is_success for member in result.members)


def _path(path: Iterable[str]) -> str:
    return "/".join(each for each in path if each)


def _named(domains: Iterable[tuple[str, int]]) -> Iterator[str]:
    listed = list(domains)
    yield from (f"{path} ({count})" for path, count in listed[:_MAX_NAMED])
    if len(listed) > _MAX_NAMED:
        yield f"{len(listed) - _MAX_NAMED} more"


def with_missing_members(inputs: GroupInputs, result: GroupResult) -> GroupResult:
    """The result for all members, also where the trial has ended before the last one."""
    return with_untried(inputs, result) if len(result.members) < len(inputs.members) else result
