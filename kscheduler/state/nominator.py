"""Pods that are expected on a node before they are bound to it (`status.nominatedNodeName`).

Room that preemption makes, or that an autoscaler adds, is meant for a certain pod. A pod of lower or equal priority
must not take it meanwhile, so the cycle checks a node both with its nominated pods, as if they were there, and without.

    add       the watch shows a pending pod            takes the nomination from the status
    update    the pod has changed                      likewise, if the status names another node than before; other
                                                       updates leave a nomination that was decided here
    nominate  preemption has chosen a node             at once: the next decision comes before the watch event
    remove    it counts on a node, is gone or gave up

A pod that waits for scheduling gates is nominated from Kubernetes 1.37 on (`nominates_gated_pods`).
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Pod
from kscheduler.framework.nodes.arrivals import Arrivals
from kscheduler.framework.nodes.change_log import ChangeLog
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.nodes.pod_columns import Kind, kind_of
from kscheduler.framework.pods.pod_info import PodInfo

_KEPT_TOUCHED: Final = 4096


class NominatedPods:
    """Nominations by node. Implements `framework.handle.Nominator`."""

    def __init__(self) -> None:
        self.nominates_gated_pods = False
        """Whether pods with scheduling gates may be nominated; of those that come from now on."""
        self.node_of: dict[str, str] = {}
        """By UID. For reading."""
        self._pods: dict[str, dict[str, PodInfo]] = {}
        self._touched: dict[str, None] | None = None
        """UIDs whose nomination has begun or ended since the last `take_touched`; `None`: any may have."""
        self.changes = 0
        """The number of nominations that have begun or ended."""

    def __len__(self) -> int:
        return len(self.node_of)

    # --- reading ------------------------------------------------------------------------------------------------------

    def nominated_node(self, pod: PodInfo) -> str:
        """The node a pod is nominated to, or empty."""
        return self.node_of.get(pod.uid, "")

    def nominated_pods(self, node_name: str) -> tuple[PodInfo, ...]:
        """The pods nominated to a node, in the order of their nominations."""
        return tuple(self._pods.get(node_name, {}).values())

    def nomination(self, uid: str) -> tuple[str, PodInfo] | None:
        """The node to which a pod is nominated, and the pod; `None` if it is not nominated."""
        node_name = self.node_of.get(uid, "")
        return (node_name, self._pods[node_name][uid]) if node_name else None

    def nominated(self) -> Iterable[str]:
        """The UIDs of all nominated pods, in the order of their nominations."""
        return self.node_of.keys()

    def take_touched(self) -> dict[str, None] | None:
        """The UIDs whose nomination has begun or ended since the last call, in the order of the changes.

        `None` if there are too many. For a single caller only: `NominatedPods`.
        """
        touched, self._touched = self._touched, {}
        return touched

    # --- changing -----------------------------------------------------------------------------------------------------

    def add(self, pod: PodInfo) -> None:
        """Add a pending pod with the node that its status names."""
        if pod.pod.status.nominated_node_name or pod.uid in self.node_of:
            self.nominate(pod, pod.pod.status.nominated_node_name)

    def update(self, old: Pod, pod: PodInfo) -> None:
        """Update a pending pod. If both versions name the same node, or none, a nomination made here stays."""
        named = pod.pod.status.nominated_node_name
        if named == old.status.nominated_node_name:
            named = self.node_of.get(pod.uid, named)
        self.nominate(pod, named)

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Nominate the pod to this node, whatever its status says; empty ends its nomination."""
        if pod.uid in self.node_of:
            self.remove(pod.uid)
        if node_name and (self.nominates_gated_pods or not pod.pod.spec.scheduling_gates):
            # Unparsable requests fail here, where the pod comes in, and not in another pod's cycle.
            _ = pod.accounted, pod.nonzero_accounted, pod.host_ports
            self.node_of[pod.uid] = node_name
            self._pods.setdefault(node_name, {})[pod.uid] = pod
            self._touch(pod.uid)

    def remove(self, uid: str) -> None:
        """End the pod's nomination. Unknown pods are ignored."""
        node_name = self.node_of.pop(uid, "")
        if node_name:
            del self._pods[node_name][uid]
            if not self._pods[node_name]:
                del self._pods[node_name]
            self._touch(uid)

    def _touch(self, uid: str) -> None:
        self.changes += 1
        if self._touched is not None:
            self._touched.pop(uid, None)
            self._touched[uid] = None
            if len(self._touched) > _KEPT_TOUCHED:
                self._touched = None


