"""Which pods may preempt, and whether a preemption has left terminating pods behind."""

from typing import Final

from kscheduler.framework.cluster.preemption import Evictions
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo

NEVER: Final = "Never"


def not_eligible(pod: PodInfo, nominated: str, nodes: NodeTable, potential: Rows, evictions: Evictions) -> str:
    """Why the pod may not preempt; empty where it may.

    Two preemptors may be nominated to the same node: the decision about the second leaves the first its room. Until the
    second's victims are gone, the first would find both these and the second in its way, and evict pods elsewhere.
    """
    if pod.pod.spec.preemption_policy == NEVER:
        return "not eligible due to preemptionPolicy=Never."
    row = nodes.row_of(nominated) if nominated else -1
    if row < 0 or row not in potential:  # the earlier nomination is of no use, so the pod may try again
        return ""
    others = nodes.info(row).pods.values()
    if any(other.priority < pod.priority and is_preempted(other) for other in others):
        return "not eligible due to a terminating pod on the nominated node."
    if evictions.is_clearing(nominated, pod):
        return "not eligible due to a pod on the nominated node that is about to be preempted."
    return ""


def is_preempted(pod: PodInfo) -> bool:
    """Whether the pod is terminating because the scheduler has preempted it."""
    if not pod.is_terminating:
        return False
    target = next((each for each in pod.pod.status.conditions if each.type == "DisruptionTarget"), None)
    return target is not None and target.status == "True" and target.reason == "PreemptionByScheduler"
