"""Bodies of lists, and of single objects, to typed values; without I/O.

A page is decoded in one pass. If that fails, its items are decoded one by one, so that an object that does not fit its
kind's struct, or has no identity, costs itself and not the list. What is no list of the kind is refused as a whole:
`{}` or another kind's list would be an empty cluster.
"""

import gc
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from kscheduler.api.codec import Decoder as ObjectDecoder
from kscheduler.api.codec import UndecodableError
from kscheduler.api.kinds import Kind
from kscheduler.api.meta import KubeObject
from kscheduler.client.errors import text_of
from kscheduler.client.watch import NOT_TEXT, REPLACED, SHOWN, IdentityCheck, Undecodable, is_text, tree_of, undecodable

T = TypeVar("T", bound=KubeObject)

_GZIP: Final = b"\x1f\x8b"


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class _RawList(msgspec.Struct):
    kind: str = ""
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

    def __call__(self, path: str, params: Mapping[str, str], /) -> Awaitable[bytes]: ...


class ListDecoder(Generic[T]):
    """Decodes lists of one kind. Build it once and keep it."""

    def __init__(self, kind: Kind, *, is_watched: bool = False) -> None:
        """What lacks items is refused. `is_watched`: a watch follows, so what lacks a version is refused, too."""
        self._kind, self._is_watched = kind, is_watched
        items = list[kind.type] | msgspec.UnsetType | None  # type: ignore[name-defined]  # known at run time only
        page = msgspec.defstruct(
            "Page",
            [
                ("kind", str, ""),
                ("items", items, msgspec.UNSET),
                ("metadata", _ListMeta, msgspec.field(default_factory=_ListMeta)),
            ],
            kw_only=True,
        )
        self._strict = msgspec.json.Decoder(page)
        self._split = ObjectDecoder(_RawList)
        self._item: ObjectDecoder[Any] = ObjectDecoder(kind.type)
        self._identity = IdentityCheck(kind)

    def decode(self, body: bytes) -> ListPage[T]:
        """Decode a whole page at once. Raises `UndecodableError` if the body is not a list."""
        with collector_paused():
            try:
                page: Any = self._strict.decode(body) if is_text(body) else None
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                page = None
            if page is None:
                unread = self.split(body)
                items, bad = self.decode_items(unread.items)
                return ListPage(items, bad, unread.resource_version, unread.continue_token)
        self._check(page)
        items, bad = self._sound(page.items or [])
        return ListPage(items, bad, page.metadata.resource_version, page.metadata.continue_token)

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
        try:
            raw = self._split.decode(body)
        except UndecodableError as error:
            raise UndecodableError(f"the answer is no {self._kind.name}List: {_what_came(body, str(error))}") from None
        self._check(raw)
        # Garbled bytes in an item cost that item; around the items they may have cost a continue token.
        if not is_text(body) and _replaced(body) > sum(map(_replaced, map(bytes, raw.items or []))):
            raise UndecodableError(f"the answer is no {self._kind.name}List: {NOT_TEXT}")
        return UnreadPage(raw.items or [], raw.metadata.resource_version, raw.metadata.continue_token)

    def _check(self, page: Any) -> None:
        """Raises `UndecodableError` for JSON that is no answer of an API server: `{}` would be an empty cluster.

        The version of a list is that of its last page.
        """
        if page.kind not in ("", "List", f"{self._kind.name}List"):
            raise UndecodableError(f"the answer is a {page.kind[:SHOWN]}, not a {self._kind.name}List")
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
                if not is_text(bytes(item)):
                    raise UndecodableError(NOT_TEXT)  # noqa: TRY301  # as the decoder says it
                bodies.items.append(self._item.decode(item))
            except UndecodableError as error:
                bodies.undecodable.append(undecodable(tree_of(item), "LISTED", str(error)))
        sound, unsound = self._sound(bodies.items)
        return sound, bodies.undecodable + unsound

    def _sound(self, items: list[T]) -> tuple[list[T], list[Undecodable]]:
        """The objects with an identity, and those without. Only a store needs one: a file's objects have no UID."""
        problems = {at: problem for at, item in enumerate(items) if (problem := self._problem(item))}
        if not problems:
            return items, []
        unsound = [_without_identity(items[at], problem) for at, problem in problems.items()]
        return [item for at, item in enumerate(items) if at not in problems], unsound

    def _problem(self, item: T) -> str:
        return self._identity.problem(item.metadata) if self._is_watched else ""


def _replaced(document: bytes) -> int:
    """How many places of a document are no UTF-8."""
    return document.decode(errors="replace").count(REPLACED)


def _what_came(body: bytes, error: str) -> str:
    """What a body is that is no JSON of a list, so that nobody looks for a mistake in the cluster's objects."""
    if not body.strip():
        return "an empty body"
    if body.startswith(_GZIP):
        return f"{len(body)} compressed bytes, which was not requested"
    if body.lstrip()[:1] == b"<":
        return text_of(body)
    if "truncated" in error:
        return f"JSON that ends in the middle, after {len(body)} bytes"
    return error


def _without_identity(item: KubeObject, problem: str) -> Undecodable:
    """An object that decodes and lacks what a store needs."""
    meta, node_name = item.metadata, getattr(getattr(item, "spec", None), "node_name", "")
    return Undecodable("LISTED", meta.namespace, meta.name, meta.uid, meta.resource_version, node_name, problem)


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
