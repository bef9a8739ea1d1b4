"""Objects as they are stored: defaults, what is assigned, and the warnings about them."""

from typing import Any

from tests.embedded.likeness.exchanges import APPLY, NAMESPACE, Object, Request, Row

LIMITS = {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}}
MAIN = {"name": "c", "image": "nginx", "resources": LIMITS}
LABELS = {"app": "a"}
PATHS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "ReplicationController": "/api/v1/namespaces/{}/replicationcontrollers",
    "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "CronJob": "/apis/batch/v1/namespaces/{}/cronjobs",
    "Service": "/api/v1/namespaces/{}/services",
    "Endpoints": "/api/v1/namespaces/{}/endpoints",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "Node": "/api/v1/nodes",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "CSIDriver": "/apis/storage.k8s.io/v1/csidrivers",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "Ingress": "/apis/networking.k8s.io/v1/namespaces/{}/ingresses",
}


def collection(kind: str) -> str:
    return PATHS[kind].format(NAMESPACE)


def manifest(kind: str, *, annotations: Object | None = None, name: str = "o", **fields: Any) -> Object:
    parts = collection(kind).split("/")
    group_version = parts[2] if parts[1] == "api" else f"{parts[2]}/{parts[3]}"
    metadata = {"name": name, **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": group_version, "kind": kind, "metadata": metadata, **fields}


def new(name: str, body: Object) -> Row:
    """What a dry run of a POST shows."""
    return Row(name, Request("POST", f"{collection(body['kind'])}?dryRun=All", body), shows_object=True)


def pod(name: str, *, annotations: Object | None = None, object_name: str = "o", **spec: Any) -> Row:
    spec = {"automountServiceAccountToken": False, "containers": [MAIN], **spec}
    return new(name, manifest("Pod", annotations=annotations, name=object_name, spec=spec))


def container(**fields: Any) -> list[Object]:
    return [{"name": "c", "image": "nginx:1", **fields}]


def workload(kind: str, template: Object, **spec: Any) -> Object:
    """A workload of this kind with this pod spec."""
    held: Object = {"metadata": {"labels": LABELS}, "spec": template}
    if kind in {"Job", "CronJob"}:
        held["spec"] = {"restartPolicy": "Never", **template}
        if kind == "CronJob":
            return manifest(kind, spec={"schedule": "* * * * *", "jobTemplate": {"spec": {"template": held}}, **spec})
        return manifest(kind, spec={"template": held, **spec})
    selector: Any = LABELS if kind == "ReplicationController" else {"matchLabels": LABELS}
    return manifest(kind, spec={"selector": selector, "template": held, **spec})


WORKLOADS = ("ReplicationController", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet", "Job", "CronJob")
HOST: Object = {
    "hostNetwork": True,
    "containers": container(ports=[{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}]),
}
PROBED = container(
    livenessProbe={"httpGet": {"port": 80}},
    readinessProbe={"grpc": {"port": 80}},
    startupProbe={"exec": {"command": ["a"]}, "periodSeconds": 3},
    lifecycle={"preStop": {"httpGet": {"port": 80}}},
    env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    volumeMounts=[{"name": "none", "mountPath": "/a"}],
)
VOLUMES = [
    {"name": "none"},
    {"name": "path", "hostPath": {"path": "/a"}},
    {"name": "secret", "secret": {"secretName": "a"}},
    {"name": "config", "configMap": {"name": "a"}},
    {"name": "down", "downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    {"name": "all", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"secret": {"name": "a"}}]}},
    {"name": "iscsi", "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2001-04.com.example:a", "lun": 0}},
    {
        "name": "own",
        "ephemeral": {
            "volumeClaimTemplate": {
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            }
        },
    },
]
DEAD = [
    {"name": "a", "gitRepo": {"repository": "a"}},
    {"name": "b", "glusterfs": {"endpoints": "a", "path": "a"}},
    {"name": "c", "cephfs": {"monitors": ["a"]}},
    {"name": "d", "rbd": {"monitors": ["a"], "image": "a"}},
    {"name": "e", "flocker": {"datasetName": "a"}},
    {"name": "f", "quobyte": {"registry": "a:1", "volume": "a"}},
    {"name": "g", "storageos": {"volumeName": "a"}},
    {"name": "h", "photonPersistentDisk": {"pdID": "a"}},
    {"name": "i", "scaleIO": {"gateway": "a", "system": "a", "secretRef": {"name": "a"}, "volumeName": "a"}},
]
OLD_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "beta.kubernetes.io/arch", "operator": "Exists"}]}]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 1,
                "preference": {"matchExpressions": [{"key": "node-role.kubernetes.io/master", "operator": "Exists"}]},
            }
        ],
    },
    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]},
    "podAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname"}}
        ]
    },
}
SPREAD = [
    {"maxSkew": 1, "topologyKey": "failure-domain.beta.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
]

PODS = (
    pod("a pod's requests from limits"),
    pod("a pod's init container with limits", initContainers=[{**MAIN, "name": "i"}]),
    pod("a pod on the host's network", **HOST),
    pod("a pod with the old name of its account", serviceAccount="default"),
    pod("a pod with probes and fields", containers=PROBED, volumes=VOLUMES),
    pod("a pod with dead volumes", volumes=DEAD),
    pod("a pod with old labels", nodeSelector={"beta.kubernetes.io/os": "linux"}, affinity=OLD_AFFINITY),
    pod("a pod spread by an old label", topologySpreadConstraints=SPREAD),
    pod("a pod with old annotations", annotations={"scheduler.alpha.kubernetes.io/critical-pod": ""}),
    pod(
        "a pod with an old seccomp profile", annotations={"seccomp.security.alpha.kubernetes.io/pod": "runtime/default"}
    ),
    pod("a pod with a dot in its name", object_name="a.b"),
    pod(
        "a pod with a port twice",
        containers=container(ports=[{"containerPort": 80, "name": "a"}, {"containerPort": 80}]),
    ),
    pod(
        "containers with a port's name twice",
        containers=[
            *container(ports=[{"containerPort": 80, "name": "a"}]),
            {"name": "d", "image": "a:1", "ports": [{"containerPort": 81, "name": "a"}]},
        ],
    ),
    pod("a pod with half a byte", containers=container(resources={"requests": {"memory": "100m"}})),
    pod(
        "a pod with a variable twice",
        containers=container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
    ),
    pod("a pod with a pull secret twice", imagePullSecrets=[{"name": "a"}, {"name": "a"}]),
    pod("a pod that ends in the past", terminationGracePeriodSeconds=-1),
)
TEMPLATES = (
    *(new(f"{kind}: limits", workload(kind, {"containers": [MAIN]})) for kind in WORKLOADS),
    *(new(f"{kind}: the host's network", workload(kind, HOST)) for kind in WORKLOADS),
    *(new(f"{kind}: an account", workload(kind, {"containers": [MAIN], "serviceAccount": "a"})) for kind in WORKLOADS),
    *(new(f"{kind}: dead volumes", workload(kind, {"containers": [MAIN], "volumes": DEAD[:2]})) for kind in WORKLOADS),
    new("Deployment: probes and volumes", workload("Deployment", {"containers": PROBED, "volumes": VOLUMES})),
    new(
        "Deployment: old labels",
        workload("Deployment", {"containers": [MAIN], "nodeSelector": {"beta.kubernetes.io/arch": "amd64"}}),
    ),
    new(
        "ReplicationController: labels of its own",
        {**workload("ReplicationController", {"containers": [MAIN]}), "metadata": {"name": "o", "labels": {"b": "c"}}},
    ),
    new(
        "ReplicationController: no selector",
        manifest(
            "ReplicationController", spec={"template": {"metadata": {"labels": LABELS}, "spec": {"containers": [MAIN]}}}
        ),
    ),
    new(
        "Job: indexed", workload("Job", {"containers": [MAIN]}, completionMode="Indexed", completions=3, parallelism=2)
    ),
)


def service(**spec: Any) -> Object:
    return manifest("Service", spec={"selector": {"a": "b"}, "ports": [{"port": 80}], **spec})


NODE_PORT = {**service(type="NodePort", ports=[{"port": 80, "nodePort": 30123}])}
TAKEN = {**NODE_PORT, "metadata": {"name": "first"}}
TAKE = Request("POST", collection("Service"), TAKEN)
GIVE_BACK = Request("DELETE", f"{collection('Service')}/first")


def beside(name: str, body: Object) -> Row:
    """A Service beside one that has port 30123."""
    return Row(
        name, Request("POST", f"{collection('Service')}?dryRun=All", body), (TAKE,), (GIVE_BACK,), shows_object=True
    )


def changed(name: str, **spec: Any) -> Row:
    """A Service that has port 30123 and is changed."""
    body = {**TAKEN, "spec": {**TAKEN["spec"], **spec}}
    path = f"{collection('Service')}/first?dryRun=All"
    return Row(name, Request("PUT", path, body), (TAKE,), (GIVE_BACK,), shows_object=True)


TWO_PORTS = [{"name": "a", "port": 80, "nodePort": 30123}, {"name": "b", "port": 81, "nodePort": 30123}]
TWO_PROTOCOLS = [{**TWO_PORTS[0]}, {**TWO_PORTS[1], "protocol": "UDP"}]
SERVICES = (
    beside("a node port that another has", NODE_PORT),
    beside("a node port of no type", service(ports=[{"port": 80, "nodePort": 30123}])),
    new("a node port twice in a service", service(type="NodePort", ports=TWO_PORTS)),
    new("a node port for two protocols", service(type="NodePort", ports=TWO_PROTOCOLS)),
    new("a node port for a service without one", service(ports=[{"port": 80, "nodePort": 30123}])),
    Row(
        "a node port outside of the range",
        Request("POST", collection("Service"), service(type="NodePort", ports=[{"port": 80, "nodePort": 130}])),
    ),
    new("an address outside of the range, not in earnest", service(clusterIP="1.2.3.4")),
    Row("an address outside of the range", Request("POST", collection("Service"), service(clusterIP="1.2.3.4"))),
    new("a service without an address", service(clusterIP="None")),
    new("a service that keeps its clients", service(sessionAffinity="ClientIP")),
    new("a load balancer", service(type="LoadBalancer")),
    new("a load balancer of its own nodes", service(type="LoadBalancer", externalTrafficPolicy="Local")),
    new("a load balancer without node ports", service(type="LoadBalancer", allocateLoadBalancerNodePorts=False)),
    new("a name elsewhere", service(type="ExternalName", externalName="a.example")),
    new("external addresses", service(externalIPs=["1.2.3.4"])),
    new("a name elsewhere that is not used", service(externalName="a.example")),
    changed("a service whose port changes", ports=[{"port": 81}]),
    changed("a service that is no node port any more", type="ClusterIP"),
    changed("a service that moves elsewhere", type="ExternalName", externalName="a.example"),
)


def claim(**fields: Any) -> Object:
    requests = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return manifest("PersistentVolumeClaim", spec=requests, **fields)


def volume(**spec: Any) -> Object:
    return manifest("PersistentVolume", spec={"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, **spec})


OLD_ZONES = [{"matchLabelExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone", "values": ["a"]}]}]
OTHERS = (
    new("a claim with an old annotation", claim(annotations={"volume.beta.kubernetes.io/storage-class": "a"})),
    new("a volume of a path", volume(hostPath={"path": "/a"})),
    new("a dead volume", volume(rbd={"monitors": ["a"], "image": "a"})),
    new("a volume to be scrubbed", volume(nfs={"server": "a", "path": "/a"}, persistentVolumeReclaimPolicy="Recycle")),
    new("a class with an old zone", manifest("StorageClass", provisioner="a.example/b", allowedTopologies=OLD_ZONES)),
    new(
        "a driver that gets tokens",
        manifest("CSIDriver", name="a.example", spec={"tokenRequests": [{"audience": "a"}]}),
    ),
    new(
        "a runtime class with an old label",
        manifest("RuntimeClass", handler="a", scheduling={"nodeSelector": {"beta.kubernetes.io/os": "linux"}}),
    ),
    new(
        "an ingress with its class in an annotation",
        manifest(
            "Ingress",
            annotations={"kubernetes.io/ingress.class": "a"},
            spec={"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}},
        ),
    ),
    new("endpoints", manifest("Endpoints")),
    new(
        "an account with an annotation",
        manifest("ServiceAccount", annotations={"kubernetes.io/enforce-mountable-secrets": "true"}),
    ),
    Row(
        "a version that nothing has yet",
        Request(
            "POST", f"{collection('ServiceAccount')}?dryRun=All", {"metadata": {"name": "a", "resourceVersion": "5"}}
        ),
    ),
    Row(
        "a version that nothing has yet, in earnest",
        Request("POST", collection("ServiceAccount"), {"metadata": {"name": "a", "resourceVersion": "5"}}),
    ),
)


FIRST = {**service(clusterIP="10.96.77.7"), "metadata": {"name": "first"}}
SECOND = Request("POST", collection("Service"), service(clusterIP="10.96.77.7"))
MORE_SERVICES = (
    Row("an address that another has", SECOND, (Request("POST", collection("Service"), FIRST),), (GIVE_BACK,)),
    Row(
        "a node port that another has, in earnest",
        Request("POST", collection("Service"), NODE_PORT),
        (TAKE,),
        (GIVE_BACK,),
    ),
    new(
        "two protocols of one port",
        service(type="NodePort", ports=[{**TWO_PORTS[0]}, {**TWO_PORTS[0], "name": "b", "protocol": "UDP"}]),
    ),
)


def applied(name: str, kind: str, first: Object, then: Object) -> Row:
    """Two manifests applied after one another by the same manager."""
    target = f"{collection(kind)}/o?fieldManager=t"
    before = Request("PATCH", target, workload(kind, first), APPLY)
    request = Request("PATCH", target, workload(kind, then), APPLY)
    after = Request("DELETE", f"{collection(kind)}/o")
    return Row(name, request, (before,), (after,), shows_object=True)


def containers(*names: str) -> list[Object]:
    return [{"name": name, "image": "a:1"} for name in names]


def started(*names: str) -> Object:
    return {"containers": containers("main"), "initContainers": containers(*names)}


# No controller writes to it within a minute, and its template is the deepest one.
_APPLIED = ("CronJob",)
APPLIES = (
    *(applied(f"{kind}: one before the other", kind, started("setup"), started("proxy", "setup")) for kind in _APPLIED),
    applied("turned round", "CronJob", started("a", "b", "c"), started("c", "b", "a")),
    applied("one between two", "CronJob", started("a", "c"), started("a", "b", "c")),
    applied("one goes and one comes", "CronJob", started("a", "b", "c"), started("c", "d", "a")),
    applied(
        "limits that are raised",
        "CronJob",
        {"containers": [MAIN]},
        {"containers": container(resources={"limits": {"cpu": "500m"}})},
    ),
)

ROWS = (*PODS, *TEMPLATES, *SERVICES, *MORE_SERVICES, *OTHERS, *APPLIES)
