"""Subresources with their own rules: binding, eviction, scale and log.

A Binding is the scheduler's only irrevocable write, so its refusals matter most: for a pod that is bound, gone,
replaced under the same name, gated or being deleted the answer is 409 (or 404).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kscheduler.api.machinery.api_errors import (
    ApiError,
    FieldCause,
    Object,
    bad_request,
    conflict,
    invalid,
    precondition_failed,
    too_many_requests,
)
from kscheduler.api.machinery.durations import timestamp
from kscheduler.api.machinery.field_rules import bad_value, required, unsupported
from kscheduler.api.machinery.resources import BUDGETS, PODS, ServedResource
from kscheduler.api.machinery.selectors import labels_match
from kscheduler.api.machinery.shapes import check_shape, parse_integer
from kscheduler.embedded.objects.deletion import DeleteOptions
from kscheduler.embedded.objects.registry import ObjectRegistry, WriteOptions
from kscheduler.embedded.objects.store import Record
from kscheduler.embedded.table_cells import condition

# Disruption budgets: the number of allowed voluntary disruptions.
#
# The disruption controller writes it into the budget's status. On a server without controllers it is computed from the
# pods at each eviction, by the controller's formula: healthy pods minus the healthy pods that the budget demands. The
# expected number of pods is then the current number.

_FINISHED_PHASES = frozenset({"Succeeded", "Failed"})


def has_status(budget: Object) -> bool:
    """Whether a controller has written the status of this budget."""
    return any((budget.get("status") or {}).values())


def count_status(budget: Object, pods: Iterable[Object]) -> Object:
    """The status of a budget over the pods that it selects."""
    living = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in _FINISHED_PHASES]
    healthy = sum(_is_healthy(pod) for pod in living)
    desired = _desired_healthy(budget.get("spec") or {}, len(living))
    return {
        "observedGeneration": budget["metadata"].get("generation", 1),
        "expectedPods": len(living),
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": max(healthy - desired, 0),
    }


def _is_healthy(pod: Object) -> bool:
    ready = condition(pod, "Ready")
    return "deletionTimestamp" not in pod["metadata"] and ready is not None and ready.get("status") == "True"


def _desired_healthy(spec: Object, expected: int) -> int:
    if spec.get("maxUnavailable") is not None:
        return max(expected - _scaled(spec["maxUnavailable"], expected), 0)
    return _scaled(spec.get("minAvailable", 1), expected)


def _scaled(amount: Any, expected: int) -> int:
    """A number, or a percentage of the expected pods rounded up."""
    if isinstance(amount, str) and amount.endswith("%"):
        return -(-int(amount.removesuffix("%")) * expected // 100)
    return int(amount)


def success(code: int = 201) -> Object:
    """The `Status` of a successful subresource."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}


def bind(registry: ObjectRegistry, namespace: str, name: str, binding: Object, options: WriteOptions) -> Object:
    """Assign a pod to a node. Raises 404, 409 or 422."""
    node = _target(binding)
    record = registry.get(PODS, namespace, name)
    _check_bindable(record, (binding.get("metadata") or {}).get("uid", ""))
    if not options.dry_run:
        registry.store.put(PODS.collection, _bound(registry, record.value, binding, node))
    return success()


def _misdirected(cause: FieldCause) -> ApiError:
    """500 for a Binding to nothing: the real server hands on the cause as it is, although the client is at fault."""
    return ApiError(500, "", f"{cause.field}: {cause.message}")


def _target(binding: Object) -> str:
    target = binding.get("target") or {}
    if target.get("kind") not in {None, "", "Node"}:
        raise _misdirected(unsupported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        raise _misdirected(required("target.name"))
    return str(target["name"])


def _check_bindable(record: Record, uid: str) -> None:
    metadata, spec = record.value["metadata"], record.value["spec"]
    name = metadata["name"]
    if uid and uid != metadata["uid"]:
        raise precondition_failed("pods", "", metadata, "UID", uid, metadata["uid"])
    if "deletionTimestamp" in metadata:
        raise conflict("pods/binding", "", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise conflict("pods/binding", "", name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise conflict("pods/binding", "", name, f"pod {name} has non-empty .spec.schedulingGates")


def _bound(registry: ObjectRegistry, pod: Object, binding: Object, node: str) -> Object:
    metadata = dict(pod["metadata"])
    for field in ("annotations", "labels"):
        added = (binding.get("metadata") or {}).get(field)
        if added:
            metadata[field] = {**(metadata.get(field) or {}), **added}
    if "generation" in metadata:
        metadata["generation"] += 1
    status = {**pod.get("status", {})}
    status.pop("nominatedNodeName", None)
    status["conditions"] = _with_scheduled(status.get("conditions") or [], timestamp(registry.now()))
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}, "status": status}


def _with_scheduled(conditions: list[Object], moment: str) -> list[Object]:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": moment}
    return [*(condition for condition in conditions if condition["type"] != "PodScheduled"), scheduled]


def evict(registry: ObjectRegistry, namespace: str, name: str, eviction: Object, *, dry_run: bool) -> Object:
    """Delete a pod if its disruption budget allows it, and count the disruption. Raises 404, 409, 429 or 500."""
    options = eviction.get("deleteOptions") or {}
    check_shape(options)
    record = registry.get(PODS, namespace, name)
    if not _needs_no_budget(record.value):
        _take_disruption(registry, record.value, dry_run=dry_run)
    registry.deletion.delete(PODS, namespace, name, delete_options(options, {}, dry_run))
    return success()


def _needs_no_budget(pod: Object) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in _FINISHED_PHASES or phase == "Pending" or "deletionTimestamp" in pod["metadata"]


def _take_disruption(registry: ObjectRegistry, pod: Object, *, dry_run: bool) -> None:
    budgets = _budgets_of(registry, pod)
    if len(budgets) > 1:
        reason = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ApiError(500, "InternalError", reason)
    if not budgets or _lets_sick_pods_go(budgets[0].value, pod):
        return
    budget = budgets[0].value
    _check_budget(registry, budget)
    if dry_run or not has_status(budget):
        return  # without a controller the budget is counted at each eviction, so there is no number to decrease
    status = dict(budget["status"])
    status["disruptionsAllowed"] -= 1
    disrupted = {pod["metadata"]["name"]: timestamp(registry.now())}
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), **disrupted}
    registry.store.put(BUDGETS.collection, {**budget, "status": status})


