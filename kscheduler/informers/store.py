"""Objects by key, and by the values of indexes."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from kscheduler.api.meta import KubeObject
from kscheduler.change_count import ChangeCount

T = TypeVar("T", bound=KubeObject)

# From an object to its index values; must always return the same values for the same object.
IndexFunction = Callable[[T], Iterable[str]]


class Store(Generic[T]):
    """The last known state of each object of one kind. Only the informer writes."""

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}
        self._indexes: dict[str, tuple[IndexFunction[T], dict[str, dict[str, T]]]] = {}
        self.changes = ChangeCount()
        """Of the objects."""

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: object) -> bool:
        return key in self._objects

    def get(self, key: str) -> T | None:
        """The object under `namespace/name`, or `name` for cluster-scoped kinds."""
        return self._objects.get(key)

    def keys(self) -> list[str]:
        """A copy of all keys."""
        return list(self._objects)

    def by_index(self, name: str, value: str) -> list[T]:
        """The objects that the index `name` files under `value`."""
        found = self._indexes[name][1].get(value)
        return [*found.values()] if found else []

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """File all objects, present and future, under the values of `function`."""
        self._indexes[name] = (function, {})
        for key, obj in self._objects.items():
            self._file(name, key, obj)

    def put(self, key: str, obj: T) -> None:
        """Store an object, replacing an older state."""
        self.changes.number += 1
        if self._indexes and (old := self._objects.get(key)) is not None:
            self._unfile(key, old)
        self._objects[key] = obj
        for name in self._indexes:
            self._file(name, key, obj)

    def remove(self, key: str) -> None:
        """Remove a stored object."""
        self.changes.number += 1
        self._unfile(key, self._objects.pop(key))

    def _file(self, name: str, key: str, obj: T) -> None:
        function, entries = self._indexes[name]
        for value in function(obj):
            entries.setdefault(value, {})[key] = obj

    def _unfile(self, key: str, old: T) -> None:
        for function, entries in self._indexes.values():
            for value in function(old):
                filed = entries.get(value)
                if filed is not None and filed.pop(key, None) is not None and not filed:
                    del entries[value]

    def list(self) -> list[T]:
        """All objects, in a new list; the objects are shared and must not be changed."""
        return [*self._objects.values()]
