"""NodeVolumeLimits: a node can attach a limited number of volumes of a CSI driver.

The kubelet publishes the driver's limit (CSINode). Counted are the volumes that the node's pods use, volumes that are
attached although no pod uses them, and the pod's own volumes that are not on the node yet. A volume that the pod shares
with a pod of the node counts once.

With the feature gate VolumeLimitScaling a node needs the driver itself, too, if its CSIDriver asks for that.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import ClassVar

import msgspec
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
from kscheduler.framework.status import SUCCESS, Status, unresolvable, unschedulable
from kscheduler.plugins.storage.missing_drivers import MissingDrivers, missing_drivers


class _Missing(msgspec.Struct, frozen=True):
    """A claim that does not exist."""

    text: str


class NodeVolumeLimits(Plugin):
    """Rejects nodes that cannot attach the pod's volumes."""

    name = "NodeVolumeLimits"
    depends_on = (Source.ROW, Source.VOLUMES)
    judges_without_labels = True
    needs_volumes = True
    TOO_MANY = 1
    FIRST_MISSING_DRIVER = 2
    NO_CLAIM = -1
    reasons: ClassVar = {TOO_MANY: "node(s) exceed max volume count"}

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args
        self._handle = handle
        self._asks_for_drivers = "VolumeLimitScaling" in handle.features

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Room on a node: a new, higher or removed limit, a deleted pod or attachment; or a claim that was missing.

        Upstream does not register these events: a node is added after its CSINode, or has none; a CSINode is deleted,
        and its limits with it; a claim, volume or class is deleted or replaced, so that the node's pods count fewer or
        other volumes; a pod that shares a volume with the waiting pod is bound, so that the volume counts once there.
        """
        driver = ClusterEvent(Resource.CSI_DRIVER, ActionType.UPDATE | ActionType.DELETE)
        return (
            *((ClusterEventWithHint(driver),) if self._asks_for_drivers else ()),
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
        """Pods that need a volume attached cannot share a decision."""
        return UNSIGNABLE if csi_migration.may_attach(pod.pod) else ()

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Skip for pods that need no volume attached."""
        del cycle, nodes
        if not pod.pod.spec.volumes or not csi_migration.may_attach(pod.pod):
            return SKIPPED
        return PreFilterResult(NOTHING_KNOWN if self._handle.volumes is None else SUCCESS)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """Attached plus new volumes, compared with the limit of each driver: int64 [rows]."""
        volumes = self._handle.volumes
        if volumes is None:
            return PASS_ALL
        try:
            needed_volumes = volumes.attachable(pod.pod, is_new=True)
        except ClaimNotFoundError as missing:
            cycle.write(_Missing(str(missing)))
            return np.full(len(rows), self.NO_CLAIM, dtype=np.int64)
        lacking = missing_drivers(needed_volumes, volumes, nodes, rows) if self._asks_for_drivers else None
        if lacking is None:
            return self._within_limits(needed_volumes, volumes, nodes, rows)
        cycle.write(lacking)
        codes = np.where(lacking.places, lacking.places + self.FIRST_MISSING_DRIVER - 1, 0)
        has_all = (lacking.places == 0).nonzero()[0]
        limits = self._within_limits(needed_volumes, volumes, nodes, rows[has_all]) if len(has_all) else PASS_ALL
        if limits is not PASS_ALL:
            codes[has_all] = limits
        return codes

    def _within_limits(
        self, needed_volumes: frozenset[AttachableVolume], volumes: Volumes, nodes: NodeTable, rows: Rows
    ) -> Codes | None:
        if nodes is not self._handle.view.nodes:
            return self._filter_fork(needed_volumes, volumes, nodes, rows)
        if _surely_fits(needed_volumes, volumes, rows):
            return PASS_ALL
        return self._filter_rows(needed_volumes, volumes, nodes, rows)

    def status(self, cycle: CycleState, code: int) -> Status:
        """The reason; a missing claim or driver is named."""
        if code == self.NO_CLAIM:
            return unresolvable(cycle.read(_Missing).text, plugin=self.name)
        if code >= self.FIRST_MISSING_DRIVER:
            driver = cycle.read(MissingDrivers).drivers[code - self.FIRST_MISSING_DRIVER]
            return unschedulable(f"{driver} CSI driver is not installed on the node", plugin=self.name)
        return super().status(cycle, code)

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """Per driver the limit, the attached and the additional volumes, on the nodes that come closest."""
        del cycle
        volumes = self._handle.volumes
        if volumes is None:
            return
        try:
            needed_volumes = volumes.attachable(pod.pod, is_new=True)
        except ClaimNotFoundError as missing:
            yield Detail("claimMissing", str(missing), rows, {"message": str(missing)})
            return
        for driver in sorted({volume.driver for volume in needed_volumes}):
            limits, attached = volumes.attach_limits(driver)[rows], volumes.attached(driver)[rows]
            new = np.zeros(len(rows), dtype=np.int64)
            for volume in needed_volumes:
                if volume.driver == driver:
                    is_new = ~np.isin(rows, volumes.rows_using(volume.unique_name))
                    counts = _among(volumes.csi_node_rows(), nodes, rows) if volume.migrated_from else True
                    new += is_new & counts
            over = ((limits >= 0) & (limits - attached < new) & (new > 0)).nonzero()[0]
            if len(over):
                yield _over_limit(driver, nodes, rows[over], limits[over], attached[over], new[over])

    def _filter_rows(
        self, needed_volumes: Iterable[AttachableVolume], volumes: Volumes, nodes: NodeTable, rows: Rows
    ) -> Codes | None:
        needed: dict[str, dict[str, Mask | None]] = {}
        for volume in needed_volumes:
            counts = _where_it_counts(volume, volumes, nodes, rows)
            masks = needed.setdefault(volume.driver, {})
            earlier = masks.get(volume.unique_name, counts)
            masks[volume.unique_name] = None if counts is None or earlier is None else earlier | counts
        if volumes.uncountable():
            _raise_where_uncountable(volumes, nodes, _rows_with_volumes(needed, rows))
        exceeded: Mask | None = None
        for driver, masks in needed.items():
            too_many = _too_many(driver, masks, volumes, rows)
            if too_many is not None:
                exceeded = too_many if exceeded is None else exceeded | too_many
        return PASS_ALL if exceeded is None else np.where(exceeded, self.TOO_MANY, 0)

    def _filter_fork(
        self, needed_volumes: frozenset[AttachableVolume], volumes: Volumes, nodes: NodeTable, rows: Rows
    ) -> Codes:
        """int64 [rows], from the pods of each row: a fork has few rows, and the columns do not cover it."""
        codes = (self.TOO_MANY if _exceeds(needed_volumes, volumes, nodes, row) else 0 for row in rows.tolist())
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
        f"{node['node']} has {node['attached']} of {node['limit']}, the pod needs {node['needed']} more"
        for node in closest
    )
    return Detail("volumeLimit", f"driver {driver}: {shown}", rows, {"driver": driver, "closest": closest})


