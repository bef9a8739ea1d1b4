"""What would have to change for a waiting pod group to fit as a whole.

The group's cycle is the judge here, as a pod's is in `search`: nodes that are enough for each member alone may not be
enough for all of them. Proposed are changes of the group (a smaller gang, the members that it lacks), of members (they
give up one demand, or request less), and nodes of a shape that there is: as many as it takes. Members of one spec
change alike: of a gang with a leader and workers the leader alone, or the workers, or all where all ask for it.

A trial places all members, so trials are counted: `_MAX_PLACED` members in all, then what was found is all there is.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Final

import msgspec

from kscheduler.explain.suggestions.all_kinds import KINDS, demands, order
from kscheduler.explain.suggestions.group_domains import GroupDomains, domains_of
from kscheduler.explain.suggestions.object_changes import ObjectChange, changed_meanwhile
from kscheduler.explain.suggestions.search_time import SearchTime
from kscheduler.explain.suggestions.suggestion import Demand, GroupScale, Step, Suggestion, SuggestionKind
from kscheduler.explain.suggestions.trials import SearchInputs, Trials
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.groups.composite_cycle import place_group, tree_inputs
from kscheduler.scheduling.groups.group_cycle import GroupInputs, GroupResult

# Members that all trials together find a place for: some seconds.
_MAX_PLACED: Final = 20_000
# A change of more members than that is a change of their template, and its list of changes helps nobody.
_MAX_MEMBERS: Final = 256
# Of members with the same spec.
_CLASSES_TRIED: Final = 4


def group_suggestions(inputs: GroupInputs, time: SearchTime | None = None) -> list[Suggestion]:
    """The changes after which the group's cycle finds nodes for the group, the smallest first; empty if none was found.

    For a group that does not fit as it is. `nodes` of a suggestion: on how many nodes the members would be. `time`: how
    long to look, and afterwards whether that was enough. The cache is changed on the way, and is as before in the end.
    """
    time = time or SearchTime()
    found: list[Suggestion] = []
    if not any(map(time.refuses, inputs.members)):
        trials = _GroupTrials(inputs, time)
        with time.ending(inputs.members[0]):
            for each in chain(_of_the_group(trials), _of_members(trials), _more_nodes(trials)):
                found.append(each)  # noqa: PERF402  one by one: what was found stays when the time is up
    return sorted(found, key=order)


class _GroupTrials:
    """Tries changes for a group; finds nothing more once the trials have cost too much."""

    def __init__(self, inputs: GroupInputs, time: SearchTime) -> None:
        self.inputs, self.cache = inputs, inputs.cache
        self.one = Trials(inputs.profile, inputs.members[0], inputs.cache, SearchInputs(time=time))
        """For what is proposed: by a member."""
        self._placed = 0

    @cached_property
    def domains(self) -> GroupDomains | None:
        """The domains that the group may not leave."""
        return domains_of(replace(self.inputs, findings=None))

    def result(self, changes: Iterable[ObjectChange]) -> GroupResult | None:
        """What becomes of the group with these changes, if it fits. Raises `SearchOverError`."""
        self.one.inputs.time.check()
        listed = tuple(changes)
        if self._placed > _MAX_PLACED:
            return None
        with self._made(listed) as inputs:
            self._placed += len(inputs.members)
            if not all(inputs.profile.run_pre_enqueue(member).is_success for member in inputs.members):
                return None
            result = place_group(inputs)
        return result if result.status.is_success else None

    def suggestion(self, step: Step, result: GroupResult) -> Suggestion:
        """A step that has helped, with how many of the waiting members get a node."""
        found = result.all_members
        homes = [each.record.node_name for each in found if each.status.is_success and each.record is not None]
        facts = msgspec.structs.replace(step.facts, placed=len(homes), waiting=len(self.inputs.members))
        return Suggestion((replace(step, facts=facts),), step.changes, len(set(homes)))

    @contextmanager
    def _made(self, changes: Sequence[ObjectChange]) -> Iterator[GroupInputs]:
        own = {(member.namespace, member.name): number for number, member in enumerate(self.inputs.members)}
        members = list(self.inputs.members)
        others: list[ObjectChange] = []
        for change in changes:
            number = own.get((change.namespace, change.name)) if change.resource == "pods" else None
            if number is not None:
                members[number] = Trials(self.inputs.profile, members[number], self.cache).patched(change.patch)
                continue
            others.append(change)
            if change.resource == "pods":
                members.append(PodInfo(change.patch[0].value))
        with changed_meanwhile(self.cache, others):
            group = self.cache.pod_groups.definition(self.inputs.group.key) or self.inputs.group
            yield tree_inputs(replace(self.inputs, group=group, members=members, children=()), self.cache.pod_groups)


# --- the group, and nodes ---------------------------------------------------------------------------------------------


def _of_the_group(trials: _GroupTrials) -> Iterator[Suggestion]:
    """Of a gang that lacks members what would complete it; else a smaller one, or one that may be anywhere."""
    of_group = [kind for kind in KINDS if kind.is_of_group]
    proposed = [step for kind in of_group for step in kind.proposals(trials.one)]
    of_missing = [
        trials.suggestion(step, done) for step in proposed if (done := trials.result(step.changes)) is not None
    ]
    yield from of_missing
    # A group of groups has no members of its own.
    keys = {trials.cache.pod_groups.key_of(member.pod) for member in trials.inputs.members}
    if not of_missing and keys == {trials.inputs.group.key}:
        yield from _of_kinds(of_group, trials)


def _more_nodes(trials: _GroupTrials) -> Iterator[Suggestion]:
    yield from _of_kinds([kind for kind in KINDS if not kind.is_of_group], trials)


def _of_kinds(kinds: Iterable[type[SuggestionKind]], trials: _GroupTrials) -> Iterator[Suggestion]:
    """What the kinds propose for the group as a whole, first where the fewest trials are enough."""
    members = trials.inputs.members
    known = SearchInputs(domains=trials.domains)
    by_spec = [Trials(trials.inputs.profile, alike[0], trials.cache, known) for alike in _classes(members)]
    found = [list(kind.for_group(trials.inputs.group, len(members), by_spec)) for kind in kinds]
    for scales in sorted(filter(None, found), key=lambda each: each[0].most):
        best: tuple[int, Suggestion] | None = None
        for scale in scales:
            most = scale.most if best is None else best[0] - 1
            if (fitting := _smallest(most, scale.at, trials)) is not None:
                number, step, result = fitting
                best = number, trials.suggestion(step, result)
            if best is not None and best[0] == 1:
                break
        if best is not None:
            yield best[1]


# --- the members ------------------------------------------------------------------------------------------------------


def _of_members(trials: _GroupTrials) -> Iterator[Suggestion]:
    members = trials.inputs.members
    if len(members) > _MAX_MEMBERS:
        return
    classes = _classes(members)
    demanded = [list(demands(alike[0], trials.cache)) for alike in classes]
    if len(classes) > 1 and sum(map(len, classes)) == len(members):
        # Requests are not among them: by how much each class should lower its own is a question without one answer.
        common = [
            each for each in demanded[0] if not each.facts.lowered_resource and all(each in of for of in demanded)
        ]
        yield from _of_alike(members, common, trials)
    for alike, of_class in zip(classes, demanded, strict=True):
        yield from _of_alike(alike, of_class, trials)


def _classes(members: Sequence[PodInfo]) -> list[list[PodInfo]]:
    """The members by spec, `_CLASSES_TRIED` specs at most; members with yet other specs are left out."""
    found: list[list[PodInfo]] = []
    for member in members:
        alike = next((known for known in found if known[0].pod.spec == member.pod.spec), None)
        if alike is not None:
            alike.append(member)
        elif len(found) < _CLASSES_TRIED:
            found.append([member])
    return found


def _of_alike(alike: Sequence[PodInfo], demanded: Iterable[Demand], trials: _GroupTrials) -> Iterator[Suggestion]:
    """What these members could give up, all of them the same."""
    helped: set[str] = set()
    for demand in demanded:
        if demand.is_last_resort and demand.family in helped:
            continue
        result = trials.result(_given_up(demand, alike, trials).changes)
        if result is None:
            continue
        helped.add(demand.family)
        found = demand.facts.in_group(demand, alike[0].pod, trials.one)
        if found is None:
            continue
        scale, largest = found

        def at(number: int, scale: GroupScale[Demand] = scale) -> Step | None:
            smaller = scale.at(number)
            return None if smaller is None else _given_up(smaller, alike, trials)

        fitting = _smallest(scale.most, at, trials)
        if fitting is None:
            yield trials.suggestion(_given_up(largest, alike, trials), result)
        else:
            _, step, result = fitting
            yield trials.suggestion(step, result)


def _given_up(demand: Demand, alike: Sequence[PodInfo], trials: _GroupTrials) -> Step:
    """What half of the members give up is half as much."""
    step = demand.step(*(ObjectChange("pods", each.namespace, each.name, demand.patch) for each in alike))
    return replace(step, size=step.size * len(alike) / len(trials.inputs.members))


def _smallest(
    most: int, at: Callable[[int], Step | None], trials: _GroupTrials
) -> tuple[int, Step, GroupResult] | None:
    """The smallest number from 1 to `most` whose step helps, presuming that a larger one never helps less."""
    low, found = 0, None
    while most > low and (found is None or found[0] - low > 1):
        # First the most; then halves: of (low, found] low does not help, and found does.
        number = most if found is None else (low + found[0]) // 2
        step = at(number)
        result = None if step is None else trials.result(step.changes)
        if step is not None and result is not None:
            found = number, step, result
        elif found is None:
            return None
        else:
            low = number
    return found
