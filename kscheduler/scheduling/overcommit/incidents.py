"""Which nodes are overcommitted now, since when, and who came last.

`look` runs once a second and reads the table's change logs behind the positions that it has seen, as all readers of
columns do: nothing is added to the handling of events or to a decision. An incident is one resource of one node. It is
reported once when it begins and once when it ends.

What caused it (`OvercommitCause`) is told from the order in which this process has counted the pods. A node that had
more of the resource when it was last looked at is nobody's fault but its own.

Limits: an overfill that comes and goes between two looks is not seen (a pod that the kubelet rejects at once is such
a one). What was there at the first look is ordered by what the pods say themselves, to the second; nobody is blamed
for it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from kscheduler.aio.clock import Clock
from kscheduler.framework.nodes.change_log import ChangeLog
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.foreign_bindings import ForeignBindings
from kscheduler.scheduling.overcommit.excess import (
    Excess,
    excesses,
    in_order_of_placement,
    latest_pods,
    resource_label,
    suspect_rows,
)
from kscheduler.state.cache import Cache
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught

_log = get_logger("kscheduler.overfill")

LOOK_SECONDS: Final = 1.0
_RESIZES: Final = frozenset({"PodResizePending", "PodResizeInProgress"})


class OvercommitCause(StrEnum):
    """Why a node is overcommitted: a label of metrics, and a field of log lines."""

    ANOTHER_SCHEDULER = "another_scheduler"
    """Among the pods that came last is one that this scheduler has not placed."""
    OWN = "own"
    """The pods that came last are ours: a profile without the filter that counts this resource."""
    ALLOCATABLE = "allocatable"
    """The node has less than it had: a device plugin is gone, or the kubelet's reservations have grown."""
    RESIZE = "resize"
    """A pod asks for more than it had; the kubelet has not granted it (in-place resize)."""
    FOUND_AT_START = "found_at_start"
    """It was there when this process began to look."""

    __hash__ = str.__hash__


class Overcommit(msgspec.Struct, frozen=True):
    """A resource of a node of which more is requested than there is."""

    node_name: str
    excess: Excess
    """As it is now."""
    cause: OvercommitCause
    since: float
    """Wall-clock seconds."""
    latest: tuple[tuple[str, str, str], ...]
    """Key, UID and schedulerName of the pods without which the node was within its allocatable, when it began."""
    is_reported: bool = False


class OvercommitReports(Protocol):
    """Who hears of incidents: `overcommit_reports.OvercommitReporter`."""

    def began(self, overcommit: Overcommit, info: NodeInfo) -> None:
        """A node has become overcommitted."""
        ...

    def ended(self, overcommit: Overcommit, seconds: float, *, is_node_gone: bool) -> None:
        """It is within its allocatable again, or gone."""
        ...


