"""Services and controllers from informer stores: default spreading looks them up for each pod.

A namespace may have thousands of services, and a pod is selected by one or two. Each service is indexed under one label
of its selector, so only services indexed under one of the pod's labels are checked.
"""

from collections.abc import Iterable, Iterator, Mapping

from kscheduler.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from kscheduler.informers.store import Store

_INDEX = "one label of the selector"
_KEYS = "each label of the selector"


class StoredWorkloads:
    """Implements `framework.cluster.lister.WorkloadListers`; the stores are the informers' or a scenario's."""

    def __init__(
        self,
        services: Store[Service],
        replication_controllers: Store[ReplicationController],
        replica_sets: Store[ReplicaSet],
        stateful_sets: Store[StatefulSet],
    ) -> None:
        services.add_index(_INDEX, _filed_under)
        services.add_index(_KEYS, _keys)
        self._services = services
        self.service_changes = services.changes
        self._replication_controllers = replication_controllers
        self._replica_sets = replica_sets
        self._stateful_sets = stateful_sets

    def services_selecting(self, namespace: str, labels: Mapping[str, str]) -> Iterator[Service]:
        """The services of the namespace whose selector is not empty and matches the labels."""
        for key, value in labels.items():
            for service in self._services.by_index(_INDEX, _file(namespace, key, value)):
                if service.spec.selector.items() <= labels.items():
                    yield service

    def labels_of_services(self, namespace: str, labels: Mapping[str, str]) -> frozenset[str]:
        """Those of the labels that a service's selector of the namespace names, whatever the value."""
        return frozenset([key for key in labels if self._services.by_index(_KEYS, f"{namespace}/{key}")])

    def replication_controller(self, namespace: str, name: str) -> ReplicationController | None:
        """The object of this name, or `None`."""
        return self._replication_controllers.get(f"{namespace}/{name}")

    def replica_set(self, namespace: str, name: str) -> ReplicaSet | None:
        """The object of this name, or `None`."""
        return self._replica_sets.get(f"{namespace}/{name}")

    def stateful_set(self, namespace: str, name: str) -> StatefulSet | None:
        """The object of this name, or `None`."""
        return self._stateful_sets.get(f"{namespace}/{name}")


def _filed_under(service: Service) -> tuple[str, ...]:
    """The index key of the selector's smallest label; none for a service without selector."""
    if not service.spec.selector:
        return ()
    key, value = min(service.spec.selector.items())
    return (_file(service.metadata.namespace, key, value),)


def _keys(service: Service) -> Iterable[str]:
    namespace = service.metadata.namespace
    return [f"{namespace}/{key}" for key in service.spec.selector]


def _file(namespace: str, key: str, value: str) -> str:
    return f"{namespace}/{key}={value}"
