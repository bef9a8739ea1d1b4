"""Two changes, where no single one helps: two of the pod, one of the pod and one of another object, two of a node.

Those that need the fewest trials come first; what `Objections` says cannot help is left out. Where nothing at all was
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

from kscheduler.explain.suggestions.all_kinds import KINDS
from kscheduler.explain.suggestions.object_changes import ObjectChange, joined
from kscheduler.explain.suggestions.suggestion import (
    Beside,
    Demand,
    Patch,
    Step,
    Suggestion,
    of_demands,
)
from kscheduler.explain.suggestions.trials import Trials
from kscheduler.framework.nodes.node_table import Rows

# Demands that are combined: at most 120 pairs.
_MAX_PAIRED: Final = 16
# Changes of claims that are combined.
_MAX_OF_CLAIMS: Final = 14
# Demands that are combined with changes of other objects, which cost more.
_MAX_BESIDE: Final = 8
NOTHING_GIVEN_UP: Final = frozenset[str]()


def pairs(
    demanded: Sequence[Demand], trials: Trials, given_up: frozenset[str] = NOTHING_GIVEN_UP, *, is_last_resort: bool
) -> Iterator[Suggestion]:
    """All that were found. `is_last_resort`: whether pods that go, or a node more, are worth a pair."""
    count = 0
    found = (
        *_of_the_pod(demanded[:_MAX_PAIRED], trials, given_up),
        *_of_claims(trials),
        *_of_one_object(trials),
    )
    for suggestion in found:
        count += 1
        yield suggestion
    for demand in demanded[:_MAX_BESIDE]:
        for suggestion in _beside(demand, trials, given_up):
            count += 1
            yield suggestion
    if is_last_resort and not count:
        for demand in demanded[:_MAX_BESIDE]:
            yield from _with_room(demand, trials, given_up)


# --- two of the pod ---------------------------------------------------------------------------------------------------


def _of_the_pod(demanded: Sequence[Demand], trials: Trials, given_up: frozenset[str]) -> Iterator[Suggestion]:
    for first, second in combinations(demanded, 2):
        if first.family and first.family == second.family and (first.is_last_resort or second.is_last_resort):
            continue
        if not trials.objections.may_help(first.facts.touched, second.facts.touched):
            continue
        rows = trials.rows((_both(trials, first.patch, second.patch),))
        if not len(rows):
            continue
        lowered = first.facts.lowered_resource, second.facts.lowered_resource
        if all(lowered) and given_up.intersection(lowered):
            continue  # on most nodes one of them alone is what helps
        pair = _smallest_pair(first, second, rows, trials)
        if not _is_no_news(pair, given_up):
            yield pair


def _is_no_news(pair: Suggestion, given_up: frozenset[str]) -> bool:
    """Whether the pod would request nothing of a resource that was given up."""
    return any(step.facts.gives_up in given_up for step in pair.steps if step.facts.gives_up)


def _smallest_pair(first: Demand, second: Demand, rows: Rows, trials: Trials) -> Suggestion:
    if first.facts.kind == second.facts.kind:
        found = first.facts.smallest_pair(first, second, rows, trials)
        if found is not None:
            return of_demands(*found, trials)
    others, beside = second.patch, Beside(trials)
    first, rows = first.facts.smallest(first, rows, lambda patch: trials.rows((_both(trials, patch, others),)), beside)
    kept = first.patch
    second, rows = second.facts.smallest(second, rows, lambda patch: trials.rows((_both(trials, kept, patch),)), beside)
    return of_demands((first, second), rows, trials)


def _both(trials: Trials, first: Patch, second: Patch) -> ObjectChange:
    return trials.of_pod(joined((first, second)))


# --- two of other objects ---------------------------------------------------------------------------------------------


def _of_claims(trials: Trials) -> Iterator[Suggestion]:
    """Two changes of claims: to volumes, or to devices. The first of each two kinds and subjects that helps."""
    steps = [step for kind in KINDS if kind.is_paired_with_claims for step in kind.proposals(trials)]
    shown: set[object] = set()
    for first, second in combinations(steps[:_MAX_OF_CLAIMS], 2):
        key = first.facts.kind, first.subject, second.facts.kind, second.subject
        if key in shown or (first.facts.kind, first.subject) == (second.facts.kind, second.subject):
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


def _of_one_object(trials: Trials) -> Iterator[Suggestion]:
    for kind in KINDS:
        for first, second in kind.pairs(trials):
            changes = _merged(first.changes, second.changes)
            if len(rows := trials.rows(changes)):
                yield Suggestion((first, second), changes, len(rows))
                break


def _beside(demand: Demand, trials: Trials, given_up: frozenset[str]) -> Iterator[Suggestion]:
    """The demand given up, and the best change of each kind to another object."""
    variant = _without(demand, trials)
    shown: set[str] = set()
    steps = (step for kind in KINDS if kind.is_paired_with_demands for step in kind.proposals(variant))
    for step in steps:
        if step.facts.kind in shown or not len(rows := variant.rows(step.changes)):
            continue
        pair = _with_step(demand, step, rows, trials)
        if not _is_no_news(pair, given_up):
            shown.add(step.facts.kind)
            yield pair


def _with_room(demand: Demand, trials: Trials, given_up: frozenset[str]) -> Iterator[Suggestion]:
    """The demand given up, and pods that go, or a node more: of each kind the first that helps."""
    variant = _without(demand, trials)
    for kind in KINDS:
        for step in kind.proposals(variant) if kind.is_last_pair else ():
            if len(rows := variant.rows(step.changes, step.gone)):
                if not _is_no_news(pair := _with_step(demand, step, rows, trials), given_up):
                    yield pair
                break


def _without(demand: Demand, trials: Trials) -> Trials:
    return trials.but(demand.patch, trials.objections.without(demand.facts.touched))


def _with_step(demand: Demand, step: Step, rows: Rows, trials: Trials) -> Suggestion:
    chosen, rows = demand.facts.smallest(
        demand,
        rows,
        lambda patch: trials.rows((trials.of_pod(patch), *step.changes), step.gone),
        Beside(trials, step.changes, step.gone),
    )
    of_pod = chosen.step(trials.of_pod(chosen.patch))
    return Suggestion((of_pod, step), (*of_pod.changes, *step.changes), len(rows))
