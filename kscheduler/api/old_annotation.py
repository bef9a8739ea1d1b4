"""Pods that name their scheduler by an annotation, as before Kubernetes 1.6 (`honorSchedulerNameAnnotation`).

Today's API server leaves the annotation alone and fills `spec.schedulerName` with `default-scheduler`. So the
annotation counts where that is what the spec says; a spec that names another scheduler is more recent, and wins.
Everybody behind this module reads the spec only.
"""

from msgspec.structs import force_setattr, replace

from kscheduler.api.core import Pod
from kscheduler.api.well_known import DEFAULT_SCHEDULER_NAME, SCHEDULER_NAME_ANNOTATION


def honor(pod: Pod) -> None:
    """Put the annotation's name into the spec of a freshly decoded pod, which nobody else has seen. Idempotent."""
    name = _annotated(pod)
    if name:
        force_setattr(pod.spec, "scheduler_name", name)


def honored(pod: Pod) -> Pod:
    """The pod with the annotation's name in its spec; the same object if there is nothing to change."""
    name = _annotated(pod)
    return replace(pod, spec=replace(pod.spec, scheduler_name=name)) if name else pod


def _annotated(pod: Pod) -> str:
    if pod.spec.scheduler_name not in ("", DEFAULT_SCHEDULER_NAME):
        return ""
    return pod.metadata.annotations.get(SCHEDULER_NAME_ANNOTATION, "")
