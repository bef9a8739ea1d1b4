"""Two changes, where no single one helps: two of the pod, one of the pod and one of another object, two of a node.

Those that need the fewest trials come first; what `objections` says cannot help is left out. Where nothing at all was
found, a change of the pod is tried together with pods that go, or a node more.

Where it helps alone to request nothing of a resource, it does so beside every other change, too. Such a resource is
given up, and of it only pairs are shown that leave the pod some:

    request no example.com/gpu                                    helps alone
    request 5 of example.com/gpu, and tolerate the taint          a pair beside it
    request no example.com/gpu, and tolerate the taint            no news
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

import numpy as np

from kscheduler.explain.suggestions.changed import ObjectChange, joined
from kscheduler.explain.suggestions.other_changes.claims import claim_changes
from kscheduler.explain.suggestions.other_changes.device_claims import device_changes
from kscheduler.explain.suggestions.other_changes.more_nodes import more_nodes
from kscheduler.explain.suggestions.other_changes.node_changes import node_changes, pairs_of_a_node
from kscheduler.explain.suggestions.other_changes.pods_to_remove import pods_to_remove
from kscheduler.explain.suggestions.pod_changes.amounts import requesting, room_of, smallest
from kscheduler.explain.suggestions.pod_changes.demand import Demand, Patch
from kscheduler.explain.suggestions.pod_changes.of_demands import of_demands, step_of
from kscheduler.explain.suggestions.suggestion import ChangeKind, Step, Suggestion
from kscheduler.explain.suggestions.trials.trial import Trials
from kscheduler.framework.cluster.preemption import DisruptionBudgets
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo

# Demands that are combined: at most 120 pairs.
_MOST_PAIRED: Final = 16
# Changes of claims that are combined.
_MOST_OF_CLAIMS: Final = 14
# Demands that are combined with changes of other objects, which cost more.
_MOST_BESIDE: Final = 8
NOTHING_GIVEN_UP: Final = frozenset[str]()


def pairs(
    queried: Sequence[Demand],
    trials: Trials,
    budgets: DisruptionBudgets | None,
    given_up: frozenset[str] = NOTHING_GIVEN_UP,
    *,
    is_last_resort: bool,
) -> Iterator[Suggestion]:
    """All that were found. `is_last_resort`: whether pods that go, or a node more, are worth a pair."""
    count = 0
    of_the_pod = _of_the_pod(queried[:_MOST_PAIRED], trials, given_up)
    found = *of_the_pod, *_of_claims(trials), *_of_one_node(trials)
    for suggestion in found:
        count += 1
        yield suggestion
    for demand in queried[:_MOST_BESIDE]:
        for suggestion in _beside(demand, trials, given_up):
            count += 1
            yield suggestion
    if is_last_resort and not count:
        for demand in queried[:_MOST_BESIDE]:
            yield from _with_room(demand, trials, budgets, given_up)


# --- two of the pod ---------------------------------------------------------------------------------------------------


def _of_the_pod(queried: Sequence[Demand], trials: Trials, given_up: frozenset[str]) -> Iterator[Suggestion]:
    for first, second in combinations(queried, 2):
        if first.family and first.family == second.family and (first.is_last_resort or second.is_last_resort):
            continue
        if not trials.objections.may_help(first.kind, second.kind):
            continue
        rows = trials.rows((_both(trials, first.patch, second.patch),))
        if not len(rows):
            continue
        if first.kind is second.kind is ChangeKind.REQUEST and given_up & {first.resource, second.resource}:
            continue  # on most nodes one of them alone is what helps
        pair = _smallest_pair(first, second, rows, trials)
        if not _is_no_news(pair, given_up):
            yield pair


def _is_no_news(pair: Suggestion, given_up: frozenset[str]) -> bool:
    """Whether the pod would request nothing of a resource that was given up."""
    requests = (step.facts for step in pair.steps if step.kind is ChangeKind.REQUEST)
    return any(facts["resource"] in given_up and not facts["to"] for facts in requests)


def _smallest_pair(first: Demand, second: Demand, rows: Rows, trials: Trials) -> Suggestion:
    if first.kind is ChangeKind.REQUEST and second.kind is ChangeKind.REQUEST:
        return _two_requests(first, second, rows, trials)
    others = second.patch
    first, rows = smallest(first, rows, lambda patch: trials.rows((_both(trials, patch, others),)), trials)
    kept = first.patch
    second, rows = smallest(second, rows, lambda patch: trials.rows((_both(trials, kept, patch),)), trials)
    return of_demands((first, second), rows, trials)


def _two_requests(first: Demand, second: Demand, rows: Rows, trials: Trials) -> Suggestion:
    """On the node where least is given up of both together."""
    rooms = [room_of(demand, rows, trials) for demand in (first, second)]
    given_up = sum(1 - room / demand.facts["amount"] for room, demand in zip(rooms, (first, second), strict=True))
    for place in np.argsort(given_up, kind="stable").tolist():
        both = tuple(
            requesting(demand, int(room[place]), trials) for room, demand in zip(rooms, (first, second), strict=True)
        )
        fitting = trials.rows((_both(trials, both[0].patch, both[1].patch),))
        if len(fitting):
            return of_demands(both, fitting, trials)
    nothing = tuple(requesting(demand, 0, trials) for demand in (first, second))
    return of_demands(nothing, rows, trials)


def _both(trials: Trials, first: Patch, second: Patch) -> ObjectChange:
    return trials.of_pod(joined((first, second)))


# --- two of other objects ---------------------------------------------------------------------------------------------


def _of_claims(trials: Trials) -> Iterator[Suggestion]:
    """Two changes of claims: to volumes, or to devices. The first of each two kinds and subjects that helps."""
    steps = list(claim_changes(trials)) if trials.objections.may_help(ChangeKind.CLAIM_CLASS) else []
    steps += device_changes(trials)
    shown: set[object] = set()
    for first, second in combinations(steps[:_MOST_OF_CLAIMS], 2):
        key = first.kind, first.subject, second.kind, second.subject
        if key in shown or (first.kind, first.subject) == (second.kind, second.subject):
            continue
        changes = _merged(first.changes, second.changes)
        if len(rows := trials.rows(changes)):
            shown.add(key)
            yield Suggestion((first, second), changes, len(rows))


def _merged(first: Sequence[ObjectChange], second: Sequence[ObjectChange]) -> tuple[ObjectChange, ...]:
    """One change per object."""
    patches: dict[tuple[str, str, str], list[Patch]] = {}
    for change in (*first, *second):
        patches.setdefault((change.resource, change.namespace, change.name), []).append(change.patch)
    return tuple(ObjectChange(*key, joined(of_object)) for key, of_object in patches.items())


# --- with other objects -----------------------------------------------------------------------------------------------


def _of_one_node(trials: Trials) -> Iterator[Suggestion]:
    for first, second in pairs_of_a_node(trials):
        changes = _merged(first.changes, second.changes)
        if len(rows := trials.rows(changes)):
            yield Suggestion((first, second), changes, len(rows))
            return


def _beside(demand: Demand, trials: Trials, given_up: frozenset[str]) -> Iterator[Suggestion]:
    """The demand given up, and the best change of each kind to another object."""
    variant = trials.but(demand.patch, trials.objections.without(demand.kind))
    shown: set[ChangeKind] = set()
    for step in _proposals(variant):
        if step.kind in shown or not len(rows := variant.rows(step.changes)):
            continue
        pair = _with_step(demand, step, rows, trials)
        if not _is_no_news(pair, given_up):
            shown.add(step.kind)
            yield pair


def _proposals(variant: Trials) -> Iterator[Step]:
    if variant.objections.may_help(ChangeKind.CLAIM_CLASS):
        yield from claim_changes(variant)
    yield from device_changes(variant)
    yield from node_changes(variant)


def _with_step(demand: Demand, step: Step, rows: Rows, trials: Trials, gone: tuple[PodInfo, ...] = ()) -> Suggestion:
    changes = () if gone else step.changes
    chosen, rows = smallest(
        demand, rows, lambda patch: trials.rows((trials.of_pod(patch), *changes), gone), trials, (changes, gone)
    )
    of_pod = step_of(chosen, trials)
    return Suggestion((of_pod, step), (*of_pod.changes, *step.changes), len(rows))


def _with_room(
    demand: Demand, trials: Trials, budgets: DisruptionBudgets | None, given_up: frozenset[str]
) -> Iterator[Suggestion]:
    variant = trials.but(demand.patch, trials.objections.without(demand.kind))
    if variant.objections.may_help(ChangeKind.DELETE_PODS):
        for step, gone in pods_to_remove(variant, budgets):
            if len(rows := variant.rows((), gone)):
                if not _is_no_news(pair := _with_step(demand, step, rows, trials, gone), given_up):
                    yield pair
                break
    for step in more_nodes(variant):
        if len(rows := variant.rows(step.changes)):
            if not _is_no_news(pair := _with_step(demand, step, rows, trials), given_up):
                yield pair
            break
