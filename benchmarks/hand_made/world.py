"""The cluster that all play on: six nodes that pods may use, three that most may not, and pods with wishes."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from kscheduler.api.machinery.resources import NODES, PODS
from kscheduler.embedded.apiserver import EmbeddedAPIServer

Object = dict[str, Any]

OPEN: Final = ("a", "b", "c", "d", "e", "f")
CPU: Final = {**dict.fromkeys(OPEN, 12.0), "cordoned": 12.0, "small": 1.0, "tainted": 12.0}
PRICES: Final = {"a": "0.40", "b": "0.10", "c": "0.20", "d": "0.30", "small": "0.01", "tainted": "0.05"}
LABELS: Final = {
    "a": {"cluster.type": "raspberry"},
    "b": {"cluster.type": "raspberry"},
    "e": {"disk": "ssd"},
    "f": {"disk": "ssd"},
}
# Shares of CPU and memory that are in use, as measured once: the measurement does not show the new pods.
USED: Final = {"a": 0.5, "b": 0.6, "c": 0.2, "d": 0.4, "e": 0.3, "f": 0.7, "small": 0.1, "tainted": 0.05}
NUMBERS: Final = {"a": 3, "b": 5, "c": 4, "d": 1, "e": 9, "f": 2, "small": 10, "tainted": 8, "cordoned": 7}

BEFORE: Final = 50
WHILE_AWAY: Final = 12


class CountingServer(EmbeddedAPIServer):
    """Counts what it is asked."""

    def __init__(self) -> None:
        super().__init__(seed=1)
        self.requests = 0

    async def _response(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests += 1
        return await super()._response(request)


def fill(server: EmbeddedAPIServer) -> None:
    """Write the nodes."""
    for name, cpu in CPU.items():
        amounts = {"cpu": f"{cpu:g}", "memory": "32Gi", "pods": "110"}
        spec: Object = {}
        if name == "tainted":
            spec["taints"] = [{"key": "kept", "value": "free", "effect": "NoSchedule"}]
        if name == "cordoned":
            spec["unschedulable"] = True
        annotations = {"hightower.com/cost": PRICES[name]} if name in PRICES else {}
        labels = {"kubernetes.io/hostname": name, **LABELS.get(name, {})}
        conditions = [{"type": "Ready", "status": "True"}]
        status = {"capacity": amounts, "allocatable": amounts, "conditions": conditions}
        metadata = {"name": name, "labels": labels, "annotations": annotations}
        tree = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}
        server.store.put(NODES.collection, tree)


def add_pods(server: EmbeddedAPIServer, scheduler: str, numbers: range) -> None:
    """Of ten pods three are plain, two want a disk, two want to be apart, two a type, and one is large."""
    for number in numbers:
        kind = ["plain", "plain", "disk", "apart", "type", "plain", "disk", "apart", "type", "large"][number % 10]
        spec: Object = {"schedulerName": scheduler}
        metadata: Object = {"name": f"{kind}-{number}", "labels": {"app": kind}}
        if kind == "disk":
            spec["nodeSelector"] = {"disk": "ssd"}
        if kind == "type":
            metadata["annotations"] = {"cluster.type": "raspberry"}
        if kind == "apart":
            metadata["labels"]["group"] = f"{number // 10}"  # two by two
            term = {"labelSelector": {"matchLabels": metadata["labels"]}, "topologyKey": "kubernetes.io/hostname"}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        requests = {"cpu": "2" if kind == "large" else "500m", "memory": "256Mi"}
        spec["containers"] = [{"name": "main", "image": "app", "resources": {"requests": requests}}]
        server.registry.create(PODS, "default", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def pods_of(server: EmbeddedAPIServer) -> list[Object]:
    """All pods as they are stored."""
    return [record.value for record in server.store.collection(PODS.collection).records.values()]


def unplaced(server: EmbeddedAPIServer) -> int:
    """How many pods have no node."""
    return sum(not pod["spec"].get("nodeName") for pod in pods_of(server))


@dataclass(frozen=True)
class Audit:
    """Where the pods are, and what that overlooks."""

    by_node: Mapping[str, int]
    selector: int
    """Pods on a node without the label that their nodeSelector asks for."""
    apart: int
    """Pods beside one that they must not be beside."""
    type: int
    """Pods on a node of another type than their annotation asks for."""
    taint: int
    """Pods on the tainted node, and on the cordoned one."""
    overfull: int
    """Nodes with more CPU requested than they have."""
    never: int
    """Pods without a node at the end."""
    dollars: float
    """Per hour, by the CPU that each pod requests on its node; without a price 1.00 for a whole node."""


def audit(server: EmbeddedAPIServer) -> Audit:
    """Look at all pods."""
    pods = pods_of(server)
    placed = [(pod, pod["spec"]["nodeName"]) for pod in pods if pod["spec"].get("nodeName")]
    cpu: Counter[str] = Counter()
    groups: Counter[tuple[str, str]] = Counter()
    for pod, node in placed:
        cpu[node] += cpu_millis(pod)
        if "affinity" in pod["spec"]:
            groups[node, pod["metadata"]["labels"]["group"]] += 1
    return Audit(
        by_node={name: sum(node == name for _, node in placed) for name in CPU},
        selector=sum("nodeSelector" in pod["spec"] and "disk" not in LABELS.get(node, {}) for pod, node in placed),
        apart=sum(count for count in groups.values() if count > 1),
        type=sum(
            bool(pod["metadata"].get("annotations")) and "cluster.type" not in LABELS.get(node, {})
            for pod, node in placed
        ),
        taint=sum(node in ("tainted", "cordoned") for _, node in placed),
        overfull=sum(used > CPU[node] * 1000 for node, used in cpu.items()),
        never=len(pods) - len(placed),
        dollars=sum(float(PRICES.get(node, "1")) * used / (CPU[node] * 1000) for node, used in cpu.items()),
    )


def cpu_millis(pod: Object) -> int:
    """What the pod requests."""
    text = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000
