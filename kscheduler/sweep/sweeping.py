"""A sweep: an engine executes the runs of a grid that are not done yet; each row is stored as soon as it arrives."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from kscheduler.sweep.engines.engine import Report, SweepEngine
from kscheduler.sweep.results import DamagedRowError, Results
from kscheduler.sweep.row import SweepRow
from kscheduler.sweep.run_spec import RunSpec

# Called after each run: how many are done, of how many, and its row.
Progress = Callable[[int, int, SweepRow], None]


@dataclass
class SweepOutcome:
    """The result of a sweep."""

    rows: list[SweepRow] = field(default_factory=list)
    """In the order of the grid, including those with an error."""
    executed: int = 0
    """How many runs were not done before."""

    @property
    def failed(self) -> list[SweepRow]:
        """The rows of runs without a result."""
        return [row for row in self.rows if row.error]


def sweep(
    specs: Sequence[RunSpec], engine: SweepEngine, results: Results, progress: Progress, report: Report
) -> SweepOutcome:
    """Execute the runs that are not done. Raises `EngineError`, `OSError`; rows stored by then stay."""
    finished = _finished_rows(specs, results, report)
    missing = list({spec.key: spec for spec in specs if spec.key not in finished}.values())
    total, outcome = len(specs), SweepOutcome()
    if missing:
        with closing(engine.rows(missing, report)) as rows:
            for row in rows:
                results.put(row)
                finished[row.key] = row
                outcome.executed += 1
                progress(total - len(missing) + outcome.executed, total, row)
    outcome.rows = [finished[spec.key] for spec in specs]
    return outcome


def _finished_rows(specs: Sequence[RunSpec], results: Results, report: Report) -> dict[str, SweepRow]:
    """The stored rows, by key. All are read before the first run, so that damaged ones are repeated with the rest."""
    done, rows = results.done(), dict[str, SweepRow]()
    for key in dict.fromkeys(spec.key for spec in specs if spec.key in done):
        try:
            rows[key] = results.get(key)
        except DamagedRowError as damage:
            report(f"{damage}; the run is repeated")
            results.forget(key)
    return rows
