"""The pods of a cluster that can move to another node, as they were before they had one.

Pods of DaemonSets and static pods stay with their node and go with it. Left out are pods that have ended or are being
deleted, and pods that wait: nothing is known of the room that they would find.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from kscheduler.api.core import Pod, PodStatus
from kscheduler.api.devices import ResourceClaim, ResourceClaimStatus
from kscheduler.scenario.scenario import ClusterObjects

_WITH_ITS_NODE = ("DaemonSet", "Node")


@dataclass(frozen=True, slots=True)
class MovingPods:
    """A cluster whose pods are off their nodes."""

    objects: ClusterObjects
    """Without pods, what attaches volumes to nodes, and what claims to devices have been given."""
    moving: tuple[Pod, ...]
    """They have no node, preempt nobody, and keep their UIDs."""
    staying: Mapping[str, tuple[Pod, ...]]
    """By node."""
    nodes_in_use: frozenset[str]
    """The nodes that had a pod of `moving`."""
    waiting: int
    """How many pods wait for a node, which are left out."""

    @classmethod
    def of(cls, objects: ClusterObjects) -> "MovingPods":
        """Take the pods of a cluster off their nodes."""
        moving: list[Pod] = []
        staying: defaultdict[str, list[Pod]] = defaultdict(list)
        waiting = 0
        for pod in objects.pods:
            if pod.is_terminal or pod.metadata.deletion_timestamp:
                continue
            if not pod.spec.node_name:
                waiting += 1
            elif stays_with_its_node(pod):
                staying[pod.spec.node_name].append(pod)
            else:
                moving.append(pod)
        uids = {pod.metadata.uid for pod in moving}
        extended = {f"{pod.metadata.namespace}/{name}" for pod in moving if (name := _extended_claim(pod))}
        left = replace(
            objects,
            pods=(),
            volumeattachments=(),
            resourceclaims=tuple(_freed(claim, uids) for claim in objects.resourceclaims if claim.key not in extended),
        )
        return cls(
            objects=left,
            moving=tuple(map(_without_a_node, moving)),
            staying={node: tuple(pods) for node, pods in staying.items()},
            nodes_in_use=frozenset(pod.spec.node_name for pod in moving),
            waiting=waiting,
        )


def stays_with_its_node(pod: Pod) -> bool:
    """Whether it is of a DaemonSet, or static."""
    owner = pod.metadata.controller
    return owner is not None and owner.kind in _WITH_ITS_NODE


def _without_a_node(pod: Pod) -> Pod:
    """The pod as it was before its Binding. Claims that were made for it keep their names."""
    spec = replace(pod.spec, node_name="", preemption_policy="Never")
    return replace(pod, spec=spec, status=PodStatus(resource_claim_statuses=pod.status.resource_claim_statuses))


def _extended_claim(pod: Pod) -> str:
    """The claim that the scheduler has made for the pod's extended resources, which it will make again."""
    status = pod.status.extended_resource_claim_status
    return "" if status is None else status.resource_claim_name


def _freed(claim: ResourceClaim, movers: set[str]) -> ResourceClaim:
    """The claim without devices, if all that use it move."""
    users = claim.status.reserved_for
    return replace(claim, status=ResourceClaimStatus()) if all(user.uid in movers for user in users) else claim
