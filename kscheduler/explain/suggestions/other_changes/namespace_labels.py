"""Labels of namespaces, which the namespace selectors of affinity terms match.

the pod's affinity           a namespace with pods that would do, so that the selector takes it in; or one with pods
                             that cannot be joined, so that it leaves it out and the pod is the first of its kind
the pod's anti-affinity      a namespace with pods in the way, so that the selector leaves it out
anti-affinity of other pods  the pod's own namespace, so that their selectors leave it out
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from kscheduler.api.selectors import Operator, Requirement, Selector
from kscheduler.explain.suggestions.changed import ADD, REMOVE, REPLACE, ObjectChange, Operation, pointer
from kscheduler.explain.suggestions.suggestion import ChangeKind, Step
from kscheduler.explain.suggestions.trials.trial import Trials
from kscheduler.framework.pods.affinity_terms import PodMatch

# Set by the API server, and by nobody else.
_NAME: Final = "kubernetes.io/metadata.name"
# Proposals: each makes counts again.
_MOST: Final = 16

LabelsOf = Callable[[str], Mapping[str, str] | None]
# Labels to set; `None`: to remove.
Labels = Mapping[str, str | None]


def namespace_changes(trials: Trials) -> Iterator[Step]:
    """Proposals. They are not tried yet."""
    found: dict[tuple[str, tuple[tuple[str, str | None], ...]], None] = {}
    for namespace, labels in _wanted(trials):
        if labels and _NAME not in labels:
            found.setdefault((namespace, tuple(sorted(labels.items()))))
    for namespace, items in list(found)[:_MOST]:
        yield _step(namespace, dict(items), trials.cache.counters.namespace_labels(namespace) or {})


def _wanted(trials: Trials) -> Iterator[tuple[str, Labels]]:
    counters, terms = trials.cache.counters, trials.pod.affinity_terms
    names = sorted(counters.namespace_names())
    for term in terms.required_affinity:
        for namespace in names:
            yield from ((namespace, labels) for labels in _taking_in(term.match, namespace, counters.namespace_labels))
    for term in terms.required_anti_affinity:
        for namespace in names:
            yield from (
                (namespace, labels) for labels in _leaving_out(term.match, namespace, counters.namespace_labels)
            )
    # The first pod of all that a term matches needs no neighbour: see to it that the term matches none that is there.
    for term in terms.required_affinity:
        if counters.selects(term.match, trials.pod.pod):
            for namespace in names:
                yield from (
                    (namespace, labels) for labels in _leaving_out(term.match, namespace, counters.namespace_labels)
                )
    own = trials.pod.namespace
    for held in counters.required_anti_affinity(trials.pod):
        yield from ((own, labels) for labels in _leaving_out(held.match, own, counters.namespace_labels))


def _taking_in(match: PodMatch, namespace: str, labels_of: LabelsOf) -> Iterator[Labels]:
    selector, has = match.namespace_selector, labels_of(namespace)
    if selector is None or has is None or match.names(namespace, has) or selector.nothing:
        return
    needed: dict[str, str | None] = {}
    for requirement in selector.requirements:
        if not requirement.matches_value(has.get(requirement.key)):
            value = _accepted(requirement)
            if not requirement.matches_value(value):
                return
            needed[requirement.key] = value
    yield needed


def _leaving_out(match: PodMatch, namespace: str, labels_of: LabelsOf) -> Iterator[Labels]:
    """One label each that is enough."""
    selector, has = match.namespace_selector, labels_of(namespace)
    if selector is None or has is None or namespace in match.namespaces or not _takes_in(selector, has):
        return
    for requirement in selector.requirements:
        value = _refused(requirement)
        if not requirement.matches_value(value):
            yield {requirement.key: value}


def _takes_in(selector: Selector, has: Mapping[str, str]) -> bool:
    return not selector.is_empty and selector.matches(has)


def _accepted(requirement: Requirement) -> str | None:
    """A value that the requirement accepts, if any does; `None` is no label."""
    if requirement.operator is Operator.IN:
        return min(requirement.values, default=None)
    return "" if requirement.operator is Operator.EXISTS else None


def _refused(requirement: Requirement) -> str | None:
    if requirement.operator is Operator.NOT_IN:
        return min(requirement.values, default=None)
    return "" if requirement.operator is Operator.DOES_NOT_EXIST else None


def _step(namespace: str, labels: Labels, has: Mapping[str, str]) -> Step:
    patch: list[Operation] = []
    for key, value in labels.items():
        at = pointer("metadata", "labels", key)
        if value is None:
            patch.append(Operation(REMOVE, at))
        else:
            patch.append(Operation(REPLACE if key in has else ADD, at, value))
    if not has:
        patch = [Operation(ADD, "/metadata/labels", {key: value for key, value in labels.items() if value is not None})]
    change = ObjectChange("namespaces", "", namespace, tuple(patch))
    replaced = {key: has[key] for key in labels if key in has}
    facts = {"namespace": namespace, "labels": dict(labels), "replaced": replaced}
    return Step(ChangeKind.NAMESPACE_LABEL, (change,), 0.5 * len(labels), facts, f"{namespace} {sorted(labels)}")
