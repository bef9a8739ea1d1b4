"""A scenario's services and controllers, behind the same interface as those of a live cluster."""

from collections.abc import Iterable
from typing import TypeVar

from kscheduler.api.meta import KubeObject
from kscheduler.informers.store import Store
from kscheduler.scheduling.handlers.workloads import StoredWorkloads
from kscheduler.whatif.scenario import ClusterObjects

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
