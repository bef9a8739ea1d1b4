"""Creates and deletes a controller's pods, with Events."""

from kscheduler.simulation.controllers.engine.plan import Create, Delete, News
from kscheduler.simulation.controllers.reading.owners import key_of, labels_of
from kscheduler.simulation.kinds.api_errors import Object
from kscheduler.simulation.kinds.resources import PODS

BURST = 500
"""Pods created or deleted for an object in a plan; the rest follows in the next plan."""


def create_pod(pod: Object, owner: Object, component: str) -> Create:
    """Create a pod, with an Event of the owner."""
    done = News(owner, component, "SuccessfulCreate", "Created pod: {name}")
    failed = News(owner, component, "FailedCreate", "Error creating: {error}", is_warning=True)
    return Create(PODS, pod, done, failed)


def delete_pod(pod: Object, owner: Object, component: str) -> Delete:
    """Delete a pod with its own grace period, with an Event of the owner."""
    return Delete(PODS, pod, done=News(owner, component, "SuccessfulDelete", "Deleted pod: {name}"))


def has_labels(pod: Object, wanted: dict[str, str]) -> bool:
    """Whether the pod has all labels of its template."""
    labels = labels_of(pod)
    return all(labels.get(key) == value for key, value in wanted.items())


def text_of(value: Object) -> str:
    """`namespace/name`."""
    return "/".join(key_of(value))
