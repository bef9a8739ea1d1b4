"""What would have to change for a waiting pod group to fit as a whole.

The group's cycle is the judge here, as a pod's is in `search`: nodes that are enough for each member alone may not be
enough for all of them. Proposed are changes of the group (a smaller gang, the members that it lacks), of members (they
give up one demand, or request less), and nodes of a shape that there is: as many as it takes. Members of one spec
change alike: of a gang with a leader and workers the leader alone, or the workers, or all where all ask for it.

A trial places all members, so trials are counted: `_MOST_PLACED` members in all, then what was found is all there is.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Final

from kscheduler.explain.suggestions.changed import ObjectChange, Operation
from kscheduler.explain.suggestions.other_changes.group_rest import group_changes, smaller_gang, without_topology
from kscheduler.explain.suggestions.other_changes.more_nodes import changes_of, copies, more_nodes
from kscheduler.explain.suggestions.pod_changes.amounts import harm_of_none, supply_of
from kscheduler.explain.suggestions.pod_changes.demand import Demand
from kscheduler.explain.suggestions.pod_changes.pod_relaxations import demands
from kscheduler.explain.suggestions.pod_changes.requests_lowered import lowered
from kscheduler.explain.suggestions.search_time import SearchTime
from kscheduler.explain.suggestions.suggestion import ChangeKind, Step, Suggestion
from kscheduler.explain.suggestions.trials.changed_cluster import changed_meanwhile
from kscheduler.explain.suggestions.trials.trial import Trials
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import CPU
from kscheduler.scheduling.groups.composite_cycle import place_group, tree_inputs
from kscheduler.scheduling.groups.group_cycle import GroupInputs, GroupResult

# Members that all trials together find a place for: some seconds.
_MOST_PLACED: Final = 20_000
# A change of more members than that is a change of their template, and its list of changes helps nobody.
_MOST_MEMBERS: Final = 256
_SHAPES_TRIED: Final = 4
# Of members with the same spec.
_CLASSES_TRIED: Final = 4
# Requests are lowered in so many steps at least: of 4 Gi in steps of 1 Mi, of less than 4 CPUs in thousandths.
_FINEST: Final = 4096


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
    return sorted(found, key=lambda each: each.order)


class _GroupTrials:
    """Tries changes for a group; finds nothing more once the trials have cost too much."""

    def __init__(self, inputs: GroupInputs, time: SearchTime) -> None:
        self.inputs, self.cache = inputs, inputs.cache
        self.one = Trials(inputs.profile, inputs.members[0], inputs.cache)
        """For what is proposed: by a member."""
        self.one.time = time
        self._placed = 0

    def result(self, changes: Iterable[ObjectChange]) -> GroupResult | None:
        """What becomes of the group with these changes, if it fits. Raises `SearchOverError`."""
        self.one.time.check()
        listed = tuple(changes)
        if self._placed > _MOST_PLACED:
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
        facts = {**step.facts, "placed": len(homes), "waiting": len(self.inputs.members)}
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


# --- the group --------------------------------------------------------------------------------------------------------


def _of_the_group(trials: _GroupTrials) -> Iterator[Suggestion]:
    of_missing = [*_tried(group_changes(trials.one), trials)]  # of a gang that lacks members
    yield from of_missing
    group = trials.inputs.group
    # A group of groups has no members of its own.
    keys = {trials.cache.pod_groups.key_of(member.pod) for member in trials.inputs.members}
    if of_missing or keys != {group.key}:
        return
    if group.topology_key:
        facts = {"group": group.key.text, "key": group.topology_key}
        yield from _tried([Step(ChangeKind.GROUP_TOPOLOGY, (without_topology(group.key),), 1.0, facts)], trials)
    if group.min_count is None:
        return

    def smaller(count: int) -> Step:
        change = smaller_gang(group.key, count)
        queried = group.min_count or 1
        facts = {"group": group.key.text, "minCount": queried, "to": count}
        return Step(ChangeKind.GROUP_MIN_COUNT, (change,), (queried - count) / queried, facts)

    best = _largest(group.min_count - 1, lambda count: trials.result(smaller(count).changes))
    if best is not None:
        yield trials.suggestion(smaller(best[0]), best[1])


def _tried(steps: Iterable[Step], trials: _GroupTrials) -> Iterator[Suggestion]:
    """Those of the steps after which the group fits."""
    for step in steps:
        if (result := trials.result(step.changes)) is not None:
            yield trials.suggestion(step, result)


# --- the members ------------------------------------------------------------------------------------------------------


def _of_members(trials: _GroupTrials) -> Iterator[Suggestion]:
    members = trials.inputs.members
    if len(members) > _MOST_MEMBERS:
        return
    classes = _classes(members)
    queried = [list(demands(alike[0], trials.cache)) for alike in classes]
    if len(classes) > 1 and sum(map(len, classes)) == len(members):
        # Requests are not among them: by how much each class should lower its own is a question without one answer.
        common = [
            each for each in queried[0] if each.kind is not ChangeKind.REQUEST and all(each in of for of in queried)
        ]
        yield from _of_alike(members, common, trials)
    for alike, of_class in zip(classes, queried, strict=True):
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


def _of_alike(alike: Sequence[PodInfo], queried: Iterable[Demand], trials: _GroupTrials) -> Iterator[Suggestion]:
    """What these members could give up, all of them the same."""
    helped: set[str] = set()
    for demand in queried:
        if demand.is_last_resort and demand.family in helped:
            continue
        step = _given_up(demand, demand.patch, alike, trials)
        result = trials.result(step.changes)
        if result is None:
            continue
        helped.add(demand.family)
        if demand.kind is ChangeKind.REQUEST:
            step, result = _requesting_most(demand, step, result, alike, trials)
        elif demand.kind is ChangeKind.MAX_SKEW:
            continue  # without effect is not the smallest: the constraint as a wish says the same
        yield trials.suggestion(step, result)


def _requesting_most(
    demand: Demand, nothing: Step, widest: GroupResult, alike: Sequence[PodInfo], trials: _GroupTrials
) -> tuple[Step, GroupResult]:
    queried = int(demand.facts["amount"])
    # A power of two, so that what is shown is a round number of Mi or Ki.
    unit = 1 if demand.resource == CPU else 1 << (max(queried // _FINEST, 1).bit_length() - 1)

    def requesting(count: int) -> Step | None:
        amount = count * unit
        patch = lowered(alike[0].pod, demand.resource, amount)
        if patch is None:
            return None
        less = replace(demand, facts={**demand.facts, "to": amount}, size=(queried - amount) / queried)
        return _given_up(less, patch, alike, trials)

    def tried(count: int) -> GroupResult | None:
        step = requesting(count)
        return None if step is None else trials.result(step.changes)

    best = _largest((queried - 1) // unit, tried)
    step = requesting(best[0]) if best is not None else None
    if best is None or step is None:
        facts = {**demand.facts, "to": 0, "supply": supply_of(demand, trials.one)}
        return replace(nothing, facts=facts, comes_last=True, harm=harm_of_none(demand.resource)), widest
    return step, best[1]


def _given_up(demand: Demand, patch: tuple[Operation, ...], alike: Sequence[PodInfo], trials: _GroupTrials) -> Step:
    """What half of the members give up is half as much."""
    changes = tuple(ObjectChange("pods", each.namespace, each.name, patch) for each in alike)
    size = demand.size * len(alike) / len(trials.inputs.members)
    return Step(demand.kind, changes, size, demand.facts, comes_last=demand.comes_last, harm=demand.harm)


# --- nodes ------------------------------------------------------------------------------------------------------------


def _more_nodes(trials: _GroupTrials) -> Iterator[Suggestion]:
    """The fewest nodes of one shape; with a node for each member more of that shape do not help."""
    found: Suggestion | None = None
    fewest = 0
    for shape in _shapes(trials):

        def tried(count: int, shape: Step = shape) -> GroupResult | None:
            return trials.result(_nodes_like(shape, count, trials).changes)

        most = len(trials.inputs.members) if found is None else fewest - 1
        best = _smallest(most, tried)
        if best is not None:
            fewest = best[0]
            found = trials.suggestion(_nodes_like(shape, fewest, trials), best[1])
        if fewest == 1:
            break
    if found is not None:
        yield found


def _shapes(trials: _GroupTrials) -> list[Step]:
    """Shapes that some member would fit on, each once."""
    found: dict[str, Step] = {}
    versions: list[PodInfo] = []
    for member in trials.inputs.members:
        if len(versions) < _SHAPES_TRIED and all(member.pod.spec != known.pod.spec for known in versions):
            versions.append(member)
            for step in more_nodes(Trials(trials.inputs.profile, member, trials.cache)):
                found.setdefault(step.facts["like"], step)
    return list(found.values())[:_SHAPES_TRIED]


def _nodes_like(shape: Step, count: int, trials: _GroupTrials) -> Step:
    nodes = trials.cache.nodes
    node = nodes.info(nodes.row_of(shape.facts["like"])).node
    with_devices = len(shape.changes) > 1  # the slices of the copy are among them
    found = (
        []
        if node is None
        else [changes_of(node, copy, trials.cache, with_devices=with_devices) for copy in copies(node, count, nodes)]
    )
    changes = tuple(chain.from_iterable(found))
    return replace(shape, changes=changes, facts={**shape.facts, "count": count})


# --- limits -----------------------------------------------------------------------------------------------------------

Tried = Callable[[int], GroupResult | None]


def _smallest(most: int, tried: Tried) -> tuple[int, GroupResult] | None:
    """The smallest number from 1 to `most` that helps, presuming that more never helps less; each was tried."""
    low, found = 0, None
    while most > low and (found is None or found[0] - low > 1):
        # First the most; then halves: of (low, found] low does not help, and found does.
        number = most if found is None else (low + found[0]) // 2
        result = tried(number)
        if result is not None:
            found = number, result
        elif found is None:
            return None
        else:
            low = number
    return found


def _largest(most: int, tried: Tried) -> tuple[int, GroupResult] | None:
    """The largest number from 1 to `most` that helps, presuming that less never helps less; each was tried."""
    mirrored = _smallest(most, lambda number: tried(most + 1 - number))
    return None if mirrored is None else (most + 1 - mirrored[0], mirrored[1])
