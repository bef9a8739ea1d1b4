"""The volumes of a lane: local disks that wait for a claim, and claims whose volumes are made where a pod goes."""

from collections import Counter
from contextlib import ExitStack

from tests.controlplane.rest import Api, Object
from tests.e2e.provisioner import DRIVER, VOLUMES, ZONE, Provisioner, volume

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


class Volumes:
    """Two classes of the lane's own; claims are made in one namespace, and their nodes have the lane as their zone."""

    def __init__(self, api: Api, lane: str, namespace: str) -> None:
        self._api = api
        self._lane = lane
        self._namespace = namespace
        self._claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        self._local, self._made = f"{lane}-local", f"{lane}-made"
        self._stack = ExitStack()
        self._is_ready = False

    def add_claim(self, name: str, *, is_local: bool) -> None:
        """A claim, and if it is a local one the disk that it can have."""
        self._prepare()
        storage_class = self._local if is_local else self._made
        if is_local:
            disk = volume(f"{self._lane}-{name}", self._local, ZONE, self._lane, {"local": {"path": "/mnt/disk"}})
            self._api.create(VOLUMES, disk)
        wanted = {"requests": {"storage": "1Gi"}}
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, "resources": wanted}
        kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        self._api.create(self._claims, kind | {"metadata": {"name": name}, "spec": spec})

    def clear(self) -> None:
        """Removes claims and volumes, protected or not: their pods go with them."""
        if not self._is_ready:
            return
        for path, found in ((self._claims, self._api.items(self._claims)), (VOLUMES, self._volumes())):
            for one in found:
                name = one["metadata"]["name"]
                if one["metadata"].get("finalizers"):
                    self._api.patch(f"{path}/{name}", {"metadata": {"finalizers": None}})
                self._api.delete(f"{path}/{name}", missing_ok=True)

    def given_twice(self) -> list[str]:
        """A line for each claim that several volumes name, and for each that is bound to a volume of another."""
        if not self._is_ready:
            return []
        owners = {one["metadata"]["name"]: one["spec"].get("claimRef", {}).get("uid") for one in self._volumes()}
        holders = Counter(owner for owner in owners.values() if owner)
        lines = [f"a claim that {count} volumes name: {uid}" for uid, count in holders.items() if count > 1]
        for claim in self._api.items(self._claims):
            bound_to = claim["spec"].get("volumeName")
            if bound_to and owners.get(bound_to) != claim["metadata"]["uid"]:
                lines.append(f"a claim bound to another one's volume: {claim['metadata']['name']}, {bound_to}")
        return lines

    def withdraw(self) -> None:
        """The lane is over."""
        self._stack.close()
        for name in (self._local, self._made) if self._is_ready else ():
            self._api.delete(f"{CLASSES}/{name}", missing_ok=True)

    def _prepare(self) -> None:
        """Classes and provisioner, once there is a claim: most lanes never have one."""
        if self._is_ready:
            return
        for name, driver in ((self._made, DRIVER), (self._local, "kubernetes.io/no-provisioner")):
            mode = {"provisioner": driver, "volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Retain"}
            kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
            self._api.create(CLASSES, kind | {"metadata": {"name": name}} | mode)
        self._stack.enter_context(Provisioner(self._api, self._namespace))
        self._is_ready = True

    def _volumes(self) -> list[Object]:
        ours = (self._local, self._made)
        return [one for one in self._api.items(VOLUMES) if one["spec"].get("storageClassName") in ours]
