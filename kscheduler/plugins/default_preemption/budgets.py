"""PodDisruptionBudgets: which pods' eviction would break a budget.

A budget allows a number of further disruptions. On each node separately, the victims are counted from the most to the
least important, and each uses up a disruption of every budget that selects it; a victim for which none is left breaks
the budget. A pod that the budget lists as disrupted is being evicted already and uses up nothing.

From 1.37 on a victim that breaks a budget uses up nothing of the budgets behind that one, in the order of their list.
Until 1.37 no budget protects a pod without labels, and one with an empty selector protects nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.api.releases import BEHAVIOURS, VERSION, Behaviours
from kscheduler.api.selectors import NOTHING, Selector, parse_label_selector
from kscheduler.framework.cluster.preemption import DisruptionBudgets
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.pod_columns import Items, PodKind, Removable
from kscheduler.framework.pods.pod_info import PodInfo

# The most rules, and the most verdicts per rule; above that, all are dropped and worked out again.
_KEPT: Final = 10_000


class _Rule(msgspec.Struct, frozen=True):
    """A budget with its parsed selector."""

    budget: PodDisruptionBudget
    selector: Selector
    verdicts: dict[PodKind, bool] = {}
    """Whether it selects the kinds of pods seen so far."""

    def selects(self, kind: PodKind) -> bool:
        """Whether the budget selects pods of this kind."""
        verdict = self.verdicts.get(kind)
        if verdict is None:
            if len(self.verdicts) > _KEPT:
                self.verdicts.clear()
            verdict = self.verdicts[kind] = self.selector.matches(kind.labels)
        return verdict


class BudgetRules:
    """The budgets of a cluster, their selectors parsed once."""

    def __init__(self, budgets: DisruptionBudgets | None, behaviours: Behaviours = BEHAVIOURS[VERSION]) -> None:
        self._budgets = budgets
        self._stop_at_the_first_broken = behaviours.budgets_stop_at_the_first_broken
        self._by_selector_alone = behaviours.budgets_match_by_selector_alone
        self._rules: dict[str, _Rule] = {}
        self._kinds: Sequence[PodKind] | None = None
        """The list of kinds that the verdicts belong to."""

    def listed(self) -> tuple[PodDisruptionBudget, ...]:
        """All current budgets."""
        return () if self._budgets is None else tuple(self._budgets.listed())

    def breaking(self, pods: Removable) -> Mask:
        """Whether the eviction of each pod would break a budget once all pods before it in its row are evicted.

        bool [pods]. Pods are grouped by kind and namespace first, so that each budget is matched once per kind.
        """
        broken = np.zeros(len(pods), dtype=np.bool_)
        if self._budgets is None or not self.listed():
            return broken
        if pods.all_kinds is not self._kinds:  # a new list: verdicts on old kinds are of no use and hold pods
            self._kinds = pods.all_kinds
            self._rules.clear()
        by_namespace: dict[str, list[int]] = {}
        for number in np.bincount(pods.kinds).nonzero()[0].tolist():
            kind = pods.all_kinds[number]
            if kind.labels or self._by_selector_alone:
                by_namespace.setdefault(kind.namespace, []).append(number)
        for namespace, numbers in by_namespace.items():
            for budget in self._budgets.of_namespace(namespace):
                rule = self._rule(budget)
                selected = [number for number in numbers if rule.selects(pods.all_kinds[number])]
                if selected:
                    uses_it_up = _are_of(pods, selected)
                    if self._stop_at_the_first_broken:
                        uses_it_up &= ~broken
                    broken |= _over(budget, uses_it_up, pods)
        return broken

    def broken_by(self, units: Sequence[Sequence[PodInfo]]) -> list[int]:
        """For each unit of pods, how many of them would break a budget once all units before it are evicted.

        A budget without room for a pod ends the walk for this pod: the budgets behind it keep what they allow.
        """
        left = {budget.key: budget.status.disruptions_allowed for budget in self.listed()}
        return [sum(self._breaks(pod, left) for pod in unit) for unit in units] if left else [0] * len(units)

    def protecting(self, pod: PodInfo) -> Iterator[PodDisruptionBudget]:
        """The budgets that select the pod, in the order of their names."""
        labels = pod.pod.metadata.labels
        if self._budgets is None or not (labels or self._by_selector_alone):
            return
        for budget in self._budgets.of_namespace(pod.pod.metadata.namespace):
            if self._rule(budget).selector.matches(labels):
                yield budget

    def _breaks(self, pod: PodInfo, left: dict[str, int]) -> bool:
        for budget in self.protecting(pod):
            if pod.name in budget.status.disrupted_pods:
                continue
            left[budget.key] -= 1
            if left[budget.key] < 0:
                return True
        return False

    def _rule(self, budget: PodDisruptionBudget) -> _Rule:
        rule = self._rules.get(budget.key)
        if rule is None or rule.budget is not budget:
            if len(self._rules) > _KEPT:
                self._rules.clear()
            selector = parse_label_selector(budget.spec.selector)
            if selector.is_empty and not self._by_selector_alone:
                selector = NOTHING
            rule = self._rules[budget.key] = _Rule(budget, selector)
        return rule


def _are_of(pods: Removable, kinds: list[int]) -> Mask:
    is_selected = np.zeros(len(pods.all_kinds), dtype=np.bool_)
    is_selected[kinds] = True
    return is_selected[pods.kinds]


def _over(budget: PodDisruptionBudget, selected: Mask, pods: Removable) -> Mask:
    """The selected pods that exceed, on their node, the disruptions that the budget allows: bool [pods]."""
    if budget.status.disrupted_pods:
        for item in selected.nonzero()[0].tolist():
            selected[item] = pods.pod(item).name not in budget.status.disrupted_pods
    until = np.cumsum(selected)
    before: Items = until[pods.starts] - selected[pods.starts]
    return selected & (until - np.repeat(before, pods.counts) > budget.status.disruptions_allowed)


def reprieve_order(pods: Removable, broken: Mask) -> Items:
    """The order of reprieve, places of pods [pods]: per row, pods whose eviction would break a budget come first.

    Otherwise the order stays, the most important first.
    """
    order = np.arange(len(pods))
    if broken.any():
        order = np.lexsort((order, ~broken, pods.row_of))
    return order
