"""Calling some plugins of a profile one after the other: PreFilter, PreScore and Score.

`PlainEvaluator` passes all plugins of a point, `ClassEvaluator` only the live ones. The pass over the filters is in
`filters`, because dry runs use it, too.
"""

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.plugin import SKIPPED, PreFilterPlugin, PreScorePlugin
from kscheduler.framework.status import SKIP, SUCCESS, Code, Status, unresolvable
from kscheduler.scheduling.cycle.evaluator import CycleInputs, PreFiltered
from kscheduler.scheduling.profile import WeightedScore
from kscheduler.scheduling.record import PluginScores
from kscheduler.scheduling.runtime.cycle_calls import call_pre_filter, call_pre_score, call_score_and_normalize
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.left_out import points_after, report


def pre_filter_pass(
    plugins: Iterable[PreFilterPlugin], inputs: CycleInputs, state: CycleState, skipped: set[str]
) -> PreFiltered:
    """PreFilter; an unresolvable rejection ends it at once, a resolvable one after all plugins have run (Q18).

    Plugins that skip are added to `skipped`. Raises `PluginFailure`.
    """
    # `names` is the intersection of what the plugins allow; it stays `None` until one of them names nodes.
    remembered = SUCCESS
    names: frozenset[str] | None = None
    narrowed_by: tuple[str, ...] = ()
    for plugin in plugins:
        result = call_pre_filter(plugin, state, inputs.pod, inputs.nodes, inputs.stopwatch)
        if result is SKIPPED:  # most plugins have nothing to judge
            skipped.add(plugin.name)
            continue
        status = result.status
        if status.is_skip:
            skipped.add(plugin.name)
        elif status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return PreFiltered(status.by(plugin.name), skipped, names, narrowed_by)
        elif status.is_rejected:
            remembered = status.by(plugin.name)
        if result.node_names is not None:
            names = result.node_names if names is None else names & result.node_names
            narrowed_by = (*narrowed_by, plugin.name)
            if not names:
                return PreFiltered(_narrowed_to_nothing(narrowed_by), skipped, names, narrowed_by)
    return PreFiltered(remembered, skipped, names, narrowed_by)


def _narrowed_to_nothing(plugins: Sequence[str]) -> Status:
    plugins = sorted(set(plugins))
    if len(plugins) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {plugins[0]}", plugin=plugins[0])
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}] simultaneously", plugin=plugins[-1])


def pre_score_pass(
    plugins: Iterable[PreScorePlugin], inputs: CycleInputs, state: CycleState, feasible: Rows
) -> set[str]:
    """PreScore; returns the names of the plugins that have nothing to score, or cannot.

    Raises `PluginFailure` for an in-tree plugin.
    """
    skipped: set[str] = set()
    for plugin in plugins:
        try:
            status = call_pre_score(plugin, state, inputs.pod, inputs.nodes, feasible, inputs.stopwatch)
        except PluginFailure as failure:
            profile = inputs.profile
            if profile.traits[plugin.name].is_in_tree:
                raise
            inputs.stopwatch.call_ended(failure.point, plugin.name, 0)
            none = np.zeros(len(feasible), dtype=np.bool_)
            inputs.leave_out(report(failure, profile.listener, inputs.pod, inputs.nodes, feasible, none))
            status = SKIP
        if status is SKIP or status.is_skip:
            skipped.add(plugin.name)
    return skipped


def score_pass(
    weighted_plugins: Iterable[WeightedScore],
    skipped: Collection[str],
    inputs: CycleInputs,
    state: CycleState,
    feasible: Rows,
) -> dict[str, PluginScores]:
    """Score, normalise and weigh: each plugin's final points, an int64 per feasible row.

    Raises `PluginFailure` for an in-tree plugin.
    """
    scores: dict[str, PluginScores] = {}
    for weighted in weighted_plugins:
        plugin, name = weighted.plugin, weighted.plugin.name
        if name not in skipped:
            traits = inputs.profile.traits[name]
            asked = plugin, traits, state, inputs.pod, inputs.nodes, feasible
            try:
                points = call_score_and_normalize(*asked, inputs.stopwatch)
            except PluginFailure as failure:
                if traits.is_in_tree:
                    raise
                points, left_out = points_after(failure, *asked, inputs.profile.listener)
                inputs.stopwatch.call_ended(failure.point, name, 0)
                inputs.leave_out(left_out)
            scores[name] = PluginScores(name, weighted.weight, points * weighted.weight)
    return scores
