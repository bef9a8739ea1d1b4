"""The search: what helps alone, each made as small as it may be; where nothing does, or only to request nothing, pairs.

A pod asks for a dozen things, and one cycle judges 5,000 nodes in about a millisecond, so each change that can help is
simply tried (`objections` says which cannot): what is found is all there is, and what is shown has been tried.
"""

from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Final

from kscheduler.explain.suggestions.other_changes.claims import all_elsewhere, claim_changes
from kscheduler.explain.suggestions.other_changes.device_claims import (
    ClaimTemplates,
    claims_made_again,
    device_changes,
)
from kscheduler.explain.suggestions.other_changes.device_supply import pool_updates, rule_changes
from kscheduler.explain.suggestions.other_changes.group_rest import group_changes
from kscheduler.explain.suggestions.other_changes.more_nodes import more_nodes
from kscheduler.explain.suggestions.other_changes.namespace_labels import namespace_changes
from kscheduler.explain.suggestions.other_changes.node_changes import node_changes
from kscheduler.explain.suggestions.other_changes.pods_to_remove import pods_to_remove
from kscheduler.explain.suggestions.other_changes.refusals import refusals
from kscheduler.explain.suggestions.other_changes.released_devices import released_devices
from kscheduler.explain.suggestions.pairs import pairs
from kscheduler.explain.suggestions.pod_changes.amounts import smallest
from kscheduler.explain.suggestions.pod_changes.demand import Demand
from kscheduler.explain.suggestions.pod_changes.node_rules import relaxed_requirements
from kscheduler.explain.suggestions.pod_changes.of_demands import of_demands
from kscheduler.explain.suggestions.pod_changes.pod_relaxations import demands
from kscheduler.explain.suggestions.search_time import SearchTime
from kscheduler.explain.suggestions.suggestion import FAR, ChangeKind, Harm, Step, Suggestion
from kscheduler.explain.suggestions.trials.trial import Trials
from kscheduler.framework.cluster.preemption import DisruptionBudgets
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scenario.owners import Owners, owner_of
from kscheduler.scheduling.profile import Profile
from kscheduler.state.cache import Cache

# In a cluster of so few pods each one is shown that would be enough, up to `_MOST_PODS`.
_FEW_PODS: Final = 128
_MOST_PODS: Final = 16
NO_TEMPLATES: Final[ClaimTemplates] = MappingProxyType({})


def suggestions(
    profile: Profile,
    pod: PodInfo,
    cache: Cache,
    budgets: DisruptionBudgets | None = None,
    claim_templates: ClaimTemplates = NO_TEMPLATES,
    owners: Owners = owner_of,
    time: SearchTime | None = None,
) -> list[Suggestion]:
    """The changes after which the cycle finds a node for the pod, the smallest first; empty if none was found.

    For a pod that fits nowhere as it is; one that does gets none. `budgets`: whom to rather not delete.
    `queries_with_templates`: of the pod's claims. `owners`: whose replica a pod is. `time`: how long to look, and
    afterwards whether that was enough. The cache is changed on the way, and is as before in the end.
    """
    time = time or SearchTime()
    found: list[Suggestion] = []
    if not time.refuses(pod):
        trials = Trials(profile, pod, cache)
        trials.owners, trials.time = owners, time
        with time.ending(pod):
            for each in _search(trials, found, budgets, claim_templates):
                found.append(each)  # noqa: PERF402  one by one: what was found stays when the time is up
    return sorted(found, key=lambda each: each.order)


def _search(
    trials: Trials, found: Sequence[Suggestion], budgets: DisruptionBudgets | None, claim_templates: ClaimTemplates
) -> Iterator[Suggestion]:
    """`found`: all that it has yielded until now."""
    if len(trials.rows(())):
        return
    queried = list(demands(trials.pod, trials.cache))
    yield from _singles(queried, trials)
    yield from _elsewhere(trials, claim_templates)
    yield from refusals(trials)
    yield from _room(trials, budgets)
    given_up = frozenset(each.steps[0].facts["resource"] for each in found if _requests_nothing(each))
    if all(each.steps[0].kind in FAR or _requests_nothing(each) for each in found):
        is_last_resort = all(map(_requests_nothing, found))
        yield from pairs(queried, trials, budgets, given_up, is_last_resort=is_last_resort)


