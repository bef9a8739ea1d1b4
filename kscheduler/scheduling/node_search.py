"""Filter: which of the nodes that PreFilter left over the pod fits on.

    nominated node first, and alone where it passes -> all rows, or as many as are enough of them

Filters run in order on the rows that are still alive, so a node is charged to the first plugin that turns it down. A
row that other pods are nominated to is judged with them and without (see `nominations`).
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.diagnosis import Rejection
from kscheduler.framework.node_table import NodeTable, Rows
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.status import unresolvable
from kscheduler.scheduling.nominations import crowded
from kscheduler.scheduling.plugin_failure import PluginFailure
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.sampling import NodeSampler, nodes_to_find


class Tally(Protocol):
    """Hears how often plugins are asked."""

    def evaluated(self, point: str, plugin: str) -> None:
        """A plugin has been asked."""
        ...


@dataclass(frozen=True, slots=True)
class NodeSearch:
    """One pod's way through Filter. Rejections go to the record's diagnosis."""

    profile: Profile
    record: SchedulingRecord
    nodes: NodeTable
    expected: dict[int, tuple[PodInfo, ...]]
    """Nominated pods that the pod must leave room for, by row."""
    skipped: Collection[str]
    """Plugins whose PreFilter said that their filter has nothing to judge."""
    tally: Tally

    def run(self, sampler: NodeSampler) -> Rows:
        """The rows that the pod fits on. Raises `PluginFailure`."""
        nominated = self._nominated_row()
        if nominated >= 0 and self._passes(nominated):
            return np.array([nominated], dtype=np.intp)
        return self._enough(self._narrowed(), sampler)

    # --- the node that the pod itself is nominated to -----------------------------------------------------------------

    def _nominated_row(self) -> int:
        name = self.record.pod.pod.status.nominated_node_name
        return self.nodes.row_of(name) if name else -1

    def _passes(self, row: int) -> bool:
        """Whether the nominated node will do. A plugin that fails here gets its say when all nodes are judged.

        PreFilter's narrowing is not asked: a node outside of it is charged to the filter that turned it down here.
        """
        rejections = self.record.diagnosis.rejections
        try:
            passing = self._passing(np.array([row], dtype=np.intp))
        except PluginFailure:
            rejections.clear()
            return False
        names = self.record.node_names
        if len(passing) or names is None or self.nodes.name_of(row) in names:
            rejections.clear()
        return len(passing) > 0

    # --- all nodes ----------------------------------------------------------------------------------------------------

    def _narrowed(self) -> Rows:
        """The rows to judge. Those outside the names that PreFilter gave are turned down by no plugin in particular."""
        record, rows = self.record, self.nodes.rows()
        if record.node_names is None:
            return rows
        inside = self.nodes.rows_of(record.node_names)
        outside = np.setdiff1d(rows, inside, assume_unique=True)
        for rejection in record.diagnosis.rejections:
            outside = np.setdiff1d(outside, rejection.rows, assume_unique=True)
        if len(outside):
            status = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(record.narrowed_by))}]")
            codes = np.full(len(outside), -1, dtype=np.int64)
            record.diagnosis.rejections.append(Rejection("", outside, codes, lambda _: status))
        return inside

    def _enough(self, rows: Rows, sampler: NodeSampler) -> Rows:
        """The rows that pass; where the profile asks for a share of the nodes, the first so many in visiting order."""
        missing = wanted = nodes_to_find(self.profile.percentage_of_nodes_to_score, len(rows))
        if wanted >= len(rows):
            return self._passing(rows)
        order = sampler.visiting_order(self.nodes, rows)
        found: list[Rows] = []
        looked_at = 0
        while looked_at < len(order) and missing:
            part = order[looked_at : looked_at + wanted]
            places = np.flatnonzero(np.isin(part, self._passing(np.sort(part))))[:missing]
            found.append(part[places])
            missing -= len(places)
            looked_at += len(part) if missing else int(places[-1]) + 1
        sampler.move_on(looked_at, len(self.nodes))
        return np.sort(np.concatenate(found))

    # --- judging ------------------------------------------------------------------------------------------------------

    def _passing(self, rows: Rows) -> Rows:
        """The rows that pass with the pods that are nominated to them, and without."""
        if self.expected:
            rows = self._beside_nominated(rows)
        return self._filtered(self.nodes, self.record.state, rows)

    def _beside_nominated(self, rows: Rows) -> Rows:
        """The rows without those where the pod has no place beside the nominated ones."""
        nominated = np.fromiter(self.expected, dtype=np.intp, count=len(self.expected))
        expected = {row: self.expected[row] for row in np.intersect1d(rows, nominated, assume_unique=True).tolist()}
        record = self.record
        for one in crowded(self.profile, record.pod, self.nodes, record.state, expected, self.skipped):
            passing = self._filtered(one.nodes, one.state, one.rows)
            turned_down = np.setdiff1d(one.rows, passing, assume_unique=True)
            rows = np.setdiff1d(rows, turned_down, assume_unique=True)
        return rows

    def _filtered(self, nodes: NodeTable, state: CycleState, rows: Rows) -> Rows:
        record = self.record
        for plugin in self.profile.filter:
            if plugin.name in self.skipped:
                continue
            if not len(rows):
                break
            try:
                codes = _one_per_row(plugin.filter(state, record.pod, nodes, rows), rows)
            except Exception as error:
                raise PluginFailure(f'running "{plugin.name}" filter plugin: {error}') from error
            self.tally.evaluated("Filter", plugin.name)
            if codes is None:
                continue
            rejected = codes != 0
            if rejected.any():
                meaning = partial(plugin.status, state)
                record.diagnosis.rejections.append(Rejection(plugin.name, rows[rejected], codes[rejected], meaning))
                rows = rows[~rejected]
        return rows


def _one_per_row(answer: NDArray[np.int64] | None, rows: Rows) -> NDArray[np.int64] | None:
    """What a plugin answered, if it has the shape of the question; inside its `try`, so that the error names it."""
    if answer is not None and answer.shape != rows.shape:
        raise ValueError(f"it answered with an array of shape {answer.shape} for {len(rows)} nodes")
    return answer
