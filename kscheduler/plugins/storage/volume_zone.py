"""VolumeZone: a volume whose labels name zones or regions can be used only from nodes there.

The labels of the volume that a claim is bound to are compared with the nodes' labels. Nodes without any such label
pass: a cluster in a single zone does not need the labels.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from kscheduler.api.meta import KubeObject
from kscheduler.api.selectors import Operator, Requirement
from kscheduler.api.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from kscheduler.api.well_known import BETA_REGION, BETA_ZONE, REGION, ZONE
from kscheduler.framework.cluster.volumes import NOTHING_KNOWN, Volumes, claim_not_found
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import SKIPPED, UNSIGNABLE, Plugin, PreFilterResult, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail
from kscheduler.framework.reasons.wording import requirement_facts, requirement_text
from kscheduler.framework.rules.csi_migration import ZONE_DELIMITER
from kscheduler.framework.status import SUCCESS, Status, unresolvable

_KEYS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_SUCCESSOR = {BETA_ZONE: ZONE, BETA_REGION: REGION}


class _Topologies(msgspec.Struct, frozen=True):
    """The requirements of the pod's volumes on a node's labels: all must hold."""

    requirements: tuple[Requirement, ...]


class VolumeZone(Plugin):
    """Rejects nodes outside the zones and regions of the pod's volumes."""

    name = "VolumeZone"
    depends_on = (Source.ROW, Source.VOLUMES)
    judges_without_labels = True
    needs_volumes = True
    reads_pods = False
    ELSEWHERE = -1
    reasons: ClassVar = {ELSEWHERE: "node(s) had no available volume zone"}

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args
        self._volumes = handle.volumes

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """New nodes and labels; classes, claims and volumes that were missing; labels of a volume."""
        either = ActionType.ADD | ActionType.UPDATE
        return (
            ClusterEventWithHint(ClusterEvent(Resource.STORAGE_CLASS, ActionType.ADD), _after_class_add),
            ClusterEventWithHint(ClusterEvent(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)),
            ClusterEventWithHint(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, either), _after_claim_change),
            ClusterEventWithHint(ClusterEvent(Resource.PERSISTENT_VOLUME, either), _after_volume_change),
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """Pods with claims cannot share a decision."""
        return UNSIGNABLE if _claims(pod) else ()

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Skip where no volume names a zone or region."""
        del nodes
        claims = _claims(pod) if pod.pod.spec.volumes else []
        if not claims:
            return SKIPPED
        if self._volumes is None:
            return PreFilterResult(NOTHING_KNOWN)
        requirements: list[Requirement] = []
        for name in claims:
            found = _volume_of(self._volumes, pod.namespace, name)
            if isinstance(found, Status):
                return PreFilterResult(found.by(self.name))
            if found is not None:
                requirements.extend(_topologies(found))
        if not requirements:
            return SKIPPED
        cycle.write(_Topologies(tuple(requirements)))
        return PreFilterResult(SUCCESS)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """Rows that have a zone or region label, but fail one of the requirements: int64 [rows]."""
        del pod
        is_nowhere = np.ones(len(rows), dtype=np.bool_)
        for key in _KEYS:
            is_nowhere &= ~_has_label(nodes, key, rows)
        fits = np.ones(len(rows), dtype=np.bool_)
        for requirement in cycle.read(_Topologies).requirements:
            fits &= _matches(nodes, requirement, rows)
        return np.where(is_nowhere | fits, 0, self.ELSEWHERE)

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """The zone or region of each volume, and those of the nodes."""
        del cycle
        if self._volumes is None or not len(rows):
            return
        for name in _claims(pod):
            found = _volume_of(self._volumes, pod.namespace, name)
            if not isinstance(found, PersistentVolume):
                continue
            for requirement in _topologies(found):
                elsewhere = rows[~_matches(nodes, requirement, rows)]
                if len(elsewhere):
                    yield _elsewhere(name, found, requirement, nodes, elsewhere)


def _elsewhere(claim: str, volume: PersistentVolume, requirement: Requirement, nodes: NodeTable, rows: Rows) -> Detail:
    name, successor = volume.metadata.name, _SUCCESSOR.get(requirement.key)
    places = {nodes.info(row).labels.get(requirement.key) for row in rows.tolist()}
    if successor is not None:
        places |= {nodes.info(row).labels.get(successor) for row in rows.tolist()}
    known = sorted(place for place in places if place is not None)
    node_places = f"{', '.join(known[:3])}{', ...' if len(known) > 3 else ''}" if known else "nodes without that label"
    text = f"volume {name} of claim {claim} is in {requirement_text(requirement)}; these nodes are in {node_places}"
    facts = {"claim": claim, "volume": name, "requirement": requirement_facts(requirement), "found": known}
    return Detail("volumeElsewhere", text, rows, facts)


def _claims(pod: PodInfo) -> list[str]:
    sources = (volume.persistent_volume_claim for volume in pod.pod.spec.volumes)
    return [source.claim_name for source in sources if source is not None]


def _volume_of(volumes: Volumes, namespace: str, name: str) -> PersistentVolume | Status | None:
    """The volume of a claim; `None` if the claim waits for its first consumer; otherwise a status with the problem."""
    if not name:
        return unresolvable("PersistentVolumeClaim had no name")
    claim = volumes.confirmed_claim(namespace, name)
    if claim is None:
        return unresolvable(claim_not_found(name))
    if not claim.spec.volume_name:
        return _unbound(volumes, claim)
    volume = volumes.confirmed_volume(claim.spec.volume_name)
    return unresolvable(f'persistentvolume "{claim.spec.volume_name}" not found') if volume is None else volume


def _unbound(volumes: Volumes, claim: PersistentVolumeClaim) -> Status | None:
    name = claim.storage_class
    if not name:
        return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
    storage_class = volumes.storage_class(name)
    if storage_class is None:
        return unresolvable(f'storageclass.storage.k8s.io "{name}" not found')
    if storage_class.volume_binding_mode is None:
        return unresolvable(f'VolumeBindingMode not set for StorageClass "{name}"')
    waits = storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    return None if waits else unresolvable("PersistentVolume had no name")


def _topologies(volume: PersistentVolume) -> Iterator[Requirement]:
    """The zone and region labels as requirements; as upstream, a label with an empty part is ignored."""
    for key in _KEYS:
        if key in volume.metadata.labels:
            values = frozenset(part.strip() for part in volume.metadata.labels[key].split(ZONE_DELIMITER))
            if "" not in values:
                yield Requirement(key, Operator.IN, values)


def _has_label(nodes: NodeTable, key: str, rows: Rows) -> Mask:
    mask: Mask = nodes.label_values(key, rows)[0] != 0
    return mask


def _matches(nodes: NodeTable, requirement: Requirement, rows: Rows) -> Mask:
    """Which rows match, bool [rows]; where a volume has a beta key that the node lacks, its GA key is compared."""
    matched = nodes.matches(requirement, rows)
    successor = _SUCCESSOR.get(requirement.key)
    if successor is None:
        return matched
    renamed = nodes.matches(Requirement(successor, Operator.IN, requirement.values), rows)
    return np.where(_has_label(nodes, requirement.key, rows), matched, renamed)


def _after_class_add(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """Only with a class that waits for its first consumer may a claim lack a volume."""
    del pod, old
    if not isinstance(new, StorageClass):
        return QueueingHint.QUEUE
    return QueueingHint.QUEUE if new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER else QueueingHint.SKIP


def _after_claim_change(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """One of the pod's claims."""
    del old
    if not isinstance(new, PersistentVolumeClaim):
        return QueueingHint.QUEUE
    is_own = new.metadata.namespace == pod.namespace and new.metadata.name in _claims(pod)
    return QueueingHint.QUEUE if is_own else QueueingHint.SKIP


def _after_volume_change(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """A new volume, or a volume whose zones or regions have changed."""
    del pod
    if not isinstance(old, PersistentVolume) or not isinstance(new, PersistentVolume):
        return QueueingHint.QUEUE
    return QueueingHint.SKIP if [*_topologies(old)] == [*_topologies(new)] else QueueingHint.QUEUE
