"""A whole decision by the specification: every rule of a profile for every node, points, sums, and the choice.

    nominated rivals -> verdict of each node, with them and without -> points -> sums -> winner
                                                      '--> nobody: victims (`naive_preemption`)

Everything is worked out again from plain objects for each decision: no column, counter, log or class is known here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b

import msgspec

from kscheduler.api.core import Node, Pod, TopologySpreadConstraint
from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.config.plugin_args import (
    DEFAULT_RESOURCES,
    LEAST_ALLOCATED,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ScoringStrategy,
)
from tests.specification import pod_affinity, rules, scores
from tests.specification.requests_by_hand import request_of
from tests.specification.rules import LoggedFailure, Place
from tests.specification.scores import Score
from tests.specification.spread import rules as spread_rules
from tests.specification.volumes import binding_rules as volume_binding_rules
from tests.specification.volumes import rules as volume_rules

WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
_FIT = NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(LEAST_ALLOCATED, DEFAULT_RESOURCES))
_BALANCED = NodeResourcesBalancedAllocationArgs(resources=DEFAULT_RESOURCES)
_AFFINITY = NodeAffinityArgs()
_64_BITS = 2**64 - 1
_Problem = Callable[[Pod, volume_rules.World], str]
_NodeRule = Callable[[Pod, Node, volume_rules.World], LoggedFailure]
_OWN_RULES = (
    ("NodeUnschedulable", rules.node_unschedulable),
    ("NodeName", rules.node_name),
    ("TaintToleration", rules.taint_toleration),
)
_STORAGE_RULES: tuple[tuple[str, _Problem, _NodeRule | None], ...] = (
    ("VolumeRestrictions", volume_rules.restrictions_problem, None),
    ("NodeVolumeLimits", volume_rules.limits_problem, volume_rules.limits),
    ("VolumeBinding", volume_binding_rules.binding_problem, volume_binding_rules.binding),
    ("VolumeZone", volume_rules.zone_problem, volume_rules.zone),
)

# A user's filter: a reason to reject the node, which preemption might lift.
PlaceRule = Callable[[Pod, Place], str | None]


@dataclass(frozen=True)
class Policy:
    """What a profile says; the defaults are kube-scheduler's."""

    weights: Mapping[str, int] = field(default_factory=lambda: dict(WEIGHTS))
    fit: NodeResourcesFitArgs = _FIT
    balanced: NodeResourcesBalancedAllocationArgs = _BALANCED
    affinity: NodeAffinityArgs = _AFFINITY
    hard_weight: int = 1
    ignores_existing: bool = False
    spread_defaults: Sequence[TopologySpreadConstraint] = spread_rules.SYSTEM
    filters: Mapping[str, PlaceRule] = field(default_factory=dict)
    """The user's own, in order, after all others."""
    scores: "Mapping[str, UserScore]" = field(default_factory=dict)
    """The user's own."""
    preempts: bool = True


@dataclass
class NaiveCluster:
    """A cluster as plain objects. Pods have their node's name, were it one that is not there."""

    storage: volume_rules.World = field(default_factory=volume_rules.World)
    """Nodes and pods, too."""
    namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)
    workloads: spread_rules.Workloads = field(default_factory=spread_rules.Workloads)
    nominated: dict[str, tuple[Pod, str]] = field(default_factory=dict)
    """By UID the pending pod and the node it is expected on."""
    budgets: dict[str, PodDisruptionBudget] = field(default_factory=dict)
    image_sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def nodes(self) -> dict[str, Node]:
        return self.storage.nodes

    @property
    def pods(self) -> dict[str, Pod]:
        return self.storage.pods

    def places(self) -> dict[str, Place]:
        """Nodes by name, with their pods."""
        there: dict[str, list[Pod]] = {name: [] for name in self.nodes}
        for pod in self.pods.values():
            if pod.spec.node_name in there:
                there[pod.spec.node_name].append(pod)
        return {name: Place(node, tuple(there[name])) for name, node in self.nodes.items()}


# Final points of the feasible nodes.
UserScore = Callable[[Pod, Sequence[Place], NaiveCluster], Sequence[int]]


