"""Rules of pod groups and workloads: scheduling.k8s.io/v1beta1 of 1.37 and 1.38.

What has to do with composite groups is in `composite_pod_groups`.
"""

from collections.abc import Callable

from kscheduler.api.machinery import field_rules as rules
from kscheduler.api.machinery.api_errors import FieldCause, Object

Causes = list[FieldCause]

_MAX_TEMPLATES = 8
_MAX_CLAIMS = 4
_HIGHEST_PRIORITY = 1_000_000_000
IMMUTABLE = "field is immutable"
# Fields of a PodGroup's spec that never change; the policy may change only within its kind.
_GROUP_FIELDS = (
    "workloadRef",
    "schedulingConstraints",
    "resourceClaims",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
    "parentCompositePodGroupName",
)


def validate_pod_group(group: Object) -> Causes:
    """All violated rules of a new group."""
    spec = group.get("spec") or {}
    causes = validate_template(spec, "spec")
    parent = spec.get("parentCompositePodGroupName")
    if parent is None:
        return causes
    causes += rules.subdomain("spec.parentCompositePodGroupName", parent)
    if spec.get("workloadRef") is None:
        reason = "must be set when parentCompositePodGroupName is set"
        causes.append(rules.required("spec.workloadRef", reason))
    return causes


def validate_pod_group_update(old: Object, new: Object) -> Causes:
    """What of a group may not change: all but the number of pods that a gang waits for."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    causes = [
        rules.bad_value(f"spec.{name}", after.get(name), IMMUTABLE)
        for name in _GROUP_FIELDS
        if before.get(name) != after.get(name)
    ]
    return causes + _same_policy(before, after, "spec")


def validate_status(_: Object, new: Object) -> Causes:
    """Claims of the status are those of the spec."""
    names = {claim.get("name") for claim in (new.get("spec") or {}).get("resourceClaims") or ()}
    reason = "must match the name of an entry in `spec.resourceClaims`"
    return [
        rules.bad_value(f"status.resourceClaimStatuses[{place}].name", status.get("name") or "", reason)
        for place, status in enumerate((new.get("status") or {}).get("resourceClaimStatuses") or ())
        if status.get("name") not in names
    ]


def validate_workload(workload: Object, composite_templates: Callable[[list[Object]], Causes]) -> Causes:
    """All violated rules of a new workload. `composite_templates`: those of its trees of templates."""
    spec = workload.get("spec") or {}
    templates = spec.get("podGroupTemplates") or []
    if len(templates) > _MAX_TEMPLATES:
        return [rules.too_many("spec.podGroupTemplates", len(templates), _MAX_TEMPLATES)]
    if spec.get("compositePodGroupTemplates"):
        if not templates:
            return composite_templates(spec["compositePodGroupTemplates"])
        both = "{podGroupTemplates, compositePodGroupTemplates}"
        reason = "must specify exactly one of: `podGroupTemplates`, `compositePodGroupTemplates`"
        return [rules.bad_value("spec", both, reason)]
    if not templates:
        return [rules.bad_value("spec", "", "must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`")]
    causes: Causes = []
    seen: set[str] = set()
    for place, template in enumerate(templates):
        path, name = f"spec.podGroupTemplates[{place}]", template.get("name") or ""
        causes += rules.dns_label(f"{path}.name", name) if name else [rules.required(f"{path}.name")]
        if name in seen:
            causes.append(rules.duplicate(path, {"name": name}))
        seen.add(name)
        causes += validate_template(template, path)
    if len({(one.get("priorityClassName"), one.get("priority")) for one in templates}) > 1:
        causes.append(rules.bad_value("spec", None, "detected multiple priority configurations"))
    return causes


def validate_workload_update(old: Object, new: Object) -> Causes:
    """Templates may neither come nor go, and of each only the number of pods of a gang may change."""
    before, after = ((value.get("spec") or {}).get("podGroupTemplates") or [] for value in (old, new))
    if [one.get("name") for one in before] != [one.get("name") for one in after]:
        return [rules.bad_value("spec.podGroupTemplates", after, "items may not be added or removed")]
    causes: Causes = []
    for place, (was, now) in enumerate(zip(before, after, strict=True)):
        path = f"spec.podGroupTemplates[{place}]"
        fields = (was.keys() | now.keys()) - {"schedulingPolicy"}
        causes += [
            rules.bad_value(f"{path}.{name}", now.get(name), IMMUTABLE)
            for name in sorted(fields)
            if was.get(name) != now.get(name)
        ]
        causes += _same_policy(was, now, path)
    return causes


def validate_template(spec: Object, path: str) -> Causes:
    """What groups of pods and templates of them have in common."""
    gang, where = (spec.get("schedulingPolicy") or {}).get("gang"), f"{path}.schedulingPolicy"
    causes = group_of_any_kind(spec, path)
    if gang is not None and (gang.get("minCount") or 0) < 1:
        number = gang.get("minCount") or 0
        causes.append(rules.bad_value(f"{where}.gang.minCount", number, "must be greater than or equal to 1"))
    claims = spec.get("resourceClaims") or ()
    if len(claims) > _MAX_CLAIMS:
        causes.append(rules.too_many(f"{path}.resourceClaims", len(claims), _MAX_CLAIMS))
    return causes


def group_of_any_kind(spec: Object, path: str) -> Causes:
    """What groups of pods and composite groups have in common."""
    policy, where = spec.get("schedulingPolicy") or {}, f"{path}.schedulingPolicy"
    kinds = [name for name in ("basic", "gang") if policy.get(name) is not None]
    causes: Causes = []
    if len(kinds) != 1:
        reason = "must specify one of: `basic`, `gang`" if not kinds else "must specify exactly one of: `basic`, `gang`"
        causes.append(rules.bad_value(where, "" if not kinds else f"{{{', '.join(kinds)}}}", reason))
    if spec.get("priorityClassName"):
        causes += rules.subdomain(f"{path}.priorityClassName", spec["priorityClassName"])
    if (spec.get("priority") or 0) > _HIGHEST_PRIORITY and not spec.get("priorityClassName", "").startswith("system-"):
        reason = f"must be less than or equal to {_HIGHEST_PRIORITY}"
        causes.append(rules.bad_value(f"{path}.priority", spec["priority"], reason))
    return causes


def _same_policy(before: Object, after: Object, path: str) -> Causes:
    policies = [one.get("schedulingPolicy") or {} for one in (before, after)]
    if policies[0].keys() == policies[1].keys():
        return []
    return [rules.bad_value(f"{path}.schedulingPolicy", policies[1], IMMUTABLE)]
