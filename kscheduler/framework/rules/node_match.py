"""Whether a node accepts a pod: selector, required affinity, taints; for a single node and pod.

For kubelets, the DaemonSet and taint controllers and the demo's check, independent of the scheduler's columns, so that
its decisions are checked by other code. What a toleration covers is defined in `framework.rules.tolerations`.

`Lt` and `Gt` always compare numbers here, as with the gate TaintTolerationComparisonOperators on. A scheduler without
the gate places fewer pods, but none that would be rejected.
"""

from collections.abc import Collection, Iterable, Iterator

from kscheduler.api.core import Node, Pod, Taint, Toleration
from kscheduler.api.selectors import parse_node_selector_map, parse_node_term
from kscheduler.framework.rules.tolerations import tolerates


def selects(pod: Pod, node: Node) -> bool:
    """Whether nodeSelector and required node affinity allow the node."""
    labels, name = node.metadata.labels, node.metadata.name
    if not parse_node_selector_map(pod.spec.node_selector).matches(labels, name):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is None:
        return True
    return any(parse_node_term(term).matches(labels, name) for term in required.node_selector_terms)


def untolerated(
    taints: Iterable[Taint], tolerations: Collection[Toleration], effects: Collection[str]
) -> Iterator[Taint]:
    """The taints of these effects that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not any(covers(toleration, taint) for toleration in tolerations):
            yield taint


def covers(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration matches a taint, whatever its time limit."""
    return tolerates(toleration, taint, compares=True)
