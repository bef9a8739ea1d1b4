"""Calls of plugins in a cycle: PreFilter with its extensions, Filter, PostFilter, PreScore, Score, NormalizeScore.

All but PostFilter raise `PluginFailure` without reporting it: after a failure on the nominated node, or in the columns
of a class, the rows are judged once more, and only the cycle knows which failure is final (`PluginFailure.end`). The
functions that take a timer also measure the call, once the plugin has answered.
"""

from typing import cast

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.moved_pods import MovedPods
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.plugin import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    SKIPPED,
    FilterPlugin,
    NormalizingPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterExtensions,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    RowWiseExtensions,
    ScorePlugin,
)
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.framework.plugin_results import PartialAnswerError
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import Diagnosis
from kscheduler.framework.status import SKIP, Status
from kscheduler.framework.traits import PluginTraits
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import (
    ADD_POD,
    FILTER,
    NORMALIZE_SCORE,
    POST_FILTER,
    PRE_FILTER,
    PRE_SCORE,
    REMOVE_POD,
    SCORE,
    SCORE_IN_BOUNDS,
)
from kscheduler.scheduling.runtime.timing import CallTimer

# --- PreFilter --------------------------------------------------------------------------------------------------------


def call_pre_filter(
    plugin: PreFilterPlugin, state: CycleState, pod: PodInfo, nodes: NodeTable, timer: CallTimer
) -> PreFilterResult:
    """Success, Skip or a rejection; `node_names` may restrict the search to some nodes. Raises `PluginFailure`."""
    result = PRE_FILTER.call(plugin.name, plugin.pre_filter, state, pod, nodes)
    if result is SKIPPED:  # nearly every call
        timer.evaluated(PRE_FILTER.label, plugin.name, 0)
        return result
    status = result.status
    timer.evaluated(PRE_FILTER.label, plugin.name, 0 if status.is_skip else 1)
    if not (status.is_success or status.is_skip or status.is_rejected):
        raise PRE_FILTER.failed(plugin.name, status.message)
    return result


def call_add_pod(
    plugin: PreFilterExtensions, state: CycleState, pod: PodInfo, added: PodInfo, nodes: NodeTable, row: int
) -> None:
    """Count one more pod on the row. Raises `PluginFailure`."""
    ADD_POD.call(plugin.name, plugin.add_pod, state, pod, added, nodes, row)


def call_remove_pod(
    plugin: PreFilterExtensions, state: CycleState, pod: PodInfo, removed: PodInfo, nodes: NodeTable, row: int
) -> None:
    """Count one pod less on the row. Raises `PluginFailure`."""
    REMOVE_POD.call(plugin.name, plugin.remove_pod, state, pod, removed, nodes, row)


def call_move_pods(
    plugin: RowWiseExtensions, state: CycleState, pod: PodInfo, moved: MovedPods, nodes: NodeTable
) -> None:
    """Add pods to many rows or remove them, independently for each row. Raises `PluginFailure`."""
    (ADD_POD if moved.by > 0 else REMOVE_POD).call(plugin.name, plugin.move_pods, state, pod, moved, nodes)


# --- Filter, PostFilter -----------------------------------------------------------------------------------------------


def call_filter(
    plugin: FilterPlugin, state: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows, timer: CallTimer
) -> Codes | None:
    """The verdicts: an int64 code per entry of `rows`, in the same order; 0 passes. `None` means that all rows pass.

    Raises `PluginFailure`.
    """
    codes = FILTER.call(plugin.name, plugin.filter, state, pod, nodes, rows)
    timer.evaluated(FILTER.label, plugin.name, len(rows))
    return codes


def call_post_filter(
    plugin: PostFilterPlugin,
    listener: PluginListener,
    state: CycleState,
    pod: PodInfo,
    nodes: NodeTable,
    diagnosis: Diagnosis,
) -> PostFilterResult:
    """What the plugin has done for a pod that fits nowhere. After a failure: an Error that names the plugin."""
    try:
        return POST_FILTER.call(plugin.name, plugin.post_filter, state, pod, nodes, diagnosis)
    except PluginFailure as failure:
        failure.report(listener, pod)
        return PostFilterResult(failure.status)


# --- PreScore, Score --------------------------------------------------------------------------------------------------


def call_pre_score(
    plugin: PreScorePlugin, state: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows, timer: CallTimer
) -> Status:
    """Success or Skip. Raises `PluginFailure`."""
    status = PRE_SCORE.call(plugin.name, plugin.pre_score, state, pod, nodes, rows)
    if status is SKIP:  # nearly every call
        timer.evaluated(PRE_SCORE.label, plugin.name, 0)
        return status
    timer.evaluated(PRE_SCORE.label, plugin.name, 0 if status.is_skip else 1)
    if not (status.is_success or status.is_skip):
        raise PRE_SCORE.failed(plugin.name, status.message)
    return status


def call_score(
    plugin: ScorePlugin, state: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows, timer: CallTimer
) -> Scores:
    """Raw points, before normalising: an int64 per entry of `rows`. Raises `PluginFailure`."""
    points = SCORE.call(plugin.name, plugin.score, state, pod, nodes, rows)
    timer.evaluated(SCORE.label, plugin.name, len(rows))
    return points


def call_score_and_normalize(
    plugin: ScorePlugin,
    traits: PluginTraits,
    state: CycleState,
    pod: PodInfo,
    nodes: NodeTable,
    rows: Rows,
    timer: CallTimer,
) -> Scores:
    """Normalised points from 0 to 100, not weighted: an int64 per entry of `rows`. Raises `PluginFailure`."""
    raw = SCORE.call(plugin.name, plugin.score, state, pod, nodes, rows)
    points = call_normalize(plugin, traits, state, pod, rows, raw)
    timer.evaluated(SCORE.label, plugin.name, len(rows))
    return points


def call_normalize(
    plugin: ScorePlugin, traits: PluginTraits, state: CycleState, pod: PodInfo, rows: Rows, raw: Scores
) -> Scores:
    """Raw points after the plugin's NormalizeScore, if it has one: an int64 from 0 to 100 per entry of `rows`.

    Raises `PluginFailure`, also where a value is out of bounds.
    """
    points = raw
    if traits.normalizes:
        points = NORMALIZE_SCORE.call(plugin.name, cast("NormalizingPlugin", plugin).normalize, state, pod, rows, raw)
    least, most = int(points.min()), int(points.max())
    if least < MIN_NODE_SCORE or most > MAX_NODE_SCORE:
        wrong = least if least < MIN_NODE_SCORE else most
        bounds = f"[{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
        text = f"returns an invalid score {wrong}, it should in the range of {bounds}"
        # a user's plugin loses the points of these nodes only (`partial_results`)
        is_within = (points >= MIN_NODE_SCORE) & (points <= MAX_NODE_SCORE)
        raise SCORE_IN_BOUNDS.failed(plugin.name, text) from PartialAnswerError(
            f"{wrong} points", points, is_within, are_final=True
        )
    return points
