"""A pod's affinity and anti-affinity terms, parsed once: they apply to the pod itself and, once it runs, to newcomers.

The API server has already merged `matchLabelKeys` and `mismatchLabelKeys` into the label selector.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec.structs import replace

from kscheduler.api.core import Affinity, Pod, PodAffinity, PodAffinityTerm
from kscheduler.api.selectors import Selector, parse_label_selector
from kscheduler.bounded import RecentlyUsed, RecentlyUsedByWeight, weight_of
from kscheduler.framework.pods.pod_weight import COSTLY

# A set of pods, as affinity terms and spread constraints describe it: namespaces and label selectors.


@dataclass(frozen=True, slots=True)
class PodMatch:
    """A set of pods: in certain namespaces, matching all selectors."""

    namespaces: frozenset[str]
    """Namespaces by name."""
    namespace_selector: Selector | None = None
    """Also every namespace that it matches, by its current labels; `Selector()` matches all."""
    selectors: tuple[Selector, ...] = ()
    """Each must match the pod's labels."""
    counts_terminating: bool = True
    """Whether pods with a deletionTimestamp count: for affinity they do, for spread they do not."""
    also: "PodMatch | None" = None
    """The pod must be in this set as well: for several terms whose namespaces differ."""

    _hash: int = field(init=False, repr=False, compare=False)
    """Computed once: columns of counts are looked up by it whenever a pod is added or removed."""

    def __post_init__(self) -> None:
        parts = self.namespaces, self.namespace_selector, self.selectors, self.counts_terminating, self.also
        object.__setattr__(self, "_hash", hash(parts))

    def __hash__(self) -> int:
        return self._hash

    @property
    def is_everywhere(self) -> bool:
        """Whether the set covers every namespace, unknown ones included."""
        selector = self.namespace_selector
        return selector is not None and selector.is_empty and not selector.nothing

    @property
    def size(self) -> int:
        """How many namespaces, requirements and values it names: what it takes in memory follows from that."""
        named = len(self.namespaces) + sum([selector.size for selector in self.selectors])
        if self.namespace_selector is not None:
            named += self.namespace_selector.size
        return named if self.also is None else named + self.also.size

    def names(self, namespace: str, labels: Mapping[str, str] | None) -> bool:
        """Whether the set covers a namespace with these labels (`None`: unknown), with `also` taken into account."""
        return self._names(namespace, labels) and (self.also is None or self.also.names(namespace, labels))

    def _names(self, namespace: str, labels: Mapping[str, str] | None) -> bool:
        if namespace in self.namespaces or self.is_everywhere:
            return True
        selector = self.namespace_selector
        return selector is not None and labels is not None and selector.matches(labels)

    def asks_for_labels_of(self, namespace: str) -> bool:
        """Whether a namespace's labels decide if the set covers it; `also` is left out."""
        selector = self.namespace_selector
        is_queried = selector is not None and not (selector.nothing or selector.is_empty)
        return is_queried and namespace not in self.namespaces

    @property
    def label_keys(self) -> frozenset[str]:
        """The pod labels that it reads, those of `also` too."""
        keys = frozenset([each.key for selector in self.selectors for each in selector.requirements])
        return keys if self.also is None else keys | self.also.label_keys

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod's labels satisfy all selectors, those of `also` too."""
        for selector in self.selectors:  # no `all`: a generator would cost as much as the one or two selectors
            if not selector.matches(labels):
                return False
        return self.also is None or self.also.selects(labels)


_NO_AFFINITY = PodAffinity()


class AffinityTerm(msgspec.Struct, frozen=True):
    """A set of pods to be near to, or away from."""

    topology_key: str
    match: PodMatch
    weight: int = 1
    """1 for required terms."""


