"""A plugin of one's own that says no: the rules of Kubernetes would find a node, so it is the one to ask.

No object changes that, so there is nothing to apply: the suggestion names the plugin and what it said.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from kscheduler.framework.plugin import Plugin
from kscheduler.scheduling.cycle.schedule import find_feasible
from kscheduler.whatif.suggestions.suggestion import ChangeKind, Step, Suggestion
from kscheduler.whatif.suggestions.trial import Trials
from kscheduler.whatif.suggestions.without_plugin import without_plugin

_MOST_MESSAGES: Final = 3


def refusals(trials: Trials) -> Iterator[Suggestion]:
    """Each plugin that is not in-tree, and without which the pod fits."""
    profile = trials.profile
    points: Sequence[Plugin] = (*profile.pre_enqueue, *profile.pre_filter, *profile.filter)
    for name in dict.fromkeys(plugin.name for plugin in points if not profile.traits[plugin.name].is_in_tree):
        rows = Trials(without_plugin(profile, name), trials.pod, trials.cache).rows_of(trials.pod)
        if len(rows):
            facts = {"plugin": name, "messages": _messages(trials, name)}
            yield Suggestion((Step(ChangeKind.PLUGIN, (), 1.0, facts),), (), len(rows))


def _messages(trials: Trials, name: str) -> list[str]:
    """What it said, most nodes first."""
    gate = trials.profile.run_pre_enqueue(trials.pod)
    if gate.is_rejected:
        return [gate.message]
    diagnosis = find_feasible(trials.profile, trials.pod, trials.cache).diagnosis
    if diagnosis.pre_filter.is_rejected:
        return [diagnosis.pre_filter.message]
    counts: dict[str, int] = {}
    for _, status in diagnosis.by_node():
        if status.plugin == name:
            counts[status.message] = counts.get(status.message, 0) + 1
    return sorted(counts, key=lambda message: (-counts[message], message))[:_MOST_MESSAGES]
