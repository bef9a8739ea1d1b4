"""Lines of a watch to typed values, without I/O and without exceptions.

A line `{"type": ..., "object": ...}` is decoded in one pass into the kind's struct. A line that does not fit is read a
second time, leniently: an ERROR event becomes a `WatchError`, an object that cannot be decoded an `Undecodable` with
its identity, so that one bad object stops neither the stream nor the list. A line that is not JSON is `Garbled`:
events may have been missed, and the stream must be opened again.

What decodes is not yet an object of the kind: JSON that lost a name on its way would be a node called "". So an object
without name, UID or version, of another kind, without the namespace that its kind has or with one that it has not is
undecodable, too. So is one with bytes that are no UTF-8: a decoder does not look at what it skips, and a field whose
name was garbled would be one that was left out (a pod without its node). Both cost half a microsecond per event.
"""

from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from kscheduler.api.codec import Decoder as ObjectDecoder
from kscheduler.api.codec import UndecodableError
from kscheduler.api.kinds import Kind
from kscheduler.api.meta import KubeObject, ObjectMeta
from kscheduler.client.errors import APIStatus, text_of

T = TypeVar("T", bound=KubeObject)

# In place of bytes that are no UTF-8.
REPLACED: Final = "\ufffd"
NOT_TEXT: Final = "it has bytes that are no UTF-8"
# The annotation of the bookmark that ends the initial events of a WatchList.
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
# Characters that a message shows of an answer.
SHOWN: Final = 200
# Bytes of lines that are decoded at once: a few tenths of a millisecond.
RUN_BYTES: Final = 64 * 1024
_DELETED: Final = b'{"type":"DELETED",'
_OF_OBJECTS: Final = frozenset(("ADDED", "MODIFIED", "DELETED"))


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """ADDED, MODIFIED or DELETED, and the object."""

    type: str
    object: T
    """Of a deleted object perhaps the metadata alone, with the deletion's version: its last state is in the store."""


class Bookmark(msgspec.Struct, frozen=True):
    """The watch has seen everything up to this version."""

    resource_version: str
    initial_events_end: bool = False


class WatchError(msgspec.Struct, frozen=True):
    """The server ends the watch, with a reason."""

    status: APIStatus


