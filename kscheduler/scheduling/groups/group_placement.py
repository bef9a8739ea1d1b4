"""The algorithm for a pod group: it is tried in each placement, and the best of those that it fits into is taken.

    no gate          all nodes, once: `group_cycle`
    with the gate    PlacementGenerate -> in each placement: `group_cycle`, undone -> PlacementScore -> the best one
                             |                                      |
                             '-> none: Unschedulable                '-> none fits: Unschedulable; the members have the
                                                                        results of the first placement

A placement restricts where members may go, and how many nodes their messages count. Plugins that count pods in domains
count them in the whole cluster, as in kube-scheduler. Of placements with equal points kube-scheduler draws one; here
the highest mix of group and placement wins, so that a decision can be made again.
"""

from collections.abc import Sequence
from time import perf_counter
from typing import Final

import numpy as np

from kscheduler.framework.cluster.preemption import GroupPlacement, ProposedPlacement
from kscheduler.framework.nodes.node_table import Rows, stable_hash
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules.scoring import mix
from kscheduler.framework.status import Code, Status, unschedulable
from kscheduler.scheduling.groups.group_cycle import (
    GROUP_UNSCHEDULABLE,
    GroupInputs,
    GroupResult,
    MemberResult,
    TriedPlacement,
    completed,
    try_members,
)
from kscheduler.scheduling.runtime.attempt_calls import call_generate_placements, call_score_placements
from kscheduler.scheduling.runtime.guard import PluginFailure

_NO_PLACEMENTS: Final = "no feasible placements found"


def place_pods(inputs: GroupInputs) -> GroupResult:
    """Find nodes for the members of a group of pods; the cache is as before when this returns."""
    result = find_placement(inputs) if inputs.profile.tries_placements else try_members(inputs)
    return completed(inputs, result)


def find_placement(inputs: GroupInputs, within: GroupPlacement | None = None) -> GroupResult:
    """The best placement of a group of pods, within one of its parent, or anywhere; the cache is as before."""
    placements = placements_of(inputs, within)
    if isinstance(placements, GroupResult):
        return placements
    tried: list[TriedPlacement] = []
    results: list[GroupResult] = []
    for placement in placements:
        began = perf_counter()
        result = try_members(inputs, _restriction(inputs, placement))
        if result.status.code is Code.ERROR:
            result.placements = tried
            return result
        results.append(result)
        tried.append(TriedPlacement(placement, result.status, perf_counter() - began))
    fitting = [index for index, result in enumerate(results) if result.status.is_success]
    if not fitting:
        return none_fits(results[0], tried)
    best = best_of(inputs, [(index, results[index].members) for index in fitting], tried)
    if isinstance(best, GroupResult):
        return best
    results[best].placements = tried
    return results[best]


def placements_of(inputs: GroupInputs, within: GroupPlacement | None = None) -> Sequence[GroupPlacement] | GroupResult:
    """The placements to try, at least one, or the result of a group that has none.

    Without a plugin that generates them, there is one: that of the parent, or the whole cluster.
    """
    parent = within or GroupPlacement("", inputs.cache.nodes.rows())
    if not inputs.profile.placement_generate:
        return (parent,)
    plugin = inputs.profile.placement_generate[0]
    try:
        placements = call_generate_placements(plugin, inputs.profile.listener, inputs.group, parent)
    except PluginFailure as failure:
        return GroupResult(failure.status)
    if isinstance(placements, Status):
        return GroupResult(placements)
    return placements or GroupResult(unschedulable(_NO_PLACEMENTS, plugin=plugin.name))


def _restriction(inputs: GroupInputs, placement: GroupPlacement) -> Rows | None:
    """The placement's rows; `None` if it has all nodes: then what classes keep can be used."""
    return None if len(placement.rows) == len(inputs.cache.nodes) else placement.rows


def none_fits(first: GroupResult, tried: Sequence[TriedPlacement]) -> GroupResult:
    """The result of a group that fits into none of the placements, from that in the first."""
    text = f"0/{len(tried)} placements are available, first placement status: {_cause(first.status)}"
    first.status, first.placements = unschedulable(GROUP_UNSCHEDULABLE, text), tried
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
