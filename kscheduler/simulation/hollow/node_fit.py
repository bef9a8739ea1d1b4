"""Whether a node may run a pod, checked for a single node and pod, independently of the scheduler's columns.

Kubelets use `refusal`, the checks at admission (resources, required node affinity, host ports, NoExecute taints). The
demo uses `fits`, whether a scheduler may place the pod there, which includes NoSchedule taints and cordons. Rules about
other nodes or volumes are not checked here, only detected (`needs_other_rules`).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from kscheduler.api.core import Pod, Taint
from kscheduler.api.well_known import UNSCHEDULABLE
from kscheduler.framework.rules.node_match import selects, untolerated
from kscheduler.simulation.hollow.node_room import NodeRoom

HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
"""Taints with these effects keep a scheduler from placing a pod."""
_CORDON = Taint(key=UNSCHEDULABLE, effect="NoSchedule")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A kubelet's rejection of a pod: its `status.reason` and `status.message`."""

    reason: str
    message: str


def refusal(pod: Pod, room: NodeRoom) -> Refusal | None:
    """Why the node's kubelet would reject the pod; `None` if it would run it."""
    lack = room.lack_at_admission(pod)
    if lack is not None:
        amounts = f"requested: {lack.requested}, used: {lack.used}, capacity: {lack.allocatable}"
        text = f"Pod was rejected: Node didn't have enough resource: {lack.resource}, {amounts}"
        return Refusal(f"OutOf{lack.resource}", text)
    for rule, holds in (
        ("NodeAffinity", selects(pod, room.node)),
        ("NodePorts", room.collision_for(pod) is None),
        ("TaintToleration", _tolerates_all(pod, room.node.spec.taints, {"NoExecute"})),
    ):
        if not holds:
            return Refusal(rule, f"Pod was rejected: Predicate {rule} failed")
    return None


def fits(pod: Pod, room: NodeRoom) -> bool:
    """Whether a scheduler may place the pod on the node together with its present pods."""
    wanted = pod.spec.node_name
    if wanted and wanted != room.node.metadata.name:
        return False
    # a cordoned node counts as tainted even before the node lifecycle controller has written the taint
    taints = (*room.node.spec.taints, _CORDON) if room.node.spec.unschedulable else room.node.spec.taints
    if not _tolerates_all(pod, taints, HARD_EFFECTS) or not selects(pod, room.node):
        return False
    return room.lack_for(pod) is None and room.collision_for(pod) is None


def _tolerates_all(pod: Pod, taints: Iterable[Taint], effects: Collection[str]) -> bool:
    return not any(untolerated(taints, pod.spec.tolerations, effects))


def needs_other_rules(pod: Pod) -> bool:
    """Whether the pod's place depends on other pods, volumes, devices or groups, beyond a single node."""
    spec = pod.spec
    affinity = spec.affinity
    near_others = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    claims = any(volume.persistent_volume_claim or volume.ephemeral is not None for volume in spec.volumes)
    return bool(
        near_others or claims or spec.topology_spread_constraints or spec.resource_claims or spec.scheduling_group
    )
