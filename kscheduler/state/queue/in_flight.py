"""The events during attempts, so that no pod misses one.

A pod that is being tried is in no queue, so it could miss an event that would let it through. So events are kept, in
order, from the moment when the oldest pod in flight was popped; when a pod fails, the events after its own marker are
evaluated before it is parked. A pod that waits unjudged for its turn rests: it needs no events until it is judged.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import Final

import msgspec

from kscheduler.api.meta import KubeObject
from kscheduler.framework.events import ClusterEvent

# The marker of a pod that rests.
_RESTS: Final = 0


class SeenEvent(msgspec.Struct, frozen=True):
    """An event with the objects it was about; `only` limits it to one pod's UID."""

    event: ClusterEvent
    old: KubeObject | None
    new: KubeObject | None
    only: str = ""


class InFlight:
    """Pods that are being tried, and the events since each was popped."""

    def __init__(self) -> None:
        self._log: OrderedDict[int, SeenEvent | str] = OrderedDict()
        self.marker: dict[str, int] = {}
        """By UID of a pod that is being tried, the serial number of its marker in the log. For reading."""
        self._key_of: dict[str, str] = {}
        self._serial = 0
        self.events: Counter[str] = Counter()
        """The number of kept events, by label."""

    def __len__(self) -> int:
        return len(self.marker)

    def __contains__(self, uid: str) -> bool:
        return uid in self.marker

    def uid_of(self, key: str) -> str:
        """The UID of the pod of this name (`namespace/name`) that is being tried, or empty; the newest, if two are."""
        return next((uid for uid in reversed(self._key_of) if self._key_of[uid] == key), "")

    def snapshot(self) -> tuple[tuple[SeenEvent | str, ...], tuple[str, ...], tuple[tuple[str, str], ...]]:
        """UIDs and events in their order; the UIDs of pods that rest; UID and key of all."""
        resting = tuple(uid for uid, serial in self.marker.items() if serial == _RESTS)
        return tuple(self._log.values()), resting, tuple(self._key_of.items())

    def restore(
        self, entries: Iterable[SeenEvent | str], resting: Iterable[str], keys: Iterable[tuple[str, str]]
    ) -> None:
        """Take over a snapshot; nothing may be in flight."""
        self._key_of.update(keys)
        for entry in entries:
            if isinstance(entry, str):
                self.marker[entry] = self._append(entry)
            else:
                self.record(entry)
        self.marker.update(dict.fromkeys(resting, _RESTS))

    def begin(self, uid: str, key: str = "") -> None:
        """Record that a pod has been popped, or is judged at last."""
        serial = self._serial = self._serial + 1
        self._log[serial] = uid
        self.marker[uid] = serial
        self._key_of[uid] = key

    def rest(self, uid: str) -> None:
        """The pod stays in flight, but needs no event before the next `begin`."""
        serial = self.marker.get(uid, _RESTS)
        if serial != _RESTS:
            self.marker[uid] = _RESTS
            self._drop(serial)

    def record(self, seen: SeenEvent) -> None:
        """Keep an event, if any pod is in flight that needs it."""
        if self._log:  # it begins with the marker of a pod
            self._append(seen)
            self.events[seen.event.label] += 1

    def since(self, uid: str) -> list[SeenEvent]:
        """The events since the pod was popped that may concern it, in order."""
        start = self.marker.get(uid)
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
        """End an attempt; events that no other pod needs are dropped."""
        serial = self.marker.pop(uid, None)
        if serial is None:
            return
        del self._key_of[uid]
        if serial != _RESTS:
            self._drop(serial)

    def _drop(self, serial: int) -> None:
        """Remove a pod's marker, and the events that only this pod needed."""
        del self._log[serial]
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
