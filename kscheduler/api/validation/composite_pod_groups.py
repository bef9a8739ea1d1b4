"""Rules of composite pod groups: scheduling.k8s.io/v1alpha3 of 1.37, v1beta1 of 1.38, with the gate CompositePodGroup.

Templates of composite groups in a Workload have the same rules, and some of their own about the tree that they make.
"""

from collections.abc import Iterator

from kscheduler.api.groups import DEEPEST_TREE
from kscheduler.api.machinery import field_rules as rules
from kscheduler.api.machinery.api_errors import FieldCause, Object
from kscheduler.api.validation.pod_groups import IMMUTABLE, group_of_any_kind, validate_template

Causes = list[FieldCause]

_MAX_TEMPLATES = 8
# Fields of a spec that never change.
_FIELDS = (
    "parentCompositePodGroupName",
    "workloadRef",
    "schedulingPolicy",
    "schedulingConstraints",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
)


def validate_composite(group: Object) -> Causes:
    """All violated rules of a new composite group."""
    spec = group.get("spec") or {}
    causes = _policy(spec, "spec")
    reference = spec.get("workloadRef")
    if reference is None:
        causes.append(rules.required("spec.workloadRef"))
    else:
        causes += [
            rules.required(f"spec.workloadRef.{name}")
            for name in ("workloadName", "templateName")
            if not reference.get(name)
        ]
    parent = spec.get("parentCompositePodGroupName")
    return causes + (rules.subdomain("spec.parentCompositePodGroupName", parent) if parent is not None else [])


def validate_composite_update(old: Object, new: Object) -> Causes:
    """Nothing of a composite group changes but its metadata and status, and in v1beta1 the minimum of a gang."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if (new.get("apiVersion") or "").endswith("/v1beta1"):
        before, after = _without_minimum(before), _without_minimum(after)
    return [
        rules.bad_value(f"spec.{name}", after.get(name), IMMUTABLE)
        for name in _FIELDS
        if before.get(name) != after.get(name)
    ]


def _without_minimum(spec: Object) -> Object:
    policy = spec.get("schedulingPolicy") or {}
    return {**spec, "schedulingPolicy": {**policy, "gang": {}}} if policy.get("gang") is not None else spec


def validate_composite_templates(templates: list[Object]) -> Causes:
    """The trees of a workload's templates: their depth, their names, and each template."""
    path = "spec.compositePodGroupTemplates"
    causes: Causes = []
    for place, template in enumerate(templates):
        if not _is_shallow(template, DEEPEST_TREE - 1):
            reason = f"maximum template hierarchy depth is {DEEPEST_TREE}"
            return [rules.bad_value(f"{path}[{place}]", template.get("compositePodGroupTemplates"), reason)]
    if len(templates) > _MAX_TEMPLATES:
        causes.append(rules.too_many(path, len(templates), _MAX_TEMPLATES))
    seen: set[str] = set()
    for where, template, is_composite in _all_templates(templates, path):
        name = template.get("name") or ""
        causes += rules.dns_label(f"{where}.name", name) if name else [rules.required(f"{where}.name")]
        if name in seen:
            causes.append(rules.duplicate(f"{where}.name", name))
        seen.add(name)
        causes += _template(template, where) if is_composite else validate_template(template, where)
    found = [template for _, template, _ in _all_templates(templates, path)]
    if len({(one.get("priorityClassName"), one.get("priority")) for one in found}) > 1:
        reason = "all priority and priorityClassName values must be identical, detected multiple values"
        causes.append(rules.bad_value("spec", None, reason))
    return causes


def forbidden_without_the_gate(key: str, value: Object) -> Causes:
    """What a server refuses that has no composite groups."""
    spec = value.get("spec") or {}
    if key == "podgroups.scheduling.k8s.io" and spec.get("parentCompositePodGroupName") is not None:
        return [rules.forbidden_field("spec.parentCompositePodGroupName", "not enabled")]
    if key == "workloads.scheduling.k8s.io" and spec.get("compositePodGroupTemplates"):
        return [rules.forbidden_field("spec.compositePodGroupTemplates", "not enabled")]
    return []


def _policy(spec: Object, path: str) -> Causes:
    gang = (spec.get("schedulingPolicy") or {}).get("gang")
    causes = group_of_any_kind(spec, path)
    if gang is not None and (gang.get("minGroupCount") or 0) < 1:
        number = gang.get("minGroupCount") or 0
        where = f"{path}.schedulingPolicy.gang.minGroupCount"
        causes.append(rules.bad_value(where, number, "must be greater than or equal to 1"))
    return causes


def _template(template: Object, path: str) -> Causes:
    causes = _policy(template, path)
    children = [template.get(name) or [] for name in ("podGroupTemplates", "compositePodGroupTemplates")]
    for name, found in zip(("podGroupTemplates", "compositePodGroupTemplates"), children, strict=True):
        if len(found) > _MAX_TEMPLATES:
            causes.append(rules.too_many(f"{path}.{name}", len(found), _MAX_TEMPLATES))
    if not any(children):
        reason = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
        causes.append(rules.bad_value(path, template.get("name") or "", reason))
    return causes


def _is_shallow(template: Object, levels: int) -> bool:
    """Whether there are at most so many levels of composite templates, this one included."""
    if levels < 1:
        return False
    return all(_is_shallow(child, levels - 1) for child in template.get("compositePodGroupTemplates") or ())


def _all_templates(templates: list[Object], path: str) -> Iterator[tuple[str, Object, bool]]:
    """Each template of the trees with its path, and whether it is one of a composite group."""
    for place, template in enumerate(templates):
        where = f"{path}[{place}]"
        yield where, template, True
        for number, child in enumerate(template.get("podGroupTemplates") or ()):
            yield f"{where}.podGroupTemplates[{number}]", child, False
        yield from _all_templates(
            template.get("compositePodGroupTemplates") or [], f"{where}.compositePodGroupTemplates"
        )
