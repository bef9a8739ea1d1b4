"""Whether a node wants a pod template at all: name, selector, required affinity, taints. Over stored objects.

A DaemonSet asks this of each node; resources are the scheduler's business. Nodes are decoded once per version.
"""

from collections.abc import Collection, Iterator

import msgspec

from kscheduler.api.core import Node, Pod, Taint, Toleration
from kscheduler.api.selectors import parse_node_selector_map, parse_node_term
from kscheduler.simulation.objects.api_errors import Object

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


class NodeReader:
    """Stored nodes as typed ones, each version decoded once."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[str, Node]] = {}

    def node(self, value: Object) -> Node:
        """The typed node."""
        metadata = value["metadata"]
        name, version = metadata["name"], metadata["resourceVersion"]
        known = self._nodes.get(name)
        if known is None or known[0] != version:
            known = self._nodes[name] = version, msgspec.convert(value, Node, strict=False)
        return known[1]

    def forget(self, name: str) -> None:
        """The node is gone."""
        self._nodes.pop(name, None)


def pod_of(value: Object) -> Pod:
    """A stored pod as a typed one."""
    return msgspec.convert(value, Pod, strict=False)


def selects(pod: Pod, node: Node) -> bool:
    """Whether nodeName, nodeSelector and required node affinity allow the node."""
    name, labels = node.metadata.name, node.metadata.labels
    if pod.spec.node_name not in ("", name):
        return False
    if not parse_node_selector_map(pod.spec.node_selector).matches(labels, name):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is None:
        return True
    return any(parse_node_term(term).matches(labels, name) for term in required.node_selector_terms)


def untolerated(tolerations: Collection[Toleration], node: Node, effects: Collection[str]) -> Iterator[Taint]:
    """The node's taints of these effects that no toleration bears."""
    for taint in node.spec.taints:
        if taint.effect in effects and not any(bears(one, taint) for one in tolerations):
            yield taint


def bears(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration matches a taint, whatever its time limit."""
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == "Exists" or (toleration.operator in ("", "Equal") and toleration.value == taint.value)
