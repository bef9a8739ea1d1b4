"""Which changes may help a pod that hard constraints turned down.

A pod that came, went or changed its labels moves a count where it is on a node (or expected on one) in the same
namespace and a selector sees it. A node moves domains where it has all keys, before or after.
"""

from collections.abc import Sequence

from kscheduler.api.core import Node, Pod
from kscheduler.framework.events import QueueingHint
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.spread_constraint import SpreadConstraint

Constraints = Sequence[SpreadConstraint]


def is_involved(changed: Pod, pod: PodInfo) -> bool:
    """Whether the changed pod is the waiting one, or counts somewhere in its namespace."""
    if (changed.metadata.uid or changed.key) == pod.uid:
        return True
    is_placed = bool(changed.spec.node_name or changed.status.nominated_node_name)
    return is_placed and changed.metadata.namespace == pod.namespace


def after_pod_change(pod: PodInfo, constraints: Constraints, old: Pod | None, new: Pod | None) -> QueueingHint:
    """`old` and `new` are involved; where one is missing the pod came or went."""
    if old is not None and new is not None:
        return _hint(_is_update_of_interest(pod, constraints, old, new))
    changed = new or old
    return _hint(changed is None or any(one.selector.matches(changed.metadata.labels) for one in constraints))


def _is_update_of_interest(pod: PodInfo, constraints: Constraints, old: Pod, new: Pod) -> bool:
    is_own = (new.metadata.uid or new.key) == pod.uid
    if is_own and old.spec.tolerations != new.spec.tolerations and any(one.honors_taints for one in constraints):
        return True
    before, after = old.metadata.labels, new.metadata.labels
    if before == after:
        return False
    return any(one.selector.matches(before) != one.selector.matches(after) for one in constraints)


def after_node_change(constraints: Constraints, old: Node | None, new: Node | None) -> QueueingHint:
    """A node that makes or leaves a domain, moves to another, or has other taints."""
    matched = old is not None and _has_all_keys(old, constraints)
    matches = new is not None and _has_all_keys(new, constraints)
    if old is None or new is None:
        return _hint(matched or matches)
    if matched != matches:
        return QueueingHint.QUEUE
    return _hint(matches and (_domains_differ(old, new, constraints) or old.spec.taints != new.spec.taints))


def _has_all_keys(node: Node, constraints: Constraints) -> bool:
    return all(one.topology_key in node.metadata.labels for one in constraints)


def _domains_differ(old: Node, new: Node, constraints: Constraints) -> bool:
    before, after = old.metadata.labels, new.metadata.labels
    return any(before.get(one.topology_key) != after.get(one.topology_key) for one in constraints)


def _hint(may_help: bool) -> QueueingHint:
    return QueueingHint.QUEUE if may_help else QueueingHint.SKIP