class OvercommittedNodes:
    """The incidents. Reports them while `is_reporting`; a process that stands by only knows them."""

    def __init__(
        self, cache: Cache, profiles: Collection[str], taken: ForeignBindings, reports: OvercommitReports, clock: Clock
    ) -> None:
        """`profiles`: our scheduler names, as they are now at each look."""
        self._cache = cache
        self._profiles = profiles
        self._taken = taken
        self._reports = reports
        self._clock = clock
        self.is_reporting = False
        """Whether this process schedules: of several replicas one speaks."""
        self._open: dict[str, dict[str, Overcommit]] = {}
        """By node and resource."""
        self._seen_nodes = self._seen_amounts = -1
        """Positions in the table's logs; -1: nothing was looked at yet."""
        self._allocatable: dict[int, tuple[str, Mapping[str, int]]] = {}
        """By row the node's name and what it had when it was last looked at."""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            await self._clock.sleep(LOOK_SECONDS)

    # --- reading ------------------------------------------------------------------------------------------------------

    def incidents(self) -> list[Overcommit]:
        """All that last, by node; a copy."""
        return [overcommit for by_resource in self._open.values() for overcommit in by_resource.values()]

    def nodes_by_cause(self) -> Mapping[tuple[str, str], int]:
        """Nodes by (label of the resource, cause)."""
        nodes = {(one.node_name, resource_label(one.excess.resource), one.cause.value) for one in self.incidents()}
        return Counter((resource, cause) for _, resource, cause in nodes)

    # --- looking ------------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Look at the rows that have changed since the last time."""
        table = self._cache.nodes
        is_first = self._seen_amounts < 0
        node_rows = self._changed(table.node_changes, self._seen_nodes)
        changed = self._changed(table.amount_changes, self._seen_amounts)
        self._seen_nodes, self._seen_amounts = table.node_changes.position, table.amount_changes.position
        rows = dict.fromkeys((*suspect_rows(table, changed).tolist(), *table.ports.take_shared()))
        suspects = (info.name for row in rows if (info := table.infos[row]) is not None)
        for name in dict.fromkeys((*suspects, *self._due(changed))):
            try:
                self._look_at(name, is_first=is_first)
            except Exception:  # noqa: BLE001  a bug about one node must not end the scheduler
                count_caught(Boundary.EVENT_HANDLER)
                _log.exception("node_not_looked_at", node=name)
        for row in node_rows.tolist():
            info = table.infos[row]
            if info is None:
                self._allocatable.pop(row, None)
            else:
                self._allocatable[row] = info.name, info.allocatable

    def _due(self, changed: Rows) -> list[str]:
        """The nodes with an incident that may have ended or changed, or that is still to be reported."""
        rows, row_of = frozenset(changed.tolist()) if self._open else frozenset(), self._cache.nodes.row_of
        return [
            name
            for name, overcommits in self._open.items()
            if (row := row_of(name)) < 0  # the node is gone
            or row in rows
            or (self.is_reporting and not all(overcommit.is_reported for overcommit in overcommits.values()))
        ]

    def _changed(self, log: ChangeLog, seen: int) -> Rows:
        rows = log.since(seen) if seen >= 0 else None
        return self._cache.nodes.rows() if rows is None else rows

    def _look_at(self, name: str, *, is_first: bool) -> None:
        row = self._cache.nodes.row_of(name)
        info = self._cache.nodes.infos[row] if row >= 0 else None
        known = self._open.pop(name, {})
        found = {} if info is None else self._found_on(info, row, known, is_first=is_first)
        if found:
            self._open[name] = found
        for resource, overcommit in known.items():
            if resource not in found:
                self._end(overcommit, is_node_gone=info is None)

    def _found_on(
        self, info: NodeInfo, row: int, known: Mapping[str, Overcommit], *, is_first: bool
    ) -> dict[str, Overcommit]:
        """The node's incidents as they are now, by resource; those that are `known` go on."""
        found: dict[str, Overcommit] = {}
        for excess in excesses(info):
            overcommit = known.get(excess.resource) or self._begin(info, row, excess, is_first=is_first)
            if self.is_reporting and not overcommit.is_reported:
                self._reports.began(overcommit, info)
                overcommit = replace(overcommit, is_reported=True)
            found[excess.resource] = overcommit if overcommit.excess == excess else replace(overcommit, excess=excess)
        return found

    def _begin(self, info: NodeInfo, row: int, excess: Excess, *, is_first: bool) -> Overcommit:
        counted = list(info.pods.values())
        latest = latest_pods(in_order_of_placement(counted) if is_first else counted, excess)
        cause = self._cause(info, row, excess, latest, is_first=is_first)
        pods = tuple((pod.key, pod.uid, pod.pod.spec.scheduler_name) for pod in latest)
        return Overcommit(info.name, excess, cause, self._clock.time(), pods)

    def _cause(
        self, info: NodeInfo, row: int, excess: Excess, latest: Iterable[PodInfo], *, is_first: bool
    ) -> OvercommitCause:
        if is_first:
            return OvercommitCause.FOUND_AT_START
        name, before = self._allocatable.get(row, ("", {}))
        if name == info.name and before.get(excess.resource, 0) >= excess.requested:
            return OvercommitCause.ALLOCATABLE  # with what it had, all of them would fit
        if any(_RESIZES.intersection(condition.type for condition in pod.pod.status.conditions) for pod in latest):
            return OvercommitCause.RESIZE
        return OvercommitCause.OWN if all(self.is_ours(pod) for pod in latest) else OvercommitCause.ANOTHER_SCHEDULER

    def is_ours(self, pod: PodInfo) -> bool:
        """Whether the pod names one of our profiles and, as far as this process knows, none but us has bound it."""
        return pod.pod.spec.scheduler_name in self._profiles and pod.uid not in self._taken

    def _end(self, overcommit: Overcommit, *, is_node_gone: bool) -> None:
        if overcommit.is_reported:
            self._reports.ended(overcommit, self._clock.time() - overcommit.since, is_node_gone=is_node_gone)
