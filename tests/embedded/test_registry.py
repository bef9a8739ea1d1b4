"""The rules of writes: versions, preconditions, defaults, admission, validation."""

from typing import Any

import pytest

from kscheduler.api.machinery.api_errors import ApiError
from kscheduler.api.machinery.resources import BY_KEY, NAMESPACES, NODES, PODS, PRIORITY_CLASSES, RUNTIME_CLASSES
from kscheduler.embedded.objects.deletion import DeleteOptions
from kscheduler.embedded.objects.registry import ObjectRegistry, WriteOptions
from tests.embedded.cluster_client import Clock, node, pod


def created(registry: ObjectRegistry, value: dict[str, Any]) -> dict[str, Any]:
    return registry.create(PODS, "default", value).value


def refusal(registry: ObjectRegistry, value: dict[str, Any]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        registry.create(PODS, "default", value)
    return caught.value


def test_every_write_takes_the_next_resource_version(registry: ObjectRegistry) -> None:
    first = registry.create(PODS, "default", pod("a"))
    second = registry.create(NODES, "", node())
    assert (second.version, second.value["metadata"]["resourceVersion"]) == (first.version + 1, str(first.version + 1))


def test_a_new_pod_has_what_a_scheduler_presupposes(registry: ObjectRegistry) -> None:
    value = created(registry, pod())
    spec = value["spec"]
    assert spec["schedulerName"] == "default-scheduler"
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert [t["key"].rpartition("/")[2] for t in spec["tolerations"]] == ["not-ready", "unreachable"]
    assert value["status"] == {"phase": "Pending", "qosClass": "Burstable"}
    assert value["metadata"]["generation"] == 1


def test_requests_default_to_limits_and_equal_ones_are_guaranteed(registry: ObjectRegistry) -> None:
    limits = {"cpu": "1", "memory": "1Gi"}
    value = created(registry, pod(containers=[{"name": "c", "image": "i", "resources": {"limits": limits}}]))
    assert value["spec"]["containers"][0]["resources"]["requests"] == limits
    assert value["status"]["qosClass"] == "Guaranteed"


def test_a_gated_pod_says_so_in_its_condition(registry: ObjectRegistry) -> None:
    value = created(registry, pod(schedulingGates=[{"name": "example.com/wait"}]))
    condition = value["status"]["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


def test_match_label_keys_become_requirements_of_the_selector(registry: ObjectRegistry) -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
        "matchLabelKeys": ["app", "absent"],
    }
    value = created(registry, pod(topologySpreadConstraints=[constraint]))
    selector = value["spec"]["topologySpreadConstraints"][0]["labelSelector"]
    assert selector == {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}


def test_priority_comes_from_the_class_or_the_global_default(registry: ObjectRegistry) -> None:
    for name, value, is_default in (("high", 100, False), ("usual", 7, True)):
        body = {"metadata": {"name": name}, "value": value, "globalDefault": is_default, "preemptionPolicy": "Never"}
        registry.create(PRIORITY_CLASSES, "", body)
    named = created(registry, pod("a", priorityClassName="high"))["spec"]
    assert (named["priority"], named["preemptionPolicy"]) == (100, "Never")
    silent = created(registry, pod("b"))["spec"]
    assert (silent["priority"], silent["priorityClassName"]) == (7, "usual")


def test_of_several_global_defaults_the_smallest_counts(registry: ObjectRegistry) -> None:
    for name, value in (("a", 9), ("b", 3), ("c", 5)):
        registry.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value, "globalDefault": True})
    spec = created(registry, pod())["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (3, "b")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("-12", []),
        ("", ["must be non-empty", 'strconv.ParseInt: parsing "": invalid syntax']),
        ("012", ["must be a valid decimal integer in canonical form"]),
        ("+1", ["must be a valid decimal integer in canonical form"]),
        (
            "1x",
            ["must be a valid decimal integer in canonical form", 'strconv.ParseInt: parsing "1x": invalid syntax'],
        ),
        ("9223372036854775807", []),
        ("9223372036854775808", ['strconv.ParseInt: parsing "9223372036854775808": value out of range']),
        ("9" * 5000, [f'strconv.ParseInt: parsing "{"9" * 5000}": value out of range']),
    ],
    ids=lambda one: str(one)[:20],
)
def test_a_toleration_compares_with_a_canonical_number(registry: ObjectRegistry, value: str, why: list[str]) -> None:
    compared = pod(tolerations=[{"key": "left", "operator": "Gt", "value": value}])
    if not why:
        created(registry, compared)
        return
    causes = refusal(registry, compared).details["causes"]
    assert [one["field"] for one in causes] == ["spec.tolerations[0].value"] * len(why)
    assert [one["message"] for one in causes] == [f'Invalid value: "{value}": {text}' for text in why]


