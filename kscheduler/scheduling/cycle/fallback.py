"""Which evaluator a decision gets, and the one place where judging by class gives way to judging plainly.

    it gives way where                             because
    the engine knows nothing of the pod's class    a plugin does not sign the pod, or its answers cannot be kept, or it
                                                   has failed while the columns were filled (the engine has reported it)
    PreFilter turns the pod down, or names nodes   columns are about all nodes, and of several plugins that reject the
                                                   profile's order tells which is named
    a plugin fails in PreScore or Score            likewise: asked plainly, another one may fail before it

A live plugin that fails in PreFilter or Filter ends the cycle at once: those before it have answered, from columns.
"""

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.cycle.by_class import ClassEvaluator
from kscheduler.scheduling.cycle.evaluator import CycleInputs, Evaluator, PreFiltered, Priorities
from kscheduler.scheduling.cycle.plain import PlainEvaluator
from kscheduler.scheduling.runtime.guard import PluginFailure


def pre_filtered(
    inputs: CycleInputs, state: CycleState, engine: ClassEngine | None = None
) -> tuple[Evaluator, PreFiltered]:
    """PreFilter, and who is to judge the rows after it: by class where the engine knows the pod's, else plainly.

    Raises `PluginFailure`.
    """
    known = engine.known(inputs.pod, inputs.stopwatch) if engine is not None else None
    if known is not None:
        by_class = ClassEvaluator(inputs, known)
        found = by_class.pre_filtered(state)
        if found.node_names is None and found.status.is_success:
            return by_class, found
        state.clear()
    plain = PlainEvaluator(inputs)
    return plain, plain.pre_filtered(state)


def prioritize(evaluator: Evaluator, inputs: CycleInputs, state: CycleState, feasible: Rows) -> Priorities:
    """What the feasible rows have earned. After a failure by class the plugins are asked once more, plainly: it may
    come to another failure, or to none. Raises `PluginFailure`.
    """
    try:
        return evaluator.prioritize(state, feasible)
    except PluginFailure as failure:
        if isinstance(evaluator, PlainEvaluator):
            raise
        inputs.stopwatch.asked(failure.point, failure.plugin)
        priorities = PlainEvaluator(inputs).prioritize(state, feasible)
        failure.tell(inputs.profile.listener, inputs.pod)  # it answers now: otherwise it would be reported there
        return priorities