class AffinityTerms(msgspec.Struct, frozen=True):
    """The four lists of a pod's terms, and combinations of them."""

    required_affinity: tuple[AffinityTerm, ...] = ()
    required_anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred_affinity: tuple[AffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[AffinityTerm, ...] = ()
    """The weights are positive, as in the spec."""
    preferred_by_both: tuple[AffinityTerm, ...] = ()
    """Both preferred lists in one, with negative weights for anti-affinity: the terms that apply to newcomers."""
    all_required_affinity: PodMatch | None = None
    """The pods that satisfy all required affinity terms: no others count for any of the terms."""
    select_namespaces: bool = False
    """Whether a required term selects namespaces by their labels."""
    are_too_many: bool = False
    """They have so many entries (`pod_weight`) that, once the pod is on a node, what they prefer of others is not
    counted: it earns nodes no points in the decisions about other pods."""


NO_TERMS = AffinityTerms()


# Two kilobytes each.
_MAX_KNOWN: Final = 1024
_KNOWN_BYTES: Final = 4 * 2**20
# By identity of the affinity and by namespace: informers share equal values, so a Deployment's pods have the same
# affinity object. Entries cannot be stale: an affinity is immutable, and while it is held here its id is not reused.
_known: RecentlyUsed[tuple[int, str], tuple[Affinity, AffinityTerms]] = RecentlyUsedByWeight(
    _MAX_KNOWN, _KNOWN_BYTES, lambda _, known: weight_of(known[0])
)


def affinity_terms(pod: Pod) -> AffinityTerms:
    """The terms of `spec.affinity` about other pods; pods with the same affinity share the value."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    key = id(affinity), pod.metadata.namespace
    known = _known.get(key)
    if known is None:
        known = _known[key] = affinity, _terms(affinity, pod.metadata.namespace)
    return known[1]


def _terms(affinity: Affinity, namespace: str) -> AffinityTerms:
    near, far = affinity.pod_affinity or _NO_AFFINITY, affinity.pod_anti_affinity or _NO_AFFINITY
    required = _required(near, namespace)
    liked, disliked = _preferred(near, namespace), _preferred(far, namespace)
    repelling = _required(far, namespace)
    return AffinityTerms(
        are_too_many=sum(map(_entries, (*required, *repelling, *liked, *disliked))) > COSTLY,
        select_namespaces=any(term.match.namespace_selector is not None for term in (*required, *repelling)),
        required_affinity=required,
        required_anti_affinity=repelling,
        preferred_affinity=liked,
        preferred_anti_affinity=disliked,
        preferred_by_both=(*liked, *(replace(term, weight=-term.weight) for term in disliked)),
        all_required_affinity=_all_of([term.match for term in required]) if required else None,
    )


def _entries(term: AffinityTerm) -> int:
    match = term.match
    of_labels = sum(1 + len(need.values) for selector in match.selectors for need in selector.requirements)
    return 1 + len(match.namespaces) + of_labels


def _required(affinity: PodAffinity, namespace: str) -> tuple[AffinityTerm, ...]:
    return _parsed(((term, 1) for term in affinity.required_during_scheduling_ignored_during_execution), namespace)


def _preferred(affinity: PodAffinity, namespace: str) -> tuple[AffinityTerm, ...]:
    weighted = affinity.preferred_during_scheduling_ignored_during_execution
    return _parsed(((term.pod_affinity_term, term.weight) for term in weighted), namespace)


def _parsed(terms: Iterable[tuple[PodAffinityTerm, int]], namespace: str) -> tuple[AffinityTerm, ...]:
    return tuple(AffinityTerm(term.topology_key, _match(term, namespace), weight) for term, weight in terms)


def _match(term: PodAffinityTerm, namespace: str) -> PodMatch:
    """The set of pods that a term selects; a term without namespaces means the pod's own namespace."""
    selectors = (parse_label_selector(term.label_selector),)
    if term.namespace_selector is None:
        return PodMatch(frozenset(term.namespaces or (namespace,)), None, selectors)
    return PodMatch(frozenset(term.namespaces), parse_label_selector(term.namespace_selector), selectors)


def _all_of(matches: Sequence[PodMatch]) -> PodMatch:
    """The intersection of the sets. Sets that differ in their selectors only are merged into a single one."""
    selectors: dict[tuple[frozenset[str], Selector | None], dict[Selector, None]] = {}
    for match in matches:
        where = match.namespaces, match.namespace_selector
        selectors.setdefault(where, {}).update(dict.fromkeys(match.selectors))
    merged: PodMatch | None = None
    for (namespaces, namespace_selector), pod_selectors in selectors.items():
        merged = PodMatch(namespaces, namespace_selector, tuple(pod_selectors), also=merged)
    return merged or matches[0]
