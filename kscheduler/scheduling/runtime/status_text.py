"""What the codes of filters mean, and more about them: asked of plugins when somebody wants to read it.

A cycle keeps codes; their texts are made after it, in places that expect no failure. So a plugin that cannot tell is
told of in the text itself, and its listener is found in the state of the cycle.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import FilterPlugin, status_of_code
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail, DetailsPlugin
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.framework.status import Status
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import DETAILS, STATUS

DETAILS_FAILED = "detailsFailed"
"""The kind of a detail where a plugin's `details` raised: the decision stands, only this is missing."""


@dataclass(frozen=True, slots=True)
class HearsOfPod:
    """Kept in the state of a cycle that found no node: who hears of a plugin that is asked after the cycle."""

    listener: PluginListener
    pod: PodInfo


def divided(plugin: FilterPlugin, codes: Codes, state: CycleState, rows: Rows, rejections: list[Rejection]) -> Rows:
    """The rows that pass; who turned the others down is added to the rejections."""
    passing = np.flatnonzero(codes == 0)
    if len(passing) == len(rows):
        return rows
    rejected = np.flatnonzero(codes)
    meaning = partial(call_status, plugin, state)
    rejections.append(Rejection(plugin.name, rows.take(rejected), codes.take(rejected), meaning))
    return rows.take(passing)


def call_status(plugin: FilterPlugin, state: CycleState, code: int) -> Status:
    """What a code means; of a plugin that cannot say so, that. The node is turned down all the same."""
    try:
        return STATUS.ask(plugin.name, plugin.status, state, code)
    except PluginFailure as failure:
        hears = state.find(HearsOfPod)
        if hears is not None:
            failure.tell(hears.listener, hears.pod)
        text = f'plugin "{plugin.name}" cannot tell what its code {code} means: {failure}'
        return status_of_code(code, (text,), plugin.name)


def call_details(
    plugin: DetailsPlugin, state: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows
) -> tuple[Detail, ...]:
    """More about rows that the plugin has turned down; of a plugin that cannot say more, that."""
    try:
        return DETAILS.ask(plugin.name, plugin.details, state, pod, nodes, rows)
    except PluginFailure as failure:
        text = f"plugin {plugin.name} could not say more: {failure}"
        return (Detail(DETAILS_FAILED, text, rows, {"error": str(failure)}),)
