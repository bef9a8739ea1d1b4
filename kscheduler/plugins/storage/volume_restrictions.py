"""VolumeRestrictions: disks that pods cannot share, and claims that only a single pod may use.

Disks that pods name directly (GCE, EBS, iSCSI, Ceph) conflict with pods on the same node; a ReadWriteOncePod claim
conflicts with any pod that uses it, on any node. Preemption may resolve both.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import ClassVar

import msgspec
import numpy as np
from msgspec.structs import replace

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


class _Exclusive(msgspec.Struct, frozen=True):
    """The disks and claims that the pod cannot share."""

    disks: frozenset[tuple[Disk, bool]]
    """Each with whether the pod only reads it."""
    claims: frozenset[str]
    """Names of the pod's ReadWriteOncePod claims."""
    users: int
    """How often other pods use these claims."""
    moved: RowCounts | None = None
    """int64 [capacity]: added to `users` for the row only; `None` adds nothing."""

    def uses(self, pod: PodInfo, other: PodInfo) -> int:
        """How often another pod uses the claims.

        Namespaces are compared here; upstream compares the names of the claims only (Q21).
        """
        return sum(name in self.claims for name in _claims(other.pod)) if other.namespace == pod.namespace else 0

    def in_use(self, rows: Rows) -> Mask | bool:
        """Whether another pod uses one of the claims: bool [rows], or a single bool where all rows see the same."""
        if self.moved is None:
            return self.users > 0
        found: Mask = self.moved[rows] > -self.users
        return found


