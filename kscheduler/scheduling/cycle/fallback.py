"""Which evaluator a decision gets, and the one place where judging by class gives way to judging plainly.

    it gives way where                             because
    the engine knows nothing of the pod's class    a plugin does not sign the pod, or its answers cannot be kept, or it
                                                   has failed while the columns were filled (the engine has reported it)
    PreFilter turns the pod down, or names nodes   columns are about all nodes, and of several plugins that reject the
                                                   profile's order tells which is named
    a plugin fails in PreScore or Score            likewise: asked plainly, another one may fail before it

A live plugin that fails in PreFilter or Filter ends the cycle at once: those before it have answered, from columns.
"""

from kscheduler.framework.change_log import ChangeLog
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_run import DryRun
from kscheduler.framework.node_table import Rows
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.cycle.by_class import ClassEvaluator
from kscheduler.scheduling.cycle.evaluator import CycleInputs, Evaluator, Filtered, PreFiltered, Priorities
from kscheduler.scheduling.cycle.plain import PlainEvaluator
from kscheduler.scheduling.runtime.guard import PluginFailure


def evaluator_for(inputs: CycleInputs, engine: ClassEngine | None) -> Evaluator:
    """By class where the profile's engine knows the pod's, else plain."""
    known = engine.known(inputs.pod, inputs.stopwatch) if engine is not None else None
    return PlainEvaluator(inputs) if known is None else FallbackEvaluator(inputs, ClassEvaluator(inputs, known))


class FallbackEvaluator:
    """Judges by class as long as that does. Implements `Evaluator`."""

    __slots__ = ("_current", "_inputs", "_is_plain")

    def __init__(self, inputs: CycleInputs, by_class: ClassEvaluator) -> None:
        self._inputs = inputs
        self._current: Evaluator = by_class
        self._is_plain = False

    def _fall_back(self) -> Evaluator:
        self._current, self._is_plain = PlainEvaluator(self._inputs), True
        return self._current

    def pre_filter(self, state: CycleState) -> PreFiltered:
        """Unless all nodes are to be judged, the state is emptied, and everything asked plainly."""
        found = self._current.pre_filter(state)
        if found.lets_all_through:
            return found
        state.clear()
        return self._fall_back().pre_filter(state)

    def filter(self, state: CycleState, rows: Rows) -> Filtered:
        """As PreFilter was."""
        return self._current.filter(state, rows)

    def dry_run(self, expected_changes: ChangeLog) -> DryRun:
        """As PreFilter was."""
        return self._current.dry_run(expected_changes)

    def prioritize(self, state: CycleState, feasible: Rows) -> Priorities:
        """After a failure once more, plainly: it may come to another failure, or to none."""
        try:
            return self._current.prioritize(state, feasible)
        except PluginFailure as failure:
            if self._is_plain:
                raise
            stopwatch, profile = self._inputs.stopwatch, self._inputs.profile
            stopwatch.asked(failure.point, failure.plugin)
            priorities = self._fall_back().prioritize(state, feasible)
            failure.tell(profile.listener, self._inputs.pod)  # it answers now: otherwise it would be reported there
            return priorities
