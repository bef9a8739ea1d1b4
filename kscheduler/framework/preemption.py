"""What preemption needs of its surroundings: budgets to respect, and somebody who evicts.

Choosing victims is a function of the cluster view (a plugin does it in PostFilter); taking them away talks to the API
server and takes its time. So the plugin hands over a `Preemption` and returns at once; the preemptor stays out of the
queue while it is under way.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.framework.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class Preemption:
    """A decision to make room."""

    preemptor: PodInfo
    node_name: str
    victims: tuple[PodInfo, ...]
    """Most important first; never empty."""
    plugin: str
    """Who decided so: `DefaultPreemption`."""
    outbid: tuple[PodInfo, ...] = ()
    """Pods of lower priority that were nominated to the node: they lose their nomination."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node where a preemption would make room."""

    node_name: str
    victims: tuple[PodInfo, ...]
    """Most important first; never empty."""
    broken_budgets: int
    """How many of them a disruption budget would rather keep."""


@dataclass(frozen=True, slots=True)
class PreemptionSearch:
    """What a search for victims found; it is left in the CycleState for whoever explains the decision."""

    candidates: Callable[[], tuple[Candidate, ...]]
    """All nodes that were tried out and would do, in the order of the table: worked out when somebody asks."""
    chosen: Candidate


class Evictions(Protocol):
    """Takes victims away."""

    def begin(self, preemption: Preemption) -> None:
        """Start it; returns at once. Where nothing is written (what-if), nothing happens."""
        ...

    def is_under_way(self, uid: str) -> bool:
        """Whether the pod with this UID must wait: victims of its preemption are still being taken away."""
        ...

    def is_clearing(self, node_name: str, waiting: PodInfo) -> bool:
        """Whether victims of another preemptor, beside which the pod has its room on the node, are still untouched.

        The pod that asks is tried again when that preemption is over and they stay.
        """
        ...

    def nearly_done(self) -> Collection[str]:
        """Keys (`namespace/name`) of preemptors whose wait may be over now.

        Whoever was told to wait and is not among them would be told so again, and asking would change nothing.
        """
        ...


class DisruptionBudgets(Protocol):
    """PodDisruptionBudgets by namespace."""

    def of_namespace(self, namespace: str) -> Sequence[PodDisruptionBudget]:
        """All of them, in the order of their names."""
        ...

    def listed(self) -> Sequence[PodDisruptionBudget]:
        """Those of all namespaces; one that has changed is another object."""
        ...
