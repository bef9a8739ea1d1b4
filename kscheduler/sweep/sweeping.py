"""A sweep: the runs of a grid that are not done yet, made by an engine, each kept as soon as it is there."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from kscheduler.sweep.engines.engine import SweepEngine, Tell
from kscheduler.sweep.results import DamagedRowError, Results
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
    kept = _kept(specs, results, tell)
    missing = list({spec.key: spec for spec in specs if spec.key not in kept}.values())
    total, outcome = len(specs), SweepOutcome()
    if missing:
        with closing(engine.rows(missing, tell)) as rows:
            for row in rows:
                results.put(row)
                kept[row.key] = row
                outcome.made += 1
                progress(total - len(missing) + outcome.made, total, row)
    outcome.rows = [kept[spec.key] for spec in specs]
    return outcome


def _kept(specs: Sequence[RunSpec], results: Results, tell: Tell) -> dict[str, SweepRow]:
    """The rows that are there, by key. All are read before the first run: damaged ones are made with the rest."""
    done, kept = results.done(), dict[str, SweepRow]()
    for key in dict.fromkeys(spec.key for spec in specs if spec.key in done):
        try:
            kept[key] = results.get(key)
        except DamagedRowError as damage:
            tell(f"{damage}; the run is made again")
            results.forget(key)
    return kept
