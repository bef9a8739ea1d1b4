"""Columns: one plugin's answer for every row, valid for all pods with the same signature, and kept up to date.

The problem: between two pods of a class one row has changed, but the plugin would judge five thousand again. The idea:
its answers stay in a column, and it is called again only for the rows that the change log shows since the column's
position. This is exact because the answer of such a plugin for a row depends on that row alone (`Source.ROW`): it is
called for at least the rows of a cycle without columns, and each answer comes from the same method.

A user's plugin that fails for some rows is kept for the others: a failure is never kept, so it is asked about the rows
where it has failed at each use, until it answers (`unanswered`).

Limits: only plugins that sign pods and depend on nothing but rows (and images) have columns. If an in-tree plugin
raises (`PluginFailure`) or gives points that no cycle accepts (`UnkeepableError`), or a user's fails for the pod,
nothing is kept: the pod is then judged without columns.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.change_log import ChangeLog
from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores
from kscheduler.framework.plugin import MAX_NODE_SCORE, FilterPlugin, ScorePlugin
from kscheduler.framework.plugin_listener import NO_LISTENER, PluginListener
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.traits import PluginTraits
from kscheduler.scheduling.runtime.cycle_calls import call_filter, call_normalize, call_score
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.partial_results import MissingPoints, codes_after, raw_after, report
from kscheduler.scheduling.runtime.timing import CallTimer

# Up to this many rows are looked up by their amounts; for more, calling the plugin for all at once is cheaper.
FEW_ROWS: Final = 8
_KEPT_AMOUNTS: Final = 1024
# What an answer by amounts takes: an entry of a dict that is two thirds full, and the number of the amounts.
_BYTES_PER_AMOUNT: Final = 100


class UnkeepableError(Exception):
    """The answer of a plugin cannot be kept in a column."""


class _Column:
    """Answers by row. `epoch` is increased whenever all of them are worked out again."""

    def __init__(self, traits: PluginTraits, state: CycleState, nodes: NodeTable) -> None:
        self.traits = traits
        self._state = state
        self.log = _log_for(traits, nodes)
        """The change log of the rows whose answers may be out of date."""
        self._by_amounts: dict[int, int] | None = {} if traits.reads_amounts_only else None
        """Answers by the number of a row's amounts (allocatable and requested), if the plugin reads nothing else."""
        self.reads_images = traits.reads_images
        self._images: tuple[int, int] | None = None
        self.seen = -1
        """The position in the log up to which the answers are up to date; -1: they are not."""
        self.epoch = 0
        self.unanswered: Rows | None = None
        """The rows for which a user's plugin failed when it was last asked (intp, ascending); `None`: for none."""

    def refresh(self, pod: PodInfo, nodes: NodeTable, tally: CallTimer) -> None:
        """Call the plugin for the rows that have changed. Raises `PluginFailure` and `UnkeepableError`."""
        rows = self._stale(nodes)
        if rows is None:
            rows = nodes.rows()
            self._start_over()
            self.epoch += 1
            self.seen = -1
        else:
            if self.unanswered is not None:
                rows = self._stale_or_unanswered(rows, nodes)
            if not len(rows):
                self._forget_failures()  # the nodes for which it failed are gone
                return
        self.judge(pod, nodes, rows, tally)
        if self.reads_images:
            self._images = _images(nodes)

    def judge(self, pod: PodInfo, nodes: NodeTable, rows: Rows, tally: CallTimer) -> None:
        """Work out the answers for these rows, the only ones that are out of date: no images are new, none failed.

        Raises `PluginFailure` and `UnkeepableError`.
        """
        raise NotImplementedError

    def _start_over(self) -> None:
        """All answers are worked out again."""
        self._forget_failures()

    def _forget_failures(self) -> None:
        self.unanswered = None

    def _stale(self, nodes: NodeTable) -> Rows | None:
        """The live rows whose answers are out of date (intp, ascending); `None` means all rows."""
        if self.seen < 0 or (self.reads_images and self._images != _images(nodes)):
            return None
        if self.seen == self.log.position:
            return _NO_ROWS
        rows = self.log.since(self.seen)
        if rows is None:
            return None
        is_live = nodes.is_live.take(rows)
        return rows if np.count_nonzero(is_live) == len(rows) else rows[is_live]

    def _stale_or_unanswered(self, stale: Rows, nodes: NodeTable) -> Rows:
        """The stale rows, and those for which the plugin has failed."""
        if self.unanswered is None:
            return stale
        rows = np.union1d(stale, self.unanswered).astype(np.intp)
        return rows[nodes.is_live.take(rows)]

    def _note_unanswered(self, rows: Rows, is_known: NDArray[np.bool_]) -> None:
        self.unanswered = None if is_known.all() else rows[~is_known]

    def _known(self, nodes: NodeTable, rows: Rows) -> list[int] | None:
        """The answers for a few rows, if all of them are known from rows with the same amounts."""
        if self._by_amounts is None:
            return None
        return _all_known(self._by_amounts, map(nodes.amounts_at, rows.tolist()))

    def _learn(self, nodes: NodeTable, rows: Rows, answers: NDArray[np.int64] | None) -> None:
        if self._by_amounts is not None:
            if len(self._by_amounts) >= _KEPT_AMOUNTS:
                self._by_amounts.clear()
            values = answers.tolist() if answers is not None else [0] * len(rows)
            self._by_amounts.update(zip(map(nodes.amounts_at, rows.tolist()), values, strict=True))

    @property
    def bytes(self) -> int:
        """The size of the answers; the fixed size of a column is not counted."""
        answers = 0 if self._by_amounts is None else len(self._by_amounts) * _BYTES_PER_AMOUNT
        array = self._array
        return answers if array is None else answers + array.nbytes

    @property
    def _array(self) -> NDArray[Any] | None:
        """The answers, indexed by row number."""
        raise NotImplementedError

    def take(self, rows: list[int], amounts: list[int], seen: int, nodes: NodeTable) -> bool:
        """Write the answers for the rows that have changed to these amounts, if all are known and the column was up to
        date at `seen`. Returns whether they are.
        """
        raise NotImplementedError


