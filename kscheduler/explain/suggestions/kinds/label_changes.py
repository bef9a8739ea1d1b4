"""Labels: the fewest that an object needs to satisfy rules, and which are probably meant by those that nobody has.

What some node or pod has is left alone: a pod that names an existing zone means that one. So is the name of a node.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice, product
from typing import Final

import msgspec

from kscheduler.api.core import Node, PodAffinityTerm
from kscheduler.api.selectors import NodeTerm, Operator, Requirement
from kscheduler.api.well_known import HOSTNAME
from kscheduler.explain.suggestions.kubectl_lines import kubectl
from kscheduler.explain.suggestions.object_changes import ADD, REMOVE, REPLACE, Operation, pointer
from kscheduler.explain.suggestions.suggestion import Patch, Step, SuggestionKind
from kscheduler.framework.nodes.node_table import NodeTable

# Combinations of terms that are looked at.
_MAX_CHOICES: Final = 64

# Labels to set; `None`: to remove.
Labels = Mapping[str, str | None]


class LabelChange(SuggestionKind, frozen=True, kw_only=True):
    """A kind whose `labels` are set on an object; `replaced` are the values that it has of them."""

    labels: Labels
    replaced: Mapping[str, str]

    @property
    def labels_text(self) -> str:
        """`disk=ssd instead of hdd, rack=1, no label old=x`"""
        return ", ".join(_label_text(key, value, self.replaced.get(key)) for key, value in self.labels.items())

    def label_command(self, kind: str, step: Step) -> str:
        """The line that labels the object, which is of this kind."""
        labels = [f"{key}-" if value is None else f"{key}={value}" for key, value in self.labels.items()]
        return kubectl("label", kind, step.changes[0].name, "--overwrite", *labels)


def label_patch(labels: Labels, has: Mapping[str, str]) -> Patch:
    """Sets the labels of an object that has these."""
    if not has:
        given = {key: value for key, value in labels.items() if value is not None}
        return (Operation(ADD, "/metadata/labels", given),)
    patch: list[Operation] = []
    for key, value in labels.items():
        at = pointer("metadata", "labels", key)
        if value is None:
            patch.append(Operation(REMOVE, at))
        else:
            patch.append(Operation(REPLACE if key in has else ADD, at, value))
    return tuple(patch)


def _label_text(key: str, value: str | None, before: str | None) -> str:
    if value is None:
        return f"no label {key}={before}" if before else f"no label {key}"
    return f"{key}={value}" if before is None else f"{key}={value} instead of {before or 'an empty value'}"


def missing_labels(rules: Sequence[Sequence[NodeTerm]], node: Node) -> Labels:
    """What to set so that one term of each rule holds; empty if nothing is missing, or nothing would do."""
    has, name = node.metadata.labels, node.metadata.name
    found: list[Labels] = []
    for terms in islice(product(*rules), _MAX_CHOICES):
        labels = _for_all_of(terms, has, name)
        if labels is not None:
            found.append(labels)
    return min(found, key=len, default={})


def _for_all_of(terms: Iterable[NodeTerm], has: Mapping[str, str], name: str) -> Labels | None:
    by_key: dict[str, list[Requirement]] = {}
    for term in terms:
        if term.nothing or not all(requirement.matches_value(name) for requirement in term.fields):
            return None
        for requirement in term.labels:
            by_key.setdefault(requirement.key, []).append(requirement)
    needed: dict[str, str | None] = {}
    for key, requirements in by_key.items():
        if all(requirement.matches_value(has.get(key)) for requirement in requirements):
            continue
        for value in _candidates(requirements):
            if all(requirement.matches_value(value) for requirement in requirements):
                needed[key] = value
                break
        else:
            return None
    return needed


def _candidates(requirements: Iterable[Requirement]) -> Iterator[str | None]:
    """Values of which one satisfies all requirements of a key, if any value does; `None` is no label.

    An empty value and one above or below every number stand for all those that no requirement names.
    """
    for requirement in requirements:
        match requirement.operator:
            case Operator.IN:
                yield from sorted(requirement.values)
            case Operator.GT:
                yield str(requirement.bound + 1)
            case Operator.LT:
                yield str(requirement.bound - 1)
    yield None
    yield ""
    yield "true"


# --- labels that nobody has, but nearly -------------------------------------------------------------------------------

# Labels that are near, the nearest first.
_TRIED: Final = 2
# Of a label with more values each node has its own, so that some value is near every other.
_MAX_VALUES: Final = 1024
# Of a selector: each is compared with all that there is, and in a longer one a typing mistake is not the point.
_MAX_LABELS: Final = 32
# Whose labels are looked at, a microsecond each; where there are more, no near value of theirs is known.
_MAX_PODS: Final = 8192


class NearLabel(msgspec.Struct, frozen=True):
    """The label that is probably meant."""

    key: str
    value: str


def near_node_labels(selector: dict[str, str], nodes: NodeTable) -> Iterator[tuple[str, str, NearLabel]]:
    """Key and value of the nodeSelector's labels that no node has, each with a near label of nodes."""
    if len(selector) > _MAX_LABELS:
        return
    keys: list[str] = []
    for key, value in sorted(selector.items()):
        there = _values(key, nodes)
        if value in there or key == HOSTNAME or len(there) > _MAX_VALUES:
            continue
        if there:
            for near in get_close_matches(value, there, n=_TRIED):
                yield key, value, NearLabel(key, near)
            continue
        keys = keys or _keys(nodes)
        for near in _near_keys(key, (each for each in keys if each not in selector)):
            if value in _values(near, nodes):
                yield key, value, NearLabel(near, value)


def near_pod_labels(namespace: str, term: PodAffinityTerm, nodes: NodeTable) -> Iterator[NearLabel]:
    """Keys of the term's labels with a near value that a pod has; none for a key that some pod has with this value.

    `namespace`: of the pod with the term; terms that look at pods of others are left alone.
    """
    selector = term.label_selector
    if (
        selector is None
        or len(selector.match_labels) > _MAX_LABELS
        or selector.match_expressions
        or term.namespaces
        or term.namespace_selector is not None
    ):
        return
    rows = nodes.rows()
    if int(nodes.pod_count[rows].sum()) > _MAX_PODS:
        return
    there: dict[str, set[str]] = {key: set() for key in selector.match_labels}
    for row in rows.tolist():
        for other in nodes.info(row).pods.values():
            if other.namespace == namespace:
                for key, values in there.items():
                    if (value := other.labels.get(key)) is not None:
                        values.add(value)
    for key, value in sorted(selector.match_labels.items()):
        if value not in there[key] and len(there[key]) <= _MAX_VALUES:
            for near in get_close_matches(value, sorted(there[key]), n=_TRIED):
                yield NearLabel(key, near)


def _near_keys(key: str, keys: Iterable[str]) -> list[str]:
    """Those of the same name with another prefix, then those with nearly this name."""
    listed = list(keys)
    name = key.rpartition("/")[2]
    same_name = [each for each in listed if each.rpartition("/")[2] == name]
    if same_name or len(listed) > _MAX_VALUES:
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
