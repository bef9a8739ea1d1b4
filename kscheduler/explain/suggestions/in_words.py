"""A suggestion in words, as what somebody could do."""

from collections.abc import Mapping
from typing import Any, Final

from kscheduler.framework.reasons.wording import amount_text
from kscheduler.whatif.suggestions.requests_lowered import quantity_text
from kscheduler.whatif.suggestions.suggestion import ChangeKind, Step, Suggestion

Facts = Mapping[str, Any]
_MOST_NAMED: Final = 5


def suggestion_text(suggestion: Suggestion) -> str:
    """One line, without the number of nodes."""
    return ", and ".join(_step(step) for step in suggestion.steps)


def _step(step: Step) -> str:
    facts = step.facts
    match step.kind:
        case ChangeKind.GATE:
            gates = ", ".join(facts["gates"])
            return f"remove the scheduling gates {gates}, or let their owner do it"
        case ChangeKind.REQUEST:
            return _request(facts)
        case ChangeKind.TOLERATION:
            return f"tolerate the taint {_taint(facts)}"
        case ChangeKind.NODE_SELECTOR:
            return f"drop {facts['key']}={facts['value']} from the nodeSelector"
        case ChangeKind.NODE_AFFINITY if "requirement" in facts:
            return f"drop {_requirement(facts['requirement'])} from the required node affinity"
        case ChangeKind.NODE_AFFINITY:
            return "drop the required node affinity"
        case _:
            return _about_pods(step)


def _about_pods(step: Step) -> str:
    facts = step.facts
    match step.kind:
        case ChangeKind.POD_AFFINITY:
            return f"drop the required affinity to pods {_pods(facts)}"
        case ChangeKind.POD_ANTI_AFFINITY:
            return f"drop the required anti-affinity to pods {_pods(facts)}"
        case ChangeKind.MAX_SKEW:
            return f"allow a maxSkew of {facts['to']} instead of {facts['maxSkew']} over {facts['topologyKey']}"
        case ChangeKind.SPREAD_CONSTRAINT:
            return f"make the spread over {facts['topologyKey']} a wish (whenUnsatisfiable: ScheduleAnyway)"
        case ChangeKind.HOST_PORT:
            return f"do without host port {facts['port']}/{facts['protocol']} (container {facts['container']})"
        case ChangeKind.CLAIM_CLASS:
            return f"let claim {facts['claim']} be of storage class {facts['to']} instead of {facts['class'] or 'none'}"
        case _:
            return _elsewhere(step)


def _elsewhere(step: Step) -> str:
    facts = step.facts
    match step.kind:
        case ChangeKind.UNCORDON:
            return f"uncordon node {step.changes[0].name}"
        case ChangeKind.TAINT:
            taints = ", ".join(map(_taint, facts["taints"]))
            return f"take {taints} off node {step.changes[0].name}"
        case ChangeKind.NODE_LABEL:
            labels = ", ".join(
                f"no label {key}" if value is None else f"{key}={value}" for key, value in facts["labels"].items()
            )
            return f"label node {step.changes[0].name}: {labels}"
        case ChangeKind.DELETE_PODS:
            return _deletion(facts)
        case _:
            return f"add a node like {facts['like']}"


def _request(facts: Facts) -> str:
    resource, asked = facts["resource"], amount_text(facts["resource"], facts["amount"])
    if not facts["to"]:
        return f"request no {resource} (now {asked}): it is nowhere to be had"
    # What may be typed in must be exact; in brackets what it is about.
    exact, about = quantity_text(resource, facts["to"]), amount_text(resource, facts["to"])
    shown = exact if exact == about else f"{exact} ({about})"
    more = [f"{quantity_text(resource, step['amount'])} for {step['nodes']}" for step in facts.get("steps", ())]
    further = f"; {', '.join(more)} nodes" if more else ""
    return f"request {shown} of {resource} instead of {asked}{further}"


def _deletion(facts: Facts) -> str:
    pods = facts["pods"]
    names = ", ".join(f"{pod['namespace']}/{pod['name']}" for pod in pods[:_MOST_NAMED])
    more = f" and {len(pods) - _MOST_NAMED} more" if len(pods) > _MOST_NAMED else ""
    priorities = sorted({pod["priority"] for pod in pods})
    span = f"{priorities[0]}" if len(priorities) == 1 else f"{priorities[0]} to {priorities[-1]}"
    budgets = f"; {facts['brokenBudgets']} of them against a disruption budget" if facts["brokenBudgets"] else ""
    return f"delete {names}{more} on {facts['node']} (priority {span}{budgets})"


def _taint(taint: Mapping[str, str]) -> str:
    value = f"={taint['value']}" if taint["value"] else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def _requirement(requirement: Mapping[str, Any]) -> str:
    values = ", ".join(requirement.get("values", ()))
    return f"{requirement['key']} {requirement['operator']}{f' ({values})' if values else ''}"


def _pods(facts: Facts) -> str:
    selector = facts["labelSelector"] or {}
    parts = [f"{key}={value}" for key, value in selector.get("matchLabels", {}).items()]
    parts += [_requirement(each) for each in selector.get("matchExpressions", ())]
    return f"with {', '.join(parts) or 'any labels'} per {facts['topologyKey']}"
