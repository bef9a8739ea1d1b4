"""A set of pods, as affinity terms and spread constraints describe it: namespaces and label selectors."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kscheduler.api.selectors import Selector


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

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod's labels satisfy all selectors, those of `also` too."""
        for selector in self.selectors:  # no `all`: a generator would cost as much as the one or two selectors
            if not selector.matches(labels):
                return False
        return self.also is None or self.also.selects(labels)
