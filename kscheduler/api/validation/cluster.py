"""Rules of nodes, priority classes, disruption budgets and leases."""

from kscheduler.api.machinery import field_rules as rules
from kscheduler.api.machinery.api_errors import FieldCause, Object
from kscheduler.api.priority import SYSTEM_PRIORITIES
from kscheduler.api.validation.placement import EFFECTS
from kscheduler.api.validation.workloads import at_most_all, count_or_percent

_HIGHEST_USER_PRIORITY = 1_000_000_000
_SYSTEM_PREFIX = "system-"
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


def validate_node(node: Object) -> list[FieldCause]:
    """Taints and amounts. The server says `metadata.taints`, although they are in the spec."""
    causes: list[FieldCause] = []
    seen: set[tuple[str, str]] = set()
    for place, taint in enumerate((node.get("spec") or {}).get("taints") or ()):
        path = f"metadata.taints[{place}]"
        causes += _taint(taint, path)
        identity = (taint.get("key", ""), taint.get("effect", ""))
        if identity in seen:
            cause = rules.duplicate(path, _go_taint(taint))
            causes.append(
                FieldCause(cause.reason, f"{cause.message}: taints must be unique by key and effect pair", cause.field)
            )
        seen.add(identity)
    for field in ("capacity", "allocatable"):
        causes += rules.amounts(f"status.{field}", (node.get("status") or {}).get(field) or {})
    return causes


def _taint(taint: Object, path: str) -> list[FieldCause]:
    causes = rules.qualified_name(f"{path}.key", taint.get("key"))
    causes += rules.label_value(f"{path}.value", taint.get("value") or "")
    if not taint.get("effect"):
        return [*causes, rules.required(f"{path}.effect")]
    return causes + rules.enumerated(f"{path}.effect", taint["effect"], EFFECTS)


def _go_taint(taint: Object) -> Object:
    added = taint.get("timeAdded")
    return {**{name.capitalize(): taint.get(name) or "" for name in ("key", "value", "effect")}, "TimeAdded": added}


def validate_node_update(old: Object, new: Object) -> list[FieldCause]:
    """A node's podCIDR and providerID can be set only once."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    causes: list[FieldCause] = []
    if before.get("podCIDR") and before.get("podCIDR") != after.get("podCIDR"):
        reason = 'node updates may not change podCIDR except from "" to valid'
        causes.append(rules.forbidden_field("spec.podCIDRs", reason))
    if before.get("providerID") and before.get("providerID") != after.get("providerID"):
        reason = 'node updates may not change providerID except from "" to valid'
        causes.append(rules.forbidden_field("spec.providerID", reason))
    return causes


def validate_priority_class(value: Object) -> list[FieldCause]:
    """Values above a billion and names with the system's prefix are reserved for the two system classes."""
    name, number = str(value["metadata"]["name"]), value.get("value") or 0
    causes: list[FieldCause] = []
    if name.startswith(_SYSTEM_PREFIX):
        if SYSTEM_PRIORITIES.get(name) != number:
            reason = f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only. error: "
            known = name in SYSTEM_PRIORITIES
            reason += f"value of {name} PriorityClass must be {SYSTEM_PRIORITIES[name]}" if known else ""
            reason += "" if known else f"{name} is not a known system priority class"
            causes.append(rules.forbidden_field("metadata.name", reason))
    elif number > _HIGHEST_USER_PRIORITY:
        reason = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
        causes.append(rules.forbidden_field("value", reason))
    return causes + rules.enumerated("preemptionPolicy", value.get("preemptionPolicy"), _PREEMPTION_POLICIES)


def validate_priority_class_update(old: Object, new: Object) -> list[FieldCause]:
    """Value and policy of a class are immutable."""
    causes: list[FieldCause] = []
    if (old.get("value") or 0) != (new.get("value") or 0):
        causes.append(rules.forbidden_field("value", "may not be changed in an update."))
    before, after = (value.get("preemptionPolicy", "PreemptLowerPriority") for value in (old, new))
    if before != after:
        causes.append(rules.bad_value("preemptionPolicy", after, "field is immutable"))
    return causes


def validate_lease(value: Object) -> list[FieldCause]:
    """A lease has a positive duration and a valid count of transitions."""
    spec = value.get("spec") or {}
    causes: list[FieldCause] = []
    if spec.get("leaseDurationSeconds") is not None and spec["leaseDurationSeconds"] <= 0:
        duration = spec["leaseDurationSeconds"]
        causes.append(rules.bad_value("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    return causes + rules.not_negative("spec.leaseTransitions", spec.get("leaseTransitions"))


def validate_budget(value: Object) -> list[FieldCause]:
    """A disruption budget has minAvailable or maxUnavailable, not both."""
    spec = value.get("spec") or {}
    causes: list[FieldCause] = []
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        reason = "minAvailable and maxUnavailable cannot be both set"
        causes.append(rules.bad_value("spec", _go_budget(spec), reason))
    for name in ("minAvailable", "maxUnavailable"):
        if spec.get(name) is not None:
            causes += count_or_percent(f"spec.{name}", spec[name]) + at_most_all(f"spec.{name}", spec[name])
    causes += rules.label_selector("spec.selector", spec.get("selector"))
    policy = spec.get("unhealthyPodEvictionPolicy")
    return causes + rules.enumerated("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES)


def _go_budget(spec: Object) -> Object:
    names = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
    return {name[0].upper() + name[1:]: spec.get(name) for name in names}
