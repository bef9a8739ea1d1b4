"""Random clusters in which a pod often has no node, as the JSON of a scenario; and every single change of it, by hand.

The changes here know nothing of the search for suggestions: they are made in the JSON, and all of it is decided again.
"""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

from kscheduler.api.well_known import DEFAULT_SCHEDULER_NAME
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.loader import default_configuration
from kscheduler.scenario.decide import Decision, decide
from kscheduler.scenario.scenario import parse_scenario

Tree = dict[str, Any]

AS_1_37 = FeatureGates(version="1.37")
_ZONES = ("a", "b", "c")
_APPS = ("web", "db")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def random_scenario(chance: random.Random) -> Tree:
    """A few nodes, some of them tainted or cordoned, some pods, and a pod that asks for several things at a time."""
    nodes = [_node(chance, number) for number in range(chance.randint(1, 7))]
    pods = [_pod(chance, f"pod-{number}", chance.choice(nodes)) for number in range(chance.randint(0, 12))]
    objects = {"nodes": nodes, "pods": pods, "poddisruptionbudgets": []}
    return {"id": "random", "config": None, "objects": objects, "pod": _querying(chance)}


def decided(scenario: Tree) -> Decision:
    """The whole decision about it; one with gates is about Kubernetes 1.37, where these gates are."""
    built_in = default_configuration(DEFAULT_SCHEDULER_NAME, AS_1_37) if scenario.get("gates") else None
    return decide(parse_scenario(json.dumps(scenario).encode(), "random:1", built_in))


def feasible(scenario: Tree) -> int:
    """How many nodes the pod fits on; 0 where it is gated, too."""
    record = decided(scenario).record
    return 0 if record is None else len(record.feasible)


def _node(chance: random.Random, number: int) -> Tree:
    labels = {"kubernetes.io/hostname": f"node-{number}"}
    if chance.random() < 0.8:
        labels["zone"] = chance.choice(_ZONES)
    if chance.random() < 0.4:
        labels["disk"] = chance.choice(("ssd", "hdd"))
    taints = [
        {"key": chance.choice(("team", "gpu")), "value": chance.choice(("", "x")), "effect": chance.choice(_EFFECTS)}
        for _ in range(chance.choice((0, 0, 0, 1, 1, 2)))
    ]
    allocatable = {"cpu": chance.choice(("1", "2", "4")), "memory": chance.choice(("2Gi", "8Gi")), "pods": "110"}
    if chance.random() < 0.3:
        allocatable["example.com/gpu"] = chance.choice(("1", "4"))
    metadata: Tree = {"name": f"node-{number}"}
    if chance.random() < 0.9:
        metadata["labels"] = labels
    spec: Tree = {"taints": taints} if taints else {}
    if chance.random() < 0.1:
        spec["unschedulable"] = True
    return {"metadata": metadata, "spec": spec, "status": {"allocatable": allocatable}}


_EFFECTS = ("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule")


