"""The algorithm for a pod group: it is tried in each placement, and the best of those that it fits into is taken.

    no gate          all nodes, once: `group_cycle`
    a topology that Kueue's annotations or Volcano's field ask for: `topology_placement`, without gates, too
    with the gate    PlacementGenerate -> in each placement: `group_cycle`, undone -> PlacementScore -> the best one
                             |                                      |
                             '-> none: Unschedulable                '-> none fits: Unschedulable; the members have the
                                                                        results of the first placement

From 1.38 on the placement that the members are nominated to is tried before all others, and taken if it fits; and the
search ends when enough placements fit (`to_try`).

A placement restricts where members may go, and how many nodes their messages count. Plugins that count pods in domains
count them in the whole cluster, as in kube-scheduler. Of placements with equal points kube-scheduler draws one; here
the highest mix of group and placement wins, so that a decision can be made again.
"""

from collections.abc import Sequence
from time import perf_counter
from typing import Final

import numpy as np

from kscheduler.framework.cluster.preemption import GroupPlacement, ProposedPlacement
from kscheduler.framework.cluster.topology_request import MARKS, TopologyRequest
from kscheduler.framework.nodes.node_table import Rows, stable_hash
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules.scoring import mix
from kscheduler.framework.status import Code, Fault, Status, error, unschedulable
from kscheduler.scheduling.groups.group_cycle import (
    GROUP_UNSCHEDULABLE,
    GroupInputs,
    GroupResult,
    MemberResult,
    TriedPlacement,
    completed,
    try_members,
)
from kscheduler.scheduling.groups.topology_placement import place_by_topology, requested_topology
from kscheduler.scheduling.runtime.attempt_calls import call_generate_placements, call_score_placements
from kscheduler.scheduling.runtime.guard import PluginFailure

_NO_PLACEMENTS: Final = "no feasible placements found"
_NONE_IN_COMMON: Final = "no feasible merged placements found"
_IDLE: Final = "nominated placement is feasible but no pending pod was scheduled"
# Of all placements so many percent must fit at least before the best is taken, unless the configuration says another
# number.
_FEWEST_PERCENT: Final = 5


def place_pods(inputs: GroupInputs) -> GroupResult:
    """Find nodes for the members of a group of pods; the cache is as before when this returns."""
    asks = inputs.profile.tries_placements or inputs.group.topology is not None
    if not asks:
        # Nothing is called for members that do not even seem to ask.
        one, other = MARKS
        for pod in inputs.members:
            for key in pod.pod.metadata.annotations:
                if one in key or other in key:
                    asks = True
                    break
            if asks:
                asks = requested_topology(inputs) is not None
                break
    return completed(inputs, find_placement(inputs) if asks else try_members(inputs))


def find_placement(inputs: GroupInputs, within: GroupPlacement | None = None) -> GroupResult:
    """The best placement of a group of pods, within one of its parent, or anywhere; the cache is as before."""
    placements = placements_of(inputs, within)
    if isinstance(placements, GroupResult):
        return placements
    request = requested_topology(inputs)
    if request is not None and len(placements) == 1:
        return place_by_topology(inputs, request, _restriction(inputs, placements[0]))
    nominated = _nominated_to(inputs, placements) if within is None else None
    result = _best_placement(inputs, placements, nominated, request)
    result.generated = len(placements)
    return result


def _best_placement(
    inputs: GroupInputs,
    placements: Sequence[GroupPlacement],
    nominated: GroupPlacement | None,
    request: TopologyRequest | None,
) -> GroupResult:
    order, enough = to_try(inputs, placements)
    if nominated is not None:
        order = [nominated, *(placement for placement in order if placement is not nominated)]
    tried: list[TriedPlacement] = []
    results: list[GroupResult] = []
    fitting: list[int] = []
    for index, placement in enumerate(order):
        began = perf_counter()
        restriction = _restriction(inputs, placement)
        if request is None:
            result = try_members(inputs, restriction)
        else:
            result = place_by_topology(inputs, request, restriction)
        if result.status.code is Code.ERROR:
            result.placements = tried
            return result
        results.append(result)
        tried.append(TriedPlacement(placement, result.status, perf_counter() - began))
        # The minimum may be there without any new member: then the nominated placement is not taken for its own sake.
        is_idle = placement is nominated and not any(member.status.is_success for member in result.members)
        if result.status.is_success and not is_idle:
            fitting.append(index)
            if placement is nominated or len(fitting) >= enough:
                break
    if not fitting:
        if results[0].status.is_success:
            results[0].status = unschedulable(_IDLE)
        return none_fits(inputs, results[0], tried)
    best = best_of(inputs, [(index, results[index].members) for index in fitting], tried)
    if isinstance(best, GroupResult):
        return best
    results[best].placements = tried
    return results[best]


