"""NodeUnschedulable: cordoned nodes take no new pods, except pods that tolerate the taint of cordoned nodes."""

from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar

import numpy as np

from kscheduler.api.core import Node, Pod, Taint
from kscheduler.api.meta import KubeObject
from kscheduler.api.well_known import UNSCHEDULABLE
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import PASS_ALL, Plugin, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail
from kscheduler.framework.reasons.wording import taint_facts, taint_text
from kscheduler.framework.rules.node_match import NO_SCHEDULE, any_tolerates

# What a pod must tolerate to run on a cordoned node. It has no value, so no comparison (`Lt`, `Gt`) ever covers it.
_CORDONED = Taint(UNSCHEDULABLE, "", NO_SCHEDULE)


class NodeUnschedulable(Plugin):
    """Rejects nodes with `spec.unschedulable`."""

    name = "NodeUnschedulable"
    depends_on = (Source.ROW,)
    reads_pods = False
    reads_spec_only = True
    hints_by_spec = True
    judges_without_labels = True
    UNSCHEDULABLE = -1
    reasons: ClassVar = {UNSCHEDULABLE: "node(s) were unschedulable"}

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args, handle

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """A node that is new or uncordoned (which counts as a change of taints), or a new toleration of the pod."""
        node = ClusterEvent(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT)
        toleration = ClusterEvent(Resource.POD, ActionType.UPDATE_POD_TOLERATION)
        return (
            ClusterEventWithHint(node, _after_node_change),
            ClusterEventWithHint(toleration, _after_toleration_change),
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """The pod's tolerations."""
        return pod.tolerations

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """Cordoned rows, unless the pod tolerates the taint: int64 [rows]."""
        del cycle
        if not nodes.unschedulable.any() or any_tolerates(pod.tolerations, _CORDONED):
            return PASS_ALL
        return np.where(nodes.unschedulable[rows], self.UNSCHEDULABLE, 0)

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """That the node is cordoned, and the taint that the pod would have to tolerate."""
        del cycle, pod, nodes
        text = f"cordoned (spec.unschedulable): {taint_text(_CORDONED)} is not tolerated"
        yield Detail("cordoned", text, rows, {"tolerate": taint_facts(_CORDONED)})


def _after_node_change(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """A node that takes pods now and did not before."""
    del pod
    if not isinstance(new, Node):
        return QueueingHint.QUEUE
    was_closed = not isinstance(old, Node) or old.spec.unschedulable
    return QueueingHint.QUEUE if was_closed and not new.spec.unschedulable else QueueingHint.SKIP


def _after_toleration_change(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """The pod itself, if it tolerates cordoned nodes now."""
    del old
    if not isinstance(new, Pod):
        return QueueingHint.QUEUE
    is_own = PodInfo(new).uid == pod.uid
    return QueueingHint.QUEUE if is_own and any_tolerates(new.spec.tolerations, _CORDONED) else QueueingHint.SKIP
