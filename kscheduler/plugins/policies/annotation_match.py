"""AnnotationMatch: a pod says in an annotation which nodes it must or should have.

    pod:   metadata.annotations: {cluster.type: raspberry}
    node:  metadata.labels or metadata.annotations: {cluster.type: raspberry}

A pod without the annotation goes anywhere. A node may say it in a label or in an annotation; either will do. Values
are compared as they are: `Raspberry` is another value.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from kscheduler.api.core import Node, Pod
from kscheduler.api.meta import KubeObject
from kscheduler.config.plugin_args import PREFERRED, REQUIRED, AnnotationMatchArgs, MatchedKey
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import Codes, Mask, NodeTable, Rows, Scores
from kscheduler.framework.plugin import Plugin, PreFilterResult, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail, grouped
from kscheduler.framework.rules.scoring import default_normalize
from kscheduler.framework.status import SKIP, SUCCESS, Status

# Keys of nodes, each with the value that the pod's annotation asks for.
Wanted = tuple[tuple[str, str], ...]


class AnnotationMatch(Plugin):
    """Rejects nodes that do not match a required annotation; points for those that match preferred ones."""

    name = "AnnotationMatch"
    depends_on = (Source.ROW,)
    reads_pods = False
    normalizes_points_only = True
    MISMATCH = -1
    reasons: ClassVar = {MISMATCH: "node(s) didn't match the Pod's annotations"}

    def __init__(self, args: AnnotationMatchArgs | None, handle: Handle) -> None:
        del handle
        keys = args.keys if args is not None else ()
        self._required = [entry for entry in keys if entry.mode == REQUIRED]
        self._preferred = [entry for entry in keys if entry.mode == PREFERRED]

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """A node that is new or says something else, and the pod's own annotations: nothing else is compared."""
        changes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ANNOTATION
        own = ClusterEvent(Resource.UNSCHEDULABLE_POD, ActionType.UPDATE)
        return (
            ClusterEventWithHint(ClusterEvent(Resource.NODE, changes), self._after_node_change),
            ClusterEventWithHint(own, self._after_own_change),
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """What the pod's annotations ask for."""
        return _wanted(self._required, pod.annotations), _wanted(self._preferred, pod.annotations)

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Skip for a pod that requires nothing."""
        del cycle, nodes
        return PreFilterResult(SUCCESS if _wanted(self._required, pod.annotations) else SKIP)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        """0, or `MISMATCH` where one of the required keys has another value or none: int64 [rows]."""
        del cycle
        matched = np.ones(len(rows), dtype=np.bool_)
        for key, value in _wanted(self._required, pod.annotations):
            matched &= _matches(nodes, rows, key, value)
        return np.where(matched, 0, self.MISMATCH)

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Status:
        """Skip for a pod that prefers nothing."""
        del cycle, nodes, rows
        return SUCCESS if _wanted(self._preferred, pod.annotations) else SKIP

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """How many of the preferred keys match: int64 [rows]."""
        del cycle
        total = np.zeros(len(rows), dtype=np.int64)
        for key, value in _wanted(self._preferred, pod.annotations):
            total += _matches(nodes, rows, key, value)
        return total

    def normalize(self, cycle: CycleState, pod: PodInfo, rows: Rows, scores: Scores) -> Scores:
        """0..100, int64 [rows]: 100 where most keys match."""
        del cycle, pod, rows
        return default_normalize(scores)

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """What the pod asks for, and what the nodes say instead."""
        del cycle
        wanted = _wanted(self._required, pod.annotations)

        def said(row: int) -> tuple[tuple[str, str, str | None], ...]:
            node = nodes.info(row).node
            return tuple(
                (key, value, _message(node, key)) for key, value in wanted if not _node_matches(node, key, value)
            )

        for mismatches, group in grouped(rows, said).items():
            text = "; ".join(
                f"the pod's annotation asks for {key}={value}, "
                + (f"they have {found}" if found is not None else "they have no such label or annotation")
                for key, value, found in mismatches
            )
            facts = [{"key": key, "wanted": value, "found": found} for key, value, found in mismatches]
            yield Detail("annotationMismatch", text, group, {"annotations": facts})

    def _after_node_change(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        """The node matches now, and is new or did not match before."""
        if not isinstance(new, Node):
            return QueueingHint.QUEUE
        wanted = _wanted(self._required, pod.annotations)
        matches = all(_node_matches(new, key, value) for key, value in wanted)
        matched = isinstance(old, Node) and all(_node_matches(old, key, value) for key, value in wanted)
        return QueueingHint.QUEUE if matches and not matched else QueueingHint.SKIP

    def _after_own_change(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        """The pod itself asks for something else now."""
        if not isinstance(new, Pod) or not isinstance(old, Pod):
            return QueueingHint.QUEUE
        if PodInfo(new).uid != pod.uid:
            return QueueingHint.SKIP
        before, now = (_wanted(self._required, version.metadata.annotations) for version in (old, new))
        return QueueingHint.QUEUE if before != now else QueueingHint.SKIP


def _wanted(keys: Iterable[MatchedKey], annotations: Mapping[str, str]) -> Wanted:
    return tuple((entry.node_key or entry.key, annotations[entry.key]) for entry in keys if entry.key in annotations)


def _matches(nodes: NodeTable, rows: Rows, key: str, value: str) -> Mask:
    """Which rows' labels or annotations have the value: bool [rows]."""
    found = (_node_matches(nodes.info(row).node, key, value) for row in rows.tolist())
    return np.fromiter(found, dtype=np.bool_, count=len(rows))


def _node_matches(node: Node | None, key: str, value: str) -> bool:
    if node is None:
        return False
    metadata = node.metadata
    return metadata.labels.get(key) == value or metadata.annotations.get(key) == value


def _message(node: Node | None, key: str) -> str | None:
    if node is None:
        return None
    label = node.metadata.labels.get(key)
    return label if label is not None else node.metadata.annotations.get(key)
