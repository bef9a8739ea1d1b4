"""NodeVolumeLimits: a node attaches only so many volumes of a CSI driver.

The limit is what the driver told the kubelet (CSINode). What counts against it: volumes that the node's pods use,
volumes that are attached though no pod uses them, and those of the pod that are not there yet. A volume that the pod
shares with a pod of the node costs nothing.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Pod
from kscheduler.api.meta import KubeObject
from kscheduler.api.storage import CSINode, PersistentVolumeClaim, VolumeAttachment
from kscheduler.framework.cluster.volumes import (
    NOTHING_KNOWN,
    AttachableVolume,
    ClaimNotFoundError,
    Volumes,
    claim_names,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import (
    NODE_ADD,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    QueueingHint,
    Resource,
)
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.nodes.row_index import compact, values_at
from kscheduler.framework.plugin import PASS_ALL, SKIPPED, UNSIGNABLE, Plugin, PreFilterResult, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail
from kscheduler.framework.rules import csi_migration
from kscheduler.framework.status import SUCCESS, Status, unresolvable


@dataclass(frozen=True, slots=True)
class _Missing:
    """A claim that does not exist."""

    text: str


class NodeVolumeLimits(Plugin):
    """Turns down nodes that cannot attach the pod's volumes."""

    name = "NodeVolumeLimits"
    depends_on = (Source.ROW, Source.VOLUMES)
    needs_volumes = True
    TOO_MANY = 1
    NO_CLAIM = -1
    reasons: ClassVar = {TOO_MANY: "node(s) exceed max volume count"}

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args
        self._handle = handle

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Room on a node: a new or higher limit or none, a pod or an attachment that goes. Or a claim that was missing.

        Not asked for upstream: a node comes after its CSINode, or has none; a CSINode goes, and its limits with it; a
        claim, a volume or a class goes or is exchanged, so that what pods of the node have attached is less, or
        something else; a pod gets a node whose volume the waiting pod shares, and costs nothing there now.
        """
        return (
            ClusterEventWithHint(NODE_ADD),
            ClusterEventWithHint(ClusterEvent(Resource.CSI_NODE, ActionType.ADD | ActionType.DELETE)),
            ClusterEventWithHint(ClusterEvent(Resource.CSI_NODE, ActionType.UPDATE), _after_csi_node_update),
            ClusterEventWithHint(ClusterEvent(Resource.POD, ActionType.ADD), _after_pod_add),
            ClusterEventWithHint(ClusterEvent(Resource.POD, ActionType.DELETE), _after_pod_delete),
            ClusterEventWithHint(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, ActionType.ALL), _after_claim_change),
            ClusterEventWithHint(ClusterEvent(Resource.PERSISTENT_VOLUME, ActionType.DELETE)),
            ClusterEventWithHint(ClusterEvent(Resource.STORAGE_CLASS, ActionType.DELETE)),
            ClusterEventWithHint(ClusterEvent(Resource.VOLUME_ATTACHMENT, ActionType.DELETE), _after_attachment_delete),
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """Who needs something attached shares nothing."""
        return UNSIGNABLE if _may_attach(pod.pod) else ()

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Skip for pods that need nothing attached."""
        del cycle, nodes
        if not pod.pod.spec.volumes or not _may_attach(pod.pod):
            return SKIPPED
        return PreFilterResult(NOTHING_KNOWN if self._handle.volumes is None else SUCCESS)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """What is attached and what is new, against the limit of each driver."""
        volumes = self._handle.volumes
        if volumes is None:
            return PASS_ALL
        try:
            wanted = volumes.attachable(pod.pod, is_new=True)
        except ClaimNotFoundError as missing:
            cycle.write(_Missing(str(missing)))
            return np.full(len(rows), self.NO_CLAIM, dtype=np.int64)
        if nodes is not self._handle.view.nodes:
            return self._filter_fork(wanted, volumes, nodes, rows)
        if _surely_fits(wanted, volumes, rows):
            return PASS_ALL
        return self._filter_rows(wanted, volumes, nodes, rows)

    def status(self, cycle: CycleState, code: int) -> Status:
        """The missing claim by name."""
        if code == self.NO_CLAIM:
            return unresolvable(cycle.read(_Missing).text, plugin=self.name)
        return super().status(cycle, code)

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """Per driver: the limit, what is attached and how many more the pod needs, on the nodes that come closest."""
        del cycle
        volumes = self._handle.volumes
        if volumes is None:
            return
        try:
            wanted = volumes.attachable(pod.pod, is_new=True)
        except ClaimNotFoundError as missing:
            yield Detail("claimMissing", str(missing), rows, {"message": str(missing)})
            return
        for driver in sorted({one.driver for one in wanted}):
            limits, attached = volumes.attach_limits(driver)[rows], volumes.attached(driver)[rows]
            new = np.zeros(len(rows), dtype=np.int64)
            for one in wanted:
                if one.driver == driver:
                    is_new = ~np.isin(rows, volumes.rows_using(one.unique_name))
                    counts = (
                        _among(volumes.migrated_rows(one.migrated_from), nodes, rows) if one.migrated_from else True
                    )
                    new += is_new & counts
            over = np.flatnonzero((limits >= 0) & (limits - attached < new) & (new > 0))
            if len(over):
                yield _over_limit(driver, nodes, rows[over], limits[over], attached[over], new[over])

    def _filter_rows(
        self, wanted: Iterable[AttachableVolume], volumes: Volumes, nodes: NodeTable, rows: Rows
    ) -> Codes | None:
        needed: dict[str, dict[str, Mask | None]] = {}
        for volume in wanted:
            counts = _where_it_counts(volume, volumes, nodes, rows)
            masks = needed.setdefault(volume.driver, {})
            earlier = masks.get(volume.unique_name, counts)
            masks[volume.unique_name] = None if counts is None or earlier is None else earlier | counts
        if volumes.uncountable():
            _raise_where_uncountable(volumes, nodes, _asking(needed, rows))
        exceeded: Mask | None = None
        for driver, masks in needed.items():
            too_many = _too_many(driver, masks, volumes, rows)
            if too_many is not None:
                exceeded = too_many if exceeded is None else exceeded | too_many
        return PASS_ALL if exceeded is None else np.where(exceeded, self.TOO_MANY, 0)

    def _filter_fork(
        self, wanted: frozenset[AttachableVolume], volumes: Volumes, nodes: NodeTable, rows: Rows
    ) -> Codes:
        """Row by row from the pods that stand there: a fork has few rows, and the columns know nothing of it."""
        codes = (self.TOO_MANY if _exceeds(wanted, volumes, nodes, row) else 0 for row in rows.tolist())
        return np.fromiter(codes, dtype=np.int64, count=len(rows))


