"""Lookup of the objects that group pods: default spreading derives its selector from them."""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from kscheduler.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet


class WorkloadListers(Protocol):
    """Services and controllers, as the informers last saw them."""

    def services_selecting(self, namespace: str, labels: Mapping[str, str]) -> Iterable[Service]:
        """The services of the namespace whose selector is not empty and matches the labels."""
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

    def services_selecting(self, namespace: str, labels: Mapping[str, str]) -> Iterable[Service]:
        """None."""
        del namespace, labels
        return ()

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
