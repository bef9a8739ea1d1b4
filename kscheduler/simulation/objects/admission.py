"""Admission at create time: rules that need other objects than the one that is written.

The namespace must exist and not be terminating; a pod's priority comes from its PriorityClass, its overhead from its
RuntimeClass, and the service account that it names must be there.
"""

from kscheduler.simulation.kinds.api_errors import Object, forbidden, not_found
from kscheduler.simulation.kinds.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    SERVICE_ACCOUNTS,
    ServedResource,
)
from kscheduler.simulation.objects.access import initial_access
from kscheduler.simulation.objects.store import ObjectStore
from kscheduler.whatif.priority import SYSTEM_PRIORITIES, default_priority_class

INITIAL_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


def admit_namespace(store: ObjectStore, resource: ServedResource, value: Object) -> None:
    """The namespace of a new object exists and is not going away. Raises 404 or 403."""
    if not resource.namespaced:
        return
    namespace = value["metadata"]["namespace"]
    record = store.get(NAMESPACES.collection, "", namespace)
    if record is None:
        raise not_found("namespaces", "", namespace)
    if "deletionTimestamp" in record.value["metadata"]:
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        raise forbidden(resource.plural, resource.group, value["metadata"]["name"], why)


def admit_account(store: ObjectStore, pod: Object) -> None:
    """The service account that a pod names is there; `default` belongs to every namespace. Raises 403."""
    namespace, name = pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName") or "default"
    if name == "default" or store.get(SERVICE_ACCOUNTS.collection, namespace, name) is not None:
        return
    why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
    raise forbidden(PODS.plural, "", pod["metadata"]["name"], why)


def admit_runtime_class(store: ObjectStore, pod: Object) -> None:
    """A pod's overhead is what its RuntimeClass says, and so is where it runs. Raises 403."""
    spec, name = pod["spec"], pod["spec"].get("runtimeClassName")
    if not name:
        if spec.get("overhead"):
            why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            raise forbidden(PODS.plural, "", pod["metadata"]["name"], why)
        return
    record = store.get(RUNTIME_CLASSES.collection, "", name)
    if record is None:
        why = f'pod rejected: RuntimeClass "{name}" not found'
        raise forbidden(PODS.plural, "", pod["metadata"]["name"], why)
    fixed = (record.value.get("overhead") or {}).get("podFixed")
    if spec.get("overhead") and spec["overhead"] != fixed:
        why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        raise forbidden(PODS.plural, "", pod["metadata"]["name"], why)
    if fixed:
        spec["overhead"] = fixed
    scheduling = record.value.get("scheduling") or {}
    if scheduling.get("nodeSelector"):
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **scheduling["nodeSelector"]}
    added = [one for one in scheduling.get("tolerations") or () if one not in (spec.get("tolerations") or ())]
    if added:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *added]


def admit_priority(store: ObjectStore, pod: Object) -> None:
    """Write priority and preemption policy of the pod's class, or of the global default. Raises 403."""
    spec = pod["spec"]
    name = spec.get("priorityClassName", "")
    chosen = _named_class(store, pod, name) if name else _global_default(store)
    computed = int(chosen.get("value", 0)) if chosen else 0
    if "priority" in spec and spec["priority"] != computed:
        why = f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
        why += f"priority admission controller computed {computed} from the given PriorityClass name"
        raise forbidden(PODS.plural, "", pod["metadata"]["name"], why)
    if chosen and not name:
        spec["priorityClassName"] = chosen["metadata"]["name"]
    spec["priority"] = computed
    policy = chosen.get("preemptionPolicy", "PreemptLowerPriority") if chosen else "PreemptLowerPriority"
    if spec.setdefault("preemptionPolicy", policy) != policy:
        why = f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
        why += f"priority admission controller computed {policy} from the given PriorityClass name"
        raise forbidden(PODS.plural, "", pod["metadata"]["name"], why)


def _named_class(store: ObjectStore, pod: Object, name: str) -> Object:
    record = store.get(PRIORITY_CLASSES.collection, "", name)
    if record is None:
        why = f"no PriorityClass with name {name} was found"
        raise forbidden(PODS.plural, "", pod["metadata"]["name"], why)
    return record.value


def _global_default(store: ObjectStore) -> Object | None:
    records = store.collection(PRIORITY_CLASSES.collection).records.values()
    return default_priority_class(record.value for record in records)


def companions(namespace: str) -> list[tuple[ServedResource, Object]]:
    """What a namespace has from the start, as the controllers of a real cluster see to."""
    authority = {"ca.crt": "the embedded cluster speaks plain HTTP: there is no certificate\n"}
    return [
        (SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": namespace}}),
        (CONFIG_MAPS, {"metadata": {"name": "kube-root-ca.crt", "namespace": namespace}, "data": authority}),
    ]


def initial_objects() -> list[tuple[ServedResource, Object]]:
    """What every cluster has from the start: four namespaces, two system priority classes, a few roles."""
    namespace: Object = {"apiVersion": "v1", "kind": "Namespace"}
    objects = [(NAMESPACES, {**namespace, "metadata": {"name": name}}) for name in INITIAL_NAMESPACES]
    for name, value in SYSTEM_PRIORITIES.items():
        described = "Used for system critical pods that must run in the cluster."
        group_version = PRIORITY_CLASSES.group_version
        body = {"apiVersion": group_version, "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        objects.append((PRIORITY_CLASSES, {**body, "description": described}))
    return objects + initial_access()