def test_an_unknown_priority_class_is_forbidden(registry: ObjectRegistry) -> None:
    error = refusal(registry, pod(priorityClassName="none"))
    assert (error.code, error.message) == (403, 'pods "p" is forbidden: no PriorityClass with name none was found')


def test_host_network_ports_are_host_ports(registry: ObjectRegistry) -> None:
    containers = [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]
    ports = created(registry, pod(hostNetwork=True, containers=containers))["spec"]["containers"][0]["ports"]
    assert ports == [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}]


def test_allocatable_of_a_node_defaults_to_its_capacity(registry: ObjectRegistry) -> None:
    body = node()
    body["status"]["allocatable"] = {"cpu": "3"}
    allocatable = registry.create(NODES, "", body).value["status"]["allocatable"]
    assert allocatable == {"cpu": "3", "memory": "8Gi", "pods": "110"}


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        pytest.param({"containers": []}, "spec.containers", "Required value", id="no containers"),
        pytest.param(
            {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "-1"}}}]},
            "spec.containers[0].resources.requests[cpu]",
            'Invalid value: "-1": must be greater than or equal to 0',
            id="negative request",
        ),
        pytest.param(
            {
                "containers": [
                    {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}
                ]
            },
            "spec.containers[0].resources.requests",
            'Invalid value: "2": must be less than or equal to cpu limit of 1',
            id="request over limit",
        ),
        pytest.param(
            {"tolerations": [{"operator": "Equal", "value": "x"}]},
            "spec.tolerations[0].operator",
            'Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match all values and '
            'all keys"',
            id="toleration without key",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
            "spec.topologySpreadConstraints[0].maxSkew",
            "Invalid value: 0: must be greater than zero",
            id="skew of zero",
        ),
        pytest.param(
            {"restartPolicy": "Sometimes"},
            "spec.restartPolicy",
            'Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
            id="restart policy",
        ),
    ],
)
def test_invalid_pods_are_refused_with_field_and_reason(
    registry: ObjectRegistry, change: dict[str, Any], field: str, message: str
) -> None:
    error = refusal(registry, pod(**change))
    assert error.code == 422
    assert {"field": field, "message": message}.items() <= error.details["causes"][0].items()


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"containers": "none"}, id="containers are text"),
        pytest.param({"containers": [7]}, id="a container is a number"),
        pytest.param({"tolerations": {"a": 1}}, id="tolerations are a map"),
        pytest.param({"affinity": []}, id="affinity is a list"),
        pytest.param({"overhead": {"cpu": "much"}, "runtimeClassName": "vm"}, id="overhead is no quantity"),
    ],
)
def test_unreadable_pods_are_bad_requests_and_not_defects(registry: ObjectRegistry, spec: dict[str, Any]) -> None:
    runtime = {"metadata": {"name": "vm"}, "handler": "vm", "overhead": {"podFixed": {"cpu": "much"}}}
    registry.create(RUNTIME_CLASSES, "", runtime)
    value = {"metadata": {"name": "p"}, "spec": {**pod()["spec"], **spec}}
    assert refusal(registry, value).code in {400, 422}


def test_a_bad_object_of_a_name_that_is_taken_is_refused_for_what_is_wrong(registry: ObjectRegistry) -> None:
    created(registry, pod("a"))
    assert (refusal(registry, pod("a")).code, refusal(registry, pod("a", containers=[])).code) == (409, 422)


def test_a_pod_needs_an_existing_namespace(registry: ObjectRegistry) -> None:
    with pytest.raises(ApiError) as caught:
        registry.create(PODS, "nowhere", pod())
    assert caught.value.message == 'namespaces "nowhere" not found'


def test_a_stale_update_conflicts_and_changes_nothing(registry: ObjectRegistry) -> None:
    stale = registry.create(NODES, "", node()).value
    fresh = {**stale, "spec": {"unschedulable": True}}
    kept = registry.update(NODES, "", "n1", fresh)
    with pytest.raises(ApiError) as caught:
        registry.update(NODES, "", "n1", {**stale, "spec": {}})
    assert (caught.value.code, caught.value.reason) == (409, "Conflict")
    assert "the object has been modified; please apply your changes" in caught.value.message
    assert registry.get(NODES, "", "n1") is kept


