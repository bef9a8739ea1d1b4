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
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.plugin import PostFilterResult
from kscheduler.framework.status import Code, Status, error
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.cycle.by_class import ClassEvaluator, PlainEvaluator
from kscheduler.scheduling.cycle.evaluator import CycleInputs, Evaluator, PreFiltered, Priorities
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.runtime.cycle_calls import call_post_filter
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import POST_FILTER
from kscheduler.scheduling.runtime.timing import Stopwatch

# Which evaluator a decision gets, and the only place where judging by class falls back to calling every plugin.
#
#     it falls back when                             because
#     the engine has no class for the pod            a plugin does not sign the pod, or its results cannot be kept, or
#                                                    it failed while the columns were filled (which the engine reports)
#     PreFilter rejects the pod, or names nodes      columns are about all nodes, and if several plugins reject, the
#                                                    profile's order decides which of them is named
#     a plugin fails in PreScore or Score            in the profile's order, another plugin may fail before it
#
# A live plugin that fails in PreFilter or Filter ends the cycle at once: the plugins before it have answered, from
# columns.


def pre_filtered(
    inputs: CycleInputs, state: CycleState, engine: ClassEngine | None = None
) -> tuple[Evaluator, PreFiltered]:
    """Run PreFilter. Returns its result with the evaluator for the rest of the cycle: by class if possible.

    Raises `PluginFailure`.
    """
    known_class = engine.known(inputs.pod, inputs.stopwatch) if engine is not None else None
    if known_class is not None:
        by_class = ClassEvaluator(inputs, known_class)
        found = by_class.pre_filtered(state)
        if found.node_names is None and found.status.is_success:
            return by_class, found
        state.clear()  # the plain evaluator runs PreFilter from the beginning
    plain = PlainEvaluator(inputs)
    return plain, plain.pre_filtered(state)


def prioritize(evaluator: Evaluator, inputs: CycleInputs, state: CycleState, feasible: Rows) -> Priorities:
    """The points of the feasible rows. After a failure by class, every plugin is called once more: another may fail,
    or none. Raises `PluginFailure`.
    """
    try:
        return evaluator.prioritize(state, feasible)
    except PluginFailure as failure:
        if isinstance(evaluator, PlainEvaluator):
            raise
        inputs.stopwatch.call_ended(failure.point, failure.plugin, 0)
        inputs.left_out = []  # every plugin is asked again
        priorities = PlainEvaluator(inputs).prioritize(state, feasible)
        # not reached if an in-tree plugin fails again; a user's that does has been reported by now
        if not any(left_out.plugin == failure.plugin for left_out in inputs.left_out):
            failure.report(inputs.profile.listener, inputs.pod)
        return priorities


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
