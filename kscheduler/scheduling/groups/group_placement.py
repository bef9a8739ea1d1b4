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

from kscheduler.framework.cluster.placements import GroupPlacement, ProposedPlacement
from kscheduler.framework.nodes.node_table import Rows, stable_hash
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules.ties import mix
from kscheduler.framework.status import Code, Status, unschedulable
from kscheduler.scheduling.groups.group_cycle import (
    GROUP_UNSCHEDULABLE,
    GroupInputs,
    GroupResult,
    TriedPlacement,
    completed,
    try_members,
)
from kscheduler.scheduling.runtime.attempt_calls import call_generate_placements, call_score_placements
from kscheduler.scheduling.runtime.guard import PluginFailure

_NO_PLACEMENTS: Final = "no feasible placements found"


def place_group(inputs: GroupInputs) -> GroupResult:
    """Find nodes for the members; the cache is as before when this returns."""
    result = _best_of_placements(inputs) if inputs.profile.tries_placements else try_members(inputs)
    return completed(inputs, result)


def _best_of_placements(inputs: GroupInputs) -> GroupResult:
    try:
        placements = _generated(inputs)
    except PluginFailure as failure:
        return GroupResult(failure.status)
    if isinstance(placements, Status):
        return GroupResult(placements)
    if not placements:
        return GroupResult(unschedulable(_NO_PLACEMENTS, plugin=inputs.profile.placement_generate[0].name))
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
        return _none_fits(results[0], tried)
    try:
        best = fitting[0] if len(fitting) == 1 else _best(inputs, fitting, results, tried)
    except PluginFailure as failure:
        return GroupResult(failure.status, placements=tried)
    tried[best].is_chosen = True
    results[best].placements = tried
    return results[best]


def _generated(inputs: GroupInputs) -> Sequence[GroupPlacement] | Status:
    """The placements to try. Without a plugin that generates them, the whole cluster. Raises `PluginFailure`."""
    everything = GroupPlacement("", inputs.cache.nodes.rows())
    if not inputs.profile.placement_generate:
        return (everything,)
    plugin = inputs.profile.placement_generate[0]
    return call_generate_placements(plugin, inputs.profile.listener, inputs.group, everything)


def _restriction(inputs: GroupInputs, placement: GroupPlacement) -> Rows | None:
    """The placement's rows; `None` if it has all nodes: then what classes keep can be used."""
    return None if len(placement.rows) == len(inputs.cache.nodes) else placement.rows


def _none_fits(first: GroupResult, tried: Sequence[TriedPlacement]) -> GroupResult:
    text = f"0/{len(tried)} placements are available, first placement status: {_cause(first.status)}"
    first.status, first.placements = unschedulable(GROUP_UNSCHEDULABLE, text), tried
    return first


def _cause(status: Status) -> str:
    """What kube-scheduler's error of the status says: its cause alone, where it has one."""
    is_caused = bool(status.reasons) and status.reasons[0] == GROUP_UNSCHEDULABLE
    return GROUP_UNSCHEDULABLE if is_caused else status.message


def _best(
    inputs: GroupInputs, fitting: Sequence[int], results: Sequence[GroupResult], tried: Sequence[TriedPlacement]
) -> int:
    """Which of the fitting placements has the most points. Raises `PluginFailure`."""
    proposals = [ProposedPlacement(tried[index].placement, _assignments(results[index])) for index in fitting]
    totals = np.zeros(len(fitting), dtype=np.int64)
    for weighted in inputs.profile.placement_score:
        listener = inputs.profile.listener
        totals += weighted.weight * call_score_placements(weighted.plugin, listener, inputs.group, proposals)
    for index, points in zip(fitting, totals.tolist(), strict=True):
        tried[index].points = points
    tied = [index for index, points in zip(fitting, totals.tolist(), strict=True) if points == totals.max()]
    name = inputs.cache.nodes.tie_name
    hashes = np.array([stable_hash(name(tried[index].placement.name)) for index in tied], dtype=np.uint64)
    return tied[int(mix(hashes, stable_hash(name(inputs.group.key.text))).argmax())]


def _assignments(result: GroupResult) -> list[tuple[PodInfo, str]]:
    return [
        (member.pod, member.record.node_name)
        for member in result.members
        if member.status.is_success and member.record is not None
    ]
