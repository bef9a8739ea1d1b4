"""The fewest labels of a node with which it satisfies node selector terms."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Final

from kscheduler.api.core import Node
from kscheduler.api.selectors import NodeTerm, Operator, Requirement

# Combinations of terms that are looked at.
_MOST_CHOICES: Final = 64

# Labels to set; `None`: to remove.
Labels = dict[str, str | None]


def missing_labels(rules: Sequence[Sequence[NodeTerm]], node: Node) -> Labels:
    """What to set so that one term of each rule holds; empty if nothing is missing, or nothing would do."""
    has, name = node.metadata.labels, node.metadata.name
    found: list[Labels] = []
    for terms in islice(product(*rules), _MOST_CHOICES):
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
    needed: Labels = {}
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
