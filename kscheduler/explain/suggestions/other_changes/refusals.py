"""A plugin of one's own that says no: the rules of Kubernetes would find a node, so it is the one to ask.

No object changes that, so there is nothing to apply: the suggestion names the plugin and what it said.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kscheduler.explain.suggestions.suggestion import ChangeKind, Step, Suggestion
from kscheduler.explain.suggestions.trials.trial import Trials
from kscheduler.framework.status import Code
from kscheduler.scheduling.cycle.schedule import find_feasible

_MOST_MESSAGES: Final = 3


def refusals(trials: Trials) -> Iterator[Suggestion]:
    """Each plugin that is not in-tree, and without which the pod fits."""
    profile = trials.profile
    points: Sequence[Sequence[Any]] = (profile.pre_enqueue, profile.pre_filter, profile.filter)
    names = dict.fromkeys(plugin.name for plugins in points for plugin in plugins)
    for name in (name for name in names if not profile.traits[name].is_in_tree):
        rows = trials.rows_without((name,), trials.pod)
        if len(rows):
            facts = {"plugin": name, "messages": _messages(trials, name)}
            yield Suggestion((Step(ChangeKind.PLUGIN, (), 1.0, facts),), (), len(rows))


def _messages(trials: Trials, name: str) -> list[str]:
    """What it said, most nodes first."""
    gate = trials.profile.run_pre_enqueue(trials.pod)
    if gate.is_rejected:
        return [gate.message]
    record = find_feasible(trials.profile, trials.pod, trials.cache)
    if record.status.code is Code.ERROR:
        return [record.status.message]  # it has failed, and said nothing of nodes
    diagnosis = record.diagnosis
    if diagnosis.pre_filter.is_rejected:
        return [diagnosis.pre_filter.message]
    counts: dict[str, int] = {}
    for _, status in diagnosis.by_node():
        if status.plugin == name:
            counts[status.message] = counts.get(status.message, 0) + 1
    return sorted(counts, key=lambda message: (-counts[message], message))[:_MOST_MESSAGES]
