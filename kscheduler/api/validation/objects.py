"""Validation of objects: metadata, and the rules of the kind. All violated rules are reported.

Types are checked before (`typed.decoding`), rules that need other objects in `admission`. The rules are in
`kscheduler.api.validation`; for kinds without an entry here only the metadata is checked.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from kscheduler.api.machinery import field_rules as rules
from kscheduler.api.machinery.api_errors import ApiError, FieldCause, Object, bad_request, invalid
from kscheduler.api.machinery.resources import ServedResource
from kscheduler.api.quantity import QuantityError
from kscheduler.api.validation import (
    access,
    cluster,
    composite_pod_groups,
    device_claims,
    device_slices,
    limit_ranges,
    placement,
    pod_groups,
    pod_updates,
    pods,
    services,
    volumes,
    workloads,
)

# Rules of the metadata that every object has.

_LABEL_NAMED = frozenset({"namespaces", "services"})
# Groups whose objects may have nearly any name, such as `system:node`.
_PATH_NAMED = frozenset({"rbac.authorization.k8s.io"})
_STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})


def validate_metadata(resource: ServedResource, metadata: Object) -> list[FieldCause]:
    """All violated rules of the metadata."""
    causes = _name(resource, metadata["name"])
    causes += rules.labels("metadata.labels", metadata.get("labels") or {})
    for key in metadata.get("annotations") or {}:
        causes += [rules.bad_value(cause_field, key, reason) for cause_field, reason in _annotation_key(key)]
    for reference in metadata.get("ownerReferences") or ():
        causes += _owner(reference)
    for place, finalizer in enumerate(metadata.get("finalizers") or ()):
        causes += _finalizer(f"metadata.finalizers[{place}]", finalizer)
    return causes


def _name(resource: ServedResource, name: str) -> list[FieldCause]:
    if resource.group in _PATH_NAMED:
        wrong = name in {".", ".."} or "/" in name or "%" in name
        return [rules.bad_value("metadata.name", name, "may not contain '/' or '%'")] if wrong else []
    rule = rules.dns_label if resource.key in _LABEL_NAMED else rules.subdomain
    return rule("metadata.name", name)


def _annotation_key(key: str) -> list[tuple[str, str]]:
    """Keys are checked in lower case but shown unchanged."""
    return [("metadata.annotations", reason) for reason in rules.wrong_with_name(key.lower())]


def _owner(reference: Object) -> list[FieldCause]:
    causes: list[FieldCause] = []
    for field, reason in (
        ("apiVersion", "version must not be empty"),
        ("kind", "must not be empty"),
        ("name", "must not be empty"),
        ("uid", "must not be empty"),
    ):
        if not reference.get(field):
            causes.append(rules.bad_value(f"metadata.ownerReferences.{field}", reference.get(field) or "", reason))
    return causes


def _finalizer(field: str, name: str) -> list[FieldCause]:
    causes = rules.qualified_name(field, name)
    if not causes and "/" not in name and name not in _STANDARD_FINALIZERS:
        reason = "name is neither a standard finalizer name nor is it fully qualified"
        causes.append(rules.bad_value(field, name, reason))
    return causes


# Validation of Events: strict in events.k8s.io/v1 and lenient in core/v1, as on the real server.
#
# A client that writes incomplete Events loses them silently on a real cluster (recorders only log the refusal), so the
# embedded server must refuse what the real one refuses.

_LONGEST_NOTE = 1024
_LONGEST_PART = 128
_TYPES = ("Normal", "Warning")
_CLUSTER_SCOPED_IN = frozenset({"", "default", "kube-system"})


def validate_core_event(event: Object) -> list[FieldCause]:
    """Rules of core/v1: the Event is in the namespace of its object."""
    return _namespace(event, "involvedObject")


def validate_event(event: Object) -> list[FieldCause]:
    """Rules of events.k8s.io/v1: time and reporting controller are required, texts are bounded, the type is known."""
    causes = _namespace(event, "regarding")
    if not event.get("eventTime"):
        causes.append(rules.required("eventTime"))
    if not event.get("reportingController"):
        causes.append(rules.required("reportingController"))
    else:
        causes += rules.qualified_name("reportingController", event["reportingController"])
    for field in ("reportingInstance", "action", "reason"):
        causes += _short(field, event.get(field) or "")
    if len(event.get("note") or "") > _LONGEST_NOTE:
        causes.append(rules.bad_value("note", "", "can have at most 1024 bytes"))
    if event.get("type") not in _TYPES:
        causes.append(rules.bad_value("type", "", f"has invalid value: {event.get('type') or ''}"))
    return causes


def _short(field: str, text: str) -> list[FieldCause]:
    if not text:
        return [rules.required(field)]
    return [rules.bad_value(field, "", "can have at most 128 bytes")] if len(text) > _LONGEST_PART else []


def _namespace(event: Object, field: str) -> list[FieldCause]:
    about, namespace = (event.get(field) or {}).get("namespace", ""), event["metadata"].get("namespace", "")
    fits = namespace in _CLUSTER_SCOPED_IN if not about else about == namespace
    # The real server names the core/v1 field in both groups.
    return [] if fits else [rules.bad_value("involvedObject.namespace", about, "does not match event.namespace")]


_NOT_A_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def check_create(
    resource: ServedResource,
    value: Object,
    *,
    has_composites: bool = False,
    has_comparisons: bool = True,
    limits_devices: bool = False,
) -> None:
    """Refuse a new object that breaks a rule. Raises 422 with all causes.

    `has_composites`: whether the server has composite pod groups; else nothing may name them. `has_comparisons`:
    whether tolerations may compare numbers. `limits_devices`: whether it looks at devices and claims as those of 1.38.
    """
    causes = validate_metadata(resource, value["metadata"])
    if not has_composites:
        causes += composite_pod_groups.forbidden_without_the_gate(resource.key, value)
    rule = _CREATE.get(resource.key)
    if limits_devices:
        rule = _CREATE_STRICTLY.get(resource.key, rule)
    if rule is not None:
        causes += rule(value)
    if not has_comparisons:
        causes = _without_comparisons(resource, value, causes)
    _raise(resource, value, causes)


def _without_comparisons(resource: ServedResource, value: Object, causes: list[FieldCause]) -> list[FieldCause]:
    """A toleration that may not compare is refused for that, and what it compares with is not judged."""
    path = POD_SPEC_PATHS.get(resource.key)
    spec = value
    for name in path or ():
        spec = spec.get(name) or {}
    refused = placement.without_comparisons(spec.get("tolerations"), ".".join((*(path or ()), "tolerations")))
    values = {cause.field.replace(".operator", ".value") for cause in refused} if path else set()
    return [cause for cause in causes if cause.field not in values] + (refused if path else [])


# Where the spec of a pod stands, in the kinds that have one.
POD_SPEC_PATHS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "pods": ("spec",),
        **dict.fromkeys(
            (
                "replicationcontrollers",
                "daemonsets.apps",
                "deployments.apps",
                "replicasets.apps",
                "statefulsets.apps",
                "jobs.batch",
            ),
            ("spec", "template", "spec"),
        ),
        "cronjobs.batch": ("spec", "jobTemplate", "spec", "template", "spec"),
    }
)


def check_update(
    resource: ServedResource,
    old: Object,
    new: Object,
    subresource: str,
    *,
    has_comparisons: bool = True,
    limits_devices: bool = False,
) -> None:
    """Refuse a write that breaks a rule or changes an immutable field. Raises 422.

    `has_comparisons`, `limits_devices`: as for `check_create`; an object whose tolerations compare already may go on
    doing so, and devices that do not change are as valid as before.
    """
    causes = validate_metadata(resource, new["metadata"])
    if not subresource:
        is_strict = limits_devices and not (
            resource.key == "resourceslices.resource.k8s.io" and device_slices.has_same_devices(old, new)
        )
        causes += _main_resource(resource, old, new, is_strict=is_strict)
    statuses = _STATUS_STRICTLY if limits_devices else _STATUS
    rule = statuses.get(resource.key) if subresource == "status" else None
    if rule is not None:
        causes += rule(old, new)
    if not has_comparisons and not _without_comparisons(resource, old, []):
        causes = _without_comparisons(resource, new, causes)
    _raise(resource, new, causes)


def _main_resource(resource: ServedResource, old: Object, new: Object, *, is_strict: bool) -> list[FieldCause]:
    rule, change = _CREATE.get(resource.key), _UPDATE.get(resource.key)
    if is_strict:
        rule = _CREATE_STRICTLY.get(resource.key, rule)
    if "spec" in _IMMUTABLE.get(resource.key, ()):
        rule = None  # nothing of it can be changed, so that is all there is to say
    # Unchanged fields were valid at creation, and must not prevent other changes of an older object.
    causes = rule(new) if rule is not None and _content(old) != _content(new) else []
    if change is not None:
        found = change(old, new)
        known = {(cause.field, cause.message) for cause in causes}
        causes += [cause for cause in found if (cause.field, cause.message) not in known]
    return causes + _immutable(resource, old, new)


def _workload(value: Object) -> list[FieldCause]:
    return pod_groups.validate_workload(value, composite_pod_groups.validate_composite_templates)


def _content(value: Object) -> Object:
    return {name: part for name, part in value.items() if name not in {"metadata", "status"}}


def _raise(resource: ServedResource, value: Object, causes: list[FieldCause]) -> None:
    if causes:
        raise invalid(resource.kind, resource.group, value["metadata"].get("name", ""), causes)


def malformed(resource: ServedResource, error: Exception) -> ApiError:
    """400 for an object whose fields have unexpected types."""
    reason = _NOT_A_QUANTITY if isinstance(error, QuantityError) else f"json: {error}"
    return bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {reason}'
    )


_CREATE: Mapping[str, Callable[[Object], list[FieldCause]]] = MappingProxyType(
    {
        **workloads.ON_CREATE,
        "pods": pods.validate_pod,
        "nodes": cluster.validate_node,
        "services": services.validate_service,
        "ingresses.networking.k8s.io": services.validate_ingress,
        "configmaps": access.validate_settings,
        "secrets": access.validate_secret,
        "limitranges": limit_ranges.validate_limit_range,
        "persistentvolumeclaims": volumes.validate_claim,
        "persistentvolumes": volumes.validate_volume,
        "storageclasses.storage.k8s.io": volumes.validate_storage_class,
        "events": validate_core_event,
        "events.events.k8s.io": validate_event,
        "leases.coordination.k8s.io": cluster.validate_lease,
        "deviceclasses.resource.k8s.io": device_claims.validate_class,
        "resourceclaims.resource.k8s.io": device_claims.validate_claim,
        "resourceclaimtemplates.resource.k8s.io": device_claims.validate_template,
        "resourceslices.resource.k8s.io": device_slices.validate_slice,
        "devicetaintrules.resource.k8s.io": device_slices.validate_taint_rule,
        "podgroups.scheduling.k8s.io": pod_groups.validate_pod_group,
        "workloads.scheduling.k8s.io": _workload,
        "compositepodgroups.scheduling.k8s.io": composite_pod_groups.validate_composite,
        "poddisruptionbudgets.policy": cluster.validate_budget,
        "priorityclasses.scheduling.k8s.io": cluster.validate_priority_class,
        "roles.rbac.authorization.k8s.io": access.validate_role,
        "clusterroles.rbac.authorization.k8s.io": access.validate_role,
        "rolebindings.rbac.authorization.k8s.io": access.validate_binding,
        "clusterrolebindings.rbac.authorization.k8s.io": access.validate_binding,
    }
)

# As servers of 1.38 look at devices.
_CREATE_STRICTLY: Mapping[str, Callable[[Object], list[FieldCause]]] = MappingProxyType(
    {
        "deviceclasses.resource.k8s.io": partial(device_claims.validate_class, is_strict=True),
        "resourceclaims.resource.k8s.io": partial(device_claims.validate_claim, is_strict=True),
        "resourceclaimtemplates.resource.k8s.io": partial(device_claims.validate_template, is_strict=True),
        "resourceslices.resource.k8s.io": partial(device_slices.validate_slice, is_strict=True),
    }
)

_UPDATE: Mapping[str, Callable[[Object, Object], list[FieldCause]]] = MappingProxyType(
    {
        **workloads.ON_UPDATE,
        "pods": pod_updates.validate_pod_update,
        "nodes": cluster.validate_node_update,
        "persistentvolumeclaims": volumes.validate_claim_update,
        "persistentvolumes": volumes.validate_volume_update,
        "configmaps": access.validate_settings_update,
        "resourceslices.resource.k8s.io": device_slices.validate_slice_update,
        "podgroups.scheduling.k8s.io": pod_groups.validate_pod_group_update,
        "workloads.scheduling.k8s.io": pod_groups.validate_workload_update,
        "compositepodgroups.scheduling.k8s.io": composite_pod_groups.validate_composite_update,
        "secrets": access.validate_settings_update,
        "priorityclasses.scheduling.k8s.io": cluster.validate_priority_class_update,
        "rolebindings.rbac.authorization.k8s.io": access.validate_binding_update,
        "clusterrolebindings.rbac.authorization.k8s.io": access.validate_binding_update,
    }
)

# Rules of a write of the status, from the old object and the new one.
_STATUS: Mapping[str, Callable[[Object, Object], list[FieldCause]]] = MappingProxyType(
    {
        "nodes": lambda _, new: cluster.validate_node(new),
        "resourceclaims.resource.k8s.io": device_claims.validate_status,
        "podgroups.scheduling.k8s.io": pod_groups.validate_status,
        "compositepodgroups.scheduling.k8s.io": pod_groups.validate_status,
    }
)

_STATUS_STRICTLY: Mapping[str, Callable[[Object, Object], list[FieldCause]]] = MappingProxyType(
    {**_STATUS, "resourceclaims.resource.k8s.io": partial(device_claims.validate_status, is_strict=True)}
)

_IMMUTABLE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "storageclasses.storage.k8s.io": ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
        "resourceclaims.resource.k8s.io": ("spec",),
        "resourceclaimtemplates.resource.k8s.io": ("spec",),
    }
)


def _immutable(resource: ServedResource, old: Object, new: Object) -> list[FieldCause]:
    return [
        rules.bad_value(name, new.get(name), "field is immutable")
        for name in _IMMUTABLE.get(resource.key, ())
        if old.get(name) != new.get(name)
    ]
