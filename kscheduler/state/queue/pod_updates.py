"""The differences between two versions of a waiting pod as cluster events: an event per changed property."""

from functools import lru_cache

import msgspec

from kscheduler.api.core import Pod, PodStatus
from kscheduler.api.quantity import QuantityError
from kscheduler.framework.events import (
    ActionType,
    ClusterEvent,
    Resource,
)
from kscheduler.framework.pods.requests import Resizing, accounted_requests


def pod_update_events(old: Pod, new: Pod, resource: Resource = Resource.UNSCHEDULABLE_POD) -> list[ClusterEvent]:
    """An event per changed property; a plain update if none of them changed."""
    changed = [action for action, differs in _EXTRACTORS if differs(old, new)]
    return [_event(resource, action) for action in changed or [ActionType.UPDATE_OTHER]]


# Cached: events are values, and there are only a dozen.
_event = lru_cache(ClusterEvent)


def is_equal_for_plugins(old: Pod, new: Pod) -> bool:
    """Whether no plugin can tell two versions of a pod apart: they differ only in the scheduler's own condition."""
    before, after = old.metadata, new.metadata
    return (
        before.labels == after.labels
        and before.annotations == after.annotations
        and before.owner_references == after.owner_references
        and before.deletion_timestamp == after.deletion_timestamp
        and old.spec == new.spec
        and _without_our_condition(old.status) == _without_our_condition(new.status)
    )


def is_own_write(old: Pod, new: Pod) -> bool:
    """Whether only the scheduler's own condition and nomination differ: such an update must not wake any pod."""
    node = new.status.nominated_node_name
    if old.status.nominated_node_name != node:
        status = msgspec.structs.replace(old.status, nominated_node_name=node)
        old = msgspec.structs.replace(old, status=status)
    return is_equal_for_plugins(old, new)


def _without_our_condition(status: PodStatus) -> PodStatus:
    others = tuple(condition for condition in status.conditions if condition.type != "PodScheduled")
    return msgspec.structs.replace(status, conditions=others)


def _labels_differ(old: Pod, new: Pod) -> bool:
    return old.metadata.labels != new.metadata.labels


def _is_scaled_down(old: Pod, new: Pod) -> bool:
    if _have_equal_requests(old, new):
        return False
    try:
        return any(_shrinks(old, new, resizing) for resizing in (Resizing.BY_CONTAINER, Resizing.BY_POD))
    except QuantityError:  # the cycle reports it; the pod is tried again when its owner corrects it
        return False


def _have_equal_requests(old: Pod, new: Pod) -> bool:
    """Whether nothing that requests are added up of differs; to compare costs less than to add up."""
    before, after = old.status, new.status
    reports = (before.container_statuses, before.init_container_statuses, after.container_statuses)
    if old.spec is new.spec and before is after:
        return True
    has_reports = any(reports) or bool(after.init_container_statuses) or after.resources is not None
    return old.spec == new.spec and not has_reports and before.resources is None


def _is_scaled_up(old: Pod, new: Pod) -> bool:
    """By the rule of 1.37, the only version with this event."""
    return _is_scaled_down(new, old)


def _shrinks(old: Pod, new: Pod, resizing: Resizing) -> bool:
    before, after = accounted_requests(old, resizing), accounted_requests(new, resizing)
    return before is not after and any(after.get(name, 0) < amount for name, amount in before.items())


def _gates_are_gone(old: Pod, new: Pod) -> bool:
    return bool(old.spec.scheduling_gates) and not new.spec.scheduling_gates


def _tolerations_differ(old: Pod, new: Pod) -> bool:
    return len(old.spec.tolerations) != len(new.spec.tolerations)


def _generated_claims_differ(old: Pod, new: Pod) -> bool:
    return old.status.resource_claim_statuses != new.status.resource_claim_statuses


_EXTRACTORS = (
    (ActionType.UPDATE_POD_LABEL, _labels_differ),
    (ActionType.UPDATE_POD_SCALE_DOWN, _is_scaled_down),
    (ActionType.UPDATE_POD_SCALE_UP, _is_scaled_up),
    (ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, _gates_are_gone),
    (ActionType.UPDATE_POD_TOLERATION, _tolerations_differ),
    (ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM, _generated_claims_differ),
)
