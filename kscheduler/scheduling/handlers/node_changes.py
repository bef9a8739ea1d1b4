"""From two versions of a node to one cluster event, with a bit per changed property."""

from collections.abc import Callable

from kscheduler.api.core import Node
from kscheduler.framework.events import ActionType, ClusterEvent, Resource


def node_update_event(old: Node, new: Node) -> ClusterEvent | None:
    """One event with a bit per changed property; `None` if no relevant property has changed, as in a heartbeat."""
    action = ActionType(0)
    for bit, changed in _EXTRACTORS:
        if changed(old, new):
            action |= bit
    return ClusterEvent(Resource.NODE, action) if action else None


def _conditions_by_type(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


_EXTRACTORS: tuple[tuple[ActionType, Callable[[Node, Node], bool]], ...] = (
    (ActionType.UPDATE_NODE_TAINT, lambda old, new: old.spec.unschedulable and not new.spec.unschedulable),
    (ActionType.UPDATE_NODE_ALLOCATABLE, lambda old, new: old.status.allocatable != new.status.allocatable),
    (ActionType.UPDATE_NODE_LABEL, lambda old, new: old.metadata.labels != new.metadata.labels),
    (ActionType.UPDATE_NODE_TAINT, lambda old, new: old.spec.taints != new.spec.taints),
    (ActionType.UPDATE_NODE_CONDITION, lambda old, new: _conditions_by_type(old) != _conditions_by_type(new)),
    (ActionType.UPDATE_NODE_ANNOTATION, lambda old, new: old.metadata.annotations != new.metadata.annotations),
    (
        ActionType.UPDATE_NODE_DECLARED_FEATURE,
        lambda old, new: old.status.declared_features != new.status.declared_features,
    ),
    (
        ActionType.UPDATE_NODE_PREEMPTION_POLICY,
        lambda old, new: old.spec.pod_preemption_policy != new.spec.pod_preemption_policy,
    ),
)
