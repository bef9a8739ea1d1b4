"""Which parked pods an event may concern at all, found without calling a hint for each of them.

The problem: ten thousand parked pods may each wait for a pod with a label of its own, and every pod that is bound is
such an event. The idea: a plugin whose hint compares labels names the keys under which a parked pod is to be found, and
the keys of an event. The hint is called for the pods found so, and for no others: it still decides. So an index
may find too many pods, but never too few.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

import msgspec

from kscheduler.api.meta import KubeObject
from kscheduler.api.selectors import Operator, Requirement, Selector
from kscheduler.framework.events import ClusterEventWithHint
from kscheduler.framework.pods.affinity_terms import PodMatch
from kscheduler.framework.pods.pod_info import PodInfo

# Namespace, label key, label value; `None` for any.
LabelKey = tuple[str | None, str | None, str | None]


class HintIndex(msgspec.Struct, frozen=True, eq=False):
    """Finds the parked pods for which a hint may return QUEUE. Both functions are fast and never raise.

    Where the changed object is the parked pod itself, the queue calls the hint in any case.
    """

    pod_keys: Callable[[PodInfo], Iterable[Hashable] | None]
    """The keys under which a parked pod is found; `None`: its hint is called for every event. They depend on the
    pod and on nothing else."""
    event_keys: Callable[[KubeObject | None, KubeObject | None], Iterable[Hashable] | None]
    """The keys of a change from the first object to the second; `None`: the hint is called for every pod."""


class IndexedEvent(ClusterEventWithHint, frozen=True):
    """An event with a hint that need not be called for every parked pod."""

    index: HintIndex | None = None


def narrowest(selectors: Iterable[Selector]) -> Requirement | None:
    """The In requirement with the fewest values among the selectors, or `None` if there is none."""
    listed = (need for selector in selectors for need in selector.requirements if need.operator is Operator.IN)
    return min(listed, key=lambda requirement: len(requirement.values), default=None)


def keys_of_match(match: PodMatch) -> Iterator[LabelKey]:
    """The keys of a set of pods: each pod in it has at least one of them (`keys_of_labels`)."""
    part, narrowing = match, narrowest(match.selectors)
    # Of an intersection any part will do: one about the values of a label, if there is one.
    while narrowing is None and part.also is not None:
        part = part.also
        narrowing = narrowest(part.selectors)
    part = match if narrowing is None else part
    places: Iterable[str | None] = part.namespaces if part.namespace_selector is None else (None,)
    for place in places:
        if narrowing is None:
            yield place, None, None
        else:
            for value in narrowing.values:
                yield place, narrowing.key, value


def keys_of_labels(namespace: str, labels: Mapping[str, str]) -> Iterator[LabelKey]:
    """The keys of the sets that may contain a pod with this namespace and these labels."""
    for place in (namespace, None):
        yield place, None, None
        for key, value in labels.items():
            yield place, key, value