def test_an_update_that_changes_nothing_writes_nothing(registry: ObjectRegistry) -> None:
    record = registry.create(NODES, "", node())
    assert registry.update(NODES, "", "n1", dict(record.value)) is record
    assert registry.store.version == record.version


def test_status_and_spec_are_written_apart(registry: ObjectRegistry) -> None:
    body = created(registry, pod())
    changed = {**body, "spec": {**body["spec"], "activeDeadlineSeconds": 5}, "status": {"phase": "Running"}}
    main = registry.update(PODS, "default", "p", changed).value
    assert (main["status"]["phase"], main["metadata"]["generation"]) == ("Pending", 2)
    status = {**main, "spec": {}, "status": {"phase": "Running"}}
    after = registry.update(PODS, "default", "p", status, subresource="status").value
    assert (after["status"], after["spec"]) == ({"phase": "Running"}, main["spec"])


def test_the_node_of_a_pod_cannot_be_set_by_update(registry: ObjectRegistry) -> None:
    body = created(registry, pod())
    with pytest.raises(ApiError) as caught:
        registry.update(PODS, "default", "p", {**body, "spec": {**body["spec"], "nodeName": "n1"}})
    assert caught.value.message.startswith('Pod "p" is invalid: spec: Forbidden: pod updates may not change fields')


def test_gates_may_go_but_not_come(registry: ObjectRegistry) -> None:
    body = created(registry, pod(schedulingGates=[{"name": "a"}, {"name": "b"}]))
    fewer = {**body["spec"], "schedulingGates": [{"name": "a"}]}
    body = registry.update(PODS, "default", "p", {**body, "spec": fewer}).value
    with pytest.raises(ApiError, match="only deletion is allowed, but found new scheduling gate 'c'"):
        registry.update(PODS, "default", "p", {**body, "spec": {**fewer, "schedulingGates": [{"name": "c"}]}})


def test_generated_names_differ_and_keep_their_prefix(registry: ObjectRegistry) -> None:
    body = {**pod(), "metadata": {"generateName": "job-"}}
    names = {created(registry, body)["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("job-") and len(name) == len("job-") + 5 for name in names)


def test_a_dry_run_stores_nothing(registry: ObjectRegistry) -> None:
    version = registry.store.version
    registry.create(PODS, "default", pod(), WriteOptions(dry_run=True))
    assert registry.store.version == version


def test_a_lease_is_only_updated_under_its_version(registry: ObjectRegistry) -> None:
    leases = BY_KEY["leases.coordination.k8s.io"]
    body = registry.create(leases, "default", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}).value
    blind = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "b"}}
    with pytest.raises(ApiError, match="must be specified for an update"):
        registry.update(leases, "default", "l", blind)
    taken = registry.update(leases, "default", "l", {**body, "spec": {"holderIdentity": "b"}})
    assert taken.value["spec"]["holderIdentity"] == "b"


def bound(registry: ObjectRegistry, name: str = "p", **spec: Any) -> None:
    created(registry, pod(name, nodeName="n1", **spec))


def test_a_bound_pod_waits_for_its_kubelet_and_an_unbound_one_goes_at_once(
    registry: ObjectRegistry, clock: Clock
) -> None:
    bound(registry)
    created(registry, pod("free"))
    marked = registry.deletion.delete(PODS, "default", "p").value["metadata"]
    assert (marked["deletionTimestamp"], marked["deletionGracePeriodSeconds"]) == ("2026-01-01T00:00:30Z", 30)
    registry.deletion.delete(PODS, "default", "free")
    assert registry.store.get("pods", "default", "free") is None
    registry.deletion.delete(PODS, "default", "p", DeleteOptions(grace_period_seconds=0))
    assert registry.store.get("pods", "default", "p") is None


def test_a_second_delete_can_shorten_the_grace_but_not_lengthen_it(registry: ObjectRegistry) -> None:
    bound(registry)
    for requested_seconds, expected in ((20, 20), (60, 20), (5, 5)):
        options = DeleteOptions(grace_period_seconds=requested_seconds)
        metadata = registry.deletion.delete(PODS, "default", "p", options).value["metadata"]
        assert metadata["deletionGracePeriodSeconds"] == expected


