"""Objects that can be assumed: seen as they were decided, until the API server shows something newer.

    put v1 ---> assume v1' ---> readers see v1'
                   |  put v2:   v2 wins, v1' is forgotten
                   |  restore:  v1 again

An assumed object carries the resource version of the object it was made from, so one glance tells whether it still
holds. Nothing is compared by size: versions are equal or they are not.
"""

from typing import Generic, TypeVar

from kscheduler.api.meta import KubeObject

T = TypeVar("T", bound=KubeObject)


class AssumeCache(Generic[T]):
    """The objects of one kind by key, as confirmed and as assumed."""

    def __init__(self) -> None:
        self._confirmed: dict[str, T] = {}
        self._assumed: dict[str, T] = {}

    def __len__(self) -> int:
        return len(self._confirmed)

    def put(self, obj: T) -> None:
        """The API server shows this. The same version as before (a relist) leaves an assumption as it is."""
        key = obj.key
        self._confirmed[key] = obj
        assumed = self._assumed.get(key)
        if assumed is not None and not _same_version(assumed, obj):
            del self._assumed[key]

    def remove(self, key: str) -> None:
        """The object is gone, and with it what was assumed of it."""
        self._confirmed.pop(key, None)
        self._assumed.pop(key, None)

    def get(self, key: str) -> T | None:
        """The object as assumed, or as confirmed."""
        return self._assumed.get(key) or self._confirmed.get(key)

    def confirmed(self, key: str) -> T | None:
        """The object as the API server last showed it."""
        return self._confirmed.get(key)

    def assume(self, obj: T) -> None:
        """Let readers see this instead. Raises `ValueError` where it was made from another version."""
        key = obj.key
        confirmed = self._confirmed.get(key)
        if confirmed is None:
            raise ValueError(f'"{key}" is gone and cannot be assumed')
        if not _same_version(confirmed, obj):
            stored, assumed = confirmed.metadata.resource_version, obj.metadata.resource_version
            raise ValueError(f'"{key}" is out of sync (stored: {stored}, assume: {assumed})')
        self._assumed[key] = obj

    def restore(self, obj: T) -> None:
        """Forget the assumption that `obj` is, or was made from; a newer one stays."""
        assumed = self._assumed.get(obj.key)
        if assumed is not None and _same_version(assumed, obj):
            del self._assumed[obj.key]


def _same_version(one: KubeObject, other: KubeObject) -> bool:
    return one.metadata.resource_version == other.metadata.resource_version
