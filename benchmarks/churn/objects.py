"""The objects of an autoscaled cluster whose releases, jobs and nodes never repeat a name (see `world`).

What a release changes is what releases change: the image, the pod-template-hash, amounts, the ReplicaSet that owns the
pods, and the labels in the selectors of spread constraints and affinity terms. Objects are written as JSON and decoded
as the watch decodes, so no two of them share a part that they would not share in a service.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kscheduler.api.codec import Decoder
from kscheduler.api.kinds import (
    CSI_NODES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    SERVICES,
    STORAGE_CLASSES,
    Kind,
)
from kscheduler.api.meta import KubeObject
from kscheduler.api.well_known import HOSTNAME, ZONE
from kscheduler.bench.cluster import SCHEDULER_NAME
from kscheduler.bench.objects import EBS, PREFERRED, REQUIRED

Object = dict[str, Any]

CANDIDATE: Final = "DeletionCandidateOfClusterAutoscaler"
TO_BE_DELETED: Final = "ToBeDeletedByClusterAutoscaler"
NOT_READY: Final = "node.kubernetes.io/not-ready"
GPU: Final = "example.com/gpu"
# Of pods; what follows is namespace and name, which no second pod has.
UID_PREFIX: Final = "uid-"
STORAGE_CLASS: Final = "standard"
_EPOCH: Final = 1_790_000_000
_ZONES: Final = 3
_IMAGES_ON_A_NODE: Final = 12
_TOLERATIONS: Final = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]
_encode: Final = msgspec.json.Encoder().encode
_decoders: Final[dict[type[KubeObject], Decoder[Any]]] = {}


def decoded(kind: Kind, tree: Object) -> Any:
    """An object as the watch brings it; without a version of its own it is version 1."""
    decoder = _decoders.get(kind.type)
    if decoder is None:
        decoder = _decoders[kind.type] = Decoder(kind.type)
    tree["metadata"].setdefault("resourceVersion", "1")
    return decoder.decode(_encode(tree))


# --- nodes ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class NodeState:
    """A node as cloud provider, kubelet and autoscaler have left it."""

    serial: int
    has_gpu: bool
    taints: dict[str, tuple[str, str]]
    """By key: value and effect."""
    images: list[str]
    version: int = 1

    @property
    def name(self) -> str:
        """Never seen before, and never again."""
        return f"ip-10-{self.serial >> 16 & 255}-{self.serial >> 8 & 255}-{self.serial & 255}.compute.internal"

    def shown(self) -> Any:
        """The node as the watch shows it; each time a newer version."""
        self.version += 1
        gives = {"cpu": "8", "memory": f"{32 * 2**20 - 977 * self.serial % 65536}Ki", "pods": "110"}
        gives |= {GPU: "4"} if self.has_gpu else {}
        labels = {
            HOSTNAME: self.name,
            ZONE: f"zone-{self.serial % _ZONES}",
            "node.example.com/instance-id": f"i-{self.serial:017x}",
            "node.example.com/pool": "gpu" if self.has_gpu else f"pool-{self.serial % 4}",
        }
        metadata = {
            "name": self.name,
            "uid": f"node-{self.serial:08}",
            "resourceVersion": str(self.version),
            "labels": labels,
        }
        taints = [{"key": key, "value": value, "effect": effect} for key, (value, effect) in self.taints.items()]
        images = [{"names": [name], "sizeBytes": 10**8} for name in self.images[-_IMAGES_ON_A_NODE:]]
        status = {
            "capacity": gives,
            "allocatable": gives,
            "images": images,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        return decoded(NODES, {"metadata": metadata, "spec": {"taints": taints}, "status": status})

    def csi_node(self) -> Any:
        """What its kubelet says of the driver."""
        driver = {"name": EBS, "nodeID": f"i-{self.serial:017x}", "allocatable": {"count": 25}}
        return decoded(
            CSI_NODES, {"metadata": {"name": self.name, "uid": f"csi-{self.serial}"}, "spec": {"drivers": [driver]}}
        )


# --- pods -------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class PodTemplate:
    """What a controller makes pods of."""

    prefix: str
    namespace: str
    labels: Object
    requests: Object
    image: str
    owner: Object
    spec: Object
    priority: int = 0

    def pod(self, serial: int, **spec: Any) -> Any:
        """A pod of it; `serial` is its own."""
        container = {"name": "main", "image": self.image, "resources": {"requests": self.requests}}
        whole = {
            "schedulerName": SCHEDULER_NAME,
            "priority": self.priority,
            "containers": [container],
            "tolerations": _TOLERATIONS,
            **self.spec,
            **spec,
        }
        name = f"{self.prefix}-{serial:x}"
        metadata = {
            "name": name,
            "namespace": self.namespace,
            "uid": f"{UID_PREFIX}{self.namespace}/{name}",
            "labels": self.labels,
            "ownerReferences": [self.owner],
        }
        return decoded(PODS, {"metadata": metadata, "spec": whole, "status": {"phase": "Pending"}})


def release(app: int, number: int) -> PodTemplate:
    """The pods of one release of a Deployment. Applications differ in how their pods want to lie."""
    name, hashed = f"app-{app}", f"{number:08x}"
    labels = {"app": name, "version": f"1.{number}", "pod-template-hash": hashed}
    selector = {"matchLabels": {"app": name, "pod-template-hash": hashed}}
    term = {"topologyKey": HOSTNAME, "labelSelector": selector}
    specs: tuple[Object, ...] = (
        {},
        {
            "topologySpreadConstraints": [
                {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
            ]
        },
        {"affinity": {"podAntiAffinity": {PREFERRED: [{"weight": 100, "podAffinityTerm": term}]}}},
        {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}},
        {
            "topologySpreadConstraints": [
                {
                    "topologyKey": HOSTNAME,
                    "maxSkew": 2,
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": selector,
                    "nodeTaintsPolicy": "Honor",
                }
            ]
        },
        {"nodeSelector": {"node.example.com/pool": f"pool-{app % 4}"}},
    )
    return PodTemplate(
        prefix=f"{name}-{hashed}",
        namespace=f"team-{app % 10}",
        labels=labels,
        requests={"cpu": f"{100 + number * 7 % 150}m", "memory": f"{200 + number * 13 % 4001}Mi"},
        image=f"registry.example.com/{name}:1.{number}",
        owner=_owner("ReplicaSet", f"{name}-{hashed}", "apps/v1"),
        spec=specs[app % len(specs)],
    )


def job(number: int, namespace: str) -> PodTemplate:
    """The pods of a Job that never runs again."""
    name, uid = f"job-{number}", f"job-uid-{number:08}"
    labels = {"batch.kubernetes.io/controller-uid": uid, "controller-uid": uid, "job-name": name}
    requests = {"cpu": f"{50 + number * 3 % 101}m", "memory": f"{100 + number * 11 % 3001}Mi"}
    return PodTemplate(name, namespace, labels, requests, f"ci:{number % 50}", _owner("Job", name, "batch/v1"), {})


def member(app: int, number: int) -> PodTemplate:
    """The pods of a StatefulSet's revision; each brings a claim."""
    labels = {"app": f"db-{app}", "controller-revision-hash": f"db-{app}-{number:x}"}
    requests = {"cpu": "200m", "memory": f"{512 + number % 997}Mi"}
    owner = _owner("StatefulSet", f"db-{app}", "apps/v1")
    return PodTemplate(f"db-{app}", "data", labels, requests, f"db:{number}", owner, {})