def _requests_nothing(single: Suggestion) -> bool:
    """Whether the pod would do without a resource altogether: that helps hardly anybody, so it hides no pair."""
    step = single.steps[0]
    return step.kind is ChangeKind.REQUEST and not step.facts["to"]


# --- the pod ----------------------------------------------------------------------------------------------------------


def _singles(queried: list[Demand], trials: Trials) -> Iterator[Suggestion]:
    helped: set[str] = set()
    for demand in queried:
        if demand.is_last_resort and demand.family in helped:
            continue
        if not trials.objections.may_help(demand.kind):
            continue
        rows = trials.rows((trials.of_pod(demand.patch),))
        if not len(rows):
            continue
        helped.add(demand.family)
        chosen, rows = smallest(demand, rows, lambda patch: trials.rows((trials.of_pod(patch),)), trials)
        yield of_demands((chosen,), rows, trials)
    if trials.objections.may_help(ChangeKind.NODE_AFFINITY):
        yield from _relaxed(queried, trials)


def _relaxed(queried: list[Demand], trials: Trials) -> Iterator[Suggestion]:
    """Requirements of the node affinity that accept one value more: of each requirement the first that helps."""
    whole = [demand for demand in queried if demand.kind is ChangeKind.NODE_AFFINITY and demand.is_last_resort]
    shown: set[str] = set()
    for all_of_it in whole:
        widest = trials.rows((trials.of_pod(all_of_it.patch),))
        for demand in relaxed_requirements(trials.pod.pod, trials.cache.nodes, widest) if len(widest) else ():
            if demand.family not in shown and len(rows := trials.rows((trials.of_pod(demand.patch),))):
                shown.add(demand.family)
                yield of_demands((demand,), rows, trials)


# --- other objects ----------------------------------------------------------------------------------------------------


def _elsewhere(trials: Trials, claim_templates: ClaimTemplates) -> Iterator[Suggestion]:
    """The best change of each kind and subject."""
    made_again: set[str] = set()
    for step in claims_made_again(trials, claim_templates):
        if len(rows := trials.rows(step.changes)):
            made_again.update(step.facts["claims"])
            yield Suggestion((step,), step.changes, len(rows))
    shown: set[tuple[ChangeKind, str]] = set()
    for step in proposals(trials):
        if step.facts.get("template") and step.facts["claim"] in made_again:
            continue  # the template is another one by now: what the claim asks for says nothing about it
        key = step.kind, step.subject
        if key not in shown and len(rows := trials.rows(step.changes)):
            shown.add(key)
            yield Suggestion((step,), step.changes, len(rows))
    yield from pool_updates(trials)


def proposals(trials: Trials) -> Iterator[Step]:
    """Changes of other objects that may help. They are not tried yet."""
    objections = trials.objections
    if objections.may_help(ChangeKind.CLAIM_CLASS):
        yield from claim_changes(trials)
        yield from all_elsewhere(trials)
    yield from device_changes(trials)
    yield from rule_changes(trials)
    yield from group_changes(trials)
    if objections.may_help(ChangeKind.NAMESPACE_LABEL):
        yield from namespace_changes(trials)
    yield from node_changes(trials)


def _room(trials: Trials, budgets: DisruptionBudgets | None) -> Iterator[Suggestion]:
    """Pods that go, and a node more."""
    most, shown, shown_last = (_MOST_PODS if trials.cache.statistics().pods <= _FEW_PODS else 1), 0, 0
    if trials.objections.may_help(ChangeKind.DELETE_PODS):
        for step, gone in pods_to_remove(trials, budgets):
            if shown and (shown == most or len(gone) > 1):
                break  # where one pod is enough, no more need go
            # Pods that come again, or are missed, do not stand for others: the search goes on for those.
            is_last = step.comes_last or step.harm is not Harm.NONE
            if (not is_last or shown_last < most) and len(rows := trials.rows((), gone)):
                yield Suggestion((step,), step.changes, len(rows))
                shown, shown_last = shown + (not is_last), shown_last + is_last
    yield from released_devices(trials)
    for step in more_nodes(trials):
        if len(rows := trials.rows(step.changes)):
            yield Suggestion((step,), step.changes, len(rows))
            break