@dataclass
class Scene:
    """A pod before a cluster; perhaps with more pods at one node, or with some of its pods gone."""

    pod: Pod
    cluster: NaiveCluster
    policy: Policy
    at: str = ""
    extra: Sequence[Pod] = ()
    gone: frozenset[str] = frozenset()
    """UIDs of pods at the node."""
    before: "Scene | None" = None
    """The cluster as it is, if this one is thought to differ."""

    def but(self, at: str, extra: Sequence[Pod] = (), gone: frozenset[str] = frozenset()) -> "Scene":
        """The same with one node changed."""
        return Scene(self.pod, self.cluster, self.policy, at, extra, gone, self)

    @cached_property
    def places(self) -> dict[str, Place]:
        if self.before is None:
            return self.cluster.places()
        place = self.before.places[self.at]
        kept = tuple(pod for pod in place.pods if pod.metadata.uid not in self.gone)
        return {**self.before.places, self.at: Place(place.node, (*kept, *self.extra))}

    @cached_property
    def hard(self) -> list[spread_rules.Wanted]:
        return self._constraints("DoNotSchedule")

    @property
    def soft(self) -> list[spread_rules.Wanted]:
        return self._constraints("ScheduleAnyway")

    def _constraints(self, action: str) -> list[spread_rules.Wanted]:
        return spread_rules.wanted(self.pod, action, self.policy.spread_defaults, self.cluster.workloads)

    @cached_property
    def domains(self) -> spread_rules.Domains:
        """Pods by domain; who is thought to come or go counts by the selector alone."""
        if self.before is None:
            return spread_rules.pods_by_domain(self.pod, self.hard, self.places.values())
        place = self.before.places[self.at]
        gone = [pod for pod in place.pods if pod.metadata.uid in self.gone]
        fewer = spread_rules.moved(self.pod, self.hard, self.before.domains, place.node, gone, -1)
        return spread_rules.moved(self.pod, self.hard, fewer, place.node, self.extra, 1)

    @cached_property
    def pods(self) -> dict[str, Pod]:
        """All pods."""
        if self.before is None:
            return self.cluster.pods
        kept = {uid: pod for uid, pod in self.cluster.pods.items() if uid not in self.gone}
        return kept | {pod.metadata.uid: pod for pod in self.extra}

    @cached_property
    def world(self) -> pod_affinity.World:
        """As affinity sees it."""
        return pod_affinity.World(self.cluster.nodes, self.pods, self.cluster.namespaces)

    @cached_property
    def storage(self) -> volume_rules.World:
        """As the rules about volumes see it."""
        return replace(self.cluster.storage, pods=self.pods)

    def _restrictions(self, node: Node) -> LoggedFailure:
        """Claims in use are counted where the cluster is as it is; a pod that comes or goes counts by all that it
        names.

        PreFilter leaves nothing to judge where there are neither disks nor such claims.
        """
        base = (self.before or self).storage
        taken = volume_rules.claims_taken(self.pod, base)
        if not taken and not volume_rules.has_disks(self.pod):
            return None
        claims = volume_rules.exclusive_claims(self.pod, base)
        taken += sum(volume_rules.uses(other, claims) for other in self.extra)
        taken -= sum(volume_rules.uses(self.cluster.pods[uid], claims) for uid in self.gone)
        return volume_rules.disk_taken(self.pod, node, self.storage) or volume_rules.claim_taken(taken)

    @cached_property
    def others(self) -> pod_affinity.Neighbours:
        return pod_affinity.neighbours(self.pod, self.world)

    @property
    def asks_for_affinity(self) -> bool:
        """Whether PreFilter left InterPodAffinity anything to judge: it looked at the cluster as it is."""
        own = pod_affinity.required(pod_affinity.near(self.pod)) or pod_affinity.required(pod_affinity.far(self.pod))
        return bool(own) or (self.before or self).others.anybody_repels

    def objection(self, name: str) -> tuple[str, LoggedFailure]:
        """The first plugin that rejects the node, and what it says; no plugin where the node passes."""
        return next(
            ((plugin, reported) for plugin, reported in self._verdicts(name) if reported is not None), ("", None)
        )

    def _verdicts(self, name: str) -> Iterator[tuple[str, LoggedFailure]]:
        pod, place, policy = self.pod, self.places[name], self.policy
        for plugin, rule in _OWN_RULES:
            yield plugin, rule(pod, place)
        yield "NodeAffinity", rules.node_affinity(policy.affinity)(pod, place)
        yield "NodePorts", rules.node_ports(pod, place)
        yield "NodeResourcesFit", rules.node_resources_fit(policy.fit)(pod, place)
        for plugin, _, judge in _STORAGE_RULES if pod.spec.volumes else ():
            yield plugin, judge(pod, place.node, self.storage) if judge else self._restrictions(place.node)
        if self.hard:
            yield "PodTopologySpread", spread_rules.verdict(place.node, pod, self.hard, self.domains)
        if self.asks_for_affinity:
            yield "InterPodAffinity", pod_affinity.verdict_among(pod, place.node, self.others)
        for plugin, own in policy.filters.items():
            reason = own(pod, place)
            yield plugin, None if reason is None else (True, frozenset((reason,)))

    def with_nominated(self, name: str) -> tuple[str, LoggedFailure]:
        """With those whom it must leave room for, and without them."""
        expected = [pod for pod, node_name in self.cluster.nominated.values() if node_name == name and self._first(pod)]
        if expected:
            there = [placed(pod, name) for pod in expected]
            found = (self.before or self).but(name, (*self.extra, *there), self.gone).objection(name)
            if found[1] is not None:
                return found
        return self.objection(name)

    def _first(self, other: Pod) -> bool:
        is_another = other.metadata.uid != self.pod.metadata.uid
        return is_another and (other.spec.priority or 0) >= (self.pod.spec.priority or 0)


