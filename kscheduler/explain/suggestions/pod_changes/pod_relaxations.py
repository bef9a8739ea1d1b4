"""Everything that a pod asks for, one demand at a time, and the pod without it.

A `Demand` names its largest relaxation: a request lowered to nothing, a constraint without effect. If the pod fits
nowhere with that, no smaller relaxation of this demand helps; if it does, `amounts` finds the smallest that does.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from kscheduler.api.core import Pod, PodAffinityTerm
from kscheduler.explain.suggestions.changed import REMOVE, REPLACE, Operation, pointer
from kscheduler.explain.suggestions.pod_changes.demand import Demand
from kscheduler.explain.suggestions.pod_changes.near_labels import near_labels, near_pod_values
from kscheduler.explain.suggestions.pod_changes.near_resources import near_resources
from kscheduler.explain.suggestions.pod_changes.node_rules import node_rules
from kscheduler.explain.suggestions.pod_changes.requests_lowered import lowered
from kscheduler.explain.suggestions.pod_changes.tolerated import tolerations
from kscheduler.explain.suggestions.suggestion import ChangeKind
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import PODS
from kscheduler.framework.pods.spread_constraint import DO_NOT_SCHEDULE, SCHEDULE_ANYWAY
from kscheduler.state.cache import Cache

# The largest maxSkew that the API has a number for.
MOST_SKEW: Final = 2**31 - 1
# Of a pod's affinity: for each of them the labels of all pods are looked at.
_MOST_NEAR_TERMS: Final = 8
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def demands(pod: PodInfo, cache: Cache) -> Iterator[Demand]:
    """All demands that may keep the pod from a node, in the order in which they are shown if they are equally large."""
    spec, nodes = pod.pod.spec, cache.nodes
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
    yield from near_resources(pod, cache)
    yield from tolerations(pod, nodes)
    yield from node_rules(pod.pod)
    yield from near_labels(pod.pod, nodes)
    yield from _pod_rules(pod.pod, nodes)
    yield from _spread(pod.pod)
    yield from _ports(pod.pod)


def _pod_rules(pod: Pod, nodes: NodeTable) -> Iterator[Demand]:
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
            at, facts = ("spec", "affinity", name, _REQUIRED, position), _term_facts(position, term)
            if kind is ChangeKind.POD_AFFINITY and position < _MOST_NEAR_TERMS:
                for key, near in near_pod_values(pod, term, nodes):
                    written = (Operation(REPLACE, pointer(*at, "labelSelector", "matchLabels", key), near),)
                    yield Demand(kind, written, 0.2, {**facts, "to": {"key": key, "value": near}})
            yield Demand(kind, (Operation(REMOVE, pointer(*at)),), 0.6, facts)


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
    """Host ports one by one; on the host's network they go with it."""
    patches = []
    for name, containers in (("containers", pod.spec.containers), ("initContainers", pod.spec.init_containers)):
        for at, container in enumerate(containers):
            for position, port in enumerate(container.ports):
                if port.host_port:
                    patch = (Operation(REMOVE, pointer("spec", name, at, "ports", position, "hostPort")),)
                    facts = {"container": container.name, "port": port.host_port, "protocol": port.protocol or "TCP"}
                    patches.append((patch, facts))
    if not pod.spec.host_network:
        yield from (Demand(ChangeKind.HOST_PORT, patch, 0.6, facts) for patch, facts in patches)
    elif patches:
        whole = (*(step for patch, _ in patches for step in patch), Operation(REMOVE, "/spec/hostNetwork"))
        ports = [f"{facts['port']}/{facts['protocol']}" for _, facts in patches]
        yield Demand(ChangeKind.HOST_PORT, whole, 0.8, {"hostNetwork": True, "ports": ports})