class VolumeRestrictions(Plugin):
    """Rejects nodes where a disk is in use, and all nodes if a ReadWriteOncePod claim is in use."""

    name = "VolumeRestrictions"
    depends_on = (Source.ROW, Source.VOLUMES)
    judges_without_labels = True
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
        """A deleted pod may free the disk or the claim, a new node has no disk in use, a missing claim may be created.

        A deleted node frees the claims of its pods, which no longer count; upstream does not register that event.
        """
        return (
            ClusterEventWithHint(ClusterEvent(Resource.POD, ActionType.DELETE), _after_pod_delete),
            ClusterEventWithHint(NODE_ADD),
            ClusterEventWithHint(NODE_DELETE, _after_node_delete),
            ClusterEventWithHint(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD), _after_claim_add),
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """The pod's disks. Pods with claims cannot share a decision."""
        return UNSIGNABLE if _claims(pod.pod) else _disks(pod.pod)

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Skip for pods without such disks, unless another pod uses one of their ReadWriteOncePod claims."""
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
        cycle.write(_Exclusive(disks, frozenset(exclusive), users))
        return PreFilterResult(SUCCESS)

    def add_pod(self, cycle: CycleState, pod: PodInfo, added: PodInfo, nodes: NodeTable, row: int) -> None:
        """Count the claims that the added pod uses."""
        del nodes, row
        self._count(cycle, pod, added, 1)

    def remove_pod(self, cycle: CycleState, pod: PodInfo, removed: PodInfo, nodes: NodeTable, row: int) -> None:
        """Stop counting the claims that the removed pod uses."""
        del nodes, row
        self._count(cycle, pod, removed, -1)

    def move_pods(self, cycle: CycleState, pod: PodInfo, moved: MovedPods, nodes: NodeTable) -> None:
        """Count the claims of pods moved on many rows; each row sees only its own moves."""
        required = cycle.read(_Exclusive)
        after = moved.added_to(required.moved, [required.uses(pod, kind) for kind in moved.kinds], nodes.capacity)
        if after is not required.moved:
            cycle.write(replace(required, moved=after))

    def _count(self, cycle: CycleState, pod: PodInfo, other: PodInfo, sign: int) -> None:
        required = cycle.read(_Exclusive)
        uses = required.uses(pod, other)
        if uses:
            cycle.write(replace(required, users=required.users + sign * uses))

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """A disk in use on the row, otherwise a claim in use anywhere: int64 [rows]."""
        required = cycle.read(_Exclusive)
        codes = np.zeros(len(rows), dtype=np.int64)
        codes[required.in_use(rows)] = self.CLAIM_IN_USE
        if required.disks:
            codes[self._have_disk(required, pod, nodes, rows)] = self.DISK_IN_USE
        return codes if codes.any() else PASS_ALL

    def _have_disk(self, required: _Exclusive, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        """The places in `rows` of the rows where a pod has one of the disks: intp, ascending."""
        volumes = self._handle.volumes
        if volumes is None or nodes is not self._handle.view.nodes:  # a fork: judge the pods in its rows
            taken = [_conflict(pod.pod, nodes.info(row).pods.values()) for row in rows.tolist()]
            return np.flatnonzero(taken)
        having = [volumes.disk_rows(disk, read_only=reads) for disk, reads in required.disks]
        return np.flatnonzero(np.isin(rows, np.concatenate(having)))

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """Which claim or disk is in use, and by which pods."""
        required, volumes = cycle.find(_Exclusive), self._handle.volumes
        if required is None or volumes is None:
            return
        for claim in sorted(required.claims):
            yield from _claim_users(claim, volumes, nodes, pod, rows)
        if required.disks:
            yield from _disk_users(pod, nodes, rows)


def _claim_users(claim: str, volumes: Volumes, nodes: NodeTable, pod: PodInfo, rows: Rows) -> Iterator[Detail]:
    used_on = sorted(volumes.claim_users(pod.namespace, claim))
    live = [(name, nodes.row_of(name)) for name in used_on if nodes.row_of(name) >= 0]
    users = [
        {"node": name, "pod": other.key}
        for name, row in live
        for other in sorted(nodes.info(row).pods.values(), key=lambda user: user.key)
        if other.namespace == pod.namespace and claim in _claims(other.pod)
    ]
    if users:
        shown = ", ".join(f"{user['pod']} on {user['node']}" for user in users[:3])
        text = f"claim {claim} is for one pod only (ReadWriteOncePod) and used by {shown}"
        yield Detail("claimInUse", text, rows, {"claim": claim, "users": users})


def _disk_users(pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterator[Detail]:
    def holders(row: int) -> tuple[str, ...]:
        others = sorted(nodes.info(row).pods.values(), key=lambda other: other.key)
        return tuple(other.key for other in others if _conflict(pod.pod, (other,)))

    for keys, group in grouped(rows, holders).items():
        if keys:
            text = f"a disk of the pod is in use by {', '.join(keys[:3])}"
            disks = sorted("/".join(disk) for disk, _ in _disks(pod.pod))
            yield Detail("diskInUse", text, group, {"disks": disks, "pods": list(keys)})


def _disks(pod: Pod) -> frozenset[tuple[Disk, bool]]:
    return frozenset(disks_of(pod))


def _claims(pod: Pod) -> list[str]:
    sources = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return [source.claim_name for source in sources if source is not None]


def _is_exclusive(claim: PersistentVolumeClaim) -> bool:
    return READ_WRITE_ONCE_POD in claim.spec.access_modes


def _is_used(volumes: Volumes, nodes: NodeTable, namespace: str, name: str) -> bool:
    """Whether a pod on a known node uses the claim; as upstream, pods on unknown nodes do not count."""
    return any(nodes.row_of(node_name) >= 0 for node_name in volumes.claim_users(namespace, name))


def _conflict(pod: Pod, others: Iterable[PodInfo]) -> bool:
    """Whether another pod has one of the pod's disks, and one of the two pods writes to it (or it is EBS)."""
    own = _disks(pod)
    for other in others:
        used = _disks(other.pod)
        for disk, reads in own:
            if (disk, False) in used or (not reads and (disk, True) in used):
                return True
    return False


def _after_pod_delete(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """A deleted pod that had one of the disks, or one of the same namespace that had one of the claims.

    Disks have no namespace; upstream skips pods of other namespaces before it compares disks.
    """
    del new
    if not isinstance(old, Pod):
        return QueueingHint.QUEUE
    is_same_namespace = old.metadata.namespace == pod.namespace
    frees_claim = is_same_namespace and not set(_claims(pod.pod)).isdisjoint(_claims(old))
    return QueueingHint.QUEUE if frees_claim or _conflict(pod.pod, (PodInfo(old),)) else QueueingHint.SKIP


def _after_node_delete(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """The claims of the node's pods may be free: this may help any pod that has claims."""
    del old, new
    return QueueingHint.QUEUE if _claims(pod.pod) else QueueingHint.SKIP


def _after_claim_add(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """One of the pod's claims."""
    del old
    if not isinstance(new, PersistentVolumeClaim):
        return QueueingHint.QUEUE
    is_own = new.metadata.namespace == pod.namespace and new.metadata.name in _claims(pod.pod)
    return QueueingHint.QUEUE if is_own else QueueingHint.SKIP
