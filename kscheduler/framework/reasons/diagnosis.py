"""Why a pod fits on no node, kept as codes and turned into text only when it is needed.

A cycle over 5,000 nodes must not build 5,000 sentences. A `Rejection` keeps the rows that a plugin rejected and a small
number for each; the plugin translates the numbers. Counting reasons then costs as much as there are distinct codes.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from kscheduler.framework.nodes.node_table import Codes, Rows
from kscheduler.framework.status import SUCCESS, Code, Status

NO_NODES_AVAILABLE = "no nodes available to schedule pods"
# Characters of a message; as many as the API lets a condition have elsewhere (`metav1.Condition`).
LONGEST_REASONS: Final = 32_768


class Rejection(msgspec.Struct, frozen=True):
    """The rows that a plugin has rejected."""

    plugin: str
    """Empty for nodes outside the names that PreFilter plugins narrowed the search to."""
    rows: Rows
    codes: Codes
    """A code per row, never 0."""
    status_of: Callable[[int], Status]
    """The status that a code stands for."""

    def counted(self) -> Iterator[tuple[Status, int]]:
        """Each distinct status with its number of rows."""
        first = self.codes[:1]
        if np.count_nonzero(self.codes == first) == len(self.codes):
            for code in first.tolist():  # nearly always: `unique` sorts, which takes longer than the filter itself
                yield self.status_of(code), len(self.codes)
            return
        for code, count in zip(*np.unique(self.codes, return_counts=True), strict=True):
            yield self.status_of(int(code)), int(count)


@dataclass(slots=True)
class Diagnosis:
    """The rejections of a cycle, whether it found a node or not."""

    names: tuple[str, ...] = ()
    """Node names by row, frozen: rows are reused later."""
    pre_filter: Status = SUCCESS
    """A rejection for all nodes at once, if there was one."""
    rejections: list[Rejection] = field(default_factory=list)
    narrowed_by: frozenset[str] = frozenset()
    """The plugins whose PreFilter named the only nodes that can fit."""

    @property
    def plugins(self) -> frozenset[str]:
        """The plugins that rejected a node (or the pod) or narrowed the search: their events may change the outcome."""
        by_node = {rejection.plugin for rejection in self.rejections if rejection.plugin}
        return self.narrowed_by | by_node | ({self.pre_filter.plugin} if self.pre_filter.plugin else set())

    def by_node(self) -> Iterator[tuple[str, Status]]:
        """Every rejected node's name with its status."""
        for status, names in self.by_status():
            for name in names:
                yield name, status

    def by_status(self) -> Iterator[tuple[Status, list[str]]]:
        """Names of rejected nodes, in order of rows, with the status that they have in common; it may come again."""
        for rejection in self.rejections:
            codes = rejection.codes
            for code in np.unique(codes).tolist():
                yield rejection.status_of(code), [self.names[row] for row in rejection.rows[codes == code].tolist()]


class FitError(msgspec.Struct, frozen=True):
    """No node fits: kube-scheduler's message (in the condition, the Event, `kubectl describe`)."""

    num_all_nodes: int
    diagnosis: Diagnosis
    post_filter_message: str = ""

    @property
    def message(self) -> str:
        """`0/N nodes are available: ...`, byte for byte as upstream: counts are sorted as *strings* (Q28)."""
        text = f"0/{self.num_all_nodes} nodes are available:{self._reasons()}"
        return f"{text} {self.post_filter_message}" if self.post_filter_message else text

    def _reasons(self) -> str:
        if self.diagnosis.pre_filter.code is not Code.SUCCESS:
            message = self.diagnosis.pre_filter.message
            return f" {message}." if message else ""
        counts: Counter[str] = Counter()
        for rejection in self.diagnosis.rejections:
            for status, count in rejection.counted():
                for reason in status.reasons:
                    counts[reason] += count
        histogram = sorted(f"{count} {reason}" for reason, count in counts.items())
        return f" {_within_bounds(histogram)}." if histogram else ""


def _within_bounds(histogram: list[str]) -> str:
    """The reasons, comma-separated. Those that do not fit are counted: a pod may lack twenty thousand resources."""
    shown, length = 0, 0
    while shown < len(histogram) and length + len(histogram[shown]) <= LONGEST_REASONS:
        length += len(histogram[shown]) + 2
        shown += 1
    if shown == len(histogram):
        return ", ".join(histogram)
    return ", ".join([*histogram[:shown], f"and {len(histogram) - shown} other reasons"])
