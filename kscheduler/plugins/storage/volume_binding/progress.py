"""Whether the volumes that a pod waits for are bound: judged by what the API server shows, never by what was assumed.

The volume controller and the provisioner answer through the objects: the claim becomes bound, or the selected node is
removed from it (no volume could be made there). Every other state that can no longer succeed ends the wait as well: the
pod is then tried again with the current objects.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from kscheduler.api.meta import KubeObject
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.framework.cluster.volumes import CLAIM, POD, VOLUME, Subject, Volumes
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, error
from kscheduler.plugins.storage.volume_binding.claims import selected_node
from kscheduler.plugins.storage.volume_binding.reach import reaches


@dataclass(slots=True)
class Undertaking:
    """The objects to write for a pod on a node; once written, the objects as the API server returned them."""

    pod: PodInfo
    node_name: str
    bindings: list[tuple[PersistentVolume, PersistentVolumeClaim]] = field(default_factory=list)
    """Volumes with the claims that they have to be bound to."""
    provisions: list[PersistentVolumeClaim] = field(default_factory=list)
    """Claims whose volumes have to be provisioned for the node."""

    def subjects(self) -> Iterator[Subject]:
        """The objects that `progress` reads. It also reads node labels and migrated plugins, which send no signal."""
        yield POD, self.pod.uid
        for volume, claim in self.bindings:
            yield VOLUME, volume.key
            yield CLAIM, claim.key
        for claim in self.provisions:
            yield CLAIM, claim.key

    def progress(self, volumes: Volumes, nodes: NodeTable) -> Status | None:
        """Success once all is bound, an Error when that has become impossible, `None` while it is under way."""
        if nodes.row_of(self.node_name) < 0:
            return error(f'failed to get node "{self.node_name}": node "{self.node_name}" not found')
        if not volumes.is_on(self.pod.uid, self.node_name):
            return error(f'pod does not exist any more: pod "{self.pod.name}" not found')
        for volume, claim in self.bindings:
            status = self._bound(volume, claim, volumes, nodes)
            if status is not SUCCESS:
                return status
        for claim in self.provisions:
            status = self._provisioned(claim, volumes, nodes)
            if status is not SUCCESS:
                return status
        return SUCCESS

    def _bound(
        self, volume: PersistentVolume, claim: PersistentVolumeClaim, volumes: Volumes, nodes: NodeTable
    ) -> Status | None:
        # Missing objects are errors; an older version than the one written means that the watch lags, so wait.
        name = volume.metadata.name
        shown, shown_claim = volumes.confirmed_volume(name), _shown(claim, volumes)
        if shown is None:
            return error(f'failed to check binding: persistentvolumes "{name}" not found')
        if shown_claim is None:
            return error(f'failed to check binding: persistentvolumeclaims "{claim.key}" not found')
        if _is_newer(volume, shown):
            return None
        if not self._reaches(shown, volumes, nodes):
            return self._out_of_reach(name)
        if shown.spec.claim_ref is None or not shown.spec.claim_ref.uid:
            return error(f'ClaimRef got reset for pv "{name}"')
        if not shown_claim.is_fully_bound:
            return None
        if shown_claim.spec.volume_name != name:
            other = shown_claim.spec.volume_name
            return error(f'PVC "{claim.metadata.name}" was bound to another pv "{other}" instead of "{name}"')
        return SUCCESS

    def _provisioned(self, claim: PersistentVolumeClaim, volumes: Volumes, nodes: NodeTable) -> Status | None:
        # The provisioner refuses a node by removing the selected node. The volume may show later than the claim.
        shown = _shown(claim, volumes)
        if shown is None:
            return error(f'failed to check provisioning pvc: persistentvolumeclaims "{claim.key}" not found')
        if _is_newer(claim, shown):
            return None
        if not shown.metadata.annotations:
            return error(f'selectedNode annotation reset for PVC "{shown.metadata.name}"')
        if selected_node(shown) != self.node_name:
            return error(f'provisioning failed for PVC "{shown.metadata.name}"')
        if shown.spec.volume_name:
            volume = volumes.confirmed_volume(shown.spec.volume_name)
            if volume is None:
                return None  # its event may come later; if the volume is deleted, the claim is unbound
            if not self._reaches(volume, volumes, nodes):
                return self._out_of_reach(volume.metadata.name)
        return SUCCESS if shown.is_fully_bound else None

    def _reaches(self, volume: PersistentVolume, volumes: Volumes, nodes: NodeTable) -> bool:
        node = nodes.info(nodes.row_of(self.node_name)).node
        return node is not None and reaches(volume, volumes, node)

    def _out_of_reach(self, name: str) -> Status:
        text = "no matching NodeSelectorTerms"
        return error(f'pv "{name}" node affinity doesn\'t match node "{self.node_name}": {text}')


def _shown(claim: PersistentVolumeClaim, volumes: Volumes) -> PersistentVolumeClaim | None:
    """The claim as the API server shows it; a claim created again under the same name is another claim."""
    found = volumes.confirmed_claim(claim.metadata.namespace, claim.metadata.name)
    return found if found is not None and found.metadata.uid == claim.metadata.uid else None


def _is_newer(written: KubeObject, shown: KubeObject) -> bool:
    """Whether the watch has not yet shown what was written. The versions of an object are growing numbers."""
    own, seen = written.metadata.resource_version, shown.metadata.resource_version
    return own.isdecimal() and seen.isdecimal() and int(own) > int(seen)
