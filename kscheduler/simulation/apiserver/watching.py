"""Watches as pure state: what one watcher sees of a collection's changes, as bytes ready to be sent.

A watcher has a selection of its own, so the same write may be ADDED to one and DELETED to another: what matters is
whether the object was selected before and is now. The bytes of an event are made once and shared by all watchers of the
same form. `deliver` is called by the store; the HTTP side takes what has gathered with `take_nowait`.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from kscheduler.simulation.apiserver.negotiation import AnswerForm
from kscheduler.simulation.kinds.api_errors import ApiError, Object
from kscheduler.simulation.kinds.resources import ServedResource
from kscheduler.simulation.kinds.selectors import Selection
from kscheduler.simulation.objects.store import Change, ChangeType, Record, View


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """What a client asked to watch, and how it wants to see it."""

    resource: ServedResource
    selection: Selection
    form: AnswerForm = AnswerForm.PLAIN
    bookmarks: bool = False
    initial_events: bool = False
    resource_version: str = ""
    include_object: str = ""
    """What a table's rows carry: Object, Metadata or None."""
    timeout_seconds: float = 1800.0


def seen_type(change: Change, selection: Selection) -> ChangeType | None:
    """What a watcher with this selection sees of a change; None if nothing."""
    is_wanted = selection.matches(change.record.value)
    if change.type is ChangeType.ADDED:
        return ChangeType.ADDED if is_wanted else None
    was_wanted = change.previous is not None and selection.matches(change.previous.value)
    if change.type is ChangeType.DELETED:
        return ChangeType.DELETED if was_wanted else None
    if is_wanted:
        return ChangeType.MODIFIED if was_wanted else ChangeType.ADDED
    return ChangeType.DELETED if was_wanted else None


def event_line(event_type: str, encoded: bytes) -> bytes:
    """One line of a watch stream."""
    return b'{"type":"' + event_type.encode() + b'","object":' + encoded + b"}\n"


def bookmark_line(resource: ServedResource, version: int, *, ends_initial_events: bool = False) -> bytes:
    """A BOOKMARK event: nothing but the version (and the mark that the initial state is complete)."""
    metadata: Object = {"resourceVersion": str(version), "creationTimestamp": None}
    if ends_initial_events:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    body = {"kind": resource.kind, "apiVersion": resource.group_version, "metadata": metadata}
    return event_line("BOOKMARK", msgspec.json.encode(body))


def error_line(error: ApiError) -> bytes:
    """An ERROR event with the Status in it; the stream ends after it."""
    return event_line("ERROR", msgspec.json.encode(error.status_object()))


class LineCache:
    """Event lines that several watchers share: the last few changes in their plain form."""

    def __init__(self, view: View | None) -> None:
        self._view = view
        self._record: Record | None = None
        self._lines: dict[ChangeType, bytes] = {}

    def line(self, event_type: ChangeType, record: Record) -> bytes:
        """The line of this event. Watchers see a change one after the other, so one change is all that is kept."""
        if record is not self._record:
            self._record, self._lines = record, {}
        line = self._lines.get(event_type)
        if line is None:
            line = self._lines[event_type] = event_line(event_type.value, record.encoded_as(self._view))
        return line


class Watcher:
    """Gathers the lines for one client between two sends; bounded, and closed when the client is too slow."""

    def __init__(
        self, selection: Selection, encode: Callable[[ChangeType, Record], bytes], limit: int = 200_000
    ) -> None:
        self._selection = selection
        self._encode = encode
        self._limit = limit
        self._lines: deque[bytes] = deque()
        self.is_overrun = False
        self.wake: Callable[[], None] = lambda: None
        self.filter_fault: Callable[[bytes], tuple[bytes, ...]] = lambda line: (line,)

    def deliver(self, change: Change) -> None:
        """Take note of a change, if the selection sees any of it."""
        event_type = seen_type(change, self._selection)
        if event_type is None:
            return
        record = self._final_state(change) if event_type is ChangeType.DELETED else change.record
        self.push_event(event_type, record)

    def push_event(self, event_type: ChangeType, record: Record) -> None:
        """Queue one event that the faults in force may lose, double or cut."""
        for line in self.filter_fault(self._encode(event_type, record)):
            self.push(line)

    def push(self, line: bytes) -> None:
        """Queue one line and wake the sender."""
        if len(self._lines) >= self._limit:
            self.is_overrun = True
        else:
            self._lines.append(line)
        self.wake()

    def take_nowait(self) -> list[bytes]:
        """Everything gathered since the last call."""
        lines = list(self._lines)
        self._lines.clear()
        return lines

    def _final_state(self, change: Change) -> Record:
        """An object that leaves the selection is shown in the state that was still selected, under the new version."""
        if change.type is ChangeType.DELETED or change.previous is None:
            return change.record
        metadata = {**change.previous.value["metadata"], "resourceVersion": str(change.version)}
        return Record({**change.previous.value, "metadata": metadata}, change.version)
