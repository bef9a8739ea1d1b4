"""A pod's affinity and anti-affinity terms, parsed once: what its own filters ask, and what it holds towards others.

The API server has merged `matchLabelKeys` and `mismatchLabelKeys` into the label selector already.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kscheduler.api.core import Affinity, Pod, PodAffinity, PodAffinityTerm
from kscheduler.api.selectors import Selector, parse_label_selector
from kscheduler.bounded.recently_used import RecentlyUsed
from kscheduler.framework.pods.pod_match import PodMatch

_NO_AFFINITY = PodAffinity()


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """Pods that are to be near, or far."""

    topology_key: str
    match: PodMatch
    weight: int = 1
    """1 for required terms."""


@dataclass(frozen=True, slots=True)
class AffinityTerms:
    """The four lists of a pod."""

    required_affinity: tuple[AffinityTerm, ...] = ()
    required_anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred_affinity: tuple[AffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[AffinityTerm, ...] = ()
    """With the weights as written: positive."""
    preferred_by_both: tuple[AffinityTerm, ...] = ()
    """Both preferred lists in one, the weights of anti-affinity negative: what the pod holds towards others."""
    all_required_affinity: PodMatch | None = None
    """The pods that satisfy every required affinity term at once: only they count for any of them."""


NO_TERMS = AffinityTerms()


_MOST_KNOWN: Final = 1024
"""Two kilobytes each."""
_known: RecentlyUsed[tuple[int, str], tuple[Affinity, AffinityTerms]] = RecentlyUsed(_MOST_KNOWN)
"""By identity of the affinity and by namespace: informers make equal affinities one value, which a Deployment's pods
share. It can never be stale: an affinity never changes, and while it is held here nothing else has its identity.
"""


def affinity_terms(pod: Pod) -> AffinityTerms:
    """What `spec.affinity` says of other pods; one value for pods that share it."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    which = id(affinity), pod.metadata.namespace
    known = _known.get(which)
    if known is None:
        known = _known[which] = affinity, _terms(affinity, pod.metadata.namespace)
    return known[1]


def _terms(affinity: Affinity, namespace: str) -> AffinityTerms:
    near, far = affinity.pod_affinity or _NO_AFFINITY, affinity.pod_anti_affinity or _NO_AFFINITY
    required = _required(near, namespace)
    liked, disliked = _preferred(near, namespace), _preferred(far, namespace)
    return AffinityTerms(
        required_affinity=required,
        required_anti_affinity=_required(far, namespace),
        preferred_affinity=liked,
        preferred_anti_affinity=disliked,
        preferred_by_both=(*liked, *(replace(one, weight=-one.weight) for one in disliked)),
        all_required_affinity=_all_of([term.match for term in required]) if required else None,
    )


def _required(affinity: PodAffinity, namespace: str) -> tuple[AffinityTerm, ...]:
    return _parsed(((term, 1) for term in affinity.required_during_scheduling_ignored_during_execution), namespace)


def _preferred(affinity: PodAffinity, namespace: str) -> tuple[AffinityTerm, ...]:
    weighted = affinity.preferred_during_scheduling_ignored_during_execution
    return _parsed(((one.pod_affinity_term, one.weight) for one in weighted), namespace)


def _parsed(terms: Iterable[tuple[PodAffinityTerm, int]], namespace: str) -> tuple[AffinityTerm, ...]:
    return tuple(AffinityTerm(term.topology_key, _match(term, namespace), weight) for term, weight in terms)


def _match(term: PodAffinityTerm, namespace: str) -> PodMatch:
    """The set of pods that a term means; without namespaces of its own, those of the pod's namespace."""
    selectors = (parse_label_selector(term.label_selector),)
    if term.namespace_selector is None:
        return PodMatch(frozenset(term.namespaces or (namespace,)), None, selectors)
    return PodMatch(frozenset(term.namespaces), parse_label_selector(term.namespace_selector), selectors)


def _all_of(matches: Sequence[PodMatch]) -> PodMatch:
    """The pods that are in each of the sets. Sets that differ in their selectors only become one."""
    selectors: dict[tuple[frozenset[str], Selector | None], tuple[Selector, ...]] = {}
    for one in matches:
        where = one.namespaces, one.namespace_selector
        selectors[where] = tuple(dict.fromkeys((*selectors.get(where, ()), *one.selectors)))
    merged: PodMatch | None = None
    for (namespaces, namespace_selector), its in selectors.items():
        merged = PodMatch(namespaces, namespace_selector, its, also=merged)
    return merged or matches[0]
