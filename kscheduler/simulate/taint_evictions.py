"""Whom new taints with the effect NoExecute drive off their nodes: the rules of Kubernetes' taint eviction controller.

A pod that does not tolerate one of them goes at once. One that tolerates all of them, but some for a time alone
(`tolerationSeconds`), goes after the shortest of these times. Disruption budgets do not count: pods are deleted.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from kscheduler.api.core import Node, Pod, Taint
from kscheduler.framework.rules.node_match import COMPARISON_OPERATORS, NO_EXECUTE, tolerates
from kscheduler.simulate.simulated_cluster import SimulatedCluster
from kscheduler.simulate.simulation_plan import SimulationPlan

# After how many seconds which pods go.
Leaving = tuple[int, list[Pod]]


def leaving(plan: SimulationPlan, cluster: SimulatedCluster) -> list[Leaving]:
    """The pods that leave nodes for taints that the plan adds; those that go at once come first, with 0 seconds."""
    compares = plan.config.gates.enabled(COMPARISON_OPERATORS)
    found: list[tuple[int, Pod]] = []
    for node_name, taints in _new_taints(plan):
        for pod in cluster.pods_on(node_name):
            seconds = _seconds_left(pod, taints, compares=compares)
            if seconds is not None and not pod.metadata.deletion_timestamp:
                found.append((seconds, pod))
    found.sort(key=lambda entry: (entry[0], entry[1].key))
    return [(seconds, [pod for _, pod in group]) for seconds, group in groupby(found, key=lambda entry: entry[0])]


def _new_taints(plan: SimulationPlan) -> Iterator[tuple[str, Sequence[Taint]]]:
    """By node. Those that a node has already have done their work: who did not tolerate them is gone."""
    edited = {edit.node for edit in plan.edits if edit.taint is not None}
    before = {node.metadata.name: _driving(node) for node in plan.objects.nodes if node.metadata.name in edited}
    for node in plan.nodes():
        name = node.metadata.name
        if name in edited:
            new = [taint for identity, taint in _driving(node).items() if identity not in before[name]]
            if new:
                yield name, new


def _driving(node: Node) -> dict[tuple[str, str], Taint]:
    """Its NoExecute taints, by key and value."""
    return {(taint.key, taint.value): taint for taint in node.spec.taints if taint.effect == NO_EXECUTE}


def _seconds_left(pod: Pod, taints: Sequence[Taint], *, compares: bool) -> int | None:
    """After how many seconds the pod goes; `None`: never."""
    limits: list[int] = []
    for taint in taints:
        matching = [each for each in pod.spec.tolerations if tolerates(each, taint, compares=compares)]
        if not matching:
            return 0
        limits += [max(each.toleration_seconds, 0) for each in matching if each.toleration_seconds is not None]
    return min(limits, default=None)
