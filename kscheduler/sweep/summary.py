"""Summaries of a sweep's rows: mean and standard deviation over the seeds, for each workload and policy."""

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean, stdev
from typing import Final

import msgspec

from kscheduler.sweep.row import SweepRow
from kscheduler.text import BOLD, PLAIN, Style, aligned, printable

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


def summaries(rows: Iterable[SweepRow]) -> list[PolicySummary]:
    """By workload and policy, in the order of their first rows."""
    by_name: dict[tuple[str, str], list[SweepRow]] = {}
    for row in rows:
        by_name.setdefault((workload_of(row), row.policy), []).append(row)
    return [_summary(*names, found) for names, found in by_name.items()]


def workload_of(row: SweepRow) -> str:
    """The workload with its node shape."""
    return f"{row.workload}, {row.shape}" if row.shape else row.workload


def _summary(workload: str, policy: str, rows: Sequence[SweepRow]) -> PolicySummary:
    succeeded = [row for row in rows if not row.error]
    columns = {name: spread for name, _, _ in SHOWN if (spread := spread_of(succeeded, name)) is not None}
    return PolicySummary(workload, policy, len(rows), len(rows) - len(succeeded), columns)


def spread_of(rows: Iterable[SweepRow], column: str) -> ColumnSpread | None:
    """`None`: no row has a value."""
    values = [float(value) for row in rows if (value := getattr(row, column)) is not None]
    return ColumnSpread(fmean(values), stdev(values) if len(values) > 1 else 0.0, len(values)) if values else None


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
