"""Defaults and the create and update strategies of all kinds: what the server adds, resets and carries over.

Each function changes its argument, a fresh copy, in place. `on_create` is for new objects; `on_update` is for writes
over an existing object, where the main resource keeps the old status and the status subresource keeps the old spec.
"""

import base64
from collections.abc import Callable, Mapping
from types import MappingProxyType

from kscheduler.api.defaults import devices as device_defaults
from kscheduler.api.defaults import pods
from kscheduler.api.defaults import pods as pod_defaults
from kscheduler.api.defaults import workloads as workload_defaults
from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import ServedResource
from kscheduler.api.releases import RELEASE, minor_of, numbers_of
from kscheduler.api.validation.limit_ranges import default_limit_range

_TEMPLATE_KINDS = frozenset({"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet", "Job", "ReplicationController"})
_STATUS_RESET_ON_CREATE = frozenset(
    {
        "CompositePodGroup",
        "DeviceTaintRule",
        "PodDisruptionBudget",
        "PodGroup",
        "ResourceClaim",
        "CronJob",
        *_TEMPLATE_KINDS,
    }
)
_KEPT_METADATA = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


# Counts that a status always has.
_FIRST_STATUS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "DaemonSet": dict.fromkeys(
            ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"), 0
        ),
        "PodDisruptionBudget": dict.fromkeys(
            ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"), 0
        ),
        "ReplicaSet": {"replicas": 0},
        "ReplicationController": {"replicas": 0},
        "StatefulSet": {"availableReplicas": 0, "replicas": 0},
    }
)


def on_create(resource: ServedResource, value: Object, release: str = RELEASE) -> None:
    """Fill in defaults and the initial status of a new object, as this release of Kubernetes has them."""
    metadata = value["metadata"]
    if resource.has_generation:
        metadata["generation"] = 1
    if resource.is_plain:
        if "status" in resource.subresources:
            value.pop("status", None)
        return
    if resource.kind in _TEMPLATE_KINDS:
        workload_defaults.fill_new(value)
        _default_template(value)
    workload_defaults.fill(value)
    default = _CREATE.get(resource.key)
    if default is not None:
        default(value)
    _fill_later(resource, value, release)
    if resource.kind in _STATUS_RESET_ON_CREATE:
        value["status"] = dict(_FIRST_STATUS.get(resource.kind, {}))


def _default_template(value: Object) -> None:
    spec = value.setdefault("spec", {})
    template = spec.get("template")
    if isinstance(template, dict):
        pod_defaults.default_pod_spec(template.setdefault("spec", {}))
    if value["kind"] not in {"DaemonSet", "Job"}:
        spec.setdefault("replicas", 1)


