"""Which decisions are followed by suggestions."""

from collections.abc import Sequence

from kscheduler.explain.outcome import Outcome, cycle_outcome
from kscheduler.explain.situation import NO_SITUATION, Situation, Standing
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.whatif.budgets import listed_budgets
from kscheduler.whatif.decide import Decision
from kscheduler.whatif.suggestions.search import suggestions
from kscheduler.whatif.suggestions.suggestion import Suggestion

_WITHOUT = (Outcome.PLACED, Outcome.ERROR, None)
_OVER = (Standing.BOUND, Standing.FINISHED, Standing.TERMINATING)


def suggested(decision: Decision, situation: Situation = NO_SITUATION) -> Sequence[Suggestion] | None:
    """The suggestions for a pod that has no node, the smallest first; `None` for any other."""
    if cycle_outcome(decision) in _WITHOUT or situation.standing in _OVER:
        return None
    if decision.profile is None or decision.cache is None or not len(decision.cache.nodes):
        return None
    budgets = listed_budgets(decision.scenario.objects)
    return suggestions(decision.profile, PodInfo(decision.scenario.pod), decision.cache, budgets)
