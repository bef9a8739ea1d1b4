"""What PostFilter may want done, and what it needs to know for that: budgets to respect, evictions under way.

Choosing victims is a function of the cluster view (a plugin does it in PostFilter); taking them away talks to the API
server and takes its time. So the plugin answers with a `Preemption`, the cycle's record carries it, and the attempt
that ran the cycle begins it; the preemptor stays out of the queue while it is under way. Whoever runs a cycle for the
sake of a question (what-if, explain) reads the record, and nothing happens.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.framework.pods.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class Preemption:
    """An instruction to make room: these victims leave this node for this pod."""

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
    """What a plugin may ask about preemptions that are under way."""

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


class _NoEvictions:
    """No preemption is ever under way."""

    def is_under_way(self, uid: str) -> bool:
        """Never."""
        del uid
        return False

    def is_clearing(self, node_name: str, waiting: PodInfo) -> bool:
        """Never."""
        del node_name, waiting
        return False

    def nearly_done(self) -> Collection[str]:
        """No pod waits."""
        return ()


NO_EVICTIONS: Final[Evictions] = _NoEvictions()
"""For whoever evicts nobody: what-if, explain, tests."""


class DisruptionBudgets(Protocol):
    """PodDisruptionBudgets by namespace."""

    def of_namespace(self, namespace: str) -> Sequence[PodDisruptionBudget]:
        """All of them, in the order of their names."""
        ...

    def listed(self) -> Sequence[PodDisruptionBudget]:
        """Those of all namespaces; one that has changed is another object."""
        ...
