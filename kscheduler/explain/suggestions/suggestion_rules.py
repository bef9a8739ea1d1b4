"""Which decisions are followed by suggestions."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kscheduler.api.core import Pod
from kscheduler.explain.extenders import extender_roles
from kscheduler.explain.outcome import Outcome, cycle_outcome
from kscheduler.explain.situation import NO_SITUATION, PodState, Situation
from kscheduler.explain.suggestions.search import suggestions
from kscheduler.explain.suggestions.search_time import SearchTime
from kscheduler.explain.suggestions.suggestion import ChangeKind, Step, Suggestion
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scenario.decide import Decision
from kscheduler.scenario.listed_kinds import listed_budgets
from kscheduler.scenario.owners import owners_in
from kscheduler.state.cache import Cache

_WITHOUT = (Outcome.PLACED, None)
_OVER = (PodState.BOUND, PodState.FINISHED, PodState.TERMINATING)
_MOST_MESSAGES = 3


def suggested(
    decision: Decision, situation: Situation = NO_SITUATION, time: SearchTime | None = None
) -> Sequence[Suggestion] | None:
    """The suggestions for a pod that has no node, the smallest first; `None` for any other."""
    if cycle_outcome(decision) in _WITHOUT or situation.pod_state in _OVER:
        return None
    if decision.profile is None or decision.cache is None or not len(decision.cache.nodes):
        return None
    if decision.error and not wants_devices(decision.scenario.pod, decision.cache):
        return None  # a plugin has failed: no change of objects is known to help
    budgets = listed_budgets(decision.scenario.objects)
    scenario = decision.scenario
    pod = PodInfo(scenario.pod)
    owners = owners_in(scenario.objects.replicasets)
    found = suggestions(decision.profile, pod, decision.cache, budgets, scenario.claim_templates, owners, time)
    return [*_of_extenders(decision), *(_with_owners(each, scenario.gate_owners) for each in found)]


def wants_devices(pod: Pod, cache: Cache) -> bool:
    """Whether the error may be one about claims: a selector that fails, more devices than a claim may have."""
    return bool(pod.spec.resource_claims) or cache.devices.serve(PodInfo(pod))


def _of_extenders(decision: Decision) -> Iterator[Suggestion]:
    """The last extender that rejected nodes: those before it and the plugins had left these. No object changes that.

    An extender before it may be in the way, too, but what the later ones think of its nodes nobody has asked them.
    """
    answers = decision.answers
    if answers is None or decision.record is None or len(decision.record.feasible):
        return
    filtering = [role for role in extender_roles(decision) if "filter" in role.verbs]
    last = next((role.url for role in reversed(filtering) if role.rejected), "")
    nodes = [node for node, extender in answers.rejected_by.items() if extender == last]
    if nodes:
        messages = dict.fromkeys(answers.rejected[node].message for node in nodes if node in answers.rejected)
        unasked = [role.url for role in filtering if not role.was_queried]
        facts = {"extender": last, "turnedDown": len(nodes), "messages": list(messages)[:_MOST_MESSAGES]}
        step = Step(ChangeKind.EXTENDER, (), 1.0, {**facts, "notAsked": unasked})
        yield Suggestion((step,), (), len(nodes))


def _with_owners(suggestion: Suggestion, owners: Sequence[str]) -> Suggestion:
    """The suggestion with who has set the gates that would have to go."""
    if not owners or all(step.kind is not ChangeKind.GATE for step in suggestion.steps):
        return suggestion
    steps = (
        replace(step, facts={**step.facts, "owners": list(owners)}) if step.kind is ChangeKind.GATE else step
        for step in suggestion.steps
    )
    return replace(suggestion, steps=tuple(steps))
