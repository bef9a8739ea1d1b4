"""The meaning of filter codes, and details about rejected rows: plugins are called for these after the cycle.

A cycle keeps only codes. Their texts are made later, by callers that expect no failure. So if a plugin fails to give
one, the text itself says so, and the failure is reported to the `ReportTarget` in the state of the cycle.
"""

from functools import partial

import msgspec

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import NOT_EVALUATED, FilterPlugin, no_reason, status_of_code
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail, DetailsPlugin
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.framework.status import Status
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import DETAILS, STATUS

# The kind of a detail that stands for a failed call of `details`: the decision itself is not affected.
DETAILS_FAILED = "detailsFailed"


class ReportTarget(msgspec.Struct, frozen=True):
    """Where to report a plugin that fails after the cycle. Kept in the state of a cycle that found no node."""

    listener: PluginListener
    pod: PodInfo


def split_rows(plugin: FilterPlugin, codes: Codes, state: CycleState, rows: Rows, rejections: list[Rejection]) -> Rows:
    """The rows with code 0 (intp, in the given order). A `Rejection` with the other rows is added to `rejections`.

    `codes`: an int64 per entry of `rows`.
    """
    rejected = codes.nonzero()[0]
    if not len(rejected):
        return rows
    meaning = partial(call_status, plugin, state)
    rejections.append(Rejection(plugin.name, rows.take(rejected), codes.take(rejected), meaning))
    passing: Rows = rows[:0] if len(rejected) == len(rows) else rows.take((codes == 0).nonzero()[0])
    return passing


def not_evaluated(plugin: str, code: int) -> Status:
    """The meaning of `NOT_EVALUATED`."""
    return status_of_code(code, (f"node(s) for which plugin {plugin} failed",), plugin)


def call_status(plugin: FilterPlugin, state: CycleState, code: int) -> Status:
    """The meaning of a code. If the plugin fails or says nothing, the status says so; the node stays rejected."""
    if code == NOT_EVALUATED:
        return not_evaluated(plugin.name, code)
    try:
        status = STATUS.call(plugin.name, plugin.status, state, code)
        if status.message:
            return status.by(plugin.name)
        return status_of_code(code, (no_reason(plugin.name, code),), plugin.name)
    except PluginFailure as failure:
        target = state.find(ReportTarget)
        if target is not None:
            failure.report(target.listener, target.pod)
        text = f'plugin "{plugin.name}" cannot tell what its code {code} means: {failure}'
        return status_of_code(code, (text,), plugin.name)


def call_details(
    plugin: DetailsPlugin, state: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows
) -> tuple[Detail, ...]:
    """Details about rows that the plugin has rejected. If the plugin fails, one detail says so."""
    try:
        return DETAILS.call(plugin.name, plugin.details, state, pod, nodes, rows)
    except PluginFailure as failure:
        text = f"plugin {plugin.name} could not say more: {failure}"
        return (Detail(DETAILS_FAILED, text, rows, {"error": str(failure)}),)
