"""All that is known of a class of pods: who passes the filters that can be kept, and what the rows earn.

A class joins the columns of its plugins (`class_columns`; other classes may share them) into what a cycle asks for:

    alive[row]   whether the row passes a stretch of filters that follow each other in the profile
    base[row]    the weighted points of the plugins that need no normalising
    points of those that do, worked out again when their column or the feasible rows have changed

Plugins whose answers cannot be kept (`live`: spread, affinity, volumes) are asked in each cycle, at their place in the
profile and about the rows that are still alive there, so that they hear what they would hear without columns. A row is
charged to the same plugin in both ways: when nobody passes, the columns tell of each row who was the first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.change_log import ChangeLog
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.nodes.row_index import compact, taken, values_at
from kscheduler.framework.plugin import FilterPlugin, PreFilterPlugin, PreScorePlugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.scheduling.classes.class_columns import FEW_ROWS, Answers, Column, FilterColumn, ScoreColumn
from kscheduler.scheduling.classes.leaders import Leaders
from kscheduler.scheduling.classes.normalized_points import NormalizedPoints
from kscheduler.scheduling.profile import WeightedScore
from kscheduler.scheduling.record import PluginScores
from kscheduler.scheduling.runtime.status_text import divided
from kscheduler.scheduling.runtime.timing import CallTimer

_OWN_BYTES: Final = 6144
"""What a class takes on a cluster without nodes: its objects, and those of its name and its plugins' states."""
_MOST_UNCOUNTED: Final = 64
"""How often a class is asked for, at most, until its bytes are counted again: each time adds a few answers."""

Changed = Rows | list[int]
"""Row numbers, ascending; plain ones where there are few."""

AskLive = Callable[[FilterPlugin, Rows], Codes | None]
"""Ask a filter about rows; `None` where it has nothing against any, or skips. Raises `PluginFailure`."""


class Stretch:
    """Filters with columns that follow each other in the profile."""

    def __init__(self, columns: Sequence[FilterColumn]) -> None:
        self.columns = columns
        self._alive: Mask | None = None
        """Over the capacity, False for rows that are no node; `None` where all live rows pass."""
        self._passing: Rows | None = None

    @property
    def bytes(self) -> int:
        """What its arrays take, those of its columns aside."""
        return sum(one.nbytes for one in (self._alive, self._passing) if one is not None)

    def update(self, nodes: NodeTable, rows: Rows | None) -> bool:
        """Take over what the columns say of these rows; `None` is all of them, after nodes came or went, too.

        Returns whether somebody is turned down for the first time.
        """
        if rows is None:
            self._alive = self._passing = None
            rows = nodes.rows()
        is_first = False
        turned_down: Mask | None = None
        for column in self.columns:
            if column.codes is not None:
                rejected = column.codes.take(rows) != 0
                turned_down = rejected if turned_down is None else turned_down | rejected
        if self._alive is None:
            if turned_down is None or not np.count_nonzero(turned_down):
                return False
            self._alive = nodes.is_live.copy()
            is_first = True
        passes = ~turned_down if turned_down is not None else np.ones(len(rows), dtype=np.bool_)
        if np.count_nonzero(self._alive[rows] != passes):
            self._alive[rows] = passes
            self._passing = None
        return is_first

    def update_few(self, nodes: NodeTable, rows: list[int]) -> bool:
        """As `update`."""
        columns, is_first = [one.codes for one in self.columns if one.codes is not None], False
        for row in rows:
            passes = not any(codes.item(row) for codes in columns)
            if self._alive is None:
                if passes:
                    continue
                self._alive = nodes.is_live.copy()
                is_first = True
            if self._alive.item(row) is not passes:
                self._alive[row] = passes
                self._passing = None
        return is_first

    def passing(self, nodes: NodeTable, rows: Rows) -> Rows:
        """Those of the rows that pass. Shared: do not write."""
        if self._alive is None:
            return rows
        if rows is not nodes.rows():
            return rows.take(self._alive.take(rows).nonzero()[0])
        if self._passing is None:
            self._passing = rows.take(self._alive.take(rows).nonzero()[0])
        return self._passing

    def passes(self, row: int) -> bool:
        """Whether one live row does."""
        return self._alive is None or self._alive.item(row)

    def tell(self, state: CycleState, rows: Rows, rejections: list[Rejection]) -> None:
        """Who of the columns turned which of the rows down."""
        for column in self.columns:
            if column.codes is not None and len(rows):
                rows = divided(column.plugin, column.codes.take(rows), state, rows, rejections)


@dataclass(frozen=True, slots=True)
class Judged:
    """Who judged which rows."""

    judge: Stretch | FilterPlugin
    rows: Rows
    codes: Codes | None = None
    """Of a filter; those of a stretch are in its columns."""

    def tell(self, state: CycleState, rejections: list[Rejection]) -> None:
        """Who was turned down, and by whom: as long as the columns are as they were."""
        if isinstance(self.judge, Stretch):
            self.judge.tell(state, self.rows, rejections)
        elif self.codes is not None:
            divided(self.judge, self.codes, state, self.rows, rejections)


