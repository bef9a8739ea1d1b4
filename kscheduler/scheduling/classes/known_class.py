"""What is known of a class of pods: which rows pass the filters with columns, and the points of each row.

A class joins the columns of its plugins (`class_columns`; other classes may share them) into what a cycle needs:

    alive[row]   whether the row passes a stretch of filters, columns that follow each other in the profile
    base[row]    the sum of weighted points of the plugins that do not normalise
    normalised points of the other plugins, worked out again if their column or the feasible rows have changed

Plugins whose answers cannot be kept (`live`: spread, affinity, volumes) are called in each cycle, at their place in the
profile and for the rows that have passed so far, so they see the same arguments as without columns. A row is also
charged to the same plugin as without columns: if no row passes, the columns show which plugin was the first to reject.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakSet

import msgspec
import numpy as np

from kscheduler.api.meta import ObjectMeta, OwnerReference
from kscheduler.change_count import ChangeCount
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.change_log import ChangeLog
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.nodes.row_index import compact, taken, values_at
from kscheduler.framework.plugin import FilterPlugin, PreFilterPlugin, PreScorePlugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.scheduling.classes.buckets import Buckets, ByBucket
from kscheduler.scheduling.classes.class_columns import FEW_ROWS, Column, FilterColumn, PluginResults, ScoreColumn
from kscheduler.scheduling.classes.leaders import Leaders, NormalizedPoints
from kscheduler.scheduling.profile import WeightedScore
from kscheduler.scheduling.record import PluginScores
from kscheduler.scheduling.runtime.status_text import split_rows
from kscheduler.scheduling.runtime.timing import CallTimer

# The size of a class on a cluster without nodes: its objects, its name, and the states of its plugins.
_OWN_BYTES: Final = 6144
# The most uses of a class until its bytes are counted again: each use may add a few answers.
_MAX_UNCOUNTED: Final = 64

# Row numbers, ascending: an intp array, or a list of int if there are few.
Changed = Rows | list[int]

# Call a live filter for rows: an int64 code per row; `None` if all pass, or if it skips. Raises `PluginFailure`.
CallLiveFilter = Callable[[FilterPlugin, Rows], Codes | None]


class ColumnFilters:
    """Filters with columns that follow each other in the profile."""

    def __init__(self, columns: Sequence[FilterColumn]) -> None:
        self.columns = columns
        self.alive: Mask | None = None
        """Indexed by row number, as long as the capacity, False for rows without a node; `None` if all rows pass."""
        self._passing: Rows | None = None

    @property
    def bytes(self) -> int:
        """The size of its arrays, without those of its columns."""
        return sum(array.nbytes for array in (self.alive, self._passing) if array is not None)

    def update(self, nodes: NodeTable, rows: Rows | None) -> bool:
        """Take over what the columns say about these rows (intp); `None` means all, also after nodes came or went.

        Returns whether `_alive` had to be made because a row was rejected for the first time.
        """
        # Invariant: `_alive` is `None` only while every live row passes; `_passing` is `None` while it is out of date.
        if rows is None:
            self.alive = self._passing = None
            rows = nodes.rows()
        is_first = False
        rejected_mask: Mask | None = None
        for column in self.columns:
            if column.codes is not None:
                rejected = column.codes.take(rows) != 0
                rejected_mask = rejected if rejected_mask is None else rejected_mask | rejected
        if self.alive is None:
            if rejected_mask is None or not np.count_nonzero(rejected_mask):
                return False
            self.alive = nodes.is_live.copy()
            is_first = True
        passes = ~rejected_mask if rejected_mask is not None else np.ones(len(rows), dtype=np.bool_)
        if np.count_nonzero(self.alive[rows] != passes):
            self.alive[rows] = passes
            self._passing = None
        return is_first

    def update_few(self, nodes: NodeTable, rows: list[int]) -> bool:
        """The same as `update` for a few rows: plain numbers cost less than arrays of a few entries."""
        columns, is_first = [column.codes for column in self.columns if column.codes is not None], False
        if self.alive is None and not columns:
            return False
        for row in rows:
            passes = not any(codes.item(row) for codes in columns)
            if self.alive is None:
                if passes:
                    continue
                self.alive = nodes.is_live.copy()
                is_first = True
            if self.alive.item(row) is not passes:
                self.alive[row] = passes
                self._passing = None
        return is_first

    def passing(self, nodes: NodeTable, rows: Rows) -> Rows:
        """Those of `rows` that pass (intp, in the given order). Shared: do not write."""
        if self.alive is None:
            return rows
        if rows is not nodes.rows():
            return rows.take(self.alive.take(rows).nonzero()[0])
        if self._passing is None:
            self._passing = rows.take(self.alive.take(rows).nonzero()[0])
        return self._passing

    def add_rejections(self, state: CycleState, rows: Rows, rejections: list[Rejection]) -> None:
        """Add which column rejected which of `rows`."""
        for column in self.columns:
            if column.codes is not None and len(rows):
                rows = split_rows(column.plugin, column.codes.take(rows), state, rows, rejections)


class FilterStep(msgspec.Struct, frozen=True):
    """One step of Filter: which rows a stretch or a live filter judged."""

    judge: ColumnFilters | FilterPlugin
    rows: Rows
    codes: Codes | None = None
    """The codes of a live filter, one per row; those of a stretch are in its columns."""

    def add_rejections(self, state: CycleState, rejections: list[Rejection]) -> None:
        """Add which plugin rejected which rows. Only valid until the columns change."""
        if isinstance(self.judge, ColumnFilters):
            self.judge.add_rejections(state, self.rows, rejections)
        elif self.codes is not None:
            split_rows(self.judge, self.codes, state, self.rows, rejections)


_NOT_READ: Final = -1


@dataclass(slots=True)
class _Group:
    """Columns that follow the same change log, and the position up to which they have read it."""

    log: ChangeLog
    reads_images: bool
    columns: list[Column]
    position: int = _NOT_READ
    images: int = _NOT_READ
    """The number of changes of images that they have read, if they read images."""

    def refresh(self, pod: PodInfo, nodes: NodeTable, tally: CallTimer, *, has_same_nodes: bool) -> Changed | None:
        """Bring the columns up to date. Returns the rows that have changed; `None` means all rows.

        `has_same_nodes`: no node has come or gone since the columns were read, so each row that has changed is a node.
        Raises `PluginFailure` and `UnkeepableError`.
        """
        # The changed rows are asked for once for all columns, and a few of them can be looked up by their amounts. Any
        # other case goes through the columns' own `refresh`: the first time, after images changed, or where another
        # class has read a shared column since.
        position, now, images_now = self.position, self.log.position, nodes.images.changes if self.reads_images else 0
        few: list[int] | None = None
        many: Rows | None = None
        if has_same_nodes and position >= 0 and self.images == images_now:
            few = self.log.few_since(position, FEW_ROWS)
            many = self.log.since(position) if few is None else None
        if few is not None:
            self._refresh_few(few, position, pod, nodes, tally)
        else:
            for column in self.columns:
                if many is not None and column.seen == position and column.unanswered is None:
                    column.judge(pod, nodes, many, tally)
                else:
                    column.refresh(pod, nodes, tally)
        self.position, self.images = now, images_now
        for column in self.columns:
            if column.unanswered is not None:
                self.position = _NOT_READ  # a plugin has failed for some rows: it is asked about them at each use
        return many if few is None else few

    def _refresh_few(self, rows: list[int], seen: int, pod: PodInfo, nodes: NodeTable, tally: CallTimer) -> None:
        """The usual case: a row has changed to amounts that another row had before, so the answer is known."""
        amounts = [nodes.amounts_at(row) for row in rows]
        for column in self.columns:
            if not column.take(rows, amounts, seen, nodes):
                column.refresh(pod, nodes, tally)


@dataclass(slots=True)
class KnownClass:
    """What is known of one class. `refresh` it before each use."""

    answers: tuple[PluginResults, ...]
    """The answers of the plugins with columns."""
    skipped: frozenset[str]
    """Filters with columns that have nothing to judge."""
    live_pre_filter: tuple[PreFilterPlugin, ...]
    live_pre_score: tuple[PreScorePlugin, ...]
    live_score: tuple[WeightedScore, ...]
    steps: tuple[ColumnFilters | FilterPlugin, ...]
    """The filters in the profile's order."""
    scores: tuple[tuple[ScoreColumn, int], ...]
    """Columns with their weights, in the profile's order."""
    reports_all: bool = False
    """Whether the record of a pod that found a node also holds rejections and the points by plugin."""
    _rows: Rows | None = None
    _epochs: int = -1
    rebuilds: int = 0
    """How often all rows were joined again: the table's log does not show that."""
    _base: Scores | None = None
    _normalized: list[NormalizedPoints] = field(default_factory=list)
    _passed: Rows | None = None
    """The passing rows of the last search, if it was over all rows and only columns rejected some."""
    _leaders: Leaders = field(default_factory=Leaders)
    _groups: list["_Group"] = field(default_factory=list)
    columns: tuple[Column, ...] = ()
    stretches: tuple[ColumnFilters, ...] = ()
    """Those of `steps` that have columns."""
    states: tuple[CycleState, ...] = ()
    """What PreFilter and PreScore of the plugins with columns have prepared: a cycle's state takes it over."""
    repeats: "WeakSet[Repeat]" = field(default_factory=WeakSet)
    """What the next pods like those before may use: one for each template with pods of this class."""
    signed_bytes: int = 0
    """What its signatures hold of the pods' specs."""
    bytes: int = 0
    """The size when `count_bytes` was last called, with a part of the size of what it shares with other classes."""
    uses: int = 0
    """How often the class was used."""
    counts_at: int = 1
    """The number of uses at which the bytes are counted again: 1, 4, 16, then each 64th."""

    def __post_init__(self) -> None:
        self.states = tuple(answers.state for answers in self.answers)
        columns = [
            column for answers in self.answers for column in (answers.filter, answers.score) if column is not None
        ]
        self.columns = tuple(columns)
        self.stretches = tuple(step for step in self.steps if isinstance(step, ColumnFilters))
        logs = {(id(column.log), column.reads_images): (column.log, column.reads_images) for column in columns}
        self._groups = [
            _Group(
                log,
                reads_images,
                [column for column in columns if column.log is log and column.reads_images == reads_images],
            )
            for log, reads_images in logs.values()
        ]

    # --- keeping up ---------------------------------------------------------------------------------------------------

    def refresh(self, pod: PodInfo, nodes: NodeTable, tally: CallTimer) -> None:
        """Bring the class up to date. Raises `PluginFailure` and `UnkeepableError`; do not use the class then."""
        images, changed, all_rows = nodes.images.changes, [], nodes.rows()
        has_same_nodes = self._rows is all_rows
        for group in self._groups:  # no comprehension: it would be a call
            if group.position != group.log.position or (group.reads_images and group.images != images):
                changed.append(group.refresh(pod, nodes, tally, has_same_nodes=has_same_nodes))  # noqa: PERF401
        if has_same_nodes and not changed:
            return
        epochs = 0
        for column in self.columns:
            epochs += column.epoch
        rows: Changed | None = None
        if has_same_nodes and epochs == self._epochs:
            rows = _together(changed) if changed[1:] else changed[0]
        if isinstance(rows, list) and self._base is not None:
            self._update_few(nodes, rows, self._base)
        else:
            self._update(nodes, np.array(rows, dtype=np.intp) if isinstance(rows, list) else rows)
        self._rows, self._epochs = all_rows, epochs

    def _update_few(self, nodes: NodeTable, rows: list[int], base: Scores) -> None:
        """The same as `_update` for a few rows: plain numbers cost less than arrays of a few entries."""
        for step in self.stretches:
            if step.update_few(nodes, rows):
                self.count_bytes()
        leaders = self._leaders
        for row in rows:
            points = 0
            for column, weight in self.scores:
                if not (column.normalizes or column.is_zero):
                    points += column.points.item(row) * weight
            base[row] = points
            if leaders.count:
                passes = True
                for step in self.stretches:
                    passes = passes and (step.alive is None or step.alive.item(row))
                leaders.move(row, points if passes else None, nodes.tie_hash)

    def _update(self, nodes: NodeTable, rows: Rows | None) -> None:
        # `rows` is `None` after nodes came or went, or when columns were worked out as a whole: rebuild all arrays.
        is_larger = rows is None
        self._leaders.forget()
        for stretch in self.stretches:
            if stretch.update(nodes, rows):
                is_larger = True
        if rows is None or self._base is None:
            self.rebuilds += 1
            self._base = np.zeros(nodes.capacity, dtype=np.int64)
            self._normalized = [NormalizedPoints(column, weight) for column, weight in self.scores if column.normalizes]
            rows = nodes.rows()
        summed: Scores | int = 0
        for column, weight in self.scores:
            if not (column.normalizes or column.is_zero):
                summed = summed + np.multiply(column.points.take(rows), weight, dtype=np.int64)
        self._base[rows] = summed
        if is_larger:
            self.count_bytes()

    def count_bytes(self) -> None:
        """Count the bytes again: arrays are made at their first use, and answers by amounts are added one by one."""
        parts = sum(answers.bytes for answers in self.answers)
        parts += sum(points.bytes for points in self._normalized)
        parts += sum(stretch.bytes for stretch in self.stretches)
        base = 0 if self._base is None else self._base.nbytes
        self.bytes = _OWN_BYTES + self.signed_bytes + base + parts + self._leaders.bytes
        self.counts_at = self.uses + min(max(3 * self.uses, 1), _MAX_UNCOUNTED)

    def end_repeats(self) -> None:
        """No pod may use `repeats` any more, and they no longer keep the class: it is dropped."""
        for repeat in self.repeats:
            repeat.known = None
        self.repeats.clear()

    # --- filtering ----------------------------------------------------------------------------------------------------

    def passing(self, nodes: NodeTable, rows: Rows, call_live: CallLiveFilter, judged: list[FilterStep]) -> Rows:
        """The rows that pass (intp, ascending). Each step is added to `judged`, up to a failure of a live filter."""
        # `is_by_columns`: the search is over all rows, and no live filter has rejected one.
        is_by_columns = rows is nodes.rows()
        for step in self.steps:
            if not len(rows):
                break
            if isinstance(step, ColumnFilters):
                judged.append(FilterStep(step, rows))
                rows = step.passing(nodes, rows)
                continue
            codes = call_live(step, rows)
            if codes is not None and np.count_nonzero(codes):
                judged.append(FilterStep(step, rows, codes))
                rows = rows.take((codes == 0).nonzero()[0])
                is_by_columns = False
        self._passed = rows if is_by_columns else None
        return rows

    def points_of(self, row: int) -> int | None:
        """The row's sum of points of the plugins that do not normalise; `None` if the columns reject it."""
        assert self._base is not None  # noqa: S101  `refresh` makes it
        for stretch in self.stretches:
            if stretch.alive is not None and not stretch.alive.item(row):
                return None
        return self._base.item(row)

    def base_at(self, rows: Rows) -> Scores:
        """The same for rows that pass: an int64 per row."""
        assert self._base is not None  # noqa: S101  `refresh` makes it
        return self._base.take(rows)

    def passing_by_columns(self, nodes: NodeTable) -> Rows:
        """The same where no live filter has anything to judge, of all rows."""
        rows = nodes.rows()
        for stretch in self.stretches:
            if stretch.alive is not None:
                rows = stretch.passing(nodes, rows)
        self._passed = rows
        return rows

    # --- scoring ------------------------------------------------------------------------------------------------------

    def totals(self, pod: PodInfo, state: CycleState, feasible: Rows) -> Scores:
        """Sums of weighted points of the plugins with columns: an int64 per feasible row, which the caller may change.

        Raises `PluginFailure`.
        """
        assert self._base is not None  # noqa: S101  `refresh` makes it
        totals: Scores = taken(self._base, feasible)
        for points in self._normalized:
            totals += points.at(pod, state, feasible)
        return totals

    def leaders(self, nodes: NodeTable, pod: PodInfo, state: CycleState, feasible: Rows) -> Leaders | None:
        """The feasible rows with the highest `totals`; `None` if that is not known from columns alone.

        It is known if only columns rejected rows, and if normalised points are the same for all feasible rows.
        Raises `PluginFailure`.
        """
        if feasible is not self._passed or self._base is None:
            return None
        shared = self.shared_points(pod, state, feasible)
        if shared is None:
            return None
        self._leaders.shared_points = shared
        if not self._leaders.count:
            self._leaders.settle(feasible, values_at(self._base, compact(feasible)), nodes.tie_hash)
        return self._leaders

    def shared_points(self, pod: PodInfo, state: CycleState, feasible: Rows) -> int | None:
        """The sum of the normalised points, if it is the same for all feasible rows. Raises `PluginFailure`."""
        shared = 0
        for normalized in self._normalized:
            if normalized.of_zero is not None and normalized.column.is_zero and normalized.column.unanswered is None:
                shared += normalized.of_zero  # nearly always: `at` would return it
                continue
            points = normalized.at(pod, state, feasible)
            if not normalized.is_flat(points):
                return None
            shared += points if isinstance(points, int) else points.item(0)
        return shared

    def plugin_scores(self, pod: PodInfo, state: CycleState, feasible: Rows) -> dict[str, PluginScores]:
        """The weighted points by plugin, an int64 per feasible row. Raises `PluginFailure`."""
        normalized = iter(self._normalized)
        by_plugin = {}
        for column, weight in self.scores:
            points = np.zeros(len(feasible), dtype=np.int64)
            if column.normalizes:
                points += next(normalized).at(pod, state, feasible)
            else:
                points += column.points[feasible].astype(np.int64) * weight
            by_plugin[column.plugin.name] = PluginScores(column.plugin.name, weight, points)
        return by_plugin


