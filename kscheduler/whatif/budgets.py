"""A scenario's disruption budgets, looked up as the live ones are."""

from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.informers.store import Store
from kscheduler.scheduling.eviction.disruption_budgets import StoredBudgets
from kscheduler.whatif.scenario import ClusterObjects


def listed_budgets(objects: ClusterObjects) -> StoredBudgets:
    """Budgets over the scenario's list."""
    store: Store[PodDisruptionBudget] = Store()
    for one in objects.poddisruptionbudgets:
        store.put(one.key, one)
    return StoredBudgets(store)
