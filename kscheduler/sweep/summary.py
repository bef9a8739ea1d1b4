"""Summaries of a sweep's rows: mean and standard deviation over the seeds, for each workload and policy."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import Final

import msgspec

from kscheduler.sweep.row import SweepRow
from kscheduler.text import BOLD, PLAIN, Style, aligned, printable

# Of each workload's different notes so many are told; the rows have all of them.
_MAX_NOTES: Final = 3

# What is shown, by column: its title, and how many digits.
SHOWN: Final = (
    ("placed", "placed", 0),
    ("waiting", "waiting", 0),
    ("gangs_waiting", "gangs waiting", 0),
    ("cpu_allocated", "cpu %", 1),
    ("gpu_allocated", "gpu %", 2),
    ("gpus_unusable", "unusable gpus", 1),
    ("nodes_used", "nodes used", 1),
    ("zone_skew", "zone skew", 1),
    ("price", "price", 2),
    ("queue_seconds_p99", "p99 wait s", 1),
)


class ColumnSpread(msgspec.Struct, frozen=True):
    """A column of some rows."""

    mean: float
    deviation: float
    """The standard deviation; 0 of a single row."""
    count: int


class PolicySummary(msgspec.Struct, frozen=True):
    """The rows of a policy over a workload."""

    workload: str
    """With its node shape, if it has one."""
    policy: str
    rows: int
    failed: int
    columns: dict[str, ColumnSpread]
    """By name, of those that are shown and have values."""


def summaries(
    rows: Iterable[SweepRow], figures: Mapping[str, Callable[[SweepRow], float]] | None = None
) -> list[PolicySummary]:
    """By workload and policy, in the order of their first rows. `figures`: computed columns, by name."""
    by_name: dict[tuple[str, str], list[SweepRow]] = {}
    for row in rows:
        by_name.setdefault((workload_of(row), row.policy), []).append(row)
    return [_summary(*names, found, figures or {}) for names, found in by_name.items()]


def with_common_seeds(rows: Sequence[SweepRow]) -> tuple[list[SweepRow], dict[str, tuple[int, ...]]]:
    """The rows whose means may be compared, and the seeds of each workload whose policies did not all have the same.

    A mean over other seeds is one of other pods. A policy that failed with each seed leaves the others as they are; if
    policies have no seed in common, none is left out, and the seeds are empty.
    """
    of_workload: dict[str, dict[str, set[int]]] = {}
    for row in rows:
        if not row.error:
            of_workload.setdefault(workload_of(row), {}).setdefault(row.policy, set()).add(row.seed)
    chosen = dict[str, tuple[int, ...]]()
    for workload, by_policy in of_workload.items():
        common = set.intersection(*by_policy.values())
        if any(seeds != common for seeds in by_policy.values()):
            chosen[workload] = tuple(sorted(common))
    kept = [row for row in rows if row.error or row.seed in (chosen.get(workload_of(row)) or (row.seed,))]
    return kept, chosen


def notes_of(rows: Iterable[SweepRow]) -> Iterator[str]:
    """What recordings and figures lack and why pods wait, with the workload: each once, of a workload only a few."""
    by_workload: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.notes:
            by_workload.setdefault(workload_of(row), {})[row.notes] = None
    for workload, notes in by_workload.items():
        yield from (f"{workload}: {text}" for text in list(notes)[:_MAX_NOTES])
        if (more := len(notes) - _MAX_NOTES) > 0:
            yield f"{workload}: {more:,} other notes are in the column `notes` of results.parquet"


def workload_of(row: SweepRow) -> str:
    """The workload with its node shape."""
    return f"{row.workload}, {row.shape}" if row.shape else row.workload


def _summary(
    workload: str, policy: str, rows: Sequence[SweepRow], figures: Mapping[str, Callable[[SweepRow], float]]
) -> PolicySummary:
    succeeded = [row for row in rows if not row.error]
    columns = {name: spread for name, _, _ in SHOWN if (spread := spread_of(succeeded, name)) is not None}
    if succeeded:
        columns |= {name: _spread([figure(row) for row in succeeded]) for name, figure in figures.items()}
    return PolicySummary(workload, policy, len(rows), len(rows) - len(succeeded), columns)


def spread_of(rows: Iterable[SweepRow], column: str) -> ColumnSpread | None:
    """`None`: no row has a value."""
    values = [float(value) for row in rows if (value := getattr(row, column)) is not None]
    return _spread(values) if values else None


def _spread(values: Sequence[float]) -> ColumnSpread:
    return ColumnSpread(fmean(values), stdev(values) if len(values) > 1 else 0.0, len(values))


def summary_text(rows: Sequence[SweepRow], style: Style = PLAIN) -> str:
    """A table for each workload. Without a final line end."""
    return "\n".join(line.rstrip() for line in _lines(summaries(rows), style))


def _lines(found: Sequence[PolicySummary], style: Style) -> Iterator[str]:
    for index, workload in enumerate(dict.fromkeys(each.workload for each in found)):
        if index:
            yield ""
        yield style.paint(printable(workload), BOLD)
        of_workload = [each for each in found if each.workload == workload]
        shown = [each for each in SHOWN if any(each[0] in summary.columns for summary in of_workload)]
        table = [("  policy", "runs", *(title for _, title, _ in shown))]
        for summary in of_workload:
            cells = (spread_text(summary.columns.get(name), digits) for name, _, digits in shown)
            runs = f"{summary.rows - summary.failed} of {summary.rows}" if summary.failed else str(summary.rows)
            table.append((f"  {printable(summary.policy)}", runs, *cells))
        yield from aligned(table, set(range(1, len(table[0]))))


def spread_text(spread: ColumnSpread | None, digits: int) -> str:
    """The mean with the deviation; a dash where there is no value."""
    if spread is None:
        return "-"
    deviation = f" ±{spread.deviation:.{digits}f}" if spread.count > 1 else ""
    return f"{spread.mean:,.{digits}f}{deviation}"
