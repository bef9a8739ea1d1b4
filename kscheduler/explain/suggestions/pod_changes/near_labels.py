"""A label that the pod asks for and nobody has, but nearly: probably a typing mistake.

Of the nodeSelector:

    disktype=sdd      nodes have disktype=ssd                  the value is another one
    disk-type=ssd     nodes have disktype=ssd                  the key is another one
    disktype=ssd      nodes have example.com/disktype=ssd      the key lacks its prefix

Of a required affinity to pods of the own namespace, by labels alone, a value: `app=dbb` where a pod has `app=db`.

What some node has is left alone: anyone who names a zone that there is means that one. So is the name of a node.
"""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Final

from kscheduler.api.core import Pod, PodAffinityTerm
from kscheduler.api.well_known import HOSTNAME
from kscheduler.explain.suggestions.changed import ADD, REMOVE, REPLACE, Operation, pointer
from kscheduler.explain.suggestions.pod_changes.demand import Demand, Patch
from kscheduler.explain.suggestions.suggestion import ChangeKind
from kscheduler.framework.nodes.node_table import NodeTable

# Labels that are near, the nearest first.
_TRIED: Final = 2
_SIZE: Final = 0.2
# Of a label with more values each node has its own, so that some value is near every other.
_MOST_VALUES: Final = 1024
# Of a selector: each is compared with all that there is, and in a longer one a typing mistake is not the point.
_MOST_LABELS: Final = 32
# Whose labels are looked at, a microsecond each; where there are more, no near value of theirs is known.
_MOST_PODS: Final = 8192


def near_labels(pod: Pod, nodes: NodeTable) -> Iterator[Demand]:
    """The selector with another value of a label, or with another key, as nodes have it."""
    selector = pod.spec.node_selector
    if len(selector) > _MOST_LABELS:
        return
    keys: list[str] = []
    for key, value in sorted(selector.items()):
        there = _values(key, nodes)
        if value in there or key == HOSTNAME or len(there) > _MOST_VALUES:
            continue
        if there:
            for near in get_close_matches(value, there, n=_TRIED):
                yield _demand(key, value, key, near)
            continue
        keys = keys or _keys(nodes)
        for near in _near_keys(key, (each for each in keys if each not in selector)):
            if value in _values(near, nodes):
                yield _demand(key, value, near, value)


def near_pod_values(pod: Pod, term: PodAffinityTerm, nodes: NodeTable) -> Iterator[tuple[str, str]]:
    """Keys of the term's labels with a near value that a pod has; none for a key that some pod has with this value."""
    selector = term.label_selector
    if (
        selector is None
        or len(selector.match_labels) > _MOST_LABELS
        or selector.match_expressions
        or term.namespaces
        or term.namespace_selector is not None
    ):
        return
    rows = nodes.rows()
    if int(nodes.pod_count[rows].sum()) > _MOST_PODS:
        return
    there: dict[str, set[str]] = {key: set() for key in selector.match_labels}
    for row in rows.tolist():
        for other in nodes.info(row).pods.values():
            if other.namespace == pod.metadata.namespace:
                for key, values in there.items():
                    if (value := other.labels.get(key)) is not None:
                        values.add(value)
    for key, value in sorted(selector.match_labels.items()):
        if value not in there[key] and len(there[key]) <= _MOST_VALUES:
            for near in get_close_matches(value, sorted(there[key]), n=_TRIED):
                yield key, near


def _demand(key: str, value: str, near_key: str, near_value: str) -> Demand:
    at = ("spec", "nodeSelector")
    patch: Patch = (Operation(REPLACE, pointer(*at, key), near_value),)
    if near_key != key:
        patch = (Operation(ADD, pointer(*at, near_key), near_value), Operation(REMOVE, pointer(*at, key)))
    facts = {"key": key, "value": value, "to": {"key": near_key, "value": near_value}}
    return Demand(ChangeKind.NODE_SELECTOR, patch, _SIZE, facts)


def _near_keys(key: str, keys: Iterable[str]) -> list[str]:
    """Those of the same name with another prefix, then those with nearly this name."""
    listed = list(keys)
    name = key.rpartition("/")[2]
    same_name = [each for each in listed if each.rpartition("/")[2] == name]
    if same_name or len(listed) > _MOST_VALUES:
        return same_name[:_TRIED]
    return get_close_matches(key, listed, n=_TRIED)


def _values(key: str, nodes: NodeTable) -> list[str]:
    """The values that nodes have of a label, sorted."""
    numbers, values = nodes.label_values(key, nodes.rows())
    return sorted({value for number in set(numbers.tolist()) if (value := values[number]) is not None})


def _keys(nodes: NodeTable) -> list[str]:
    """The keys of all nodes' labels, sorted."""
    infos = (nodes.info(row).node for row in nodes.rows().tolist())
    return sorted({key for node in infos if node is not None for key in node.metadata.labels})