class FilterColumn(_Column):
    """One filter's codes."""

    def __init__(
        self,
        plugin: FilterPlugin,
        traits: PluginTraits,
        state: CycleState,
        nodes: NodeTable,
        listener: PluginListener = NO_LISTENER,
    ) -> None:
        super().__init__(traits, state, nodes)
        self.plugin = plugin
        self._listener = listener
        self.codes: NDArray[np.int64] | None = None
        """Indexed by row number, as long as the table's capacity; `None` if all live rows pass."""

    @property
    def _array(self) -> NDArray[Any] | None:
        return self.codes

    def judge(self, pod: PodInfo, nodes: NodeTable, rows: Rows, tally: CallTimer) -> None:
        """Work out the codes of these rows, as `_Column.judge`."""
        known = self._known(nodes, rows) if len(rows) <= FEW_ROWS else None
        codes = known or self._call_plugin(pod, nodes, rows, tally)
        if self.codes is None and codes is not None and any_nonzero(codes):
            self.codes = np.zeros(nodes.capacity, dtype=np.int64)
        if self.codes is not None:
            self.codes[rows] = 0 if codes is None else codes
        self.seen = self.log.position

    def _start_over(self) -> None:
        super()._start_over()
        self.codes = None

    def take(self, rows: list[int], amounts: list[int], seen: int, nodes: NodeTable) -> bool:
        """Write the codes of the rows that have changed, as `_Column.take`."""
        by_amounts = self._by_amounts
        if by_amounts is None or self.seen != seen:
            return False
        try:
            answers = [by_amounts[each] for each in amounts]
        except KeyError:
            return False
        if self.codes is None and any(answers):
            self.codes = np.zeros(nodes.capacity, dtype=np.int64)
        if self.codes is not None:
            for row, code in zip(rows, answers, strict=True):
                self.codes[row] = code
        self.seen = self.log.position
        return True

    def _call_plugin(self, pod: PodInfo, nodes: NodeTable, rows: Rows, tally: CallTimer) -> NDArray[np.int64] | None:
        try:
            codes = call_filter(self.plugin, self._state, pod, nodes, rows, tally)
        except PluginFailure as failure:
            if self.traits.is_in_tree:
                raise
            return self._codes_after(failure, pod, nodes, rows, tally)
        self.unanswered = None
        if len(rows) <= FEW_ROWS:
            self._learn(nodes, rows, codes)
        return codes

    def _codes_after(
        self, failure: PluginFailure, pod: PodInfo, nodes: NodeTable, rows: Rows, tally: CallTimer
    ) -> NDArray[np.int64]:
        """The codes, where the plugin has failed for some of the rows. Raises `UnkeepableError`."""
        tally.call_ended(failure.point, self.plugin.name, 0)
        kept = len(nodes.rows()) - len(rows)
        found = codes_after(failure, self.plugin, self._state, pod, nodes, rows, self._listener, kept)
        if found is None:
            raise UnkeepableError(self.plugin.name)  # it is about the pod: the cycle without columns reports it
        codes, is_known = found
        self._note_unanswered(rows, is_known)
        if len(rows) <= FEW_ROWS:
            self._learn(nodes, rows[is_known], codes[is_known])
        return codes


