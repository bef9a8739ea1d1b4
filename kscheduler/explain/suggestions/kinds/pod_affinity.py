"""Required affinity and anti-affinity of a pod to other pods, and labels of namespaces that their selectors match.

A value of the affinity's labels that no pod has, but nearly, is probably a typing mistake: `app=dbb` where a pod of the
namespace has `app=db`.

A namespace is labelled for

    the pod's affinity           a namespace with pods that would do, so that the selector takes it in; or one with pods
                                 that cannot be joined, so that it leaves it out and the pod is the first of its kind
    the pod's anti-affinity      a namespace with pods in the way, so that the selector leaves it out
    anti-affinity of other pods  the pod's own namespace, so that their selectors leave it out
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import UNSET, UnsetType

from kscheduler.api.core import LabelSelector, PodAffinity, PodAffinityTerm
from kscheduler.api.selectors import Operator, Requirement, Selector
from kscheduler.explain.suggestions.kinds.label_changes import (
    LabelChange,
    Labels,
    NearLabel,
    label_patch,
    near_pod_labels,
)
from kscheduler.explain.suggestions.object_changes import REMOVE, REPLACE, ObjectChange, Operation, pointer
from kscheduler.explain.suggestions.suggestion import HALF, Demand, PodChange, Step
from kscheduler.explain.suggestions.trials import OF_PODS, Trials
from kscheduler.framework.pods.affinity_terms import PodMatch
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.state.cache import Cache

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
# Of a pod's affinity: for each of them the labels of all pods are looked at.
_MAX_NEAR_TERMS: Final = 8
_SIZE: Final = 0.6
_SIZE_OF_NEAR: Final = 0.2
# Set by the API server, and by nobody else.
_NAME: Final = "kubernetes.io/metadata.name"
# Proposals of namespaces: each makes counts again.
_MAX_NAMESPACES: Final = 16

LabelsOf = Callable[[str], Mapping[str, str] | None]


class RelaxPodAffinity(PodChange, frozen=True):
    """A term of the required affinity goes, or looks for a near value of a label."""

    kind = "podAffinity"
    touched = frozenset((OF_PODS,))

    term: int
    topology_key: str
    label_selector: LabelSelector | None
    to: NearLabel | UnsetType = UNSET

    @classmethod
    def demands(cls, pod: PodInfo, cache: Cache) -> Iterator[Demand]:
        affinity = pod.pod.spec.affinity
        listed = affinity.pod_affinity if affinity is not None else None
        for position, term in enumerate(_terms(listed)):
            at = ("spec", "affinity", "podAffinity", _REQUIRED, position)
            facts = position, term.topology_key, term.label_selector
            if position < _MAX_NEAR_TERMS:
                for near in near_pod_labels(pod.namespace, term, cache.nodes):
                    where = pointer(*at, "labelSelector", "matchLabels", near.key)
                    yield Demand(cls(*facts, near), (Operation(REPLACE, where, near.value),), _SIZE_OF_NEAR)
            yield Demand(cls(*facts), (Operation(REMOVE, pointer(*at)),), _SIZE)

    def text(self, step: Step) -> str:
        near, selector = self.to, self.label_selector
        if near is UNSET or selector is None:
            return f"drop the required affinity to pods {_pods(selector, self.topology_key)}"
        now, wanted = f"{near.key}={selector.match_labels[near.key]}", f"{near.key}={near.value}"
        return f"write {wanted} instead of {now} in the required affinity to pods: no pod of the namespace has {now}"


class DropPodAntiAffinity(PodChange, frozen=True):
    """A term of the required anti-affinity goes."""

    kind = "podAntiAffinity"
    touched = frozenset((OF_PODS,))

    term: int
    topology_key: str
    label_selector: LabelSelector | None

    @classmethod
    def demands(cls, pod: PodInfo, cache: Cache) -> Iterator[Demand]:
        affinity = pod.pod.spec.affinity
        listed = affinity.pod_anti_affinity if affinity is not None else None
        for position, term in enumerate(_terms(listed)):
            patch = (Operation(REMOVE, pointer("spec", "affinity", "podAntiAffinity", _REQUIRED, position)),)
            yield Demand(cls(position, term.topology_key, term.label_selector), patch, _SIZE)

    def text(self, step: Step) -> str:
        return f"drop the required anti-affinity to pods {_pods(self.label_selector, self.topology_key)}"


class LabelNamespace(LabelChange, frozen=True):
    """A namespace is labelled, so that the selector of an affinity term takes it in, or leaves it out."""

    kind = "namespaceLabel"
    touched = frozenset((OF_PODS,))

    namespace: str

    @classmethod
    def proposals(cls, trials: Trials) -> Iterator[Step]:
        if not trials.objections.may_help(cls.touched):
            return
        found: dict[tuple[str, tuple[tuple[str, str | None], ...]], None] = {}
        for namespace, labels in _wanted(trials):
            if labels and _NAME not in labels:
                found.setdefault((namespace, tuple(sorted(labels.items()))))
        for namespace, items in list(found)[:_MAX_NAMESPACES]:
            labels, has = dict(items), trials.cache.counters.namespace_labels(namespace) or {}
            change = ObjectChange("namespaces", "", namespace, label_patch(labels, has))
            facts = cls(namespace, labels=labels, replaced={key: has[key] for key in labels if key in has})
            yield Step(facts, (change,), HALF * len(labels), f"{namespace} {sorted(labels)}")

    def text(self, step: Step) -> str:
        return f"label namespace {self.namespace}: {self.labels_text}"

    def command(self, step: Step) -> str:
        return self.label_command("namespace", step)


def _terms(listed: PodAffinity | None) -> Sequence[PodAffinityTerm]:
    return listed.required_during_scheduling_ignored_during_execution if listed is not None else ()


def _pods(selector: LabelSelector | None, topology_key: str) -> str:
    parts = []
    if selector is not None:
        parts += [f"{key}={value}" for key, value in selector.match_labels.items()]
        for each in selector.match_expressions:
            values = ", ".join(each.values)
            parts.append(f"{each.key} {each.operator}{f' ({values})' if values else ''}")
    return f"with {', '.join(parts) or 'any labels'} per {topology_key}"


# --- namespaces -------------------------------------------------------------------------------------------------------


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
