"""Every single change of a scenario, made by hand in its JSON: nothing here knows the search for suggestions.

A change is named as a suggestion's step is: kind and subject (`subject_of`).
"""

import json
from collections.abc import Iterator
from itertools import combinations

import msgspec

from tests.builders import Tree
from tests.specification.decisions.objects import REQUIRED

# Kind, subject, and the scenario after it.
Change = tuple[str, str, Tree]
ZONE = "topology.kubernetes.io/zone"
CORDON = "node.kubernetes.io/unschedulable"
_MAX_PAIRED = 10


def of_the_pod(scenario: Tree) -> Iterator[Change]:
    """The pod gives up one thing."""
    spec = scenario["pod"]["spec"]
    if spec.get("schedulingGates"):
        after, new = _copied(scenario)
        del new["schedulingGates"]
        yield "schedulingGate", "", after
    for resource in sorted({name for each in _holders(spec) for name in _requests(each)}):
        after, new = _copied(scenario)
        for each in _holders(new):
            _requests(each).pop(resource, None)
        yield "request", resource, after
    for taint in _taints(scenario):
        after, new = _copied(scenario)
        new["tolerations"] = [*new.get("tolerations", ()), {**taint, "operator": "Equal"}]
        yield "toleration", f"{taint['key']}={taint['value']}:{taint['effect']}", after
    yield from _selectors(scenario)
    yield from _about_pods(scenario)
    yield from _ports(scenario)


def _selectors(scenario: Tree) -> Iterator[Change]:
    spec = scenario["pod"]["spec"]
    for key in spec.get("nodeSelector", {}):
        after, new = _copied(scenario)
        del new["nodeSelector"][key]
        yield "nodeSelector", key, after
    required = spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED)
    if required is None:
        return
    after, new = _copied(scenario)
    del new["affinity"]["nodeAffinity"][REQUIRED]
    yield "nodeAffinity", "", after
    for number, term in enumerate(required["nodeSelectorTerms"]):
        places = [(name, at) for name in ("matchExpressions", "matchFields") for at in range(len(term.get(name, ())))]
        for name, at in places if len(places) > 1 else ():
            after, new = _copied(scenario)
            gone = new["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"][number][name].pop(at)
            yield "nodeAffinity", f"{number} {gone['key']} {gone['operator']}", after


def _about_pods(scenario: Tree) -> Iterator[Change]:
    spec = scenario["pod"]["spec"]
    for name in ("podAffinity", "podAntiAffinity"):
        for position in range(len(spec.get("affinity", {}).get(name, {}).get(REQUIRED, ()))):
            after, new = _copied(scenario)
            del new["affinity"][name][REQUIRED][position]
            yield name, str(position), after
    for position, constraint in enumerate(spec.get("topologySpreadConstraints", ())):
        if constraint["whenUnsatisfiable"] == "DoNotSchedule":
            after, new = _copied(scenario)
            new["topologySpreadConstraints"][position]["whenUnsatisfiable"] = "ScheduleAnyway"
            yield "spread", str(position), after


def _ports(scenario: Tree) -> Iterator[Change]:
    spec = scenario["pod"]["spec"]
    for name in ("containers", "initContainers"):
        for at, container in enumerate(spec.get(name, ())):
            for position, port in enumerate(container.get("ports", ())):
                if "hostPort" not in port:
                    continue
                after, new = _copied(scenario)
                del new[name][at]["ports"][position]["hostPort"]
                yield "hostPort", f"{container['name']} {port['hostPort']}/{port.get('protocol') or 'TCP'}", after


# --- other objects ----------------------------------------------------------------------------------------------------


def of_others(scenario: Tree) -> Iterator[Change]:
    """One other object is changed, goes, or comes."""
    for position, pod in enumerate(scenario["objects"]["pods"]):
        after = copied(scenario)
        del after["objects"]["pods"][position]
        yield "deletePods", pod["metadata"]["name"], after
    for position in range(len(scenario["objects"]["nodes"])):
        yield from _of_node(scenario, position)
    for position, namespace in enumerate(scenario["objects"]["namespaces"]):
        for value in ("a", "b", None):
            after = copied(scenario)
            labels = after["objects"]["namespaces"][position]["metadata"]["labels"]
            labels.pop("team", None)
            labels |= {} if value is None else {"team": value}
            yield "namespaceLabel", namespace["metadata"]["name"], after
    yield from _of_claims(scenario)


