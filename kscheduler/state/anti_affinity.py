"""Required anti-affinity that pods on nodes already hold against newcomers, one entry per distinct term.

Anti-affinity works both ways: a pod that asks for nothing may still be kept away by one that is there. Until
InterPodAffinity is built, a pod that such a term may speak of is held, and this is how it is found: a walk over the
distinct terms (few), never over the pods. A term with a namespace selector counts for every namespace here, which errs
on the side of holding.
"""

from collections import Counter
from dataclasses import dataclass

from kscheduler.api.core import PodAffinityTerm
from kscheduler.api.selectors import Selector, parse_label_selector
from kscheduler.framework.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class _Term:
    """Whom a term speaks of; where (its topology key) does not matter for holding."""

    namespaces: frozenset[str]
    """Empty for all of them."""
    selector: Selector

    def may_mean(self, pod: PodInfo) -> bool:
        """Whether the pod may be one that the term keeps away."""
        return (not self.namespaces or pod.namespace in self.namespaces) and self.selector.matches(pod.labels)


class ExistingAntiAffinity:
    """The required anti-affinity terms of the pods on nodes, with how many pods hold each."""

    def __init__(self) -> None:
        self._holders: Counter[_Term] = Counter()

    def add(self, pod: PodInfo) -> None:
        """A pod has come to a node."""
        for term in _terms_of(pod):
            self._holders[term] += 1

    def remove(self, pod: PodInfo) -> None:
        """A pod has left its node."""
        for term in _terms_of(pod):
            self._holders[term] -= 1
            if not self._holders[term]:
                del self._holders[term]

    def may_mean(self, pod: PodInfo) -> bool:
        """Whether some pod's required anti-affinity may keep this one away."""
        return any(term.may_mean(pod) for term in self._holders)


def _terms_of(pod: PodInfo) -> list[_Term]:
    affinity = pod.pod.spec.affinity
    if affinity is None or affinity.pod_anti_affinity is None:
        return []
    required = affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution
    return [_Term(_namespaces(term, pod), parse_label_selector(term.label_selector)) for term in required]


def _namespaces(term: PodAffinityTerm, pod: PodInfo) -> frozenset[str]:
    if term.namespace_selector is not None:
        return frozenset()
    return frozenset(term.namespaces or (pod.namespace,))