def _surely_fits(needed_volumes: Iterable[AttachableVolume], volumes: Volumes, rows: Rows) -> bool:
    """Whether all rows have room for all volumes, even if no volume is attached yet and each counts on every row."""
    new: dict[str, int] = {}
    for volume in needed_volumes:
        if volume.problem:
            return False
        new[volume.driver] = new.get(volume.driver, 0) + 1
    if new and not volumes.is_countable():
        return False
    for driver, count in new.items():  # noqa: SIM110  a generator costs as much as the one or two drivers
        if not volumes.surely_take(driver, count, rows):
            return False
    return True


def _where_it_counts(volume: AttachableVolume, volumes: Volumes, nodes: NodeTable, rows: Rows) -> Mask | None:
    """The rows where the volume counts, bool [rows]: of an in-tree disk those with a CSINode; `None` is all rows.

    Raises `ValueError` where the volume should count but its driver's volume cannot be named.
    """
    if not volume.migrated_from:
        return None
    with_csi_node = volumes.csi_node_rows()
    if with_csi_node is nodes.rows() and not volume.problem:
        return None
    counts = _among(with_csi_node, nodes, rows)
    if volume.problem and counts.any():
        raise ValueError(volume.problem)
    return counts & (not volume.problem)


def _among(some: Rows, nodes: NodeTable, rows: Rows) -> Mask:
    found = np.zeros(nodes.capacity, dtype=np.bool_)
    found[some] = True
    return found.take(rows)


def _rows_with_volumes(needed: Mapping[str, Mapping[str, Mask | None]], rows: Rows) -> Rows:
    """The rows where at least one of the volumes counts."""
    masks = [mask for of_driver in needed.values() for mask in of_driver.values()]
    if not masks:
        return rows[:0]
    given = [mask for mask in masks if mask is not None]
    return rows[np.logical_or.reduce(given)] if len(given) == len(masks) else rows


