"""What must hold on every cluster that a scheduler has worked on, computed from the API server's objects alone.

Three promises: no node holds more than its allocatable, no pod was bound twice, and no pod was forgotten, which is to
say that every pending pod which fits somewhere is bound. Everything is computed here from the JSON, with fractions and
plain loops, and nothing of kscheduler is imported: an auditor must not share the mistakes of the audited.

The third promise knows the rules that the scenarios use (cordon, taints, nodeSelector, required node affinity on
labels, host ports, resources, pod count). A pod that needs any other rule is left out of it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

Object = dict[str, Any]
Amounts = dict[str, Fraction]

SUFFIXES = {
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{suffix: Fraction(1, 1000) ** power for power, suffix in enumerate(("m", "u", "n"), 1)},
}
FINISHED = frozenset({"Succeeded", "Failed"})
HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


def quantity(text: str | float) -> Fraction:
    """A Kubernetes quantity as an exact number: `1500m` is 3/2, `1Ki` is 1024, `1e3` is 1000."""
    written = str(text)
    for suffix, factor in SUFFIXES.items():
        if written.endswith(suffix):
            return Fraction(written.removesuffix(suffix)) * factor
    return Fraction(written)


def requests_of(pod: Object) -> Amounts:
    """What a pod takes from its node: the larger of its containers' sum and each init container's need, plus overhead.

    An init container with `restartPolicy: Always` stays, and so counts from its start on, for the ones after it too.
    """
    spec = pod["spec"]
    staying: Amounts = {}
    largest: Amounts = {}
    for container in spec.get("initContainers", []):
        own = container_requests(container)
        largest = maximum(largest, total((staying, own)))
        if container.get("restartPolicy") == "Always":
            staying = total((staying, own))
    running = total((staying, *(container_requests(c) for c in spec["containers"])))
    whole = total((maximum(running, largest), amounts(spec.get("overhead", {})), {"pods": Fraction(1)}))
    # what a claim for extended resources stands for is no amount of the node
    claimed = pod.get("status", {}).get("extendedResourceClaimStatus", {}).get("requestMappings", [])
    by_devices = {mapping["resourceName"] for mapping in claimed}
    return {resource: amount for resource, amount in whole.items() if resource not in by_devices}


def container_requests(container: Object) -> Amounts:
    return amounts(container.get("resources", {}).get("requests", {}))


def amounts(written: Mapping[str, str]) -> Amounts:
    return {name: quantity(text) for name, text in written.items()}


def total(parts: Iterable[Amounts]) -> Amounts:
    summed: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            summed[name] = summed.get(name, Fraction(0)) + amount
    return summed


def maximum(one: Amounts, other: Amounts) -> Amounts:
    zero = Fraction(0)
    return {name: max(one.get(name, zero), other.get(name, zero)) for name in one | other}


def name_of(thing: Object) -> str:
    metadata = thing["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def is_finished(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in FINISHED


def pods_by_node(pods: Iterable[Object]) -> dict[str, list[Object]]:
    """The pods that take room, by the node they are bound to."""
    grouped: dict[str, list[Object]] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node and not is_finished(pod):
            grouped.setdefault(node, []).append(pod)
    return grouped


def overcommitted(nodes: Iterable[Object], pods: Iterable[Object]) -> list[str]:
    """A line per node and resource that holds more than the node's allocatable."""
    grouped = pods_by_node(pods)
    return [line for node in nodes for line in excess(node, grouped.get(name_of(node), []))]


def excess(node: Object, pods: Sequence[Object]) -> Iterator[str]:
    allocatable = amounts(node.get("status", {}).get("allocatable", {}))
    for resource, used in total(requests_of(pod) for pod in pods).items():
        if used > allocatable.get(resource, 0):
            yield f"node {name_of(node)} is over its allocatable {resource}: {used} of {allocatable.get(resource, 0)}"
    for port, count in Counter(host_port for pod in pods for host_port in host_ports(pod)).items():
        if count > 1:
            yield f"node {name_of(node)} has host port {port} taken {count} times"


