"""What `kubectl drain --ignore-daemonsets` does with a node, against the disruption budgets.

A pod that a budget protects goes only while the budget allows a disruption; the disruption is given back as soon as the
pod that replaces it has a node, as the disruption controller does when that pod is ready.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from kscheduler.api.core import Node, Pod, Taint
from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.api.selectors import Selector, parse_label_selector
from kscheduler.framework.rules.node_match import COMPARISON_OPERATORS, NO_EXECUTE, tolerates
from kscheduler.simulate.simulated_cluster import SimulatedCluster
from kscheduler.simulate.simulation_plan import SimulationPlan
from kscheduler.simulate.simulation_result import DRAIN, BlockedEviction, Drained


class Budgets:
    """How many further disruptions each budget allows."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._selectors: list[tuple[PodDisruptionBudget, Selector]] = [
            (budget, parse_label_selector(budget.spec.selector)) for budget in budgets
        ]
        self._left = {budget.key: budget.status.disruptions_allowed for budget, _ in self._selectors}

    def of(self, pod: Pod) -> list[str]:
        """The keys of the budgets that protect it."""
        meta = pod.metadata
        return [
            budget.key
            for budget, selector in self._selectors
            if budget.metadata.namespace == meta.namespace and selector.matches(meta.labels)
        ]

    def exhausted(self, pod: Pod) -> str:
        """The first budget that does not let it go; empty: it may."""
        return next((key for key in self.of(pod) if self._left[key] <= 0), "")

    def use(self, pod: Pod, by: int = 1) -> None:
        """A disruption is used, or with -1 given back."""
        for key in self.of(pod):
            self._left[key] -= by


async def drain(cluster: SimulatedCluster, node_name: str, budgets: Budgets) -> Drained:
    """Empties the node, which is cordoned already, as far as the budgets let it."""
    pods = cluster.pods_on(node_name)
    owners = {pod.key: pod.metadata.controller for pod in pods}
    staying = {key for key, owner in owners.items() if owner is not None and owner.kind in ("DaemonSet", "Node")}
    unmanaged = [key for key, owner in owners.items() if owner is None]
    evicted: list[str] = []
    left = [pod for pod in pods if pod.key not in staying]
    while True:
        gone: list[tuple[Pod, str]] = []
        for pod in left:
            if not budgets.exhausted(pod):
                budgets.use(pod)
                gone.append((pod, cluster.evict(pod, DRAIN)))
        if not gone:
            break
        evicted.extend(pod.key for pod, _ in gone)
        left = [pod for pod in left if pod.key not in evicted]
        await cluster.until_quiet()
        for pod, replacement in gone:
            if replacement and cluster.is_placed(replacement):
                budgets.use(pod, by=-1)
    blocked = tuple(BlockedEviction(pod.key, budgets.exhausted(pod)) for pod in left)
    stuck = {each.pod for each in blocked}
    lost = tuple(key for key in unmanaged if key not in stuck)
    return Drained(node_name, tuple(evicted), blocked, lost, tuple(sorted(staying)))


# Whom new taints with the effect NoExecute drive off their nodes: the rules of Kubernetes' taint eviction controller.
#
# A pod that does not tolerate one of them goes at once. One that tolerates all of them, but some for a time alone
# (`tolerationSeconds`), goes after the shortest of these times. Disruption budgets do not count: pods are deleted.

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
