"""PodTopologySpread for one pod, node by node, as plainly as it can be said: the executable specification."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kscheduler.api.core import LabelSelector, LabelSelectorRequirement, Node, Pod, TopologySpreadConstraint
from kscheduler.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from tests.specification.rules import LoggedFailure, Place, hopeless, term_matches, tolerated

Labels = Mapping[str, str]
# Whether labels match.
Test = Callable[[Labels], bool]

HOSTNAME = "kubernetes.io/hostname"
REASON = "node(s) didn't match pod topology spread constraints"
SYSTEM = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway"),
    TopologySpreadConstraint(
        max_skew=5, topology_key="topology.kubernetes.io/zone", when_unsatisfiable="ScheduleAnyway"
    ),
)


@dataclass
class Workloads:
    """What groups pods."""

    services: list[Service] = field(default_factory=list)
    owners: list[ReplicationController | ReplicaSet | StatefulSet] = field(default_factory=list)


@dataclass(frozen=True)
class Wanted:
    """A constraint with what it selects."""

    constraint: TopologySpreadConstraint
    tests: tuple[Test, ...]
    """All must match; none at all is the empty selector."""
    compares: bool = False
    """Whether tolerations may compare numbers."""
    counts_all: bool = False
    """Whether an empty selector counts all pods of the namespace."""

    @property
    def key(self) -> str:
        return self.constraint.topology_key

    def matches(self, labels: Labels) -> bool:
        return all(test(labels) for test in self.tests)

    def count(self, pod: Pod, place: Place) -> int:
        """Until 1.37 an empty selector counts nobody."""
        return sum(
            (bool(self.tests) or self.counts_all)
            and other.metadata.namespace == pod.metadata.namespace
            and other.metadata.deletion_timestamp is None
            and self.matches(other.metadata.labels)
            for other in place.pods
        )

    def includes(self, pod: Pod, node: Node) -> bool:
        """Whether the node's pods count, by the two policies."""
        if self.constraint.node_affinity_policy in (None, "Honor") and not _fits(pod, node):
            return False
        if self.constraint.node_taints_policy != "Honor":
            return True
        hard = [taint for taint in node.spec.taints if taint.effect in ("NoSchedule", "NoExecute")]
        return all(tolerated(taint, pod.spec.tolerations, compares=self.compares) for taint in hard)