class Undecodable(msgspec.Struct, frozen=True):
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
    is_node_known: bool = True
    """False where `spec` or its `nodeName` cannot be read at all, so that an empty `node_name` says nothing."""

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone; empty without a name, as no other event will ever be about it."""
        if not self.name:
            return ""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _Identified(KubeObject):
    """An object of which only the identity is read."""


class Garbled(msgspec.Struct, frozen=True):
    """A line that is not a watch event at all."""

    error: str


Decoded = WatchEvent[T] | Bookmark | WatchError | Undecodable | Garbled


class WatchDecoder(Generic[T]):
    """Decodes the watch of one kind. Build it once and keep it."""

    def __init__(self, kind: Kind) -> None:
        self._strict: ObjectDecoder[WatchEvent[T]] = ObjectDecoder(WatchEvent[kind.type])  # type: ignore[name-defined]
        # Of what was deleted its identity is all that is read, in the place of a whole T.
        self._deleted: ObjectDecoder[WatchEvent[T]] = ObjectDecoder(WatchEvent[_Identified])  # type: ignore[arg-type]
        self._identity = IdentityCheck(kind)
        self._kind = kind
        self._says_kind = f'"kind":"{kind.name}"'.encode()

    def feed(self, line: bytes) -> Decoded[T]:
        """Decode a line; never raises, whatever a server may send."""
        events, other = self.feed_run((line,), 0)
        return other if other is not None else events[0]

    def feed_run(self, lines: Sequence[bytes], begin: int) -> tuple[list[WatchEvent[T]], Decoded[T] | None]:
        """Decode lines from `begin` on: events of objects, up to the first line that is none, which comes second.

        Ends after `RUN_BYTES` as well, so that one chunk does not hold the event loop, and with the last line. As many
        lines were decoded as there are values. Never raises.
        """
        events: list[WatchEvent[T]] = []
        decode, decode_deleted = self._strict.decode, self._deleted.decode
        problem_of, says_kind, left = self._identity.problem, self._says_kind, RUN_BYTES
        for line in lines[begin:] if begin else lines:
            if not line.isascii() and not is_text(line):
                return events, _read_leniently(line, NOT_TEXT)
            try:
                event = decode_deleted(line) if line.startswith(_DELETED) else decode(line)
            except UndecodableError as error:
                return events, _read_leniently(line, str(error))
            if event.type not in _OF_OBJECTS:
                if event.type == "BOOKMARK":
                    return events, _bookmark(event.object.metadata)
                return events, _read_leniently(line, f"unknown event type {event.type!r}")
            # kube-apiserver writes the kind first; any other order is read by the lenient decoder.
            if problem := problem_of(event.object.metadata):
                return events, _read_leniently(line, problem)
            if line.find(says_kind, 0, _KIND_STANDS_WITHIN) < 0 and (other := self._other_kind(line)):
                return events, _read_leniently(line, f"it is a {other}, not a {self._kind.name}")
            events.append(event)
            left -= len(line)
            if left < 0:
                break
        return events, None

    def _other_kind(self, line: bytes) -> str:
        """The kind that the object says to be of, if that is another one. Some servers leave the kind out."""
        try:
            named = _kind_decoder.decode(line).object.kind
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return "nothing with a readable kind"
        return named if named not in ("", self._kind.name) else ""


def is_text(document: bytes) -> bool:
    """Whether a document is UTF-8 throughout, also where no decoder looks."""
    if document.isascii():
        return True
    try:
        document.decode()
    except UnicodeDecodeError:
        return False
    return True


class IdentityCheck:
    """What an object of a kind must have, whatever else it holds."""

    def __init__(self, kind: Kind) -> None:
        self._has_namespace = kind.namespaced
        self._may_have_namespace = kind.may_have_namespaces

    def problem(self, metadata: ObjectMeta) -> str:
        """What is missing or too much; empty if nothing is."""
        if not (metadata.name and metadata.uid and metadata.resource_version):
            what = "name" if not metadata.name else "uid" if not metadata.uid else "resourceVersion"
            return f"it has no {what}"
        if metadata.namespace:
            return "" if self._may_have_namespace else "it has a namespace, which its kind has not"
        return "it has no namespace" if self._has_namespace else ""


class NamedKind(msgspec.Struct):
    """What a document says it is."""

    kind: str = ""


class _KindOfObject(msgspec.Struct):
    object: NamedKind


_kind_decoder = msgspec.json.Decoder(_KindOfObject)
# Bytes of a line: `{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1",`.
_KIND_STANDS_WITHIN: Final = 128


def _bookmark(metadata: ObjectMeta) -> Bookmark:
    return Bookmark(metadata.resource_version, metadata.annotations.get(INITIAL_EVENTS_END) == "true")


def _read_leniently(line: bytes, error: str) -> Decoded[Any]:
    tree = tree_of(line)
    if tree is None:
        return Garbled(f"{text_of(line)[:SHOWN]}: {error}" if line.lstrip()[:1] == b"<" else error)
    if not isinstance(tree, dict) or not isinstance(tree.get("type"), str):
        return Garbled("not a watch event: it has no type")
    kind, body = tree["type"], tree.get("object")
    if kind == "ERROR":
        return WatchError(_status(body))
    if kind not in ("ADDED", "MODIFIED", "DELETED") or not isinstance(body, dict):
        return Garbled(error)
    return undecodable(body, kind, error)


def _status(body: Any) -> APIStatus:
    """An ERROR event's Status. What is none is told as it is: without a message nobody would know what failed."""
    try:
        status = msgspec.convert(body, APIStatus)
    except msgspec.ValidationError:
        status = APIStatus()
    if status.code and status.kind in ("", "Status"):
        return status
    text = msgspec.json.encode(body).decode(errors="replace")[:SHOWN]
    message = f"an ERROR event without a readable Status: {text}"
    return APIStatus(code=500, reason="InternalError", message=message)


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
        is_node_known=isinstance(tree, dict)
        and tree.get("spec", {}) == spec
        and isinstance(spec.get("nodeName", ""), str),
    )


def _mapping(tree: Any, key: str) -> dict[Any, Any]:
    child = tree.get(key) if isinstance(tree, dict) else None
    return child if isinstance(child, dict) else {}


def _text(tree: dict[Any, Any], key: str) -> str:
    """The text under a key; empty if it is none or was garbled: half a name is another object's."""
    value = tree.get(key)
    return value if isinstance(value, str) and REPLACED not in value else ""


def tree_of(document: bytes | msgspec.Raw) -> Any:
    """The document, a string's broken bytes replaced; `None` if it is no JSON."""
    try:
        return msgspec.json.decode(document)
    except UnicodeDecodeError:
        pass
    except (msgspec.DecodeError, RecursionError):
        # msgspec reports bytes that are no UTF-8 as either, depending on where they are.
        pass
    try:
        return msgspec.json.decode(bytes(document).decode(errors="replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
