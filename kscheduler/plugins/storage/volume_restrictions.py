"""VolumeRestrictions: disks that must not be shared, and claims that only one pod may use.

Disks that pods name themselves (GCE, EBS, iSCSI, Ceph) conflict with pods on the same node; a ReadWriteOncePod claim
conflicts with any pod that uses it anywhere. Preemption may help against both.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from kscheduler.api.core import Pod
from kscheduler.api.meta import KubeObject
from kscheduler.api.storage import READ_WRITE_ONCE_POD, PersistentVolumeClaim
from kscheduler.framework.cluster.volumes import NOTHING_KNOWN, Disk, Volumes, claim_not_found, disks_of
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import (
    NODE_ADD,
    NODE_DELETE,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    QueueingHint,
    Resource,
)
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.moved_pods import MovedPods, RowCounts
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import PASS_ALL, SKIPPED, UNSIGNABLE, Plugin, PreFilterResult, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail, grouped
from kscheduler.framework.status import SUCCESS, unresolvable


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the pod must have to itself."""

    disks: frozenset[tuple[Disk, bool]]
    """With whether the pod only reads them."""
    claims: frozenset[str]
    """Names of its ReadWriteOncePod claims."""
    users: int
    """How often other pods use those."""
    moved: RowCounts | None = None
    """What is to be added to that where a row is judged; `None` is nothing."""

    def uses(self, pod: PodInfo, other: PodInfo) -> int:
        """How often another pod uses the claims.

        They are told apart by namespace here; upstream compares their names only (Q21).
        """
        return sum(name in self.claims for name in _claims(other.pod)) if other.namespace == pod.namespace else 0

    def in_use(self, rows: Rows) -> Mask | bool:
        """Whether somebody else uses one of the claims, as each of the rows sees it."""
        if self.moved is None:
            return self.users > 0
        found: Mask = self.moved[rows] > -self.users
        return found


