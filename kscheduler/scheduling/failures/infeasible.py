"""Classes of pods that fit nowhere as the cluster is now.

What a cycle has found out about a pod that fits nowhere is true of all pods of its class until anything changes that a
verdict may depend on. Pods of that class that are popped meanwhile are turned away without a cycle, in the same words.
A change forgets everything: what is kept is never more than what was learned since, and never more than `MOST_KNOWN`.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Final

from kscheduler.bounded.recently_used import RecentlyUsed
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.failures.failures import Failure

MOST_KNOWN: Final = 10_000
"""Classes: a cluster that stands still may see pods come and go for days, each a class of its own."""


class KnownInfeasible:
    """The verdicts of one generation, by class."""

    def __init__(self, class_of: Callable[[PodInfo], Hashable | None], generation: Callable[[], int]) -> None:
        """`class_of`: `None` for a pod that is like no other.

        `generation`: a number that moves whenever anything that a verdict may depend on has changed.
        """
        self._class_of = class_of
        self._generation = generation
        self._known: RecentlyUsed[Hashable, Failure] = RecentlyUsed(MOST_KNOWN)
        self._known_at = 0

    def verdict(self, pod: PodInfo) -> Failure | None:
        """Why the pod fits nowhere, if that is known already. Costs next to nothing while no class is known."""
        if not self._known:
            return None
        if self._known_at != self._generation():
            self._known.clear()
            return None
        name = self._class_of(pod)
        return self._known.get(name) if name is not None else None

    def learned(self, pod: PodInfo, failure: Failure) -> Failure:
        """A cycle found no node for the pod: the failure, marked if it is that of its whole class.

        It is not where something went wrong, where nobody turned the pod down, and where preemption makes room for it.
        """
        if failure.is_error or not failure.plugins or failure.nominated_node_name:
            return failure
        name = self._class_of(pod)
        if name is None:
            return failure
        generation = self._generation()
        if self._known_at != generation:
            self._known.clear()
            self._known_at = generation
        shared = self._known[name] = replace(failure, holds_for=name, like=pod.key)
        return shared
