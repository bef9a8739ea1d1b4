"""Which evaluator a decision gets, and where judging by class falls back to calling every plugin.

`schedule` asks for no class where that is known before PreFilter: for pods whose node affinity names nodes, and others.

    it falls back when                             because
    the engine has no class for the pod            a plugin does not sign the pod, or its results cannot be kept, or
                                                   it failed while the columns were filled (which the engine reports)
    PreFilter rejects the pod, or names nodes      columns are about all nodes, and if several plugins reject, the
                                                   profile's order decides which of them is named
    a plugin fails in PreScore or Score            in the profile's order, another plugin may fail before it

A live plugin that fails in PreFilter or Filter ends the cycle at once: the plugins before it have answered, from
columns.
"""

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.classes.known_class import Repeat
from kscheduler.scheduling.cycle.by_class import ClassEvaluator, PlainEvaluator
from kscheduler.scheduling.cycle.evaluator import CycleInputs, Evaluator, PreFiltered, Priorities
from kscheduler.scheduling.runtime.guard import PluginFailure


def pre_filtered(
    inputs: CycleInputs, state: CycleState, engine: ClassEngine | None = None, repeat: Repeat | None = None
) -> tuple[Evaluator, PreFiltered]:
    """Run PreFilter. Returns its result with the evaluator for the rest of the cycle: by class if possible.

    `repeat`: of the engine, for this pod; its class is up to date.

    Raises `PluginFailure`.
    """
    known_class = repeat.known if repeat is not None else None
    if known_class is None and engine is not None:
        repeat, known_class = None, engine.known(inputs.pod, inputs.stopwatch)
    if known_class is not None:
        by_class = ClassEvaluator(inputs, known_class, repeat)
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
