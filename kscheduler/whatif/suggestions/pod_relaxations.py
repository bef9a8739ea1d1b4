"""Everything that a pod asks for, one demand at a time, and the pod without it.

A `Demand` names its largest relaxation: a request lowered to nothing, a constraint without effect. If the pod fits
nowhere with that, no smaller relaxation of this demand helps; if it does, `amounts` finds the smallest that does.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kscheduler.api.core import NodeSelectorRequirement, NodeSelectorTerm, Pod, PodAffinityTerm, Taint
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import PODS
from kscheduler.framework.pods.spread_constraint import DO_NOT_SCHEDULE, SCHEDULE_ANYWAY
from kscheduler.framework.rules.tolerations import has_untolerated
from kscheduler.whatif.suggestions.changed import ADD, REMOVE, REPLACE, Operation, pointer
from kscheduler.whatif.suggestions.requests_lowered import lowered
from kscheduler.whatif.suggestions.suggestion import ChangeKind

MOST_SKEW: Final = 2**31 - 1
"""The largest maxSkew that the API has a number for."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_HALF: Final = 0.5
"""Of a rule that goes, where nothing is measured."""

Patch = tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Demand:
    """Something that the pod asks for."""

    kind: ChangeKind
    patch: Patch
    """The largest relaxation."""
    size: float = _HALF
    facts: Mapping[str, Any] = field(default_factory=dict)
    resource: str = ""
    """Of a request."""
    skew: int = 0
    """The maxSkew of a spread constraint."""
    family: str = ""
    """Demands that say more and less of the same: where one of a family helps, its `is_last_resort` is left out."""
    is_last_resort: bool = False


def demands(pod: PodInfo, nodes: NodeTable) -> Iterator[Demand]:
    """All demands that may keep the pod from a node, in the order in which they are shown if they are equally large."""
    spec = pod.pod.spec
    if spec.scheduling_gates:
        names = [gate.name for gate in spec.scheduling_gates]
        yield Demand(ChangeKind.GATE, (Operation(REMOVE, "/spec/schedulingGates"),), 0.1, {"gates": names})
    for resource, amount in sorted(pod.requests.items()):
        if amount > 0 and resource != PODS:
            patch = lowered(pod.pod, resource, 0)
            if patch is not None:
                yield Demand(
                    ChangeKind.REQUEST, patch, 1.0, {"resource": resource, "amount": amount}, resource=resource
                )
    yield from _tolerations(pod, nodes)
    yield from _node_rules(pod.pod)
    yield from _pod_rules(pod.pod)
    yield from _spread(pod.pod)
    yield from _ports(pod.pod)


def toleration_of(taint: Taint) -> dict[str, str]:
    """What tolerates exactly this taint."""
    return {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}


def appended(pod: Pod, tree: dict[str, Any]) -> Patch:
    """A patch that gives a pod a further toleration."""
    if pod.spec.tolerations:
        return (Operation(ADD, "/spec/tolerations/-", tree),)
    return (Operation(ADD, "/spec/tolerations", [tree]),)


def _tolerations(pod: PodInfo, nodes: NodeTable) -> Iterator[Demand]:
    """One per taint of any node, those of most nodes first."""
    counts: dict[Taint, int] = {}
    for taints, count in taint_sets(nodes):
        for taint in taints:
            if has_untolerated((taint,), pod.tolerations):
                counts[taint] = counts.get(taint, 0) + count
    for taint in sorted(counts, key=lambda each: (-counts[each], each.key, each.value, each.effect)):
        facts = {"key": taint.key, "value": taint.value, "effect": taint.effect}
        yield Demand(ChangeKind.TOLERATION, appended(pod.pod, toleration_of(taint)), facts=facts)


def taint_sets(nodes: NodeTable) -> Iterator[tuple[tuple[Taint, ...], int]]:
    """Each set of taints that a node has, with a number of nodes."""
    counts: dict[int, int] = {}
    one: dict[int, int] = {}
    for row, number in zip(nodes.rows().tolist(), nodes.taint_set[nodes.rows()].tolist(), strict=True):
        counts[number] = counts.get(number, 0) + 1
        one[number] = row
    for number, row in one.items():
        if taints := nodes.info(row).taints:
            yield tuple(taints), counts[number]


