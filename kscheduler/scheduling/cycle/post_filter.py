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

from kscheduler.framework.node_table import NodeTable
from kscheduler.framework.plugin import PostFilterPlugin, PostFilterResult
from kscheduler.framework.plugin_answers import WrongAnswerError, checked
from kscheduler.framework.preemption import Preemption
from kscheduler.framework.status import SUCCESS, Code, Fault, Status, error
from kscheduler.scheduling.missing_rules import preemption_status
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord

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
    watch.lap("PostFilter", result.status)


def _result(profile: Profile, record: SchedulingRecord, nodes: NodeTable, watch: Watch) -> PostFilterResult:
    reasons: list[str] = []
    first = ""
    nominated: str | None = None
    for plugin in profile.post_filter:
        held = preemption_status(record.pod, profile.extenders) if plugin.name == _ASKS_EXTENDERS else SUCCESS
        result = _asked(plugin, profile, record, nodes) if held.is_success else PostFilterResult(held)
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


def _asked(plugin: PostFilterPlugin, profile: Profile, record: SchedulingRecord, nodes: NodeTable) -> PostFilterResult:
    try:
        return _checked(plugin.post_filter(record.state, record.pod, nodes, record.diagnosis))
    except BaseException as failure:  # noqa: BLE001  a plugin call
        profile.listener.failed(plugin.name, "PostFilter", record.pod, failure)
        text = f'running PostFilter plugin "{plugin.name}": {type(failure).__name__}: {failure}'
        return PostFilterResult(error(text, fault=Fault.BUG))


def _checked(answer: object) -> PostFilterResult:
    """The answer, if it is one that can be acted on. Raises `WrongAnswerError`."""
    result = checked(answer, PostFilterResult)
    checked(result.status, Status)
    if result.nominated_node_name is not None:
        checked(result.nominated_node_name, str)
    if result.preemption is not None:
        checked(result.preemption, Preemption)
        if not result.status.is_success:
            raise WrongAnswerError(f"it answered a preemption with status {result.status.code.label}, not Success")
    return result
