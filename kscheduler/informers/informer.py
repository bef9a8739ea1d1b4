"""The store of one kind, and handlers that are called with each change.

Every change goes through here, in the server's order, with no await between the event and the last handler: for the
rest of the program a change is atomic. An object that comes back under the same key with another UID is a deletion and
an addition, which client-go hides and a scheduler must not miss.

A watch shows versions of an object in their order. Should one come late (a confused proxy, a watch cache, an object
that was read again meanwhile), the store does not go back: an event that is older than what is stored, or than the
object's deletion, is ignored. Only a list may go back, as after a restore of etcd.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Final, Generic, Protocol, TypeVar, runtime_checkable

import msgspec

from kscheduler.aio import REAL_CLOCK, Clock, Slicer
from kscheduler.api.kinds import Kind
from kscheduler.api.meta import KubeObject
from kscheduler.client.watch import Undecodable, WatchEvent
from kscheduler.informers.store import Store
from kscheduler.informers.transform import Transform, default_transform, renewal
from kscheduler.informers.unreadable import Retain, rule_for, unreadable_event
from kscheduler.informers.view_age import ViewAge, ViewAgeStatistics
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught

log = get_logger(__name__)

# The key of all unreadable objects without a name.
UNNAMED: Final = "(unnamed)"
# Deletions that are remembered, the last ones: an event that comes late comes soon.
_MAX_GONE: Final = 1024

T = TypeVar("T", bound=KubeObject)
Handled_contra = TypeVar("Handled_contra", contravariant=True)


class Handler(Protocol[Handled_contra]):
    """Receives the changes of one kind. Calls are synchronous and short; an exception affects that object only."""

    def on_add(self, obj: Handled_contra, initial: bool) -> None:
        """A new object; `initial` while the first list is delivered."""

    def on_update(self, old: Handled_contra, new: Handled_contra) -> None:
        """The same object (by UID) in another state."""

    def on_delete(self, obj: Handled_contra) -> None:
        """The object is gone; `obj` is its last stored state, which may be old after a gap in the watch."""


@runtime_checkable
class ListHandler(Protocol):
    """A handler that is also told when the first list is complete: an empty one changes no object."""

    def on_synced(self) -> None:
        """The handlers have got all of the first list since the API has existed. Never raises."""


class ChangeRecorder(Protocol):
    """Hears each change of one kind before any handler. It is no handler, as each call counts here: it never raises."""

    def added(self, key: str, obj: KubeObject, initial: bool) -> None:
        """A new object."""

    def updated(self, key: str, old: KubeObject, new: KubeObject) -> None:
        """The same object in another state."""

    def deleted(self, key: str, obj: KubeObject) -> None:
        """The object is gone."""


class InformerStatistics(msgspec.Struct, frozen=True):
    """A snapshot for metrics and `/readyz?verbose`."""

    resource: str
    synced: bool
    resting: bool
    """The API server does not have this resource."""
    objects: int
    resource_version: str
    last_event_age_seconds: float | None
    """Seconds since the last data on the watch; `None` before any."""
    restarts: dict[str, int]
    """Ended watches by reason."""
    relists: dict[str, int]
    """Lists by reason, the first one included."""
    undecodable: dict[str, str]
    """Key to error of objects on the server that cannot be read now."""
    undecodable_total: int
    reread: dict[str, int]
    """Objects that could not be read and were read again, by outcome: `read`, `gone`."""
    out_of_order: int
    """Events that were ignored since the store knew better."""
    handler_errors: int
    problem: str
    """What keeps it from syncing or watching now; empty when all is well."""
    view: ViewAgeStatistics

    @property
    def down_text(self) -> str:
        """For how long no watch has been open, why, and when it is tried again; empty while one is."""
        if self.resting or not self.view.age_seconds:
            return ""
        why = self.problem or "it is being opened"
        again = "" if self.view.retry_seconds is None else f"; tried again in {self.view.retry_seconds:.0f} s"
        return f"no watch for {self.view.age_seconds:.0f} s: {why}{again}"


class Informer(Generic[T]):
    """The store of one kind, its handlers and its health."""

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
        self.deleted_at = ""
        """The resource version of the deletion that handlers are being told of; empty where only a list shows it."""
        self.restarts: dict[str, int] = {}
        self.relists: dict[str, int] = {}
        self.problem = ""
        self.recorder: ChangeRecorder | None = None
        """Who hears of changes first; to be set before there are any."""
        self._transform = transform or default_transform(kind.resource)
        self._renew = renewal(self._transform)
        self._retain = retain or rule_for(kind.resource)
        self._clock = clock
        self._told_of_additions: list[Callable[[T, bool], None]] = []
        self._told_of_updates: list[Callable[[T, T], None]] = []
        self._told_of_deletions: list[Callable[[T], None]] = []
        self._told_of_sync: list[Callable[[], None]] = []
        self._synced = asyncio.Event()
        self._awaits_list = True
        self.view = ViewAge(clock)
        """How old the store is."""
        self._undecodable: dict[str, Undecodable] = {}
        self._found_unreadable = asyncio.Event()
        self._undecodable_total = self._handler_errors = self._out_of_order = 0
        self._reread = {"read": 0, "gone": 0}
        self._gone: dict[str, str] = {}
        """UID to the version of the deletion, of what was deleted last."""
        self._last_event: float | None = None
        self._touched: set[str] | None = None

    @property
    def has_synced(self) -> bool:
        """Whether the handlers have got all of the first list, which is empty for an API that does not exist."""
        return self._synced.is_set()

    @property
    def has_list(self) -> bool:
        """Whether the handlers have got all of a list since the API has existed: what is missing does not exist."""
        return not (self._awaits_list or self.resting)

    async def wait_until_synced(self) -> None:
        """Return when the handlers have got all of the first list."""
        await self._synced.wait()

    def add_handler(self, handler: Handler[T]) -> None:
        """Call `handler` for each change from now on, and at once for each object that is already stored."""
        for obj in self.store.list():
            try:
                handler.on_add(obj, initial=True)
            except BaseException:  # noqa: BLE001  logged there
                self._handler_failed(obj)
        self._told_of_additions.append(handler.on_add)
        self._told_of_updates.append(handler.on_update)
        self._told_of_deletions.append(handler.on_delete)
        if isinstance(handler, ListHandler):
            self._told_of_sync.append(handler.on_synced)

    @property
    def lists(self) -> int:
        """How many lists the store has been made equal to."""
        return sum(self.relists.values())

    def heard(self) -> None:
        """Data has arrived on the watch."""
        self._last_event = self._clock.monotonic()
        self.view.heard()
        self.problem = ""

    def is_unreadable(self, key: str) -> bool:
        """Whether the object on the server cannot be decoded, so that the stored state, if any, is out of date."""
        return key in self._undecodable

    async def until_unreadable(self) -> None:
        """Return as soon as there is an unreadable object."""
        while not self._undecodable:
            self._found_unreadable.clear()
            await self._found_unreadable.wait()

    def unreadable(self) -> list[Undecodable]:
        """The readable parts of all unreadable objects; those without a name are one."""
        return [*self._undecodable.values()]

    @property
    def unreadable_version(self) -> tuple[int, int]:
        """As long as it is equal, the same objects are unreadable, for the same reasons."""
        return self._undecodable_total, len(self._undecodable)

    def unreadable_under(self, key: str) -> Undecodable | None:
        """The readable parts of an unreadable object."""
        return self._undecodable.get(key)

    def reread(self, bad: Undecodable, obj: T | None) -> bool:
        """Take what the API server has in place of an unreadable object; `None`: it is gone.

        Returns whether it was taken: not if the watch has brought a later state meanwhile, readable or not.
        """
        key = bad.key
        if self._undecodable.get(key) is not bad:
            return False
        del self._undecodable[key]
        self._reread["read" if obj is not None else "gone"] += 1
        if obj is None:
            self._delete(key)
            return True
        if obj.key != key:  # the namespace was garbled
            self._delete(key)
        self._take_event(obj)
        return True

    @contextmanager
    def noting_touched(self) -> Iterator[set[str]]:
        """Collect the keys of objects that change inside the block; blocks do not nest."""
        self._touched = touched = set[str]()
        try:
            yield touched
        finally:
            self._touched = None

    # --- changes ------------------------------------------------------------------------------------------------------

    def prepared(self, obj: T) -> T:
        """What is kept of a listed object until its list is complete: the stored object if it has not changed.

        A list is prepared page by page, so that it is never in memory untrimmed as a whole, nor a second time.
        """
        if len(self.store):
            stored, meta = self.store.get(obj.key), obj.metadata
            if stored is not None and stored.metadata.uid == meta.uid:
                version = stored.metadata.resource_version
                if version and version == meta.resource_version:
                    return stored
        self._transform(obj)
        return obj

    async def replace(self, objects: Iterable[T], unreadable: Sequence[Undecodable]) -> None:
        """Make the store equal to a list of prepared objects. Works in slices of 5 ms.

        Additions come before deletions: between two slices a node may look fuller than it is, but never emptier.
        """
        initial = not self._synced.is_set()
        # UIDs, or keys: the UIDs are there already, a key would be made anew. An empty store has nothing to delete.
        seen: set[str] | None = set() if len(self.store) else None
        listed_bad = {bad.key for bad in unreadable}
        self._undecodable = {key: bad for key, bad in self._undecodable.items() if key in listed_bad}
        slicer = Slicer()
        for obj in objects:
            if seen is not None:
                seen.add(obj.metadata.uid or obj.key)
            self._put(obj, initial=initial)
            if slicer.used_up():
                await slicer.turn()
        for bad in unreadable:
            self.apply_undecodable(bad)
        if seen is not None:
            seen.update(listed_bad)
            if (nameless := self._nameless(unreadable)) is not None:
                await self._delete_others(seen | nameless, slicer)
        self._synced.set()
        is_first = self._awaits_list and not self.resting
        self._awaits_list = self.resting
        for tell in self._told_of_sync if is_first else ():
            tell()

    def _nameless(self, unreadable: Sequence[Undecodable]) -> set[str] | None:
        """The stored keys of listed objects whose names cannot be read; `None`: it may be any.

        A pod must not lose its room because its name was garbled. Without a UID either, nothing is deleted until a
        list comes that can be read, which `rereading` asks for.
        """
        uids = {bad.uid for bad in unreadable if not bad.key}
        if not uids:
            return set()
        return None if "" in uids else {obj.key for obj in self.store.list() if obj.metadata.uid in uids}

    async def _delete_others(self, kept: set[str], slicer: Slicer) -> None:
        """`kept`: keys and UIDs."""
        stored_keys = self.store.keys()
        for key in stored_keys:
            stored = self.store.get(key)
            if stored is not None and key not in kept and stored.metadata.uid not in kept:
                self._delete(key)
            if slicer.used_up():
                await slicer.turn()

    def apply(self, event: WatchEvent[T]) -> None:
        """Apply an event of the watch."""
        self.apply_run((event,))

    def apply_run(self, events: Iterable[WatchEvent[T]], ends_at: float | None = None) -> int:
        """Apply events of the watch in their order, the first one and those that are begun before `ends_at`.

        `ends_at` is a time of `time.perf_counter`; `None`: all of them. Returns how many were applied. What cannot be
        applied counts as unreadable: no object keeps the others from being applied.
        """
        applied = 0
        for event in events:
            try:
                if event.type == "DELETED":
                    self._apply_deletion(event.object)
                else:
                    self._take_event(event.object)
            except Exception as problem:  # noqa: BLE001  of the transform, for an object that nobody has thought of
                count_caught(Boundary.EVENT_HANDLER)
                self.apply_undecodable(unreadable_event(event, f"{type(problem).__name__}: {problem}"))
            applied += 1
            if ends_at is not None and perf_counter() >= ends_at:
                break
        return applied

    def _take_event(self, obj: T) -> None:
        """Add or update an object as an event shows it, unless the store knows better: an event may come late."""
        meta = obj.metadata
        key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name  # as `obj.key`, without a call
        old = self.store.get(key)
        known = self._gone.get(meta.uid, "") if old is None else old.metadata.resource_version
        # The usual newer version costs no call of a function: neither text nor length says that it could be older.
        version = meta.resource_version
        if (version < known or len(version) < len(known)) and is_older(version, known):
            self._out_of_order += 1
            return
        if self._undecodable:
            self._undecodable.pop(key, None)
        if old is not None and old.metadata.uid == meta.uid:
            if not version or version != known:
                self._renew(old, obj)
                self._update(key, old, obj)
            return
        self._transform(obj)
        if old is not None:
            self._delete(key)
        self._add(key, obj, initial=False)

    def _apply_deletion(self, last: T) -> None:
        key, meta = last.key, last.metadata
        stored = self.store.get(key)
        if (
            stored is not None
            and stored.metadata.uid != meta.uid
            and is_older(meta.resource_version, stored.metadata.resource_version)
        ):
            self._out_of_order += 1  # of an earlier object of this name
            return
        self._undecodable.pop(key, None)
        self.deleted_at = meta.resource_version
        self._delete(key)
        self.deleted_at = ""
        self._gone[meta.uid] = meta.resource_version
        if len(self._gone) > _MAX_GONE:
            del self._gone[next(iter(self._gone))]

    def apply_undecodable(self, bad: Undecodable) -> None:
        """Count and log an object that cannot be read, then apply its kind's rule for such objects."""
        key = bad.key or UNNAMED  # unnamed objects share an entry: no deletion will ever name them
        if bad.type == "DELETED" and bad.key:
            self._undecodable.pop(key, None)
            self._delete(key)
            return
        self._undecodable_total += 1
        if key not in self._undecodable:
            log.warning("object_not_readable", resource=self.kind.resource, object=key, uid=bad.uid, err=bad.error)
        self._undecodable[key] = bad
        self._found_unreadable.set()
        old = self.store.get(key)
        if old is not None:
            self._retain_or_delete(key, old, bad)

    def _retain_or_delete(self, key: str, old: T, bad: Undecodable) -> None:
        kept = self._retain(old, bad)
        if kept is None:
            self._delete(key)
        elif kept is not old:
            self._update(key, old, kept)

    def _put(self, obj: T, *, initial: bool) -> None:
        """Add or update a prepared object of a list, which always knows better."""
        key, meta = obj.key, obj.metadata
        old = self.store.get(key)
        if self._undecodable:
            self._undecodable.pop(key, None)
        if old is not None and old.metadata.uid == meta.uid:
            if not meta.resource_version or meta.resource_version != old.metadata.resource_version:
                self._update(key, old, obj)
            return
        if old is not None:
            self._delete(key)
        self._add(key, obj, initial=initial)

    # Each of the three tells the handlers by itself: a pod has several events, and a function for all three would need
    # another one for each call.

    def _add(self, key: str, obj: T, *, initial: bool) -> None:
        self.store.put(key, obj)
        if self.recorder is not None:
            self.recorder.added(key, obj, initial)
        if self._touched is not None:
            self._touched.add(key)
        for tell in self._told_of_additions:
            try:
                tell(obj, initial)
            except BaseException:  # noqa: BLE001  as above
                self._handler_failed(obj)

    def _update(self, key: str, old: T, obj: T) -> None:
        self.store.put(key, obj)
        if self.recorder is not None:
            self.recorder.updated(key, old, obj)
        if self._touched is not None:
            self._touched.add(key)
        for tell in self._told_of_updates:
            try:
                tell(old, obj)
            except BaseException:  # noqa: BLE001  as above
                self._handler_failed(obj)

    def _delete(self, key: str) -> None:
        old = self.store.get(key)
        if old is None:
            return
        self.store.remove(key)
        if self.recorder is not None:
            self.recorder.deleted(key, old)
        if self._touched is not None:
            self._touched.add(key)
        for tell in self._told_of_deletions:
            try:
                tell(old)
            except BaseException:  # noqa: BLE001  as above
                self._handler_failed(old)

    def _handler_failed(self, obj: T) -> None:
        """Count and log the exception that is being handled."""
        self._handler_errors += 1
        count_caught(Boundary.EVENT_HANDLER)
        fields = {"resource": self.kind.resource, "object": obj.key, "uid": obj.metadata.uid}
        log.exception("event_handler_failed", **fields)  # noqa: LOG004  its callers handle one

    async def rest(self) -> None:
        """The API does not exist, or no longer: empty the store."""
        self.resting = self._awaits_list = True
        self.problem = "the API server has no such resource"
        await self.replace((), ())

    def wake(self) -> None:
        """The API has appeared."""
        self.resting = False
        self.problem = ""

    @property
    def trouble(self) -> str:
        """What keeps it from listing or watching, known or suspected; empty when all is well or while it rests."""
        return "" if self.resting else self.problem or self.view.statistics().problem

    # --- health -------------------------------------------------------------------------------------------------------

    def statistics(self) -> InformerStatistics:
        age = None if self._last_event is None else self._clock.monotonic() - self._last_event
        view = self.view.statistics()
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
            reread=dict(self._reread),
            out_of_order=self._out_of_order,
            handler_errors=self._handler_errors,
            problem=self.problem or view.problem,
            view=view,
        )


def is_older(version: str, known: str) -> bool:
    """Whether a resource version is older than another one. Only numbers can be compared (since Kubernetes 1.35)."""
    if len(version) > len(known) or (len(version) == len(known) and version >= known):
        return False
    return version.isdecimal() and known.isdecimal()
