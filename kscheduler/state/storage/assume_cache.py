"""Objects that can be assumed: readers see the decided version until the API server shows a newer one.

    put v1 ---> assume v1' ---> readers see v1'
                   |  put v2:   v2 wins, v1' is forgotten
                   |  restore:  v1 again

An assumed object has the resource version of the object it was made from, which shows whether it is still valid.
Versions are compared for equality only, never by order.
"""

from typing import Generic, TypeVar

from kscheduler.api.meta import KubeObject

T = TypeVar("T", bound=KubeObject)


class AssumeCache(Generic[T]):
    """The objects of a kind by key, as confirmed and as assumed."""

    def __init__(self) -> None:
        self._confirmed: dict[str, T] = {}
        self._assumed: dict[str, T] = {}

    def __len__(self) -> int:
        return len(self._confirmed)

    def put(self, obj: T) -> None:
        """Store the API server's version. An unchanged version (after a relist) keeps the assumption."""
        key = obj.key
        self._confirmed[key] = obj
        assumed = self._assumed.get(key)
        if assumed is not None and not _same_version(assumed, obj):
            del self._assumed[key]

    def remove(self, key: str) -> None:
        """Remove the object together with its assumption."""
        self._confirmed.pop(key, None)
        self._assumed.pop(key, None)

    def get(self, key: str) -> T | None:
        """The assumed version of the object, else the confirmed one."""
        return self._assumed.get(key) or self._confirmed.get(key)

    def confirmed(self, key: str) -> T | None:
        """The object as the API server last showed it."""
        return self._confirmed.get(key)

    def assumed(self) -> list[T]:
        """The assumed versions."""
        return list(self._assumed.values())

    def assume(self, obj: T) -> None:
        """Let readers see this version. Raises `ValueError` if it was not made from the confirmed version."""
        key = obj.key
        confirmed = self._confirmed.get(key)
        if confirmed is None:
            raise ValueError(f'"{key}" is gone and cannot be assumed')
        if not _same_version(confirmed, obj):
            stored, assumed = confirmed.metadata.resource_version, obj.metadata.resource_version
            raise ValueError(f'"{key}" is out of sync (stored: {stored}, assume: {assumed})')
        self._assumed[key] = obj

    def restore(self, obj: T) -> None:
        """Undo the assumption of `obj`'s version; an assumption made from a newer version stays."""
        assumed = self._assumed.get(obj.key)
        if assumed is not None and _same_version(assumed, obj):
            del self._assumed[obj.key]


def _same_version(obj: KubeObject, other: KubeObject) -> bool:
    return obj.metadata.resource_version == other.metadata.resource_version
