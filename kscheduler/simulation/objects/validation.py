"""Validation of any object: its metadata, and the rules of its kind. Every broken rule is reported, not the first.

Kinds that nobody here schedules by are judged by their metadata alone.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kscheduler.api.quantity import QuantityError
from kscheduler.simulation.objects import event_validation, pod_validation
from kscheduler.simulation.objects import field_rules as rules
from kscheduler.simulation.objects.api_errors import ApiError, Cause, Object, bad_request, invalid
from kscheduler.simulation.objects.resources import Resource

_EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")
_HIGHEST_USER_PRIORITY = 1_000_000_000
_NOT_A_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_LABEL_NAMED = frozenset({"namespaces", "services"})


def check_create(resource: Resource, value: Object) -> None:
    """Refuse a new object that breaks a rule. Raises 422 with all causes."""
    causes = _metadata(resource, value["metadata"])
    rule = _CREATE.get(resource.key)
    if rule is not None:
        causes += rule(value)
    _raise(resource, value, causes)


def check_update(resource: Resource, old: Object, new: Object, subresource: str) -> None:
    """Refuse a write over an object that breaks a rule or changes what may not change. Raises 422."""
    causes = _metadata(resource, new["metadata"])
    if not subresource:
        if resource.key == "pods":
            causes += pod_validation.validate_pod_update(old, new)
        rule = _CREATE.get(resource.key)
        if rule is not None:
            causes += rule(new)
        causes += _immutable(resource, old, new)
    if resource.key == "nodes" and subresource == "status":
        causes += _node(new)
    _raise(resource, new, causes)


def _raise(resource: Resource, value: Object, causes: list[Cause]) -> None:
    if causes:
        raise invalid(resource.kind, resource.group, value["metadata"].get("name", ""), causes)


def malformed(resource: Resource, error: Exception) -> ApiError:
    """400 for an object whose fields have types that no rule can read."""
    why = _NOT_A_QUANTITY if isinstance(error, QuantityError) else f"json: {error}"
    return bad_request(f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {why}')


def _metadata(resource: Resource, metadata: Object) -> list[Cause]:
    rule = rules.dns_label if resource.key in _LABEL_NAMED else rules.subdomain
    causes = rule("metadata.name", metadata["name"])
    causes += rules.labels("metadata.labels", metadata.get("labels") or {})
    for key in metadata.get("annotations") or {}:
        causes += rules.qualified_name("metadata.annotations", key.lower())
    for place, reference in enumerate(metadata.get("ownerReferences") or ()):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not reference.get(field):
                causes.append(rules.required(f"metadata.ownerReferences[{place}].{field}", "must not be empty"))
    return causes


def _node(node: Object) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for place, taint in enumerate((node.get("spec") or {}).get("taints") or ()):
        path = f"spec.taints[{place}]"
        causes += rules.qualified_name(f"{path}.key", taint.get("key"))
        causes += rules.label_value(f"{path}.value", taint.get("value", ""))
        causes += rules.enumerated(f"{path}.effect", taint.get("effect", ""), _EFFECTS)
        identity = (taint.get("key", ""), taint.get("effect", ""))
        if identity in seen:
            causes.append(rules.duplicate(path, taint.get("key")))
        seen.add(identity)
    for field in ("capacity", "allocatable"):
        causes += rules.amounts(f"status.{field}", (node.get("status") or {}).get(field) or {})
    return causes


def _priority_class(value: Object) -> list[Cause]:
    if not isinstance(value.get("value"), int):
        return [rules.required("value")]
    system = str(value["metadata"]["name"]).startswith("system-")
    if value["value"] > _HIGHEST_USER_PRIORITY and not system:
        why = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
        return [rules.forbidden_field("value", why)]
    return rules.enumerated("preemptionPolicy", value.get("preemptionPolicy"), ("Never", "PreemptLowerPriority"))


def _lease(value: Object) -> list[Cause]:
    spec = value.get("spec") or {}
    causes: list[Cause] = []
    if spec.get("leaseDurationSeconds") is not None and spec["leaseDurationSeconds"] <= 0:
        causes.append(
            rules.bad_value("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
        )
    if (spec.get("leaseTransitions") or 0) < 0:
        why = "must be greater than or equal to 0"
        causes.append(rules.bad_value("spec.leaseTransitions", spec["leaseTransitions"], why))
    return causes


def _budget(value: Object) -> list[Cause]:
    spec = value.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        return [rules.bad_value("spec", "", "minAvailable and maxUnavailable cannot be both set")]
    return []


def _workload(value: Object) -> list[Cause]:
    spec = value.get("spec") or {}
    template = spec.get("template") or {}
    causes = [] if value["kind"] == "Job" or spec.get("selector") else [rules.required("spec.selector")]
    return causes + pod_validation.validate_spec(template.get("spec") or {}, "spec.template.spec")


_CREATE: Mapping[str, Callable[[Object], list[Cause]]] = MappingProxyType(
    {
        "pods": pod_validation.validate_pod,
        "nodes": _node,
        "events": event_validation.validate_core_event,
        "events.events.k8s.io": event_validation.validate_event,
        "leases.coordination.k8s.io": _lease,
        "poddisruptionbudgets.policy": _budget,
        "priorityclasses.scheduling.k8s.io": _priority_class,
        "daemonsets.apps": _workload,
        "deployments.apps": _workload,
        "replicasets.apps": _workload,
        "statefulsets.apps": _workload,
        "jobs.batch": _workload,
    }
)

_IMMUTABLE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "priorityclasses.scheduling.k8s.io": ("value", "preemptionPolicy"),
        "storageclasses.storage.k8s.io": ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
        "resourceclaims.resource.k8s.io": ("spec",),
    }
)


def _immutable(resource: Resource, old: Object, new: Object) -> list[Cause]:
    return [
        rules.bad_value(name, new.get(name), "field is immutable")
        for name in _IMMUTABLE.get(resource.key, ())
        if old.get(name) != new.get(name)
    ]
