"""The allowed changes of a pod's spec: images, deadlines, more tolerations, fewer gates; nothing else.

A pod with gates may restrict its nodes further: more labels in the node selector, more requirements in node affinity.
"""

from kscheduler.api.machinery import field_rules as rules
from kscheduler.api.machinery.api_errors import FieldCause, Object
from kscheduler.api.validation.placement import REQUIRED

_UPDATABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_CONTAINERS = ("containers", "initContainers")


def validate_pod_update(old: Object, new: Object) -> list[FieldCause]:
    """All rules that the change of a spec violates."""
    before, after = old["spec"], new["spec"]
    causes: list[FieldCause] = []
    for name in _CONTAINERS:
        if len(before.get(name) or ()) != len(after.get(name) or ()):
            reason = "pod updates may not add or remove containers"
            return [*causes, rules.forbidden_field(f"spec.{name}", reason)]
    causes += _deadline(before, after) + _tolerations(before, after) + _gates(before, after)
    frozen = _without_changeable(after, before)
    if before.get("schedulingGates"):
        causes += _node_selector(before, after) + _node_affinity(before, after)
        frozen = _with_node_rules(frozen, before)
    if frozen != before:
        causes.append(rules.forbidden_field("spec", _UPDATABLE))
    return causes


def _deadline(before: Object, after: Object) -> list[FieldCause]:
    field, known, wanted = "spec.activeDeadlineSeconds", *(s.get("activeDeadlineSeconds") for s in (before, after))
    if wanted is None:
        reason = "must not update from a positive integer to nil value"
        return [] if known is None else [rules.bad_value(field, None, reason)]
    if known is not None and known < wanted:
        return [rules.bad_value(field, wanted, "must be less than or equal to previous value")]
    return []


def _tolerations(before: Object, after: Object) -> list[FieldCause]:
    kept = [_untimed(toleration) for toleration in after.get("tolerations") or ()]
    if all(_untimed(toleration) in kept for toleration in before.get("tolerations") or ()):
        return []
    reason = "existing toleration can not be modified except its tolerationSeconds"
    return [rules.forbidden_field("spec.tolerations", reason)]


def _untimed(toleration: Object) -> Object:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _gates(before: Object, after: Object) -> list[FieldCause]:
    known = {gate["name"] for gate in before.get("schedulingGates") or ()}
    return [
        rules.forbidden_field(
            f"spec.schedulingGates[{place}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for place, gate in enumerate(after.get("schedulingGates") or ())
        if gate["name"] not in known
    ]


def _node_selector(before: Object, after: Object) -> list[FieldCause]:
    known, wanted = before.get("nodeSelector") or {}, after.get("nodeSelector") or {}
    if all(wanted.get(key) == value for key, value in known.items()):
        return []
    reason = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    return [rules.bad_value("spec.nodeSelector", wanted, reason)]


def _node_affinity(before: Object, after: Object) -> list[FieldCause]:
    known, wanted = _terms(before), _terms(after)
    path = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    if known and len(known) != len(wanted):
        reason = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [rules.bad_value(path, wanted, reason)]
    reason = "only additions are allowed (no mutations or deletions)"
    return [
        rules.bad_value(f"{path}[{place}]", wanted[place], reason)
        for place, term in enumerate(known)
        if not _adds_only(term, wanted[place])
    ]


def _terms(spec: Object) -> list[Object]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms: list[Object] = (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    return terms


def _adds_only(known: Object, wanted: Object) -> bool:
    """Whether a term only appends requirements; an empty term, which selects nothing, must stay empty."""
    if not any(known.get(name) for name in ("matchExpressions", "matchFields")):
        return known == wanted
    return all(
        (wanted.get(name) or [])[: len(known.get(name) or [])] == (known.get(name) or [])
        for name in ("matchExpressions", "matchFields")
    )


def _without_changeable(spec: Object, reference: Object) -> Object:
    """The spec with all changeable fields replaced by those of `reference`."""
    frozen = dict(spec)
    names = ["activeDeadlineSeconds", "tolerations", "schedulingGates"]
    if reference.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        names.append("terminationGracePeriodSeconds")
    for name in names:
        _take(frozen, reference, name)
    for name in _CONTAINERS:
        if name in spec:
            pairs = zip(spec[name], reference.get(name) or (), strict=True)
            frozen[name] = [{**container, "image": known.get("image")} for container, known in pairs]
    return frozen


def _with_node_rules(spec: Object, reference: Object) -> Object:
    frozen = dict(spec)
    _take(frozen, reference, "nodeSelector")
    affinity = dict(spec.get("affinity") or {})
    _take(affinity, reference.get("affinity") or {}, "nodeAffinity")
    if affinity or "affinity" in reference:
        frozen["affinity"] = affinity
    else:
        frozen.pop("affinity", None)
    return frozen


def _take(target: Object, source: Object, name: str) -> None:
    target.pop(name, None)
    if name in source:
        target[name] = source[name]
