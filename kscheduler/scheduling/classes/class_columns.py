"""What one plugin says of every row about all pods that it signs alike, kept up to date.

The problem: between two pods of a class one row has changed, and a plugin works out five thousand. The idea: its
answers stay in a column, and it is asked again only about the rows that the log shows behind the column's position.
This is exact because such a plugin says of each row what it says of it alone (`Source.ROW`): it is asked about more
rows here than in a cycle without columns, never about fewer, and each answer is that of the same method.

Limits: only plugins that sign and depend on their rows (and on images) have columns. Whatever raises (`PluginFailure`),
or gives points that no cycle would take (`UnkeepableError`), is not kept: the pod is then judged without columns.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.change_log import ChangeLog
from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores
from kscheduler.framework.plugin import MAX_NODE_SCORE, FilterPlugin, ScorePlugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.traits import PluginTraits
from kscheduler.scheduling.runtime.cycle_calls import call_filter, call_score
from kscheduler.scheduling.runtime.timing import CallTimer

FEW_ROWS: Final = 8
"""So many rows are looked up by their amounts: beyond, asking the plugin about all at once is cheaper."""
_KEPT_AMOUNTS: Final = 1024
_BYTES_PER_AMOUNT: Final = 100
"""Of an answer by amounts: a place in the dict at two thirds full, and the number of the amounts."""


class UnkeepableError(Exception):
    """What a plugin answers cannot be kept in a column."""


class _Column:
    """Answers by row. `epoch` moves when all of them are worked out anew."""

    def __init__(self, traits: PluginTraits, state: CycleState, nodes: NodeTable) -> None:
        self.traits = traits
        self._state = state
        self.log = _log_for(traits, nodes)
        """Its rows are to be asked about again."""
        self._by_amounts: dict[int, int] | None = {} if traits.reads_amounts_only else None
        """Answers by the number of what rows give and what is taken of them, where nothing else matters."""
        self.reads_images = traits.reads_images
        self._images: tuple[int, int] | None = None
        self._seen = -1
        self.epoch = 0

    def _stale(self, nodes: NodeTable) -> Rows | None:
        """The live rows to be asked about again; `None` is all of them."""
        if self._seen < 0 or (self.reads_images and self._images != _images(nodes)):
            return None
        if self._seen == self.log.position:
            return _NO_ROWS
        rows = self.log.since(self._seen)
        if rows is None:
            return None
        is_live = nodes.is_live.take(rows)
        return rows if np.count_nonzero(is_live) == len(rows) else rows[is_live]

    def _known(self, nodes: NodeTable, rows: Rows) -> list[int] | None:
        """The rows' answers, if rows with the same amounts have been asked about before."""
        if self._by_amounts is None or len(rows) > FEW_ROWS:
            return None
        return _all_known(self._by_amounts, map(nodes.amounts_at, rows.tolist()))

    def _learn(self, nodes: NodeTable, rows: Rows, answers: NDArray[np.int64] | None) -> None:
        if self._by_amounts is not None and len(rows) <= FEW_ROWS:
            if len(self._by_amounts) >= _KEPT_AMOUNTS:
                self._by_amounts.clear()
            told = answers.tolist() if answers is not None else [0] * len(rows)
            self._by_amounts.update(zip(map(nodes.amounts_at, rows.tolist()), told, strict=True))

    @property
    def bytes(self) -> int:
        """What it takes, but for what every column does."""
        answers = 0 if self._by_amounts is None else len(self._by_amounts) * _BYTES_PER_AMOUNT
        array = self._array
        return answers if array is None else answers + array.nbytes

    @property
    def _array(self) -> NDArray[Any] | None:
        """The answers by row."""
        raise NotImplementedError

    def answers_for(self, seen: int, amounts: Sequence[int]) -> list[int] | None:
        """What it says of rows with these amounts, if nothing else has changed since `seen` and all are known."""
        if self._by_amounts is None or self._seen != seen:
            return None
        return _all_known(self._by_amounts, amounts)

    def _is_fresh(self, nodes: NodeTable) -> None:
        self._seen = self.log.position
        if self.reads_images:
            self._images = _images(nodes)

    def take(self, rows: list[int], answers: list[int], nodes: NodeTable) -> None:
        """Write the answers for the rows that have changed."""
        raise NotImplementedError