@dataclass(slots=True)
class _Group:
    """Columns that follow one log, and what of it they have seen."""

    log: ChangeLog
    reads_images: bool
    columns: list[Column]
    seen: tuple[int, int] = (-1, -1)

    def refresh(self, pod: PodInfo, nodes: NodeTable, tally: CallTimer) -> Changed | None:
        """Bring the columns up to date. Returns the rows that they were asked about; `None` is all of them.

        Raises `PluginFailure` and `UnkeepableError`.
        """
        (position, images), now = self.seen, self._now(nodes)
        few = self.log.few_since(position, FEW_ROWS) if position >= 0 and images == now[1] else None
        if few is not None and None not in [nodes.infos[row] for row in few]:
            self._refresh_few(few, position, pod, nodes, tally)
        else:
            for one in self.columns:
                one.refresh(pod, nodes, tally)
        self.seen = now
        if few is not None or position < 0 or images != now[1]:
            return few
        return self.log.since(position)

    def _refresh_few(self, rows: list[int], seen: int, pod: PodInfo, nodes: NodeTable, tally: CallTimer) -> None:
        """Most often a row has changed, to what some other row has been before."""
        amounts = [nodes.amounts_at(row) for row in rows]
        for one in self.columns:
            answers = one.answers_for(seen, amounts)
            if answers is None:
                one.refresh(pod, nodes, tally)
            else:
                one.take(rows, answers, nodes)

    def has_moved(self, nodes: NodeTable) -> bool:
        """Whether there is anything new for them."""
        return self.seen != self._now(nodes)

    def _now(self, nodes: NodeTable) -> tuple[int, int]:
        return self.log.position, nodes.images.changes if self.reads_images else 0


