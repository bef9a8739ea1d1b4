"""Watches as pure state: a watcher turns a collection's changes into bytes to send.

Each watcher has its own selection, so the same write may be ADDED for one watcher and DELETED for another, depending on
whether the object was selected before and after the write. The bytes of an event are made once for all watchers of the
same form. The store calls `deliver`; the HTTP side takes the collected lines with `take_nowait`.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from kscheduler.api.machinery.api_errors import ApiError, Object
from kscheduler.api.machinery.resources import ServedResource
from kscheduler.api.machinery.selectors import Selection
from kscheduler.embedded.apiserver.negotiation import AnswerForm
from kscheduler.embedded.objects.store import Change, ChangeType, Record, View


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """A client's request: what to watch, and in which form."""

    resource: ServedResource
    selection: Selection
    form: AnswerForm = AnswerForm.PLAIN
    bookmarks: bool = False
    initial_events: bool = False
    resource_version: str = ""
    include_object: str = ""
    """The object part of a table's rows: Object, Metadata or None."""
    timeout_seconds: float = 1800.0


def seen_type(change: Change, selection: Selection) -> ChangeType | None:
    """The type of event that a watcher with this selection sees; None if it sees nothing."""
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
    """A line of a watch stream."""
    return b'{"type":"' + event_type.encode() + b'","object":' + encoded + b"}\n"


def bookmark_line(resource: ServedResource, version: int, *, ends_initial_events: bool = False) -> bytes:
    """A BOOKMARK event with the version, and with the mark that ends the initial events."""
    metadata: Object = {"resourceVersion": str(version), "creationTimestamp": None}
    if ends_initial_events:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    body = {"kind": resource.kind, "apiVersion": resource.group_version, "metadata": metadata}
    return event_line("BOOKMARK", msgspec.json.encode(body))


def error_line(error: ApiError) -> bytes:
    """An ERROR event with the Status; the stream ends after it."""
    return event_line("ERROR", msgspec.json.encode(error.status_object()))


class LineCache:
    """Event lines in the plain form, shared by several watchers."""

    def __init__(self, view: View | None) -> None:
        self._view = view
        self._record: Record | None = None
        self._lines: dict[ChangeType, bytes] = {}

    def line(self, event_type: ChangeType, record: Record) -> bytes:
        """The line of an event. All watchers get a change before the next one, so only the last change is kept."""
        if record is not self._record:
            self._record, self._lines = record, {}
        line = self._lines.get(event_type)
        if line is None:
            line = self._lines[event_type] = event_line(event_type.value, record.encoded_as(self._view))
        return line


class Watcher:
    """Collects the lines for a client between two sends; bounded, and closed when the client is too slow."""

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
        """Queue the event of a change, if the selection sees it."""
        event_type = seen_type(change, self._selection)
        if event_type is None:
            return
        record = self._final_state(change) if event_type is ChangeType.DELETED else change.record
        self.push_event(event_type, record)

    def push_event(self, event_type: ChangeType, record: Record) -> None:
        """Queue an event, which active faults may drop, repeat or cut."""
        for line in self.filter_fault(self._encode(event_type, record)):
            self.push(line)

    def push(self, line: bytes) -> None:
        """Queue a line and wake the sender."""
        if len(self._lines) >= self._limit:
            self.is_overrun = True
        else:
            self._lines.append(line)
        self.wake()

    def take_nowait(self) -> list[bytes]:
        """All lines since the last call."""
        lines = list(self._lines)
        self._lines.clear()
        return lines

    def _final_state(self, change: Change) -> Record:
        """For an object that leaves the selection: its last selected state, with the new version."""
        if change.type is ChangeType.DELETED or change.previous is None:
            return change.record
        metadata = {**change.previous.value["metadata"], "resourceVersion": str(change.version)}
        return Record({**change.previous.value, "metadata": metadata}, change.version)
