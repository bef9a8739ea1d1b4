"""A suggestion in words, as what somebody could do."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from kscheduler.devices.obstacle_details import AttributeValues
from kscheduler.explain.suggestions.makers import TEMPLATES_MANAGER
from kscheduler.explain.suggestions.pod_changes.requests_lowered import quantity_text
from kscheduler.explain.suggestions.suggestion import ChangeKind, Step, Suggestion
from kscheduler.framework.reasons.wording import amount_text
from kscheduler.plugins.dynamic_resources.details import values_text

Facts = Mapping[str, Any]
_MOST_NAMED: Final = 5


def suggestion_text(suggestion: Suggestion, *, is_new: bool = False) -> str:
    """One line, without the number of nodes. `is_new`: the pod does not exist yet."""
    texts = [_TEXTS[step.kind](step.facts, step) for step in suggestion.steps]
    made = dict.fromkeys(step.facts["claim"] for step in suggestion.steps if step.facts.get("template"))
    if made and not is_new:
        texts.append(f"recreate the pod: it has claim {', '.join(made)} from the old version of the template")
    return ", and ".join(texts)


# --- the pod ----------------------------------------------------------------------------------------------------------


def _gate(facts: Facts, _: Step) -> str:
    what = f"remove the scheduling gates {', '.join(facts['gates'])}"
    named = facts.get("owners", ())
    owners = [each for each in named if each != TEMPLATES_MANAGER]
    if named and not owners:
        return f"{what}, which the template of the pod has"
    owner = f"{', '.join(owners)}, which has set {'it' if len(facts['gates']) == 1 else 'them'}," if owners else ""
    return f"{what}, or let {owner or 'their owner'} do it"


def _request(facts: Facts, _: Step) -> str:
    resource, queried = facts["resource"], amount_text(facts["resource"], facts["amount"])
    if not facts["to"]:
        return f"request no {resource} (now {queried}): {_supply(facts)}"
    # What may be typed in must be exact; in brackets what it is about.
    exact, about = quantity_text(resource, facts["to"]), amount_text(resource, facts["to"])
    shown = exact if exact == about else f"{exact} ({about})"
    more = [f"{quantity_text(resource, step['amount'])} for {step['nodes']}" for step in facts.get("steps", ())]
    further = f"; {', '.join(more)} nodes" if more else ""
    return f"request {shown} of {resource} instead of {queried}{further}"


def _supply(facts: Facts) -> str:
    """Why it is none at all: nobody has the resource, or not where the pod, or the members of a group, may be."""
    resource, supply = facts["resource"], facts["supply"]
    there = "nodes that they may be on have too little" if "waiting" in facts else "nodes that it may be on have none"
    if supply["asDevices"]:
        return f"the {there} free as devices"
    if not supply["amount"]:
        return f"it is unavailable: no node has any{_instead(supply)}"
    total, free = (amount_text(resource, supply[key]) for key in ("amount", "free"))
    where = "1 node has" if supply["nodes"] == 1 else f"{supply['nodes']} nodes have"
    return f"the {there} free ({where} {total} in all, {free} free)"


def _instead(supply: Facts) -> str:
    """What there is of other names: the one that is near, or the extended resources of nodes."""
    if supply["near"] is not None:
        return f"; do you mean {supply['near']['resource']}, which {_who_has(supply['near'])}?"
    others = [f"{each['resource']} ({_where(each)})" for each in supply["others"]]
    return f"; there is {', '.join(others)}" if others else ""


def _who_has(offered: Facts) -> str:
    count = offered["nodes"]
    return "a device class stands for" if not count else "1 node has" if count == 1 else f"{count} nodes have"


def _where(offered: Facts) -> str:
    count = offered["nodes"]
    return "as devices" if not count else "on 1 node" if count == 1 else f"on {count} nodes"


def _resource_name(facts: Facts, _: Step) -> str:
    now, there = facts["resource"], {"resource": facts["to"], "nodes": facts["nodes"]}
    return f"request {facts['to']} instead of {now}: no node has {now}, {_who_has(there)} {facts['to']}"


def _toleration(facts: Facts, _: Step) -> str:
    now = facts["now"]
    instead = f": there is a toleration of {_tolerated(now)}, which no node has" if now is not None else ""
    if "effect" not in facts:
        return f"tolerate all taints with the key {facts['key']}{instead}"
    return f"tolerate the taint {_taint(facts)}{instead}"


def _tolerated(toleration: Facts) -> str:
    value = f"={toleration['value']}" if toleration["value"] else ""
    effect = f":{toleration['effect']}" if toleration["effect"] else ""
    return f"{toleration['key']}{value}{effect}"


def _node_selector(facts: Facts, _: Step) -> str:
    now, near = f"{facts['key']}={facts['value']}", facts.get("to")
    if near is None:
        return f"drop {now} from the nodeSelector"
    return f"write {near['key']}={near['value']} instead of {now} in the nodeSelector: no node has {now}"


def _node_affinity(facts: Facts, _: Step) -> str:
    if "requirement" not in facts:
        return "drop the required node affinity"
    requirement = _requirement(facts["requirement"])
    if "value" in facts:
        return f"relax {requirement} of the required node affinity so that it accepts {facts['value']}, too"
    return f"drop {requirement} from the required node affinity"


def _pod_affinity(facts: Facts, _: Step) -> str:
    near = facts.get("to")
    if near is None:
        return f"drop the required affinity to pods {_pods(facts)}"
    now = f"{near['key']}={facts['labelSelector']['matchLabels'][near['key']]}"
    wanted = f"{near['key']}={near['value']}"
    return f"write {wanted} instead of {now} in the required affinity to pods: no pod of the namespace has {now}"


def _host_port(facts: Facts, _: Step) -> str:
    if "hostNetwork" in facts:
        return f"drop hostNetwork, and with it host ports {', '.join(facts['ports'])}"
    return f"drop host port {facts['port']}/{facts['protocol']} (container {facts['container']})"


# --- volumes, devices, groups, namespaces -----------------------------------------------------------------------------


def _claim_size(facts: Facts, _: Step) -> str:
    smaller, queried = (quantity_text("storage", facts[key]) for key in ("to", "size"))
    return f"request {smaller} in claim {facts['claim']} instead of {queried}"


def _claim_zone(facts: Facts, _: Step) -> str:
    volume = f"volume {facts['volume']} of claim {facts['claim']}"
    if facts["to"] is None:
        return f"move the data of {volume} to a volume that other nodes can reach"
    return f"move the data of {volume} to a volume in zone {facts['to']}"


def _device_count(facts: Facts, _: Step) -> str:
    now = "all devices" if facts["count"] is None else str(facts["count"])
    devices = "1 device" if facts["to"] == 1 else f"{facts['to']} devices"
    return f"ask for {devices} instead of {now} in {_of_request(facts)}"


def _device_selector(facts: Facts, _: Step) -> str:
    if "to" in facts:
        why = f": {facts['why']}" if facts["why"] else ""
        return f"write the selector {facts['to']} instead of {facts['selector']} in {_of_request(facts)}{why}"
    values = values_text([msgspec.convert(each, AttributeValues) for each in facts["attributes"]])
    return f"drop the selector {facts['selector']} from {_of_request(facts)}{values}"


def _device_constraint(facts: Facts, _: Step) -> str:
    if "to" in facts:
        return f"let the constraint of {_claim(facts)} be on {facts['to']} instead of {facts['attribute']}"
    return f"drop the constraint on {facts['attribute']} from {_claim(facts)}"


def _pool_update(facts: Facts, _: Step) -> str:
    there = f"{facts['slices']} of {facts['sliceCount']} slices of generation {facts['generation']} are there"
    if facts["slices"] == 1:
        there = there.replace(" are there", " is there")
    pool = f"pool {facts['pool']} of driver {facts['driver']}"
    return f"wait until {pool} is complete: its driver is updating it, {there}"


def _device_toleration(facts: Facts, _: Step) -> str:
    return f"tolerate the taint {_taint(facts)} of devices in {_of_request(facts)}"


def _device_class(facts: Facts, _: Step) -> str:
    return f"ask for devices of class {facts['to']} instead of {facts['class']} in {_of_request(facts)}"


def _of_request(facts: Facts) -> str:
    return f"request {facts['request']} of {_claim(facts)}"


def _claim(facts: Facts) -> str:
    return f"claim template {facts['template']}" if facts["template"] else f"claim {facts['claim']}"


def _group_members(facts: Facts, _: Step) -> str:
    missing = _members(facts["missing"]).replace(" ", " more ")
    return f"create {missing} of pod group {facts['group']}: it needs {facts['minCount']} and has {facts['members']}"


def _members(count: int) -> str:
    return "1 member" if count == 1 else f"{count} members"


def _labels(facts: Facts) -> str:
    """`disk=ssd instead of hdd, rack=1, no label old=x`."""
    return ", ".join(_label(key, value, facts["replaced"].get(key)) for key, value in facts["labels"].items())


def _label(key: str, value: str | None, before: str | None) -> str:
    if value is None:
        return f"no label {key}={before}" if before else f"no label {key}"
    return f"{key}={value}" if before is None else f"{key}={value} instead of {before or 'an empty value'}"


# --- nodes, other pods, others who say no -----------------------------------------------------------------------------


def _deletion(facts: Facts, _: Step) -> str:
    pods = facts["pods"]
    names = _few([f"{pod['namespace']}/{pod['name']}" for pod in pods], "pods")
    priorities = sorted({pod["priority"] for pod in pods})
    span = f"{priorities[0]}" if len(priorities) == 1 else f"{priorities[0]} to {priorities[-1]}"
    broken = f"; {facts['brokenBudgets']} of them against a disruption budget" if facts["brokenBudgets"] else ""
    budgets = "".join(map(_budget, facts["budgets"][:_MOST_NAMED]))
    come_again = _few(facts["comeAgain"], "of them")
    again = f"; the pod's own controller recreates {come_again}" if come_again else ""
    others = [pod for pod in pods if pod["name"] not in facts["comeAgain"]]
    after = _made_again(others, len(pods), facts["priority"])
    return f"delete {names} on {facts['node']} (priority {span}{broken}{budgets}{again}{after})"


def _made_again(pods: Sequence[Facts], total: int, own: int) -> str:
    """What becomes of the room, where other controllers make the pods again, or the pods are missed.

    `pods`: those of all that the pod's own controller does not make again; `own`: the priority of the pod.

    The queue is in the order of priorities. Of equal ones nothing is known: the pod may still back off when the other
    one comes.
    """
    first: list[Facts] = []
    equal: list[Facts] = []
    outranking: list[Facts] = []
    for pod in pods:
        if pod["priority"] > own:
            (first if pod["controller"] else outranking).append(pod)
        elif pod["priority"] == own and pod["controller"]:
            equal.append(pod)
    bare = [pod for pod in pods if not pod["controller"]]
    parts = [
        _of_controllers(first, total, f"go first: {_priorities(first)} against {own}") if first else "",
        _of_controllers(equal, total, "may get the room first") if equal else "",
        f"; of higher priority than the pod: {_priorities(outranking)} against {own}" if outranking else "",
        _unlabelled(len(bare), total) if bare else "",
    ]
    return "".join(parts)


def _of_controllers(pods: Sequence[Facts], total: int, effect: str) -> str:
    """`; its controller recreates it, and it goes first: priority 9 against 0`; of several pods how many."""
    if total == 1:
        return f"; its controller recreates it, and it {effect.replace('go ', 'goes ', 1)}"
    who = "all of them" if len(pods) == total else f"{len(pods)} of them"
    return f"; controllers recreate {who}, and these {effect}"


def _unlabelled(count: int, total: int) -> str:
    if total == 1:
        return "; no controller recreates it"
    return f"; no controller recreates {'them' if count == total else f'{count} of them'}"


def _priorities(pods: Sequence[Facts]) -> str:
    found = sorted({pod["priority"] for pod in pods})
    return f"priority {found[0]}" if len(found) == 1 else f"priorities {found[0]} to {found[-1]}"


def _release(facts: Facts, _: Step) -> str:
    pods, devices = facts["pods"], _few(facts["devices"], "devices")
    names = [each["claim"] for each in facts["claims"]]
    several = len(names) > 1
    claims = f"claim {names[0]}" if not several else f"claims {', '.join(names)}"
    if len(names) > _MOST_NAMED:
        claims = f"{len(names)} claims"
    hold = "hold" if several else "holds"
    if facts["goesWithItsPod"]:
        what = f"delete {_few(pods, 'pods')}, with which {claims} {'go' if several else 'goes'}, which {hold} {devices}"
    else:
        them = "them" if several else "it"
        users = f", and delete {_few(pods, 'pods')}, which use{'s' if len(pods) == 1 else ''} {them}"
        what = f"delete {claims}, which {hold} {devices}{users if pods else ''}"
    after = _made_again(facts["users"], len(pods), facts["priority"]).removeprefix("; ")
    priorities = f"{_priorities(facts['users'])}; " if pods else ""
    reported = f"{priorities}{after}".removesuffix("; ")
    return f"{what} ({reported})" if reported else what


def _few(names: Sequence[str], noun: str) -> str:
    """The names, or how many: of many the command has them, and JSON."""
    return ", ".join(names) if len(names) <= _MOST_NAMED else f"{len(names)} {noun}"


def _budget(budget: Facts) -> str:
    return f"; budget {budget['namespace']}/{budget['name']} allows {budget['allowed']}"


def _more_nodes(facts: Facts, _: Step) -> str:
    if facts["count"] == 1:
        return f"add a node like {facts['like']}"
    return f"add {facts['count']} nodes like {facts['like']}"


def _plugin(facts: Facts, _: Step) -> str:
    said = "; ".join(filter(None, facts["messages"])) or "it gives no reason"
    return f"ask the owner of plugin {facts['plugin']}, which is the only one that rejects it: {said}"


def _extender(facts: Facts, _: Step) -> str:
    messages = "; ".join(filter(None, facts["messages"])) or "it gives no reason"
    nodes = "1 node" if facts["turnedDown"] == 1 else f"{facts['turnedDown']} nodes"
    unasked = f"; {', '.join(facts['notAsked'])} was not asked yet" if facts["notAsked"] else ""
    return f"ask the owner of extender {facts['extender']}, which rejected the last {nodes}: {messages}{unasked}"


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


_TEXTS: Final[Mapping[ChangeKind, Callable[[Facts, Step], str]]] = {
    ChangeKind.GATE: _gate,
    ChangeKind.REQUEST: _request,
    ChangeKind.RESOURCE_NAME: _resource_name,
    ChangeKind.TOLERATION: _toleration,
    ChangeKind.NODE_SELECTOR: _node_selector,
    ChangeKind.NODE_AFFINITY: _node_affinity,
    ChangeKind.POD_AFFINITY: _pod_affinity,
    ChangeKind.POD_ANTI_AFFINITY: lambda facts, _: f"drop the required anti-affinity to pods {_pods(facts)}",
    ChangeKind.MAX_SKEW: lambda facts, _: (
        f"allow a maxSkew of {facts['to']} instead of {facts['maxSkew']} over {facts['topologyKey']}"
    ),
    ChangeKind.SPREAD_CONSTRAINT: lambda facts, _: (
        f"make the spread over {facts['topologyKey']} a preference (whenUnsatisfiable: ScheduleAnyway)"
    ),
    ChangeKind.HOST_PORT: _host_port,
    ChangeKind.CLAIM_SIZE: _claim_size,
    ChangeKind.CLAIM_CLASS: lambda facts, _: (
        f"let claim {facts['claim']} be of storage class {facts['to']} instead of {facts['class'] or 'none'}"
    ),
    ChangeKind.NEW_CLAIM: lambda facts, _: (
        f"recreate the pod: it has claim {', '.join(facts['claims'])} from before the template was changed"
    ),
    ChangeKind.DEVICE_COUNT: _device_count,
    ChangeKind.DEVICE_SELECTOR: _device_selector,
    ChangeKind.DEVICE_CONSTRAINT: _device_constraint,
    ChangeKind.DEVICE_TOLERATION: _device_toleration,
    ChangeKind.DEVICE_CLASS: _device_class,
    ChangeKind.GROUP_MIN_COUNT: lambda facts, _: (
        f"let pod group {facts['group']} need {_members(facts['to'])} instead of {facts['minCount']}"
    ),
    ChangeKind.GROUP_MEMBERS: _group_members,
    ChangeKind.GROUP_TOPOLOGY: lambda facts, _: (
        f"let pod group {facts['group']} be placed anywhere, without its topology constraint on {facts['key']}"
    ),
    ChangeKind.NAMESPACE_LABEL: lambda facts, _: f"label namespace {facts['namespace']}: {_labels(facts)}",
    ChangeKind.CLASS_TOPOLOGY: lambda facts, _: (
        f"let storage class {facts['class']} of claim {facts['claim']} make volumes anywhere (no allowedTopologies)"
    ),
    ChangeKind.CLAIM_ZONE: _claim_zone,
    ChangeKind.UNCORDON: lambda _, step: f"uncordon node {step.changes[0].name}",
    ChangeKind.TAINT: lambda facts, step: (
        f"take {', '.join(map(_taint, facts['taints']))} off node {step.changes[0].name}"
    ),
    ChangeKind.DEVICE_TAINT_RULE: lambda facts, _: (
        f"delete DeviceTaintRule {facts['rule']}, which taints devices with {_taint(facts)}"
    ),
    ChangeKind.POOL_UPDATE: _pool_update,
    ChangeKind.NODE_LABEL: lambda facts, step: f"label node {step.changes[0].name}: {_labels(facts)}",
    ChangeKind.DETACH_VOLUME: lambda facts, _: (
        f"detach volume {facts['volume']}, which no pod uses there, from node {facts['node']}"
    ),
    ChangeKind.PLUGIN: _plugin,
    ChangeKind.EXTENDER: _extender,
    ChangeKind.RELEASE_DEVICES: _release,
    ChangeKind.DELETE_PODS: _deletion,
    ChangeKind.ADD_NODE: _more_nodes,
}
