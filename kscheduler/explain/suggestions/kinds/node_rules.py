"""What a pod asks of a node's labels: nodeSelector and required node affinity.

A label of the nodeSelector that no node has, but nearly, is probably a typing mistake:

    disktype=sdd      nodes have disktype=ssd                  the value is another one
    disk-type=ssd     nodes have disktype=ssd                  the key is another one
    disktype=ssd      nodes have example.com/disktype=ssd      the key lacks its prefix
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import UNSET, UnsetType

from kscheduler.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod
from kscheduler.explain.suggestions.kinds.label_changes import NearLabel, near_node_labels
from kscheduler.explain.suggestions.object_changes import ADD, REMOVE, REPLACE, Operation, pointer
from kscheduler.explain.suggestions.suggestion import Demand, Patch, PodChange, Step
from kscheduler.explain.suggestions.trials import BY_SELECTORS, Trials
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.state.cache import Cache

_AT: Final = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
# Values of a label that a requirement is relaxed to, those of most nodes first.
_VALUES_TRIED: Final = 3
_SIZE_OF_NEAR: Final = 0.2
_SIZE_OF_VALUE: Final = 0.3
_SIZE_OF_ALL: Final = 0.8


class ChangeNodeSelector(PodChange, frozen=True):
    """A label of the nodeSelector goes, or becomes one that is near.

    Proposes the node affinity as well: the labels go, then the affinity, then what is near is tried.
    """

    kind = "nodeSelector"
    touched = BY_SELECTORS

    key: str
    value: str
    to: NearLabel | UnsetType = UNSET

    @classmethod
    def demands(cls, pod: PodInfo, cache: Cache) -> Iterator[Demand]:
        selector = pod.pod.spec.node_selector
        for key, value in sorted(selector.items()):
            yield Demand(cls(key, value), (Operation(REMOVE, pointer("spec", "nodeSelector", key)),))
        yield from _of_affinity(pod.pod)
        for key, value, near in near_node_labels(selector, cache.nodes):
            at = ("spec", "nodeSelector")
            patch: Patch = (Operation(REPLACE, pointer(*at, key), near.value),)
            if near.key != key:
                patch = (Operation(ADD, pointer(*at, near.key), near.value), Operation(REMOVE, pointer(*at, key)))
            yield Demand(cls(key, value, near), patch, _SIZE_OF_NEAR)

    def text(self, step: Step) -> str:
        now, near = f"{self.key}={self.value}", self.to
        if near is UNSET:
            return f"drop {now} from the nodeSelector"
        return f"write {near.key}={near.value} instead of {now} in the nodeSelector: no node has {now}"


class RelaxNodeAffinity(PodChange, frozen=True):
    """A requirement of the node affinity goes, or accepts one value more; or all of the affinity goes."""

    kind = "nodeAffinity"
    touched = BY_SELECTORS

    term: int | UnsetType = UNSET
    requirement: NodeSelectorRequirement | UnsetType = UNSET
    value: str | UnsetType = UNSET
    """That the requirement would accept, too."""
    terms: int | UnsetType = UNSET
    """Of all that goes."""

    @classmethod
    def relaxed(cls, demands: Sequence[Demand], trials: Trials) -> Iterator[Demand]:
        """Requirements that accept one more value of the label, as nodes have it that fit without affinity."""
        for whole in (each for each in demands if each.facts.kind == cls.kind and each.is_last_resort):
            widest = trials.rows((trials.of_pod(whole.patch),))
            if len(widest):
                yield from _accepting_more(trials.pod.pod, trials.cache.nodes, widest)

    def text(self, step: Step) -> str:
        if self.requirement is UNSET:
            return "drop the required node affinity"
        values = ", ".join(self.requirement.values)
        named = f"{self.requirement.key} {self.requirement.operator}{f' ({values})' if values else ''}"
        if self.value is UNSET:
            return f"drop {named} from the required node affinity"
        return f"relax {named} of the required node affinity so that it accepts {self.value}, too"


def _of_affinity(pod: Pod) -> Iterator[Demand]:
    """Each requirement of the affinity, and all of it. Not of a DaemonSet's pod: no template has what its controller
    writes into each.
    """
    required, owner = _required(pod), pod.metadata.controller
    if required is None or (owner is not None and owner.kind == "DaemonSet" and PodInfo(pod).names_nodes):
        return
    for number, term in enumerate(required.node_selector_terms):
        if len(term.match_expressions) + len(term.match_fields) > 1:  # a term without requirements matches nothing
            for name, position, requirement in _requirements(term):
                patch = (Operation(REMOVE, pointer(*_AT, "nodeSelectorTerms", number, name, position)),)
                yield Demand(RelaxNodeAffinity(number, requirement), patch, family="nodeAffinity")
    facts, whole = RelaxNodeAffinity(terms=len(required.node_selector_terms)), (Operation(REMOVE, pointer(*_AT)),)
    yield Demand(facts, whole, _SIZE_OF_ALL, "nodeAffinity", is_last_resort=True)


def _accepting_more(pod: Pod, nodes: NodeTable, rows: Rows) -> Iterator[Demand]:
    required = _required(pod)
    for number, term in enumerate(required.node_selector_terms if required is not None else ()):
        for position, requirement in enumerate(term.match_expressions):
            for value in _values(nodes, requirement.key, rows):
                if values := _with_value(requirement, value):
                    at = pointer(*_AT, "nodeSelectorTerms", number, "matchExpressions", position, "values")
                    facts = RelaxNodeAffinity(number, requirement, value)
                    yield Demand(facts, (Operation(REPLACE, at, values),), _SIZE_OF_VALUE, family=at)


def _with_value(requirement: NodeSelectorRequirement, value: str) -> list[str]:
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
