"""What changed between two versions of a pod that waits, as cluster events (reference 1.0.5)."""

from kscheduler.api.core import Pod
from kscheduler.framework.events import ActionType, ClusterEvent, Resource
from kscheduler.framework.requests import accounted_requests


def pod_update_events(old: Pod, new: Pod, resource: Resource = Resource.UNSCHEDULABLE_POD) -> list[ClusterEvent]:
    """One event per property that changed; a plain update where none of them did."""
    changed = [action for action, differs in _EXTRACTORS if differs(old, new)]
    return [ClusterEvent(resource, action) for action in changed or [ActionType.UPDATE_OTHER]]


def _labels_differ(old: Pod, new: Pod) -> bool:
    return old.metadata.labels != new.metadata.labels


def _is_scaled_down(old: Pod, new: Pod) -> bool:
    if old.spec is new.spec and old.status is new.status:
        return False
    before, after = accounted_requests(old), accounted_requests(new)
    return any(after.get(name, 0) < amount for name, amount in before.items())


def _gates_are_gone(old: Pod, new: Pod) -> bool:
    return bool(old.spec.scheduling_gates) and not new.spec.scheduling_gates


def _tolerations_differ(old: Pod, new: Pod) -> bool:
    return len(old.spec.tolerations) != len(new.spec.tolerations)


_EXTRACTORS = (
    (ActionType.UPDATE_POD_LABEL, _labels_differ),
    (ActionType.UPDATE_POD_SCALE_DOWN, _is_scaled_down),
    (ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, _gates_are_gone),
    (ActionType.UPDATE_POD_TOLERATION, _tolerations_differ),
)