def forgotten(nodes: Sequence[Object], pods: Sequence[Object], scheduler_name: str) -> list[str]:
    """A line per pending pod of this scheduler for which there is room, found by trying every node."""
    grouped = pods_by_node(pods)
    waiting = [pod for pod in pods if is_waiting(pod, scheduler_name) and not needs_other_rules(pod)]
    lines = []
    for pod in waiting:
        node = next((n for n in nodes if fits(pod, n, grouped.get(name_of(n), []))), None)
        if node is not None:
            lines.append(f"pod {name_of(pod)} is pending although it fits on {name_of(node)}: {condition_text(pod)}")
    return lines


def is_waiting(pod: Object, scheduler_name: str) -> bool:
    spec, metadata = pod["spec"], pod["metadata"]
    held_back = spec.get("schedulingGates") or metadata.get("deletionTimestamp") or is_finished(pod)
    return spec.get("schedulerName") == scheduler_name and not spec.get("nodeName") and not held_back


def needs_other_rules(pod: Object) -> bool:
    spec = pod["spec"]
    affinity = spec.get("affinity", {})
    # The API server adds a projected token volume to every pod; it binds the pod to no node.
    volumes = [v for v in spec.get("volumes", []) if "persistentVolumeClaim" in v or "ephemeral" in v]
    rules = (spec.get("topologySpreadConstraints"), spec.get("resourceClaims"), spec.get("schedulingGroup"), volumes)
    return any(rules) or "podAffinity" in affinity or "podAntiAffinity" in affinity


def condition_text(pod: Object) -> str:
    conditions = pod.get("status", {}).get("conditions", [])
    return "; ".join(str(c.get("message", "")) for c in conditions if c["type"] == "PodScheduled") or "no condition"


def fits(pod: Object, node: Object, neighbours: Sequence[Object]) -> bool:
    """Whether the pod may run on the node beside those that are there."""
    if name_of(node) != pod["spec"].get("nodeName", name_of(node)) or node["metadata"].get("deletionTimestamp"):
        return False
    return tolerates(pod, node) and selects(pod, node) and has_room(pod, node, neighbours)


def has_room(pod: Object, node: Object, neighbours: Sequence[Object]) -> bool:
    return not list(excess(node, [*neighbours, pod]))


def tolerates(pod: Object, node: Object) -> bool:
    taints = [t for t in node["spec"].get("taints", []) if t["effect"] in HARD_EFFECTS]
    if node["spec"].get("unschedulable"):
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    tolerations = pod["spec"].get("tolerations", [])
    return all(any(tolerates_taint(toleration, taint) for toleration in tolerations) for taint in taints)


def tolerates_taint(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect", taint["effect"]) != taint["effect"]:
        return False
    if toleration.get("operator") == "Exists":
        return bool(toleration.get("key", taint["key"]) == taint["key"])
    same_key = toleration.get("key") == taint["key"]
    return bool(same_key and toleration.get("value", "") == taint.get("value", ""))


def selects(pod: Object, node: Object) -> bool:
    labels = node["metadata"].get("labels", {})
    spec = pod["spec"]
    if any(labels.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
        return False
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(term_matches(term, labels) for term in required["nodeSelectorTerms"])


def term_matches(term: Object, labels: Mapping[str, str]) -> bool:
    expressions = term.get("matchExpressions", [])
    return bool(expressions) and all(expression_matches(e, labels) for e in expressions)


def expression_matches(expression: Object, labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values", [])
    outcomes = {
        "In": key in labels and labels[key] in values,
        "NotIn": labels.get(key) not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }
    return outcomes[expression["operator"]]


def host_ports(pod: Object) -> set[tuple[str, int]]:
    ports = (port for container in pod["spec"]["containers"] for port in container.get("ports", []))
    return {(port.get("protocol", "TCP"), port["hostPort"]) for port in ports if port.get("hostPort")}
