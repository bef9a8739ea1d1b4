"""What `kubectl drain --ignore-daemonsets` does with a node, against the disruption budgets.

A pod that a budget protects goes only while the budget allows a disruption; the disruption is given back as soon as the
pod that replaces it has a node, as the disruption controller does when that pod is ready.
"""

from collections.abc import Iterable

from kscheduler.api.core import Pod
from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.api.selectors import Selector, parse_label_selector
from kscheduler.simulate.simulated_cluster import SimulatedCluster
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
    staying = {pod.key for pod in pods if pod.belongs_to_node}
    unmanaged = [pod.key for pod in pods if pod.metadata.controller is None and pod.key not in staying]
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
