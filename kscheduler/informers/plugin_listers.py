"""Listers for plugins: of what the scheduler watches anyway, and of kinds of the plugins' own.

The problem: a policy that reads a CRD would list it for each pod, or run a watch of its own, with none of the care that
a watch needs. The idea: `Handle.lister(kind)` returns a view of a store. For a kind that is watched already it is that
store; for any other an informer begins, with lists, watches, backoff and absent APIs as for every kind. It ends when
no plugin has its lister any more: listers are known here by weak references only, so a plugin that a reload has
replaced takes its lister and its callbacks with it.

Limits: an informer per kind and type, over all namespaces. A kind that the API server cannot watch (those of
metrics-server) never syncs: fetch it with a `refresh`.
"""

import asyncio
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Final

from kscheduler.aio.clock import Clock, finishes_within
from kscheduler.aio.tasks import TaskSet
from kscheduler.api.kinds import KINDS, Kind
from kscheduler.client.rest import APIClient
from kscheduler.framework.cluster.lister import Changed, Lister, check_kind, check_method
from kscheduler.framework.events import ActionType, ClusterEvent
from kscheduler.informers.factory import InformerFactory
from kscheduler.informers.informer import Informer, InformerStatistics
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught

_log = get_logger(__name__)

# How often informers are looked for that no plugin uses any more.
LOOK_SECONDS: Final = 60.0
# Connections of the client for what plugins ask the API server by themselves.
CONNECTIONS_OF_PLUGINS: Final = 8

# `on_event(event, old, new)`: pods may wake.
OnEvent = Callable[[ClusterEvent, Any, Any], None]
_Key = tuple[str, str, str, type]


def _no_wakeup(event: ClusterEvent, old: Any, new: Any) -> None:
    """Before a queue is connected."""


class StoreLister:
    """A plugin's view of a store. Implements `framework.cluster.lister.Lister`."""

    def __init__(self, informer: Informer[Any]) -> None:
        self._informer = informer
        self._calls: list[Callable[[], Changed | None]] = []

    @property
    def has_synced(self) -> bool:
        """Whether the first list is there; also true for an API that does not exist."""
        return self._informer.has_synced

    def get(self, key: str) -> Any | None:
        """The object under its key."""
        return self._informer.store.get(key)

    def list(self) -> list[Any]:
        """All objects, a copy."""
        return [*self._informer.store.list()]

    def on_change(self, call: Changed) -> None:
        """Call for each object that is there, and for each change. Raises `TypeError` for what is no method."""
        check_method(call)
        self._calls.append(weakref.WeakMethod(call))
        for obj in self.list():
            self._call(call, None, obj)

    def changed(self, old: Any, new: Any) -> None:
        """An object has changed."""
        for reference in self._calls:
            call = reference()
            if call is not None:
                self._call(call, old, new)

    def _call(self, call: Changed, old: Any, new: Any) -> None:
        try:
            call(old, new)
        except BaseException:  # noqa: BLE001  one plugin must not keep others, or the queue, from hearing of it
            count_caught(Boundary.EVENT_HANDLER)
            obj = new if new is not None else old
            _log.exception(
                "lister_call_failed", resource=self._informer.kind.resource, object=obj.key, call=_name(call)
            )


class _Listened:
    """An informer's handler: passes changes on to the listers that are alive, then wakes pods."""

    def __init__(self, informer: Informer[Any], on_event: OnEvent | None) -> None:
        """`on_event`: of a kind of plugins' own; `None`: somebody else wakes pods."""
        self.informer = informer
        self._on_event = on_event
        self._listers: weakref.WeakSet[StoreLister] = weakref.WeakSet()
        resource = informer.kind.event_resource
        self._added = ClusterEvent(resource, ActionType.ADD)
        self._updated = ClusterEvent(resource, ActionType.UPDATE)
        self._deleted = ClusterEvent(resource, ActionType.DELETE)
        informer.add_handler(self)

    def lister(self) -> StoreLister:
        made = StoreLister(self.informer)
        self._listers.add(made)
        return made

    @property
    def is_used(self) -> bool:
        """Whether any plugin has a lister."""
        return bool(self._listers)

    def on_add(self, obj: Any, initial: bool) -> None:
        """An object has appeared."""
        del initial
        self._changed(self._added, None, obj)

    def on_update(self, old: Any, new: Any) -> None:
        """An object has changed."""
        self._changed(self._updated, old, new)

    def on_delete(self, obj: Any) -> None:
        """An object is gone."""
        self._changed(self._deleted, obj, None)

    def _changed(self, event: ClusterEvent, old: Any, new: Any) -> None:
        for lister in list(self._listers):
            lister.changed(old, new)
        if self._on_event is not None:
            self._on_event(event, old, new)


