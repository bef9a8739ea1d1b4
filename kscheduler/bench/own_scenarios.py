"""Scenarios that scheduler_perf lacks: pods as controllers create them, many classes at once, preemption at scale.

Each pod of a StatefulSet has its own label, name and claim; each pod of a DaemonSet names its node; each pod of an
Indexed Job has its index as a label. A scheduler that compares whole pods finds no two alike.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from kscheduler.api.kinds import (
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
)
from kscheduler.api.well_known import HOSTNAME, ZONE
from kscheduler.bench import objects
from kscheduler.bench.scenario import (
    BenchmarkScenario,
    CreateNamespaces,
    CreateNodes,
    CreateObjects,
    CreatePods,
)
from kscheduler.bench.template import Object, Template, template

_ZONES: Final = ("zone-a", "zone-b", "zone-c")
_NODES: Final = CreateNodes(5000, objects.NODE, _ZONES)
_STATEFUL_SETS, _REPLICA_SETS, _JOBS, _DAEMON_SETS, _CLASSES, _BUDGETS = 50, 50, 50, 2, 100, 10


def _owned_by(kind: str, name: str, version: str = "apps/v1") -> list[Object]:
    return [{"apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}]


# --- StatefulSets -----------------------------------------------------------------------------------------------------

_STORAGE_CLASS: Final = template(
    STORAGE_CLASSES, "standard", {"provisioner": objects.EBS, "volumeBindingMode": "WaitForFirstConsumer"}
)
_SET_SELECTOR: Final[Object] = {"app": "db-$index"}
_HEADLESS_SERVICE: Final = template(SERVICES, "db-$index", {"spec": {"selector": _SET_SELECTOR}})
_STATEFUL_SET: Final = template(STATEFUL_SETS, "db-$index", {"spec": {"selector": {"matchLabels": _SET_SELECTOR}}})
_CLAIM: Final = template(
    PERSISTENT_VOLUME_CLAIMS,
    "data-db-$set-$member",
    {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Gi"}},
            "storageClassName": "standard",
            "volumeMode": "Filesystem",
        },
        "status": {"phase": "Pending"},
    },
)
_STATEFUL_POD: Final = objects.pod(
    "db-$set-$member",
    objects.SMALL,
    {
        "app": "db-$set",
        "apps.kubernetes.io/pod-index": "$member",
        "controller-revision-hash": "db-$set-5d8f",
        "statefulset.kubernetes.io/pod-name": "db-$set-$member",
    },
    metadata={"ownerReferences": _owned_by("StatefulSet", "db-$set")},
    volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-$set-$member"}}],
)

# --- Deployments ------------------------------------------------------------------------------------------------------

_REPLICA_SET: Final = template(
    REPLICA_SETS,
    "web-$index-5d8f",
    {"spec": {"selector": {"matchLabels": {"app": "web-$index", "pod-template-hash": "5d8f"}}}},
)
_SERVICE: Final = template(SERVICES, "web-$index", {"spec": {"selector": {"app": "web-$index"}}})
_REPLICA: Final = objects.pod(
    "web-$set-5d8f-",
    objects.SMALL,
    {"app": "web-$set", "pod-template-hash": "5d8f"},
    metadata={"ownerReferences": _owned_by("ReplicaSet", "web-$set-5d8f")},
)

# --- DaemonSets -------------------------------------------------------------------------------------------------------

_DAEMON_TOLERATIONS: Final = (
    *(
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
        for key in ("not-ready", "unreachable")
    ),
    *(
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoSchedule"}
        for key in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
    ),
)
_ON_ITS_NODE: Final[Object] = {
    "nodeAffinity": {
        objects.REQUIRED: {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["$node"]}]}]
        }
    }
}
_DAEMON_POD: Final = objects.pod(
    "agent-$set-$member",
    objects.SMALL,
    {"name": "agent-$set", "controller-revision-hash": "5d8f", "pod-template-generation": "1"},
    metadata={"ownerReferences": _owned_by("DaemonSet", "agent-$set")},
    tolerations=_DAEMON_TOLERATIONS,
    affinity=_ON_ITS_NODE,
)

# --- Indexed Jobs -----------------------------------------------------------------------------------------------------

_JOB_POD: Final = objects.pod(
    "job-$set-$member",
    objects.SMALL,
    {
        "batch.kubernetes.io/controller-uid": "uid-job-$set",
        "batch.kubernetes.io/job-completion-index": "$member",
        "batch.kubernetes.io/job-name": "job-$set",
        "controller-uid": "uid-job-$set",
        "job-name": "job-$set",
    },
    metadata={
        "annotations": {"batch.kubernetes.io/job-completion-index": "$member"},
        "ownerReferences": _owned_by("Job", "job-$set", "batch/v1"),
    },
)

# --- classes and preemption -------------------------------------------------------------------------------------------

# 50Mi to 599Mi: a hundred sizes.
_CLASS_POD: Final = objects.pod("pod-", {"cpu": "100m", "memory": "5$setMi"})
_VICTIM: Final = objects.pod("pod-low-", {"cpu": "900m", "memory": "500Mi"}, {"app": "old", "shard": "shard-$set"})
_BUDGET: Final = template(
    POD_DISRUPTION_BUDGETS,
    "shard-$index",
    {
        "spec": {"selector": {"matchLabels": {"shard": "shard-$index"}}},
        "status": {"disruptionsAllowed": 1},
    },
)
_NEW: Final[Object] = {"app": "new"}
# As a controller creates them; PreemptionBasic also measures the cost of a thousand nominations at once.
_PREEMPTORS_AT_ONCE: Final = 16


def _preemptor(**spec: Any) -> Template:
    return objects.pod("pod-high-", {"cpu": "3000m", "memory": "500Mi"}, _NEW, priority=10, **spec)


# --- mixed nodes, many Deployments ------------------------------------------------------------------------------------

_SIZES: Final = (("8", "32Gi"), ("16", "64Gi"), ("16", "32Gi"), ("32", "128Gi"), ("64", "256Gi"))
_DEDICATED: Final[Object] = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
_DEPLOYMENTS, _TEAMS = 100, 10


def _mixed_nodes() -> Iterator[CreateNodes]:
    """5,000 nodes of five sizes, half of them with an SSD; a twentieth is cordoned, another twentieth tainted."""
    for number, (cpu, memory) in enumerate(_SIZES):
        for disk in ("ssd", "hdd"):
            labels = {"disk": disk}
            yield CreateNodes(450, objects.node(f"{disk}-{number}-", cpu, memory, labels=labels), _ZONES)
    yield CreateNodes(250, objects.node("cordoned-", labels={"disk": "ssd"}, unschedulable=True), _ZONES)
    yield CreateNodes(250, objects.node("tainted-", labels={"disk": "ssd"}, taints=[_DEDICATED]), _ZONES)


_SSD_POD: Final = objects.pod("pod-", objects.SMALL, nodeSelector={"disk": "ssd"})
_DEPLOYED_POD: Final = objects.pod("app-$set-", objects.SMALL, {"app": "app-$set", "pod-template-hash": "5d8f"})
_SOCIABLE_POD: Final = objects.pod(
    "new-",
    objects.SMALL,
    {"app": "new", "pod-template-hash": "5d8f"},
    affinity={
        "podAffinity": {objects.PREFERRED: [objects.weighted(objects.app_term(ZONE, "app-1", namespaceSelector={}))]},
        "podAntiAffinity": {objects.PREFERRED: [objects.weighted(objects.app_term(HOSTNAME, "new"))]},
    },
    topologySpreadConstraints=[
        objects.spread(ZONE, 1, "DoNotSchedule", {"app": "new"}),
        objects.spread(HOSTNAME, 5, "DoNotSchedule", {"app": "new"}),
    ],
)


def running_pods(
    running: int, measured: int = 2000, nodes: int = 5000, kind: Template = objects.DEFAULT_POD
) -> BenchmarkScenario:
    """Pods that arrive where `running` like them run already, in one namespace; for plots."""
    large = objects.node("scheduler-perf-", cpu="64", memory="256Gi", pods="250")
    before = replace(kind, prefix="running-")
    operations = (
        CreateNodes(nodes, large, _ZONES),
        *((CreatePods(running, before, "sched-0", arrival="running"),) if running else ()),
        CreatePods(measured, kind, "sched-0", measured=True),
    )
    return BenchmarkScenario(f"{running} running pods", "cost by running pods", operations, most_per_node=100.0)


OWN: Final = (
    BenchmarkScenario(
        "SchedulingBasic100Classes",
        "SchedulingBasic with pods of 100 sizes, in turn",
        (
            CreateNodes(5000, objects.NODE),
            CreatePods(1000, _CLASS_POD, sets=_CLASSES),
            CreatePods(10000, _CLASS_POD, sets=_CLASSES, measured=True),
        ),
        goal=6_000,
    ),
    BenchmarkScenario(
        "StatefulSetsWithClaims",
        "50 StatefulSets of 100 pods, a WaitForFirstConsumer claim each, default spreading",
        (
            CreateNodes(5000, objects.NODE, _ZONES, companions=(objects.csi_node(),)),
            CreateObjects(_STORAGE_CLASS),
            CreateObjects(_HEADLESS_SERVICE, _STATEFUL_SETS),
            CreateObjects(_STATEFUL_SET, _STATEFUL_SETS),
            CreatePods(5000, _STATEFUL_POD, "default", measured=True, sets=_STATEFUL_SETS, companions=(_CLAIM,)),
        ),
        goal=3_000,
    ),
    BenchmarkScenario(
        "DeploymentsWithServices",
        "50 Deployments of 100 pods, one after the other, each with a Service; default spreading",
        (
            _NODES,
            CreateObjects(_SERVICE, _REPLICA_SETS),
            CreateObjects(_REPLICA_SET, _REPLICA_SETS),
            CreatePods(5000, _REPLICA, "default", measured=True, per_set=100),
        ),
    ),
    BenchmarkScenario(
        "DaemonSetsEveryNode",
        "2 DaemonSets over every node",
        (_NODES, CreatePods(_DAEMON_SETS * 5000, _DAEMON_POD, measured=True, one_per_node=True)),
        goal=3_000,
    ),
    BenchmarkScenario(
        "IndexedJobs",
        "50 Indexed Jobs of 100 pods, in turn",
        (_NODES, CreatePods(5000, _JOB_POD, measured=True, sets=_JOBS)),
        goal=3_000,
    ),
    BenchmarkScenario(
        "MixedNodes",
        "pods with a node selector; nodes of five sizes, some cordoned, some tainted",
        (
            *_mixed_nodes(),
            CreatePods(1000, _SSD_POD),
            CreatePods(10000, _SSD_POD, measured=True),
        ),
    ),
    BenchmarkScenario(
        "AmongManyDeployments",
        "preferred terms both ways and spread over zones and hosts, beside 20,000 pods of 100 Deployments",
        (
            _NODES,
            CreateNamespaces("team", _TEAMS),
            CreatePods(20000, _DEPLOYED_POD, "team-0", sets=_DEPLOYMENTS, arrival="running"),
            CreatePods(500, _SOCIABLE_POD, "team-2"),
            CreatePods(2000, _SOCIABLE_POD, "team-1", measured=True),
        ),
    ),
    BenchmarkScenario(
        "PreemptionOwnRows",
        "PreemptionBasic on 5,000 nodes, 16 preemptors at a time: what is on the node decides",
        (
            _NODES,
            CreatePods(20000, objects.LOW_PRIORITY_POD),
            CreatePods(1000, _preemptor(), measured=True, at_once=_PREEMPTORS_AT_ONCE),
        ),
        goal=1_000,
        most_per_node=1.0,
    ),
    BenchmarkScenario(
        "PreemptionWithConstraints",
        "likewise, with a hard zone spread of the preemptors and 10 disruption budgets over the victims",
        (
            _NODES,
            CreateObjects(_BUDGET, _BUDGETS),
            CreatePods(20000, _VICTIM, "default", sets=_BUDGETS),
            CreatePods(
                500,
                _preemptor(topologySpreadConstraints=[objects.spread(ZONE, 5, "DoNotSchedule", _NEW)]),
                "default",
                measured=True,
                at_once=_PREEMPTORS_AT_ONCE,
            ),
        ),
        goal=200,
        most_per_node=0.6,
    ),
)
