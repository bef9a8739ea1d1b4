"""A stand-in for a CSI driver's external provisioner: it makes a volume where the scheduler asks for one.

As the original it takes up a claim once two others have written to it: the scheduler (`selected-node`) and
kube-controller-manager (`storage-provisioner`, which names the driver). It makes the PersistentVolume with the claim's
name on it and leaves the binding to kube-controller-manager. It can be told to hold back, to give a selected node
back, and to make volumes in a wrong zone. It makes objects only: nothing is ever attached or mounted.
"""

import http.client
import threading
from collections.abc import Mapping
from typing import Self

from tests.controlplane.process import POLL_SECONDS
from tests.controlplane.rest import Api, ApiStatusError, Object

DRIVER = "volumes.example"
ZONE = "topology.kubernetes.io/zone"
VOLUMES = "/api/v1/persistentvolumes"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
DRIVER_QUERIED = "volume.kubernetes.io/storage-provisioner"
CHANGED_MEANWHILE = frozenset({404, 409})


def volume(name: str, storage_class: str, key: str, value: str, source: Object, claim: Object | None = None) -> Object:
    """A PersistentVolume of 1Gi that nodes with the label `key=value` reach; with `claim` it is made for that one."""
    place = {"key": key, "operator": "In", "values": [value]}
    spec: Object = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [place]}]}},
        "persistentVolumeReclaimPolicy": "Retain",
    } | source
    annotations: dict[str, str] = {}
    if claim is not None:
        owner = {field: claim["metadata"][field] for field in ("namespace", "name", "uid")}
        spec["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"} | owner
        annotations["pv.kubernetes.io/provisioned-by"] = DRIVER
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}


class Provisioner:
    """Serves one namespace while it is entered; its switches may be changed at any time."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.misplaced: Mapping[str, str] = {}
        """Zones in which no volume can be had, with the zones where it is made instead."""
        self.refusals = 0
        """How many more times a selected node is given back."""
        self.working = threading.Event()
        """Volumes are made only while it is set, which it is at first; nodes are given back at any time."""
        self.working.set()
        self._api = Api(api.url, api.token, api.authority)
        self._claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="provisioner", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Raises what has ended the work too early."""
        self._stopping.set()
        self._thread.join(timeout=30)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._stopping.wait(POLL_SECONDS):
                for claim in self._api.items(self._claims):
                    self._serve(claim)
        except (OSError, http.client.HTTPException, ApiStatusError, LookupError) as error:
            self._failure = error
        finally:
            self._api.close()

    def _serve(self, claim: Object) -> None:
        metadata = claim["metadata"]
        annotations = metadata.get("annotations", {})
        is_queried = SELECTED_NODE in annotations and annotations.get(DRIVER_QUERIED) == DRIVER
        if not is_queried or claim["spec"].get("volumeName") or metadata.get("deletionTimestamp"):
            return
        try:
            if self.refusals:
                self._give_back(claim)
            elif self.working.is_set():
                self._make(claim, annotations[SELECTED_NODE])
        except ApiStatusError as error:
            if error.code not in CHANGED_MEANWHILE:
                raise

    def _give_back(self, claim: Object) -> None:
        metadata = claim["metadata"]
        change = {"resourceVersion": metadata["resourceVersion"], "annotations": {SELECTED_NODE: None}}
        self._api.patch(f"{self._claims}/{metadata['name']}", {"metadata": change})
        self.refusals -= 1

    def _make(self, claim: Object, node_name: str) -> None:
        """The name follows from the claim, so that a volume is never made twice."""
        zone = self._api.get(f"/api/v1/nodes/{node_name}")["metadata"]["labels"][ZONE]
        name = f"pvc-{claim['metadata']['uid']}"
        source = {"csi": {"driver": DRIVER, "volumeHandle": name}}
        zone = self.misplaced.get(zone, zone)
        self._api.create(VOLUMES, volume(name, claim["spec"]["storageClassName"], ZONE, zone, source, claim))