def placements_of(inputs: GroupInputs, within: GroupPlacement | None = None) -> Sequence[GroupPlacement] | GroupResult:
    """The placements to try, at least one, or the result of a group that has none.

    Without a plugin that generates them, there is one: that of the parent, or the whole cluster. Of several plugins
    each divides the same nodes, and what they say is intersected.
    """
    parent = within or GroupPlacement("", inputs.cache.nodes.rows())
    merged: Sequence[GroupPlacement] | None = None
    for plugin in inputs.profile.placement_generate:
        # A copy of it must not be taken for a name with a slash, which a merged parent has.
        given = GroupPlacement("" if inputs.behaviours.merges_placements else parent.name, parent.rows)
        try:
            placements = call_generate_placements(plugin, inputs.profile.listener, inputs.group, given)
        except PluginFailure as failure:
            return GroupResult(failure.status)
        if isinstance(placements, Status):
            return GroupResult(placements, has_no_placements=True)
        if not placements:
            return GroupResult(unschedulable(_NO_PLACEMENTS, plugin=plugin.name), has_no_placements=True)
        if len(placements) == 1 and placements[0] is given:
            continue  # it does not restrict the group
        problem = _bad_name(placements) if inputs.behaviours.merges_placements else ""
        if problem:
            return GroupResult(error(problem, plugin=plugin.name, fault=Fault.BUG))
        merged = placements if merged is None else _intersections(merged, placements)
        if not merged:
            return GroupResult(unschedulable(_NONE_IN_COMMON), has_no_placements=True)
    return (parent,) if merged is None else merged


def _bad_name(placements: Sequence[GroupPlacement]) -> str:
    """What is wrong with the placements' names; empty: nothing. Those of several plugins are joined by a slash."""
    seen: set[str] = set()
    for placement in placements:
        if "/" in placement.name:
            return f'placement name "{placement.name}" must not contain "/"'
        if placement.name in seen:
            return f'plugin returned duplicate placement name "{placement.name}"'
        seen.add(placement.name)
    return ""


def _intersections(some: Sequence[GroupPlacement], others: Sequence[GroupPlacement]) -> list[GroupPlacement]:
    """What each pair has in common, where that is not empty: of zones and racks `zone-a/rack-1`."""
    pairs = ((f"{a.name}/{b.name}", np.intersect1d(a.rows, b.rows)) for a in some for b in others)
    return [GroupPlacement(name, rows) for name, rows in pairs if len(rows)]


def _nominated_to(inputs: GroupInputs, placements: Sequence[GroupPlacement]) -> GroupPlacement | None:
    """The only placement with nodes that members are nominated to; `None`: there is none such, or several are."""
    if not inputs.behaviours.searches_few_placements:
        return None
    names = {pod.pod.status.nominated_node_name for pod in inputs.members} - {""}
    rows = [row for name in names if (row := inputs.cache.nodes.row_of(name)) >= 0]
    found = [placement for placement in placements if np.isin(rows, placement.rows).any()] if rows else []
    return found[0] if len(found) == 1 else None


