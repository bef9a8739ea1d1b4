"""Pods and objects for which a scheduler needs each of its rights: volumes, devices, preemption, Events counted up.

The cluster has three nodes of `node`, and the controllers of a real control plane.
"""

from typing import Any, Final

from tests.controlplane.process import wait_until
from tests.controlplane.rest import Api, Object

PODS: Final = "/api/v1/namespaces/default/pods"


def node(name: str) -> Object:
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
    }


class SchedulersWork:
    """What is asked of the scheduler that serves `scheduler_name`; each wait ends after `seconds`."""

    def __init__(self, api: Api, scheduler_name: str, seconds: float) -> None:
        self.api = api
        self._scheduler_name = scheduler_name
        self._seconds = seconds

    def create(self, name: str, **spec: Any) -> str:
        """Creates a pod that names the scheduler, and returns its path."""
        whole = {"schedulerName": self._scheduler_name, "containers": container(requests={"cpu": "100m"})} | spec
        self.api.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole})
        return f"{PODS}/{name}"

    def schedule(self, name: str, **spec: Any) -> None:
        """The same, and waits until it has a node."""
        path = self.create(name, **spec)
        wait_until(f"a node for {name}", lambda: self.api.get(path)["spec"].get("nodeName"), self._seconds)

    def use_rights(self) -> None:
        """Volumes, devices, extended resources, and a pod that takes another one's place."""
        low, high = ({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"} for _ in range(2))
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        self.api.create(classes, low | {"metadata": {"name": "low"}, "value": 1})
        self.api.create(classes, high | {"metadata": {"name": "high"}, "value": 9})
        self._add_claims()
        self.schedule("with-claim", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
        wanting = [{"name": "data", "persistentVolumeClaim": {"claimName": "provisioned"}}]
        self.create("waits-for-provisioner", volumes=wanting)
        self._add_devices()
        wants_device = [{"name": "gpu", "resourceClaimName": "gpu"}]
        claiming = container(claims=[{"name": "gpu"}])
        self.schedule("with-device", resourceClaims=wants_device, containers=claiming)
        querying = {"example.com/gpu": "1"}
        self.schedule("with-extended-resource", containers=container(requests=querying, limits=querying))
        whole = container(requests={"cpu": "3"})
        for number in range(3):
            self.schedule(f"low-{number}", priorityClassName="low", containers=whole)
        self.schedule("high", priorityClassName="high", containers=whole)

    def count_an_event_up(self) -> None:
        """A pod that fits nowhere is refused with the same words twice, as another one, `first`, ends."""
        path = self.create("hopeless", containers=container(requests={"cpu": "64"}))
        wait_until("its condition", lambda: self.api.get(path)["status"].get("conditions"), self._seconds)
        self.api.delete(f"{PODS}/first", grace_seconds=0)

    def _add_claims(self) -> None:
        """Claims that wait for their consumer: one for a local volume, one for a provisioner that never comes."""
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}
        volume = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        }
        metadata = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "data"}}
        self.api.create("/api/v1/persistentvolumes", metadata | {"spec": volume})
        for claim, storage, provisioner in (
            ("data", "local", "kubernetes.io/no-provisioner"),
            ("provisioned", "remote", "example.com/never"),
        ):
            kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": storage}}
            waits = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
            self.api.create("/apis/storage.k8s.io/v1/storageclasses", kind | waits)
            wanted = {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": storage,
                "resources": {"requests": {"storage": "1Gi"}},
            }
            kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": claim}}
            self.api.create("/api/v1/namespaces/default/persistentvolumeclaims", kind | {"spec": wanted})

    def _add_devices(self) -> None:
        """A device of node-1, its class, and a claim to one."""
        group, kind = "/apis/resource.k8s.io/v1", {"apiVersion": "resource.k8s.io/v1"}
        device_class = kind | {"kind": "DeviceClass", "metadata": {"name": "gpu"}}
        device_class["spec"] = {"extendedResourceName": "example.com/gpu"}
        self.api.create(f"{group}/deviceclasses", device_class)
        pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
        published = {
            "driver": "gpu.example.com",
            "nodeName": "node-1",
            "pool": pool,
            "devices": [{"name": f"gpu-{n}"} for n in range(2)],
        }
        slice_of = kind | {"kind": "ResourceSlice", "metadata": {"name": "node-1"}, "spec": published}
        self.api.create(f"{group}/resourceslices", slice_of)
        wanted = {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "gpu"}}]}}
        claim = kind | {"kind": "ResourceClaim", "metadata": {"name": "gpu"}, "spec": wanted}
        self.api.create(f"{group}/namespaces/default/resourceclaims", claim)


def container(**resources: object) -> list[Object]:
    """The one container of a pod, with its `requests`, `limits` and `claims`."""
    return [{"name": "main", "image": "registry.example/main:1", "resources": resources}]
