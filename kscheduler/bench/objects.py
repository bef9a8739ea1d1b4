"""The templates of scheduler_perf's scenarios, under its names, with the API server's defaults for pods.

Sizes are upstream's: nodes of 4 CPUs, 32 GiB and 110 pods; pods of 100m CPU and 500 MiB.
"""

from typing import Any, Final

from kscheduler.api.kinds import (
    CSI_NODES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SERVICES,
)
from kscheduler.api.storage import BIND_COMPLETED, MIGRATED_PLUGINS
from kscheduler.api.well_known import HOSTNAME, ZONE
from kscheduler.bench.cluster import SCHEDULER_NAME
from kscheduler.bench.template import Object, Template, template

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
SMALL: Final[Object] = {"cpu": "100m", "memory": "500Mi"}
EBS: Final = "ebs.csi.aws.com"
_ADDED_TOLERATIONS: Final = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
)
_TEAM: Final[Object] = {"matchLabels": {"team": "devops"}}


# --- nodes ------------------------------------------------------------------------------------------------------------


def node(
    prefix: str,
    cpu: str = "4",
    memory: str = "32Gi",
    pods: str = "110",
    *,
    labels: Object | None = None,
    **spec: Any,
) -> Template:
    """A ready node."""
    gives = {"cpu": cpu, "memory": memory, "pods": pods}
    status = {"capacity": gives, "allocatable": gives, "conditions": [{"type": "Ready", "status": "True"}]}
    return template(NODES, prefix, {"metadata": {"labels": labels or {}}, "spec": spec, "status": status})


NODE: Final = node("scheduler-perf-")
NAMED_NODE: Final = node("scheduler-perf-node", pods="90000")
TAINTED_NODE: Final = node("taint-node-", taints=[{"key": "foo", "effect": "NoSchedule"}])
CHURN_NODE: Final = node("node-churn-", cpu="0", memory="0", pods="0")


def csi_node(*, migrated: bool = False) -> Template:
    """The CSINode of a node that attaches at most 39 volumes."""
    driver = {"name": EBS, "nodeID": "$node", "allocatable": {"count": 39}}
    annotations = {MIGRATED_PLUGINS: "kubernetes.io/aws-ebs"} if migrated else {}
    return template(CSI_NODES, "$node", {"metadata": {"annotations": annotations}, "spec": {"drivers": [driver]}})


# --- pods -------------------------------------------------------------------------------------------------------------


def pod(
    prefix: str,
    requests: Object | None = None,
    labels: Object | None = None,
    *,
    metadata: Object | None = None,
    tolerations: tuple[Object, ...] = (),
    status: Object | None = None,
    **spec: Any,
) -> Template:
    """A pod with one container, as the API server shows it."""
    container: Object = {"name": "pause", "image": "registry.k8s.io/pause:3.10.2", "ports": [{"containerPort": 80}]}
    if requests is not None:
        container["resources"] = {"requests": requests, "limits": requests}
    whole = {
        "schedulerName": SCHEDULER_NAME,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        "tolerations": [*tolerations, *_ADDED_TOLERATIONS],
        **spec,
    }
    meta = {"labels": labels or {}, **(metadata or {})}
    return template(PODS, prefix, {"metadata": meta, "spec": whole, "status": {"phase": "Pending", **(status or {})}})


def term(key: str, color: str, **fields: Any) -> Object:
    """A pod affinity term for pods of a colour; by default in the two namespaces of upstream's scenarios."""
    where = fields or {"namespaces": ["sched-1", "sched-0"]}
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"color": color}}, **where}


