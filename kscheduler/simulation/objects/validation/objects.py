"""Validation of objects: metadata, and the rules of the kind. All violated rules are reported.

Types are checked before (`typed.decoding`), rules that need other objects in `admission`. The rules are in
`kscheduler.simulation.rules`; for kinds without an entry here only the metadata is checked.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kscheduler.api.quantity import QuantityError
from kscheduler.simulation.kinds import field_rules as rules
from kscheduler.simulation.kinds.api_errors import ApiError, FieldCause, Object, bad_request, invalid
from kscheduler.simulation.kinds.resources import ServedResource
from kscheduler.simulation.objects.validation import events as event_validation
from kscheduler.simulation.rules import (
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
from kscheduler.simulation.rules.metadata import validate_metadata

_NOT_A_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def check_create(
    resource: ServedResource, value: Object, *, has_composites: bool = False, has_comparisons: bool = True
) -> None:
    """Refuse a new object that breaks a rule. Raises 422 with all causes.

    `has_composites`: whether the server has composite pod groups; else nothing may name them. `has_comparisons`:
    whether tolerations may compare numbers.
    """
    causes = validate_metadata(resource, value["metadata"])
    if not has_composites:
        causes += composite_pod_groups.forbidden_without_the_gate(resource.key, value)
    rule = _CREATE.get(resource.key)
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
"""Where the spec of a pod stands, in the kinds that have one."""


def check_update(
    resource: ServedResource, old: Object, new: Object, subresource: str, *, has_comparisons: bool = True
) -> None:
    """Refuse a write that breaks a rule or changes an immutable field. Raises 422.

    `has_comparisons`: as for `check_create`; an object whose tolerations compare already may go on doing so.
    """
    causes = validate_metadata(resource, new["metadata"])
    if not subresource:
        causes += _main_resource(resource, old, new)
    rule = _STATUS.get(resource.key) if subresource == "status" else None
    if rule is not None:
        causes += rule(old, new)
    if not has_comparisons and not _without_comparisons(resource, old, []):
        causes = _without_comparisons(resource, new, causes)
    _raise(resource, new, causes)


def _main_resource(resource: ServedResource, old: Object, new: Object) -> list[FieldCause]:
    rule, change = _CREATE.get(resource.key), _UPDATE.get(resource.key)
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
        "events": event_validation.validate_core_event,
        "events.events.k8s.io": event_validation.validate_event,
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

_STATUS: Mapping[str, Callable[[Object, Object], list[FieldCause]]] = MappingProxyType(
    {
        "nodes": lambda _, new: cluster.validate_node(new),
        "resourceclaims.resource.k8s.io": device_claims.validate_status,
        "podgroups.scheduling.k8s.io": pod_groups.validate_status,
    }
)
"""Rules of a write of the status, from the old object and the new one."""

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
