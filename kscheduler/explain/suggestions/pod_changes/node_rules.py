"""What a pod asks of a node's labels: nodeSelector and required node affinity."""

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np

from kscheduler.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod
from kscheduler.explain.suggestions.changed import REMOVE, REPLACE, Operation, pointer
from kscheduler.explain.suggestions.pod_changes.demand import Demand
from kscheduler.explain.suggestions.suggestion import ChangeKind
from kscheduler.framework.nodes.node_table import NodeTable, Rows

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_AT: Final = ("spec", "affinity", "nodeAffinity", _REQUIRED)
# Values of a label that a requirement is relaxed to, those of most nodes first.
_VALUES_TRIED: Final = 3


def node_rules(pod: Pod) -> Iterator[Demand]:
    """Each label of the selector, each requirement of the affinity, and all of the affinity."""
    for key, value in sorted(pod.spec.node_selector.items()):
        patch = (Operation(REMOVE, pointer("spec", "nodeSelector", key)),)
        yield Demand(ChangeKind.NODE_SELECTOR, patch, facts={"key": key, "value": value})
    required = _required(pod)
    if required is None:
        return
    for number, term in enumerate(required.node_selector_terms):
        if len(term.match_expressions) + len(term.match_fields) > 1:  # a term without requirements matches nothing
            for name, position, requirement in _requirements(term):
                patch = (Operation(REMOVE, pointer(*_AT, "nodeSelectorTerms", number, name, position)),)
                facts = {"term": number, "requirement": msgspec.to_builtins(requirement)}
                yield Demand(ChangeKind.NODE_AFFINITY, patch, facts=facts, family="nodeAffinity")
    facts = {"terms": len(required.node_selector_terms)}
    whole = (Operation(REMOVE, pointer(*_AT)),)
    yield Demand(ChangeKind.NODE_AFFINITY, whole, 0.8, facts, family="nodeAffinity", is_last_resort=True)


def relaxed_requirements(pod: Pod, nodes: NodeTable, rows: Rows) -> Iterator[Demand]:
    """Requirements that accept one more value of the label, as the rows have it: those that fit without affinity."""
    required = _required(pod)
    for number, term in enumerate(required.node_selector_terms if required is not None else ()):
        for position, requirement in enumerate(term.match_expressions):
            for value in _values(nodes, requirement.key, rows):
                values = _relaxed(requirement, value)
                if values:
                    at = pointer(*_AT, "nodeSelectorTerms", number, "matchExpressions", position, "values")
                    facts = {"term": number, "requirement": msgspec.to_builtins(requirement), "value": value}
                    yield Demand(ChangeKind.NODE_AFFINITY, (Operation(REPLACE, at, values),), 0.3, facts, family=at)


def _relaxed(requirement: NodeSelectorRequirement, value: str) -> list[str]:
    """The requirement's values, so that it accepts this one; empty where that is already so, or cannot be."""
    values = requirement.values
    match requirement.operator:
        case "In":
            return [] if value in values else [*values, value]
        case "NotIn":
            return [each for each in values if each != value] if value in values else []
        case "Gt" | "Lt" if value.isdigit() and len(values) == 1 and values[0].isdigit():
            number, bound, is_greater = int(value), int(values[0]), requirement.operator == "Gt"
            accepts = number > bound if is_greater else number < bound
            return [] if accepts or number == 0 else [str(number - 1 if is_greater else number + 1)]
    return []


def _values(nodes: NodeTable, key: str, rows: Rows) -> list[str]:
    """The values that the rows have of a label, those of most rows first."""
    numbers, values = nodes.label_values(key, rows)
    counts = np.bincount(numbers, minlength=1)
    ordered = np.argsort(-counts, kind="stable")[: _VALUES_TRIED + 1].tolist()
    return [value for number in ordered if counts[number] and (value := values[number]) is not None][:_VALUES_TRIED]


def _required(pod: Pod) -> NodeSelector | None:
    affinity = pod.spec.affinity
    rules = affinity.node_affinity if affinity is not None else None
    return rules.required_during_scheduling_ignored_during_execution if rules is not None else None


def _requirements(term: NodeSelectorTerm) -> Iterator[tuple[str, int, NodeSelectorRequirement]]:
    for name, listed in (("matchExpressions", term.match_expressions), ("matchFields", term.match_fields)):
        for position, requirement in enumerate(listed):
            yield name, position, requirement
