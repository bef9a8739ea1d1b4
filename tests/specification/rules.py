"""The in-tree filters for one pod and one node, as plainly as they can be said: the executable specification.

A verdict is `None` where the node passes, else whether preemption could help and the set of reasons.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from string import ascii_letters, digits

from kscheduler.api.core import (
    ContainerPort,
    Node,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    Taint,
    Toleration,
)
from kscheduler.config.plugin_args import NodeAffinityArgs, NodeResourcesFitArgs
from tests.specification.requests_by_hand import allocatable_of, request_of, requested_on

# (preemption might help, reasons).
LoggedFailure = tuple[bool, frozenset[str]] | None

SCALARS = ("example.com/fpga", "example.com/gpu", "hugepages-2Mi")
RESOURCES = ("cpu", "memory", "ephemeral-storage", *SCALARS)


@dataclass(frozen=True)
class Place:
    """A node with the pods on it."""

    node: Node
    pods: tuple[Pod, ...]


Rule = Callable[[Pod, Place], LoggedFailure]


def hopeless(reason: str) -> LoggedFailure:
    return False, frozenset((reason,))


def node_unschedulable(pod: Pod, place: Place) -> LoggedFailure:
    cordoned = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
    if place.node.spec.unschedulable and not tolerated(cordoned, pod.spec.tolerations):
        return hopeless("node(s) were unschedulable")
    return None


def node_name(pod: Pod, place: Place) -> LoggedFailure:
    if pod.spec.node_name not in ("", place.node.metadata.name):
        return hopeless("node(s) didn't match the requested node name")
    return None


def taint_toleration(pod: Pod, place: Place, *, compares: bool = False) -> LoggedFailure:
    for taint in place.node.spec.taints:
        if taint.effect != "PreferNoSchedule" and not tolerated(taint, pod.spec.tolerations, compares=compares):
            return hopeless("node(s) had untolerated taint(s)")
    return None


def tolerated(taint: Taint, tolerations: Iterable[Toleration], *, compares: bool = False) -> bool:
    """`compares`: the gate TaintTolerationComparisonOperators is on."""
    for one in tolerations:
        same_effect = one.effect in ("", taint.effect)
        same_key = one.key in ("", taint.key)
        is_equal = one.operator in ("", "Equal") and one.value == taint.value
        is_covered = is_equal or one.operator == "Exists"
        if compares and one.operator in ("Lt", "Gt"):
            there, bound = strict_int64(taint.value), strict_int64(one.value)
            if there is not None and bound is not None:
                is_covered = there < bound if one.operator == "Lt" else there > bound
        if same_effect and same_key and is_covered:
            return True
    return False


def strict_int64(text: str) -> int | None:
    """Written as `str` writes it, and no longer than 64 bits."""
    try:
        number = int(text)
    except ValueError:
        return None
    return number if str(number) == text and -(2**63) <= number < 2**63 else None


def node_affinity(args: NodeAffinityArgs) -> Rule:
    added = args.added_affinity.required_during_scheduling_ignored_during_execution if args.added_affinity else None

    def rule(pod: Pod, place: Place) -> LoggedFailure:
        if added is not None and not any(term_matches(term, place.node) for term in added.node_selector_terms):
            return hopeless("node(s) didn't match scheduler-enforced node affinity")
        if not _wants(pod, place.node):
            return hopeless("node(s) didn't match Pod's node affinity/selector")
        return None

    return rule


def _wants(pod: Pod, node: Node) -> bool:
    if any(node.metadata.labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required is None or any(term_matches(term, node) for term in required.node_selector_terms)


def term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    if not is_sound(term):
        return False
    by_label = all(requirement_holds(one, node.metadata.labels.get(one.key)) for one in term.match_expressions)
    return by_label and all(requirement_holds(one, node.metadata.name) for one in term.match_fields)


def is_sound(term: NodeSelectorTerm) -> bool:
    """Whether every value is one that a label can have, and the bounds of Gt and Lt are numbers besides."""
    return all(_is_sound_value(text, one.operator) for one in term.match_expressions for text in one.values)


@lru_cache(maxsize=1024)
def _is_sound_value(text: str, operator: str) -> bool:
    if len(text) > 63 or set(text) - {*ascii_letters, *digits, *"-_."} or text != text.strip("-_."):
        return False
    return operator not in ("Gt", "Lt") or (text.isdigit() and int(text) < 2**63)


def requirement_holds(one: NodeSelectorRequirement, value: str | None) -> bool:
    if one.operator == "In":
        return value in one.values
    if one.operator == "NotIn":
        return value not in one.values
    if one.operator == "Exists":
        return value is not None
    if one.operator == "DoesNotExist":
        return value is None
    try:
        number, bound = int(value or ""), int(one.values[0])
    except ValueError:
        return False
    return number > bound if one.operator == "Gt" else number < bound


def node_ports(pod: Pod, place: Place) -> LoggedFailure:
    for other in place.pods:
        for wanted in host_ports(pod):
            for taken in host_ports(other):
                if ports_conflict(wanted, taken):
                    return True, frozenset(("node(s) didn't have free ports for the requested pod ports",))
    return None


def host_ports(pod: Pod) -> Sequence[ContainerPort]:
    sidecars = [one for one in pod.spec.init_containers if one.restart_policy == "Always"]
    return [port for one in (*pod.spec.containers, *sidecars) for port in one.ports if port.host_port]


def ports_conflict(one: ContainerPort, other: ContainerPort) -> bool:
    if one.host_port != other.host_port or (one.protocol or "TCP") != (other.protocol or "TCP"):
        return False
    addresses = {one.host_ip or "0.0.0.0", other.host_ip or "0.0.0.0"}
    return len(addresses) == 1 or "0.0.0.0" in addresses


def node_resources_fit(args: NodeResourcesFitArgs) -> Rule:
    def rule(pod: Pod, place: Place) -> LoggedFailure:
        reasons = set()
        might_help = True
        if len(place.pods) + 1 > allocatable_of(place.node, "pods"):
            reasons.add("Too many pods")
        for resource in RESOURCES:
            request = request_of(pod, resource)
            capacity = allocatable_of(place.node, resource)
            if request == 0 or _ignored(resource, args):
                continue
            if request > capacity - requested_on(place.pods, resource):
                reasons.add(f"Insufficient {resource}")
                might_help = might_help and request <= capacity
        return (might_help, frozenset(reasons)) if reasons else None

    return rule


def _ignored(resource: str, args: NodeResourcesFitArgs) -> bool:
    is_extended = "/" in resource
    prefix = resource.split("/", maxsplit=1)[0]
    return is_extended and (resource in args.ignored_resources or prefix in args.ignored_resource_groups)