def _over_limit(
    driver: str,
    nodes: NodeTable,
    rows: Rows,
    limits: NDArray[np.int64],
    attached: NDArray[np.int64],
    new: NDArray[np.int64],
) -> Detail:
    """The nodes with the most room first, then by name."""
    names = [nodes.name_of(row) for row in rows.tolist()]
    order = sorted(range(len(rows)), key=lambda at: (int(attached[at] - limits[at]), names[at]))[:3]
    closest = [
        {"node": names[at], "limit": int(limits[at]), "attached": int(attached[at]), "needed": int(new[at])}
        for at in order
    ]
    shown = "; ".join(
        f"{one['node']} has {one['attached']} of {one['limit']}, the pod needs {one['needed']} more" for one in closest
    )
    return Detail("volumeLimit", f"driver {driver}: {shown}", rows, {"driver": driver, "closest": closest})


def _may_attach(pod: Pod) -> bool:
    return any(
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or bool(csi_migration.plugin_of(volume))
        for volume in pod.spec.volumes
    )


def _surely_fits(wanted: Iterable[AttachableVolume], volumes: Volumes, rows: Rows) -> bool:
    """Whether all rows have room for all volumes, even if none of them is there yet and each counts everywhere."""
    new: dict[str, int] = {}
    for volume in wanted:
        if volume.problem:
            return False
        new[volume.driver] = new.get(volume.driver, 0) + 1
    return not new or (volumes.is_countable() and all(volumes.surely_take(*one, rows) for one in new.items()))


def _where_it_counts(volume: AttachableVolume, volumes: Volumes, nodes: NodeTable, rows: Rows) -> Mask | None:
    """All rows (`None`), or those where its in-tree plugin is migrated.

    Raises `ValueError` where it should count and cannot.
    """
    if not volume.migrated_from:
        return None
    migrated = volumes.migrated_rows(volume.migrated_from)
    if migrated is nodes.rows() and not volume.problem:
        return None
    counts = _among(migrated, nodes, rows)
    if volume.problem and counts.any():
        raise ValueError(volume.problem)
    return counts & (not volume.problem)


def _among(some: Rows, nodes: NodeTable, rows: Rows) -> Mask:
    found = np.zeros(nodes.capacity, dtype=np.bool_)
    found[some] = True
    return found.take(rows)


def _asking(needed: Mapping[str, Mapping[str, Mask | None]], rows: Rows) -> Rows:
    """The rows where something counts."""
    masks = [mask for of_driver in needed.values() for mask in of_driver.values()]
    if not masks:
        return rows[:0]
    given = [mask for mask in masks if mask is not None]
    return rows[np.logical_or.reduce(given)] if len(given) == len(masks) else rows


def _too_many(driver: str, masks: Mapping[str, Mask | None], volumes: Volumes, rows: Rows) -> Mask | None:
    """The rows where the driver's limit would be exceeded; `None` where there are none."""
    room = values_at(volumes.attach_room(driver), compact(rows))
    new: NDArray[np.int64] | int = 0
    for unique_name, counts in masks.items():
        users = volumes.rows_using(unique_name)
        if not len(users):
            new = new + (1 if counts is None else counts)
        else:
            is_new = ~np.isin(rows, users)
            new = new + (is_new if counts is None else counts & is_new)
    too_many: Mask = room < new
    if not np.count_nonzero(too_many):
        return None
    too_many &= np.asarray(new) > 0
    return too_many if np.count_nonzero(too_many) else None


