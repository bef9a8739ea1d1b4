"""Rules of fields about placement: affinity, tolerations, spread constraints, gates."""

from collections.abc import Iterator
from typing import Any

from kscheduler.api.machinery import field_rules as rules
from kscheduler.api.machinery.api_errors import FieldCause, Object

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
# Operators of tolerations that need the gate TaintTolerationComparisonOperators.
COMPARISONS = ("Lt", "Gt")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSION = ("Honor", "Ignore")
_GREATEST_WEIGHT = 100


def validate_affinity(affinity: Object, path: str) -> list[FieldCause]:
    """Node affinity, pod affinity, pod anti-affinity."""
    causes: list[FieldCause] = []
    if affinity.get("nodeAffinity"):
        causes += _node_affinity(affinity["nodeAffinity"], f"{path}.nodeAffinity")
    for name in ("podAffinity", "podAntiAffinity"):
        for where, term, weighted in _pod_terms(affinity.get(name) or {}, f"{path}.{name}"):
            if weighted is not None:
                causes += _weight(weighted, where.rpartition(".")[0])
            causes += _pod_term(term, where)
    return causes


def _node_affinity(affinity: Object, path: str) -> list[FieldCause]:
    causes: list[FieldCause] = []
    if affinity.get(REQUIRED) is not None:
        causes += validate_node_selector(affinity[REQUIRED], f"{path}.{REQUIRED}")
    for place, weighted in enumerate(affinity.get(PREFERRED) or ()):
        where = f"{path}.{PREFERRED}[{place}]"
        causes += _weight(weighted, where)
        causes += _node_term(weighted.get("preference") or {}, f"{where}.preference", values=False)
    return causes