# The nominated pods in columns: finds the pods to leave room for without a walk over all nominations.
#
# The problem: while a thousand preemptors wait for their victims to go, each further cycle must count all of them on
# their rows. The idea: the requests of a pod are computed when it is nominated; a cycle selects the pods of equal or
# higher priority and sums them by row. Between two cycles a few nominations change, and only those are updated.

_FIRST_LENGTH: Final = 64
# Larger amounts are not summed here, so that no sum of half a million pods overflows.
_LARGEST: Final = 2**44


class Expected:
    """The nominated pods that a pod must leave room for, sorted and summed when the relevant rows are known."""

    def __init__(self, columns: "NominatedColumns", slots: NDArray[np.intp]) -> None:
        self._columns = columns
        self._slots = slots
        self._everywhere: Arrivals | None = None

    def among(self, rows: Rows) -> Arrivals | None:
        """The pods expected on the rows (ascending), by row; `None` if there are none."""
        if len(rows) == 1 and self._everywhere is None:  # as for the node that the pod itself is nominated to
            slots = self._columns.on_row(self._slots, int(rows[0]))
            return self._columns.arrivals(slots) if len(slots) else None
        if self._everywhere is None:
            self._everywhere = self._columns.arrivals(self._slots)
        return self._everywhere.among(rows)


