"""DefaultPreemption: room for a pod by evicting pods of lower priority.

    plugin       who may preempt, which nodes are worth a try, what is said
    victims      on each of them the fewest and least important victims
    budgets      whom a PodDisruptionBudget would rather keep
    shortlist    when enough nodes have been tried
    choice       the node where it hurts least
    remembered   what the last preemptor like this one has found, where nothing has happened since

The victims themselves are taken away elsewhere (`framework.cluster.preemption.Evictions`).
"""

from kscheduler.plugins.default_preemption.plugin import DefaultPreemption

__all__ = ["DefaultPreemption"]