@dataclass(slots=True)
class KnownClass:
    """What is known of one class. `refresh` it before each use."""

    answers: tuple[Answers, ...]
    """Of the plugins with columns."""
    skipped: frozenset[str]
    """Filters with columns that have nothing to judge."""
    live_pre_filter: tuple[PreFilterPlugin, ...]
    live_pre_score: tuple[PreScorePlugin, ...]
    live_score: tuple[WeightedScore, ...]
    steps: tuple[Stretch | FilterPlugin, ...]
    """The filters in the profile's order."""
    scores: tuple[tuple[ScoreColumn, int], ...]
    """With weights, in the profile's order."""
    tells_all: bool = False
    """Whether a pod that found a node hears who turned the others down, and each plugin's points."""
    _rows: Rows | None = None
    _epochs: int = -1
    _base: Scores | None = None
    _normalized: list[NormalizedPoints] = field(default_factory=list)
    _passed: Rows | None = None
    """What the last search left over, where all rows were looked at and nobody but the columns turned one down."""
    _leaders: Leaders = field(default_factory=Leaders)
    _groups: list["_Group"] = field(default_factory=list)
    _states: tuple[CycleState, ...] = ()
    bytes: int = 0
    """What it took when `count_bytes` was last called, with its share of what it has in common with others."""
    asked: int = 0
    """How often it was asked for."""
    counts_at: int = 1
    """When it is to take stock again: after the 1st, 4th, 16th and each 64th time."""

    def __post_init__(self) -> None:
        self._states = tuple(one.state for one in self.answers)
        columns = [column for one in self.answers for column in (one.filter, one.score) if column is not None]
        logs = {(id(one.log), one.reads_images): (one.log, one.reads_images) for one in columns}
        self._groups = [
            _Group(log, reads_images, [one for one in columns if one.log is log and one.reads_images == reads_images])
            for log, reads_images in logs.values()
        ]

    # --- keeping up ---------------------------------------------------------------------------------------------------

    def refresh(self, pod: PodInfo, nodes: NodeTable, tally: CallTimer) -> None:
        """Follow the table. Raises `PluginFailure` and `UnkeepableError`; nothing may be asked of it then."""
        changed = [group.refresh(pod, nodes, tally) for group in self._groups if group.has_moved(nodes)]
        if changed or self._rows is not nodes.rows():
            self._join(nodes, changed)

    def _join(self, nodes: NodeTable, changed: list[Changed | None]) -> None:
        epochs = sum([one.epoch for group in self._groups for one in group.columns])
        is_anew = self._rows is not nodes.rows() or epochs != self._epochs
        rows = None if is_anew else _together(changed)
        if isinstance(rows, list) and self._base is not None:
            self._update_few(nodes, rows, self._base)
        else:
            self._update(nodes, None if rows is None else np.asarray(rows, dtype=np.intp))
        self._rows, self._epochs = nodes.rows(), epochs

    def _update_few(self, nodes: NodeTable, rows: list[int], base: Scores) -> None:
        """As `_update`; arrays of a few entries cost more than numbers."""
        stretches = [step for step in self.steps if isinstance(step, Stretch)]
        for step in stretches:
            if step.update_few(nodes, rows):
                self.count_bytes()
        scores = [(one.points, weight) for one, weight in self.scores if not (one.normalizes or one.is_zero)]
        for row in rows:
            points = base[row] = sum([points.item(row) * weight for points, weight in scores])
            if self._leaders.is_settled:
                passes = all(step.passes(row) for step in stretches)
                self._leaders.move(row, points if passes else None, nodes.name_hash)

    def _update(self, nodes: NodeTable, rows: Rows | None) -> None:
        is_larger = rows is None
        self._leaders.forget()
        for step in self.steps:
            if isinstance(step, Stretch) and step.update(nodes, rows):
                is_larger = True
        if rows is None or self._base is None:
            self._base = np.zeros(nodes.capacity, dtype=np.int64)
            self._normalized = [NormalizedPoints(column, weight) for column, weight in self.scores if column.normalizes]
            rows = nodes.rows()
        summed: Scores | int = 0
        for column, weight in self.scores:
            if not (column.normalizes or column.is_zero):
                summed = summed + column.points.take(rows).astype(np.int64) * weight
        self._base[rows] = summed
        if is_larger:
            self.count_bytes()

    def count_bytes(self) -> None:
        """Take stock: arrays are made when somebody first needs them, and answers by amounts are added one by one."""
        parts = sum(one.bytes for one in self.answers)
        parts += sum(one.bytes for one in self._normalized)
        parts += sum(step.bytes for step in self.steps if isinstance(step, Stretch))
        base = 0 if self._base is None else self._base.nbytes
        self.bytes = _OWN_BYTES + base + parts + self._leaders.bytes
        self.counts_at = self.asked + min(max(3 * self.asked, 1), _MOST_UNCOUNTED)

    def prepare(self, state: CycleState) -> None:
        """Write what the plugins with columns have prepared."""
        state.take(self._states)

    # --- filtering ----------------------------------------------------------------------------------------------------

    def passing(self, nodes: NodeTable, rows: Rows, ask: AskLive, told: list[Judged]) -> Rows:
        """The rows that pass. What `tell` needs is added to `told`, as far as it went."""
        is_by_columns = rows is nodes.rows()
        for step in self.steps:
            if not len(rows):
                break
            if isinstance(step, Stretch):
                told.append(Judged(step, rows))
                rows = step.passing(nodes, rows)
                continue
            codes = ask(step, rows)
            if codes is not None and np.count_nonzero(codes):
                told.append(Judged(step, rows, codes))
                rows = rows.take(np.flatnonzero(codes == 0))
                is_by_columns = False
        self._passed = rows if is_by_columns else None
        return rows

    # --- scoring ------------------------------------------------------------------------------------------------------

    def totals(self, pod: PodInfo, state: CycleState, feasible: Rows) -> Scores:
        """The weighted points of all plugins with columns: an array of the caller's own. Raises `PluginFailure`."""
        assert self._base is not None  # noqa: S101  `refresh` makes it
        totals: Scores = taken(self._base, feasible)
        for one in self._normalized:
            totals += one.at(pod, state, feasible)
        return totals

    def leaders(self, nodes: NodeTable, pod: PodInfo, state: CycleState, feasible: Rows) -> Leaders | None:
        """Which of the feasible rows have the most of `totals`; `None` where not the columns alone say so.

        Raises `PluginFailure`.
        """
        if feasible is not self._passed or self._base is None:
            return None
        shared = 0
        for one in self._normalized:
            points = one.at(pod, state, feasible)
            if not one.is_flat(points):
                return None
            shared += points if isinstance(points, int) else points.item(0)
        self._leaders.shared_points = shared
        if not self._leaders.is_settled:
            self._leaders.settle(feasible, values_at(self._base, compact(feasible)), nodes.name_hash)
        return self._leaders

    def plugin_scores(self, pod: PodInfo, state: CycleState, feasible: Rows) -> dict[str, PluginScores]:
        """The same by plugin. Raises `PluginFailure`."""
        normalized = iter(self._normalized)
        told = {}
        for column, weight in self.scores:
            points = np.zeros(len(feasible), dtype=np.int64)
            if column.normalizes:
                points += next(normalized).at(pod, state, feasible)
            else:
                points += column.points[feasible].astype(np.int64) * weight
            told[column.plugin.name] = PluginScores(column.plugin.name, weight, points)
        return told


def _together(changed: list[Changed | None]) -> Changed | None:
    """All of the rows, ascending; `None` if one of them is all rows."""
    first = changed[0]
    if len(changed) == 1 or first is None:
        return first
    rest = [one for one in changed[1:] if one is not None]
    if len(rest) < len(changed) - 1:
        return None
    return np.unique(np.concatenate([first, *rest]).astype(np.intp))