class _OwnKind:
    """A kind that plugins alone want: its informer, and the task that keeps it up to date."""

    def __init__(self, kind: Kind, client: APIClient, clock: Clock, on_event: OnEvent) -> None:
        self.factory = InformerFactory(client, [kind], clock=clock)
        self.listened = _Listened(self.factory[kind], on_event)
        self.task: asyncio.Task[object] | None = None


class PluginListers:
    """Gives out listers, and owns the informers of plugins' own kinds."""

    def __init__(
        self, client: APIClient, watched: InformerFactory, clock: Clock, on_event: OnEvent = _no_wakeup
    ) -> None:
        """`on_event` is called after the plugins, for changes of kinds of their own."""
        self._client = client
        self._watched = watched
        self._clock = clock
        self.on_event = on_event
        self._listened: dict[str, _Listened] = {}
        """Of what is watched anyway, by resource."""
        self._own: dict[_Key, _OwnKind] = {}
        self._tasks = TaskSet("plugins' kinds", clock)
        self._is_running = False

    def lister(self, kind: Kind) -> Lister:
        """A lister of a kind. Raises `TypeError` for what cannot be listed."""
        check_kind(kind)
        if KINDS.get(kind.plural) is kind:
            listened = self._listened.get(kind.resource)
            if listened is None:
                listened = self._listened[kind.resource] = _Listened(self._watched[kind], None)
            return listened.lister()
        key = (kind.group, kind.version, kind.plural, kind.type)
        own = self._own.get(key)
        if own is None:
            own = self._own[key] = _OwnKind(kind, self._client, self._clock, self._pass_on)
            self._begin(own)
        return own.listened.lister()

    async def run(self) -> None:
        """Keep the informers up to date until cancelled."""
        self._is_running = True
        try:
            for own in self._own.values():
                self._begin(own)
            while True:
                await self._clock.sleep(LOOK_SECONDS)
                self.look()
        finally:
            self._is_running = False
            await self._tasks.cancel_all()

    def look_for_absent(self) -> None:
        """Ask at once for plugins' own kinds that the API server did not have."""
        for own in self._own.values():
            own.factory.look_for_absent()

    def look(self) -> None:
        """End the informers that no plugin uses any more."""
        for key in [key for key, own in self._own.items() if not own.listened.is_used]:
            own = self._own.pop(key)
            if own.task is not None:
                own.task.cancel()

    def unsynced(self) -> tuple[str, ...]:
        """Name and problem of each kind of plugins' own whose first list is not there yet."""
        informers = [own.listened.informer for own in self._own.values()]
        return tuple(
            f"{informer.kind.resource}: {informer.problem or 'listing'}"
            for informer in informers
            if not informer.has_synced
        )

    @property
    def is_running(self) -> bool:
        """Whether informers that begin are kept up to date."""
        return self._is_running

    async def wait_for_sync(self, timeout_seconds: float) -> tuple[str, ...]:
        """Wait for the first lists; returns what is missing."""
        await finishes_within(self._all_synced(), timeout_seconds, self._clock)
        return self.unsynced()

    def statistics(self) -> Iterable[InformerStatistics]:
        """A snapshot of each informer of plugins' own kinds."""
        return [informer for own in self._own.values() for informer in own.factory.statistics()]

    async def _all_synced(self) -> None:
        for own in list(self._own.values()):
            await own.listened.informer.wait_until_synced()

    def _begin(self, own: _OwnKind) -> None:
        if self._is_running and own.task is None:
            own.task = self._tasks.spawn(own.listened.informer.kind.resource, own.factory.run())

    def _pass_on(self, event: ClusterEvent, old: Any, new: Any) -> None:
        self.on_event(event, old, new)


def _name(call: Changed) -> str:
    return getattr(call, "__qualname__", repr(call))
