"""The result of a cycle: one record, many readers.

Logs, metrics, Events, conditions and `explain` are derived from it. The arrays are copies of the cycle; node names are
frozen by row. A bound pod's record is dropped with its attempt. If a `ClassEngine` was used and the pod fits somewhere,
the record holds rejections and points by plugin only if the engine was made with `reports_all`.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

import msgspec
import numpy as np

from kscheduler.framework.cluster.claim_writing import Deallocation
from kscheduler.framework.cluster.preemption import Candidate, Preemption
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import Rows, Scores
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import NO_NODES_AVAILABLE, Diagnosis, FitError
from kscheduler.framework.status import SUCCESS, Code, Status
from kscheduler.scheduling.runtime.partial_results import MissingPoints

NO_ROWS: Rows = np.zeros(0, dtype=np.intp)
NO_SCORES: Scores = np.zeros(0, dtype=np.int64)


class PluginScores(msgspec.Struct, frozen=True):
    """One plugin's final points: normalised to 0..100 and multiplied by its weight."""

    plugin: str
    weight: int
    points: Scores
    """An int64 per feasible row."""


@dataclass(slots=True)
class SchedulingRecord:
    """One pass of one pod through the cycle."""

    pod: PodInfo
    profile: str
    num_all_nodes: int = 0
    state: CycleState = field(default_factory=CycleState)
    status: Status = SUCCESS
    """Success with a node, a rejection, or an error with its text."""
    node_name: str = ""
    node_names: frozenset[str] | None = None
    """The names to which PreFilter restricted the search; `None` means all nodes."""
    narrowed_by: tuple[str, ...] = ()
    """The plugins that restricted it."""
    skipped: Collection[str] = ()
    """The plugins whose PreFilter said that their filter has nothing to judge."""
    feasible: Rows = field(default_factory=lambda: NO_ROWS)
    diagnosis: Diagnosis = field(default_factory=Diagnosis)
    scores: tuple[PluginScores, ...] = ()
    left_out: tuple[MissingPoints, ...] = ()
    """The score plugins that failed: some of the nodes, or all, got no points from them."""
    totals: Scores = field(default_factory=lambda: NO_SCORES)
    """Sums of weighted points, an int64 per feasible row. Empty if nothing was scored, or if a class knew its best rows
    already: then `most_points` says all.
    """
    most_points: int | None = None
    """The highest sum; `None` until a node is chosen by points."""
    num_evaluated_nodes: int = 0
    """How many nodes were judged: one if the pod fits on its nominated node, fewer than all in a sampled search."""
    post_filter: Status | None = None
    """How PostFilter ended; `None` if it did not run."""
    queries: tuple[str, ...] = ()
    """The nodes that extenders must be asked about: then the status is a success without a node."""
    victim_queries: tuple[Candidate, ...] = ()
    """The candidates for preemption that extenders must be asked about: then PostFilter has chosen none."""
    nominated_node_name: str | None = None
    """PostFilter's nomination: a node that will have room; empty clears an earlier nomination, `None` leaves it."""
    preemption: Preemption | None = None
    """The preemption that PostFilter has chosen. The attempt begins it, not the cycle."""
    deallocation: Deallocation | None = None
    """The claim that PostFilter wants to be free of its devices. The attempt begins it as well."""
    post_filter_message: str = ""
    """The end of the message: why PostFilter could not help."""

    @property
    def message(self) -> str:
        """Why there is no node, the text of condition and Event; empty if there is one."""
        if self.status.is_success:
            return ""
        if self.status.code is Code.ERROR or self.num_all_nodes == 0:
            return self.status.message
        return FitError(self.num_all_nodes, self.diagnosis, self.post_filter_message).message

    @property
    def best_score(self) -> int | None:
        """The points of the chosen node; `None` if nothing was scored."""
        return int(self.totals.max()) if self.most_points is None and len(self.totals) else self.most_points

    def feasible_names(self) -> list[str]:
        """The nodes that passed."""
        return [self.diagnosis.names[row] for row in self.feasible.tolist()]

    def best_names(self) -> list[str]:
        """The nodes with the most points; without scores, all that passed."""
        if not len(self.totals):
            return self.feasible_names()
        best = self.feasible[self.totals == self.totals.max()]
        return [self.diagnosis.names[row] for row in best.tolist()]

    @property
    def only_nominated(self) -> bool:
        """Whether only the nominated node was judged, because the pod fits there."""
        nominated = self.pod.pod.status.nominated_node_name
        return bool(nominated) and self.num_evaluated_nodes == 1 < self.num_all_nodes and self.node_name == nominated


# There are no nodes, so no plugin has rejected the pod: it backs off as after an error (Q17).
NO_NODES = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (NO_NODES_AVAILABLE,))
