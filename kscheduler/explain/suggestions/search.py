"""The search: what helps alone, each made as small as it may be; where nothing does, or only to request nothing, pairs.

A pod asks for a dozen things, and one cycle judges 5,000 nodes in about a millisecond, so each change that can help is
simply tried (`Objections` says which cannot): what is found is all there is, and what is shown has been tried.
"""

from collections.abc import Iterator, Sequence

from kscheduler.explain.suggestions.all_kinds import KINDS, POD_KINDS, demands, order
from kscheduler.explain.suggestions.pairs import pairs
from kscheduler.explain.suggestions.search_time import SearchTime
from kscheduler.explain.suggestions.suggestion import Beside, Demand, Suggestion, of_demands
from kscheduler.explain.suggestions.trials import NO_TEMPLATES, ClaimTemplates, SearchInputs, Trials
from kscheduler.framework.cluster.preemption import DisruptionBudgets
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scenario.owners import Owners, owner_of
from kscheduler.scheduling.profile import Profile
from kscheduler.state.cache import Cache


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
    `claim_templates`: of the pod's claims. `owners`: whose replica a pod is. `time`: how long to look, and afterwards
    whether that was enough. The cache is changed on the way, and is as before in the end.
    """
    time = time or SearchTime()
    found: list[Suggestion] = []
    if not time.refuses(pod):
        trials = Trials(profile, pod, cache, SearchInputs(owners, budgets, claim_templates, time))
        with time.ending(pod):
            for each in _search(trials, found):
                found.append(each)  # noqa: PERF402  one by one: what was found stays when the time is up
    return sorted(found, key=order)


def _search(trials: Trials, found: Sequence[Suggestion]) -> Iterator[Suggestion]:
    """`found`: all that it has yielded until now."""
    if len(trials.rows(())):
        return
    demanded = list(demands(trials.pod, trials.cache))
    yield from _of_the_pod(demanded, trials)
    for kind in KINDS:
        yield from kind.found(trials)
    # To request nothing of a resource helps hardly anybody, so it hides no pair.
    given_up = frozenset(name for each in found if (name := each.steps[0].facts.gives_up))
    if all(each.steps[0].facts.is_far or each.steps[0].facts.gives_up for each in found):
        is_last_resort = all(each.steps[0].facts.gives_up for each in found)
        yield from pairs(demanded, trials, given_up, is_last_resort=is_last_resort)


def _of_the_pod(demanded: Sequence[Demand], trials: Trials) -> Iterator[Suggestion]:
    helped: set[str] = set()
    for demand in demanded:
        if demand.is_last_resort and demand.family in helped:
            continue
        if not trials.objections.may_help(demand.facts.touched):
            continue
        rows = trials.rows((trials.of_pod(demand.patch),))
        if not len(rows):
            continue
        helped.add(demand.family)
        chosen, rows = demand.facts.smallest(
            demand, rows, lambda patch: trials.rows((trials.of_pod(patch),)), Beside(trials)
        )
        yield of_demands((chosen,), rows, trials)
    for kind in POD_KINDS:
        if trials.objections.may_help(kind.touched):
            yield from _relaxed(kind.relaxed(demanded, trials), trials)


def _relaxed(relaxed: Iterator[Demand], trials: Trials) -> Iterator[Suggestion]:
    """Of each family the first that helps."""
    shown: set[str] = set()
    for demand in relaxed:
        if demand.family not in shown and len(rows := trials.rows((trials.of_pod(demand.patch),))):
            shown.add(demand.family)
            yield of_demands((demand,), rows, trials)
