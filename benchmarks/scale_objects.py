"""Nodes and pods as a kubelet has left them, as bytes: what a cluster that has run for months holds.

A pod is 2 KB and on a node: a service account's token as a volume, two tolerations that admission adds, four
conditions, a container's status. Those of one Deployment (50 pods) differ in name, UID, node and times. One Deployment
in ten spreads over zones, one in ten keeps its pods apart by host where it can. A node is 10 KB: labels and annotations
of a cloud, 30 of 400 images under two names each, four conditions, six resources.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

ZONES: Final = 6
NAMESPACES: Final = 200
REPLICAS: Final = 50
IMAGES: Final = 400
_ON_A_NODE: Final = 30
REGISTRY: Final = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
Tree = dict[str, Any]


def node_name(number: int) -> str:
    return f"ip-10-{number >> 16}-{number >> 8 & 255}-{number & 255}.eu-central-1.compute.internal"


def zone(number: int) -> str:
    return f"eu-central-1{'abcdef'[number % ZONES]}"


def nodes(count: int, version: int = 1) -> Iterator[bytes]:
    """The JSON of each node."""
    images = [image(number) for number in range(IMAGES)]
    for number in range(count):
        yield msgspec.json.encode(node(number, images, version))


def node(number: int, images: list[Tree], version: int = 1) -> Tree:
    name = node_name(number)
    gives = {
        "cpu": "32",
        "ephemeral-storage": "95551679124",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": "129889396Ki",
        "pods": "110",
    }
    return {
        "metadata": {
            "name": name,
            "uid": f"6f1c2b9e-41d7-4c1e-9a55-{number:012x}",
            "resourceVersion": str(10_000_000 + number + version),
            "creationTimestamp": "2026-03-02T08:15:30Z",
            "labels": _node_labels(number, name),
            "annotations": {
                "alpha.kubernetes.io/provided-node-ip": "10.0.17.23",
                "csi.volume.kubernetes.io/nodeid": f'{{"ebs.csi.aws.com":"i-{number:017x}"}}',
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {"providerID": f"aws:///{zone(number)}/i-{number:017x}", "podCIDR": "10.2.3.0/24"},
        "status": {
            "allocatable": {**gives, "cpu": "31850m", "memory": "123456Mi"},
            "capacity": gives,
            "addresses": [{"address": "10.0.17.23", "type": "InternalIP"}, {"address": name, "type": "Hostname"}],
            "conditions": [_node_condition(kind, number) for kind in ("Memory", "Disk", "PID")] + _ready(number),
            "images": [images[(number * 7 + one * 13) % len(images)] for one in range(min(_ON_A_NODE, len(images)))],
            "nodeInfo": {"kubeletVersion": "v1.36.2", "osImage": "Bottlerocket OS 1.44.0", "architecture": "amd64"},
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    }


def _node_labels(number: int, name: str) -> dict[str, str]:
    return {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": f"m6i.{8 + number % 3}xlarge",
        "beta.kubernetes.io/os": "linux",
        "eks.amazonaws.com/capacityType": "ON_DEMAND",
        "eks.amazonaws.com/nodegroup": f"workers-{number % 20}",
        "failure-domain.beta.kubernetes.io/region": "eu-central-1",
        "failure-domain.beta.kubernetes.io/zone": zone(number),
        "kubernetes.io/arch": "amd64",
        HOST: name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": f"m6i.{8 + number % 3}xlarge",
        "topology.ebs.csi.aws.com/zone": zone(number),
        "topology.kubernetes.io/region": "eu-central-1",
        ZONE: zone(number),
    }


def _node_condition(kind: str, number: int) -> Tree:
    return {
        "type": f"{kind}Pressure",
        "status": "False",
        "reason": f"KubeletHasSufficient{kind}",
        "message": f"kubelet has sufficient {kind.lower()} available",
        "lastHeartbeatTime": f"2026-11-21T12:{number % 60:02}:{number % 59:02}Z",
        "lastTransitionTime": "2026-03-02T08:15:29Z",
    }


def _ready(number: int) -> list[Tree]:
    ready = {**_node_condition("", number), "type": "Ready", "status": "True", "reason": "KubeletReady"}
    return [{**ready, "message": "kubelet is posting ready status"}]


def image(number: int) -> Tree:
    name = f"{REGISTRY}/team-{number % 40}/service-{number}"
    digest = f"{number * 2654435761 % 2**64:016x}" * 4
    return {"names": [f"{name}@sha256:{digest}", f"{name}:v1.{number % 90}.3"], "sizeBytes": 50_000_000 + number}


# --- pods -------------------------------------------------------------------------------------------------------------


def pods(count: int, nodes: int, scheduler: str) -> Iterator[bytes]:
    """The JSON of each running pod; the pods of a Deployment lie far apart."""
    for number in range(count):
        yield msgspec.json.encode(running_pod(number, count, nodes, scheduler))


def running_pod(number: int, count: int, nodes: int, scheduler: str) -> Tree:
    """One of so many."""
    deployments = max(1, count // REPLICAS)
    app, member = number % deployments, number // deployments
    return pod(number, app, node_name((number * 7919 + member) % nodes), scheduler)


def pending_pod(number: int, app: int, scheduler: str, wish: Tree) -> Tree:
    """A new pod of a Deployment, with a wish of its own."""
    made = pod(10**9 + number, app, "", scheduler)
    made["spec"].update(wish)
    made["status"] = {"phase": "Pending", "qosClass": "Burstable"}
    return made


def pod(number: int, app: int, on: str, scheduler: str) -> Tree:
    """A pod of a Deployment, by its number, on a node."""
    token = {"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "kube-api-access", "readOnly": True}
    labels = {"app": f"service-{app}", "pod-template-hash": f"{app * 40503 % 2**32:010x}", "team": f"team-{app % 40}"}
    container = {
        "name": "main",
        "image": f"{REGISTRY}/team-{app % 40}/service-{app % IMAGES}:v1.{app % 90}.3",
        "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
        "volumeMounts": [token],
    }
    spec: Tree = {
        "nodeName": on,
        "schedulerName": scheduler,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "terminationGracePeriodSeconds": 30,
        "containers": [container],
        "tolerations": [_toleration(key) for key in ("not-ready", "unreachable")],
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "volumes": [
            {"name": f"kube-api-access-{number % 2**20:05x}", "projected": {"defaultMode": 420, "sources": []}}
        ],
        **_wish(app),
    }
    return {"metadata": _metadata(number, app, labels), "spec": spec, "status": _status(number)}


def _wish(app: int) -> Tree:
    """What every tenth Deployment asks for besides."""
    selector = {"matchLabels": {"app": f"service-{app}"}}
    if app % 10 == 1:
        spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}
        return {"topologySpreadConstraints": [spread]}
    if app % 10 == 2:
        term = {"weight": 100, "podAffinityTerm": {"topologyKey": HOST, "labelSelector": selector}}
        return {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}
    return {}


def _metadata(number: int, app: int, labels: dict[str, str]) -> Tree:
    owner = f"service-{app}-{labels['pod-template-hash']}"
    suffix = f"{number * 2654435761 % 2**32:08x}"
    return {
        "name": f"{owner}-{suffix}",
        "generateName": f"{owner}-",
        "namespace": f"team-{app % NAMESPACES}",
        "uid": f"0b0f7c11-5c0a-4d1e-8f4e-{number:012x}",
        "resourceVersion": str(20_000_000 + number),
        "creationTimestamp": f"2026-11-{number % 20 + 1:02}T07:{number // 60 % 60:02}:{number % 60:02}Z",
        "labels": labels,
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "blockOwnerDeletion": True,
                "controller": True,
                "kind": "ReplicaSet",
                "name": owner,
                "uid": f"7d1d1c52-9f0e-47a5-8f0a-{app:012x}",
            }
        ],
    }


def _status(number: int) -> Tree:
    at = f"2026-11-{number % 20 + 1:02}T07:{number // 60 % 60:02}:{(number + 7) % 60:02}Z"
    running, given = {"startedAt": at}, {"cpu": "250m", "memory": "512Mi"}
    resources = {"requests": given, "limits": {"memory": "1Gi"}}
    return {
        "phase": "Running",
        "qosClass": "Burstable",
        "hostIP": "10.0.17.23",
        "podIP": "10.2.3.4",
        "startTime": at,
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": at}
            for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
        "containerStatuses": [
            {
                "name": "main",
                "ready": True,
                "state": {"running": running},
                "allocatedResources": given,
                "resources": resources,
            },
        ],
    }


def _toleration(key: str) -> Tree:
    return {"effect": "NoExecute", "key": f"node.kubernetes.io/{key}", "operator": "Exists", "tolerationSeconds": 300}
