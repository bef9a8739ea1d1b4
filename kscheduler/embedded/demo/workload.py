"""The demo's mixed nodes and pods, generated from a seed as plain objects.

The problem: a thousand equal pods show nothing, and random pods may or may not fit. The idea: kinds of nodes come in
a fixed pattern and kinds of pods in fixed proportions, so that the capacity is known; the seed draws sizes, images
and order. With at most ten pods per node, and at least ten nodes in two or more zones, every pod except the
intentionally hopeless ones finds a place in any sensible order: kinds with few nodes (GPU, batch, ARM) have these
nodes to themselves, the others request about 60 % of the capacity.

`INTENT` is a pod's intended outcome: bound, never (too big, selector that matches nothing, gated), or `rule` for
pods whose place depends on other pods: some spread over the zones, some need a node of their own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Literal

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.releases import RELEASE
from kscheduler.api.well_known import ARCH, BETA_ARCH, BETA_OS, HOSTNAME, OS, REGION, ZONE
from kscheduler.config.types import OWN_SCHEDULER_NAME

# PodGroups of scheduler-plugins and of Volcano, as their own CustomResourceDefinitions define them.
#
# The cluster brings both, so that gangs of these projects can be tried out without their charts (docs/pod-groups.md).
# They are kinds like any that a user defines: stored as they are, without schemas, and nothing acts on them but a
# scheduler whose `podGroupAPIs` names the project. Anyone who applies the definitions of a project replaces them.

# Group, version and kubectl's short names.
_KINDS: Final = (("scheduling.x-k8s.io", "v1alpha1", ("pg", "pgs")), ("scheduling.volcano.sh", "v1beta1", ("vcpg",)))
# Groups below k8s.io are protected: a real API server establishes their definitions only with this.
_APPROVED: Final = {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"}


def group_definitions() -> list[Object]:
    return [_definition(group, version, short_names) for group, version, short_names in _KINDS]


def _definition(group: str, version: str, short_names: tuple[str, ...]) -> Object:
    names: Object = {
        "kind": "PodGroup",
        "listKind": "PodGroupList",
        "plural": "podgroups",
        "singular": "podgroup",
        "shortNames": list(short_names),
    }
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    annotations = dict(_APPROVED) if group.endswith(".k8s.io") else {}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"podgroups.{group}", "annotations": annotations},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }


Intent = Literal["bound", "never", "rule"]

# Annotation of generated pods; its value is an `Intent`.
INTENT = "simulation.kscheduler.io/intent"
GPU = "nvidia.com/gpu"

_RUN_SECONDS = "simulation.kscheduler.io/run-seconds"
# With fewer pods than this, all can be bound.
_SMALLEST_WITH_HOPELESS = 20
_MEBI = 2**20
_IMAGES = tuple(f"registry.example/{name}:1.{number}" for number in range(4) for name in ("web", "api", "model", "db"))
_CLASSES = (("demo-batch", 100), ("demo-service", 1_000), ("demo-critical", 10_000))


# --- nodes ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeShape:
    """A kind of node."""

    instance_type: str
    cpu: int
    gibibytes: int
    disk: str = "ssd"
    arch: str = "amd64"
    gpus: int = 0
    label: tuple[str, str] | None = None
    """(key, value) of an additional label."""
    taint: tuple[str, str, str] | None = None
    """(key, value, effect)."""


_SMALL = NodeShape("small", 8, 32, "hdd")
_MEDIUM = NodeShape("medium", 16, 64)
_LARGE = NodeShape("large", 48, 192)
_SPOT = NodeShape("medium", 16, 64, "hdd", taint=("spot", "true", "PreferNoSchedule"))
_GPU = NodeShape("gpu", 32, 128, gpus=8, label=("accelerator", "gpu"), taint=(GPU, "present", "NoSchedule"))
_BATCH = NodeShape("medium", 16, 64, "hdd", label=("dedicated", "batch"), taint=("dedicated", "batch", "NoSchedule"))
_ARM = NodeShape("medium-arm", 16, 64, arch="arm64", taint=(ARCH, "arm64", "NoSchedule"))

# The repeating pattern of ten nodes; zone-b, which some pods require, gets its share of the first ten.
PATTERN = (_MEDIUM, _LARGE, _SMALL, _SMALL, _MEDIUM, _GPU, _BATCH, _SMALL, _ARM, _SPOT)


def nodes(count: int, zones: int = 3, seed: int = 0, release: str = RELEASE) -> list[Object]:
    """`count` nodes, spread over `zones` zones (zone-a, zone-b, ...), in the repeating `PATTERN`.

    `release`: that of their kubelets, such as `v1.38.0`.
    """
    rng = Random(f"nodes/{seed}")
    width = max(3, len(str(count - 1)))
    return [_node(f"node-{i:0{width}}", i, f"zone-{chr(ord('a') + i % zones)}", release, rng) for i in range(count)]


def _node(name: str, index: int, zone: str, release: str, rng: Random) -> Object:
    shape = PATTERN[index % len(PATTERN)]
    labels = {
        HOSTNAME: name,
        OS: "linux",
        ARCH: shape.arch,
        BETA_OS: "linux",
        BETA_ARCH: shape.arch,
        "node.kubernetes.io/instance-type": shape.instance_type,
        REGION: "region-1",
        ZONE: zone,
        "disktype": shape.disk,
    }
    if shape.label is not None:
        labels[shape.label[0]] = shape.label[1]
    spec: Object = {"podCIDR": f"10.{64 + index // 256 % 64}.{index % 256}.0/24", "providerID": f"hollow://{name}"}
    if shape.taint is not None:
        spec["taints"] = [dict(zip(("key", "value", "effect"), shape.taint, strict=True))]
    status = _node_status(name, index, shape, release, rng)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": status,
    }


def _node_status(name: str, index: int, shape: NodeShape, release: str, rng: Random) -> Object:
    mebibytes = shape.gibibytes * 1024
    whole: Object = {"cpu": str(shape.cpu), "memory": f"{mebibytes}Mi", "ephemeral-storage": "200Gi", "pods": "110"}
    # The resources reserved for system and kubelet differ a little between nodes.
    reserved_cpu, reserved_memory = rng.choice((100, 150, 200)), rng.choice((512, 768, 1024))
    given = {"cpu": f"{shape.cpu * 1000 - reserved_cpu}m", "memory": f"{mebibytes - reserved_memory}Mi"}
    if shape.gpus:
        whole[GPU] = str(shape.gpus)
    address = f"172.16.{index // 250}.{index % 250 + 1}"
    kept = rng.sample(_IMAGES, 6)
    return {
        "capacity": whole,
        "allocatable": {**whole, **given, "ephemeral-storage": "180Gi"},
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        "conditions": [_ready()],
        "images": [{"names": [image], "sizeBytes": rng.randrange(30, 900) * _MEBI} for image in kept],
        "nodeInfo": _node_info(shape, release),
    }


def _ready() -> Object:
    return {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "hollow kubelet is ready"}


def _node_info(shape: NodeShape, release: str) -> Object:
    hollow = "hollow"
    software = {"kubeletVersion": release, "kubeProxyVersion": release, "containerRuntimeVersion": "hollow://1.0"}
    machine = {"machineID": hollow, "systemUUID": hollow, "bootID": hollow, "kernelVersion": hollow, "osImage": hollow}
    return {**software, **machine, "operatingSystem": "linux", "architecture": shape.arch}


def priority_classes() -> list[Object]:
    """The priority classes of generated pods; must be created first."""
    header = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return [{**header, "metadata": {"name": name}, "value": value} for name, value in _CLASSES]


# --- pods -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PodShape:
    """A kind of pod: its share of a thousand pods, and its spec without the common fields."""

    app: str
    share: int
    spec: Callable[[Random], Object]
    intent: Intent = "bound"
    priority_class: str = "demo-service"
    run_seconds: tuple[int, int] | None = None
    """Bounds of its run time; `None` means until it is deleted."""


def _container(name: str, cpu: str = "", memory: str = "", **more: Any) -> Object:
    requests = {resource: amount for resource, amount in (("cpu", cpu), ("memory", memory)) if amount}
    container: Object = {"name": name, "image": "registry.example/api:1.0", **more}
    return {**container, "resources": {"requests": requests}} if requests else container


def _one(cpu: tuple[str, ...], memory: tuple[str, ...], **spec: Any) -> Callable[[Random], Object]:
    """A spec with a container whose requests and image are drawn."""

    def draw(rng: Random) -> Object:
        container = _container("main", rng.choice(cpu), rng.choice(memory), image=rng.choice(_IMAGES))
        return {"containers": [container], **spec}

    return draw


def _required(key: str, operator: str, *values: str) -> Object:
    expression = {"key": key, "operator": operator, **({"values": [*values]} if values else {})}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _preferred(key: str, value: str) -> Object:
    preference = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    terms = [{"weight": 50, "preference": preference}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def _web(rng: Random) -> Object:
    main = _container("web", rng.choice(("100m", "200m", "250m")), "256Mi", image=rng.choice(_IMAGES))
    shipper = _container("log-shipper", "50m", "64Mi", image="registry.example/web:1.3")
    return {"containers": [main, shipper], "affinity": _preferred("disktype", "ssd")}


def _analytics(rng: Random) -> Object:
    load = _container("load", "6", "8Gi", image=rng.choice(_IMAGES))
    main = _container("analyse", rng.choice(("4", "5", "6")), rng.choice(("16Gi", "24Gi")), image=rng.choice(_IMAGES))
    return {"initContainers": [load], "containers": [main]}


def _mesh(rng: Random) -> Object:
    proxy = _container("proxy", "100m", "128Mi", restartPolicy="Always")
    migrate = _container("migrate", "500m", "256Mi")
    main = _container("main", rng.choice(("200m", "300m")), "512Mi", image=rng.choice(_IMAGES))
    return {"initContainers": [proxy, migrate], "containers": [main]}


def _exporter(rng: Random) -> Object:
    port = rng.choice((9100, 9200, 9300, 9400))
    ports = [{"containerPort": port, "hostPort": port}]
    return {"containers": [_container("exporter", "100m", "128Mi", ports=ports)]}


def _training(rng: Random) -> Object:
    container = _container("train", "2", "8Gi", image="registry.example/model:1.0")
    gpus = rng.choice(("1", "1", "2"))
    container["resources"]["requests"][GPU] = gpus
    container["resources"]["limits"] = {GPU: gpus}
    return {"containers": [container], "tolerations": [_tolerate(GPU)]}


def _tolerate(key: str, value: str = "") -> Object:
    operator = {"operator": "Equal", "value": value} if value else {"operator": "Exists"}
    return {"key": key, **operator, "effect": "NoSchedule"}


def _spread() -> Object:
    return {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }


def _apart() -> Object:
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "apart"}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


_BATCH_PLACE = {"nodeSelector": {"dedicated": "batch"}, "tolerations": [_tolerate("dedicated", "batch")]}
_ARM_PLACE = {"nodeSelector": {ARCH: "arm64"}, "tolerations": [_tolerate(ARCH, "arm64")]}

# All kinds of pods; shares are per thousand.
SHAPES = (
    PodShape("web", 238, _web),
    PodShape("api", 180, _one(("250m", "500m"), ("512Mi", "1Gi"))),
    PodShape("worker", 120, _one(("500m", "1"), ("1Gi", "2Gi")), priority_class="demo-batch"),
    PodShape("cache", 60, _one(("250m", "500m"), ("4Gi", "6Gi"), nodeSelector={"disktype": "ssd"})),
    PodShape("batch", 60, _one(("500m", "1"), ("1Gi", "2Gi"), **_BATCH_PLACE), run_seconds=(3, 8)),
    PodShape("analytics", 40, _analytics, priority_class="demo-batch"),
    PodShape("zonal", 40, _one(("250m",), ("512Mi",), nodeSelector={ZONE: "zone-b"})),
    PodShape("legacy", 40, _one(("500m",), ("1Gi",), affinity=_required(ARCH, "In", "amd64"))),
    PodShape("database", 30, _one(("3", "4"), ("12Gi", "16Gi"), affinity=_required("disktype", "NotIn", "hdd"))),
    PodShape("arm", 30, _one(("250m", "500m"), ("512Mi", "1Gi"), **_ARM_PLACE)),
    PodShape("training", 30, _training, priority_class="demo-critical"),
    PodShape("exporter", 25, _exporter, priority_class="demo-critical"),
    PodShape("mesh", 25, _mesh),
    PodShape("best-effort", 20, _one(("",), ("",)), priority_class="demo-batch"),
    PodShape("too-big", 4, _one(("500",), ("4Ti",)), "never"),
    PodShape("nowhere", 4, _one(("100m",), ("64Mi",), nodeSelector={"disktype": "tape"}), "never"),
    PodShape("gated", 4, _one(("100m",), ("64Mi",), schedulingGates=[{"name": "example.com/approval"}]), "never"),
    PodShape("spread", 30, _one(("100m",), ("128Mi",), topologySpreadConstraints=[_spread()]), "rule"),
    PodShape("apart", 20, _one(("100m",), ("128Mi",), affinity=_apart()), "rule"),
)


def pods(
    count: int, seed: int = 0, *, namespace: str = "default", scheduler_name: str = OWN_SCHEDULER_NAME
) -> list[Object]:
    """`count` pods in shuffled order. With 20 pods or more every kind occurs, including the hopeless ones."""
    rng = Random(f"pods/{seed}")
    kinds = [shape for shape, number in _counts(count).items() for _ in range(number)]
    rng.shuffle(kinds)
    width = max(4, len(str(count - 1)))
    return [
        _pod(f"{shape.app}-{index:0{width}}", shape, rng, namespace, scheduler_name)
        for index, shape in enumerate(kinds)
    ]


def _counts(count: int) -> dict[PodShape, int]:
    """The number of pods of each kind: bindable kinds share what hopeless ones leave, by largest remainder."""
    others = [shape for shape in SHAPES if shape.intent != "bound"] if count >= _SMALLEST_WITH_HOPELESS else []
    counts = {shape: max(1, count * shape.share // 1000) for shape in others}
    left = count - sum(counts.values())
    bound = [shape for shape in SHAPES if shape.intent == "bound"]
    whole = sum(shape.share for shape in bound)
    counts.update({shape: left * shape.share // whole for shape in bound})
    by_remainder = sorted(bound, key=lambda shape: -(left * shape.share % whole))
    for shape in by_remainder[: count - sum(counts.values())]:
        counts[shape] += 1
    return counts


def _pod(name: str, shape: PodShape, rng: Random, namespace: str, scheduler_name: str) -> Object:
    annotations: Object = {INTENT: shape.intent}
    spec: Object = {"schedulerName": scheduler_name, "priorityClassName": shape.priority_class, **shape.spec(rng)}
    if shape.run_seconds is not None:
        annotations[_RUN_SECONDS] = str(rng.randint(*shape.run_seconds))
        spec["restartPolicy"] = "Never"
    metadata = {"name": name, "namespace": namespace, "labels": {"app": shape.app}, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