def app_term(key: str, app: str, **fields: Any) -> Object:
    """A pod affinity term for pods of an application, in the pod's own namespace unless `fields` say otherwise."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **fields}


def weighted(term: Object) -> Object:
    """A preferred term."""
    return {"weight": 1, "podAffinityTerm": term}


def spread(key: str, skew: int, when: str, labels: Object, **fields: Any) -> Object:
    """A spread constraint."""
    selector = {"matchLabels": labels}
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when, "labelSelector": selector, **fields}


def affine(prefix: str, color: str, kind: str, strength: str, terms: list[Object]) -> Template:
    """A pod of a colour with terms of one kind (`podAffinity`, `podAntiAffinity`) and strength."""
    return pod(prefix, SMALL, {"color": color}, affinity={kind: {strength: terms}})


DEFAULT_POD: Final = pod("pod-", SMALL)
LIGHT_POD: Final = pod("light-pod-")
LABELLED_POD: Final = pod("pod-", labels={"app": "scheduler-perf"})
FINALIZED_POD: Final = pod("finalized-pod-")
LOW_PRIORITY_POD: Final = pod("pod-low-", {"cpu": "900m", "memory": "500Mi"})
HIGH_PRIORITY_POD: Final = pod("pod-high-", {"cpu": "3000m", "memory": "500Mi"}, priority=10)
HOPELESS_POD: Final = pod("pod-h-", {"cpu": "9", "memory": "500Mi"}, priority=10)
GATED_POD: Final = pod("gated-pod-", schedulingGates=[{"name": "test.k8s.io/hold"}])
GATED_AFFINE_POD: Final = pod(
    "gated-pod-",
    labels={"app": "scheduler-perf"},
    schedulingGates=[{"name": "scheduling-gate-1"}],
    affinity={
        "podAffinity": {
            REQUIRED: [{"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "scheduler-perf"}}}]
        }
    },
)
NODE_AFFINITY_POD: Final = pod(
    "node-affinity-",
    SMALL,
    affinity={
        "nodeAffinity": {
            REQUIRED: {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]}]}
                ]
            }
        }
    },
)
AFFINITY_POD: Final = affine("affinity-pod-", "blue", "podAffinity", REQUIRED, [term(ZONE, "blue")])
ANTI_AFFINITY_POD: Final = affine("anti-affinity-pod-", "green", "podAntiAffinity", REQUIRED, [term(HOSTNAME, "green")])
GREEN_POD: Final = pod("anti-affinity-matching-pod-", labels={"color": "green"})
PREFERRED_AFFINITY_POD: Final = affine(
    "preferred-affinity-pod-", "red", "podAffinity", PREFERRED, [weighted(term(HOSTNAME, "red"))]
)
PREFERRED_ANTI_AFFINITY_POD: Final = affine(
    "preferred-anti-affinity-pod-", "yellow", "podAntiAffinity", PREFERRED, [weighted(term(HOSTNAME, "yellow"))]
)
NS_AFFINITY_POD: Final = affine(
    "affinity-pod-", "blue", "podAffinity", REQUIRED, [term(ZONE, "blue", namespaceSelector=_TEAM)]
)
NS_ANTI_AFFINITY_POD: Final = affine(
    "anti-affinity-pod-", "green", "podAntiAffinity", REQUIRED, [term(HOSTNAME, "green", namespaceSelector=_TEAM)]
)
NS_PREFERRED_AFFINITY_POD: Final = affine(
    "preferred-affinity-pod-",
    "red",
    "podAffinity",
    PREFERRED,
    [weighted(term(HOSTNAME, "red", namespaceSelector=_TEAM))],
)
NS_PREFERRED_ANTI_AFFINITY_POD: Final = affine(
    "anti-affinity-pod-",
    "green",
    "podAntiAffinity",
    PREFERRED,
    [weighted(term(HOSTNAME, "green", namespaceSelector=_TEAM))],
)
_BLUE: Final[Object] = {"color": "blue"}
SPREAD_POD: Final = pod(
    "spreading-pod-", SMALL, _BLUE, topologySpreadConstraints=[spread(ZONE, 5, "DoNotSchedule", _BLUE)]
)
PREFERRED_SPREAD_POD: Final = pod(
    "spreading-pod-", SMALL, _BLUE, topologySpreadConstraints=[spread(ZONE, 5, "ScheduleAnyway", _BLUE)]
)
_POLICIES: Final[Object] = {"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Honor"}
INCLUSION_POLICY_POD: Final = pod(
    "spreading-pod-with-node-inclusion-policy-",
    SMALL,
    {"foo": "bar"},
    topologySpreadConstraints=[spread(HOSTNAME, 1, "DoNotSchedule", {"foo": "bar"}, **_POLICIES)],
)
DAEMON_POD: Final = pod(
    "daemonset-",
    affinity={
        "nodeAffinity": {
            REQUIRED: {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["scheduler-perf-node"]}]}
                ]
            }
        }
    },
)
SECRET_POD: Final = pod("secret-volume-", SMALL, volumes=[{"name": "secret", "secret": {"secretName": "secret"}}])
CLAIM_POD: Final = pod("pod-", SMALL, volumes=[{"name": "vol", "persistentVolumeClaim": {"claimName": "pvc-$index"}}])
HIGH_PRIORITY_CLAIM_POD: Final = pod(
    "pod-high-",
    {"cpu": "3000m", "memory": "500Mi"},
    priority=10,
    volumes=[{"name": "vol", "persistentVolumeClaim": {"claimName": "pvc-$index"}}],
)
SERVICE: Final = template(SERVICES, "service-", {"spec": {"selector": {"app": "scheduler-perf"}}})
CHURN_SERVICE: Final = template(SERVICES, "service-churn-", {"spec": {"selector": {"app": "foo"}}})


# --- volumes ----------------------------------------------------------------------------------------------------------


def _volume(source: Object) -> Template:
    owner = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "$namespace", "name": "pvc-$index"}
    spec = {"accessModes": ["ReadOnlyMany"], "capacity": {"storage": "1Gi"}, "claimRef": owner, **source}
    return template(PERSISTENT_VOLUMES, "pv-$namespace-$index", {"spec": spec, "status": {"phase": "Bound"}})


_BOUND_CLAIM: Final = template(
    PERSISTENT_VOLUME_CLAIMS,
    "pvc-$index",
    {
        "metadata": {"annotations": {BIND_COMPLETED: "true"}},
        "spec": {
            "accessModes": ["ReadOnlyMany"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": "pv-$namespace-$index",
        },
        "status": {"phase": "Bound"},
    },
)
AWS_VOLUME: Final = (_volume({"awsElasticBlockStore": {"volumeID": "$namespace-$index"}}), _BOUND_CLAIM)
CSI_VOLUME: Final = (_volume({"csi": {"driver": EBS, "volumeHandle": "$namespace-$index"}}), _BOUND_CLAIM)
