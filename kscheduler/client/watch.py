"""Lines of a watch and bodies of a list to typed values, without I/O and without exceptions.

A line `{"type": ..., "object": ...}` is decoded in one pass into the kind's struct. What does not fit is read once
more, leniently: an ERROR event becomes a `WatchError`, an object that cannot be decoded an `Undecodable` with its
identity, so that one bad object stops neither the stream nor the list. A line that is no JSON at all is `Garbled`: then
nobody knows what was missed, and the stream must be opened anew.
"""

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from kscheduler.api.codec import Decoder as ObjectDecoder
from kscheduler.api.codec import UndecodableError
from kscheduler.api.kinds import Kind
from kscheduler.api.meta import KubeObject, ObjectMeta
from kscheduler.client.errors import StatusAnswer

T = TypeVar("T", bound=KubeObject)

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the initial events of a WatchList."""


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """ADDED, MODIFIED or DELETED, and the object; a deleted one in its last state with the deletion's version."""

    type: str
    object: T


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The watch has seen everything up to this version."""

    resource_version: str
    initial_events_end: bool = False


@dataclass(frozen=True, slots=True)
class WatchError:
    """The server ends the watch and says why."""

    status: StatusAnswer


@dataclass(frozen=True, slots=True)
class Undecodable:
    """An object that does not fit its kind's struct, as far as it can be known."""

    type: str
    """The event's type, or `LISTED`."""
    namespace: str
    name: str
    uid: str
    resource_version: str
    node_name: str
    """`spec.nodeName`, where it is text: a pod that cannot be read may still hold a node's resources."""
    error: str

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Garbled:
    """A line that is not a watch event at all."""

    error: str


Decoded = WatchEvent[T] | Bookmark | WatchError | Undecodable | Garbled


class WatchDecoder(Generic[T]):
    """Decodes the watch of one kind. Build it once and keep it."""

    def __init__(self, kind: Kind) -> None:
        self._strict: ObjectDecoder[WatchEvent[T]] = ObjectDecoder(WatchEvent[kind.type])  # type: ignore[name-defined]

    def feed(self, line: bytes) -> Decoded[T]:
        """One line to one value; never raises for what a server may send."""
        try:
            event = self._strict.decode(line)
        except UndecodableError as error:
            return _read_leniently(line, str(error))
        if event.type in ("ADDED", "MODIFIED", "DELETED"):
            return event
        if event.type == "BOOKMARK":
            return _bookmark(event.object.metadata)
        return _read_leniently(line, f"unknown event type {event.type!r}")


def _bookmark(metadata: ObjectMeta) -> Bookmark:
    return Bookmark(metadata.resource_version, metadata.annotations.get(INITIAL_EVENTS_END) == "true")


def _read_leniently(line: bytes, error: str) -> Decoded[Any]:
    try:
        tree = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Garbled(error)
    if not isinstance(tree, dict) or not isinstance(tree.get("type"), str):
        return Garbled("not a watch event: it has no type")
    kind, body = tree["type"], tree.get("object")
    if kind == "ERROR":
        return WatchError(_status(body))
    if kind not in ("ADDED", "MODIFIED", "DELETED") or not isinstance(body, dict):
        return Garbled(error)
    return undecodable(body, kind, error)


def _status(body: Any) -> StatusAnswer:
    try:
        return msgspec.convert(body, StatusAnswer)
    except msgspec.ValidationError:
        return StatusAnswer(code=500, reason="InternalError", message="an ERROR event without a readable Status")


def undecodable(tree: Any, event_type: str, error: str) -> Undecodable:
    """What can be known of an object that does not fit."""
    metadata, spec = _mapping(tree, "metadata"), _mapping(tree, "spec")
    return Undecodable(
        type=event_type,
        namespace=_text(metadata, "namespace"),
        name=_text(metadata, "name"),
        uid=_text(metadata, "uid"),
        resource_version=_text(metadata, "resourceVersion"),
        node_name=_text(spec, "nodeName"),
        error=error,
    )


def _mapping(tree: Any, key: str) -> dict[Any, Any]:
    child = tree.get(key) if isinstance(tree, dict) else None
    return child if isinstance(child, dict) else {}


def _text(tree: dict[Any, Any], key: str) -> str:
    value = tree.get(key)
    return value if isinstance(value, str) else ""


# --- lists ------------------------------------------------------------------------------------------------------------


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class _RawList(msgspec.Struct):
    items: list[msgspec.Raw] = []
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


@dataclass(slots=True)
class ListPage(Generic[T]):
    """A page of a list: objects, and what could not be read."""

    items: list[T]
    undecodable: list[Undecodable]
    resource_version: str
    continue_token: str


@dataclass(slots=True)
class UnreadPage:
    """A page whose objects are still bytes, for those who decode it in slices."""

    items: list[msgspec.Raw]
    resource_version: str
    continue_token: str


@dataclass(slots=True)
class _Bodies(Generic[T]):
    items: list[T] = field(default_factory=list)
    undecodable: list[Undecodable] = field(default_factory=list)


class ListDecoder(Generic[T]):
    """Decodes lists of one kind. Build it once and keep it."""

    def __init__(self, kind: Kind) -> None:
        items = list[kind.type]  # type: ignore[name-defined]  # the kind's struct is known at run time only
        page = msgspec.defstruct(
            "Page", [("items", items, msgspec.field(default_factory=list)), ("metadata", _ListMeta)], kw_only=True
        )
        self._strict = msgspec.json.Decoder(page)
        self._split = ObjectDecoder(_RawList)
        self._one: ObjectDecoder[Any] = ObjectDecoder(kind.type)

    def decode(self, body: bytes) -> ListPage[T]:
        """A whole page at once. Raises `UndecodableError` when it is no list at all."""
        with collector_paused():
            try:
                page: Any = self._strict.decode(body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                unread = self.split(body)
                items, bad = self.decode_items(unread.items)
                return ListPage(items, bad, unread.resource_version, unread.continue_token)
        return ListPage(page.items, [], page.metadata.resource_version, page.metadata.continue_token)

    def split(self, body: bytes) -> UnreadPage:
        """Find the items, about ten times as fast as reading them. Raises `UndecodableError`."""
        raw = self._split.decode(body)
        return UnreadPage(raw.items, raw.metadata.resource_version, raw.metadata.continue_token)

    def decode_items(self, items: Iterable[msgspec.Raw]) -> tuple[list[T], list[Undecodable]]:
        """Read items one by one; what does not fit is set apart."""
        bodies: _Bodies[T] = _Bodies()
        for item in items:
            try:
                bodies.items.append(self._one.decode(item))
            except UndecodableError as error:
                bodies.undecodable.append(undecodable(_tree(item), "LISTED", str(error)))
        return bodies.items, bodies.undecodable


def _tree(item: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(item)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


@contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage collection inside: a big decode makes only live objects, and the collector would walk them all."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