def _of_node(scenario: Tree, position: int) -> Iterator[Change]:
    node = scenario["objects"]["nodes"][position]
    name, taints = node["metadata"]["name"], node["spec"].get("taints", [])
    if node["spec"].get("unschedulable"):
        after = copied(scenario)
        after["objects"]["nodes"][position]["spec"]["unschedulable"] = False
        yield "uncordon", name, after
    elif taints:
        after = copied(scenario)
        after["objects"]["nodes"][position]["spec"]["taints"] = []
        yield "taint", name, after
    wanted = scenario["pod"]["spec"].get("nodeSelector", {})
    if wanted and not (ZONE in wanted and ZONE in node["metadata"]["labels"]):  # a node does not move by its label
        after = copied(scenario)
        after["objects"]["nodes"][position]["metadata"]["labels"] |= wanted
        yield "nodeLabel", name, after
    after = copied(scenario)
    another = copied(node)
    another["metadata"]["name"] = "another"
    if "kubernetes.io/hostname" in another["metadata"]["labels"]:
        another["metadata"]["labels"]["kubernetes.io/hostname"] = "another"
    another["spec"]["unschedulable"] = False
    after["objects"]["nodes"].append(another)
    yield "addNode", "", after


def _of_claims(scenario: Tree) -> Iterator[Change]:
    classes = [each["metadata"]["name"] for each in scenario["objects"].get("storageclasses", ())]
    names = {
        volume["persistentVolumeClaim"]["claimName"]
        for volume in scenario["pod"]["spec"].get("volumes", ())
        if "persistentVolumeClaim" in volume
    }
    for position, claim in enumerate(scenario["objects"].get("persistentvolumeclaims", ())):
        if claim["metadata"]["name"] not in names or claim["spec"].get("volumeName"):
            continue
        for other in classes:
            if other != claim["spec"]["storageClassName"]:
                after = copied(scenario)
                after["objects"]["persistentvolumeclaims"][position]["spec"]["storageClassName"] = other
                yield "claimClass", f"{claim['metadata']['name']} {other}", after


# --- what suggestions are compared with -------------------------------------------------------------------------------


def pairs_of_the_pod(scenario: Tree) -> Iterator[tuple[str, Tree]]:
    """The pod gives up two things, one after the other."""
    for first, second in combinations(list(of_the_pod(scenario))[:_MAX_PAIRED], 2):
        for kind, subject, after in of_the_pod(first[2]):
            if (kind, subject) == second[:2]:
                yield f"{first[0]} {first[1]} + {kind} {subject}", after
                break


def subject_of(kind: str, facts: Tree, changes: list[Tree]) -> tuple[str, str]:
    """The names that a step of a suggestion has here."""
    match kind:
        case "request":
            return kind, facts["resource"]
        case "toleration":
            return kind, f"{facts['key']}={facts['value']}:{facts['effect']}" if "effect" in facts else facts["key"]
        case "nodeSelector":
            return kind, facts["key"]
        case "nodeAffinity" if "requirement" in facts and "value" not in facts:
            requirement = facts["requirement"]
            return kind, f"{facts['term']} {requirement['key']} {requirement['operator']}"
        case "podAffinity" | "podAntiAffinity":
            return kind, str(facts["term"])
        case "maxSkew" | "topologySpreadConstraint":
            return "spread", str(facts["constraint"])
        case "hostPort":
            return kind, f"{facts['container']} {facts['port']}/{facts['protocol']}"
        case "deletePods" | "uncordon" | "taint" | "nodeLabel" | "namespaceLabel":
            return kind, ",".join(change["name"] for change in changes)
        case "claimClass":
            return kind, f"{facts['claim']} {facts['to']}"
    return kind, ""


def requesting(scenario: Tree, resource: str, amount: int) -> Tree:
    """The pod requests so much of a resource, overhead included: all of it by its first container."""
    after, spec = _copied(scenario)
    for each in _holders(spec):
        _requests(each).pop(resource, None)
    overhead = spec.get("overhead", {}).get(resource, "0m") if resource == "cpu" else "0m"
    own = amount - int(overhead.removesuffix("m"))
    spec["containers"][0]["resources"]["requests"][resource] = f"{own}m" if resource == "cpu" else str(own)
    return after


def _taints(scenario: Tree) -> list[Tree]:
    nodes = scenario["objects"]["nodes"]
    found = {json.dumps(taint) for node in nodes for taint in node["spec"].get("taints", ())}
    listed = [taint for taint in map(json.loads, sorted(found)) if taint["effect"] != "PreferNoSchedule"]
    if any(node["spec"].get("unschedulable") for node in nodes):
        listed.append({"key": CORDON, "value": "", "effect": "NoSchedule"})
    return listed


def _holders(spec: Tree) -> list[Tree]:
    """What has requests: containers, and the pod as a whole."""
    whole = [spec] if "resources" in spec else []
    return [*spec["containers"], *spec.get("initContainers", ()), *whole]


def _requests(holder: Tree) -> Tree:
    found: Tree = holder.setdefault("resources", {}).setdefault("requests", {})
    return found


def copied(tree: Tree) -> Tree:
    """A copy of JSON, faster than by `deepcopy`."""
    again: Tree = msgspec.json.decode(msgspec.json.encode(tree))
    return again


def _copied(scenario: Tree) -> tuple[Tree, Tree]:
    """The scenario with a copy of its pod; the other objects are shared."""
    pod = copied(scenario["pod"])
    return {**scenario, "pod": pod}, pod["spec"]