def _node_rules(pod: Pod) -> Iterator[Demand]:
    for key, value in sorted(pod.spec.node_selector.items()):
        patch = (Operation(REMOVE, pointer("spec", "nodeSelector", key)),)
        yield Demand(ChangeKind.NODE_SELECTOR, patch, facts={"key": key, "value": value})
    affinity = pod.spec.affinity
    rules = affinity.node_affinity if affinity is not None else None
    required = rules.required_during_scheduling_ignored_during_execution if rules is not None else None
    if required is None:
        return
    at = ("spec", "affinity", "nodeAffinity", _REQUIRED)
    for number, term in enumerate(required.node_selector_terms):
        if len(term.match_expressions) + len(term.match_fields) > 1:
            for name, position, requirement in _requirements(term):
                patch = (Operation(REMOVE, pointer(*at, "nodeSelectorTerms", number, name, position)),)
                facts = {"term": number, "requirement": msgspec.to_builtins(requirement)}
                yield Demand(ChangeKind.NODE_AFFINITY, patch, facts=facts, family=at[2])
    facts = {"terms": len(required.node_selector_terms)}
    whole = (Operation(REMOVE, pointer(*at)),)
    yield Demand(ChangeKind.NODE_AFFINITY, whole, 0.8, facts, family=at[2], is_last_resort=True)


def _requirements(term: NodeSelectorTerm) -> Iterator[tuple[str, int, NodeSelectorRequirement]]:
    for name, listed in (("matchExpressions", term.match_expressions), ("matchFields", term.match_fields)):
        for position, requirement in enumerate(listed):
            yield name, position, requirement


def _pod_rules(pod: Pod) -> Iterator[Demand]:
    affinity = pod.spec.affinity
    if affinity is None:
        return
    rules = (
        (ChangeKind.POD_AFFINITY, "podAffinity", affinity.pod_affinity),
        (ChangeKind.POD_ANTI_AFFINITY, "podAntiAffinity", affinity.pod_anti_affinity),
    )
    for kind, name, listed in rules:
        terms = listed.required_during_scheduling_ignored_during_execution if listed is not None else ()
        for position, term in enumerate(terms):
            patch = (Operation(REMOVE, pointer("spec", "affinity", name, _REQUIRED, position)),)
            yield Demand(kind, patch, 0.6, _term_facts(position, term))


def _term_facts(position: int, term: PodAffinityTerm) -> dict[str, Any]:
    selector = msgspec.to_builtins(term.label_selector) if term.label_selector is not None else None
    return {"term": position, "topologyKey": term.topology_key, "labelSelector": selector}


def _spread(pod: Pod) -> Iterator[Demand]:
    for position, constraint in enumerate(pod.spec.topology_spread_constraints):
        if constraint.when_unsatisfiable != DO_NOT_SCHEDULE:
            continue
        at = ("spec", "topologySpreadConstraints", position)
        facts = {"constraint": position, "topologyKey": constraint.topology_key, "maxSkew": constraint.max_skew}
        wide = (Operation(REPLACE, pointer(*at, "maxSkew"), MOST_SKEW),)
        family = pointer(*at)
        yield Demand(ChangeKind.MAX_SKEW, wide, facts=facts, skew=constraint.max_skew, family=family)
        soft = (Operation(REPLACE, pointer(*at, "whenUnsatisfiable"), SCHEDULE_ANYWAY),)
        yield Demand(ChangeKind.SPREAD_CONSTRAINT, soft, 0.7, facts, family=family, is_last_resort=True)


def _ports(pod: Pod) -> Iterator[Demand]:
    """Host ports; on the host's network each port is one."""
    if pod.spec.host_network:
        return
    for name, containers in (("containers", pod.spec.containers), ("initContainers", pod.spec.init_containers)):
        for at, container in enumerate(containers):
            for position, port in enumerate(container.ports):
                if port.host_port:
                    patch = (Operation(REMOVE, pointer("spec", name, at, "ports", position, "hostPort")),)
                    facts = {"container": container.name, "port": port.host_port, "protocol": port.protocol or "TCP"}
                    yield Demand(ChangeKind.HOST_PORT, patch, 0.6, facts)
