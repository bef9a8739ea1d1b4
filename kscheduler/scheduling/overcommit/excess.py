"""By how much the pods of a node exceed what it has.

Rows are looked through with columns; only those that are suspect are added up exactly. Counted are all pods that count
on the node for a decision: running, starting, terminating, and assumed ones.

Limits: a resource counts only where the node's allocatable names it. One that no node names is left to an extender
(`ignoredByScheduler`), and a node without any allocatable is not yet reported by its kubelet. Volumes (attach limits)
and devices of resource claims are not looked at.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import ALL_INTERFACES, HostPort, PodInfo
from kscheduler.framework.pods.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_extended

# Stands for a resource: the host ports that more than one pod claims.
HOST_PORTS: Final = "host-ports"
_NAMED: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE, PODS, HOST_PORTS})


class Excess(NamedTuple):
    """A resource of which more is requested than there is; cpu in thousandths, everything else in units.

    Of host ports: `requested` claims for `allocatable` different ports, counting the contested ones only.
    """

    resource: str
    requested: int
    allocatable: int

    @property
    def amount(self) -> int:
        """What is too much."""
        return self.requested - self.allocatable


def resource_label(resource: str) -> str:
    """The resource in metrics: a closed set, because anybody may invent names of extended resources."""
    return resource if resource in _NAMED else "extended"


def shown_amount(resource: str, amount: int) -> str:
    """An amount as in a manifest: `4500m`, `8589934592`."""
    return f"{amount}m" if resource == CPU else str(amount)


def suspect_rows(table: NodeTable, rows: Rows) -> Rows:
    """Live rows of `rows` (intp) where some column of requests is above that of the allocatable; intp, like `rows`."""
    rows = rows[table.is_live[rows]]
    is_over = table.pod_count[rows] > table.allowed_pods[rows]
    is_over |= (table.requested[:, rows] > table.allocatable[:, rows]).any(axis=0)
    return rows[np.flatnonzero(is_over)]


def excesses(info: NodeInfo) -> Iterator[Excess]:
    """What is exceeded on the node, by exact sums."""
    for resource, allocatable in info.allocatable.items():
        requested = len(info.pods) if resource == PODS else info.requested.get(resource, 0)
        if requested > allocatable and is_extended(resource):
            requested = sum(share_of(pod, resource) for pod in info.pods.values())
        if requested > allocatable:
            yield Excess(resource, requested, allocatable)
    claims = contested_claims(info.pods.values())
    if claims:
        ports = {(protocol, port) for _, (protocol, port, _) in claims}
        yield Excess(HOST_PORTS, len(claims), len(ports))


def excess_left(info: NodeInfo, resource: str, pods: Iterable[PodInfo]) -> int:
    """How much too much of the resource these of the node's pods request; 0 or less where they fit."""
    if resource == HOST_PORTS:
        return len(contested_claims(pods))
    return sum(share_of(pod, resource) for pod in pods) - info.allocatable.get(resource, 0)


def share_of(pod: PodInfo, resource: str) -> int:
    """What the pod takes of the resource; of host ports the number that it claims.

    Nothing of an extended resource for which it has devices: those are not what the node counts.
    """
    if resource == PODS:
        return 1
    claimed = pod.pod.status.extended_resource_claim_status
    if claimed is not None and any(mapping.resource_name == resource for mapping in claimed.request_mappings):
        return 0
    return len(pod.host_ports) if resource == HOST_PORTS else pod.accounted.get(resource, 0)


def contested_claims(pods: Iterable[PodInfo]) -> list[tuple[PodInfo, HostPort]]:
    """Claims to host ports that cannot all be met, with their pods, in the order of the pods.

    Two claims of different pods exclude each other: same protocol and port, and an equal address or all addresses.
    """
    by_port: dict[tuple[str, int], list[tuple[PodInfo, HostPort]]] = {}
    for pod in pods:
        for claim in pod.host_ports:
            by_port.setdefault(claim[:2], []).append((pod, claim))
    return [
        (pod, claim)
        for claims in by_port.values()
        if len(claims) > 1
        for pod, claim in claims
        if any(other is not pod and _exclude(claim, theirs) for other, theirs in claims)
    ]


def _exclude(one: HostPort, other: HostPort) -> bool:
    return one[2] == other[2] or ALL_INTERFACES in (one[2], other[2])


def latest_pods(pods: Sequence[PodInfo], excess: Excess) -> list[PodInfo]:
    """The pods without which the node was within its allocatable: those that came last, last one first.

    `pods`: those of the node, in the order in which they came.
    """
    if excess.resource == HOST_PORTS:
        claimants = dict.fromkeys(pod for pod, _ in contested_claims(pods))
        return [max(claimants, key=pods.index)]
    found, left = [], excess.amount
    for pod in reversed(pods):
        share = share_of(pod, excess.resource)
        if share:
            found.append(pod)
            left -= share
        if left <= 0:
            break
    return found


def in_order_of_placement(pods: Iterable[PodInfo]) -> list[PodInfo]:
    """By what they say themselves, to the second: when they were bound, or the kubelet took them up, or were made."""
    return sorted(pods, key=_placed_at)


def _placed_at(pod: PodInfo) -> str:
    status = pod.pod.status
    for condition in status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True" and condition.last_transition_time:
            return condition.last_transition_time
    return status.start_time or pod.pod.metadata.creation_timestamp or ""
