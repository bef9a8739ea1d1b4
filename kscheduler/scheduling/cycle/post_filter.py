"""PostFilter: no node fits, so what now? Preemption makes room, or says why it cannot.

    a plugin answers       then
    Success                it is done; its nomination counts
    UU                     it ends there, with its message
    U (or Pending)         its message and nomination are remembered, and the next one is asked
    anything else          it ends there, with the error's text (Skip too, Q19)

A success may come with an instruction, whom to evict (`Preemption`). It goes to the record: the cycle starts nothing.

Whatever comes of it, the attempt has failed: the pod is tried again when room has been made. A profile without such
plugins takes back whatever nomination the pod has. DefaultPreemption is not asked where an extender would have a say.
"""

from typing import Final, Protocol

from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.plugin import PostFilterResult
from kscheduler.framework.status import SUCCESS, Code, Status, error
from kscheduler.scheduling.missing_rules import preemption_status
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.runtime.cycle_calls import call_post_filter
from kscheduler.scheduling.runtime.points import POST_FILTER

_ASKS_EXTENDERS: Final = "DefaultPreemption"
"""The plugin that shows its candidates to extenders."""


class Watch(Protocol):
    """Hears what was asked, and how it ended."""

    def lap(self, point: str, status: Status) -> None:
        """An extension point has run."""
        ...

    def post_filtered(self, plugin: str) -> None:
        """A PostFilter plugin has been asked."""
        ...


def run_post_filter(profile: Profile, record: SchedulingRecord, nodes: NodeTable, watch: Watch) -> None:
    """Ask the profile's PostFilter plugins; what they say goes to the record."""
    if not profile.post_filter:
        record.nominated_node_name = ""
        return
    result = _result(profile, record, nodes, watch)
    record.post_filter = result.status
    record.post_filter_message = result.status.message
    record.nominated_node_name = result.nominated_node_name
    record.preemption = result.preemption
    watch.lap(POST_FILTER.label, result.status)


def _result(profile: Profile, record: SchedulingRecord, nodes: NodeTable, watch: Watch) -> PostFilterResult:
    reasons: list[str] = []
    first = ""
    nominated: str | None = None
    for plugin in profile.post_filter:
        held = preemption_status(record.pod, profile.extenders) if plugin.name == _ASKS_EXTENDERS else SUCCESS
        result = PostFilterResult(held)
        if held.is_success:
            result = call_post_filter(plugin, profile.listener, record.state, record.pod, nodes, record.diagnosis)
        watch.post_filtered(plugin.name)
        status = result.status.by(plugin.name)
        if status.is_success:
            return PostFilterResult(status, result.nominated_node_name, result.preemption)
        if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return PostFilterResult(status, result.nominated_node_name)
        if not status.is_rejected:
            return PostFilterResult(error(*status.reasons, plugin=plugin.name, fault=status.fault))
        if result.nominated_node_name is not None:
            nominated = result.nominated_node_name
        reasons += status.reasons
        first = first or plugin.name
    return PostFilterResult(Status(Code.UNSCHEDULABLE, tuple(reasons), first), nominated)
