"""PostFilter: no node fits the pod. Preemption makes room for it, or says why it cannot.

    a plugin answers                     then
    Success                              the pass ends; the plugin's nomination counts
    UnschedulableAndUnresolvable         the pass ends with the plugin's message
    Unschedulable or Pending             message and nomination are remembered, and the next plugin is called
    anything else (also Skip, Q19)       the pass ends with the text of the error

A success may come with an instruction which pods to evict (`Preemption`). It is only written to the record: the
attempt carries it out, not the cycle. So does a rejection with an instruction which claim to free of its devices
(`Deallocation`); in kube-scheduler the plugin does that itself, before the next plugin is called.

The attempt has failed in any case: the pod is tried again once there is room. A profile without PostFilter plugins
clears the pod's nomination.
"""

from kscheduler.framework.cluster.claim_writing import Deallocation
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.plugin import PostFilterResult
from kscheduler.framework.status import Code, Status, error
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.runtime.cycle_calls import call_post_filter
from kscheduler.scheduling.runtime.points import POST_FILTER
from kscheduler.scheduling.runtime.timing import Stopwatch


def run_post_filter(profile: Profile, record: SchedulingRecord, nodes: NodeTable, stopwatch: Stopwatch) -> None:
    """Run the profile's PostFilter plugins and write the result to the record."""
    if not profile.post_filter:
        record.nominated_node_name = ""
        return
    result = _result(profile, record, nodes, stopwatch)
    record.post_filter = result.status
    record.post_filter_message = result.status.message
    record.nominated_node_name = result.nominated_node_name
    record.preemption = result.preemption
    record.deallocation = result.deallocation
    stopwatch.lap(POST_FILTER.label, result.status)


def _result(profile: Profile, record: SchedulingRecord, nodes: NodeTable, stopwatch: Stopwatch) -> PostFilterResult:
    reasons: list[str] = []
    first = ""
    nominated: str | None = None
    deallocation: Deallocation | None = None
    for plugin in profile.post_filter:
        result = call_post_filter(plugin, profile.listener, record.state, record.pod, nodes, record.diagnosis)
        stopwatch.post_filtered(plugin.name, result.status.code.label)
        status = result.status.by(plugin.name)
        if status.is_success:
            return PostFilterResult(status, result.nominated_node_name, result.preemption, deallocation)
        if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return PostFilterResult(status, result.nominated_node_name, deallocation=deallocation)
        if not status.is_rejected:
            failure = error(*status.reasons, plugin=plugin.name, fault=status.fault)
            return PostFilterResult(failure, deallocation=deallocation)
        if result.nominated_node_name is not None:
            nominated = result.nominated_node_name
        deallocation = deallocation or result.deallocation
        reasons += status.reasons
        first = first or plugin.name
    rejection = Status(Code.UNSCHEDULABLE, tuple(reasons), first)
    return PostFilterResult(rejection, nominated, deallocation=deallocation)