def _too_many(driver: str, masks: Mapping[str, Mask | None], volumes: Volumes, rows: Rows) -> Mask | None:
    """Where the driver's limit would be exceeded, bool [rows]; `None` where it is nowhere."""
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
        names = {nodes.name_of(row) for row in rows.tolist()}
        for node_name, problem in uncountable.items():
            if node_name in names:
                raise ValueError(problem)


def _exceeds(needed_volumes: frozenset[AttachableVolume], volumes: Volumes, nodes: NodeTable, row: int) -> bool:
    name = nodes.name_of(row)
    new = _used([needed_volumes], volumes, name)
    if not new or not volumes.has_attach_limits(name):
        return False  # without limits the pods' volumes are not read: one of them might not be countable
    pods = (pod.pod for pod in nodes.info(row).pods.values() if pod.pod.spec.volumes)
    used = _used((volumes.attachable(pod, is_new=False) for pod in pods), volumes, name)
    attached = {**dict(volumes.volumes_attached_to(name)), **used}
    for driver in {driver for unique_name, driver in new.items() if unique_name not in used}:
        limit = int(volumes.attach_limits(driver)[row])
        added = sum(other == driver for unique_name, other in new.items() if unique_name not in used)
        if 0 <= limit < sum(other == driver for other in attached.values()) + added:
            return True
    return False


def _used(sets: Iterable[frozenset[AttachableVolume]], volumes: Volumes, node_name: str) -> dict[str, str]:
    """The driver by unique name of the volumes that count on the node.

    Raises `ValueError` for a volume that should count but cannot be named.
    """
    used: dict[str, str] = {}
    for needed_volumes in sets:
        for volume in needed_volumes:
            if volume.migrated_from and not volumes.has_csi_node(node_name):
                continue
            if volume.problem:
                raise ValueError(volume.problem)
            used[volume.unique_name] = volume.driver
    return used


def _after_csi_node_update(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """A limit that rose or was removed (upstream takes a removed limit for 0), or another driver."""
    del pod
    if not isinstance(old, CSINode) or not isinstance(new, CSINode):
        return QueueingHint.QUEUE
    if not {driver.name for driver in new.spec.drivers} <= {driver.name for driver in old.spec.drivers}:
        return QueueingHint.QUEUE  # upstream looks at limits only, and a driver may come without one
    after = _limits(new)
    rose = any(after.get(driver, math.inf) > limit for driver, limit in _limits(old).items())
    return QueueingHint.QUEUE if rose else QueueingHint.SKIP


def _limits(node: CSINode) -> dict[str, int]:
    """The limits by driver; drivers without a limit are left out."""
    allocatable = ((driver.name, driver.allocatable) for driver in node.spec.drivers)
    return {name: limit.count for name, limit in allocatable if limit is not None and limit.count is not None}


def _after_pod_add(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """A bound pod that shares one of the pod's claims; or both pods name disks directly, which may be the same."""
    del old
    if not isinstance(new, Pod):
        return QueueingHint.QUEUE
    shares_claim = new.metadata.namespace == pod.namespace and not set(claim_names(new)).isdisjoint(
        claim_names(pod.pod)
    )
    return QueueingHint.QUEUE if shares_claim or (_has_disks(new) and _has_disks(pod.pod)) else QueueingHint.SKIP


def _has_disks(pod: Pod) -> bool:
    return any(csi_migration.plugin_of(volume) for volume in pod.spec.volumes)


def _after_pod_delete(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """A deleted pod that was on a node or nominated to one, and had volumes attached."""
    del pod, new
    if not isinstance(old, Pod):
        return QueueingHint.QUEUE
    was_there = old.spec.node_name or old.status.nominated_node_name
    return QueueingHint.QUEUE if was_there and csi_migration.may_attach(old) else QueueingHint.SKIP


def _after_claim_change(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """One of the pod's claims (also of ephemeral volumes) is new; or any claim is deleted or names another volume."""
    if not isinstance(new, PersistentVolumeClaim):
        return QueueingHint.QUEUE
    if isinstance(old, PersistentVolumeClaim):
        return QueueingHint.QUEUE if old.spec.volume_name != new.spec.volume_name else QueueingHint.SKIP
    is_own = new.metadata.namespace == pod.namespace and new.metadata.name in claim_names(pod.pod)
    return QueueingHint.QUEUE if is_own else QueueingHint.SKIP


def _after_attachment_delete(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """Any attachment for a pod with claims; for a pod with migrated disks, an attachment of their driver."""
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