def _raise_where_uncountable(volumes: Volumes, nodes: NodeTable, rows: Rows) -> None:
    uncountable = volumes.uncountable()
    if uncountable and len(rows):
        asked = {nodes.name_of(row) for row in rows.tolist()}
        for node_name, problem in uncountable.items():
            if node_name in asked:
                raise ValueError(problem)


def _exceeds(wanted: frozenset[AttachableVolume], volumes: Volumes, nodes: NodeTable, row: int) -> bool:
    name = nodes.name_of(row)
    new = _used([wanted], volumes, name)
    if not new or not volumes.has_attach_limits(name):
        return False  # what the pods of such a node have attached is not asked for, were it not to be counted
    pods = (pod.pod for pod in nodes.info(row).pods.values() if pod.pod.spec.volumes)
    used = _used((volumes.attachable(pod, is_new=False) for pod in pods), volumes, name)
    attached = {**dict(volumes.volumes_attached_to(name)), **used}
    for driver in {driver for unique_name, driver in new.items() if unique_name not in used}:
        limit = int(volumes.attach_limits(driver)[row])
        added = sum(one == driver for unique_name, one in new.items() if unique_name not in used)
        if 0 <= limit < sum(one == driver for one in attached.values()) + added:
            return True
    return False


def _used(sets: Iterable[frozenset[AttachableVolume]], volumes: Volumes, node_name: str) -> dict[str, str]:
    """Unique name to driver of what counts on the node. Raises `ValueError` for what should and cannot."""
    used: dict[str, str] = {}
    for wanted in sets:
        for volume in wanted:
            if volume.migrated_from and not volumes.is_migrated(node_name, volume.migrated_from):
                continue
            if volume.problem:
                raise ValueError(volume.problem)
            used[volume.unique_name] = volume.driver
    return used


def _after_csi_node_update(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """A limit that rose, or is none any more (upstream takes none for 0), or other plugins migrated: others count."""
    del pod
    if not isinstance(old, CSINode) or not isinstance(new, CSINode):
        return QueueingHint.QUEUE
    if old.migrated_plugins != new.migrated_plugins:
        return QueueingHint.QUEUE
    after = _limits(new)
    rose = any(after.get(driver, math.inf) > limit for driver, limit in _limits(old).items())
    return QueueingHint.QUEUE if rose else QueueingHint.SKIP


def _limits(node: CSINode) -> dict[str, int]:
    """By driver; those without a limit are left out."""
    allocatable = ((one.name, one.allocatable) for one in node.spec.drivers)
    return {name: given.count for name, given in allocatable if given is not None and given.count is not None}


def _after_pod_add(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """A pod on a node that shares one of the pod's claims; or both have disks of their own, which may be the same."""
    del old
    if not isinstance(new, Pod):
        return QueueingHint.QUEUE
    is_near = new.metadata.namespace == pod.namespace and not set(claim_names(new)).isdisjoint(claim_names(pod.pod))
    return QueueingHint.QUEUE if is_near or (_has_disks(new) and _has_disks(pod.pod)) else QueueingHint.SKIP


def _has_disks(pod: Pod) -> bool:
    return any(csi_migration.plugin_of(volume) for volume in pod.spec.volumes)


def _after_pod_delete(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """A pod that was on a node, or about to be, and had something attached."""
    del pod, new
    if not isinstance(old, Pod):
        return QueueingHint.QUEUE
    was_there = old.spec.node_name or old.status.nominated_node_name
    return QueueingHint.QUEUE if was_there and _may_attach(old) else QueueingHint.SKIP


def _after_claim_change(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """One of the pod's claims (of ephemeral volumes too) has come; or any claim is gone or names another volume."""
    if not isinstance(new, PersistentVolumeClaim):
        return QueueingHint.QUEUE
    if isinstance(old, PersistentVolumeClaim):
        return QueueingHint.QUEUE if old.spec.volume_name != new.spec.volume_name else QueueingHint.SKIP
    is_its = new.metadata.namespace == pod.namespace and new.metadata.name in claim_names(pod.pod)
    return QueueingHint.QUEUE if is_its else QueueingHint.SKIP


def _after_attachment_delete(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """Any attachment for a pod with claims; for one with migrated disks, an attachment of their driver."""
    del new
    if not isinstance(old, VolumeAttachment):
        return QueueingHint.QUEUE
    for volume in pod.pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return QueueingHint.QUEUE
        plugin = csi_migration.plugin_of(volume)
        if plugin and old.spec.attacher == csi_migration.DRIVERS[plugin]:
            return QueueingHint.QUEUE
    return QueueingHint.SKIP
