"""The controllers' read access: current objects by name, namespace, owner and node, and the time.

Values belong to the store and are never changed in place. Indexes are built at first use and follow the store.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import BY_KEY, PODS, ServedResource
from kscheduler.embedded.objects.registry import ObjectRegistry
from kscheduler.embedded.objects.store import Change, ChangeType, Key, ObjectStore, Record

GroupOf = Callable[[Object], str]


class Index:
    """A collection's keys grouped by a text, kept up to date with the store's changes."""

    def __init__(self, store: ObjectStore, collection: str, group_of: GroupOf) -> None:
        self._store = store
        self._collection = collection
        self._group_of = group_of
        self._keys: dict[str, dict[Key, None]] = {}
        for key, record in store.collection(collection).records.items():
            self._add(key, record)
        store.subscribe(collection, self._follow)

    def values(self, group: str) -> list[Object]:
        """The objects of a group, in the order in which they entered it."""
        records = self._store.collection(self._collection).records
        return [records[key].value for key in self._keys.get(group, ())]

    def close(self) -> None:
        """Unsubscribe from the store."""
        self._store.unsubscribe(self._collection, self._follow)

    def _follow(self, change: Change) -> None:
        previous = change.previous
        if previous is not None:
            group = self._group_of(previous.value)
            if change.type is ChangeType.MODIFIED and group == self._group_of(change.record.value):
                return
            keys = self._keys.get(group)
            if keys is not None:
                keys.pop(change.key, None)
                if not keys:
                    del self._keys[group]
        if change.type is not ChangeType.DELETED:
            self._add(change.key, change.record)

    def _add(self, key: Key, record: Record) -> None:
        self._keys.setdefault(self._group_of(record.value), {})[key] = None


def _namespace_of(value: Object) -> str:
    return str(value["metadata"].get("namespace", ""))


def _node_of(pod: Object) -> str:
    return str(pod["spec"].get("nodeName") or "")


class View:
    """The current state of the cluster."""

    def __init__(self, registry: ObjectRegistry) -> None:
        self._registry = registry
        self._store = registry.store
        self._indexes: dict[tuple[str, str], Index] = {}

    @property
    def now(self) -> datetime:
        """The cluster's time."""
        return self._registry.now()

    def get(self, resource: ServedResource, key: Key) -> Object | None:
        """An object, or None."""
        record = self._store.get(resource.collection, *key)
        return None if record is None else record.value

    def all(self, resource: ServedResource) -> Iterator[Object]:
        """All objects of a kind."""
        for record in tuple(self._store.collection(resource.collection).records.values()):
            yield record.value

    def has_any(self, resource: ServedResource) -> bool:
        """Whether there is any object of this kind."""
        return bool(self._store.collection(resource.collection).records)

    def in_namespace(self, resource: ServedResource, namespace: str) -> list[Object]:
        """The objects of a kind in a namespace."""
        if not self.has_any(resource):
            return []
        return self._index(resource.collection, "namespace", _namespace_of).values(namespace)

    def pods_on(self, node_name: str) -> list[Object]:
        """The pods bound to a node, whether it exists or not."""
        return self._index(PODS.collection, "node", _node_of).values(node_name)

    def controlled(self, resource: ServedResource, owner: Object) -> list[Object]:
        """The objects of a kind that the owner controls, sorted by name."""
        uid = owner["metadata"]["uid"]
        found = []
        for collection, key in sorted(self._registry.deletion.dependents(uid)):
            if collection != resource.collection:
                continue
            value = self.get(BY_KEY[collection], key)
            if value is not None and _is_controller(value, uid):
                found.append(value)
        return found

    def close(self) -> None:
        """Drop the indexes."""
        for index in self._indexes.values():
            index.close()
        self._indexes.clear()

    def _index(self, collection: str, name: str, group_of: GroupOf) -> Index:
        index = self._indexes.get((collection, name))
        if index is None:
            index = self._indexes[collection, name] = Index(self._store, collection, group_of)
        return index


def _is_controller(value: Object, uid: str) -> bool:
    references = value["metadata"].get("ownerReferences") or ()
    return any(reference["uid"] == uid and reference.get("controller") for reference in references)
