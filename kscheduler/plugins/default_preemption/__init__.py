"""DefaultPreemption: room for a pod by evicting pods of lower priority.

    plugin       which pods may preempt, which nodes are tried, what is reported
    victims      on each node the fewest and least important victims
    budgets      which evictions would break a PodDisruptionBudget
    for_groups   the same for a whole pod group
    unit_search  which pods of a node, or groups of them, can stay
    choice       the node where preemption does the least harm
    remembered   what the last such preemptor found, on rows where nothing has changed since

The victims are evicted elsewhere (`framework.cluster.preemption.Evictions`).
"""

from kscheduler.plugins.default_preemption.plugin import DefaultPreemption

__all__ = ["DefaultPreemption"]
