"""Preemption for one pod, node by node and pod by pod, as plainly as it can be said: the executable specification."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import msgspec

from kscheduler.api.core import Node, Pod
from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.api.releases import BEHAVIOURS, VERSION, Behaviours
from kscheduler.config.plugin_args import NodeResourcesFitArgs
from tests.specification import pod_affinity, rules
from tests.specification.rules import LoggedFailure, Place
from tests.specification.spread import rules as spread_rules

HELPLESS = "Preemption is not helpful for scheduling"
NO_LISTENER = "No preemption victims found for incoming pod"
# Of Go's nanoseconds, in the year 2262.
LAST_MOMENT = (2**63 - 1) / 1e9
FIT = rules.node_resources_fit(NodeResourcesFitArgs())


@dataclass(frozen=True)
class World:
    """A cluster. Pods have their node's name."""

    nodes: dict[str, Node] = field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    nominated: tuple[Pod, ...] = ()
    """Pending pods whose status names a node."""
    budgets: tuple[PodDisruptionBudget, ...] = ()
    behaviours: Behaviours = BEHAVIOURS[VERSION]

    def on(self, name: str) -> list[Pod]:
        return [pod for pod in self.pods if pod.spec.node_name == name]

    def with_pod(self, pod: Pod) -> "World":
        return replace(self, pods=(*self.pods, pod))

    def without(self, gone: Sequence[Pod]) -> "World":
        uids = {pod.metadata.uid for pod in gone}
        return replace(self, pods=tuple(pod for pod in self.pods if pod.metadata.uid not in uids))


@dataclass(frozen=True)
class Outcome:
    """A node where a preemption makes room."""

    victims: tuple[Pod, ...]
    broken: int


def priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def started(pod: Pod) -> float:
    text = pod.status.start_time
    return datetime.fromisoformat(text).timestamp() if text else LAST_MOMENT


def importance(pod: Pod) -> tuple[int, float, str]:
    """Smallest first: the most important."""
    return -priority(pod), started(pod), pod.metadata.uid


# --- does it fit? -----------------------------------------------------------------------------------------------------


def verdict(pod: Pod, name: str, world: World) -> LoggedFailure:
    """What the first rule that objects says."""
    place = Place(world.nodes[name], tuple(world.on(name)))
    for rule in (rules.node_unschedulable, rules.node_ports, FIT):
        found = rule(pod, place)
        if found is not None:
            return found
    counts_all = world.behaviours.empty_selectors_count_all_pods
    constraints = spread_rules.wanted(pod, "DoNotSchedule", (), spread_rules.Workloads(), counts_all=counts_all)
    if constraints:
        places = {at: Place(node, tuple(world.on(one))) for at, (one, node) in enumerate(world.nodes.items())}
        found = spread_rules.verdicts(pod, constraints, places, {})[list(world.nodes).index(name)]
        if found is not None:
            return found
    neighbours = pod_affinity.World(world.nodes, {one.metadata.uid: one for one in world.pods}, {"default": {}})
    return pod_affinity.verdict(pod, world.nodes[name], neighbours)


def verdict_beside_nominated(pod: Pod, name: str, world: World) -> LoggedFailure:
    """With the nominated pods it must leave room for, and without them."""
    crowded = world
    for one in world.nominated:
        if one.status.nominated_node_name == name and priority(one) >= priority(pod):
            spec = msgspec.structs.replace(one.spec, node_name=name)
            crowded = crowded.with_pod(Pod(metadata=one.metadata, spec=spec, status=one.status))
    first = verdict(pod, name, crowded)
    return first if first is not None or crowded is world else verdict(pod, name, world)


# --- victims ----------------------------------------------------------------------------------------------------------


def outcome(pod: Pod, name: str, world: World) -> Outcome | LoggedFailure:
    """The victims on a node, or why no eviction there helps."""
    lower = sorted((one for one in world.on(name) if priority(one) < priority(pod)), key=importance)
    if not lower:
        return False, frozenset((NO_LISTENER,))
    kept = world.without(lower)
    objection = verdict_beside_nominated(pod, name, kept)
    if objection is not None:
        return objection
    broken = breaking(lower, world.budgets, world.behaviours)
    victims = []
    for one in (*broken, *(one for one in lower if one not in broken)):
        if verdict_beside_nominated(pod, name, kept.with_pod(one)) is None:
            kept = kept.with_pod(one)
        else:
            victims.append(one)
    return Outcome(tuple(sorted(victims, key=importance)), sum(one in broken for one in victims))


def breaking(
    pods: Sequence[Pod], budgets: Sequence[PodDisruptionBudget], behaviours: Behaviours = BEHAVIOURS[VERSION]
) -> list[Pod]:
    """Those who find a budget of theirs spent; who comes earlier has taken from it."""
    left = {id(budget): budget.status.disruptions_allowed for budget in budgets}
    broken: list[Pod] = []
    for pod in pods:
        for budget in budgets:
            if not protects(budget, pod, by_selector_alone=behaviours.budgets_match_by_selector_alone):
                continue
            left[id(budget)] -= 1
            if left[id(budget)] < 0 and pod not in broken:
                broken.append(pod)
            if pod in broken and behaviours.budgets_stop_at_the_first_broken:
                break
    return broken


def protects(budget: PodDisruptionBudget, pod: Pod, *, by_selector_alone: bool) -> bool:
    """`by_selector_alone`: an empty selector selects all pods, and a pod needs no labels."""
    selector = budget.spec.selector
    if selector is None:
        return False
    if not by_selector_alone and not ((selector.match_labels or selector.match_expressions) and pod.metadata.labels):
        return False
    if budget.metadata.namespace != pod.metadata.namespace or pod.metadata.name in budget.status.disrupted_pods:
        return False
    return pod_affinity.selects(selector, pod.metadata.labels)


# --- the whole --------------------------------------------------------------------------------------------------------


def candidates(pod: Pod, world: World) -> tuple[dict[str, Outcome], str]:
    """Every node where a preemption makes room, and the message where there is none."""
    found: dict[str, Outcome] = {}
    reasons: Counter[str] = Counter()
    for name in world.nodes:
        objection = verdict_beside_nominated(pod, name, world)
        if objection is None or not objection[0]:
            reasons[HELPLESS] += 1
            continue
        one = outcome(pod, name, world)
        if isinstance(one, Outcome):
            found[name] = one
        else:
            reasons.update(one[1] if one is not None else ())
    histogram = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return found, f"0/{len(world.nodes)} nodes are available: {histogram}."


def best(found: dict[str, Outcome]) -> set[str]:
    """The nodes where it hurts least: several, if they tie in everything."""
    least = min(map(pain, found.values()))
    return {name for name, one in found.items() if pain(one) == least}


def pain(one: Outcome) -> tuple[float, ...]:
    highest = priority(one.victims[0])
    oldest = min(started(pod) for pod in one.victims if priority(pod) == highest)
    total = sum(priority(pod) + 2**31 for pod in one.victims)
    return one.broken, highest, total, len(one.victims), -oldest