@dataclass(frozen=True)
class NaiveDecision:
    """What comes of it."""

    problem: str = ""
    """What is wrong with the whole pod, whatever the node."""
    verdicts: Mapping[str, tuple[str, LoggedFailure]] = field(default_factory=dict)
    """By node: who rejected it, and why."""
    feasible: Sequence[str] = ()
    points: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By plugin and feasible node, weighted; empty where there is nothing to choose between."""
    totals: Mapping[str, int] = field(default_factory=dict)
    node_name: str = ""


def decide(scene: Scene) -> NaiveDecision:
    """Judge, score and choose."""
    pod, cluster = scene.pod, scene.cluster
    problem = whole_pod_problem(scene)
    if problem:
        return NaiveDecision(problem)
    nominated = pod.status.nominated_node_name
    if nominated in cluster.nodes and scene.with_nominated(nominated)[1] is None:
        return NaiveDecision(feasible=[nominated], node_name=nominated)
    verdicts = {name: scene.with_nominated(name) for name in cluster.nodes}
    feasible = [name for name, (_, reported) in verdicts.items() if reported is None]
    if len(feasible) < 2:
        return NaiveDecision("", verdicts, feasible, node_name=feasible[0] if feasible else "")
    points = {
        plugin: {name: one * scene.policy.weights[plugin] for name, one in zip(feasible, its, strict=True)}
        for plugin, its in _points(scene, feasible).items()
    }
    totals = {name: sum(its[name] for its in points.values()) for name in feasible}
    best = [name for name in feasible if totals[name] == max(totals.values())]
    return NaiveDecision("", verdicts, feasible, points, totals, winner(pod, best))


def whole_pod_problem(scene: Scene) -> str:
    """What is wrong with the whole pod, whatever the node; empty if nothing is."""
    pod, storage = scene.pod, scene.cluster.storage
    if not pod.spec.volumes:
        return ""
    return next((reported for _, whole, _ in _STORAGE_RULES if (reported := whole(pod, storage))), "")


def placed(pod: Pod, name: str) -> Pod:
    """The pod as if it were on the node."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=name))


def winner(pod: Pod, names: Sequence[str]) -> str:
    """Among equals, the one with the highest lot."""
    return max(names, key=lambda name: (lot(pod.metadata.uid, name), name))


def _points(scene: Scene, feasible: Sequence[str]) -> dict[str, Sequence[int]]:
    """By plugin the normalised points of the feasible nodes; plugins that have nothing to say are left out."""
    pod, policy, places = scene.pod, scene.policy, scene.places
    here = [places[name] for name in feasible]
    affinity = scores.node_affinity(policy.affinity)
    points: dict[str, Sequence[int]] = {
        "TaintToleration": scores.scaled([scores.taint_toleration(pod, place) for place in here], reverse=True),
        "NodeAffinity": scores.scaled([affinity(pod, place) for place in here]),
        "NodeResourcesFit": _of_all(scores.node_resources_fit(policy.fit), pod, here),
        "ImageLocality": _of_all(
            scores.image_locality(scene.cluster.nodes.values(), scene.cluster.image_sizes), pod, here
        ),
        "InterPodAffinity": _affinity_points(scene, here),
    }
    if any(request_of(pod, one.name, running=True) for one in policy.balanced.resources):
        points["NodeResourcesBalancedAllocation"] = _of_all(scores.balanced_allocation(policy.balanced), pod, here)
    if scene.soft:
        points["PodTopologySpread"] = _spread_points(scene, feasible)
    for plugin, own in policy.scores.items():
        points[plugin] = own(pod, here, scene.cluster)
    return points


def _of_all(score: Score, pod: Pod, places: Sequence[Place]) -> list[int]:
    return [score(pod, place) for place in places]


def _affinity_points(scene: Scene, here: Sequence[Place]) -> list[int]:
    pod = scene.pod
    has_own = pod_affinity.preferred(pod_affinity.near(pod)) or pod_affinity.preferred(pod_affinity.far(pod))
    if scene.policy.ignores_existing and not has_own:
        return [0 for _ in here]
    found = list(pod_affinity.contributions(pod, scene.world, scene.policy.hard_weight))
    return pod_affinity.spread_out([pod_affinity.worth_of(place.node, found) for place in here])


def _spread_points(scene: Scene, feasible: Sequence[str]) -> list[int]:
    names = list(scene.places)
    numbered = dict(enumerate(scene.places.values()))
    is_system = scene.policy.spread_defaults is spread_rules.SYSTEM
    needs_keys = bool(scene.pod.spec.topology_spread_constraints) or not is_system
    rows = [names.index(name) for name in feasible]
    return spread_rules.normal_points(
        spread_rules.raw_points(scene.pod, scene.soft, numbered, rows, needs_keys=needs_keys)
    )


def lot(uid: str, name: str) -> int:
    """The mix of two stable hashes, as splitmix64 ends."""
    mixed = _hash(name) ^ _hash(uid)
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & _64_BITS
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & _64_BITS
    return mixed ^ (mixed >> 31)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