def to_try(inputs: GroupInputs, placements: Sequence[GroupPlacement]) -> tuple[Sequence[GroupPlacement], int]:
    """The placements in the order in which they are tried, and how many that fit are enough.

    Up to 1.37 all are tried. From 1.38 on the share of them that must fit falls with the number of their nodes, and
    where not all are needed kube-scheduler shuffles them: here a mix of group and placement says who comes first.
    """
    if not inputs.behaviours.searches_few_placements:
        return placements, len(placements)
    enough = 1
    if inputs.profile.placement_score:
        percentage = inputs.profile.percentage_of_placements_to_score
        if not percentage:
            percentage = max(_FEWEST_PERCENT, 100 - sum(len(each.rows) for each in placements) * 9 // 500)
        enough = max(1, len(placements) * percentage // 100)
    if enough >= len(placements):
        return placements, enough
    name = inputs.cache.nodes.tie_name
    hashes = np.array([stable_hash(name(placement.name)) for placement in placements], dtype=np.uint64)
    order = np.argsort(mix(hashes, stable_hash(name(inputs.group.key.text))), kind="stable")
    return [placements[index] for index in order.tolist()], enough


def _restriction(inputs: GroupInputs, placement: GroupPlacement) -> Rows | None:
    """The placement's rows; `None` if it has all nodes: then what classes keep can be used."""
    return None if len(placement.rows) == len(inputs.cache.nodes) else placement.rows


def none_fits(inputs: GroupInputs, first: GroupResult, tried: Sequence[TriedPlacement]) -> GroupResult:
    """The result of a group that fits into none of the placements, from that in the first."""
    inherits = inputs.behaviours.members_inherit_rejections
    cause = first.status.message if inherits else _cause(first.status)
    text = f"0/{len(tried)} placements are available, first placement status: {cause}"
    first.placements = tried
    if inherits:
        first.status = unschedulable(text, plugin=first.status.plugin)
    else:
        first.status = unschedulable(GROUP_UNSCHEDULABLE, text)
    return first


def _cause(status: Status) -> str:
    """What kube-scheduler's error of the status says: its cause alone, where it has one."""
    is_caused = bool(status.reasons) and status.reasons[0] == GROUP_UNSCHEDULABLE
    return GROUP_UNSCHEDULABLE if is_caused else status.message


def best_of(
    inputs: GroupInputs, fitting: Sequence[tuple[int, Sequence[MemberResult]]], tried: Sequence[TriedPlacement]
) -> int | GroupResult:
    """Which of the fitting placements is taken (it is marked so), or the result if a plugin fails.

    `fitting`: indices into `tried`, each with the members that would be placed there.
    """
    if len(fitting) == 1:
        chosen = fitting[0][0]
    else:
        try:
            chosen = _with_most_points(inputs, fitting, tried)
        except PluginFailure as failure:
            return GroupResult(failure.status, placements=tried)
    tried[chosen].is_chosen = True
    return chosen


def _with_most_points(
    inputs: GroupInputs, fitting: Sequence[tuple[int, Sequence[MemberResult]]], tried: Sequence[TriedPlacement]
) -> int:
    """Raises `PluginFailure` for an in-tree plugin; one of a user's that fails gives no points, and was reported."""
    proposals = [ProposedPlacement(tried[index].placement, _assignments(members)) for index, members in fitting]
    totals = np.zeros(len(fitting), dtype=np.int64)
    for weighted in inputs.profile.placement_score:
        plugin, listener = weighted.plugin, inputs.profile.listener
        try:
            totals += weighted.weight * call_score_placements(plugin, listener, inputs.group, proposals)
        except PluginFailure:
            if inputs.profile.traits[plugin.name].is_in_tree:
                raise
    for (index, _), points in zip(fitting, totals.tolist(), strict=True):
        tried[index].points = points
    tied = [index for (index, _), points in zip(fitting, totals.tolist(), strict=True) if points == totals.max()]
    name = inputs.cache.nodes.tie_name
    hashes = np.array([stable_hash(name(tried[index].placement.name)) for index in tied], dtype=np.uint64)
    return tied[int(mix(hashes, stable_hash(name(inputs.group.key.text))).argmax())]


def _assignments(members: Sequence[MemberResult]) -> list[tuple[PodInfo, str]]:
    return [
        (member.pod, member.record.node_name)
        for member in members
        if member.status.is_success and member.record is not None
    ]
