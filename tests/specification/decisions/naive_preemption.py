"""Preemption by the specification, under every rule of a profile: whom to evict where, and the choice.

The order of importance, budgets and what hurts least are those of `preemption_rules`; whether the pod would fit is
asked of a `Scene` in which the victims are gone.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kscheduler.api.core import Pod
from tests.specification.decisions.naive_decisions import Scene, winner
from tests.specification.preemption_rules import HELPLESS, NO_LISTENER, Outcome, best, breaking, importance, priority
from tests.specification.rules import LoggedFailure

Verdicts = Mapping[str, tuple[str, LoggedFailure]]


@dataclass(frozen=True)
class NaivePreemption:
    """Where room can be made; `chosen` is empty where nowhere."""

    found: Mapping[str, Outcome] = field(default_factory=dict)
    chosen: str = ""
    message: str = ""
    """Why nowhere."""


def preempt(scene: Scene, verdicts: Verdicts, expected_on: str) -> NaivePreemption:
    """For a pod that fits nowhere; `expected_on` is the node that it is nominated to already, or empty."""
    pod, names = scene.pod, list(scene.cluster.nodes)
    potential = [name for name in names if (reported := verdicts.get(name, ("", None))[1]) is not None and reported[0]]
    if pod.spec.preemption_policy == "Never":
        return NaivePreemption(message="not eligible due to preemptionPolicy=Never.")
    if expected_on in potential and any(_goes_for(pod, other) for other in scene.places[expected_on].pods):
        return NaivePreemption(message="not eligible due to a terminating pod on the nominated node.")
    found: dict[str, Outcome] = {}
    reasons: Counter[str] = Counter({HELPLESS: len(names) - len(potential)})
    for name in potential:
        one = outcome(scene, name)
        if isinstance(one, Outcome):
            found[name] = one
        else:
            reasons.update(one[1] if one is not None else ())
    if found:
        return NaivePreemption(found, winner(pod, sorted(best(found))))
    histogram = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items() if count))
    return NaivePreemption(message=f"0/{len(names)} nodes are available: {histogram}.")


def outcome(scene: Scene, name: str) -> Outcome | LoggedFailure:
    """The victims on a node, or why no eviction there helps."""
    pod = scene.pod
    lower = sorted((one for one in scene.places[name].pods if priority(one) < priority(pod)), key=importance)
    if not lower:
        return False, frozenset((NO_LISTENER,))
    gone = frozenset(one.metadata.uid for one in lower)
    objection = scene.but(name, gone=gone).with_nominated(name)[1]
    if objection is not None:
        return objection
    broken = breaking(lower, [one for _, one in sorted(scene.cluster.budgets.items())])
    for one in (*broken, *(one for one in lower if one not in broken)):
        fewer = gone - {one.metadata.uid}
        if scene.but(name, gone=fewer).with_nominated(name)[1] is None:
            gone = fewer
    victims = [one for one in lower if one.metadata.uid in gone]
    return Outcome(tuple(victims), sum(one in broken for one in victims))


def _goes_for(pod: Pod, other: Pod) -> bool:
    """Whether somebody less important is on the way out for a preemptor."""
    if priority(other) >= priority(pod) or other.metadata.deletion_timestamp is None:
        return False
    conditions = [one for one in other.status.conditions if one.type == "DisruptionTarget"]
    return any(one.status == "True" and one.reason == "PreemptionByScheduler" for one in conditions[:1])
