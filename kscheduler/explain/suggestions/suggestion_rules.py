"""Which decisions are followed by suggestions."""

from collections.abc import Sequence
from dataclasses import replace

from kscheduler.api.core import Pod
from kscheduler.explain.outcome import Outcome, cycle_outcome
from kscheduler.explain.situation import NO_SITUATION, PodState, Situation
from kscheduler.explain.suggestions.all_kinds import KINDS
from kscheduler.explain.suggestions.search import suggestions
from kscheduler.explain.suggestions.search_time import SearchTime
from kscheduler.explain.suggestions.suggestion import Suggestion
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scenario.decide import Decision
from kscheduler.scenario.listed_kinds import listed_budgets
from kscheduler.scenario.owners import owners_in
from kscheduler.scenario.scenario import Scenario
from kscheduler.state.cache import Cache

_WITHOUT = (Outcome.PLACED, None)
_NEEDS_NO_NODE = (PodState.BOUND, PodState.FINISHED, PodState.TERMINATING)


def suggested(
    decision: Decision, situation: Situation = NO_SITUATION, time: SearchTime | None = None
) -> Sequence[Suggestion] | None:
    """The suggestions for a pod that has no node, the smallest first; `None` for any other."""
    if cycle_outcome(decision) in _WITHOUT or situation.pod_state in _NEEDS_NO_NODE:
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
    of_decision = (each for kind in KINDS for each in kind.of_decision(decision))
    return [*of_decision, *(_with_scenario(each, scenario) for each in found)]


def wants_devices(pod: Pod, cache: Cache) -> bool:
    """Whether the error may be one about claims: a selector that fails, more devices than a claim may have."""
    return bool(pod.spec.resource_claims) or cache.devices.serve(PodInfo(pod))


def _with_scenario(suggestion: Suggestion, scenario: Scenario) -> Suggestion:
    steps = (replace(step, facts=step.facts.with_scenario(scenario)) for step in suggestion.steps)
    return replace(suggestion, steps=tuple(steps))
