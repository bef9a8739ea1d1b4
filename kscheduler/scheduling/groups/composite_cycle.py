"""The cycle of a composite group: its groups one after the other, each seeing those before it on their nodes.

    placements of the group, within that of its parent
    in each placement:  PlacementFeasible? -> for each child: its own cycle, recursively -> PlacementFeasible?
                                                            |
                         fits: its pods stay on their nodes until the whole is undone
    best placement:     the parent puts its pods back on their nodes, for the siblings that follow

Each level counts what is below it: a gang of groups needs so many groups that fit themselves. A group that fails leaves
nothing behind, one below a group that failed fails with it. In the end all is undone, as for a group of pods.

As in kube-scheduler up to 1.37, a search for victims takes all members that have found a node in the one placement
without victims, also those in groups that failed there beside others that fit: they are promised room that they may not
use. From 1.38 on only members of groups that fit are.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter

from kscheduler.framework.cluster.pod_groups import GroupDefinition, GroupKey, PlacementProgress, PodGroupView
from kscheduler.framework.cluster.preemption import GroupPlacement
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Code, Status, error
from kscheduler.scheduling.groups.group_cycle import (
    GroupInputs,
    GroupResult,
    MemberResult,
    TentativePlacements,
    TopologyFindings,
    TriedPlacement,
    as_unschedulable,
    do_not_wait_for_each_other,
    feasible,
    none_placed,
    with_untried,
)
from kscheduler.scheduling.groups.group_placement import (
    best_of,
    find_placement,
    none_fits,
    place_pods,
    placements_of,
    to_try,
)
from kscheduler.scheduling.groups.topology_placement import domains_for_tree

_Results = dict[GroupKey, GroupResult]
# Told of a group that was tried in placements, with the result.
OnTried = Callable[[GroupKey, GroupResult], None]


def tree_inputs(inputs: GroupInputs, view: PodGroupView) -> GroupInputs:
    """The inputs with those of all groups below, each with its own members in their order."""
    if inputs.group.key.is_composite:
        inputs.findings = TopologyFindings()  # one for all of them
    of_leaf: dict[GroupKey, list[PodInfo]] = {}
    for pod in inputs.members:
        leaf = view.key_of(pod.pod)
        if leaf is not None:
            of_leaf.setdefault(leaf, []).append(pod)

    def below(group: GroupDefinition) -> GroupInputs:
        if not group.key.is_composite:
            return replace(inputs, group=group, members=of_leaf.get(group.key, []))
        children = [below(child) for child in view.children(group.key)]
        members = [pod for child in children for pod in child.members]
        return replace(inputs, group=group, members=members, children=children)

    return below(inputs.group)


def place_group(inputs: GroupInputs, on_tried: OnTried | None = None) -> GroupResult:
    """Find nodes for the members of a group, composite or not; the cache is as before when this returns.

    `on_tried` is called for each group each time that it was tried in placements.
    """
    if inputs.group.key.is_composite:
        return _CompositeCycle(inputs, on_tried).run()
    result = place_pods(inputs)
    if on_tried is not None and (inputs.profile.tries_placements or result.placements):
        on_tried(inputs.group.key, result)
    return result


class _CompositeCycle:
    """One run over a tree."""

    def __init__(self, inputs: GroupInputs, on_tried: OnTried | None) -> None:
        self._inputs = inputs
        self._on_tried = on_tried
        self._assumed = TentativePlacements(inputs)

    def run(self) -> GroupResult:
        inputs, results = self._inputs, _Results()
        do_not_wait_for_each_other(inputs.cache.nominator, inputs.members)
        try:
            own = self._place(inputs, None, results)
        finally:
            self._assumed.undo()
        placed = _members_in(inputs, results)
        if own.status.is_success and not placed:
            own.status = none_placed(inputs)
        if inputs.behaviours.failures_name_their_ancestor:
            proposed = placed
            _complete_by_ancestor(inputs, results, None)
        else:
            proposed = [member for each in _in_order(inputs, results) for member in _placed(each)]
            _complete(inputs, results, SUCCESS)
        own = results[inputs.group.key]
        own.tree, own.proposed = _in_order(inputs, results), proposed
        return own

    def _place(self, inputs: GroupInputs, within: GroupPlacement | None, results: _Results) -> GroupResult:
        """Place a group and what is below it; nobody is assumed afterwards."""
        key = inputs.group.key
        result = self._place_composite(inputs, within, results) if key.is_composite else find_placement(inputs, within)
        if self._on_tried is not None:
            self._on_tried(key, result)
        results[key] = result
        return result

    def _place_composite(self, inputs: GroupInputs, within: GroupPlacement | None, results: _Results) -> GroupResult:
        placements = placements_of(inputs, within)
        if isinstance(placements, GroupResult):
            return placements
        request = inputs.group.topology
        if request is None:
            order, enough = to_try(inputs, placements)
        else:
            domains = [domains_for_tree(inputs, request, placement) for placement in placements]
            order = [domain for each in domains if not isinstance(each, GroupResult) for domain in each]
            enough = 1
            refused = next((each for each in domains if isinstance(each, GroupResult)), None)
            if refused is not None and not order:
                return refused
        result = self._best_placement(inputs, order, enough, results)
        result.generated = len(placements) if request is None else len(order)
        return result

    def _best_placement(
        self, inputs: GroupInputs, placements: Sequence[GroupPlacement], enough: int, results: _Results
    ) -> GroupResult:
        tried: list[TriedPlacement] = []
        trees: list[_Results] = []
        before = len(self._assumed)
        for placement in placements:
            began, tree = perf_counter(), _Results()
            own = tree[inputs.group.key] = self._place_children(inputs, placement, tree)
            self._assumed.undo(before)
            if own.status.code is Code.ERROR:
                own.placements = tried
                if inputs.behaviours.failures_name_their_ancestor:
                    results.update(tree)  # members have reasons of their own
                return own
            seconds = perf_counter() - began
            tried.append(TriedPlacement(placement, own.status, seconds))
            trees.append(tree)
            if sum(each.status.is_success for each in tried) >= enough:
                break
        return self._best(inputs, tried, trees, results)

    def _best(
        self, inputs: GroupInputs, tried: list[TriedPlacement], trees: Sequence[_Results], results: _Results
    ) -> GroupResult:
        """Take the best of the placements: its results are those of the tree."""
        fitting = [(index, _members_in(inputs, trees[index])) for index, t in enumerate(tried) if t.status.is_success]
        if not fitting:
            results.update(trees[0])
            return none_fits(inputs, trees[0][inputs.group.key], tried)
        best = best_of(inputs, fitting, tried)
        if isinstance(best, GroupResult):
            return best
        results.update(trees[best])
        own = trees[best][inputs.group.key]
        own.placements = tried
        return own

    def _place_children(self, inputs: GroupInputs, placement: GroupPlacement, tree: _Results) -> GroupResult:
        """Try the children one after the other in one placement; the caller undoes what they assume."""
        progress = PlacementProgress(len(inputs.children), 0)
        status = feasible(inputs, progress)
        if status.code in _STOPS:
            return GroupResult(status)
        for child in inputs.children:
            result = self._place(child, placement, tree)
            if result.status.code is Code.ERROR:
                return _failed_by(inputs, child, result.status)
            progress = progress.after(is_scheduled=result.status.is_success)
            status = feasible(inputs, progress)
            if status.code in _STOPS:
                break
            if progress.remaining:
                failed = self._assume(child, _members_in(child, tree))
                if not failed.is_success:
                    result.status = failed
                    return _failed_by(inputs, child, failed)
        if status.code is Code.WAIT:
            status = as_unschedulable(inputs, status)
        return GroupResult(status)

    def _assume(self, child: GroupInputs, members: Sequence[MemberResult]) -> Status:
        """Count the child's members on their nodes again, for its siblings; after an Error none of them is assumed."""
        before = len(self._assumed)
        for member in members:
            if member.record is None:
                continue
            status = self._assumed.place(member.record)
            if not status.is_success:
                self._assumed.undo(before)
                names_all = child.behaviours.failures_name_their_ancestor
                which = f"child {child.group.key.text} subtree in snapshot" if names_all else "the subtree"
                return error(f"failed to assume {which}: {status.message}", fault=status.fault)
        return SUCCESS


