"""PodDisruptionBudgets from an informer's store: preemption respects them if it can."""

from collections.abc import Sequence
from typing import Final

from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.informers.store import Store

_INDEX: Final = "namespace"


class StoredBudgets:
    """Implements `framework.cluster.preemption.DisruptionBudgets`; the store is the informer's or a scenario's."""

    def __init__(self, budgets: Store[PodDisruptionBudget]) -> None:
        budgets.add_index(_INDEX, lambda budget: (budget.metadata.namespace,))
        self._budgets = budgets

    def of_namespace(self, namespace: str) -> Sequence[PodDisruptionBudget]:
        """The budgets of one namespace, sorted by name."""
        return sorted(self._budgets.by_index(_INDEX, namespace), key=lambda budget: budget.metadata.name)

    def listed(self) -> Sequence[PodDisruptionBudget]:
        """The budgets of all namespaces; a budget that has changed is a new object."""
        return self._budgets.list()
