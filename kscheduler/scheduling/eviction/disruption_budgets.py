"""PodDisruptionBudgets over an informer's store: what preemption respects where it can."""

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
        """All of them, in the order of their names."""
        return sorted(self._budgets.by_index(_INDEX, namespace), key=lambda budget: budget.metadata.name)

    def listed(self) -> Sequence[PodDisruptionBudget]:
        """Those of all namespaces; one that has changed is another object."""
        return self._budgets.list()