def test_finalizers_hold_an_object_until_the_last_one_goes(registry: ObjectRegistry) -> None:
    body = node()
    body["metadata"]["finalizers"] = ["example.com/hold"]
    registry.create(NODES, "", body)
    held = registry.deletion.delete(NODES, "", "n1").value
    assert "deletionTimestamp" in held["metadata"]
    freed = {**held, "metadata": {**held["metadata"], "finalizers": []}}
    registry.update(NODES, "", "n1", freed)
    assert registry.store.get("nodes", "", "n1") is None


@pytest.mark.parametrize(
    "options", [DeleteOptions(uid="other"), DeleteOptions(resource_version="1")], ids=["uid", "resourceVersion"]
)
def test_a_delete_that_means_another_object_conflicts(registry: ObjectRegistry, options: DeleteOptions) -> None:
    created(registry, pod())
    with pytest.raises(ApiError, match="Precondition failed") as caught:
        registry.deletion.delete(PODS, "default", "p", options)
    assert caught.value.code == 409


def owned_pod(name: str, owner: dict[str, Any]) -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
    value = pod(name)
    value["metadata"]["ownerReferences"] = [
        {**reference, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    ]
    return value


def replica_set(registry: ObjectRegistry) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod()["spec"]}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    return registry.create(BY_KEY["replicasets.apps"], "default", {"metadata": {"name": "rs"}, "spec": spec}).value


@pytest.mark.parametrize(("propagation", "survives"), [("Background", False), ("Orphan", True)])
def test_dependents_follow_their_owner_unless_orphaned(
    registry: ObjectRegistry, propagation: str, survives: bool
) -> None:
    created(registry, owned_pod("child", replica_set(registry)))
    registry.deletion.delete(BY_KEY["replicasets.apps"], "default", "rs", DeleteOptions(propagation=propagation))
    assert (registry.store.get("pods", "default", "child") is not None) is survives


def test_an_owner_that_never_existed_collects_nothing(registry: ObjectRegistry) -> None:
    created(registry, owned_pod("child", {"metadata": {"name": "rs", "uid": "imaginary"}}))
    replica_set(registry)
    registry.deletion.delete(BY_KEY["replicasets.apps"], "default", "rs")
    assert registry.store.get("pods", "default", "child") is not None


def test_a_namespace_goes_when_the_last_thing_in_it_has_gone(registry: ObjectRegistry) -> None:
    registry.create(NAMESPACES, "", {"metadata": {"name": "team"}})
    registry.create(PODS, "team", pod("bound", nodeName="n1"))
    registry.create(PODS, "team", pod("free"))
    registry.deletion.delete(NAMESPACES, "", "team")
    assert registry.get(NAMESPACES, "", "team").value["status"]["phase"] == "Terminating"
    with pytest.raises(ApiError, match="because it is being terminated"):
        registry.create(PODS, "team", pod("late"))
    registry.deletion.delete(PODS, "team", "bound", DeleteOptions(grace_period_seconds=0))
    assert registry.store.get("namespaces", "", "team") is None


def test_a_claim_gets_a_volume_and_a_class_once(registry: ObjectRegistry) -> None:
    claims = BY_KEY["persistentvolumeclaims"]
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    stored = registry.create(claims, "default", {"metadata": {"name": "data"}, "spec": spec}).value
    for name, value in (("storageClassName", "fast"), ("volumeName", "disk-1")):
        stored = {**stored, "spec": {**stored["spec"], name: value}}
        stored = registry.update(claims, "default", "data", stored).value
        with pytest.raises(ApiError, match="spec is immutable after creation"):
            registry.update(claims, "default", "data", {**stored, "spec": {**stored["spec"], name: "other"}})


def test_containers_of_a_stateful_set_may_mount_what_its_claim_templates_bring(registry: ObjectRegistry) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    container = {"name": "c", "image": "i", "volumeMounts": [{"name": "www", "mountPath": "/data"}]}
    labels = {"app": "www"}
    spec = {
        "serviceName": "www",
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        "volumeClaimTemplates": [{"metadata": {"name": "www"}, "spec": claim}],
    }
    kind = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "www"}}
    stateful_sets = BY_KEY["statefulsets.apps"]
    made = registry.create(stateful_sets, "default", {**kind, "spec": spec}).value
    assert "volumes" not in made["spec"]["template"]["spec"], "they are the pods', not the template's"
    other = {**kind, "metadata": {"name": "other"}, "spec": {**spec, "volumeClaimTemplates": []}}
    with pytest.raises(ApiError, match=r'volumeMounts\[0\].name: Not found: "www"'):
        registry.create(stateful_sets, "default", other)
