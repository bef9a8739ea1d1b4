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
from kscheduler.framework.pods.requests import Requests, Resizing, accounted_requests, depend_on_the_same


def pod_update_events(old: Pod, new: Pod, resource: Resource = Resource.UNSCHEDULABLE_POD) -> list[ClusterEvent]:
    """An event per changed property; a plain update if none of them changed."""
    changed = []
    if old.metadata.labels != new.metadata.labels:
        changed.append(ActionType.UPDATE_POD_LABEL)
    if not depend_on_the_same(old, new):  # to compare costs less than to add up
        changed += _scalings(old, new)
    if old.spec is not new.spec:
        if old.spec.scheduling_gates and not new.spec.scheduling_gates:
            changed.append(ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        if len(old.spec.tolerations) != len(new.spec.tolerations):
            changed.append(ActionType.UPDATE_POD_TOLERATION)
    if old.status.resource_claim_statuses != new.status.resource_claim_statuses:
        changed.append(ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    return [_event(resource, action) for action in changed or _NOTHING_ELSE]


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
    others = tuple([condition for condition in status.conditions if condition.type != "PodScheduled"])
    return msgspec.structs.replace(status, conditions=others)


def _scalings(old: Pod, new: Pod) -> list[ActionType]:
    """Whether it requests less of anything than before, and whether more: by the rule of any version.

    That it requests more is an event in 1.37 only. Where requests cannot be read the cycle reports it, and the pod is
    tried again when its owner corrects it.
    """
    is_less = is_more = False
    try:
        for resizing in (Resizing.BY_CONTAINER, Resizing.BY_POD):
            before, after = accounted_requests(old, resizing), accounted_requests(new, resizing)
            if before is not after:
                is_less = is_less or _shrinks(before, after)
                is_more = is_more or _shrinks(after, before)
    except QuantityError:
        pass
    less = [ActionType.UPDATE_POD_SCALE_DOWN] if is_less else []
    return [*less, ActionType.UPDATE_POD_SCALE_UP] if is_more else less


def _shrinks(before: Requests, after: Requests) -> bool:
    return any(after.get(name, 0) < amount for name, amount in before.items())


_NOTHING_ELSE = (ActionType.UPDATE_OTHER,)
