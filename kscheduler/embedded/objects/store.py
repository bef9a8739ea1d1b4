"""The versioned object store, the embedded cluster's etcd, as pure synchronous state.

A counter numbers all writes. A `Record` is a version of an object: a dict that is never changed in place, and its JSON
bytes, encoded once and shared by all lists and watches. Each write appends a `Change` to a bounded history, from which
watches resume and old snapshots are rebuilt by undoing changes; older versions are gone (410).

Limits: everything is in memory; there must be a single writer (the event loop); there are no rules of kinds here.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

import msgspec

from kscheduler.api.machinery.api_errors import Object, expired

# (namespace, name); the namespace of a cluster-scoped object is empty.
Key = tuple[str, str]

# Converts the stored form to the form of another API group.
View = Callable[[Object], Object]

_encode = msgspec.json.Encoder().encode


class Record:
    """A version of an object; the dict is immutable by convention."""

    __slots__ = ("_encoded", "_views", "value", "version")

    def __init__(self, value: Object, version: int) -> None:
        self.value = value
        self.version = version
        self._encoded: bytes | None = None
        self._views: dict[View, bytes] | None = None

    @property
    def encoded(self) -> bytes:
        """JSON bytes of the object, made on first use."""
        if self._encoded is None:
            self._encoded = _encode(self.value)
        return self._encoded

    def encoded_as(self, view: View | None) -> bytes:
        """JSON bytes in another API group's form, cached as well."""
        if view is None:
            return self.encoded
        self._views = self._views or {}
        if view not in self._views:
            self._views[view] = _encode(view(self.value))
        return self._views[view]

    def forget_bytes(self) -> None:
        """Drop the cached bytes: a superseded version is rarely sent again, and the history would accumulate them."""
        self._encoded = self._views = None


class ChangeType(Enum):
    """The kinds of writes."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Change:
    """A write: the new state (for a deletion the last state with the deletion's version) and the previous state."""

    type: ChangeType
    key: Key
    record: Record
    previous: Record | None

    @property
    def version(self) -> int:
        """The resource version of this write."""
        return self.record.version


Subscriber = Callable[[Change], None]


class Collection:
    """All objects of a kind, and their recent changes."""

    def __init__(self, history_limit: int) -> None:
        self.records: dict[Key, Record] = {}
        self.history: deque[Change] = deque()
        self.oldest_resumable = 0
        self.subscribers: dict[Subscriber, None] = {}
        self._history_limit = history_limit

    def remember(self, change: Change) -> None:
        """Append to the history, and drop the oldest change if it is full."""
        self.history.append(change)
        if len(self.history) > self._history_limit:
            self.oldest_resumable = self.history.popleft().version

    def compact(self, version: int) -> None:
        """Drop all changes up to and including `version`."""
        while self.history and self.history[0].version <= version:
            self.history.popleft()
        self.oldest_resumable = max(self.oldest_resumable, version)

    def changes_since(self, version: int) -> list[Change]:
        """Changes after `version`, oldest first. Raises 410 if some of them have been dropped."""
        if version < self.oldest_resumable:
            raise expired(f"too old resource version: {version} ({self.oldest_resumable})")
        newer: list[Change] = []
        for change in reversed(self.history):
            if change.version <= version:
                break
            newer.append(change)
        newer.reverse()
        return newer

    def snapshot(self, version: int) -> dict[Key, Record]:
        """The collection at `version`, by undoing later changes. Raises 410 if some of them have been dropped."""
        records = dict(self.records)
        for change in reversed(self.changes_since(version)):
            if change.previous is None:
                records.pop(change.key, None)
            else:
                records[change.key] = change.previous
        return records


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """Counts of the store at a moment."""

    version: int
    objects: int
    watchers: int


class ObjectStore:
    """Collections under one version counter; `put` and `remove` are the only writes."""

    def __init__(self, history_limit: int = 100_000) -> None:
        self.version = 1
        self._history_limit = history_limit
        self._collections: dict[str, Collection] = {}

    def collection(self, name: str) -> Collection:
        """The collection called `name`, made on first use."""
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = Collection(self._history_limit)
        return found

    def get(self, collection: str, namespace: str, name: str) -> Record | None:
        """The current record, or None."""
        return self.collection(collection).records.get((namespace, name))

    def put(self, collection: str, value: Object) -> Record:
        """Store `value` under its namespace and name with the next version, in a new metadata dict."""
        holder = self.collection(collection)
        metadata = value["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        record = self._numbered(value)
        previous = holder.records.get(key)
        holder.records[key] = record
        kind = ChangeType.ADDED if previous is None else ChangeType.MODIFIED
        self._publish(holder, Change(kind, key, record, previous))
        if previous is not None:
            previous.forget_bytes()
        return record

    def remove(self, collection: str, key: Key, final: Object | None = None) -> Record:
        """Remove an object; `final` is its last state if that differs from the stored one. Raises KeyError."""
        holder = self.collection(collection)
        previous = holder.records.pop(key)
        record = self._numbered(previous.value if final is None else final)
        self._publish(holder, Change(ChangeType.DELETED, key, record, previous))
        return record

    def subscribe(self, collection: str, subscriber: Subscriber) -> None:
        """Call `subscriber` with every later change, in order."""
        self.collection(collection).subscribers[subscriber] = None

    def unsubscribe(self, collection: str, subscriber: Subscriber) -> None:
        """Stop calling `subscriber`."""
        self.collection(collection).subscribers.pop(subscriber, None)

    def compact(self, version: int | None = None) -> None:
        """Drop the history up to `version` (default: all of it), as etcd's compaction does."""
        for collection in self._collections.values():
            collection.compact(self.version if version is None else version)

    def namespaced_objects(self, namespace: str) -> Iterator[tuple[str, Record]]:
        """(collection name, record) of all objects in a namespace."""
        for name, collection in self._collections.items():
            for key, record in list(collection.records.items()):
                if key[0] == namespace:
                    yield name, record

    def is_namespace_empty(self, namespace: str) -> bool:
        """Whether a namespace has no objects."""
        return not any(key[0] == namespace for collection in self._collections.values() for key in collection.records)

    def statistics(self) -> StoreStatistics:
        """Version, objects and watchers, for logs and tests."""
        collections = self._collections.values()
        objects = sum(len(collection.records) for collection in collections)
        return StoreStatistics(self.version, objects, sum(len(collection.subscribers) for collection in collections))

    def _numbered(self, value: Object) -> Record:
        self.version += 1
        metadata = {**value["metadata"], "resourceVersion": str(self.version)}
        return Record({**value, "metadata": metadata}, self.version)

    def _publish(self, holder: Collection, change: Change) -> None:
        holder.remember(change)
        for subscriber in tuple(holder.subscribers):
            subscriber(change)