def hopeless(number: int) -> PodTemplate:
    """Pods that fit nowhere: no node has such a label."""
    labels = {"app": "lost", "run": f"lost-{number}"}
    spec = {"nodeSelector": {"node.example.com/pool": f"gone-{number}"}}
    return PodTemplate("lost", "team-0", labels, {"cpu": "100m"}, "lost:1", _owner("Job", "lost", "batch/v1"), spec)


def training(number: int, priority: int) -> PodTemplate:
    """Pods that want a GPU: there are fewer than pods, and those of high priority preempt."""
    labels = {"app": "training", "run": f"run-{number}"}
    owner = _owner("Job", f"run-{number}", "batch/v1")
    requests = {"cpu": "500m", GPU: "1"}
    return PodTemplate(f"run-{number}", "gpu", labels, requests, f"train:{number}", owner, {}, priority)


def _owner(kind: str, name: str, version: str) -> Object:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


# --- what goes with them ----------------------------------------------------------------------------------------------


def replica_set(template: PodTemplate) -> Any:
    """The ReplicaSet of a release."""
    owner = template.owner
    metadata = {"name": owner["name"], "namespace": template.namespace, "uid": owner["uid"]}
    return decoded(REPLICA_SETS, {"metadata": metadata, "spec": {"selector": {"matchLabels": template.labels}}})


def service(app: int) -> Any:
    """The Service in front of a Deployment."""
    metadata = {"name": f"app-{app}", "namespace": f"team-{app % 10}", "uid": f"service-{app}"}
    return decoded(SERVICES, {"metadata": metadata, "spec": {"selector": {"app": f"app-{app}"}}})


def budget(number: int) -> Any:
    """A budget over training runs that allows a disruption."""
    metadata = {"name": f"budget-{number}", "namespace": "gpu", "uid": f"budget-{number}"}
    selector = {"matchLabels": {"app": "training"}}
    return decoded(
        POD_DISRUPTION_BUDGETS,
        {"metadata": metadata, "spec": {"selector": selector}, "status": {"disruptionsAllowed": 5}},
    )


def namespace(name: str, **labels: str) -> Any:
    """A namespace."""
    return decoded(NAMESPACES, {"metadata": {"name": name, "uid": f"namespace-{name}", "labels": labels}})


def claim(name: str, serial: int) -> Any:
    """A StatefulSet member's claim, which waits for its pod's node."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": f"{1 + serial % 40}Gi"}},
        "storageClassName": STORAGE_CLASS,
        "volumeMode": "Filesystem",
    }
    metadata = {"name": name, "namespace": "data", "uid": f"claim-{serial:012}"}
    return decoded(PERSISTENT_VOLUME_CLAIMS, {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})


def storage_class() -> Any:
    """The class of all claims."""
    metadata = {"name": STORAGE_CLASS, "uid": "class"}
    return decoded(
        STORAGE_CLASSES, {"metadata": metadata, "provisioner": EBS, "volumeBindingMode": "WaitForFirstConsumer"}
    )


def volume_of(claim_name: str) -> Sequence[Object]:
    """A pod's volumes, of one claim."""
    return [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]


def stamp(serial: int) -> str:
    """A moment in seconds, as the autoscaler writes it into a taint: no two are equal."""
    return str(_EPOCH + serial)
