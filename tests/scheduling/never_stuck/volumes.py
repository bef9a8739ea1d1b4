"""The volume controller and the drivers of a never-stuck run: what binds claims and makes volumes."""

from kscheduler.api.kinds import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from kscheduler.api.storage import BIND_COMPLETED, SELECTED_NODE
from tests.scheduling.never_stuck.server import Server, Tree
from tests.scheduling.never_stuck.words import DRIVER, ZONE, merged


class VolumeController:
    """Goes over all claims when told to."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def work(self, *, refuses: bool = False) -> None:
        """Bind what can be bound; `refuses`: make nothing for selected nodes, but take the selection back."""
        for key in [*self._server.objects[PERSISTENT_VOLUME_CLAIMS]]:
            claim = self._server.get(PERSISTENT_VOLUME_CLAIMS, key)
            if claim is not None and not claim["spec"].get("volumeName"):
                self._serve(claim, refuses=refuses)

    def make_ephemeral_claim(self, pod: Tree) -> None:
        """What the ephemeral volume controller does for a pod."""
        meta = pod["metadata"]
        name = f"{meta['name']}-ephemeral"
        asks = any("ephemeral" in volume for volume in pod["spec"].get("volumes", ()))
        if not asks or self._server.get(PERSISTENT_VOLUME_CLAIMS, f"{meta['namespace']}/{name}") is not None:
            return
        owner = {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"], "controller": True}
        spec = {"storageClassName": "dynamic", "accessModes": ["ReadWriteOnce"]}
        where = {"name": name, "namespace": meta["namespace"], "ownerReferences": [owner]}
        self._server.put(PERSISTENT_VOLUME_CLAIMS, {"metadata": where, "spec": spec, "status": {"phase": "Pending"}})

    def _serve(self, claim: Tree, *, refuses: bool) -> None:
        volume = self._volume_of(claim)
        if volume is not None:
            self._bind(claim, volume)
            return
        storage_class = self._server.get(STORAGE_CLASSES, claim["spec"]["storageClassName"])
        if storage_class is None or storage_class["provisioner"] != DRIVER:
            return
        node_name = claim["metadata"].get("annotations", {}).get(SELECTED_NODE)
        if node_name is not None and (refuses or self._server.get(NODES, node_name) is None):
            del claim["metadata"]["annotations"][SELECTED_NODE]
            self._server.put(PERSISTENT_VOLUME_CLAIMS, claim)
        elif node_name is not None or storage_class["volumeBindingMode"] == "Immediate":
            self._bind(claim, self._made(claim, node_name or ""))

    def _volume_of(self, claim: Tree) -> Tree | None:
        meta = claim["metadata"]
        for name in self._server.objects[PERSISTENT_VOLUMES]:
            volume = self._server.get(PERSISTENT_VOLUMES, name)
            owner = volume["spec"].get("claimRef") if volume is not None else None
            if owner is None or (owner["namespace"], owner["name"]) != (meta["namespace"], meta["name"]):
                continue
            if owner.get("uid") in (None, "", meta["uid"]):
                return volume
        return None

    def _made(self, claim: Tree, node_name: str) -> Tree:
        node = self._server.get(NODES, node_name) or {"metadata": {"labels": {}}}
        zone = node["metadata"]["labels"].get(ZONE)
        expression = {"key": ZONE, "operator": "In", "values": [zone]}
        where = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}
        name = f"made-{claim['metadata']['uid']}"
        spec = {"capacity": {"storage": "2Gi"}, "storageClassName": claim["spec"]["storageClassName"]}
        source = {"csi": {"driver": DRIVER, "volumeHandle": name}, "accessModes": claim["spec"]["accessModes"]}
        return {"metadata": {"name": name}, "spec": {**spec, **source, **(where if zone else {})}}

    def _bind(self, claim: Tree, volume: Tree) -> None:
        meta = claim["metadata"]
        owner = {"claimRef": {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}}
        self._server.put(PERSISTENT_VOLUMES, merged(volume, {"spec": owner, "status": {"phase": "Bound"}}))
        bound = {"spec": {"volumeName": volume["metadata"]["name"]}, "status": {"phase": "Bound"}}
        self._server.put(
            PERSISTENT_VOLUME_CLAIMS,
            merged(merged(claim, bound), {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}}),
        )
