"""A sweep: the runs of a grid that are not done yet, made by an engine, each kept as soon as it is there."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from kscheduler.sweep.engines.engine import SweepEngine, Tell
from kscheduler.sweep.results import Results
from kscheduler.sweep.row import SweepRow
from kscheduler.sweep.run_spec import RunSpec

# Called after each run: how many are done, of how many, and its row.
Progress = Callable[[int, int, SweepRow], None]


@dataclass
class SweepOutcome:
    """What came of it."""

    rows: list[SweepRow] = field(default_factory=list)
    """In the order of the grid; those with an error, too."""
    made: int = 0
    """How many runs were made now."""

    @property
    def failed(self) -> list[SweepRow]:
        """The rows of runs without a result."""
        return [row for row in self.rows if row.error]


def sweep(
    specs: Sequence[RunSpec], engine: SweepEngine, results: Results, progress: Progress, tell: Tell
) -> SweepOutcome:
    """Make what is missing. Raises `EngineError`, `OSError`; what is there by then stays."""
    done = results.done()
    missing = list({spec.key: spec for spec in specs if spec.key not in done}.values())
    total, outcome, failed = len(specs), SweepOutcome(), dict[str, SweepRow]()
    if missing:
        with closing(engine.rows(missing, tell)) as rows:
            for row in rows:
                results.put(row)
                if row.error:
                    failed[row.key] = row
                outcome.made += 1
                progress(total - len(missing) + outcome.made, total, row)
    keys = [spec.key for spec in specs]
    outcome.rows = [failed[key] if key in failed else results.get(key) for key in keys]
    return outcome