class FilterColumn(_Column):
    """One filter's codes."""

    def __init__(self, plugin: FilterPlugin, traits: PluginTraits, state: CycleState, nodes: NodeTable) -> None:
        super().__init__(traits, state, nodes)
        self.plugin = plugin
        self.codes: NDArray[np.int64] | None = None
        """Over the table's capacity; `None` where all live rows pass."""

    @property
    def _array(self) -> NDArray[Any] | None:
        return self.codes

    def refresh(self, pod: PodInfo, nodes: NodeTable, tally: CallTimer) -> None:
        """Ask about the rows that have changed. Raises `PluginFailure`."""
        rows = self._stale(nodes)
        if rows is None:
            rows, self.codes = nodes.rows(), None
            self.epoch += 1
            self._seen = -1
        elif not len(rows):
            return
        codes = self._known(nodes, rows) or self._asked(pod, nodes, rows, tally)
        if self.codes is None and codes is not None and any_nonzero(codes):
            self.codes = np.zeros(nodes.capacity, dtype=np.int64)
        if self.codes is not None:
            self.codes[rows] = 0 if codes is None else codes
        self._is_fresh(nodes)

    def take(self, rows: list[int], answers: list[int], nodes: NodeTable) -> None:
        """Write the codes of the rows that have changed."""
        if self.codes is None and any(answers):
            self.codes = np.zeros(nodes.capacity, dtype=np.int64)
        if self.codes is not None:
            for row, code in zip(rows, answers, strict=True):
                self.codes[row] = code
        self._seen = self.log.position

    def _asked(self, pod: PodInfo, nodes: NodeTable, rows: Rows, tally: CallTimer) -> NDArray[np.int64] | None:
        codes = call_filter(self.plugin, self._state, pod, nodes, rows, tally)
        self._learn(nodes, rows, codes)
        return codes


class ScoreColumn(_Column):
    """One plugin's raw points."""

    def __init__(self, plugin: ScorePlugin, traits: PluginTraits, state: CycleState, nodes: NodeTable) -> None:
        super().__init__(traits, state, nodes)
        self.plugin = plugin
        self.normalizes = traits.normalizes
        kind: type = np.int64 if self.normalizes else np.uint8
        self.points: NDArray[np.int64] | NDArray[np.uint8] = np.zeros(nodes.capacity, dtype=kind)
        """Over the table's capacity. Without `normalize` they are within 0..100, which is a byte."""
        self.is_zero = True
        """Whether no row has ever had any."""
        self.version = 0
        """Moves with every answer that may have changed."""

    @property
    def _array(self) -> NDArray[Any] | None:
        return self.points

    def refresh(self, pod: PodInfo, nodes: NodeTable, tally: CallTimer) -> None:
        """Ask about the rows that have changed. Raises `PluginFailure` and `UnkeepableError`."""
        rows = self._stale(nodes)
        if rows is None:
            rows = nodes.rows()
            self.epoch += 1
            self._seen = -1
        elif not len(rows):
            return
        points = self._known(nodes, rows) or self._asked(pod, nodes, rows, tally)
        if self.is_zero:
            self.is_zero = not any_nonzero(points)
        self.points[rows] = points
        self.version += 1
        self._is_fresh(nodes)

    def take(self, rows: list[int], answers: list[int], nodes: NodeTable) -> None:
        """Write the points of the rows that have changed."""
        del nodes
        for row, points in zip(rows, answers, strict=True):
            self.points[row] = points
        if self.is_zero:
            self.is_zero = not any(answers)
        self.version += 1
        self._seen = self.log.position

    def _asked(self, pod: PodInfo, nodes: NodeTable, rows: Rows, tally: CallTimer) -> Scores:
        points = call_score(self.plugin, self._state, pod, nodes, rows, tally)
        if not (self.normalizes or _within_bounds(points)):
            raise UnkeepableError(self.plugin.name)
        self._learn(nodes, rows, points)
        return points


Column = FilterColumn | ScoreColumn


class Answers:
    """All that one plugin says about the pods that it signs alike, before points are normalised."""

    def __init__(self) -> None:
        self.state = CycleState()
        """What the plugin keeps from one extension point to the next."""
        self.filter: FilterColumn | None = None
        """`None` where the plugin has nothing to judge, or is no filter."""
        self.score: ScoreColumn | None = None
        self.skips_filter = False
        """Whether its PreFilter said so."""
        self.users = 0
        """How many classes share it."""

    @property
    def bytes(self) -> int:
        """What its columns take, to each of the classes that share it."""
        return sum(one.bytes for one in (self.filter, self.score) if one is not None) // max(1, self.users)


_NO_ROWS: Final[Rows] = np.zeros(0, dtype=np.intp)


def _all_known(answers: Mapping[int, int], amounts: Iterable[int]) -> list[int] | None:
    """The answers for these amounts; `None` if one of them is not known."""
    known = list(map(answers.get, amounts))
    return None if None in known else known  # type: ignore[return-value]  # it is a list of int now


def any_nonzero(answers: NDArray[np.int64] | list[int]) -> bool:
    """Whether one of the answers is not 0."""
    return any(answers) if isinstance(answers, list) else bool(np.count_nonzero(answers))


def _log_for(traits: PluginTraits, nodes: NodeTable) -> ChangeLog:
    if traits.reads_amounts_only:
        return nodes.amount_changes
    if not traits.depends_on:
        return nodes.node_changes  # all rows are alike: only new ones are to be asked about
    return nodes.row_changes if traits.reads_pods else nodes.node_changes


def _images(nodes: NodeTable) -> tuple[int, int]:
    return nodes.images.changes, len(nodes)


def _within_bounds(points: NDArray[np.int64]) -> bool:
    """Whether all are in 0..100: a negative one is a huge one without a sign."""
    return int(points.astype(np.uint64).max()) <= MAX_NODE_SCORE
