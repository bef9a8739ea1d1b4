"""What was played lately, and who waited since when: all that a search for an order may take back or bring forward."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, cast

from kscheduler.api.core import Node, Pod
from kscheduler.api.kinds import NODES, PODS
from kscheduler.assembly import Assembly
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.handlers.event_handlers import node_update_event
from kscheduler.shadow.change_buffer import BufferedChange, ChangeBuffer
from kscheduler.shadow.moves import Arrival, BoundPod, Move, NodeMove, Nomination, PodUpdate, Rank, Removal
from kscheduler.shadow.order_search import MAX_TRIES, OrderClues

# Changes before a binding that may be taken back.
MAX_MOVES: Final = 4_096
# Changes that are not older than this may be taken back; where changes settle slowly, older ones too.
LEAST_REACH_SECONDS: Final = 10.0
# Changes after a binding among which bindings in flight are looked for.
MAX_AHEAD: Final = 2_048


class PlayedMoves:
    """The last moves, and the pods that wait."""

    def __init__(self, assembly: Assembly, settle_seconds: float, is_followed: Callable[[Pod], bool]) -> None:
        self._assembly = assembly
        self._is_followed = is_followed
        self._reach = max(LEAST_REACH_SECONDS, 4 * settle_seconds)
        self._moves: deque[Move] = deque(maxlen=MAX_MOVES)
        self._ranks: dict[str, Rank] = {}
        """By UID: followed pods that wait, have never been rejected, and came while the shadow was there."""
        self._created: dict[str, int] = {}
        """By UID: the version in which a followed pod that waits was made."""
        self._arrivals = 0

    # --- who waits ----------------------------------------------------------------------------------------------------

    def arrived(self, pod: Pod, version: int) -> None:
        """A followed pod without a node was made in this version."""
        self._arrivals += 1
        self._created[pod.metadata.uid] = version
        if not was_rejected(pod):
            self._ranks[pod.metadata.uid] = -(pod.spec.priority or 0), self._arrivals

    def lost_rank(self, uid: str) -> None:
        """The pod was rejected: it comes back to the other's queue at an unknown time."""
        self._ranks.pop(uid, None)

    def forget(self, uid: str) -> None:
        """The pod waits no more."""
        self._ranks.pop(uid, None)
        self._created.pop(uid, None)

    # --- what came before and after a binding -------------------------------------------------------------------------

    def clues_of(
        self,
        change: BufferedChange,
        pod: Pod,
        change_buffer: ChangeBuffer,
        seen: int | None,
        most_tries: int = MAX_TRIES,
    ) -> OrderClues:
        """What happened before and after the binding of this pod, which is the next to be played."""
        uid = pod.metadata.uid
        past = tuple(self._past(change.arrived - self._reach, self._created.get(uid, 0)))
        return OrderClues(past, tuple(self._bindings_ahead(change_buffer)), self._ranks.get(uid), seen, most_tries)

    def _past(self, since: float, created: int) -> Iterator[Move]:
        """The moves that may be taken back, newest first.

        Anyone who decides a pod has seen that it was made, and so all that was written before: no older change can be
        unseen, and no pod that was bound before can have been decided after.
        """
        for move in reversed(self._moves):
            if type(move) is Move or move.change.version < created or move.change.arrived < since:
                return
            yield move

    def _bindings_ahead(self, change_buffer: ChangeBuffer) -> Iterator[BoundPod]:
        for change in change_buffer.ahead(MAX_AHEAD):
            if change.kind is PODS:
                binding = self._binding_of(change, cast("Pod | None", change.old), cast("Pod | None", change.new))
                if binding is not None:
                    yield binding

    # --- moves --------------------------------------------------------------------------------------------------------

    def keep(self, move: Move | None) -> None:
        """The move was played; `None`: nothing that a decision reads."""
        if move is None:
            return
        self._moves.append(move)
        if isinstance(move, BoundPod):
            self.forget(move.uid)

    def move_of(self, change: BufferedChange) -> Move | None:
        """What playing the change will do to the view; asked before it is played."""
        if change.kind is PODS:
            return self._pod_move(change, cast("Pod | None", change.old), cast("Pod | None", change.new))
        if change.kind is NODES:
            old, new = cast("Node | None", change.old), cast("Node | None", change.new)
            is_heartbeat = old is not None and new is not None and node_update_event(old, new) is None
            return None if is_heartbeat else NodeMove(change, old, new)
        return Move(change) if change.kind in self._assembly.handlers else None

    def _binding_of(self, change: BufferedChange, old: Pod | None, new: Pod | None) -> BoundPod | None:
        if old is None or new is None or old.spec.node_name or not new.spec.node_name or new.is_terminal:
            return None
        if not self._is_followed(new):
            return None
        return BoundPod(change, old, new.spec.node_name, self._ranks.get(old.metadata.uid))

    def _pod_move(self, change: BufferedChange, old: Pod | None, new: Pod | None) -> Move | None:
        binding = self._binding_of(change, old, new)
        if binding is not None:
            return binding
        if new is None or new.is_terminal:
            return self._end_of(change, new or old)
        if old is None or not old.spec.node_name:
            if new.spec.node_name:
                return Arrival(change, new)
            is_nomination = old is not None and old.status.nominated_node_name != new.status.nominated_node_name
            return Nomination(change, old, new) if old is not None and is_nomination else None
        return PodUpdate(change, old, new) if _counts_otherwise(old, new) else None

    def _end_of(self, change: BufferedChange, pod: Pod | None) -> Move | None:
        cache = self._assembly.cache
        counted = cache.pod_of(PodInfo(pod).uid) if pod is not None else None
        if counted is None:
            return None
        if cache.pod_groups.apis:
            return Move(change)  # its group has counted it out, too
        return Removal(change, counted, cache.node_of(counted.uid))


def was_rejected(pod: Pod) -> bool:
    """Whether its scheduler has had no node for it, or could not bind it."""
    return any(condition.type == "PodScheduled" and condition.status == "False" for condition in pod.status.conditions)


def _counts_otherwise(old: Pod, new: Pod) -> bool:
    """Whether decisions about other pods may see a difference between two versions of a pod on its node."""
    return (
        old.metadata.labels != new.metadata.labels
        or (old.metadata.deletion_timestamp is None) != (new.metadata.deletion_timestamp is None)
        or old.spec != new.spec
        or old.status.container_statuses != new.status.container_statuses
        or old.status.resources != new.status.resources
    )
