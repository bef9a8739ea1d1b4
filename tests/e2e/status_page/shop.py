"""A cluster as a page shows one: three zones, pods of a shop, and pods that wait for six different reasons."""

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from tests.builders import node_tree, pod_tree
from tests.e2e.status_page.watched import created

Tree = dict[str, Any]

ZONES: Final = ("eu-west-1a", "eu-west-1b", "eu-west-1c")
_APPS: Final = ("checkout", "cart", "catalogue", "search", "payments", "orders", "mail", "pricing", "gateway", "images")
_SIZES: Final = (("250m", "512Mi"), ("500m", "1Gi"), ("1", "2Gi"), ("2", "6Gi"))
HOUR: Final = 3600.0


def name_of(number: int, count: int) -> str:
    """A node's name."""
    return f"node-{number:0{max(3, len(str(count - 1)))}}"


def nodes(count: int) -> Iterator[Tree]:
    """Every twelfth has GPUs and a taint, a few are cordoned."""
    for number in range(count):
        labels = {
            "topology.kubernetes.io/zone": ZONES[number % len(ZONES)],
            "kubernetes.io/hostname": name_of(number, count),
            "node.kubernetes.io/instance-type": "gpu-8" if number % 12 == 5 else "general-16",
            "disktype": "ssd" if number % 2 else "hdd",
        }
        spec: Tree = {"unschedulable": True} if number % 53 == 17 else {}
        more: dict[str, Any] = {}
        if number % 12 == 5:
            spec["taints"] = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
            more["nvidia.com/gpu"] = "8"
        yield node_tree(
            name_of(number, count),
            labels=labels,
            metadata={"creationTimestamp": created(90 * 24 * HOUR)},
            spec=spec,
            status={"conditions": [{"type": "Ready", "status": "True"}]},
            cpu="16",
            memory="64Gi",
            **more,
        )


def running_pods(count: int, on_nodes: int, seed: int = 1) -> Iterator[Tree]:
    """Pods that are on nodes already, unevenly."""
    rng = Random(seed)
    weights = [rng.betavariate(2.2, 1.6) for _ in range(on_nodes)]
    left = [[15.0 * weight, 60.0 * weight] for weight in weights]
    numbers = [number for number in range(on_nodes) if number % 12 != 5]
    for number in range(count):
        cpu, memory = rng.choice(_SIZES)
        for _ in range(8):  # a place that still has room
            node = rng.choice(numbers)
            if left[node][0] >= 2 and left[node][1] >= 6:
                break
        left[node][0] -= 2 if cpu == "2" else 1 if cpu == "1" else 0.5
        left[node][1] -= float(memory.removesuffix("Mi").removesuffix("Gi")) / (1024 if memory.endswith("Mi") else 1)
        app = _APPS[number % len(_APPS)]
        yield pod_tree(
            f"{app}-{rng.getrandbits(32):08x}-{number:05}",
            namespace="shop" if number % 4 else "backoffice",
            uid=f"uid-{number}",
            node=name_of(node, on_nodes),
            requests={"cpu": cpu if left[node][0] > 0 else "10m", "memory": memory if left[node][1] > 0 else "16Mi"},
            metadata={"creationTimestamp": created(rng.uniform(HOUR, 30 * 24 * HOUR))},
            status={"phase": "Running"},
            labels={"app": app},
        )


def waiting_pods() -> Iterator[Tree]:
    """Pods that fit nowhere, each kind for a reason of its own."""
    kinds: tuple[tuple[str, int, dict[str, Any], dict[str, Any]], ...] = (
        ("report", 12, {"cpu": "24", "memory": "32Gi"}, {}),
        ("train", 8, {"cpu": "4", "nvidia.com/gpu": "4"}, {}),
        ("index", 5, {"cpu": "1"}, {"nodeSelector": {"disktype": "nvme"}}),
        ("ledger", 3, {"cpu": "500m"}, {"nodeSelector": {"topology.kubernetes.io/zone": "eu-west-2a"}}),
        ("import", 4, {"cpu": "1"}, {"schedulingGates": [{"name": "shop.example/quota"}]}),
        ("pinned", 2, {"cpu": "1"}, {"affinity": _only_on("node-017")}),
    )
    for name, count, requests, spec in kinds:
        for number in range(count):
            yield pod_tree(
                f"{name}-{number}",
                namespace="analytics" if name in ("report", "train") else "shop",
                uid=f"uid-{name}-{number}",
                requests=requests,
                metadata={"creationTimestamp": created(HOUR - 97 * number)},
                labels={"app": name},
                **spec,
            )


def _only_on(node: str) -> Tree:
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def fresh_pods(count: int) -> Iterator[Tree]:
    """Pods that fit, for the list of decisions."""
    for number in range(count):
        app = _APPS[number % len(_APPS)]
        yield pod_tree(
            f"{app}-7d9f-{number}",
            namespace="shop",
            uid=f"uid-fresh-{number}",
            requests={"cpu": "250m", "memory": "512Mi"},
            metadata={"creationTimestamp": created(1)},
            labels={"app": app},
        )


DRIVER: Final = "gpu.example.com"
WITH_DEVICES: Final = "node-005"


def devices() -> Iterator[tuple[str, Tree]]:
    """By collection: devices of a node, of which some are held or tainted, and a pool that is incomplete."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    yield "deviceclasses.resource.k8s.io", {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}}
    for pool, slices in (("node-005", 1), ("node-005-shelf", 2)):
        found: list[Tree] = [{"name": f"gpu-{number}"} for number in range(8)]
        found[7]["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
        of_pool = {"name": pool, "generation": 1, "resourceSliceCount": slices}
        spec = {"driver": DRIVER, "pool": of_pool, "nodeName": WITH_DEVICES, "devices": found}
        yield "resourceslices.resource.k8s.io", {"metadata": {"name": pool}, "spec": spec}
    results = [
        {"request": "gpu", "driver": DRIVER, "pool": WITH_DEVICES, "device": f"gpu-{number}"} for number in range(3)
    ]
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "count": 3}}
    reserved = [{"resource": "pods", "name": "trainer", "uid": "uid-trainer"}]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    meta = {"name": "trainer-gpus", "namespace": "analytics", "uid": "uid-trainer-gpus"}
    yield (
        "resourceclaims.resource.k8s.io",
        {"metadata": meta, "spec": {"devices": {"requests": [request]}}, "status": status},
    )
    yield (
        "pods",
        pod_tree(
            "trainer",
            namespace="analytics",
            uid="uid-trainer",
            node=WITH_DEVICES,
            resourceClaims=[{"name": "gpus", "resourceClaimName": "trainer-gpus"}],
            status={"phase": "Running"},
        ),
    )
