"""What an object needs to be accepted by an API server, beside the field that is filled: by struct, in JSON's names.

`FORMS` says how the texts of each field look: a field that is new in `kscheduler.api` has none, and a test fails until
somebody has thought about what a tenant may write there.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.hostile.words import Form, Words

Tree = dict[str, Any]
# A node of the cluster in which the objects are played.
NODE: Final = "node-7"

# By name of the field, or of struct and field where that differs.
FORMS: Final[Mapping[str, Form | tuple[str, ...]]] = {
    "acceptance": Form.FREE,
    "access_modes": ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"),
    "action": ("Restart",),
    "allocation_mode": ("ExactCount", "All"),
    "allocation_timestamp": Form.TIME,
    "api_group": Form.FREE,
    "api_version": Form.FREE,
    "attacher": Form.DRIVER,
    "bind_mount_options": Form.FREE,
    "binding_conditions": Form.UNIQUE_KEY,
    "binding_failure_conditions": Form.UNIQUE_KEY,
    "capacity_key": Form.ATTRIBUTE,
    "claim_name": Form.NAME,
    "compatibility_groups": Form.LABEL,
    "container_name": Form.LABEL,
    "counter_set": Form.IDENTITY,
    "creation_timestamp": Form.TIME,
    "declared_features": Form.UNIQUE_KEY,
    "deletion_timestamp": Form.TIME,
    "device": Form.LABEL,
    "device_class_name": ("gpu",),
    "disable_resize_preemption": Form.FREE,
    "disk_uri": Form.FREE,
    "distinct_attribute": Form.ATTRIBUTE,
    "driver": Form.DRIVER,
    "effect": ("NoSchedule", "PreferNoSchedule", "NoExecute"),
    "DeviceTaint.effect": ("NoSchedule", "NoExecute", "None"),
    "DeviceToleration.effect": ("NoSchedule", "NoExecute"),
    "expression": Form.EXPRESSION,
    "extended_resource_name": Form.RESOURCE,
    "highest_tier_name": Form.FREE,
    "host_ip": ("127.0.0.1", "::1", "10.0.0.1"),
    "image": Form.FREE,
    "iqn": Form.FREE,
    "key": Form.KEY,
    "kind": Form.FREE,
    "AzureDiskSource.kind": ("Managed", "Shared"),
    "last_probe_time": Form.TIME,
    "last_transition_time": Form.TIME,
    "match_attribute": Form.ATTRIBUTE,
    "match_label_keys": Form.KEY,
    "message": Form.FREE,
    "mismatch_label_keys": Form.KEY,
    "NetworkTopology.mode": ("hard", "soft"),
    "monitors": Form.FREE,
    "name": Form.IDENTITY,
    "DeviceDerivedAttribute.name": Form.ATTRIBUTE,
    "ObjectReference.name": Form.NAME,
    "OwnerReference.name": Form.FREE,
    "PodSchedulingGate.name": Form.UNIQUE_KEY,
    "names": Form.FREE,
    "namespace": Form.LABEL,
    "namespaces": Form.LABEL,
    "node_affinity_policy": ("Honor", "Ignore"),
    "node_name": Form.NAME,
    "node_taints_policy": ("Honor", "Ignore"),
    "nominated_node_name": Form.NAME,
    "operator": ("Exists", "Equal"),
    "LabelSelectorRequirement.operator": ("DoesNotExist", "In", "NotIn", "Exists"),
    "NodeSelectorRequirement.operator": ("DoesNotExist", "In", "NotIn", "Exists", "Gt", "Lt"),
    "parent_composite_pod_group_name": Form.NAME,
    "workload_name": Form.NAME,
    "partition_type_attribute": Form.ATTRIBUTE,
    "pd_name": Form.FREE,
    "persistent_volume_name": Form.NAME,
    "phase": ("Pending", "Running", "Failed"),
    "pod_group_name": Form.NAME,
    "pool": Form.LABEL,
    "preemption_policy": ("PreemptLowerPriority", "Never"),
    "priority_class_name": Form.NAME,
    "protocol": ("TCP", "UDP", "SCTP"),
    "provider_id": Form.FREE,
    "provisioner": Form.DRIVER,
    "reason": Form.FREE,
    "reference": Form.FREE,
    "request": Form.LABEL,
    "request_name": Form.LABEL,
    "requests": Form.LABEL,
    "resource": Form.FREE,
    "resource_claim_name": Form.NAME,
    "resource_claim_template_name": Form.NAME,
    "resource_name": Form.RESOURCE,
    "resource_version": Form.INTEGER,
    "restart_policy": ("Always",),
    "scheduler_name": ("kscheduler",),
    "share_id": Form.UID,
    "skip_node_operations": Form.FREE,
    "source": ("FromClass", "FromClaim"),
    "start_time": Form.TIME,
    "status": ("True", "False", "Unknown"),
    "storage_class_name": Form.NAME,
    "string_value": Form.SHORT,
    "string_values": Form.SHORT,
    "time_added": Form.TIME,
    "topology_key": Form.KEY,
    "Taint.key": Form.UNIQUE_KEY,
    "TopologySpreadConstraint.topology_key": Form.UNIQUE_KEY,
    "type": Form.UNIQUE_KEY,
    "SeccompProfile.type": ("RuntimeDefault", "Unconfined"),
    "key_type": ("RSA3072", "ECDSAP256", "ED25519"),
    "uid": Form.UID,
    "value": Form.VALUE,
    "values": Form.VALUE,
    "version_value": Form.VERSION,
    "version_values": Form.VERSION,
    "volume_attributes_class_name": Form.NAME,
    "volume_binding_mode": ("WaitForFirstConsumer", "Immediate"),
    "volume_handle": Form.FREE,
    "volume_id": Form.FREE,
    "volume_mode": ("Filesystem", "Block"),
    "volume_name": Form.NAME,
    "when_unsatisfiable": ("ScheduleAnyway", "DoNotSchedule"),
}

# The keys of maps, likewise.
KEYS: Final[Mapping[str, Form]] = {
    "allocatable": Form.RESOURCE,
    "allocated_resources": Form.RESOURCE,
    "annotations": Form.KEY,
    "attributes": Form.ATTRIBUTE,
    "capacity": Form.RESOURCE,
    "Device.capacity": Form.ATTRIBUTE,
    "PersistentVolumeSpec.capacity": Form.NATIVE,
    "consumed_capacity": Form.ATTRIBUTE,
    "counters": Form.LABEL,
    "disrupted_pods": Form.NAME,
    "labels": Form.KEY,
    "limits": Form.RESOURCE,
    "match_labels": Form.KEY,
    "node_allocatable_resources": Form.RESOURCE,
    "node_selector": Form.KEY,
    "overhead": Form.RESOURCE,
    "requests": Form.RESOURCE,
    "CapacityRequirements.requests": Form.ATTRIBUTE,
    "selector": Form.KEY,
}
# The values of maps of texts, likewise; all others are amounts.
VALUES: Final[Mapping[str, Form]] = {
    "annotations": Form.FREE,
    "disrupted_pods": Form.TIME,
    "labels": Form.VALUE,
    "match_labels": Form.VALUE,
    "node_selector": Form.VALUE,
    "selector": Form.VALUE,
}

# The most entries that the API server takes, by struct and field; without an entry: as many as an object can hold.
MOST: Final[Mapping[str, int]] = {
    "CELDeviceSelector": 1,
    "CounterSet.counters": 32,
    "Device.attributes": 32,
    "Device.binding_conditions": 4,
    "Device.binding_failure_conditions": 4,
    "Device.capacity": 32,
    "Device.consumes_counters": 2,
    "Device.taints": 16,
    "DeviceAllocationResult.config": 64,
    "DeviceAllocationResult.results": 32,
    "DeviceAttribute.bool_values": 48,
    "DeviceAttribute.int_values": 48,
    "DeviceAttribute.string_values": 48,
    "DeviceAttribute.version_values": 48,
    "DeviceClaim.config": 32,
    "DeviceClaim.constraints": 32,
    "DeviceClaim.requests": 32,
    "DeviceClaimConfiguration.requests": 32,
    "DeviceClassSpec.config": 32,
    "DeviceClassSpec.selectors": 32,
    "DeviceConstraint.requests": 32,
    "DeviceCounterConsumption.counters": 32,
    "DeviceRequest.first_available": 8,
    "DeviceRequestAllocationResult.binding_conditions": 4,
    "DeviceRequestAllocationResult.binding_failure_conditions": 4,
    "DeviceRequestAllocationResult.tolerations": 16,
    "DeviceSubRequest.selectors": 32,
    "DeviceSubRequest.tolerations": 16,
    "DeviceSubRequest.derived_attributes": 32,
    "ExactDeviceRequest.derived_attributes": 32,
    "ExactDeviceRequest.selectors": 32,
    "ExactDeviceRequest.tolerations": 16,
    "CapacityRequirements.requests": 32,
    "DeviceRequestAllocationResult.consumed_capacity": 32,
    "DeviceCounterConsumption.compatibility_groups": 32,
    "CapacityRequestPolicy.valid_values": 10,
    "NodeStatus.images": 50,
    "NodeSelectorTerm.match_fields.values": 1,
    "PersistentVolumeSpec.access_modes": 4,
    "PersistentVolumeSpec.capacity": 1,
    "PersistentVolumeClaimSpec.access_modes": 4,
    "PodGroupConstraints.topology": 1,
    "ResourceClaimStatus.devices": 32,
    "ResourceClaimStatus.reserved_for": 256,
    "ResourceSliceSpec.devices": 64,
    "ResourceSliceSpec.shared_counters": 8,
    "DeviceAllocationConfiguration.requests": 32,
    "AllocatedDeviceStatus.conditions": 8,
    "KubernetesPodGroup.conditions": 100,
}
# The most bytes of all annotations of an object.
LARGEST_ANNOTATIONS: Final = 256 * 1024


def finish(struct: str, tree: Tree, words: Words) -> None:
    """Add what an object, or a part, of this struct lacks, and take out what may not stand beside the rest."""
    if (needed := _NEEDED.get(struct)) is not None:
        needed(tree, words)


def _name(tree: Tree, words: Words) -> None:
    tree.setdefault("name", words.text(Form.IDENTITY))


def _pod(tree: Tree, _: Words) -> None:
    spec = tree.setdefault("spec", {})
    spec["schedulerName"] = "kscheduler"
    spec.setdefault("containers", [{"name": "main", "image": "app"}])


def _pod_spec(tree: Tree, words: Words) -> None:
    if words.is_full:
        for name in ("nodeName", "schedulingGroup", "hostUsers", "priorityClassName"):
            tree.pop(name, None)  # a pod with a node is not decided; the others need what does not exist here
    if tree.get("resources"):
        tree["resources"].pop("claims", None)


def _container(tree: Tree, words: Words) -> None:
    _name(tree, words)
    tree.setdefault("image", "app")


def _amounts(tree: Tree, _: Words) -> None:
    # An extended resource is requested in whole, and as much as its limit.
    both = {**tree.get("requests", {}), **tree.get("limits", {})}
    tree["requests"], tree["limits"] = both, dict(both)


def _port(tree: Tree, words: Words) -> None:
    tree["containerPort"] = tree["hostPort"] = 1 + words.number() % 65_535
    tree.setdefault("protocol", words.one_of(("TCP", "UDP", "SCTP")))


def _node_requirement(tree: Tree, words: Words) -> None:
    if tree.get("key") == "metadata.name":
        tree.update(operator=words.one_of(("In", "NotIn")), values=[words.text(Form.NAME)])
        return
    tree.setdefault("key", words.text(Form.KEY))
    if "values" in tree:
        tree["operator"] = words.one_of(("In", "NotIn"))
        return
    operator = tree.setdefault("operator", words.one_of(("DoesNotExist", "In", "NotIn", "Exists", "Gt", "Lt")))
    if operator in ("In", "NotIn"):
        tree["values"] = [words.text(Form.VALUE)]
    elif operator in ("Gt", "Lt"):
        tree["values"] = [str(words.number())]


def _node_field(tree: Tree, words: Words) -> None:
    tree.clear()
    tree["key"] = "metadata.name"
    _node_requirement(tree, words)


def _node_term(tree: Tree, words: Words) -> None:
    for requirement in tree.get("matchFields", ()):
        _node_field(requirement, words)


def _label_requirement(tree: Tree, words: Words) -> None:
    tree.setdefault("key", words.text(Form.KEY))
    if "values" in tree:
        tree["operator"] = words.one_of(("In", "NotIn"))
        return
    operator = tree.setdefault("operator", words.one_of(("DoesNotExist", "In", "NotIn", "Exists")))
    if operator in ("In", "NotIn"):
        tree["values"] = [words.text(Form.VALUE)]


def _node_selector(tree: Tree, _: Words) -> None:
    tree.setdefault("nodeSelectorTerms", [{}])


def _weight(tree: Tree, words: Words) -> None:
    tree["weight"] = 1 + words.number() % 100


def _preferred_node(tree: Tree, words: Words) -> None:
    _weight(tree, words)
    tree.setdefault("preference", {"matchExpressions": [{"key": words.text(Form.KEY), "operator": "Exists"}]})


def _weighted_pod_term(tree: Tree, words: Words) -> None:
    _weight(tree, words)
    term = tree.setdefault("podAffinityTerm", {})
    _pod_term(term, words)


def _pod_term(tree: Tree, words: Words) -> None:
    tree.setdefault("topologyKey", "zone")
    if "labelSelector" not in tree:
        tree["labelSelector"] = {"matchExpressions": [_found_nowhere(words)]}


def _found_nowhere(words: Words) -> Tree:
    return {"key": words.text(Form.KEY), "operator": "DoesNotExist"}


def _spread(tree: Tree, words: Words) -> None:
    tree["maxSkew"] = 1 + words.number() % 5
    tree.setdefault("topologyKey", words.text(Form.UNIQUE_KEY))
    when = tree.setdefault("whenUnsatisfiable", words.one_of(("ScheduleAnyway", "DoNotSchedule")))
    tree.setdefault("labelSelector", {"matchExpressions": [_found_nowhere(words)]})
    if when == "DoNotSchedule" and "minDomains" in tree:
        tree["minDomains"] = max(tree["minDomains"], 1)
    else:
        tree.pop("minDomains", None)


def _toleration(tree: Tree, words: Words) -> None:
    tree.setdefault("key", words.text(Form.KEY))
    operator = tree.setdefault("operator", words.one_of(("Exists", "Equal")))
    if operator == "Exists":
        tree.pop("value", None)
    else:
        tree.setdefault("value", words.text(Form.VALUE))
    if tree.get("effect") != "NoExecute":
        tree.pop("tolerationSeconds", None)


def _taint(tree: Tree, words: Words) -> None:
    tree.setdefault("key", words.text(Form.UNIQUE_KEY))
    tree.setdefault("effect", words.one_of(("NoSchedule", "PreferNoSchedule", "NoExecute")))


def _device_taint(tree: Tree, words: Words) -> None:
    tree.setdefault("key", words.text(Form.KEY))
    tree.setdefault("effect", words.one_of(("NoSchedule", "NoExecute", "None")))


_SOURCES: Final = (
    "persistentVolumeClaim",
    "image",
    "ephemeral",
    "csi",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "azureDisk",
    "cinder",
    "portworxVolume",
    "iscsi",
    "rbd",
    "projected",
)


def _volume(tree: Tree, words: Words) -> None:
    _name(tree, words)
    given = [source for source in _SOURCES if source in tree]
    chosen = given[words.number() % len(given)] if given else ""
    for source in given:
        if source != chosen:
            del tree[source]
    if not given:
        tree["emptyDir"] = {}
    if chosen == "ephemeral":
        storage = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
        tree[chosen] = {"volumeClaimTemplate": {"spec": storage}}


def _certificate(tree: Tree, words: Words) -> None:
    tree.setdefault("keyType", "ED25519")
    tree.update(signerName="x.io/signer", credentialBundlePath=f"bundle-{words.number()}")


def _projection(tree: Tree, words: Words) -> None:
    if "podCertificate" not in tree:
        tree["serviceAccountToken"] = {"path": f"token-{words.number()}"}


def _claim_source(tree: Tree, words: Words) -> None:
    tree.setdefault("claimName", words.text(Form.NAME))


def _pod_claim(tree: Tree, words: Words) -> None:
    _name(tree, words)
    if "resourceClaimName" not in tree and "resourceClaimTemplateName" not in tree:
        tree["resourceClaimName"] = words.text(Form.NAME)
    if len({"resourceClaimName", "resourceClaimTemplateName"} & tree.keys()) > 1:
        del tree["resourceClaimTemplateName"]


def _condition(tree: Tree, words: Words) -> None:
    tree.setdefault("type", words.text(Form.UNIQUE_KEY))
    tree.setdefault("status", words.one_of(("True", "False", "Unknown")))


def _owner(tree: Tree, words: Words) -> None:
    tree.update(apiVersion="apps/v1", kind="ReplicaSet")
    tree.setdefault("name", words.text(Form.LABEL))
    tree.setdefault("uid", words.text(Form.UID))
    tree.pop("controller", None)  # one of all owners at most


def _volume_object(tree: Tree, words: Words) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("capacity", {"storage": "1Gi"})
    spec.setdefault("accessModes", ["ReadWriteOnce"])
    given = [source for source in _SOURCES if source in spec]
    for source in given[:-1]:
        del spec[source]
    if not given:
        spec["csi"] = {"driver": "x.io", "volumeHandle": words.text(Form.FREE)}
    if "csi" in spec:
        spec["csi"].setdefault("driver", "x.io")
        spec["csi"].setdefault("volumeHandle", words.text(Form.FREE))


def _claim_object(tree: Tree, _: Words) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("accessModes", ["ReadWriteOnce"])
    resources = spec.setdefault("resources", {})
    resources["requests"] = {**resources.get("requests", {}), "storage": "1Gi"}


def _service(tree: Tree, _: Words) -> None:
    tree.setdefault("spec", {})["ports"] = [{"port": 80}]


def _old_controller(tree: Tree, _: Words) -> None:
    selector = tree.setdefault("spec", {}).setdefault("selector", {"app": "x"})
    tree["spec"]["template"] = _template(selector)


def _controller(tree: Tree, words: Words) -> None:
    selector = tree.setdefault("spec", {}).setdefault("selector", {"matchLabels": {"app": "x"}})
    labels = dict(selector.get("matchLabels", {}))
    for requirement in selector.get("matchExpressions", ()):
        if requirement["operator"] in ("In", "Exists"):
            labels[requirement["key"]] = (requirement.get("values") or ["x"])[0]
    tree["spec"]["template"] = _template(labels)
    del words


def _template(labels: dict[str, str]) -> Tree:
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app"}]}}


def _topology_requirement(tree: Tree, words: Words) -> None:
    tree.setdefault("key", words.text(Form.KEY))
    tree.setdefault("values", [words.text(Form.VALUE)])


def _attachment(tree: Tree, _: Words) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("attacher", "x.io")
    spec.setdefault("nodeName", NODE)
    spec.setdefault("source", {"persistentVolumeName": "pv"})


def _csi_driver_of_node(tree: Tree, words: Words) -> None:
    _name(tree, words)
    tree["nodeID"] = NODE


def _storage_class(tree: Tree, _: Words) -> None:
    tree.setdefault("provisioner", "x.io")


def _capacity_object(tree: Tree, _: Words) -> None:
    tree.setdefault("storageClassName", "fast")


def _device_request(tree: Tree, words: Words) -> None:
    _name(tree, words)
    if "firstAvailable" in tree:
        tree.pop("exactly", None)
    else:
        _exactly(tree.setdefault("exactly", {}), words)


def _exactly(tree: Tree, _: Words) -> None:
    tree["deviceClassName"] = "gpu"
    if tree.setdefault("allocationMode", "ExactCount") == "All":
        tree.pop("count", None)
    else:
        tree["count"] = 1
    tree.pop("adminAccess", None)


def _sub_request(tree: Tree, words: Words) -> None:
    _name(tree, words)
    _exactly(tree, words)


def _selector(tree: Tree, words: Words) -> None:
    tree.setdefault("cel", {}).setdefault("expression", words.text(Form.EXPRESSION))


def _device_toleration(tree: Tree, words: Words) -> None:
    _toleration(tree, words)
    if tree.get("effect") not in (None, "NoSchedule", "NoExecute"):
        del tree["effect"]


def _constraint(tree: Tree, words: Words) -> None:
    if "matchAttribute" in tree:
        tree.pop("distinctAttribute", None)
    elif "distinctAttribute" not in tree:
        tree["matchAttribute"] = words.text(Form.ATTRIBUTE)


def _opaque(tree: Tree, words: Words) -> None:
    opaque = tree.setdefault("opaque", {})
    opaque.setdefault("driver", "x.io")
    opaque.setdefault("parameters", {"apiVersion": "x.io/v1", "kind": "C", "text": words.text(Form.FREE)[:9000]})


def _claim_devices(tree: Tree, words: Words) -> None:
    """Names of requests that configurations and constraints have must be those of requests."""
    del words
    if not tree.get("requests"):
        tree["requests"] = [{"name": "one", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount",
                                                        "count": 1}}]  # fmt: skip
    names = [request["name"] for request in tree["requests"]]
    for holder in (*tree.get("constraints", ()), *tree.get("config", ())):
        if "requests" in holder:
            holder["requests"] = names[: len(holder["requests"])]


def _result(tree: Tree, words: Words) -> None:
    tree.setdefault("request", "one")
    tree.setdefault("driver", "x.io")
    tree.setdefault("pool", "pool")
    tree.setdefault("device", words.text(Form.LABEL))
    _both_conditions(tree)


def _both_conditions(tree: Tree) -> None:
    ready, failed = tree.get("bindingConditions"), tree.get("bindingFailureConditions")
    if ready and not failed:
        tree["bindingFailureConditions"] = [f"f{one[1:]}" for one in ready]
    elif failed and not ready:
        tree["bindingConditions"] = [f"r{one[1:]}" for one in failed]


def _consumer(tree: Tree, words: Words) -> None:
    tree.setdefault("resource", "pods")
    tree.setdefault("name", words.text(Form.LABEL))
    tree.setdefault("uid", words.text(Form.UID))


def _configuration_of_allocation(tree: Tree, words: Words) -> None:
    tree.setdefault("source", "FromClaim")
    _opaque(tree, words)


def _slice(tree: Tree, _: Words) -> None:
    spec = tree.setdefault("spec", {})
    spec["driver"] = "x.io"
    spec["pool"] = {"name": tree["metadata"]["name"], "generation": 1, "resourceSliceCount": 1}
    if "nodeSelector" in spec:
        del spec["nodeSelector"]["nodeSelectorTerms"][1:]
    places = [name for name in ("nodeSelector", "nodeName", "allNodes", "perDeviceNodeSelection") if name in spec]
    for name in places[1:]:
        del spec[name]
    if any({"nodeName", "nodeSelector", "allNodes"} & device.keys() for device in spec.get("devices", ())):
        for name in places:
            spec.pop(name, None)
        spec["perDeviceNodeSelection"] = True
    elif not places:
        spec["nodeName"] = NODE
    if "perDeviceNodeSelection" in spec:
        for device in spec.get("devices", ()):
            if not {"nodeName", "nodeSelector", "allNodes"} & device.keys():
                device["nodeName"] = NODE
    if "devices" in spec:
        spec.pop("sharedCounters", None)
    elif "sharedCounters" not in spec:
        spec["devices"] = [{"name": "one"}]


def _device(tree: Tree, words: Words) -> None:
    _name(tree, words)
    for name in [name for name in ("nodeSelector", "nodeName", "allNodes") if name in tree][1:]:
        del tree[name]
    _both_conditions(tree)


def _attribute(tree: Tree, words: Words) -> None:
    given = sorted(tree)
    for name in given[1:]:
        del tree[name]
    if not given:
        tree["string"] = words.text(Form.SHORT)


def _device_capacity(tree: Tree, words: Words) -> None:
    _amount_value(tree, words)
    if words.is_full:
        tree.pop("requestPolicy", None)  # only for devices that several claims may get


def _amount_value(tree: Tree, words: Words) -> None:
    tree.setdefault("value", words.text(Form.QUANTITY))


def _consumption(tree: Tree, words: Words) -> None:
    tree.setdefault("counterSet", words.text(Form.IDENTITY))
    tree.setdefault("counters", {words.text(Form.LABEL): {"value": "1"}})


def _counter_set(tree: Tree, words: Words) -> None:
    _name(tree, words)
    tree.setdefault("counters", {words.text(Form.LABEL): {"value": "1"}})


def _group_spec(tree: Tree, words: Words) -> None:
    if tree.get("parentCompositePodGroupName"):
        tree["workloadRef"] = {"workloadName": "workload", "templateName": "one"}
    if len(tree.get("disruptionMode", ())) > 1:
        del tree["disruptionMode"]["single"]
    if words.is_full:
        tree.pop("priority", None)  # follows from a class
    tree.setdefault("schedulingPolicy", {"gang": {"minCount": 1}})


def _composite_spec(tree: Tree, words: Words) -> None:
    _group_spec(tree, words)
    tree["schedulingPolicy"] = {"gang": {"minGroupCount": 1}}


def _topology(tree: Tree, words: Words) -> None:
    tree.setdefault("key", words.text(Form.KEY))


_NEEDED: Final[Mapping[str, Callable[[Tree, Words], None]]] = {
    "AllocatedDeviceStatus": _result,
    "CSINodeDriver": _csi_driver_of_node,
    "CSIStorageCapacity": _capacity_object,
    "CompositePodGroupSpec": _composite_spec,
    "Condition": _condition,
    "Container": _container,
    "ContainerPort": _port,
    "ContainerStatus": _container,
    "Counter": _amount_value,
    "CounterSet": _counter_set,
    "Device": _device,
    "DeviceAllocationConfiguration": _configuration_of_allocation,
    "DeviceAttribute": _attribute,
    "DeviceCapacity": _device_capacity,
    "DeviceClaim": _claim_devices,
    "DeviceClaimConfiguration": _opaque,
    "DeviceClassConfiguration": _opaque,
    "DeviceConstraint": _constraint,
    "DeviceCounterConsumption": _consumption,
    "DeviceRequest": _device_request,
    "DeviceRequestAllocationResult": _result,
    "DeviceSelector": _selector,
    "DeviceSubRequest": _sub_request,
    "DeviceTaint": _device_taint,
    "DeviceToleration": _device_toleration,
    "ExactDeviceRequest": _exactly,
    "LabelSelectorRequirement": _label_requirement,
    "NodeSelector": _node_selector,
    "NodeSelectorRequirement": _node_requirement,
    "NodeSelectorTerm": _node_term,
    "OwnerReference": _owner,
    "PersistentVolume": _volume_object,
    "PersistentVolumeClaim": _claim_object,
    "PersistentVolumeClaimSource": _claim_source,
    "Pod": _pod,
    "PodCertificateProjection": _certificate,
    "PodAffinityTerm": _pod_term,
    "PodGroupSpec": _group_spec,
    "PodGroupTopology": _topology,
    "PodResourceClaim": _pod_claim,
    "PodResourceClaimStatus": _name,
    "PodSchedulingGate": lambda tree, words: tree.setdefault("name", words.text(Form.UNIQUE_KEY)),
    "PodSpec": _pod_spec,
    "PreferredSchedulingTerm": _preferred_node,
    "ReplicaSet": _controller,
    "ReplicationController": _old_controller,
    "ResourceClaimConsumerReference": _consumer,
    "ResourceRequirements": _amounts,
    "ResourceSlice": _slice,
    "Service": _service,
    "StatefulSet": _controller,
    "StorageClass": _storage_class,
    "Taint": _taint,
    "Toleration": _toleration,
    "TopologySelectorLabelRequirement": _topology_requirement,
    "TopologySpreadConstraint": _spread,
    "Volume": _volume,
    "VolumeProjection": _projection,
    "VolumeAttachment": _attachment,
    "WeightedPodAffinityTerm": _weighted_pod_term,
}