def _pod(chance: random.Random, name: str, node: Tree) -> Tree:
    requests = {"cpu": chance.choice(("100m", "500m", "1500m")), "memory": chance.choice(("64Mi", "1Gi"))}
    container: Tree = {"name": "main", "resources": {"requests": requests}}
    if chance.random() < 0.2:
        container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    spec: Tree = {
        "nodeName": node["metadata"]["name"],
        "containers": [container],
        "priority": chance.choice((-10, 0, 0, 100)),
    }
    if chance.random() < 0.15:
        spec["affinity"] = {"podAntiAffinity": {_REQUIRED: [_term(chance)]}}
    labels = {"app": chance.choice(_APPS)}
    return {"metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels}, "spec": spec}


def _term(chance: random.Random) -> Tree:
    key = chance.choice(("zone", "kubernetes.io/hostname"))
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": chance.choice(_APPS)}}}


def _querying(chance: random.Random) -> Tree:
    requests = {"cpu": chance.choice(("200m", "1", "3")), "memory": chance.choice(("100Mi", "3Gi", "6Gi"))}
    resources: Tree = {"requests": requests}
    if chance.random() < 0.15:
        requests["example.com/gpu"] = "2"
        resources["limits"] = {"example.com/gpu": "2"}
    container: Tree = {"name": "main", "resources": resources}
    if chance.random() < 0.2:
        container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    spec: Tree = {"schedulerName": "default-scheduler", "containers": [container]}
    if chance.random() < 0.2:
        spec["initContainers"] = [{"name": "first", "resources": {"requests": {"cpu": "2", "memory": "10Mi"}}}]
    if chance.random() < 0.3:
        spec["nodeSelector"] = {"disk": "ssd"}
        if chance.random() < 0.4:
            spec["nodeSelector"]["zone"] = chance.choice(_ZONES)
    if chance.random() < 0.2:
        spec["tolerations"] = [{"key": "team", "operator": "Exists"}]
    if chance.random() < 0.3:
        spec["topologySpreadConstraints"] = [_constraint(chance) for _ in range(chance.randint(1, 2))]
    if chance.random() < 0.1:
        spec["schedulingGates"] = [{"name": "example.com/quota"}]
    if affinity := _affinity(chance):
        spec["affinity"] = affinity
    labels = {"app": chance.choice(_APPS)}
    return {"metadata": {"name": "new", "namespace": "default", "uid": "new", "labels": labels}, "spec": spec}


def _constraint(chance: random.Random) -> Tree:
    constraint: Tree = {
        "maxSkew": 1,
        "topologyKey": chance.choice(("zone", "kubernetes.io/hostname")),
        "whenUnsatisfiable": chance.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": {"matchLabels": {"app": chance.choice(_APPS)}},
    }
    if constraint["whenUnsatisfiable"] == "DoNotSchedule" and chance.random() < 0.1:
        constraint["minDomains"] = 3
    return constraint


def _affinity(chance: random.Random) -> Tree:
    affinity: Tree = {}
    if chance.random() < 0.2:
        affinity["podAntiAffinity"] = {_REQUIRED: [_term(chance) for _ in range(chance.randint(1, 2))]}
    if chance.random() < 0.15:
        affinity["podAffinity"] = {_REQUIRED: [_term(chance)]}
    if chance.random() < 0.2:
        expressions = [{"key": "disk", "operator": "In", "values": ["hdd"]}]
        if chance.random() < 0.5:
            expressions.append({"key": "zone", "operator": "NotIn", "values": ["a"]})
        terms = [{"matchExpressions": expressions}]
        affinity["nodeAffinity"] = {_REQUIRED: {"nodeSelectorTerms": terms}}
    return affinity


# --- every single change ----------------------------------------------------------------------------------------------


def single_changes(scenario: Tree) -> Iterator[tuple[str, str, Tree]]:
    """ChangeKind, subject and the scenario after the change."""
    yield from _of_the_pod(scenario)
    yield from _elsewhere(scenario)


def _of_the_pod(scenario: Tree) -> Iterator[tuple[str, str, Tree]]:
    spec = scenario["pod"]["spec"]
    if "schedulingGates" in spec:
        after, new = _copy(scenario)
        del new["schedulingGates"]
        yield "schedulingGate", "", after
    for resource in spec["containers"][0]["resources"]["requests"]:
        after, new = _copy(scenario)
        for container in (*new["containers"], *new.get("initContainers", ())):
            container["resources"]["requests"].pop(resource, None)
        yield "request", resource, after
    taints = {json.dumps(taint) for node in scenario["objects"]["nodes"] for taint in node["spec"].get("taints", ())}
    for taint in map(json.loads, sorted(taints)):
        after, new = _copy(scenario)
        new.setdefault("tolerations", []).append({**taint, "operator": "Equal"})
        yield "toleration", f"{taint['key']}={taint['value']}:{taint['effect']}", after
    for key in spec.get("nodeSelector", {}):
        after, new = _copy(scenario)
        del new["nodeSelector"][key]
        yield "nodeSelector", key, after
    if "nodeAffinity" in spec.get("affinity", {}):
        after, new = _copy(scenario)
        del new["affinity"]["nodeAffinity"]
        yield "nodeAffinity", "", after
    for name in ("podAffinity", "podAntiAffinity"):
        for position in range(len(spec.get("affinity", {}).get(name, {}).get(_REQUIRED, ()))):
            after, new = _copy(scenario)
            del new["affinity"][name][_REQUIRED][position]
            yield name, str(position), after
    for position, constraint in enumerate(spec.get("topologySpreadConstraints", ())):
        if constraint["whenUnsatisfiable"] == "DoNotSchedule":
            after, new = _copy(scenario)
            del new["topologySpreadConstraints"][position]
            yield "spread", str(position), after
    if "ports" in spec["containers"][0]:
        after, new = _copy(scenario)
        del new["containers"][0]["ports"]
        yield "hostPort", "", after


def _elsewhere(scenario: Tree) -> Iterator[tuple[str, str, Tree]]:
    for position in range(len(scenario["objects"]["pods"])):
        after = copy.deepcopy(scenario)
        del after["objects"]["pods"][position]
        yield "deletePods", "", after
    for position, node in enumerate(scenario["objects"]["nodes"]):
        if node["spec"].get("taints") and not node["spec"].get("unschedulable"):
            after = copy.deepcopy(scenario)
            del after["objects"]["nodes"][position]["spec"]["taints"]
            yield "taint", "", after
        if node["spec"].get("unschedulable"):
            after = copy.deepcopy(scenario)
            after["objects"]["nodes"][position]["spec"]["unschedulable"] = False
            yield "uncordon", "", after
        after = copy.deepcopy(scenario)
        another = copy.deepcopy(node)
        another["metadata"]["name"] = "another"
        another["metadata"].get("labels", {})["kubernetes.io/hostname"] = "another"
        another["spec"].pop("unschedulable", None)
        after["objects"]["nodes"].append(another)
        yield "addNode", "", after


def _copy(scenario: Tree) -> tuple[Tree, Tree]:
    after = copy.deepcopy(scenario)
    return after, after["pod"]["spec"]
