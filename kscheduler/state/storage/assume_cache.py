"""Objects that can be assumed: readers see the decided version until the API server shows a newer one.

    put v1 ---> assume v1' ---> readers see v1'
                   |  put v2:   v2 wins, v1' is forgotten
                   |  restore:  v1 again

An assumed object has the resource version of the object it was made from, which shows whether it is still valid.
Versions are compared for equality only, never by order.
"""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from kscheduler.api.meta import KubeObject
from kscheduler.framework.cluster.volumes import Subject

# An index from a value to the names of the objects that have it, in order of arrival.

# Value to names.
Names = dict[str, dict[str, None]]


def file(index: Names, value: str, name: str) -> None:
    """Add the named object under the value."""
    index.setdefault(value, {})[name] = None


def unfile(index: Names, value: str, name: str) -> None:
    """Remove the named object from the value's entry, if it is there."""
    names = index.get(value)
    if names is not None:
        names.pop(name, None)
        if not names:
            del index[value]


T = TypeVar("T", bound=KubeObject)


class AssumeCache(Generic[T]):
    """The objects of a kind by key, as confirmed and as assumed."""

    def __init__(self) -> None:
        self._confirmed: dict[str, T] = {}
        self._assumed: dict[str, T] = {}
        self.confirmed: Callable[[str], T | None] = self._confirmed.get
        """The object with this key as the API server last showed it. The dict's own method: called ten times a pod."""

    def __len__(self) -> int:
        return len(self._confirmed)

    def put(self, key: str, obj: T) -> None:
        """Store the API server's version. An unchanged version (after a relist) keeps the assumption."""
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


# Listeners for changes of claims, volumes and pods.
#
# Thousands of pods may wait for their volumes at a time, and each event concerns one or two of them: waking all of them
# each time would have quadratic cost. So listeners are filed under the subjects that they wait for.

Listener = Callable[[], None]


class VolumeListeners:
    """Listeners by subject."""

    def __init__(self) -> None:
        self._listeners: dict[Subject, list[Listener]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._listeners.values()))

    def add(self, subjects: Iterable[Subject], listener: Listener) -> Callable[[], None]:
        """Call `listener` after each change of the subjects; returns a function that ends the subscription."""
        filed = tuple(subjects)
        for subject in filed:
            self._listeners.setdefault(subject, []).append(listener)
        return lambda: self._remove(filed, listener)

    def notify(self, subject: Subject) -> None:
        """Call the listeners of a subject that has changed."""
        if self._listeners:
            for listener in tuple(self._listeners.get(subject, ())):
                listener()

    def _remove(self, subjects: Iterable[Subject], listener: Listener) -> None:
        for subject in subjects:
            listeners = self._listeners[subject]
            listeners.remove(listener)
            if not listeners:
                del self._listeners[subject]
