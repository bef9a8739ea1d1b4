"""Filter: on which of the nodes that PreFilter allows the pod fits.

    the nominated node passes? yes: only this node
                               no:  all rows, or a sample of them (`NodeSampler`)

How a row is judged is up to the evaluator.
"""

from dataclasses import dataclass

import numpy as np

from kscheduler.framework.cluster.pod_groups import NodeRanks
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.framework.status import unresolvable
from kscheduler.scheduling.cycle.evaluator import CycleInputs, Evaluator
from kscheduler.scheduling.cycle.sampling import NodeSampler, nodes_to_find
from kscheduler.scheduling.extenders.extender_results import ExtenderResults
from kscheduler.scheduling.record import SchedulingRecord


@dataclass(slots=True)
class NodeSearch:
    """The search for one pod. Rejections go to the record's diagnosis."""

    evaluator: Evaluator
    inputs: CycleInputs
    record: SchedulingRecord
    answers: ExtenderResults | None = None
    """What extenders have said about the pod, if it concerns any."""
    ranks: NodeRanks | None = None
    """Which nodes are looked at first, if only some are."""

    def run(self, sampler: NodeSampler) -> Rows:
        """The rows that the pod fits on: intp, ascending, empty if none. Raises `PluginFailure`."""
        nominated = self._nominated_row()
        if nominated >= 0 and not self._is_rejected(nominated) and self._passes(nominated):
            self.record.num_evaluated_nodes = 1
            return np.array([nominated], dtype=np.intp)
        return self._find(self._narrowed(), sampler)

    # --- the node that the pod itself is nominated to -----------------------------------------------------------------

    def _nominated_row(self) -> int:
        name = self.record.pod.pod.status.nominated_node_name
        row, within = self.inputs.nodes.row_of(name) if name else -1, self.inputs.within
        return row if within is None or row in within else -1

    def _is_rejected(self, row: int) -> bool:
        """Whether extenders were asked about the nominated node and did not leave it: then all others are judged."""
        answers = self.answers
        return answers is not None and self.inputs.nodes.name_of(row) in answers.asked_nodes - answers.left

    def _passes(self, row: int) -> bool:
        """Whether the pod fits on its nominated node. A failure here is not final: all nodes are judged after it.

        The nominated node may be outside the names that PreFilter gave, as in kube-scheduler; then it is charged to
        the filter that rejects it here.
        """
        filtered = self.evaluator.filtered(self.record.state, np.array([row], dtype=np.intp))
        if filtered.failure is not None:
            self.inputs.stopwatch.call_ended(filtered.failure.point, filtered.failure.plugin, 0)
            return False
        names = self.record.node_names
        is_outside = names is not None and self.inputs.nodes.name_of(row) not in names
        if is_outside and not len(filtered.rows):
            self.record.diagnosis.rejections += filtered.rejections
        return len(filtered.rows) > 0

    # --- all nodes ----------------------------------------------------------------------------------------------------

    def _narrowed(self) -> Rows:
        """The rows to judge. Rows outside the names that PreFilter gave are charged to no single plugin."""
        record, nodes, within = self.record, self.inputs.nodes, self.inputs.within
        if record.node_names is None:
            return self.inputs.rows
        inside = nodes.rows_of(record.node_names)
        if within is None:
            is_outside = nodes.is_live.copy()
        else:
            inside = np.intersect1d(inside, within, assume_unique=True)
            is_outside = np.zeros_like(nodes.is_live)
            is_outside[within] = True
        is_outside[inside] = False
        for rejection in record.diagnosis.rejections:
            is_outside[rejection.rows] = False
        outside = is_outside.nonzero()[0]
        if len(outside):
            status = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(record.narrowed_by))}]")
            codes = np.full(len(outside), -1, dtype=np.int64)
            record.diagnosis.rejections.append(Rejection("", outside, codes, lambda _: status))
        return inside

    def _find(self, rows: Rows, sampler: NodeSampler) -> Rows:
        """The rows that pass; if the profile samples nodes, the first ones in visiting order, ascending.

        Example: 5,000 rows at 10 % search for 500 feasible rows, in parts of 500 rows each. If the third part holds
        the 500th, the search stops at it, and the next search starts behind it.
        """
        missing = target = nodes_to_find(self.inputs.profile.percentage_of_nodes_to_score, len(rows))
        has_answers = self.answers is not None and bool(self.answers.asked_nodes)  # they are about another sample
        if target >= len(rows) or has_answers:
            self.record.num_evaluated_nodes = len(rows)
            passing = self._passing(rows)
            sampler.move_on(len(rows), len(self.inputs.rows))  # back to the same place, unless PreFilter named nodes
            return passing
        order = sampler.visiting_order(self.inputs.nodes, rows)
        if self.ranks is not None:
            order = order[np.argsort(self.ranks.of(order), kind="stable")]
        found: list[Rows] = []
        visited = 0
        while visited < len(order) and missing:
            part = order[visited : visited + target]
            self.record.num_evaluated_nodes = visited + len(part)  # the record shows this if a plugin fails now
            places = np.isin(part, self._passing(np.sort(part))).nonzero()[0][:missing]
            found.append(part[places])
            missing -= len(places)
            visited += len(part) if missing else int(places[-1]) + 1
        sampler.move_on(visited, len(self.inputs.rows))
        self.record.num_evaluated_nodes = visited
        return np.sort(np.concatenate(found))

    def _passing(self, rows: Rows) -> Rows:
        filtered = self.evaluator.filtered(self.record.state, rows)
        self.record.diagnosis.rejections += filtered.rejections
        if filtered.failure is None:
            return filtered.rows
        try:
            raise filtered.failure
        finally:
            del filtered  # else traceback and frame refer to each other until a garbage collection
