"""Filter: which of the nodes that PreFilter left over the pod fits on.

    nominated node first, and alone where it passes -> all rows, or as many as are enough of them

How a row is judged is a matter of the evaluator.
"""

from dataclasses import dataclass

import numpy as np

from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.framework.status import unresolvable
from kscheduler.scheduling.cycle.evaluator import CycleInputs, Evaluator
from kscheduler.scheduling.cycle.sampling import NodeSampler, nodes_to_find
from kscheduler.scheduling.record import SchedulingRecord


@dataclass(slots=True)
class NodeSearch:
    """One pod's way through Filter. Rejections go to the record's diagnosis."""

    evaluator: Evaluator
    inputs: CycleInputs
    record: SchedulingRecord

    def run(self, sampler: NodeSampler) -> Rows:
        """The rows that the pod fits on. Raises `PluginFailure`."""
        nominated = self._nominated_row()
        if nominated >= 0 and self._passes(nominated):
            self.record.num_evaluated_nodes = 1
            return np.array([nominated], dtype=np.intp)
        return self._enough(self._narrowed(), sampler)

    # --- the node that the pod itself is nominated to -----------------------------------------------------------------

    def _nominated_row(self) -> int:
        name = self.record.pod.pod.status.nominated_node_name
        return self.inputs.nodes.row_of(name) if name else -1

    def _passes(self, row: int) -> bool:
        """Whether the nominated node will do. A plugin that fails here gets its say when all nodes are judged.

        PreFilter's narrowing is not asked: a node outside of it is charged to the filter that turned it down here.
        """
        filtered = self.evaluator.filtered(self.record.state, np.array([row], dtype=np.intp))
        if filtered.failure is not None:
            self.inputs.stopwatch.asked(filtered.failure.point, filtered.failure.plugin)
            return False
        names = self.record.node_names
        is_outside = names is not None and self.inputs.nodes.name_of(row) not in names
        if is_outside and not len(filtered.rows):
            self.record.diagnosis.rejections += filtered.rejections
        return len(filtered.rows) > 0

    # --- all nodes ----------------------------------------------------------------------------------------------------

    def _narrowed(self) -> Rows:
        """The rows to judge. Those outside the names that PreFilter gave are turned down by no plugin in particular."""
        record = self.record
        if record.node_names is None:
            return self.inputs.nodes.rows()
        inside = self.inputs.nodes.rows_of(record.node_names)
        is_outside = self.inputs.nodes.is_live.copy()
        is_outside[inside] = False
        for rejection in record.diagnosis.rejections:
            is_outside[rejection.rows] = False
        outside = np.flatnonzero(is_outside)
        if len(outside):
            status = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(record.narrowed_by))}]")
            codes = np.full(len(outside), -1, dtype=np.int64)
            record.diagnosis.rejections.append(Rejection("", outside, codes, lambda _: status))
        return inside

    def _enough(self, rows: Rows, sampler: NodeSampler) -> Rows:
        """The rows that pass; where the profile asks for a share of the nodes, the first so many in visiting order."""
        missing = wanted = nodes_to_find(self.inputs.profile.percentage_of_nodes_to_score, len(rows))
        if wanted >= len(rows):
            self.record.num_evaluated_nodes = len(rows)
            return self._passing(rows)
        order = sampler.visiting_order(self.inputs.nodes, rows)
        found: list[Rows] = []
        looked_at = 0
        while looked_at < len(order) and missing:
            part = order[looked_at : looked_at + wanted]
            self.record.num_evaluated_nodes = looked_at + len(part)  # should a plugin fail
            places = np.flatnonzero(np.isin(part, self._passing(np.sort(part))))[:missing]
            found.append(part[places])
            missing -= len(places)
            looked_at += len(part) if missing else int(places[-1]) + 1
        sampler.move_on(looked_at, len(self.inputs.nodes))
        self.record.num_evaluated_nodes = looked_at
        return np.sort(np.concatenate(found))

    def _passing(self, rows: Rows) -> Rows:
        filtered = self.evaluator.filtered(self.record.state, rows)
        self.record.diagnosis.rejections += filtered.rejections
        if filtered.failure is None:
            return filtered.rows
        try:
            raise filtered.failure
        finally:
            del filtered  # the traceback holds this frame: they would hold each other until a collection
