"""A scenario's disruption budgets, behind the same interface as those of a live cluster."""

from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.informers.store import Store
from kscheduler.scheduling.eviction.disruption_budgets import StoredBudgets
from kscheduler.whatif.scenario import ClusterObjects


def listed_budgets(objects: ClusterObjects) -> StoredBudgets:
    """The scenario's budgets."""
    store: Store[PodDisruptionBudget] = Store()
    for budget in objects.poddisruptionbudgets:
        store.put(budget.key, budget)
    return StoredBudgets(store)
