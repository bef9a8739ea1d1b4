"""Lines of a watch and bodies of a list to typed values, without I/O and without exceptions.

A line `{"type": ..., "object": ...}` is decoded in one pass into the kind's struct. A line that does not fit is read a
second time, leniently: an ERROR event becomes a `WatchError`, an object that cannot be decoded an `Undecodable` with
its identity, so that one bad object stops neither the stream nor the list. A line that is not JSON is `Garbled`:
events may have been missed, and the stream must be opened again.
"""

import gc
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

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
    """ADDED, MODIFIED or DELETED, and the object; a deleted object in its last state with the deletion's version."""

    type: str
    object: T


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The watch has seen everything up to this version."""

    resource_version: str
    initial_events_end: bool = False


@dataclass(frozen=True, slots=True)
class WatchError:
    """The server ends the watch, with a reason."""

    status: StatusAnswer


@dataclass(frozen=True, slots=True)
class Undecodable:
    """The readable parts of an object that does not fit its kind's struct."""

    type: str
    """The event's type, or `LISTED`."""
    namespace: str
    name: str
    uid: str
    resource_version: str
    node_name: str
    """`spec.nodeName`, if it is a string: an unreadable pod may still occupy a node's resources."""
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
        """Decode a line; never raises, whatever a server may send."""
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
    """The readable parts of an object that does not fit."""
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
    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


@dataclass(slots=True)
class ListPage(Generic[T]):
    """A page of a list: the objects, and those that could not be read."""

    items: list[T]
    undecodable: list[Undecodable]
    resource_version: str
    continue_token: str


@dataclass(slots=True)
class UnreadPage:
    """A page whose objects are still bytes, for callers that decode in slices."""

    items: list[msgspec.Raw]
    resource_version: str
    continue_token: str


@dataclass(slots=True)
class _Bodies(Generic[T]):
    items: list[T] = field(default_factory=list)
    undecodable: list[Undecodable] = field(default_factory=list)


class GetPage(Protocol):
    """The GET of a client."""

    def __call__(self, path: str, params: Mapping[str, str], /) -> Awaitable[bytes]:
        """The body."""
        ...


class ListDecoder(Generic[T]):
    """Decodes lists of one kind. Build it once and keep it."""

    def __init__(self, kind: Kind, *, is_watched: bool = False) -> None:
        """What lacks items is refused. `is_watched`: a watch follows, so what lacks a version is refused, too."""
        self._kind, self._is_watched = kind, is_watched
        items = list[kind.type] | msgspec.UnsetType | None  # type: ignore[name-defined]  # known at run time only
        page = msgspec.defstruct(
            "Page",
            [
                ("items", items, msgspec.UNSET),
                ("metadata", _ListMeta, msgspec.field(default_factory=_ListMeta)),
            ],
            kw_only=True,
        )
        self._strict = msgspec.json.Decoder(page)
        self._split = ObjectDecoder(_RawList)
        self._item: ObjectDecoder[Any] = ObjectDecoder(kind.type)

    def decode(self, body: bytes) -> ListPage[T]:
        """Decode a whole page at once. Raises `UndecodableError` if the body is not a list."""
        with collector_paused():
            try:
                page: Any = self._strict.decode(body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                unread = self.split(body)
                items, bad = self.decode_items(unread.items)
                return ListPage(items, bad, unread.resource_version, unread.continue_token)
        self._check(page)
        return ListPage(page.items or [], [], page.metadata.resource_version, page.metadata.continue_token)

    async def pages(self, get: GetPage, path: str, params: Mapping[str, str]) -> AsyncIterator[ListPage[T]]:
        """A whole list, page by page. `params`: with the `limit` of a page. Raises as `get` and `decode`."""
        token = ""
        while True:
            body = await get(path, {**params, "continue": token} if token else params)
            try:
                page = self.decode(body)
            except UndecodableError as error:
                raise UndecodableError(f"GET {path}: {error}") from None
            yield page
            token = page.continue_token
            if not token:
                return

    def split(self, body: bytes) -> UnreadPage:
        """Find the items without decoding them, about ten times as fast. Raises `UndecodableError`."""
        raw = self._split.decode(body)
        self._check(raw)
        return UnreadPage(raw.items or [], raw.metadata.resource_version, raw.metadata.continue_token)

    def _check(self, page: Any) -> None:
        """Raises `UndecodableError` for JSON that is no answer of an API server: `{}` would be an empty cluster.

        The version of a list is that of its last page.
        """
        has_version = page.metadata.resource_version or page.metadata.continue_token
        missing = [] if has_version or not self._is_watched else ["metadata.resourceVersion"]
        if page.items is msgspec.UNSET:
            missing.append("items")
        if missing:
            raise UndecodableError(f"the answer is no {self._kind.name}List of an API server: no {', '.join(missing)}")

    def decode_items(self, items: Iterable[msgspec.Raw]) -> tuple[list[T], list[Undecodable]]:
        """Decode items one by one: the objects, and those that do not fit."""
        bodies: _Bodies[T] = _Bodies()
        for item in items:
            try:
                bodies.items.append(self._item.decode(item))
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
    """Switch garbage collection off: a big decode creates only live objects, and the collector would walk them all."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
