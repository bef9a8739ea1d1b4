"""Admission at creation: rules that need other objects than the one to be created.

The namespace must exist and not be terminating; a pod's priority comes from its PriorityClass, its overhead from its
RuntimeClass, and the service account that it names must exist.
"""

from kscheduler.api.machinery.api_errors import Object, forbidden, not_found
from kscheduler.api.machinery.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    SERVICE_ACCOUNTS,
    ServedResource,
)
from kscheduler.api.priority import SYSTEM_PRIORITIES, default_priority_class
from kscheduler.api.well_known import NOT_READY
from kscheduler.embedded.objects.access.roles import initial_access
from kscheduler.embedded.objects.store import ObjectStore

INITIAL_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


def admit_namespace(store: ObjectStore, resource: ServedResource, value: Object) -> None:
    """Check that the namespace of a new object exists and is not terminating. Raises 404 or 403."""
    if not resource.namespaced:
        return
    namespace = value["metadata"]["namespace"]
    record = store.get(NAMESPACES.collection, "", namespace)
    if record is None:
        raise not_found("namespaces", "", namespace)
    if "deletionTimestamp" in record.value["metadata"]:
        reason = f"unable to create new content in namespace {namespace} because it is being terminated"
        raise forbidden(resource.plural, resource.group, value["metadata"]["name"], reason)


def admit_node(node: Object) -> None:
    """Taint a new node: it is not ready until its conditions say so, which a node controller will have seen."""
    taints = node["spec"].get("taints") or []
    if not any((taint.get("key"), taint.get("effect")) == (NOT_READY, "NoSchedule") for taint in taints):
        node["spec"]["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]


def admit_account(store: ObjectStore, pod: Object) -> None:
    """Check that a pod's service account exists; `default` exists in every namespace. Raises 403."""
    namespace, name = pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName") or "default"
    if name == "default" or store.get(SERVICE_ACCOUNTS.collection, namespace, name) is not None:
        return
    reason = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
    raise forbidden(PODS.plural, "", pod["metadata"]["name"], reason)


def admit_runtime_class(store: ObjectStore, pod: Object) -> None:
    """Set a pod's overhead and node restrictions from its RuntimeClass. Raises 403.

    Without a class there must be no overhead; with one the pod's own overhead, if set, must be the class's.
    """
    spec, name = pod["spec"], pod["spec"].get("runtimeClassName")
    if not name:
        if spec.get("overhead"):
            reason = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            raise forbidden(PODS.plural, "", pod["metadata"]["name"], reason)
        return
    record = store.get(RUNTIME_CLASSES.collection, "", name)
    if record is None:
        reason = f'pod rejected: RuntimeClass "{name}" not found'
        raise forbidden(PODS.plural, "", pod["metadata"]["name"], reason)
    # A class without overhead leaves the pod as it is; selector and tolerations are merged into the pod's own.
    fixed = (record.value.get("overhead") or {}).get("podFixed")
    if spec.get("overhead") and spec["overhead"] != fixed:
        reason = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        raise forbidden(PODS.plural, "", pod["metadata"]["name"], reason)
    if fixed:
        spec["overhead"] = fixed
    scheduling = record.value.get("scheduling") or {}
    if scheduling.get("nodeSelector"):
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **scheduling["nodeSelector"]}
    added = [
        toleration
        for toleration in scheduling.get("tolerations") or ()
        if toleration not in (spec.get("tolerations") or ())
    ]
    if added:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *added]


def admit_priority(store: ObjectStore, resource: ServedResource, value: Object) -> None:
    """Write priority and preemption policy of the class of a pod or group, or of the global default. Raises 403."""
    spec, own = value["spec"], value["metadata"]["name"]
    name = spec.get("priorityClassName", "")
    chosen = _named_class(store, resource, own, name) if name else _global_default(store)
    computed = int(chosen.get("value", 0)) if chosen else 0
    if "priority" in spec and spec["priority"] != computed:
        raise forbidden(resource.plural, resource.group, own, _wrong_priority(resource, spec["priority"], computed))
    if chosen and not name:
        spec["priorityClassName"] = chosen["metadata"]["name"]
    spec["priority"] = computed
    if resource is not PODS:
        return  # the policy of a group needs the gate PodGroupPreemptionPolicy, which is alpha
    policy = chosen.get("preemptionPolicy", "PreemptLowerPriority") if chosen else "PreemptLowerPriority"
    if spec.setdefault("preemptionPolicy", policy) != policy:
        reason = f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
        reason += f"priority admission controller computed {policy} from the given PriorityClass name"
        raise forbidden(resource.plural, resource.group, own, reason)


def _wrong_priority(resource: ServedResource, given: int, computed: int) -> str:
    if resource is PODS:
        reason = f"the integer value of priority ({given}) must not be provided in pod spec; "
        return reason + f"priority admission controller computed {computed} from the given PriorityClass name"
    reason = f"priority set in the pod group ({given}) must match the priority computed ({computed}) "
    return reason + "based on the priority class set in the spec"


def _named_class(store: ObjectStore, resource: ServedResource, own: str, name: str) -> Object:
    record = store.get(PRIORITY_CLASSES.collection, "", name)
    if record is None:
        raise forbidden(resource.plural, resource.group, own, f"no PriorityClass with name {name} was found")
    return record.value


def _global_default(store: ObjectStore) -> Object | None:
    records = store.collection(PRIORITY_CLASSES.collection).records.values()
    return default_priority_class(record.value for record in records)


def companions(namespace: str) -> list[tuple[ServedResource, Object]]:
    """The initial objects of a namespace, which controllers create on a real cluster."""
    authority = {"ca.crt": "the embedded cluster speaks plain HTTP: there is no certificate\n"}
    return [
        (SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": namespace}}),
        (CONFIG_MAPS, {"metadata": {"name": "kube-root-ca.crt", "namespace": namespace}, "data": authority}),
    ]


def initial_objects() -> list[tuple[ServedResource, Object]]:
    """The initial objects of a cluster: four namespaces, two system priority classes, a few roles."""
    namespace: Object = {"apiVersion": "v1", "kind": "Namespace"}
    objects = [(NAMESPACES, {**namespace, "metadata": {"name": name}}) for name in INITIAL_NAMESPACES]
    for name, value in SYSTEM_PRIORITIES.items():
        described = "Used for system critical pods that must run in the cluster."
        group_version = PRIORITY_CLASSES.group_version
        body = {"apiVersion": group_version, "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        objects.append((PRIORITY_CLASSES, {**body, "description": described}))
    return objects + initial_access()
