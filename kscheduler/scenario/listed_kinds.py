"""Listers over the objects of a scenario: what plugins find under `Handle.lister` where nothing is watched."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from kscheduler.api.codec import UndecodableError
from kscheduler.api.kinds import KINDS, Kind
from kscheduler.api.meta import KubeObject
from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.client.errors import ClientError
from kscheduler.client.lists import ListDecoder
from kscheduler.framework.cluster.client import ClusterClient
from kscheduler.framework.cluster.lister import Changed, Lister, check_kind, check_method
from kscheduler.informers.store import Store
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scheduling.eviction.disruption_budgets import StoredBudgets
from kscheduler.scheduling.stored_workloads import StoredWorkloads

# A scenario's disruption budgets, behind the same interface as those of a live cluster.


def listed_budgets(objects: ClusterObjects) -> StoredBudgets:
    """The scenario's budgets."""
    store: Store[PodDisruptionBudget] = Store()
    for budget in objects.poddisruptionbudgets:
        store.put(budget.key, budget)
    return StoredBudgets(store)


# A scenario's services and controllers, behind the same interface as those of a live cluster.

T = TypeVar("T", bound=KubeObject)


def listed_workloads(objects: ClusterObjects) -> StoredWorkloads:
    """The scenario's services and controllers."""
    return StoredWorkloads(
        _stored(objects.services),
        _stored(objects.replicationcontrollers),
        _stored(objects.replicasets),
        _stored(objects.statefulsets),
    )


def _stored(objects: Iterable[T]) -> Store[T]:
    store: Store[T] = Store()
    for obj in objects:
        store.put(obj.key, obj)
    return store


_PAGE_SIZE: Final = 500
# Objects of kinds that only plugins read.
OwnObjects = Mapping[Kind, Iterable[KubeObject]]


class ListedObjects:
    """Objects that do not change, except that they may be read later. Implements `Lister`."""

    def __init__(self, objects: Iterable[KubeObject] = (), *, has_synced: bool = True) -> None:
        self.has_synced = has_synced
        self._objects = {listed.key: listed for listed in objects}
        self._calls: list[Changed] = []

    def get(self, key: str) -> Any | None:
        """The object under its key."""
        return self._objects.get(key)

    def list(self) -> list[Any]:
        """All objects, a copy."""
        return [*self._objects.values()]

    def on_change(self, call: Changed) -> None:
        """Call for each object that is there, and for those that are read later. Raises `TypeError`."""
        check_method(call)
        self._calls.append(call)
        for listed in self.list():
            call(None, listed)

    def take(self, objects: Iterable[KubeObject]) -> Sequence[str]:
        """The objects have been read. Returns a note for each plugin that fails when it is notified: it gets no further
        notifications.

        As in the service, one plugin's bug keeps no other from hearing of an object, and no object from being listed.
        """
        self.has_synced = True
        read = tuple(objects)
        self._objects.update((listed.key, listed) for listed in read)
        return [note for call in self._calls if (note := _reported(call, read))]


class ShownObjects(ListedObjects):
    """Objects that come, change and go. Implements `informers.Handler`, too.

    A plugin's failure when it is told is the caller's: tests want to see it.
    """

    def on_add(self, obj: KubeObject, initial: bool) -> None:
        """An object is there."""
        del initial
        self._show(None, obj)

    def on_update(self, old: KubeObject, new: KubeObject) -> None:
        """An object has changed."""
        self._show(old, new)

    def _show(self, old: KubeObject | None, new: KubeObject) -> None:
        self._objects[new.key] = new
        for call in self._calls:
            call(old, new)

    def on_delete(self, obj: KubeObject) -> None:
        """An object is gone."""
        del self._objects[obj.key]
        for call in self._calls:
            call(obj, None)


class ListedKinds:
    """The listers of one scenario."""

    def __init__(self, objects: ClusterObjects, own: OwnObjects | None = None) -> None:
        """`own`: of kinds that plugins alone read; those of others can be read from an API server."""
        self._objects = objects
        self._own = {_key(kind): ListedObjects(given) for kind, given in (own or {}).items()}
        self._unread: dict[Kind, ListedObjects] = {}

    def lister(self, kind: Kind) -> Lister:
        """A lister of a kind. Raises `TypeError` for what cannot be listed."""
        check_kind(kind)
        if KINDS.get(kind.plural) is kind:
            return ListedObjects(getattr(self._objects, kind.plural))
        made = self._own.get(_key(kind))
        if made is None:
            made = self._own[_key(kind)] = self._unread[kind] = ListedObjects(has_synced=False)
        return made

    @property
    def unread(self) -> list[str]:
        """Kinds that plugins have asked for and that were not read."""
        return [kind.resource for kind in self._unread]

    async def read(self, client: ClusterClient | None) -> list[str]:
        """Read them, if there is an API server; returns a note for each that cannot be read."""
        notes = []
        for kind, listed in self._unread.items():
            if client is None:
                notes.append(f"{kind.resource} are left out: there is no API server")
                continue
            try:
                notes += listed.take(await _all(client, kind, notes))
            except (ClientError, UndecodableError) as failure:
                notes.append(f"{kind.resource} are left out: {failure}")
        self._unread.clear()
        return notes


def _reported(call: Changed, objects: Iterable[KubeObject]) -> str:
    """Notify a plugin of each object; returns a note if it fails.

    A subscriber is no extension point: it has no pod whose attempt could fail, so `PluginCall` is not for it.
    """
    for listed in objects:
        try:
            call(None, listed)
        except BaseException as failure:
            if isinstance(failure, KeyboardInterrupt):
                raise
            plugin = type(getattr(call, "__self__", call)).__name__
            return f"plugin {plugin} failed when it was notified of {listed.key}: {failure!r}"
    return ""


def _key(kind: Kind) -> tuple[str, str, str, type]:
    return kind.group, kind.version, kind.plural, kind.type


async def _all(client: ClusterClient, kind: Kind, notes: list[str]) -> list[KubeObject]:
    decoder: ListDecoder[Any] = ListDecoder(kind)
    found: list[KubeObject] = []
    async for page in decoder.pages(client.get, kind.path, {"limit": str(_PAGE_SIZE)}):
        notes.extend(f"{kind.resource} {bad.key} is left out: {bad.error}" for bad in page.undecodable)
        found += page.items
    return found
