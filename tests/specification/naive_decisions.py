"""A whole decision by the specification: every default rule for every node, points, sums, and the choice.

For pods without volumes, where no pod is nominated and every node is looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from kscheduler.api.core import Node, Pod
from kscheduler.api.workloads import Service
from kscheduler.config.plugin_args import (
    DEFAULT_RESOURCES,
    LEAST_ALLOCATED,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ScoringStrategy,
)
from tests.specification import pod_affinity, rules, scores, spread_rules
from tests.specification.requests_by_hand import request_of
from tests.specification.rules import Place

_AFFINITY = NodeAffinityArgs()
_FIT = NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(LEAST_ALLOCATED, DEFAULT_RESOURCES))
_BALANCED = NodeResourcesBalancedAllocationArgs(resources=DEFAULT_RESOURCES)
_FILTERS = (
    rules.node_unschedulable,
    rules.node_name,
    rules.taint_toleration,
    rules.node_affinity(_AFFINITY),
    rules.node_ports,
    rules.node_resources_fit(_FIT),
)
_HARD_WEIGHT = 1
_64_BITS = 2**64 - 1


@dataclass(frozen=True)
class NaiveCluster:
    """A cluster as plain objects."""

    nodes: Mapping[str, Node]
    pods: Mapping[str, Pod]
    namespaces: Mapping[str, Mapping[str, str]]
    services: Sequence[Service]
    image_sizes: Mapping[str, int]

    def places(self) -> dict[str, Place]:
        """Nodes by name, with their pods."""
        return {
            name: Place(node, tuple(pod for pod in self.pods.values() if pod.spec.node_name == name))
            for name, node in self.nodes.items()
        }


@dataclass(frozen=True)
class NaiveDecision:
    """What comes of it."""

    totals: dict[str, int]
    """By feasible node; empty where there is nothing to choose between."""
    feasible: frozenset[str]
    node_name: str


def decide(pod: Pod, cluster: NaiveCluster, weights: Mapping[str, int]) -> NaiveDecision:
    """Judge, score and choose."""
    places = cluster.places()
    world = pod_affinity.World(dict(cluster.nodes), dict(cluster.pods), dict(cluster.namespaces))
    numbered = dict(enumerate(places.values()))
    hard = spread_rules.wanted(pod, "DoNotSchedule", spread_rules.SYSTEM, _workloads(cluster))
    spread = spread_rules.verdicts(pod, hard, numbered, {}) if hard else {}
    feasible = [
        row
        for row, place in numbered.items()
        if not any(rule(pod, place) for rule in _FILTERS)
        and spread.get(row) is None
        and pod_affinity.verdict(pod, place.node, world) is None
    ]
    names = [numbered[row].node.metadata.name for row in feasible]
    if len(names) < 2:
        return NaiveDecision({}, frozenset(names), names[0] if names else "")
    sums = [0] * len(names)
    for plugin, points in _points(pod, numbered, feasible, world, cluster).items():
        sums = [total + one * weights[plugin] for total, one in zip(sums, points, strict=True)]
    totals = dict(zip(names, sums, strict=True))
    best = [name for name in names if totals[name] == max(sums)]
    return NaiveDecision(totals, frozenset(names), max(best, key=lambda name: (_lot(pod.metadata.uid, name), name)))


def _points(
    pod: Pod, places: Mapping[int, Place], feasible: Sequence[int], world: pod_affinity.World, cluster: NaiveCluster
) -> dict[str, Sequence[int]]:
    """By plugin the normalised points of the feasible nodes; plugins that have nothing to say are left out."""
    here = [places[row] for row in feasible]
    image = scores.image_locality([place.node for place in places.values()], cluster.image_sizes)
    fit, balanced = scores.node_resources_fit(_FIT), scores.balanced_allocation(_BALANCED)
    affinity = scores.node_affinity(_AFFINITY)
    near = [pod_affinity.points(pod, place.node, world, _HARD_WEIGHT) for place in here]
    points: dict[str, Sequence[int]] = {
        "TaintToleration": scores.scaled([scores.taint_toleration(pod, place) for place in here], reverse=True),
        "NodeAffinity": scores.scaled([affinity(pod, place) for place in here]),
        "NodeResourcesFit": [fit(pod, place) for place in here],
        "ImageLocality": [image(pod, place) for place in here],
        "InterPodAffinity": pod_affinity.spread_out(near),
    }
    if any(request_of(pod, resource) for resource in ("cpu", "memory")):
        points["NodeResourcesBalancedAllocation"] = [balanced(pod, place) for place in here]
    soft = spread_rules.wanted(pod, "ScheduleAnyway", spread_rules.SYSTEM, _workloads(cluster))
    if soft:
        own = bool(pod.spec.topology_spread_constraints)
        raw = spread_rules.raw_points(pod, soft, places, feasible, needs_keys=own)
        points["PodTopologySpread"] = spread_rules.normal_points(raw)
    return points


def _workloads(cluster: NaiveCluster) -> spread_rules.Workloads:
    return spread_rules.Workloads(list(cluster.services))


def _lot(uid: str, name: str) -> int:
    """The mix of two stable hashes, as splitmix64 ends."""
    mixed = _hash(name) ^ _hash(uid)
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & _64_BITS
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & _64_BITS
    return mixed ^ (mixed >> 31)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