class VolumeRestrictions(Plugin):
    """Turns down nodes where a disk is in use, and all nodes where a claim for one pod only is."""

    name = "VolumeRestrictions"
    depends_on = (Source.ROW, Source.VOLUMES)
    needs_volumes = True
    DISK_IN_USE = 1
    CLAIM_IN_USE = 2
    reasons: ClassVar = {
        DISK_IN_USE: "node(s) had no available disk",
        CLAIM_IN_USE: "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
        "in-use by another pod",
    }

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args
        self._handle = handle

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """A pod that goes may free the disk or the claim, a new node has none in use, a missing claim may come.

        A node that goes frees the claims of its pods, which count no longer; upstream does not ask for that.
        """
        return (
            ClusterEventWithHint(ClusterEvent(Resource.POD, ActionType.DELETE), _after_pod_delete),
            ClusterEventWithHint(NODE_ADD),
            ClusterEventWithHint(NODE_DELETE, _after_node_delete),
            ClusterEventWithHint(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD), _after_claim_add),
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """Its disks. Who has claims shares nothing."""
        return UNSIGNABLE if _claims(pod.pod) else _disks(pod.pod)

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Skip for pods without such disks whose claims nobody else uses."""
        if not pod.pod.spec.volumes:
            return SKIPPED
        disks, volumes = _disks(pod.pod), self._handle.volumes
        if volumes is None:
            return PreFilterResult(NOTHING_KNOWN)
        exclusive: set[str] = set()
        for name in _claims(pod.pod):
            claim = volumes.confirmed_claim(pod.namespace, name)
            if claim is None:
                return PreFilterResult(unresolvable(claim_not_found(name), plugin=self.name))
            if _is_exclusive(claim):
                exclusive.add(name)
        users = sum(_is_used(volumes, nodes, pod.namespace, name) for name in exclusive) if exclusive else 0
        if not disks and not users:
            return SKIPPED
        cycle.write(_Wanted(disks, frozenset(exclusive), users))
        return PreFilterResult(SUCCESS)

    def add_pod(self, cycle: CycleState, pod: PodInfo, added: PodInfo, nodes: NodeTable, row: int) -> None:
        """Another pod is thought to be there: its uses of the claims count."""
        del nodes, row
        self._count(cycle, pod, added, 1)

    def remove_pod(self, cycle: CycleState, pod: PodInfo, removed: PodInfo, nodes: NodeTable, row: int) -> None:
        """Another pod is thought to be gone."""
        del nodes, row
        self._count(cycle, pod, removed, -1)

    def move_pods(self, cycle: CycleState, pod: PodInfo, moved: MovedPods, nodes: NodeTable) -> None:
        """Pods of many rows are thought to come or go, each row by itself."""
        wanted = cycle.read(_Wanted)
        after = moved.added_to(wanted.moved, [wanted.uses(pod, one) for one in moved.kinds], nodes.capacity)
        if after is not wanted.moved:
            cycle.write(replace(wanted, moved=after))

    def _count(self, cycle: CycleState, pod: PodInfo, other: PodInfo, sign: int) -> None:
        wanted = cycle.read(_Wanted)
        uses = wanted.uses(pod, other)
        if uses:
            cycle.write(replace(wanted, users=wanted.users + sign * uses))

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """A disk in use on the row; else a claim in use anywhere."""
        wanted = cycle.read(_Wanted)
        codes = np.zeros(len(rows), dtype=np.int64)
        codes[wanted.in_use(rows)] = self.CLAIM_IN_USE
        if wanted.disks:
            codes[self._have_disk(wanted, pod, nodes, rows)] = self.DISK_IN_USE
        return codes if codes.any() else PASS_ALL

    def _have_disk(self, wanted: _Wanted, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        """Positions in `rows` where a pod has one of the disks."""
        volumes = self._handle.volumes
        if volumes is None or nodes is not self._handle.view.nodes:  # a fork: judge the pods that stand in its rows
            taken = [_conflict(pod.pod, nodes.info(row).pods.values()) for row in rows.tolist()]
            return np.flatnonzero(taken)
        having = [volumes.disk_rows(disk, read_only=reads) for disk, reads in wanted.disks]
        return np.flatnonzero(np.isin(rows, np.concatenate(having)))

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """Which claim or disk is in use, and by whom."""
        wanted, volumes = cycle.find(_Wanted), self._handle.volumes
        if wanted is None or volumes is None:
            return
        for claim in sorted(wanted.claims):
            yield from _claim_users(claim, volumes, nodes, pod, rows)
        if wanted.disks:
            yield from _disk_users(pod, nodes, rows)


def _claim_users(claim: str, volumes: Volumes, nodes: NodeTable, pod: PodInfo, rows: Rows) -> Iterator[Detail]:
    used_on = sorted(volumes.claim_users(pod.namespace, claim))
    live = [(name, nodes.row_of(name)) for name in used_on if nodes.row_of(name) >= 0]
    users = [
        {"node": name, "pod": other.key}
        for name, row in live
        for other in sorted(nodes.info(row).pods.values(), key=lambda one: one.key)
        if other.namespace == pod.namespace and claim in _claims(other.pod)
    ]
    if users:
        whose = ", ".join(f"{one['pod']} on {one['node']}" for one in users[:3])
        text = f"claim {claim} is for one pod only (ReadWriteOncePod) and used by {whose}"
        yield Detail("claimInUse", text, rows, {"claim": claim, "users": users})


def _disk_users(pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterator[Detail]:
    def holders(row: int) -> tuple[str, ...]:
        there = sorted(nodes.info(row).pods.values(), key=lambda one: one.key)
        return tuple(one.key for one in there if _conflict(pod.pod, (one,)))

    for keys, group in grouped(rows, holders).items():
        if keys:
            text = f"a disk of the pod is in use by {', '.join(keys[:3])}"
            disks = sorted("/".join(disk) for disk, _ in _disks(pod.pod))
            yield Detail("diskInUse", text, group, {"disks": disks, "pods": list(keys)})


def _disks(pod: Pod) -> frozenset[tuple[Disk, bool]]:
    return frozenset(disk for volume in pod.spec.volumes for disk in disks_of(volume))


def _claims(pod: Pod) -> list[str]:
    sources = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return [source.claim_name for source in sources if source is not None]


def _is_exclusive(claim: PersistentVolumeClaim) -> bool:
    return READ_WRITE_ONCE_POD in claim.spec.access_modes


def _is_used(volumes: Volumes, nodes: NodeTable, namespace: str, name: str) -> bool:
    """Whether a pod on a node that is there uses the claim; pods on unknown nodes count for nothing, as upstream."""
    return any(nodes.row_of(node_name) >= 0 for node_name in volumes.claim_users(namespace, name))


def _conflict(pod: Pod, others: Iterable[PodInfo]) -> bool:
    """Whether one of the others has a disk of the pod's, and one of the two writes to it (or it is EBS)."""
    wanted = _disks(pod)
    for other in others:
        had = _disks(other.pod)
        for disk, reads in wanted:
            if (disk, False) in had or (not reads and (disk, True) in had):
                return True
    return False


def _after_pod_delete(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """A pod that had one of the disks, or a pod of the same namespace that had one of the claims.

    Disks know no namespaces; upstream skips pods of other namespaces before it looks at them.
    """
    del new
    if not isinstance(old, Pod):
        return QueueingHint.QUEUE
    is_near = old.metadata.namespace == pod.namespace
    frees_claim = is_near and not set(_claims(pod.pod)).isdisjoint(_claims(old))
    return QueueingHint.QUEUE if frees_claim or _conflict(pod.pod, (PodInfo(old),)) else QueueingHint.SKIP


def _after_node_delete(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """Its pods' claims may be free: a pod that has claims itself looks again."""
    del old, new
    return QueueingHint.QUEUE if _claims(pod.pod) else QueueingHint.SKIP


def _after_claim_add(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """One of the pod's claims."""
    del old
    if not isinstance(new, PersistentVolumeClaim):
        return QueueingHint.QUEUE
    is_its = new.metadata.namespace == pod.namespace and new.metadata.name in _claims(pod.pod)
    return QueueingHint.QUEUE if is_its else QueueingHint.SKIP
