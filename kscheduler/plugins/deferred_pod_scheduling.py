"""DeferredPodScheduling: a running pod whose resize waits for room may have lower pods preempted on its own node.

The kubelet defers a resize that does not fit now. Such a pod is judged like a waiting one, about the node that it runs
on: NodeResourcesFit asks whether the node has room for what it does not count yet, and DefaultPreemption makes room.
Where there is room, the kubelet resizes by itself. So the pod is rejected in any case, and waits for an event.

An administrator can keep a node out of it: `spec.podPreemptionPolicy.disableResizePreemption` of the node.
"""

from collections.abc import Hashable, Sequence
from typing import ClassVar

import numpy as np

from kscheduler.api.core import Node
from kscheduler.api.meta import KubeObject
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import SKIPPED, UNSIGNABLE, PermitResult, Plugin, PreFilterResult, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import resize_is_deferred
from kscheduler.framework.status import SUCCESS, unresolvable


class DeferredPodScheduling(Plugin):
    """Rejects other nodes than the pod's own, and nodes that allow no preemption for a resize."""

    name = "DeferredPodScheduling"
    depends_on = (Source.ROW,)
    judges_without_labels = True
    reads_pods = False
    ELSEWHERE = -1
    DISABLED = -2
    reasons: ClassVar = {
        ELSEWHERE: "pod assigned to different node",
        DISABLED: "node had resize preemption disabled",
    }

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args, handle

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """The pod's node allows preemption for resizes again, or is seen again."""
        policy = ClusterEvent(Resource.NODE, ActionType.UPDATE_NODE_PREEMPTION_POLICY)
        added = ClusterEvent(Resource.NODE, ActionType.ADD)
        return ClusterEventWithHint(policy, _after_node_change), ClusterEventWithHint(added, _after_node_change)

    def sign(self, pod: PodInfo) -> Hashable:
        """Nothing: it lets all pods through but those that it is about, which are like no other."""
        return UNSIGNABLE if resize_is_deferred(pod.pod) else ()

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Skip all other pods."""
        del cycle, nodes
        return PreFilterResult(SUCCESS) if resize_is_deferred(pod.pod) else SKIPPED

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """A code per row, int64 [rows]: only the pod's own node can pass."""
        del cycle
        own = nodes.row_of(pod.node_name)
        node = nodes.info(own).node if own >= 0 else None
        of_own = 0 if node is None or _allows(node) else self.DISABLED
        return np.where(rows == own, of_own, self.ELSEWHERE).astype(np.int64)

    def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        """A resize that fits is the kubelet's; nothing is bound."""
        del cycle, node_name
        fits = unresolvable("pod resize fits, waiting for Kubelet actuation", plugin=self.name)
        return PermitResult(fits if resize_is_deferred(pod.pod) else SUCCESS)


def _allows(node: Node) -> bool:
    """Whether pods on the node may be preempted for a resize."""
    policy = node.spec.pod_preemption_policy
    return policy is None or not policy.disable_resize_preemption


def _after_node_change(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """The pod's own node, which allows it now and did not before, or was not there."""
    if not isinstance(new, Node):
        return QueueingHint.QUEUE
    is_own = new.metadata.name == pod.node_name and resize_is_deferred(pod.pod)
    was_closed = not isinstance(old, Node) or not _allows(old)
    return QueueingHint.QUEUE if is_own and was_closed and _allows(new) else QueueingHint.SKIP
