"""A hollow provisioner for every driver: it creates volume objects only; nothing is attached or mounted.

For a claim that the binder has marked for a driver it creates a volume that is reserved for the claim and reachable
from the zone of the selected node; it deletes its released volumes if their policy says so. A cluster with other
provisioners turns it off (`--controllers=*,-hollow-provisioner`).
"""

from collections.abc import Mapping

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import CLAIMS, NODES, VOLUMES, ServedResource
from kscheduler.api.storage import SELECTED_NODE
from kscheduler.api.well_known import ZONE
from kscheduler.embedded.controllers.engine.plan import Concerned, Create, Delete, News, Plan
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.controllers.reading import itself, labels_of
from kscheduler.embedded.controllers.storage import facts
from kscheduler.embedded.objects.store import Key


class HollowProvisioner:
    """Keyed by claims, and by volumes to delete; a key without a namespace is a volume."""

    name = "hollow-provisioner"

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Claims and volumes."""
        return {CLAIMS: itself, VOLUMES: itself}

    def reconcile(self, view: View, key: Key) -> Plan:
        """Create or delete a volume."""
        value = view.get(CLAIMS if key[0] else VOLUMES, key)
        if value is None or "deletionTimestamp" in value["metadata"]:
            return Plan()
        return self._make(view, value) if key[0] else self._reclaim(value)

    def _make(self, view: View, claim: Object) -> Plan:
        annotations = facts.annotations_of(claim)
        driver, storage = annotations.get(facts.PROVISIONER), facts.storage_class(view, claim)
        if claim["spec"].get("volumeName") or not driver or storage is None:
            return Plan()
        if facts.waits_for_pod(storage) and SELECTED_NODE not in annotations:
            return Plan()
        name = f"pvc-{claim['metadata']['uid']}"
        volume = _volume(name, claim, storage, driver, _zone(view, annotations.get(SELECTED_NODE, "")))
        text = f"Successfully provisioned volume {name}"
        return Plan([Create(VOLUMES, volume, News(claim, driver, "ProvisioningSucceeded", text))])

    def _reclaim(self, volume: Object) -> Plan:
        is_ours = facts.PROVISIONED_BY in facts.annotations_of(volume)
        is_free = (volume.get("status") or {}).get("phase") == "Released"
        deletes = volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
        return Plan([Delete(VOLUMES, volume)]) if is_ours and is_free and deletes else Plan()


def _zone(view: View, node_name: str) -> str:
    node = view.get(NODES, ("", node_name)) if node_name else None
    return labels_of(node).get(ZONE, "") if node is not None else ""


def _volume(name: str, claim: Object, storage: Object, driver: str, zone: str) -> Object:
    spec: Object = {
        "capacity": {"storage": facts.requested(claim)},
        "accessModes": claim["spec"].get("accessModes") or ["ReadWriteOnce"],
        "volumeMode": claim["spec"].get("volumeMode", "Filesystem"),
        "persistentVolumeReclaimPolicy": storage.get("reclaimPolicy", "Delete"),
        "storageClassName": storage["metadata"]["name"],
        "claimRef": facts.reference_to(claim),
        "csi": {"driver": driver, "volumeHandle": name},
    }
    if zone:
        place = {"key": ZONE, "operator": "In", "values": [zone]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [place]}]}}
    metadata = {"name": name, "annotations": {facts.PROVISIONED_BY: driver}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}
