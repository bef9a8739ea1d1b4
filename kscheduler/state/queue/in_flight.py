"""What happened while a pod was being tried, so that nothing is missed.

A pod that is being tried is in no queue, and an event that would let it through could pass it by. So events are kept,
in order, from the moment the oldest pod in flight was popped; a pod that fails is judged by the events after its own
marker before it is parked.
"""

from collections import Counter, OrderedDict
from dataclasses import dataclass

from kscheduler.api.meta import KubeObject
from kscheduler.framework.events import ClusterEvent


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """An event with the objects it was about; `only` limits it to one pod's UID."""

    event: ClusterEvent
    old: KubeObject | None
    new: KubeObject | None
    only: str = ""


class InFlight:
    """Pods that are being tried, and the events since each was popped."""

    def __init__(self) -> None:
        self._log: OrderedDict[int, SeenEvent | str] = OrderedDict()
        self._marker: dict[str, int] = {}
        self._key_of: dict[str, str] = {}
        self._serial = 0
        self.events: Counter[str] = Counter()
        """How many events are being kept, by label."""

    def __len__(self) -> int:
        return len(self._marker)

    def __contains__(self, uid: str) -> bool:
        return uid in self._marker

    def uid_of(self, key: str) -> str:
        """The UID of the pod of this name (`namespace/name`) that is being tried, or empty; the newest, if two are."""
        return next((uid for uid in reversed(self._key_of) if self._key_of[uid] == key), "")

    def begin(self, uid: str, key: str = "") -> None:
        """A pod has been popped."""
        self._marker[uid] = self._append(uid)
        self._key_of[uid] = key

    def record(self, seen: SeenEvent) -> None:
        """Something happened; kept only while some pod is in flight."""
        if self._marker:
            self._append(seen)
            self.events[seen.event.label] += 1

    def since(self, uid: str) -> list[SeenEvent]:
        """What happened since the pod was popped, that may concern it."""
        start = self._marker.get(uid)
        if start is None:
            return []
        events: list[SeenEvent] = []
        for serial in reversed(self._log):
            if serial <= start:
                break
            entry = self._log[serial]
            if isinstance(entry, SeenEvent) and entry.only in ("", uid):
                events.append(entry)
        events.reverse()
        return events

    def done(self, uid: str) -> None:
        """The attempt is over; events that no other pod needs are dropped."""
        serial = self._marker.pop(uid, None)
        if serial is None:
            return
        del self._log[serial], self._key_of[uid]
        while self._log and isinstance(oldest := next(iter(self._log.values())), SeenEvent):
            self._log.popitem(last=False)
            self._forget(oldest.event.label)

    def _forget(self, label: str) -> None:
        self.events[label] -= 1
        if not self.events[label]:
            del self.events[label]

    def _append(self, entry: SeenEvent | str) -> int:
        self._serial += 1
        self._log[self._serial] = entry
        return self._serial
