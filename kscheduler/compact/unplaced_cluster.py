"""The pods of a cluster that can move to another node, as they were before they had one.

Pods of DaemonSets and static pods stay with their node and go with it. Left out are pods that have ended or are being
deleted, and pods that wait: nothing is known of the room that they would find. Pods that wait in a group of which
others run move with these, as a group is placed whole.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from kscheduler.api.core import Pod, PodStatus
from kscheduler.api.devices import ResourceClaim, ResourceClaimStatus
from kscheduler.framework.cluster.pod_groups import GroupKey
from kscheduler.scenario.scenario import ClusterObjects


@dataclass(frozen=True, slots=True)
class UnplacedCluster:
    """A cluster whose pods are off their nodes."""

    objects: ClusterObjects
    """Without pods, what attaches volumes to nodes, and what claims to devices have been given."""
    moving: tuple[Pod, ...]
    """They have no node, preempt nobody, and keep their UIDs."""
    staying: Mapping[str, tuple[Pod, ...]]
    """By node."""
    nodes_in_use: frozenset[str]
    """The nodes that had a pod of `moving`."""
    elsewhere: int
    """How many of `moving` were on nodes that are not among the objects."""
    waiting: int
    """How many pods wait for a node, which are left out."""
    terminating: int
    """How many pods are being deleted, which are left out."""

    @classmethod
    def of(cls, objects: ClusterObjects, group_of: Callable[[Pod], GroupKey | None]) -> "UnplacedCluster":
        """Take the pods of a cluster off their nodes. `group_of`: the group that a pod names."""
        moving: list[Pod] = []
        waiting: list[Pod] = []
        staying: defaultdict[str, list[Pod]] = defaultdict(list)
        terminating = 0
        for pod in objects.pods:
            if pod.is_terminal:
                continue
            if pod.metadata.deletion_timestamp:
                terminating += 1
            elif not pod.spec.node_name:
                waiting.append(pod)
            elif pod.belongs_to_node:
                staying[pod.spec.node_name].append(pod)
            else:
                moving.append(pod)
        known = {node.metadata.name for node in objects.nodes}
        used = [pod.spec.node_name for pod in moving]
        groups = {key for pod in moving if (key := group_of(pod)) is not None}
        with_others = [pod for pod in waiting if group_of(pod) in groups]
        moving += with_others
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
            nodes_in_use=frozenset(used) & known,
            elsewhere=sum(name not in known for name in used),
            waiting=len(waiting) - len(with_others),
            terminating=terminating,
        )


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
