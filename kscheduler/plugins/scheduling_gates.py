"""SchedulingGates: a pod with gates is not scheduled until its last gate is removed."""

from collections.abc import Hashable, Sequence

from kscheduler.api.core import Pod
from kscheduler.api.meta import KubeObject
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, unresolvable


class SchedulingGates(Plugin):
    """Holds gated pods back before they enter the queue."""

    name = "SchedulingGates"
    lets_in_plain_pods = True
    depends_on = ()
    judges_without_labels = True

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args, handle

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Only an update of the pod itself can remove its gates."""
        gone = ClusterEvent(Resource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        return (ClusterEventWithHint(gone, _after_gates_are_gone),)

    def sign(self, pod: PodInfo) -> Hashable:
        """The pod's gates."""
        return pod.pod.spec.scheduling_gates

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Name the gates in the order of the pod's spec."""
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return SUCCESS
        names = " ".join(gate.name for gate in gates)
        return unresolvable(f"waiting for scheduling gates: [{names}]", plugin=self.name)


def _after_gates_are_gone(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """Another pod's gates do not concern this one."""
    del old
    is_own = isinstance(new, Pod) and PodInfo(new).uid == pod.uid
    return QueueingHint.QUEUE if is_own else QueueingHint.SKIP
