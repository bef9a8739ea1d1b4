"""Selectors, taints and amounts as text, for explanations."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from kscheduler.api.core import Taint
from kscheduler.api.selectors import NodeTerm, Operator, Requirement, Selector
from kscheduler.framework.pods.affinity_terms import PodMatch
from kscheduler.framework.pods.requests import CPU, EPHEMERAL_STORAGE, MEMORY

_BYTES: Final = (MEMORY, EPHEMERAL_STORAGE)
_BINARY_UNITS: Final = (("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))


def amount_text(resource: str, amount: int) -> str:
    """An amount in the scheduler's units (cpu in thousandths) as `kubectl` would show it: `1500m`, `2`, `1.5Gi`."""
    if resource == CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if resource in _BYTES or resource.startswith("hugepages-"):
        return bytes_text(amount)
    return str(amount)


def bytes_text(amount: int) -> str:
    """Bytes in the largest binary unit below the amount, with two decimals; `~` in front if that is not exact."""
    for unit, shift in _BINARY_UNITS:
        if abs(amount) >= 1 << shift:
            return _in_unit(amount, unit, shift)
    return str(amount)


def amounts_text(resource: str, amounts: Sequence[int]) -> list[str]:
    """Amounts that are to be compared, all in one unit, so that no digit is lost: cores, as in tables of nodes, and of
    bytes the unit of the smallest but zero, or the one below it where that is exact.
    """
    smallest = min((amount for amount in amounts if amount), default=0)
    if resource == CPU:
        return [f"{amount / 1000:.10g}" for amount in amounts]
    if not (resource in _BYTES or resource.startswith("hugepages-")):
        return [str(amount) for amount in amounts]
    fitting = [(unit, shift) for unit, shift in _BINARY_UNITS if abs(smallest) >= 1 << shift] or [("", 0)]
    exact = (each for each in fitting[:2] if not any(_in_unit(amount, *each).startswith("~") for amount in amounts))
    unit, shift = next(exact, fitting[0])
    return [_in_unit(amount, unit, shift) if amount else "0" for amount in amounts]


def share_texts(resource: str, part: int, whole: int) -> tuple[str, str]:
    """A part and its whole in one unit, the natural one of the larger: `0.5Gi`, `8Gi`; of cpu whole ones: `1.5`."""
    largest = max(abs(part), abs(whole))
    if resource == CPU:
        return f"{part / 1000:.10g}", f"{whole / 1000:.10g}"
    if not (resource in _BYTES or resource.startswith("hugepages-")):
        return str(part), str(whole)
    unit, shift = next(((unit, shift) for unit, shift in _BINARY_UNITS if largest >= 1 << shift), ("", 0))
    first, second = (_in_unit(amount, unit, shift) if amount else "0" for amount in (part, whole))
    return first.replace(f"~0{unit}", f"<0.01{unit}"), second


def _in_unit(amount: int, unit: str, shift: int) -> str:
    prefix = "" if amount * 100 % (1 << shift) == 0 else "~"
    return f"{prefix}{round(amount / (1 << shift), 2):.10g}{unit}"


def taint_text(taint: Taint) -> str:
    """`key=value:effect`, as `kubectl taint` takes it."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def requirement_text(requirement: Requirement) -> str:
    """`disk=ssd`, `zone in (a, b)`, `!gpu`: the syntax of `kubectl get -l`, except for Exists and Never."""
    values = sorted(requirement.values)
    # A case per operator. In and NotIn have a short form for a single value.
    match requirement.operator:
        case Operator.IN if len(values) == 1:
            return f"{requirement.key}={values[0]}"
        case Operator.IN:
            return f"{requirement.key} in ({', '.join(values)})"
        case Operator.NOT_IN if len(values) == 1:
            return f"{requirement.key}!={values[0]}"
        case Operator.NOT_IN:
            return f"{requirement.key} notin ({', '.join(values)})"
        case Operator.EXISTS:
            return f"{requirement.key} (any value)"
        case Operator.DOES_NOT_EXIST:
            return f"!{requirement.key}"
        case Operator.GT:
            return f"{requirement.key}>{requirement.bound}"
        case Operator.LT:
            return f"{requirement.key}<{requirement.bound}"
        case Operator.NEVER:
            return f"{requirement.key} ({', '.join(values)}: cannot be parsed, matches nothing)"


def requirements_text(requirements: Iterable[Requirement]) -> str:
    """Several requirements, separated by commas."""
    return ",".join(requirement_text(requirement) for requirement in requirements)


def term_text(term: NodeTerm) -> str:
    """A node selector term."""
    return requirements_text((*term.labels, *term.fields)) or "an empty term, which matches nothing"


def selector_text(selector: Selector) -> str:
    """A label selector."""
    if selector.nothing:
        return "a selector that matches nothing"
    return requirements_text(selector.requirements) or "any labels"


def match_text(match: PodMatch, own_namespace: str) -> str:
    """A set of pods: labels, and namespaces if they are not just the pod's own."""
    text = ",".join(selector_text(selector) for selector in match.selectors) or "any labels"
    places = sorted(match.namespaces - {own_namespace}) if match.namespaces != {own_namespace} else []
    if match.namespace_selector is not None:
        chosen = match.namespace_selector
        places.append("any namespace" if match.is_everywhere else f"namespaces with {selector_text(chosen)}")
    if not places:
        return text
    if own_namespace in match.namespaces:
        places.insert(0, own_namespace)
    return f"{text} in {', '.join(places)}"


def requirement_facts(requirement: Requirement) -> dict[str, Any]:
    """A requirement in JSON form, for programs."""
    values = (
        [str(requirement.bound)] if requirement.operator in (Operator.GT, Operator.LT) else sorted(requirement.values)
    )
    return {"key": requirement.key, "operator": requirement.operator.value, "values": values}


def taint_facts(taint: Taint) -> dict[str, str]:
    """A taint in JSON form, for programs."""
    return {"key": taint.key, "value": taint.value, "effect": taint.effect}
