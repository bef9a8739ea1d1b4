"""TaintToleration: taints keep pods off a node, or lower its score, unless the pod tolerates them.

Nodes share few distinct sets of taints. Each set is judged once per list of tolerations, and a single lookup gives
every row the verdict of its set.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar

import numpy as np

from kscheduler.api.core import Node, Pod
from kscheduler.api.meta import KubeObject
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.nodes.per_taint_set import PerTaintSet, Taints, Tolerations
from kscheduler.framework.plugin import PASS_ALL, Plugin, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail, grouped
from kscheduler.framework.reasons.wording import taint_facts, taint_text
from kscheduler.framework.rules.node_match import (
    COMPARISON_OPERATORS,
    PREFER_NO_SCHEDULE,
    any_tolerates,
    has_untolerated,
)
from kscheduler.framework.rules.scoring import default_normalize


class TaintToleration(Plugin):
    """Rejects nodes with untolerated NoSchedule or NoExecute taints; PreferNoSchedule taints cost points."""

    name = "TaintToleration"
    depends_on = (Source.ROW,)
    reads_pods = False
    reads_spec_only = True
    hints_by_spec = True
    judges_without_labels = True
    normalizes_points_only = True
    UNTOLERATED = -1
    reasons: ClassVar = {UNTOLERATED: "node(s) had untolerated taint(s)"}

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args
        self._compares = COMPARISON_OPERATORS in handle.features
        self._verdicts = PerTaintSet(self._verdict)
        self._prefer_no_schedule = PerTaintSet(self._count_prefer_no_schedule)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """A node that is new or has other taints, or a new toleration of the pod: nothing else is compared."""
        node = ClusterEvent(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT)
        toleration = ClusterEvent(Resource.POD, ActionType.UPDATE_POD_TOLERATION)
        return (
            ClusterEventWithHint(node, self._after_node_change),
            ClusterEventWithHint(toleration, _after_toleration_change),
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """The pod's tolerations."""
        return pod.tolerations

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """Rows with a taint that the pod does not tolerate: int64 [rows]."""
        del cycle
        codes = self._verdicts.table(nodes, pod.tolerations)
        return codes[nodes.taint_set[rows]] if codes.any() else PASS_ALL

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """The number of PreferNoSchedule taints that the pod does not tolerate: int64 [rows]."""
        del cycle
        counts = self._prefer_no_schedule.table(nodes, pod.tolerations)
        return counts[nodes.taint_set[rows]] if counts.any() else np.zeros(len(rows), dtype=np.int64)

    def normalize(self, cycle: CycleState, pod: PodInfo, rows: Rows, scores: Scores) -> Scores:
        """0..100, int64 [rows]: the fewest such taints are the best."""
        del cycle, pod, rows
        return default_normalize(scores, reverse=True)

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """Which taints are not tolerated, by group of nodes."""
        del cycle

        def untolerated(row: int) -> Taints:
            taints = nodes.taint_sets[int(nodes.taint_set[row])]  # one for all nodes that are alike in this
            return tuple(taint for taint in taints if self._verdict((taint,), pod.tolerations))

        for taints, group in grouped(rows, untolerated).items():
            is_or_are = "is" if len(taints) == 1 else "are"
            text = f"{', '.join(map(taint_text, taints))} {is_or_are} not tolerated"
            yield Detail("untoleratedTaint", text, group, {"taints": [taint_facts(taint) for taint in taints]})

    def _verdict(self, taints: Taints, tolerations: Tolerations) -> int:
        return self.UNTOLERATED if self._is_closed(taints, tolerations) else 0

    def _is_closed(self, taints: Taints, tolerations: Tolerations) -> bool:
        return has_untolerated(taints, tolerations, compares=self._compares)

    def _count_prefer_no_schedule(self, taints: Taints, tolerations: Tolerations) -> int:
        """PreferNoSchedule taints that no toleration covers; a toleration of another effect cannot cover them."""
        soft_taints = (taint for taint in taints if taint.effect == PREFER_NO_SCHEDULE)
        return sum(not any_tolerates(tolerations, taint, compares=self._compares) for taint in soft_taints)

    def _after_node_change(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        """The node's taints no longer keep the pod off, or the node is new and its taints do not."""
        if not isinstance(new, Node):
            return QueueingHint.QUEUE
        was_closed = not isinstance(old, Node) or self._is_closed(old.spec.taints, pod.tolerations)
        is_open = not self._is_closed(new.spec.taints, pod.tolerations)
        return QueueingHint.QUEUE if was_closed and is_open else QueueingHint.SKIP


def _after_toleration_change(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """An update of the pod itself: tolerations can only be added."""
    del old
    is_own = not isinstance(new, Pod) or PodInfo(new).uid == pod.uid
    return QueueingHint.QUEUE if is_own else QueueingHint.SKIP
