"""The search: what helps alone, each made as small as it may be; where nothing does, pairs.

A pod asks for a dozen things, and one cycle judges 5,000 nodes in less than a millisecond, so each demand is simply
tried without the others being guessed at: what is found is all there is, and what is shown has been tried.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Final

import numpy as np

from kscheduler.framework.cluster.preemption import DisruptionBudgets
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.profile import Profile
from kscheduler.state.cache import Cache
from kscheduler.whatif.suggestions.amounts import requesting, room_of, smallest
from kscheduler.whatif.suggestions.changed import ObjectChange, joined
from kscheduler.whatif.suggestions.claims import other_classes
from kscheduler.whatif.suggestions.making_room import making_room
from kscheduler.whatif.suggestions.more_nodes import more_nodes
from kscheduler.whatif.suggestions.node_changes import node_changes
from kscheduler.whatif.suggestions.pod_relaxations import Demand, Patch, demands
from kscheduler.whatif.suggestions.suggestion import ChangeKind, Step, Suggestion
from kscheduler.whatif.suggestions.trial import Trials

_MOST_PAIRED: Final = 16
"""Demands that are combined: at most 120 pairs."""


def suggestions(
    profile: Profile, pod: PodInfo, cache: Cache, budgets: DisruptionBudgets | None = None
) -> list[Suggestion]:
    """The changes after which the cycle finds a node for the pod, the smallest first; empty if none was found.

    For a pod that fits nowhere as it is. `budgets`: whom to rather not delete. The cache is changed on the way, and is
    as before in the end.
    """
    trials = Trials(profile, pod, cache)
    asked = list(demands(trials.pod, cache.nodes))
    found = [*_singles(asked, trials), *_elsewhere(trials, budgets)]
    if not any(len(each.steps) == 1 and each.steps[0].kind not in _FAR for each in found):
        found += _pairs(asked, trials)
    return sorted(found, key=lambda each: each.order)


_FAR: Final = (ChangeKind.DELETE_PODS, ChangeKind.ADD_NODE)
"""Changes beside which a pair of smaller ones is of interest."""


# --- the pod ----------------------------------------------------------------------------------------------------------


def _singles(asked: list[Demand], trials: Trials) -> Iterator[Suggestion]:
    helped: set[str] = set()
    for demand in asked:
        if demand.is_last_resort and demand.family in helped:
            continue
        rows = trials.rows(_of_pod(trials, demand.patch))
        if not len(rows):
            continue
        helped.add(demand.family)
        chosen, rows = smallest(demand, rows, lambda patch: trials.rows(_of_pod(trials, patch)), trials)
        yield _of_demands((chosen,), rows, trials)


def _pairs(asked: list[Demand], trials: Trials) -> list[Suggestion]:
    found = []
    for first, second in combinations(asked[:_MOST_PAIRED], 2):
        if first.family and first.family == second.family and (first.is_last_resort or second.is_last_resort):
            continue
        rows = trials.rows(_of_pod(trials, first.patch, second.patch))
        if len(rows):
            found.append(_smallest_pair(first, second, rows, trials))
    return found


def _smallest_pair(first: Demand, second: Demand, rows: Rows, trials: Trials) -> Suggestion:
    if first.kind is ChangeKind.REQUEST and second.kind is ChangeKind.REQUEST:
        return _two_requests(first, second, rows, trials)
    others = second.patch
    first, rows = smallest(first, rows, lambda patch: trials.rows(_of_pod(trials, patch, others)), trials)
    kept = first.patch
    second, rows = smallest(second, rows, lambda patch: trials.rows(_of_pod(trials, kept, patch)), trials)
    return _of_demands((first, second), rows, trials)


def _two_requests(first: Demand, second: Demand, rows: Rows, trials: Trials) -> Suggestion:
    """On the node where least is given up of both together."""
    rooms = [room_of(demand, rows, trials) for demand in (first, second)]
    given_up = sum(1 - room / demand.facts["amount"] for room, demand in zip(rooms, (first, second), strict=True))
    for place in np.argsort(given_up, kind="stable").tolist():
        both = tuple(
            requesting(demand, int(room[place]), trials) for room, demand in zip(rooms, (first, second), strict=True)
        )
        fitting = trials.rows(_of_pod(trials, both[0].patch, both[1].patch))
        if len(fitting):
            return _of_demands(both, fitting, trials)
    nothing = tuple(requesting(demand, 0, trials) for demand in (first, second))
    return _of_demands(nothing, rows, trials)


def _of_demands(chosen: tuple[Demand, ...], rows: Rows, trials: Trials) -> Suggestion:
    steps = tuple(Step(demand.kind, _of_pod(trials, demand.patch), demand.size, demand.facts) for demand in chosen)
    return Suggestion(steps, _of_pod(trials, *(demand.patch for demand in chosen)), len(rows))


def _of_pod(trials: Trials, *patches: Patch) -> tuple[ObjectChange, ...]:
    pod = trials.pod
    return (ObjectChange("pods", pod.namespace, pod.name, joined(patches)),)


# --- other objects ----------------------------------------------------------------------------------------------------


def _elsewhere(trials: Trials, budgets: DisruptionBudgets | None) -> Iterator[Suggestion]:
    """The best change of each kind to other objects."""
    shown: set[ChangeKind] = set()
    for step in (*other_classes(trials), *node_changes(trials)):
        if step.kind not in shown and len(rows := trials.rows(step.changes)):
            shown.add(step.kind)
            yield Suggestion((step,), step.changes, len(rows))
    for step, gone in making_room(trials, budgets):
        if len(rows := trials.rows((), gone)):
            yield Suggestion((step,), step.changes, len(rows))
            break
    for step in more_nodes(trials.cache.nodes):
        if len(rows := trials.rows(step.changes)):
            yield Suggestion((step,), step.changes, len(rows))
            break
