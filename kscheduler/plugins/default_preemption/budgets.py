"""PodDisruptionBudgets: whose eviction would break one.

A budget allows so many disruptions more. On each node by itself the victims are gone through, the most important first,
and each takes one from every budget that selects it; who finds a budget spent breaks it. Whom a budget lists as
disrupted is on the way out already and costs it nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.api.selectors import NOTHING, Selector, parse_label_selector
from kscheduler.framework.cluster.preemption import DisruptionBudgets
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.occupants import Items, PodKind, Removable

_KEPT: Final = 10_000
"""Rules, and verdicts of each of them; beyond that all are worked out anew."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """A budget that selects something."""

    budget: PodDisruptionBudget
    selector: Selector
    verdicts: dict[PodKind, bool] = field(default_factory=dict)
    """What it said of pods so far."""

    def selects(self, kind: PodKind) -> bool:
        """Whether such pods are under the budget."""
        verdict = self.verdicts.get(kind)
        if verdict is None:
            if len(self.verdicts) > _KEPT:
                self.verdicts.clear()
            verdict = self.verdicts[kind] = self.selector.matches(kind.labels)
        return verdict


class BudgetRules:
    """The budgets of a cluster, their selectors parsed once."""

    def __init__(self, budgets: DisruptionBudgets | None) -> None:
        self._budgets = budgets
        self._rules: dict[str, _Rule] = {}
        self._kinds: Sequence[PodKind] | None = None
        """Of which there are verdicts."""

    def listed(self) -> tuple[PodDisruptionBudget, ...]:
        """All of them as they are now."""
        return () if self._budgets is None else tuple(self._budgets.listed())

    def breaking(self, pods: Removable) -> Mask:
        """Per pod whether its eviction would break a budget, if all before it in its row went, too."""
        broken = np.zeros(len(pods), dtype=np.bool_)
        if self._budgets is None or not self.listed():
            return broken
        if pods.all_kinds is not self._kinds:  # made anew: nobody asks about the kinds of before, which hold their pods
            self._kinds = pods.all_kinds
            self._rules.clear()
        by_namespace: dict[str, list[int]] = {}
        for number in np.flatnonzero(np.bincount(pods.kinds)).tolist():
            kind = pods.all_kinds[number]
            if kind.labels:  # a selector might match a pod without labels, but no budget protects one
                by_namespace.setdefault(kind.namespace, []).append(number)
        for namespace, numbers in by_namespace.items():
            for budget in self._budgets.of_namespace(namespace):
                rule = self._rule(budget)
                selected = [number for number in numbers if rule.selects(pods.all_kinds[number])]
                if selected:
                    broken |= _over(budget, _are_of(pods, selected), pods)
        return broken

    def _rule(self, budget: PodDisruptionBudget) -> _Rule:
        rule = self._rules.get(budget.key)
        if rule is None or rule.budget is not budget:
            if len(self._rules) > _KEPT:
                self._rules.clear()
            selector = parse_label_selector(budget.spec.selector)
            rule = self._rules[budget.key] = _Rule(budget, NOTHING if selector.is_empty else selector)
        return rule


def _are_of(pods: Removable, kinds: list[int]) -> Mask:
    is_one = np.zeros(len(pods.all_kinds), dtype=np.bool_)
    is_one[kinds] = True
    return is_one[pods.kinds]


def _over(budget: PodDisruptionBudget, selected: Mask, pods: Removable) -> Mask:
    """Those of the selected pods that are more, on their node, than the budget allows."""
    if budget.status.disrupted_pods:
        for item in np.flatnonzero(selected).tolist():
            selected[item] = pods.pod(item).name not in budget.status.disrupted_pods
    until = np.cumsum(selected)
    before: Items = until[pods.starts] - selected[pods.starts]
    return selected & (until - np.repeat(before, pods.counts) > budget.status.disruptions_allowed)


def reprieve_order(pods: Removable, broken: Mask) -> Items:
    """In each row those first whose eviction would break a budget; else as they are, the most important first."""
    order = np.arange(len(pods))
    if broken.any():
        order = np.lexsort((order, ~broken, pods.row_of))
    return order