def _failed_by(inputs: GroupInputs, child: GroupInputs, status: Status) -> GroupResult:
    """The result of a group one of whose children has ended with an Error."""
    if inputs.behaviours.failures_name_their_ancestor:
        group = f'composite pod group "{inputs.group.key.name}" evaluation'
        text = f'{group} failed due to child "{child.group.key.name}" error: {status.message}'
    else:
        text = f"composite pod group evaluation failed due to child error: {status.message}"
    return GroupResult(error(text, fault=status.fault))


# What PlacementFeasible says when no further child needs to be tried.
_STOPS = frozenset((Code.UNSCHEDULABLE, Code.ERROR))


def _placed(result: GroupResult) -> list[MemberResult]:
    return [member for member in result.members if member.status.is_success and member.record is not None]


def _members_in(inputs: GroupInputs, tree: _Results) -> list[MemberResult]:
    """The members with a node in groups that fit, all the way up to this one."""
    result = tree.get(inputs.group.key)
    if result is None or not result.status.is_success:
        return []
    return [member for child in inputs.children for member in _members_in(child, tree)] + _placed(result)


def _complete(inputs: GroupInputs, results: _Results, parent: Status) -> None:
    """A result for each group of the tree: who was not tried, or fits below a group that does not, has its status.

    The groups then share one status: `group_preemption` counts on it.
    """
    own = results.get(inputs.group.key)
    if own is None or (not parent.is_success and own.status.is_success):
        own = results[inputs.group.key] = GroupResult(parent)
    own.group = inputs.group
    for child in inputs.children:
        _complete(child, results, own.status)
    if not inputs.group.key.is_composite:
        with_untried(inputs, own)


