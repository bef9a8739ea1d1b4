"""Demands that were given up, as a suggestion."""

from kscheduler.explain.suggestions.changed import joined
from kscheduler.explain.suggestions.pod_changes.demand import Demand
from kscheduler.explain.suggestions.suggestion import Step, Suggestion
from kscheduler.explain.suggestions.trials.trial import Trials
from kscheduler.framework.nodes.node_table import Rows


def of_demands(chosen: tuple[Demand, ...], rows: Rows, trials: Trials) -> Suggestion:
    """The suggestion, with one patch of the pod."""
    whole = trials.of_pod(joined(demand.patch for demand in chosen))
    return Suggestion(tuple(step_of(demand, trials) for demand in chosen), (whole,), len(rows))


def step_of(demand: Demand, trials: Trials) -> Step:
    """One of several steps."""
    changes = (trials.of_pod(demand.patch),)
    return Step(demand.kind, changes, demand.size, demand.facts, comes_last=demand.comes_last, harm=demand.harm)
