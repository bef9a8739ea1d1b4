"""RoundRobin: each node in turn, among those that fit.

The hand-made scheduler counts pods modulo nodes: it gives a turn to nodes without room, and begins again with the first
node when it is restarted. Here it is the turn of the node that fits and whose last pod of this scheduler came longest
ago; nodes that had none come first, in the order of their names. While all nodes fit, that is the round; a node that
was full for a while is not skipped twice, and a new node gets its turn, but no flood.

Whose pod came last is known twice: from the turns that this process has given (`reserve`, so only a real placement
counts, never `explain` or what-if), and from the pods that are bound: by the second in which they were scheduled, and
by how many came to the node within that second. The first is exact. The second survives a restart, a fail-over and a
reload, and is what `explain` reads in a process of its own; it is right to the second (within one, nodes are taken in
the order of their names), and forgets pods that have ended.
"""

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from kscheduler.api.core import Pod
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ClusterEventWithHint
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores
from kscheduler.framework.plugin import MAX_NODE_SCORE, Plugin, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status

# Turns that were given by this process come after all that are read from pods.
_FIRST_TURN: Final = 1 << 62
_MAX_PER_SECOND: Final = 1_000
# Turns of nodes that are gone, beyond two per node.
_FORGETS_AT: Final = 256


class RoundRobin(Plugin):
    """100 points for the node whose turn it is, and 0 for all others."""

    name = "RoundRobin"
    depends_on = (Source.ROW,)
    reads_spec_only = True

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        if args:
            raise ValueError("it takes no arguments")
        self._view = handle.view
        self._next_turn = _FIRST_TURN
        self._turns: dict[tuple[str, str], int] = {}
        """By scheduler name and node name, the turn of the last pod that was placed there."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """None: `reserve` rejects no pod."""
        return ()

    def sign(self, pod: PodInfo) -> Hashable:
        """The pod's scheduler: each has a round of its own."""
        return pod.pod.spec.scheduler_name

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """When the row had its last turn, 0 for never: int64 [rows]. Only comparisons mean something."""
        del cycle
        scheduler = pod.pod.spec.scheduler_name
        turns = (self._last_turn(scheduler, nodes.info(row)) for row in rows.tolist())
        return np.fromiter(turns, dtype=np.int64, count=len(rows))

    def normalize(self, cycle: CycleState, pod: PodInfo, rows: Rows, scores: Scores) -> Scores:
        """100 for one row, 0 for the others: int64 [rows]."""
        del cycle, pod
        points = np.zeros(len(rows), dtype=np.int64)
        longest_ago = np.flatnonzero(scores == scores.min())
        places = self._view.nodes.name_places()[rows[longest_ago]]
        points[longest_ago[places.argmin()]] = MAX_NODE_SCORE
        return points

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        """The node has had its turn, also if the binding fails later."""
        del cycle
        self._next_turn += 1
        self._turns[pod.pod.spec.scheduler_name, node_name] = self._next_turn
        nodes = self._view.nodes
        if len(self._turns) > 2 * len(nodes) + _FORGETS_AT:
            self._turns = {key: turn for key, turn in self._turns.items() if nodes.row_of(key[1]) >= 0}
        return SUCCESS

    def unreserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Nothing to give back."""

    def _last_turn(self, scheduler: str, info: NodeInfo) -> int:
        turn = self._turns.get((scheduler, info.name))
        return turn if turn is not None else _turn_by_pods(scheduler, info)


def _turn_by_pods(scheduler: str, info: NodeInfo) -> int:
    """The second in which the node's newest pod of this scheduler was scheduled, and how many were in that second."""
    newest = count = 0
    for pod in info.pods.values():
        if pod.pod.spec.scheduler_name == scheduler:
            second = _scheduled_at(pod.pod)
            if second > newest or not count:
                newest, count = second, 1
            elif second == newest:
                count += 1
    return newest * _MAX_PER_SECOND + min(count, _MAX_PER_SECOND - 1)


def _scheduled_at(pod: Pod) -> int:
    """When the pod was bound, or else created, as a number that grows with time: 20261123035208; 0 if unknown."""
    times = (
        condition.last_transition_time
        for condition in pod.status.conditions
        if condition.type == "PodScheduled" and condition.status == "True"
    )
    text = next(times, None) or pod.metadata.creation_timestamp or ""
    digits = "".join(filter(str.isdigit, text[:19]))
    return int(digits) if len(digits) == 14 else 0