class ScoreColumn(_Column):
    """One plugin's raw points."""

    def __init__(
        self,
        plugin: ScorePlugin,
        traits: PluginTraits,
        state: CycleState,
        nodes: NodeTable,
        listener: PluginListener = NO_LISTENER,
    ) -> None:
        super().__init__(traits, state, nodes)
        self.plugin = plugin
        self._listener = listener
        self.left_out: MissingPoints | None = None
        """Which rows get no points, because a user's plugin fails for them."""
        self.normalizes = traits.normalizes
        kind: type = np.int64 if self.normalizes else np.uint8
        self.points: NDArray[np.int64] | NDArray[np.uint8] = np.zeros(nodes.capacity, dtype=kind)
        """Indexed by row number, as long as the table's capacity. Without NormalizeScore they are 0 to 100: a byte."""
        self.is_zero = True
        """Whether no row has ever had points."""
        self.version = 0
        """Increased whenever answers may have changed."""

    @property
    def _array(self) -> NDArray[Any] | None:
        return self.points

    def judge(self, pod: PodInfo, nodes: NodeTable, rows: Rows, tally: CallTimer) -> None:
        """Work out the points of these rows, as `_Column.judge`."""
        known = self._known(nodes, rows) if len(rows) <= FEW_ROWS else None
        points = known or self._call_plugin(pod, nodes, rows, tally)
        if self.is_zero:
            self.is_zero = not any_nonzero(points)
        self.points[rows] = points
        self.version += 1
        self.seen = self.log.position

    def _forget_failures(self) -> None:
        super()._forget_failures()
        self.left_out = None

    def take(self, rows: list[int], amounts: list[int], seen: int, nodes: NodeTable) -> bool:
        """Write the points of the rows that have changed, as `_Column.take`."""
        del nodes
        by_amounts = self._by_amounts
        if by_amounts is None or self.seen != seen:
            return False
        try:
            answers = [by_amounts[each] for each in amounts]
        except KeyError:
            return False
        for row, points in zip(rows, answers, strict=True):
            self.points[row] = points
        if self.is_zero:
            self.is_zero = not any(answers)
        self.version += 1
        self.seen = self.log.position
        return True

    def _call_plugin(self, pod: PodInfo, nodes: NodeTable, rows: Rows, tally: CallTimer) -> Scores:
        try:
            points = call_score(self.plugin, self._state, pod, nodes, rows, tally)
            if not (self.normalizes or _within_bounds(points)):
                if self.traits.is_in_tree:
                    raise UnkeepableError(self.plugin.name)
                call_normalize(self.plugin, self.traits, self._state, pod, rows, points)  # raises
        except PluginFailure as failure:
            if self.traits.is_in_tree:
                raise
            return self._points_after(failure, pod, nodes, rows, tally)
        self.unanswered = self.left_out = None
        if len(rows) <= FEW_ROWS:
            self._learn(nodes, rows, points)
        return points

    def _points_after(
        self, failure: PluginFailure, pod: PodInfo, nodes: NodeTable, rows: Rows, tally: CallTimer
    ) -> Scores:
        """The raw points, 0 for rows for which the plugin fails. Raises `UnkeepableError`."""
        tally.call_ended(failure.point, self.plugin.name, 0)
        points, is_known = raw_after(failure, self.plugin, self.traits, self._state, pod, nodes, rows)
        kept = len(nodes.rows()) - len(rows)
        if not is_known.any() and not kept:
            raise UnkeepableError(self.plugin.name)  # it is about the pod: the cycle without columns reports it
        self._note_unanswered(rows, is_known)
        left_out = report(failure, self._listener, pod, nodes, rows, is_known, kept)
        self.left_out = left_out if left_out.nodes else None
        if len(rows) <= FEW_ROWS:
            self._learn(nodes, rows[is_known], points[is_known])
        return np.where(is_known, points, 0)


Column = FilterColumn | ScoreColumn


class PluginResults:
    """All answers of one plugin for the pods with one signature; points are not normalised yet."""

    def __init__(self) -> None:
        self.state = CycleState()
        """What the plugin keeps from one extension point to the next."""
        self.filter: FilterColumn | None = None
        """`None` if the plugin has nothing to judge, or is no filter."""
        self.score: ScoreColumn | None = None
        self.skips_filter = False
        """Whether its PreFilter returned Skip."""
        self.users = 0
        """How many classes share these answers."""

    @property
    def bytes(self) -> int:
        """The size of the columns, divided by the number of classes that share them."""
        return sum(column.bytes for column in (self.filter, self.score) if column is not None) // max(1, self.users)


_NO_ROWS: Final[Rows] = np.zeros(0, dtype=np.intp)


def _all_known(answers: Mapping[int, int], amounts: Iterable[int]) -> list[int] | None:
    """The answers for these amounts; `None` unless all of them are known."""
    known = list(map(answers.get, amounts))
    return None if None in known else known  # type: ignore[return-value]  # it is a list of int now


def any_nonzero(answers: NDArray[np.int64] | list[int]) -> bool:
    """Whether at least one of the answers is not 0."""
    return any(answers) if isinstance(answers, list) else bool(np.count_nonzero(answers))


def _log_for(traits: PluginTraits, nodes: NodeTable) -> ChangeLog:
    if traits.reads_amounts_only:
        return nodes.amount_changes
    if not traits.depends_on:
        return nodes.node_changes  # a row's answer never changes: only new rows need a call
    return nodes.row_changes if traits.reads_pods else nodes.node_changes


def _images(nodes: NodeTable) -> tuple[int, int]:
    return nodes.images.changes, len(nodes)


def _within_bounds(points: NDArray[np.int64]) -> bool:
    """Whether all are from 0 to 100: read without sign, a negative number is a huge one."""
    unsigned = points.astype(np.uint64)
    return not len(points) or unsigned.item(unsigned.argmax()) <= MAX_NODE_SCORE