@dataclass(slots=True, eq=False, weakref_slot=True)
class Repeat:
    """What a cycle has found that holds for the next pod of its template with the same owners, signatures, and labels
    as far as somebody reads them.
    """

    known: "KnownClass | None"
    """Their class; `None` once it is no longer kept."""
    name: Hashable
    """Of the class, in the class engine."""
    epoch: int
    """Of the class engine."""
    labels: dict[str, str]
    read: dict[str, str]
    """Those of the labels that somebody reads: others may have other values."""
    owners: tuple[OwnerReference, ...]
    signed: list[Hashable]
    """By plugins that may read more of a pod than its spec."""
    pod: PodInfo
    """The cycle's: the next one takes over what was worked out for it."""
    idle: frozenset[str]
    """The live plugins whose PreFilter and PreScore skip these pods, as long as `versions` stay."""
    versions: tuple[tuple[ChangeCount, int], ...]
    """The counts of all that `idle` follows from, and their numbers then."""
    skipped: frozenset[str]
    """`idle`, and the plugins with columns whose filter has nothing to judge."""
    skipped_all: frozenset[str]
    """These and `counting`, for pods that it skips."""
    live_pre_filter: tuple[PreFilterPlugin, ...]
    live_pre_score: tuple[PreScorePlugin, ...]
    """The live plugins that must be called for each pod all the same."""
    is_whole: bool
    """Whether none must be: nothing but columns judges these pods, and scores nodes for them."""
    may_be_by_bucket: bool
    """Whether a single plugin must be, and it tells rows apart by bucket, as far as is known."""
    counting: ByBucket | None = None
    """This plugin, from the second pod on."""
    buckets: Buckets | None = None
    """The rows by bucket, from the second pod on."""
    is_used: bool = False
    """Whether it held for another pod."""

    def holds_for(self, metadata: ObjectMeta) -> bool:
        """Whether labels and owners are those of the pod before, as far as somebody reads them."""
        if self.owners != metadata.owner_references:
            return False
        known, labels = self.labels, metadata.labels
        if known == labels:
            return True
        return len(self.read) < len(known) and known.keys() == labels.keys() and self.read.items() <= labels.items()


def _together(changed: list[Changed | None]) -> Changed | None:
    """The union of the rows, ascending; `None` if one of the groups has changed in all rows."""
    first = changed[0]
    if len(changed) == 1 or first is None:
        return first
    rest = [rows for rows in changed[1:] if rows is not None]
    if len(rest) < len(changed) - 1:
        return None
    return np.unique(np.concatenate([first, *rest]).astype(np.intp))