def _fits(pod: Pod, node: Node) -> bool:
    if any(node.metadata.labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required is None or any(term_matches(term, node) for term in required.node_selector_terms)


# --- which constraints ------------------------------------------------------------------------------------------------


def wanted(
    pod: Pod,
    action: str,
    defaults: Iterable[TopologySpreadConstraint],
    workloads: Workloads,
    *,
    compares: bool = False,
    counts_all: bool = False,
) -> list[Wanted]:
    """The pod's constraints of this kind, or the default ones where it has none of any kind."""
    if pod.spec.topology_spread_constraints:
        own = (one for one in pod.spec.topology_spread_constraints if one.when_unsatisfiable == action)
        return [Wanted(one, _own_tests(one, pod.metadata.labels), compares, counts_all) for one in own]
    tests = _deduced_tests(pod, workloads)
    return [Wanted(one, tests, compares) for one in defaults if tests and one.when_unsatisfiable == action]


def _own_tests(constraint: TopologySpreadConstraint, labels: Labels) -> tuple[Test, ...]:
    if constraint.label_selector is None:
        return (lambda _: False,)
    own = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    return (*_tests(constraint.label_selector), *_equal(own))


def _tests(selector: LabelSelector) -> tuple[Test, ...]:
    return (*_equal(selector.match_labels), *(_holds(one) for one in selector.match_expressions))


def _equal(wanted_labels: Labels) -> tuple[Test, ...]:
    def has(key: str, value: str) -> Test:
        return lambda labels: labels.get(key) == value

    return tuple(has(key, value) for key, value in wanted_labels.items())


def _holds(one: LabelSelectorRequirement) -> Test:
    return {
        "In": lambda labels: labels.get(one.key) in one.values,
        "NotIn": lambda labels: labels.get(one.key) not in one.values,
        "Exists": lambda labels: one.key in labels,
        "DoesNotExist": lambda labels: one.key not in labels,
    }[one.operator]


def _deduced_tests(pod: Pod, workloads: Workloads) -> tuple[Test, ...]:
    labels: dict[str, str] = {}
    for service in workloads.services:
        queried = service.spec.selector
        if service.metadata.namespace == pod.metadata.namespace and queried.items() <= pod.metadata.labels.items():
            labels |= queried
    owner = _owner(pod, workloads)
    if isinstance(owner, ReplicationController):
        return _equal(labels | owner.spec.selector)
    selector = owner.spec.selector if owner is not None else None
    return (*_equal(labels), *(_tests(selector) if selector is not None else ()))


def _owner(pod: Pod, workloads: Workloads) -> ReplicationController | ReplicaSet | StatefulSet | None:
    for reference in pod.metadata.owner_references:
        if reference.controller:
            for one in workloads.owners:
                version = "v1" if isinstance(one, ReplicationController) else "apps/v1"
                kind = version, type(one).__name__, pod.metadata.namespace, reference.name
                if kind == (reference.api_version, reference.kind, one.metadata.namespace, one.metadata.name):
                    return one
            return None
    return None


# --- verdicts ---------------------------------------------------------------------------------------------------------


# Per constraint the pods by domain.
Domains = Sequence[Mapping[str, int]]


def verdicts(
    pod: Pod, constraints: Sequence[Wanted], places: Mapping[int, Place], added: Mapping[int, Sequence[Pod]]
) -> dict[int, LoggedFailure]:
    """Per row, with some more pods `added` on rows, as if they were there: these count by the selector alone."""
    domains = pods_by_domain(pod, constraints, list(places.values()))
    for row, pods in added.items():
        domains = moved(pod, constraints, domains, places[row].node, pods, 1)
    return {row: verdict(place.node, pod, constraints, domains) for row, place in places.items()}


def pods_by_domain(pod: Pod, constraints: Sequence[Wanted], places: Iterable[Place]) -> Domains:
    domains: list[dict[str, int]] = []
    counted = [place for place in places if _has_all_keys(place.node, constraints)]
    for one in constraints:
        domain: dict[str, int] = {}
        for place in counted:
            if one.includes(pod, place.node):
                value = place.node.metadata.labels[one.key]
                domain[value] = domain.get(value, 0) + one.count(pod, place)
        domains.append(domain)
    return domains


def moved(
    pod: Pod, constraints: Sequence[Wanted], domains: Domains, node: Node, others: Iterable[Pod], by: int
) -> Domains:
    """As if others came to a node, or went: they count by the selector alone, were they terminating."""
    near = [other for other in others if other.metadata.namespace == pod.metadata.namespace]
    found = [dict(domain) for domain in domains]
    for one, domain in zip(constraints, found, strict=True):
        if _has_all_keys(node, constraints) and one.includes(pod, node):
            domain[node.metadata.labels[one.key]] += by * sum(one.matches(other.metadata.labels) for other in near)
    return found


def _has_all_keys(node: Node, constraints: Iterable[Wanted]) -> bool:
    return all(one.key in node.metadata.labels for one in constraints)


def verdict(node: Node, pod: Pod, constraints: Sequence[Wanted], domains: Domains) -> LoggedFailure:
    """Of one node."""
    for one, domain in zip(constraints, domains, strict=True):
        if one.key not in node.metadata.labels:
            return hopeless(f"{REASON} (missing required label)")
        is_enough = len(domain) >= (one.constraint.min_domains or 1)
        least = min(domain.values()) if domain and is_enough else 0
        here = domain.get(node.metadata.labels[one.key], 0) + one.matches(pod.metadata.labels)
        if here - least > one.constraint.max_skew:
            return True, frozenset((REASON,))
    return None


# --- points -----------------------------------------------------------------------------------------------------------


def raw_points(
    pod: Pod, constraints: Sequence[Wanted], places: Mapping[int, Place], feasible: Sequence[int], *, needs_keys: bool
) -> list[int | None]:
    """Per feasible row; `None` for a row that is ignored because it lacks a key."""

    def has_keys(place: Place) -> bool:
        return not needs_keys or _has_all_keys(place.node, constraints)

    scored = [places[row] for row in feasible if has_keys(places[row])]
    totals = dict.fromkeys(feasible, 0.0)
    for one in constraints:
        counted = [place for place in places.values() if has_keys(place) and one.includes(pod, place.node)]
        worth = _worth(pod, one, counted, scored)
        for row in feasible:
            if one.key in places[row].node.metadata.labels:
                totals[row] += worth(places[row])
    rounded = {row: int(total) + (total - int(total) >= 0.5) for row, total in totals.items()}
    return [rounded[row] if has_keys(places[row]) else None for row in feasible]


def _worth(pod: Pod, one: Wanted, counted: Iterable[Place], scored: Sequence[Place]) -> Callable[[Place], float]:
    """The more pods in a place's domain, the larger."""

    def value(other: Place) -> str:
        return other.node.metadata.labels.get(one.key, "")

    if one.key == HOSTNAME:
        return lambda place: one.count(pod, place) * math.log(len(scored) + 2) + float(one.constraint.max_skew - 1)
    size = len({value(other) for other in scored})
    pods: dict[str, int] = {}
    for other in counted:
        pods[value(other)] = pods.get(value(other), 0) + one.count(pod, other)
    return lambda place: pods.get(value(place), 0) * math.log(size + 2) + float(one.constraint.max_skew - 1)


def normal_points(raw: Sequence[int | None]) -> list[int]:
    """The fewest are the best; ignored rows get nothing."""
    known = [one for one in raw if one is not None]
    least, most = min(known, default=0), max(known, default=0)
    if most == 0:
        return [0 if one is None else 100 for one in raw]
    return [0 if one is None else 100 * (most + least - one) // most for one in raw]
