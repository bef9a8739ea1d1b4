"""Validation of pods: what the real API server refuses, with its field paths and texts.

Covers what decides whether a scheduler ever sees the pod: names, containers, quantities, requests over limits,
tolerations, affinity operators, spread constraints, and what of a stored spec may change.
"""

from collections.abc import Iterator
from typing import Any

from kscheduler.api import quantity
from kscheduler.simulation.objects import field_rules as rules
from kscheduler.simulation.objects.api_errors import Cause, Object

_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")
_NODE_OPERATORS = ("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn")
_LABEL_OPERATORS = ("DoesNotExist", "Exists", "In", "NotIn")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_LARGEST_PORT = 65535
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def validate_pod(pod: Object) -> list[Cause]:
    """Every rule that a new pod breaks."""
    return validate_spec(pod["spec"], "spec")


def validate_spec(spec: Object, path: str) -> list[Cause]:
    """Every rule that a pod spec (a template's as well) breaks."""
    causes = _containers(spec, path)
    causes += rules.enumerated(f"{path}.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES)
    if spec.get("nodeName"):
        causes += rules.subdomain(f"{path}.nodeName", spec["nodeName"])
    causes += rules.labels(f"{path}.nodeSelector", spec.get("nodeSelector") or {})
    causes += rules.amounts(f"{path}.overhead", spec.get("overhead") or {})
    causes += _resources(spec.get("resources"), f"{path}.resources")
    causes += _gates(spec, path)
    for place, toleration in enumerate(spec.get("tolerations") or ()):
        causes += _toleration(toleration, f"{path}.tolerations[{place}]")
    causes += _affinity(spec.get("affinity") or {}, f"{path}.affinity")
    for place, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        causes += _spread(constraint, f"{path}.topologySpreadConstraints[{place}]")
    return causes


def _containers(spec: Object, path: str) -> list[Cause]:
    if not spec.get("containers"):
        return [rules.required(f"{path}.containers")]
    causes: list[Cause] = []
    seen: set[str] = set()
    for field in ("containers", "initContainers"):
        for place, container in enumerate(spec.get(field) or ()):
            where = f"{path}.{field}[{place}]"
            causes += _container(container, where)
            name = container.get("name")
            if name in seen:
                causes.append(rules.duplicate(f"{where}.name", name))
            seen.add(name)
    return causes


def _container(container: Object, path: str) -> list[Cause]:
    name = container.get("name")
    causes = rules.dns_label(f"{path}.name", name) if name else [rules.required(f"{path}.name")]
    if not container.get("image"):
        causes.append(rules.required(f"{path}.image"))
    for place, port in enumerate(container.get("ports") or ()):
        causes += _port(port, f"{path}.ports[{place}]")
    return causes + _resources(container.get("resources"), f"{path}.resources")


def _port(port: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if "containerPort" not in port:
        causes.append(rules.required(f"{path}.containerPort"))
    for field in ("containerPort", "hostPort"):
        number = port.get(field)
        if number is not None and not (field == "hostPort" and number == 0) and not _is_port(number):
            causes.append(rules.bad_value(f"{path}.{field}", number, "must be between 1 and 65535, inclusive"))
    return causes + rules.enumerated(f"{path}.protocol", port.get("protocol"), ("SCTP", "TCP", "UDP"))


def _is_port(number: Any) -> bool:
    return isinstance(number, int) and 1 <= number <= _LARGEST_PORT


def _resources(resources: Object | None, path: str) -> list[Cause]:
    if not resources:
        return []
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    causes = rules.amounts(f"{path}.limits", limits) + rules.amounts(f"{path}.requests", requests)
    if causes:
        return causes
    for name, asked in requests.items():
        if name in limits and quantity.milli_value(asked) > quantity.milli_value(limits[name]):
            why = f"must be less than or equal to {name} limit of {limits[name]}"
            causes.append(rules.bad_value(f"{path}.requests", asked, why))
    return causes


def _gates(spec: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    gates = spec.get("schedulingGates") or ()
    for place, gate in enumerate(gates):
        causes += rules.qualified_name(f"{path}.schedulingGates[{place}].name", gate.get("name"))
    if gates and spec.get("nodeName"):
        causes.append(
            rules.forbidden_field(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared")
        )
    return causes


def _toleration(toleration: Object, path: str) -> list[Cause]:
    operator = toleration.get("operator") or "Equal"
    causes = rules.qualified_name(f"{path}.key", toleration["key"]) if toleration.get("key") else []
    if operator not in {"Equal", "Exists", "Gt", "Lt"}:
        causes.append(rules.unsupported(f"{path}.operator", operator, ("Equal", "Exists")))
    if not toleration.get("key") and operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        causes.append(rules.bad_value(f"{path}.operator", operator, why))
    if operator == "Exists" and toleration.get("value"):
        why = "value must be empty when `operator` is 'Exists'"
        causes.append(rules.bad_value(f"{path}.operator", toleration, why))
    if toleration.get("effect"):
        causes += rules.enumerated(f"{path}.effect", toleration["effect"], _EFFECTS)
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        causes.append(rules.bad_value(f"{path}.effect", toleration.get("effect", ""), why))
    return causes


def _affinity(affinity: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for where, term in _node_terms(affinity.get("nodeAffinity") or {}, f"{path}.nodeAffinity"):
        for place, expression in enumerate(term.get("matchExpressions") or ()):
            causes += _expression(expression, f"{where}.matchExpressions[{place}]", _NODE_OPERATORS)
    for name in ("podAffinity", "podAntiAffinity"):
        for where, term in _pod_terms(affinity.get(name) or {}, f"{path}.{name}"):
            causes += _pod_term(term, where)
    return causes


def _node_terms(affinity: Object, path: str) -> Iterator[tuple[str, Object]]:
    terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    for place, term in enumerate(terms):
        yield f"{path}.{_REQUIRED}.nodeSelectorTerms[{place}]", term
    for place, weighted in enumerate(affinity.get(_PREFERRED) or ()):
        yield f"{path}.{_PREFERRED}[{place}].preference", weighted.get("preference") or {}


def _pod_terms(affinity: Object, path: str) -> Iterator[tuple[str, Object]]:
    for place, term in enumerate(affinity.get(_REQUIRED) or ()):
        yield f"{path}.{_REQUIRED}[{place}]", term
    for place, weighted in enumerate(affinity.get(_PREFERRED) or ()):
        yield f"{path}.{_PREFERRED}[{place}].podAffinityTerm", weighted.get("podAffinityTerm") or {}


def _pod_term(term: Object, path: str) -> list[Cause]:
    causes = [] if term.get("topologyKey") else [rules.required(f"{path}.topologyKey", "can not be empty")]
    expressions = (term.get("labelSelector") or {}).get("matchExpressions") or ()
    for place, expression in enumerate(expressions):
        causes += _expression(expression, f"{path}.labelSelector.matchExpressions[{place}]", _LABEL_OPERATORS)
    return causes


def _expression(expression: Object, path: str, operators: tuple[str, ...]) -> list[Cause]:
    operator, values = expression.get("operator"), expression.get("values") or []
    causes = rules.qualified_name(f"{path}.key", expression.get("key"))
    if operator not in operators:
        return [*causes, rules.bad_value(f"{path}.operator", operator or "", "not a valid selector operator")]
    if operator in {"In", "NotIn"} and not values:
        causes.append(rules.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    if operator in {"Exists", "DoesNotExist"} and values:
        why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        causes.append(rules.forbidden_field(f"{path}.values", why))
    if operator in {"Gt", "Lt"} and len(values) != 1:
        why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        causes.append(rules.required(f"{path}.values", why))
    return causes


def _spread(constraint: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    skew = constraint.get("maxSkew")
    if not isinstance(skew, int) or skew <= 0:
        causes.append(rules.bad_value(f"{path}.maxSkew", skew or 0, "must be greater than zero"))
    if not constraint.get("topologyKey"):
        causes.append(rules.required(f"{path}.topologyKey", "can not be empty"))
    when = constraint.get("whenUnsatisfiable", "")
    causes += rules.enumerated(f"{path}.whenUnsatisfiable", when, _UNSATISFIABLE)
    if constraint.get("minDomains") is not None and when != "DoNotSchedule":
        why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}"
        causes.append(rules.bad_value(f"{path}.minDomains", constraint["minDomains"], why))
    return causes


def validate_pod_update(old: Object, new: Object) -> list[Cause]:
    """What an update of the main resource may change of a pod's spec, and nothing else."""
    before, after = old["spec"], new["spec"]
    causes = _tolerations_only_added(before, after) + _gates_only_removed(before, after)
    if _frozen_part(before, after) != _frozen_part(after, after):
        why = (
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
            "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
        )
        causes.append(rules.forbidden_field("spec", why))
    return causes


def _tolerations_only_added(before: Object, after: Object) -> list[Cause]:
    kept = after.get("tolerations") or []
    if all(toleration in kept for toleration in before.get("tolerations") or ()):
        return []
    why = "existing toleration can not be modified except its tolerationSeconds"
    return [rules.forbidden_field("spec.tolerations", why)]


def _gates_only_removed(before: Object, after: Object) -> list[Cause]:
    gates, known = after.get("schedulingGates") or (), before.get("schedulingGates") or ()
    added = [gate["name"] for gate in gates if gate not in known]
    if not added:
        return []
    why = f"only deletion is allowed, but found new scheduling gate '{added[0]}'"
    return [rules.forbidden_field("spec.schedulingGates", why)]


def _frozen_part(spec: Object, reference: Object) -> Object:
    """The spec with everything that may change replaced by what `reference` has."""
    frozen = {**spec}
    changeable = ["activeDeadlineSeconds", "tolerations", "schedulingGates"]
    if spec.get("schedulingGates"):
        # A gated pod may narrow where it can run; the narrowing itself is not judged here.
        changeable += ["nodeSelector", "affinity"]
    for name in changeable:
        frozen.pop(name, None)
        if name in reference:
            frozen[name] = reference[name]
    frozen["containers"] = _with_images(spec.get("containers"), reference.get("containers"))
    frozen["initContainers"] = _with_images(spec.get("initContainers"), reference.get("initContainers"))
    return frozen


def _with_images(containers: list[Object] | None, reference: list[Object] | None) -> list[Object]:
    images = {container.get("name"): container.get("image") for container in reference or ()}
    return [{**container, "image": images.get(container.get("name"))} for container in containers or ()]
