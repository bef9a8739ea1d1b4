"""One kind's store, and handlers that are told what changed.

Every change goes through here, in the server's order, with no await between the event and the last handler: to the rest
of the program a change is one step. An object that comes back under the same key with another UID is a deletion and an
addition, which client-go hides and a scheduler must not miss.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kscheduler.aio import REAL_CLOCK, Clock, Slicer
from kscheduler.api.kinds import Kind
from kscheduler.api.meta import KubeObject
from kscheduler.client.watch import Undecodable, WatchEvent
from kscheduler.informers.store import Store
from kscheduler.informers.transform import Transform, default_transform
from kscheduler.informers.unreadable import Retain, rule_for
from kscheduler.logs import get_logger
from kscheduler.logs.caught import Boundary, count_caught

log = get_logger(__name__)

T = TypeVar("T", bound=KubeObject)
Handled_contra = TypeVar("Handled_contra", contravariant=True)


class Handler(Protocol[Handled_contra]):
    """What wants to know about one kind. Calls are synchronous and short; an exception is that object's failure."""

    def on_add(self, obj: Handled_contra, initial: bool) -> None:
        """A new object; `initial` while the first list is handed over."""

    def on_update(self, old: Handled_contra, new: Handled_contra) -> None:
        """The same object (by UID) in another state."""

    def on_delete(self, obj: Handled_contra) -> None:
        """The object is gone; `obj` is the last state that was stored, which after a gap may be old."""


@dataclass(frozen=True, slots=True)
class InformerStatistics:
    """A snapshot for metrics and `/readyz?verbose`."""

    resource: str
    synced: bool
    resting: bool
    """The API server does not have this resource."""
    objects: int
    resource_version: str
    last_event_age_seconds: float | None
    """Since anything was heard on the watch; `None` before."""
    restarts: dict[str, int]
    """Ended watches by reason."""
    relists: dict[str, int]
    """Lists by reason, the first one included."""
    undecodable: dict[str, str]
    """Key to error of objects on the server that cannot be read now."""
    undecodable_total: int
    handler_errors: int
    problem: str
    """What keeps it from syncing or watching now; empty when all is well."""