def _lets_sick_pods_go(budget: Object, pod: Object) -> bool:
    """Whether an unready pod may be evicted regardless of the budget: always, or while enough others are healthy."""
    ready = condition(pod, "Ready")
    if ready is not None and ready.get("status") == "True":
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def _budgets_of(registry: ObjectRegistry, pod: Object) -> list[Record]:
    metadata = pod["metadata"]
    records = registry.store.collection(BUDGETS.collection).records
    return [
        record
        for key, record in sorted(records.items())
        if key[0] == metadata["namespace"]
        and labels_match((record.value.get("spec") or {}).get("selector"), metadata.get("labels") or {})
    ]


def _selected_pods(registry: ObjectRegistry, budget: Object) -> list[Object]:
    namespace, selector = budget["metadata"]["namespace"], (budget.get("spec") or {}).get("selector")
    pods = registry.store.collection(PODS.collection).records
    inside = [record.value for key, record in pods.items() if key[0] == namespace]
    return [pod for pod in inside if labels_match(selector, pod["metadata"].get("labels") or {})]


def _check_budget(registry: ObjectRegistry, budget: Object) -> None:
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    if not has_status(budget):
        status = count_status(budget, _selected_pods(registry, budget))
    refusal = "Cannot evict pod as it would violate the pod's disruption budget."
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 1):
        text = f"The disruption budget {name} is still being processed by the server."
        raise too_many_requests(refusal, 10, [{"reason": "DisruptionBudget", "message": text}])
    if status.get("disruptionsAllowed", 0) <= 0:
        desired, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        text = f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        raise too_many_requests(refusal, 0, [{"reason": "DisruptionBudget", "message": text}])


def delete_options(body: Object, query: Mapping[str, str], dry_run: bool = False) -> DeleteOptions:
    """The options of a DELETE from its body; its query is read only where there is no body. Raises 400."""
    if not body:
        body = {name: query[name] for name in ("propagationPolicy", "orphanDependents") if name in query}
        if "gracePeriodSeconds" in query:
            body["gracePeriodSeconds"] = parse_integer(query["gracePeriodSeconds"], "gracePeriodSeconds")
        body["dryRun"] = [query["dryRun"]] if query.get("dryRun") else []
        body["orphanDependents"] = body.get("orphanDependents") == "true"
    preconditions = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds")
    propagation = body.get("propagationPolicy") or "Background"
    if propagation not in {"Background", "Foreground", "Orphan"}:
        raise bad_request(f'invalid propagationPolicy: "{propagation}"')
    dry = dry_run or "All" in (body.get("dryRun") or ())
    return DeleteOptions(
        grace_period_seconds=grace,
        uid=preconditions.get("uid", ""),
        resource_version=preconditions.get("resourceVersion", ""),
        propagation="Orphan" if body.get("orphanDependents") else propagation,
        dry_run=dry,
    )


def scale_of(value: Object) -> Object:
    """The autoscaling/v1 Scale view of a workload."""
    metadata = {
        name: value["metadata"][name]
        for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if name in value["metadata"]
    }
    replicas = (value.get("spec") or {}).get("replicas", 0)
    status = {"replicas": (value.get("status") or {}).get("replicas", 0)}
    scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata}
    return {**scale, "spec": {"replicas": replicas}, "status": status}


def set_scale(
    registry: ObjectRegistry, resource: ServedResource, record: Record, scale: Object, options: WriteOptions
) -> Record:
    """Write the replicas of a Scale into its workload. Raises 422 for a negative number."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    name = record.value["metadata"]["name"]
    if not isinstance(replicas, int) or replicas < 0:
        cause = bad_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("Scale", "autoscaling", name, [cause])
    spec = {**(record.value.get("spec") or {}), "replicas": replicas}
    return registry.replace(resource, record, {**record.value, "spec": spec}, options)


def log_text(pod: Object) -> str:
    """The text that `kubectl logs` shows for a simulated pod."""
    node = pod["spec"].get("nodeName")
    where = f"on {node}" if node else "on no node yet"
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']} is simulated {where}: there is no output.\n"
