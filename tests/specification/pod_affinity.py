"""InterPodAffinity for one pod and one node, by walks over all pods: the executable specification."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kscheduler.api.core import LabelSelector, Node, Pod, PodAffinity, PodAffinityTerm
from tests.specification.rules import LoggedFailure

Labels = Mapping[str, str]


@dataclass
class World:
    """Nodes by name, all pods, and the labels of the namespaces that are known."""

    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    namespaces: dict[str, Labels] = field(default_factory=dict)

    def placed(self) -> Iterator[tuple[Pod, Labels]]:
        """The pods on nodes that are there, with those nodes' labels."""
        for pod in self.pods.values():
            if pod.spec.node_name in self.nodes:
                yield pod, self.nodes[pod.spec.node_name].metadata.labels

    def wants(self, holder: Pod, term: PodAffinityTerm, other: Pod) -> bool:
        """Whether a term of the pod that is to be placed means another pod."""
        return self._means(holder, term, other, self.namespaces.get(other.metadata.namespace))

    def meets(self, holder: Pod, term: PodAffinityTerm, newcomer: Pod) -> bool:
        """Whether a term of a pod that is there means the one to be placed: an unknown namespace has no labels then."""
        return self._means(holder, term, newcomer, self.namespaces.get(newcomer.metadata.namespace, {}))

    def _means(self, holder: Pod, term: PodAffinityTerm, other: Pod, of_namespace: Labels | None) -> bool:
        names: Sequence[str] = term.namespaces
        if not names and term.namespace_selector is None:
            names = (holder.metadata.namespace,)
        by_selector = term.namespace_selector is not None and (
            term.namespace_selector == LabelSelector()
            or (of_namespace is not None and selects(term.namespace_selector, of_namespace))
        )
        in_namespace = other.metadata.namespace in names or by_selector
        return in_namespace and term.label_selector is not None and selects(term.label_selector, other.metadata.labels)


def selects(selector: LabelSelector, labels: Labels) -> bool:
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    for one in selector.match_expressions:
        value_there = labels.get(one.key)
        holds = {
            "In": value_there in one.values,
            "NotIn": value_there not in one.values,
            "Exists": value_there is not None,
            "DoesNotExist": value_there is None,
        }
        if not holds[one.operator]:
            return False
    return True


def near(pod: Pod) -> PodAffinity:
    return (pod.spec.affinity and pod.spec.affinity.pod_affinity) or PodAffinity()


def far(pod: Pod) -> PodAffinity:
    return (pod.spec.affinity and pod.spec.affinity.pod_anti_affinity) or PodAffinity()


def required(affinity: PodAffinity) -> Sequence[PodAffinityTerm]:
    return affinity.required_during_scheduling_ignored_during_execution


def preferred(affinity: PodAffinity) -> Sequence[tuple[PodAffinityTerm, int]]:
    weighted = affinity.preferred_during_scheduling_ignored_during_execution
    return [(one.pod_affinity_term, one.weight) for one in weighted]


def same_domain(key: str, one: Labels, other: Labels) -> bool:
    return key in one and key in other and one[key] == other[key]


@dataclass(frozen=True)
class Neighbours:
    """Who matters to a pod: topology keys, and the labels of the nodes where they are."""

    friends: list[Labels]
    """Where pods are that all of its required affinity means."""
    avoided: list[tuple[str, Labels]]
    """By its required anti-affinity."""
    repelling: list[tuple[str, Labels]]
    """By theirs."""
    is_a_friend: bool
    """Whether the pod itself is what it wants to be near."""

    @property
    def anybody_repels(self) -> bool:
        return any(key in there for key, there in self.repelling)


def neighbours(pod: Pod, world: World) -> Neighbours:
    """A walk over all pods."""
    wanted, unwanted, placed = required(near(pod)), required(far(pod)), list(world.placed())
    return Neighbours(
        [there for other, there in placed if wanted and all(world.wants(pod, term, other) for term in wanted)],
        [(term.topology_key, there) for other, there in placed for term in unwanted if world.wants(pod, term, other)],
        [
            (term.topology_key, there)
            for other, there in placed
            for term in required(far(other))
            if world.meets(other, term, pod)
        ],
        bool(wanted) and all(world.wants(pod, term, pod) for term in wanted),
    )


def verdict(pod: Pod, node: Node, world: World) -> LoggedFailure:
    """May the pod come to the node?"""
    return verdict_among(pod, node, neighbours(pod, world))


def verdict_among(pod: Pod, node: Node, others: Neighbours) -> LoggedFailure:
    """The same with those who matter found already."""
    here = node.metadata.labels
    if not _affinity_holds(pod, here, others):
        return False, frozenset(("node(s) didn't match pod affinity rules",))
    if any(same_domain(key, here, there) for key, there in others.avoided):
        return True, frozenset(("node(s) didn't match pod anti-affinity rules",))
    if any(same_domain(key, here, there) for key, there in others.repelling):
        return True, frozenset(("node(s) didn't satisfy existing pods anti-affinity rules",))
    return None


def _affinity_holds(pod: Pod, here: Labels, others: Neighbours) -> bool:
    terms = required(near(pod))
    if not terms:
        return True
    if any(term.topology_key not in here for term in terms):
        return False
    if all(any(same_domain(term.topology_key, here, there) for there in others.friends) for term in terms):
        return True
    somebody_is_in_a_domain = any(term.topology_key in there for there in others.friends for term in terms)
    return not somebody_is_in_a_domain and others.is_a_friend


def points(pod: Pod, node: Node, world: World, hard_weight: int) -> int:
    """What the node's neighbourhood is worth."""
    return worth_of(node, contributions(pod, world, hard_weight))


def worth_of(node: Node, found: Iterable[tuple[str, Labels, int]]) -> int:
    """The same with the contributions found already."""
    here = node.metadata.labels
    return sum(worth for key, there, worth in found if same_domain(key, here, there))


def contributions(pod: Pod, world: World, hard_weight: int) -> Iterator[tuple[str, Labels, int]]:
    """Topology key, labels of the other pod's node, and what it is worth to be in the same domain."""
    for other, there in world.placed():
        yield from (
            (term.topology_key, there, worth) for term, worth in preferred(near(pod)) if world.wants(pod, term, other)
        )
        yield from (
            (term.topology_key, there, -worth) for term, worth in preferred(far(pod)) if world.wants(pod, term, other)
        )
        its_wishes = [*preferred(near(other)), *((term, -worth) for term, worth in preferred(far(other)))]
        if hard_weight > 0:
            its_wishes.extend((term, hard_weight) for term in required(near(other)))
        yield from ((term.topology_key, there, worth) for term, worth in its_wishes if world.meets(other, term, pod))


def anybody_counts(pod: Pod, world: World, hard_weight: int) -> bool:
    """Whether any domain gets points, were they to cancel out."""
    return any(key in there for key, there, _ in contributions(pod, world, hard_weight))


def spread_out(raw: Sequence[int]) -> list[int]:
    """From the lowest to the highest as 0 to 100, in double precision and cut off."""
    span = max(raw) - min(raw)
    return [int(100.0 * (float(one - min(raw)) / float(span))) if span else 0 for one in raw]