class NominatedColumns:
    """A slot per nominated pod. Slots have no gaps: the last one moves to a slot that becomes free."""

    def __init__(self, nodes: NodeTable, nominator: NominatedPods) -> None:
        self._nodes = nodes
        self._nominator = nominator
        self._changes = -1
        self._begin()

    def before(self, pod: PodInfo) -> "Expected | None":
        """The pods to leave room for: nominated pods of equal or higher priority, without the pod itself.

        `None` if there are none. Pods nominated to unknown nodes do not count. Valid until a nomination changes.
        """
        if not (self._nominator.node_of or self._uids):
            return None
        self._follow()
        count = len(self._uids)
        is_before = self._priority[:count] >= pod.priority
        is_before &= self._row[:count] >= 0
        own = self._slot_of.get(pod.uid)
        if own is not None:
            is_before[own] = False
        slots = is_before.nonzero()[0]
        return Expected(self, slots) if len(slots) else None

    def on_row(self, slots: NDArray[np.intp], row: int) -> NDArray[np.intp]:
        """The slots whose pods are nominated to the row (intp, a subset of `slots`)."""
        on_row: NDArray[np.intp] = slots.take((self._row.take(slots) == row).nonzero()[0])
        return on_row

    def arrivals(self, slots: NDArray[np.intp]) -> Arrivals:
        """The pods of some slots (at least one), by row."""
        if len(slots) > 1:
            slots = slots.take(np.lexsort((self._number.take(slots), self._row.take(slots))))
        rows, sums = self._row.take(slots), self._sums.take(slots, axis=1)
        starts = np.arange(len(slots) + 1)
        is_next = rows[1:] != rows[:-1]
        if np.count_nonzero(is_next) < len(is_next):  # several pods on a row
            starts = np.concatenate(([0], is_next.nonzero()[0] + 1, [len(slots)]))
            rows, sums = rows.take(starts[:-1]), np.add.reduceat(sums, starts[:-1], axis=1)
        return Arrivals(
            rows=rows,
            starts=starts[:-1],
            counts=starts[1:] - starts[:-1],
            sums=sums,
            kinds=self._kind.take(slots),
            all_kinds=self._all_kinds,
            slots=slots,
            pods=self._pods.copy(),
            is_exact=bool(self._is_exact.take(slots).all()),
            any_ports=bool(self._has_ports.take(slots).any()),
        )

    # --- keeping up ---------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.row_changes = ChangeLog()
        """Rows where a nomination has begun or ended, as of the last `before`; a new log if any row may have changed.

        Changes of the rows of nodes are in the table's own log."""
        self._resources_version = self._nodes.resources_version
        self._slot_of: dict[str, int] = {}
        self._uids: list[str] = []
        self._pods: list[PodInfo] = []
        self._node_names: list[str] = []
        self._next_number = 0
        self._rows: Rows | None = None
        self._kind_numbers: dict[Kind, int] = {}
        self._all_kinds: list[PodInfo] = []
        self._priority: NDArray[np.int64] = np.zeros(_FIRST_LENGTH, dtype=np.int64)
        self._row: NDArray[np.intp] = np.zeros(_FIRST_LENGTH, dtype=np.intp)
        self._number: NDArray[np.int64] = np.zeros(_FIRST_LENGTH, dtype=np.int64)
        """Ascending in the order of nominations."""
        self._kind: NDArray[np.intp] = np.zeros(_FIRST_LENGTH, dtype=np.intp)
        self._is_exact: NDArray[np.bool_] = np.zeros(_FIRST_LENGTH, dtype=np.bool_)
        self._has_ports: NDArray[np.bool_] = np.zeros(_FIRST_LENGTH, dtype=np.bool_)
        self._sums: NDArray[np.int64] = np.zeros((len(self._nodes.requested) + 2, _FIRST_LENGTH), dtype=np.int64)

    def _follow(self) -> None:
        is_outgrown = self._resources_version != self._nodes.resources_version
        if is_outgrown or self._changes != self._nominator.changes:
            self._take_over(rebuild=is_outgrown or self._changes < 0)
        if self._rows is not self._nodes.rows():
            self._rows = self._nodes.rows()
            self._row[: len(self._uids)] = [self._nodes.row_of(name) for name in self._node_names]

    def _take_over(self, *, rebuild: bool) -> None:
        touched = self._nominator.take_touched()
        self._changes = -1  # if `_set` raises for one pod, the next call rebuilds: no other change may get lost
        if rebuild or touched is None or len(self._all_kinds) > 2 * len(self._uids) + 1024:
            self._learn_all()
        else:
            for uid in touched:
                self._set(uid)
        self._changes = self._nominator.changes

    def _learn_all(self) -> None:
        self._begin()
        for uid in self._nominator.nominated():
            self._set(uid)

    def _set(self, uid: str) -> None:
        nomination = self._nominator.nomination(uid)
        slot = self._slot_of.get(uid)
        if slot is not None:
            self._log_row(int(self._row[slot]))
        if nomination is None:
            if slot is not None:
                self._free(slot)
            return
        if slot is None:
            slot = self._slot_of[uid] = len(self._uids)
            self._uids.append(uid)
            self._pods.append(nomination[1])
            self._node_names.append(nomination[0])
            if len(self._uids) > len(self._priority):
                self._grow()
        self._fill(slot, *nomination)

    def _fill(self, slot: int, node_name: str, pod: PodInfo) -> None:
        self._pods[slot], self._node_names[slot] = pod, node_name
        self._priority[slot] = pod.priority
        self._row[slot] = row = self._nodes.row_of(node_name)
        self._log_row(row)
        self._number[slot] = self._next_number
        self._next_number += 1
        self._kind[slot] = self._kind_number(pod)
        self._has_ports[slot] = bool(pod.host_ports)
        self._sums[:, slot] = 0
        places, is_exact = self._nodes.resources, True
        amounts = [(places.get(name), amount) for name, amount in pod.accounted.items()]
        for place, amount in (*amounts, *zip((-2, -1), pod.nonzero_accounted, strict=True)):
            if place is None or not 0 <= amount <= _LARGEST:
                is_exact = False
            else:
                self._sums[place, slot] = amount
        self._is_exact[slot] = is_exact

    def _log_row(self, row: int) -> None:
        if row >= 0:
            self.row_changes.append(row)

    def _kind_number(self, pod: PodInfo) -> int:
        kind = kind_of(pod)
        number = self._kind_numbers.get(kind)
        if number is None:
            number = self._kind_numbers[kind] = len(self._all_kinds)
            self._all_kinds.append(pod)
        return number

    def _free(self, slot: int) -> None:
        """Free a slot by moving the last slot's pod into it."""
        last = len(self._uids) - 1
        del self._slot_of[self._uids[slot]]
        uid, pod, node_name = self._uids.pop(), self._pods.pop(), self._node_names.pop()
        if slot == last:
            return
        self._uids[slot], self._pods[slot], self._node_names[slot] = uid, pod, node_name
        self._slot_of[uid] = slot
        for column in (self._priority, self._row, self._number, self._kind, self._is_exact, self._has_ports):
            column[slot] = column[last]
        self._sums[:, slot] = self._sums[:, last]

    def _grow(self) -> None:
        more = len(self._priority)
        for name in ("_priority", "_row", "_number", "_kind", "_is_exact", "_has_ports"):
            setattr(self, name, np.pad(getattr(self, name), (0, more)))
        self._sums = np.pad(self._sums, ((0, 0), (0, more)))
