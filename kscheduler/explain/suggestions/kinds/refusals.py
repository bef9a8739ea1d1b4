"""A plugin of one's own, or an extender, that says no where the rules of Kubernetes would find a node.

No object changes that, so there is nothing to apply: the suggestion names whom to ask, and what was said.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from kscheduler.explain.extenders import extender_roles
from kscheduler.explain.suggestions.suggestion import Step, Suggestion, SuggestionKind
from kscheduler.explain.suggestions.trials import Trials, without_plugins
from kscheduler.framework.status import Code
from kscheduler.scenario.decide import Decision
from kscheduler.scheduling.cycle.schedule import find_feasible
from kscheduler.scheduling.profile import Profile

_MAX_MESSAGES: Final = 3


class AskPluginOwner(SuggestionKind, frozen=True):
    """A plugin that is not in-tree, and without which the pod fits."""

    kind = "plugin"
    is_far = True
    by_kubectl = False

    plugin: str
    messages: Sequence[str]

    @classmethod
    def found(cls, trials: Trials) -> Iterator[Suggestion]:
        profile = trials.profile
        points: Sequence[Sequence[Any]] = (profile.pre_enqueue, profile.pre_filter, profile.filter)
        names = dict.fromkeys(plugin.name for plugins in points for plugin in plugins)
        for name in (name for name in names if not profile.traits[name].is_in_tree):
            rows = trials.rows_without((name,), trials.pod)
            if len(rows):
                yield Suggestion((Step(cls(name, _messages(trials, name)), (), 1.0),), (), len(rows))

    def without_plugins(self, profile: Profile) -> Profile:
        return without_plugins(profile, (self.plugin,))

    def text(self, step: Step) -> str:
        asked = f"ask the owner of plugin {self.plugin}, which is the only one that rejects it"
        return f"{asked}: {_joined(self.messages)}"


class AskExtenderOwner(SuggestionKind, frozen=True):
    """The last extender that rejected nodes: those before it and the plugins had left these.

    An extender before it may be in the way, too, but later extenders were not asked about its nodes.
    """

    kind = "extender"
    is_far = True
    by_kubectl = False

    extender: str
    rejected_nodes: int = msgspec.field(name="turnedDown")
    messages: Sequence[str]
    not_asked: Sequence[str]

    @classmethod
    def of_decision(cls, decision: Decision) -> Iterator[Suggestion]:
        results = decision.extender_results
        if results is None or decision.record is None or len(decision.record.feasible):
            return
        filtering = [role for role in extender_roles(decision) if "filter" in role.verbs]
        last = next((role.url for role in reversed(filtering) if role.rejected), "")
        nodes = [node for node, extender in results.rejected_by.items() if extender == last]
        if nodes:
            messages = dict.fromkeys(results.rejected[node].message for node in nodes if node in results.rejected)
            unasked = [role.url for role in filtering if not role.was_queried]
            facts = cls(last, len(nodes), list(messages)[:_MAX_MESSAGES], unasked)
            yield Suggestion((Step(facts, (), 1.0),), (), len(nodes))

    def text(self, step: Step) -> str:
        nodes = "1 node" if self.rejected_nodes == 1 else f"{self.rejected_nodes} nodes"
        unasked = f"; {', '.join(self.not_asked)} was not asked yet" if self.not_asked else ""
        rejected = f"ask the owner of extender {self.extender}, which rejected the last {nodes}"
        return f"{rejected}: {_joined(self.messages)}{unasked}"


def _joined(messages: Sequence[str]) -> str:
    return "; ".join(filter(None, messages)) or "it gives no reason"


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
    return sorted(counts, key=lambda message: (-counts[message], message))[:_MAX_MESSAGES]
