"""From a plugin's raw points to those that count: normalised, within bounds, weighted."""

from typing import cast

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.node_table import NodeTable, Rows, Scores
from kscheduler.framework.plugin import MAX_NODE_SCORE, MIN_NODE_SCORE, NormalizingPlugin, ScorePlugin
from kscheduler.framework.plugin_answers import WrongAnswerError, checked_column, words_of
from kscheduler.framework.pod_info import PodInfo
from kscheduler.scheduling.plugin_failure import PluginFailure


def raw_points(plugin: ScorePlugin, state: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
    """What the plugin gives the rows. Raises `PluginFailure`."""
    try:
        return checked_column(plugin.score(state, pod, nodes, rows), rows, "points")
    except BaseException as error:
        text = f'running Score plugins: plugin "{plugin.name}" failed with: {words_of(error)}'
        raise PluginFailure(text, plugin.name, "Score") from error


def final_points(plugin: ScorePlugin, state: CycleState, pod: PodInfo, rows: Rows, points: Scores) -> Scores:
    """Normalised, if the plugin does that, and within 0..100. Raises `PluginFailure`."""
    if hasattr(plugin, "normalize"):
        points = _normalized(cast("NormalizingPlugin", plugin), state, pod, rows, points)
    least, most = int(points.min()), int(points.max())
    if least < MIN_NODE_SCORE or most > MAX_NODE_SCORE:
        wrong = least if least < MIN_NODE_SCORE else most
        text = f'plugin "{plugin.name}" returns an invalid score {wrong}, it should in the range of'
        wanted = f"[{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
        text = f"applying score defaultWeights on Score plugins: {text} {wanted}"
        raise PluginFailure(text, plugin.name, "Score") from WrongAnswerError(f"{wrong} points")
    return points


def _normalized(plugin: NormalizingPlugin, state: CycleState, pod: PodInfo, rows: Rows, points: Scores) -> Scores:
    try:
        return checked_column(plugin.normalize(state, pod, rows, points), rows, "points")
    except BaseException as error:
        text = f'running Normalize on Score plugins: plugin "{plugin.name}" failed with: {words_of(error)}'
        raise PluginFailure(text, plugin.name, "NormalizeScore") from error