def validate_node_selector(selector: Object, path: str) -> list[FieldCause]:
    """A node selector has at least one term."""
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        return [rules.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    causes: list[FieldCause] = []
    for place, term in enumerate(terms):
        causes += _node_term(term, f"{path}.nodeSelectorTerms[{place}]")
    return causes


def _node_term(term: Object, path: str, *, values: bool = True) -> list[FieldCause]:
    causes: list[FieldCause] = []
    for place, expression in enumerate(term.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{place}]"
        causes += rules.requirement(where, expression, on_nodes=True, values=values)
    for place, expression in enumerate(term.get("matchFields") or ()):
        causes += _node_field(expression, f"{path}.matchFields[{place}]")
    return causes


def _node_field(expression: Object, path: str) -> list[FieldCause]:
    operator, values = expression.get("operator") or "", expression.get("values") or []
    causes: list[FieldCause] = []
    if operator not in {"In", "NotIn"}:
        causes.append(rules.bad_value(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        reason = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        causes.append(rules.required(f"{path}.values", reason))
    if expression.get("key") != "metadata.name":
        key = expression.get("key") or ""
        return [*causes, rules.bad_value(f"{path}.key", key, "not a valid field selector key")]
    for place, value in enumerate(values):
        causes += rules.subdomain(f"{path}.values[{place}]", value)
    return causes


def _weight(weighted: Object, path: str) -> list[FieldCause]:
    weight = weighted.get("weight") or 0
    if 1 <= weight <= _GREATEST_WEIGHT:
        return []
    return [rules.bad_value(f"{path}.weight", weight, "must be in the range 1-100")]


def _pod_terms(affinity: Object, path: str) -> Iterator[tuple[str, Object, Object | None]]:
    """(path, term, the surrounding weighted term if any)."""
    for place, term in enumerate(affinity.get(REQUIRED) or ()):
        yield f"{path}.{REQUIRED}[{place}]", term, None
    for place, weighted in enumerate(affinity.get(PREFERRED) or ()):
        yield f"{path}.{PREFERRED}[{place}].podAffinityTerm", weighted.get("podAffinityTerm") or {}, weighted


def _pod_term(term: Object, path: str) -> list[FieldCause]:
    causes = rules.label_selector(f"{path}.labelSelector", term.get("labelSelector"))
    causes += rules.label_selector(f"{path}.namespaceSelector", term.get("namespaceSelector"))
    for namespace in term.get("namespaces") or ():
        causes += rules.dns_label(f"{path}.namespace", namespace)
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        causes += _label_keys(term, path, name)
    causes += _overlapping_keys(term, path)
    key = term.get("topologyKey") or ""
    if not key:
        causes.append(rules.required(f"{path}.topologyKey", "can not be empty"))
    return causes + rules.qualified_name(f"{path}.topologyKey", key)


def _label_keys(holder: Object, path: str, name: str) -> list[FieldCause]:
    keys = holder.get(name)
    if not keys:
        return []
    if holder.get("labelSelector") is None:
        return [rules.forbidden_field(f"{path}.{name}", "must not be specified when labelSelector is not set")]
    causes: list[FieldCause] = []
    for place, key in enumerate(keys):
        causes += rules.qualified_name(f"{path}.{name}[{place}]", key)
    return causes


def _overlapping_keys(term: Object, path: str) -> list[FieldCause]:
    """A label key has one meaning in a term: in its selector, among those to match, or among those not to match.

    Admission has merged the keys into the selector as requirements, so there a key is written twice if it overlaps.
    """
    selector, matched = term.get("labelSelector"), term.get("matchLabelKeys") or []
    causes: list[FieldCause] = []
    if selector is not None:
        seen = set(selector.get("matchLabels") or {})
        for expression in selector.get("matchExpressions") or ():
            key = expression.get("key")
            if key in matched and key in seen:
                reason = "exists in both matchLabelKeys and labelSelector"
                causes.append(rules.bad_value(f"{path}[{matched.index(key)}]", key, reason))
            seen.add(key)
    for place, key in enumerate(matched):
        if key in (term.get("mismatchLabelKeys") or ()):
            reason = "exists in both matchLabelKeys and mismatchLabelKeys"
            causes.append(rules.bad_value(f"{path}.matchLabelKeys[{place}]", key, reason))
    return causes


def validate_tolerations(tolerations: Any, path: str) -> list[FieldCause]:
    """The tolerations, in order."""
    causes: list[FieldCause] = []
    for place, toleration in enumerate(tolerations or ()):
        causes += _toleration(toleration, f"{path}[{place}]")
    return causes


def _toleration(toleration: Object, path: str) -> list[FieldCause]:
    key, operator, value = (toleration.get(name) or "" for name in ("key", "operator", "value"))
    effect = toleration.get("effect") or ""
    causes = rules.qualified_name(f"{path}.key", key) if key else []
    if not key and operator != "Exists":
        reason = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        causes.append(rules.bad_value(f"{path}.operator", operator, reason))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        reason = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        causes.append(rules.bad_value(f"{path}.effect", effect, reason))
    if operator in {"", "Equal"}:
        causes += rules.label_value(f"{path}.operator", value)
    elif operator == "Exists":
        if value:
            causes.append(rules.bad_value(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'"))
    elif operator in COMPARISONS:  # refused where the gate is off: `without_comparisons`
        causes += rules.int64(f"{path}.value", value)
    else:
        causes.append(rules.unsupported(f"{path}.operator", operator, ("Equal", "Exists")))
    return causes + (rules.enumerated(f"{path}.effect", effect, EFFECTS) if effect else [])


def without_comparisons(tolerations: Any, path: str) -> list[FieldCause]:
    """What a server without the gate TaintTolerationComparisonOperators says against tolerations that compare."""
    return [
        rules.unsupported(f"{path}[{place}].operator", toleration["operator"], ("Equal", "Exists", *COMPARISONS))
        for place, toleration in enumerate(tolerations or ())
        if toleration.get("operator") in COMPARISONS
    ]


def validate_spread(constraints: Any, path: str) -> list[FieldCause]:
    """Spread constraints; no two may have the same key and action."""
    causes: list[FieldCause] = []
    listed = list(constraints or ())
    for place, constraint in enumerate(listed):
        causes += _constraint(constraint, listed[place + 1 :], f"{path}[{place}]")
    return causes


def _constraint(constraint: Object, later: list[Object], path: str) -> list[FieldCause]:
    skew, key = constraint.get("maxSkew") or 0, constraint.get("topologyKey") or ""
    when = constraint.get("whenUnsatisfiable") or ""
    causes = [] if skew > 0 else [rules.bad_value(f"{path}.maxSkew", skew, "must be greater than zero")]
    if not key:
        causes.append(rules.required(f"{path}.topologyKey", "can not be empty"))
    causes += rules.enumerated(f"{path}.whenUnsatisfiable", when, _UNSATISFIABLE)
    if any((following.get("topologyKey"), following.get("whenUnsatisfiable")) == (key, when) for following in later):
        causes.append(rules.duplicate(f"{path}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {when}}}"))
    causes += _min_domains(constraint.get("minDomains"), when, f"{path}.minDomains")
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        causes += rules.enumerated(f"{path}.{name}", constraint.get(name), _INCLUSION)
    causes += _label_keys(constraint, path, "matchLabelKeys")
    return causes + rules.label_selector(f"{path}.labelSelector", constraint.get("labelSelector"))


def _min_domains(number: int | None, when: str, path: str) -> list[FieldCause]:
    if number is None:
        return []
    causes = [] if number > 0 else [rules.bad_value(path, number, "must be greater than zero")]
    if when != "DoNotSchedule":
        reason = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}"
        causes.append(rules.bad_value(path, number, reason))
    return causes


def validate_gates(gates: Any, path: str) -> list[FieldCause]:
    """Scheduling gates have valid, unique names."""
    causes: list[FieldCause] = []
    seen: set[str] = set()
    for place, gate in enumerate(gates or ()):
        name = gate.get("name") or ""
        causes += rules.qualified_name(f"{path}[{place}]", name)
        if name in seen:
            causes.append(rules.duplicate(f"{path}[{place}]", name))
        seen.add(name)
    return causes