def _pod(pod: Object) -> None:
    spec = pod["spec"]
    pod_defaults.default_pod(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    pod_defaults.add_default_tolerations(spec)
    pod_defaults.merge_label_keys(pod)
    pod["status"] = pod_defaults.initial_status(pod)


def _node(node: Object) -> None:
    node.setdefault("spec", {})
    if node["spec"].get("podCIDR"):
        node["spec"].setdefault("podCIDRs", [node["spec"]["podCIDR"]])
    status = node.setdefault("status", {})
    if status.get("capacity"):
        status["allocatable"] = {**status["capacity"], **(status.get("allocatable") or {})}


def _namespace(namespace: Object) -> None:
    metadata = namespace["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
    spec = namespace.setdefault("spec", {})
    spec["finalizers"] = [*(f for f in spec.get("finalizers") or () if f != "kubernetes"), "kubernetes"]
    namespace["status"] = {"phase": "Active"}


def _service(service: Object) -> None:
    spec = service.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    if spec.setdefault("sessionAffinity", "None") == "ClientIP" and not spec.get("sessionAffinityConfig"):
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    service["status"] = {"loadBalancer": {}}
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] in {"NodePort", "LoadBalancer"} or spec.get("externalIPs"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port["targetPort"] = port.get("targetPort") or port.get("port")


def _claim(claim: Object) -> None:
    spec = claim.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    # Either source of a new volume stands for both, unless the newer one names another namespace's.
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source and not reference:
        spec["dataSourceRef"] = dict(source)
    elif reference and not source and not reference.get("namespace"):
        spec["dataSource"] = dict(reference)
    claim["status"] = {"phase": "Pending"}


def _volume(volume: Object) -> None:
    spec = volume.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    pods.default_source(spec)
    volume["status"] = {"phase": "Pending"}


def _priority_class(value: Object) -> None:
    value.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _storage_class(value: Object) -> None:
    value.setdefault("reclaimPolicy", "Delete")
    value.setdefault("volumeBindingMode", "Immediate")


def _csi_driver(driver: Object) -> None:
    spec = driver.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    for name in ("podInfoOnMount", "requiresRepublish", "seLinuxMount", "storageCapacity"):
        spec.setdefault(name, False)
    spec["volumeLifecycleModes"] = spec.get("volumeLifecycleModes") or ["Persistent"]


def _secret(secret: Object) -> None:
    """Move `stringData` to `data`."""
    secret.setdefault("type", "Opaque")
    plain = secret.pop("stringData", None) or {}
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
    if encoded:
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _quota(quota: Object) -> None:
    quota["status"] = {}


def _binding(binding: Object) -> None:
    reference = binding.get("roleRef")
    if isinstance(reference, dict):
        reference.setdefault("apiGroup", "rbac.authorization.k8s.io")
    for subject in binding.get("subjects") or ():
        if subject.get("kind") in {"User", "Group"}:
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


def _ingress(ingress: Object) -> None:
    ingress["status"] = {"loadBalancer": {}}


def _network_policy(policy: Object) -> None:
    spec = policy.setdefault("spec", {})
    spec.setdefault("policyTypes", ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or ():
            port["protocol"] = port.get("protocol") or "TCP"


def _endpoints(endpoints: Object) -> None:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            port["protocol"] = port.get("protocol") or "TCP"


def _ingress_class(value: Object) -> None:
    parameters = (value.get("spec") or {}).get("parameters")
    if parameters:
        parameters["scope"] = parameters.get("scope") or "Cluster"


def _flow_schema(schema: Object) -> None:
    spec = schema.setdefault("spec", {})
    spec["matchingPrecedence"] = spec.get("matchingPrecedence") or 1000
    schema["status"] = {}


def _priority_level(level: Object) -> None:
    spec = level.setdefault("spec", {})
    for form, shares in (("exempt", 0), ("limited", 30)):
        if form in spec:
            spec[form] = {"nominalConcurrencyShares": shares, "lendablePercent": 0} | spec[form]
    queuing = spec.get("limited", {}).get("limitResponse", {}).get("queuing")
    if queuing is not None:
        for name, number in (("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)):
            queuing[name] = queuing.get(name) or number
    level["status"] = {}


_CREATE: Mapping[str, Callable[[Object], None]] = MappingProxyType(
    {
        "pods": _pod,
        "nodes": _node,
        "namespaces": _namespace,
        "services": _service,
        "persistentvolumeclaims": _claim,
        "persistentvolumes": _volume,
        "secrets": _secret,
        "resourcequotas": _quota,
        "limitranges": default_limit_range,
        "rolebindings.rbac.authorization.k8s.io": _binding,
        "clusterrolebindings.rbac.authorization.k8s.io": _binding,
        "ingresses.networking.k8s.io": _ingress,
        "networkpolicies.networking.k8s.io": _network_policy,
        "endpoints": _endpoints,
        "ingressclasses.networking.k8s.io": _ingress_class,
        "flowschemas.flowcontrol.apiserver.k8s.io": _flow_schema,
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": _priority_level,
        "priorityclasses.scheduling.k8s.io": _priority_class,
        **device_defaults.ON_CREATE,
        "storageclasses.storage.k8s.io": _storage_class,
        "csidrivers.storage.k8s.io": _csi_driver,
    }
)


def _csi_node_status(node: Object) -> None:
    node.setdefault("status", {})


def _requested_at_pod_level(pod: Object) -> None:
    pod_defaults.default_pod_level_resources(pod["spec"], needs_limits=False)


def _prevents_no_scheduling(driver: Object) -> None:
    driver["spec"].setdefault("preventPodSchedulingIfMissing", False)


def _one_at_a_time(stateful_set: Object) -> None:
    rolling = stateful_set["spec"]["updateStrategy"].get("rollingUpdate")
    if rolling is not None:
        rolling.setdefault("maxUnavailable", 1)


# Defaults that came with a later release: (release, key) -> what it adds.
_LATER: Mapping[tuple[str, str], Callable[[Object], None]] = MappingProxyType(
    {
        ("1.37", "csidrivers.storage.k8s.io"): _prevents_no_scheduling,
        ("1.37", "csinodes.storage.k8s.io"): _csi_node_status,
        ("1.37", "pods"): _requested_at_pod_level,
        ("1.37", "statefulsets.apps"): _one_at_a_time,
    }
)


def _fill_later(resource: ServedResource, value: Object, release: str) -> None:
    for (since, key), default in _LATER.items():
        if key == resource.key and numbers_of(since) <= (minor_of(release) or ()):
            default(value)


# Kinds whose manifests may be sent again without the server's defaults.
_DEFAULTED_ON_UPDATE = frozenset(
    {
        "services",
        "persistentvolumeclaims",
        "persistentvolumes",
        "priorityclasses.scheduling.k8s.io",
        *device_defaults.ON_CREATE,
        "storageclasses.storage.k8s.io",
        "csidrivers.storage.k8s.io",
        "secrets",
        "resourcequotas",
        "limitranges",
        "rolebindings.rbac.authorization.k8s.io",
        "clusterrolebindings.rbac.authorization.k8s.io",
        "ingresses.networking.k8s.io",
        "networkpolicies.networking.k8s.io",
        "endpoints",
        "ingressclasses.networking.k8s.io",
        "flowschemas.flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
    }
)


def on_update(resource: ServedResource, old: Object, new: Object, subresource: str, release: str = RELEASE) -> None:
    """Carry over what this write may not change, and count a new generation if the spec changed."""
    # The order matters: defaults are filled in before the specs are compared, or each write would be a new generation.
    _keep_metadata(old["metadata"], new["metadata"])
    if subresource == "status":
        if resource.kind == "ResourceClaim":
            device_defaults.drop_deallocated(old, new)
        _keep(old, new, *(name for name in old.keys() | new.keys() if name not in {"status", "metadata"}))
        return
    if resource.key in _DEFAULTED_ON_UPDATE:
        _CREATE[resource.key](new)
    if "status" in resource.subresources:
        _keep(old, new, "status")
    if resource.is_plain:
        if resource.has_generation and _content(old) != _content(new):
            new["metadata"]["generation"] = int(old["metadata"].get("generation", 0)) + 1
        return
    if resource.key == "pods":
        pod_defaults.default_pod(new["spec"])
        _keep_assigned_fields(old["spec"], new["spec"])
        pod_defaults.add_default_tolerations(new["spec"])
    if resource.kind in _TEMPLATE_KINDS:
        _default_template(new)
        workload_defaults.fill_changed(old, new)
    workload_defaults.fill(new)
    _fill_later(resource, new, release)
    if resource.key == "namespaces" and not subresource:
        new["spec"] = old.get("spec", {})
    if resource.has_generation and old.get("spec") != new.get("spec"):
        new["metadata"]["generation"] = int(old["metadata"].get("generation", 0)) + 1


def _content(value: Object) -> Object:
    """What counts as a change of an object that is stored as it is."""
    return {name: part for name, part in value.items() if name not in {"metadata", "status", "apiVersion"}}


def _keep_metadata(old: Object, new: Object) -> None:
    for name in _KEPT_METADATA:
        if name in old:
            new[name] = old[name]
        else:
            new.pop(name, None)
    new["name"] = old["name"]
    if "namespace" in old:
        new["namespace"] = old["namespace"]


def _keep(old: Object, new: Object, *names: str) -> None:
    for name in names:
        if name in old:
            new[name] = old[name]
        else:
            new.pop(name, None)


def _keep_missing(old: Object, new: Object, names: tuple[str, ...]) -> None:
    for name in names:
        if name in old and name not in new:
            new[name] = old[name]


def _keep_assigned_fields(old: Object, new: Object) -> None:
    """Keep fields that admission has set at creation and that a manifest, sent again, does not have."""
    _keep_missing(old, new, ("priority", "preemptionPolicy", "nodeName", "overhead"))