class Informer(Generic[T]):
    """The store of one kind, its handlers, and what is known about its health."""

    def __init__(
        self,
        kind: Kind,
        *,
        transform: Transform | None = None,
        retain: Retain | None = None,
        clock: Clock = REAL_CLOCK,
    ) -> None:
        """`transform` trims objects before they are stored; `retain` decides on objects that became unreadable."""
        self.kind = kind
        self.store: Store[T] = Store()
        self.resting = False
        self.resource_version = ""
        self.restarts: dict[str, int] = {}
        self.relists: dict[str, int] = {}
        self.problem = ""
        self._transform = transform or default_transform(kind.plural)
        self._retain = retain or rule_for(kind.plural)
        self._clock = clock
        self._handlers: list[Handler[T]] = []
        self._synced = asyncio.Event()
        self._undecodable: dict[str, Undecodable] = {}
        self._undecodable_total = self._handler_errors = 0
        self._last_event: float | None = None
        self._touched: set[str] | None = None

    @property
    def has_synced(self) -> bool:
        """Whether the handlers have got all of the first list. Of an API that does not exist it is empty."""
        return self._synced.is_set()

    async def wait_until_synced(self) -> None:
        """Return when the handlers have got all of the first list."""
        await self._synced.wait()

    def add_handler(self, handler: Handler[T]) -> None:
        """Tell `handler` of everything from now on; of what is stored already, at once."""
        for obj in self.store.list():
            self._guard(lambda one, obj=obj: one.on_add(obj, initial=True), handler, obj)  # type: ignore[misc]
        self._handlers.append(handler)

    def heard(self) -> None:
        """Something came on the watch."""
        self._last_event = self._clock.monotonic()
        self.problem = ""

    def is_unreadable(self, key: str) -> bool:
        """Whether the object on the server cannot be decoded: what is stored of it, if anything, is known to be old."""
        return key in self._undecodable

    @contextmanager
    def noting_touched(self) -> Iterator[set[str]]:
        """Collect the keys of objects that change inside the block; blocks do not nest."""
        self._touched = touched = set[str]()
        try:
            yield touched
        finally:
            self._touched = None

    # --- changes ------------------------------------------------------------------------------------------------------

    def prepare(self, obj: T) -> None:
        """Trim a decoded object. Those of a list are trimmed page by page: else the list is there untrimmed, whole."""
        self._transform(obj)

    async def replace(self, objects: Iterable[T], unreadable: Sequence[Undecodable]) -> None:
        """The state of the server is exactly this; the objects are prepared. Works in slices of 5 ms.

        Additions come before deletions: between two slices a node must look fuller than it is, never emptier.
        """
        initial = not self._synced.is_set()
        seen: set[str] | None = set() if len(self.store) else None  # nothing vanishes from an empty store
        listed_bad = {bad.key for bad in unreadable}
        self._undecodable = {key: bad for key, bad in self._undecodable.items() if key in listed_bad}
        slicer = Slicer()
        for obj in objects:
            if seen is not None:
                seen.add(obj.key)
            self._upsert(obj, initial=initial)
            if slicer.used_up():
                await slicer.turn()
        for bad in unreadable:
            self.apply_undecodable(bad)
        if seen is not None:
            seen.update(listed_bad)
            await self._delete_others(seen, slicer)
        self._synced.set()

    async def _delete_others(self, kept: set[str], slicer: Slicer) -> None:
        known = self.store.keys()
        for key in known:
            if key not in kept:
                self._delete(key)
            if slicer.used_up():
                await slicer.turn()

    def apply(self, event: WatchEvent[T]) -> None:
        """One event of the watch."""
        if event.type == "DELETED":
            key = event.object.key
            self._undecodable.pop(key, None)
            self._delete(key)
        else:
            self._transform(event.object)
            self._upsert(event.object, initial=False)

    def apply_undecodable(self, bad: Undecodable) -> None:
        """An object that cannot be read: count it, name it, and go on with what its kind's rule says."""
        key = bad.key or "(unnamed)"  # one entry for all of them: no deletion will ever name them
        if bad.type == "DELETED":
            self._undecodable.pop(key, None)
            self._delete(key)
            return
        self._undecodable_total += 1
        if key not in self._undecodable:
            log.warning("object cannot be read", resource=self.kind.resource, object=key, uid=bad.uid, err=bad.error)
        self._undecodable[key] = bad
        old = self.store.get(key)
        if old is not None:
            self._retain_or_delete(key, old, bad)

    def _retain_or_delete(self, key: str, old: T, bad: Undecodable) -> None:
        kept = self._retain(old, bad)
        if kept is None:
            self._delete(key)
        elif kept is not old:
            self.store.put(key, kept)
            self._tell(lambda handler: handler.on_update(old, kept), kept)

    def _upsert(self, obj: T, *, initial: bool) -> None:
        key = obj.key
        if self._undecodable:
            self._undecodable.pop(key, None)
        old = self.store.get(key)
        if old is not None and old.metadata.uid == obj.metadata.uid:
            self._update(key, old, obj)
            return
        if old is not None:
            self._delete(key)
        self.store.put(key, obj)
        self._tell(lambda handler: handler.on_add(obj, initial), obj)

    def _update(self, key: str, old: T, obj: T) -> None:
        version = obj.metadata.resource_version
        if version and version == old.metadata.resource_version:
            return
        self.store.put(key, obj)
        self._tell(lambda handler: handler.on_update(old, obj), obj)

    def _delete(self, key: str) -> None:
        old = self.store.get(key)
        if old is not None:
            self.store.remove(key)
            self._tell(lambda handler: handler.on_delete(old), old)

    def _tell(self, call: Callable[[Handler[T]], None], obj: T) -> None:
        if self._touched is not None:
            self._touched.add(obj.key)
        for handler in self._handlers:
            self._guard(call, handler, obj)

    def _guard(self, call: Callable[[Handler[T]], None], handler: Handler[T], obj: T) -> None:
        try:
            call(handler)
        except BaseException:
            self._handler_errors += 1
            count_caught(Boundary.EVENT_HANDLER)
            log.exception("event handler failed", resource=self.kind.resource, object=obj.key, uid=obj.metadata.uid)

    async def rest(self) -> None:
        """The API does not exist (any more): there are no objects."""
        self.resting = True
        self.problem = "the API server has no such resource"
        await self.replace((), ())

    def wake(self) -> None:
        """The API has appeared."""
        self.resting = False
        self.problem = ""

    # --- health -------------------------------------------------------------------------------------------------------

    def statistics(self) -> InformerStatistics:
        """A snapshot."""
        age = None if self._last_event is None else self._clock.monotonic() - self._last_event
        return InformerStatistics(
            resource=self.kind.resource,
            synced=self.has_synced,
            resting=self.resting,
            objects=len(self.store),
            resource_version=self.resource_version,
            last_event_age_seconds=age,
            restarts=dict(self.restarts),
            relists=dict(self.relists),
            undecodable={key: bad.error for key, bad in self._undecodable.items()},
            undecodable_total=self._undecodable_total,
            handler_errors=self._handler_errors,
            problem=self.problem,
        )
