"""Objects of a kind, as the watch last showed them: what the scheduler watches anyway, or a kind of the plugin's own.

Typed as `Any`, because a `Kind` says at run time which struct its objects are.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from kscheduler.api.kinds import Kind
from kscheduler.api.meta import KubeObject
from kscheduler.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from kscheduler.change_count import ChangeCount

# Lookup of the objects that group pods: default spreading derives its selector from them.


class WorkloadListers(Protocol):
    """Services and controllers, as the informers last saw them."""

    @property
    def service_changes(self) -> ChangeCount:
        """How often services have changed."""
        ...

    def services_selecting(self, namespace: str, labels: Mapping[str, str]) -> Iterable[Service]:
        """The services of the namespace whose selector is not empty and matches the labels."""
        ...

    def labels_of_services(self, namespace: str, labels: Mapping[str, str]) -> frozenset[str]:
        """Those of the labels that a service's selector of the namespace names, whatever the value."""
        ...

    def replication_controller(self, namespace: str, name: str) -> ReplicationController | None:
        """The controller with this name."""
        ...

    def replica_set(self, namespace: str, name: str) -> ReplicaSet | None:
        """The replica set with this name."""
        ...

    def stateful_set(self, namespace: str, name: str) -> StatefulSet | None:
        """The stateful set with this name."""
        ...


class _NoWorkloads:
    """A cluster without services and controllers."""

    service_changes = ChangeCount()

    def services_selecting(self, namespace: str, labels: Mapping[str, str]) -> Iterable[Service]:
        """None."""
        del namespace, labels
        return ()

    def labels_of_services(self, namespace: str, labels: Mapping[str, str]) -> frozenset[str]:
        """None."""
        del namespace, labels
        return frozenset()

    def replication_controller(self, namespace: str, name: str) -> ReplicationController | None:
        """None."""
        del namespace, name
        return None

    def replica_set(self, namespace: str, name: str) -> ReplicaSet | None:
        """None."""
        del namespace, name
        return None

    def stateful_set(self, namespace: str, name: str) -> StatefulSet | None:
        """None."""
        del namespace, name
        return None


NO_WORKLOADS: Final[WorkloadListers] = _NoWorkloads()


# `changed(old, new)`: an object came (`old` is `None`), changed, or went (`new` is `None`).
Changed = Callable[[Any, Any], None]


class Lister(Protocol):
    """The objects of one kind, all namespaces. Objects are shared: read them, never write to them."""

    @property
    def has_synced(self) -> bool:
        """Whether the first list is there. The service decides nothing before it is."""
        ...

    def get(self, key: str) -> Any | None:
        """The object under `namespace/name`, or `name` for a cluster-scoped kind."""
        ...

    def list(self) -> list[Any]:
        """All objects, a copy."""
        ...

    def on_change(self, call: Changed) -> None:
        """Call this method of the plugin for each change from now on, and at once for each object that is there.

        It must be short: it runs on the event loop, once per object. It is not kept alive: it is called for as long as
        its plugin is in use, so it must be a method (`TypeError` otherwise). Pods wake after it, so it may call
        `Handle.nodes_changed` first.
        """
        ...


class _NothingListed:
    """No object of any kind, where there is no cluster."""

    has_synced = True

    def get(self, key: str) -> None:
        """None."""
        del key

    def list(self) -> list[Any]:
        """None."""
        return []

    def on_change(self, call: Changed) -> None:
        """Nothing ever changes."""


ListerOf = Callable[[Kind], Lister]
_NOTHING: Final = _NothingListed()


def nothing_listed(kind: Kind) -> Lister:
    """A lister without objects. Raises `TypeError` for a kind that nobody could list."""
    check_kind(kind)
    return _NOTHING


class KeptListers:
    """The listers that a plugin has asked its Handle for: they live as long as it does, whether the plugin keeps them
    or asks again each time.
    """

    def __init__(self, give: ListerOf) -> None:
        self._give = give
        self._given: dict[Kind, Lister] = {}

    def __call__(self, kind: Kind) -> Lister:
        """The lister of the kind. Raises `TypeError` for what cannot be listed."""
        check_kind(kind)
        lister = self._given.get(kind)
        if lister is None:
            lister = self._given[kind] = self._give(kind)
        return lister


def check_method(call: object) -> None:
    """Raises `TypeError` unless it is a method of an object: a function would keep a replaced plugin alive."""
    if not inspect.ismethod(call):
        raise TypeError(f"on_change({call!r}): give a method of the plugin, such as self.changed")


def check_kind(kind: object) -> None:
    """Raises `TypeError` unless it is a `Kind` whose type is a `KubeObject`."""
    if not isinstance(kind, Kind):
        raise TypeError(f"lister({kind!r}): give a Kind, such as kscheduler.api.kinds.NODES or one of your own")
    given: object = kind.type
    if not (isinstance(given, type) and issubclass(given, KubeObject)):
        raise TypeError(f"lister of {kind.resource}: its type is {given!r}, where a subclass of KubeObject is due")