def _complete_by_ancestor(inputs: GroupInputs, results: _Results, failed: GroupResult | None) -> None:
    """The same as 1.38 does it: below a group that has failed each group names it, or keeps a reason of its own.

    `failed`: the nearest group above that has failed. Every group has a status of its own.
    """
    own = results.get(inputs.group.key)
    was_tried = own is not None
    if own is None:
        own = results[inputs.group.key] = GroupResult(SUCCESS)
    own.group = inputs.group
    if failed is not None:
        is_milder = failed.status.code is Code.ERROR and own.status.code is not Code.ERROR
        if not was_tried or own.status.is_success or is_milder:
            own.status, own.has_no_placements = _of_ancestor(failed), False
        else:
            failed = own
    elif not own.status.is_success:
        failed = own
    for child in inputs.children:
        _complete_by_ancestor(child, results, failed)
    if not inputs.group.key.is_composite:
        with_untried(inputs, own)


def _of_ancestor(failed: GroupResult) -> Status:
    name = failed.group.key.name if failed.group is not None else ""
    if failed.status.code is Code.ERROR:
        return error(f'ancestor composite pod group "{name}" encountered an error', fault=failed.status.fault)
    return replace(failed.status, reasons=(f'ancestor composite pod group "{name}" is unschedulable',))


def _in_order(inputs: GroupInputs, results: _Results) -> list[GroupResult]:
    """The results of a tree, each group before those below it."""
    own = results.get(inputs.group.key)
    below = [result for child in inputs.children for result in _in_order(child, results)]
    return below if own is None else [own, *below]
