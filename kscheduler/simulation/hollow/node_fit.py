"""Whether a node may run a pod, judged one node and one pod at a time, apart from the scheduler's columns.

Two readers with two questions. A kubelet asks `refusal`: what it would reject at admission (resources, required node
affinity, host ports, NoExecute taints). The demo asks `fits`: whether a scheduler may place the pod there, for which
NoSchedule taints and cordons count too. Rules that look at other nodes or at volumes are not judged here, only seen
(`needs_other_rules`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kscheduler.api.core import Node, Pod, Taint, Toleration
from kscheduler.api.selectors import parse_node_selector_map, parse_node_term
from kscheduler.simulation.hollow.node_room import NodeRoom

HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
"""Taints with these effects keep a scheduler from placing a pod."""
_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a kubelet rejects a pod: what it writes into `status.reason` and `status.message`."""

    reason: str
    message: str


def refusal(pod: Pod, room: NodeRoom) -> Refusal | None:
    """What the node's kubelet would reject the pod for; `None`: it runs.

    Stricter than a real kubelet in one point: an extended resource that the node does not have is a lack, where a
    kubelet forgives it for the sake of device plugins that come late.
    """
    lack = room.lack_for(pod)
    if lack is not None:
        amounts = f"requested: {lack.requested}, used: {lack.used}, capacity: {lack.allocatable}"
        text = f"Pod was rejected: Node didn't have enough resource: {lack.resource}, {amounts}"
        return Refusal(f"OutOf{lack.resource}", text)
    for rule, holds in (
        ("NodeAffinity", selects(pod, room.node)),
        ("NodePorts", room.collision_for(pod) is None),
        ("TaintToleration", next(untolerated(pod, room.node, {"NoExecute"}), None) is None),
    ):
        if not holds:
            return Refusal(rule, f"Pod was rejected: Predicate {rule} failed")
    return None


def fits(pod: Pod, room: NodeRoom) -> bool:
    """Whether a scheduler may place the pod on the node beside the pods that are there."""
    wanted = pod.spec.node_name
    if wanted and wanted != room.node.metadata.name:
        return False
    if next(untolerated(pod, room.node, HARD_EFFECTS), None) is not None or not selects(pod, room.node):
        return False
    return room.lack_for(pod) is None and room.collision_for(pod) is None


def selects(pod: Pod, node: Node) -> bool:
    """Whether nodeSelector and required node affinity allow the node."""
    labels, name = node.metadata.labels, node.metadata.name
    if not parse_node_selector_map(pod.spec.node_selector).matches(labels, name):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is None:
        return True
    return any(parse_node_term(term).matches(labels, name) for term in required.node_selector_terms)


def untolerated(pod: Pod, node: Node, effects: Iterable[str]) -> Iterator[Taint]:
    """The node's taints of these effects that the pod does not bear; a cordoned node counts as tainted."""
    taints = (*node.spec.taints, _CORDON) if node.spec.unschedulable else node.spec.taints
    for taint in taints:
        if taint.effect in effects and not any(_bears(one, taint) for one in pod.spec.tolerations):
            yield taint


def _bears(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == "Exists" or (toleration.operator in ("", "Equal") and toleration.value == taint.value)


def needs_other_rules(pod: Pod) -> bool:
    """Whether the pod's place depends on other pods, on volumes, devices or groups: nothing that one node can tell."""
    spec = pod.spec
    affinity = spec.affinity
    near_others = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    claims = any(volume.persistent_volume_claim or volume.ephemeral is not None for volume in spec.volumes)
    return bool(
        near_others or claims or spec.topology_spread_constraints or spec.resource_claims or spec.scheduling_group
    )
