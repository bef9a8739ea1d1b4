"""Classes of pods that fit nowhere in the current state of the cluster.

If a cycle finds no node for a pod, the same holds for all pods of its class, until anything changes on which a verdict
may depend. Until then, pods of that class are rejected without a cycle, with the same message; and so are pods of
classes that differ only in labels that nobody reads at present (`Signatures.verdict_class`). A change drops all
verdicts: only those since the last change are kept, and at most `MAX_KNOWN`.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final

from msgspec.structs import replace

from kscheduler.bounded import RecentlyUsed, RecentlyUsedByWeight, weight_of
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.failure import Failure

# Classes: if nothing else changes for days, pods may come and go, each in a class of its own.
MAX_KNOWN: Final = 10_000


# Of the verdicts of large pods. A verdict keeps the signatures of its class, and so what these are made of.
_BUDGET_BYTES: Final = 4 * 2**20


# From a pod and its class to what stands for all classes for which a verdict about this one holds.
VerdictClass = Callable[[PodInfo, Any], Hashable]


def class_itself(_pod: PodInfo, of_pod: Hashable) -> Hashable:
    """A verdict holds for no other class."""
    return of_pod


class KnownInfeasible:
    """The verdicts of one generation."""

    def __init__(
        self,
        class_of: Callable[[PodInfo], Hashable | None],
        generation: Callable[[], int],
        is_without_class: Callable[[PodInfo], bool] = lambda _pod: False,
        verdict_class: VerdictClass = class_itself,
    ) -> None:
        """`class_of`: `None` for a pod without class. `verdict_class`: asked anew for each generation.

        `is_without_class`: whether devices stand for one of the resources of a pod. Such a pod may have a claim left of
        an earlier attempt, and others of its class none.

        `generation`: a number that increases whenever anything changes on which a verdict may depend.
        """
        self._any_class_of = class_of
        self._verdict_class = verdict_class
        self._is_without_class = is_without_class
        self._generation = generation
        self._known: RecentlyUsed[Hashable, Failure] = RecentlyUsedByWeight(MAX_KNOWN, _BUDGET_BYTES, self._weight)
        self._known_at = 0
        self._learning = 0
        """Weight of the pod whose class is being learned."""

    def verdict(self, pod: PodInfo) -> Failure | None:
        """Why the pod fits nowhere, if that is known already. Costs almost nothing while no class is known."""
        if not self._known:
            return None
        if self._known_at != self._generation():
            self._known.clear()
            return None
        name = self._class_of(pod)
        if name is None:
            return None
        known = self._known.get(self._verdict_class(pod, name))
        # Of another class it is the verdict, but the pods of this one wait together.
        return known if known is None or known.holds_for is name else replace(known, holds_for=name)

    def learned(self, pod: PodInfo, failure: Failure) -> Failure:
        """Remember that a cycle found no node for the pod. Returns the failure, marked if it holds for the whole class.

        It does not after an error, if no plugin rejected the pod, or if preemption makes room for this pod.
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
        shared = replace(failure, holds_for=name, like=pod.key)
        self._learning = weight_of(pod.pod.spec) + weight_of(pod.pod.metadata)
        self._known[self._verdict_class(pod, name)] = shared
        return shared

    def _weight(self, _: Hashable, failure: Failure) -> int:
        return self._learning + len(failure.message)

    def _class_of(self, pod: PodInfo) -> Hashable | None:
        return None if self._is_without_class(pod) else self._any_class_of(pod)
