"""What is printed about a run."""

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Final

from tests.mutants.mutation import Mutant
from tests.mutants.trials import Outcome

# Of the mutants that are not known to be equivalent, so many must die.
ENOUGH: Final = 0.80


def line(outcome: Outcome) -> str:
    """One mutant's end."""
    end = f"LIVED through {outcome.tests} tests" if outcome.lived else f"{outcome.how} in {outcome.killer}"
    return f"{outcome.job.mutant}   [{end}, {outcome.seconds:.1f} s]"


def share(outcomes: Sequence[Outcome]) -> float:
    """How many died, of all."""
    return sum(not outcome.lived for outcome in outcomes) / len(outcomes) if outcomes else 1.0


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """Counts by package and by kind of change."""
    by_package = _counts((str(PurePath(*PurePath(_mutant(each).path).parts[:2])), each.lived) for each in outcomes)
    by_kind = _counts((_mutant(each).kind, each.lived) for each in outcomes)
    total = _row("all", sum(not each.lived for each in outcomes), sum(each.lived for each in outcomes))
    return [f"{'':<28}{'died':>6}{'lived':>6}", *by_package, "", *by_kind, "", total]


def survivor(outcome: Outcome) -> list[str]:
    """As a small diff."""
    mutant = _mutant(outcome)
    where = f"{mutant.path}:{mutant.line}" + (f" in {mutant.scope}" if mutant.scope else "")
    through = f"{outcome.tests} tests" if outcome.tests else "no test runs it"
    return [f"{where}   ({mutant.kind}; {through})", f"  - {mutant.before}", f"  + {mutant.after}"]


def _mutant(outcome: Outcome) -> Mutant:
    assert outcome.job.mutant is not None
    return outcome.job.mutant


def _counts(ends: Iterable[tuple[str, bool]]) -> list[str]:
    died: dict[str, int] = {}
    lived: dict[str, int] = {}
    for name, has_lived in ends:
        for counts, happened in ((died, not has_lived), (lived, has_lived)):
            counts[name] = counts.get(name, 0) + happened
    return [_row(name, died[name], lived[name]) for name in sorted(died)]


def _row(name: str, died: int, lived: int) -> str:
    return f"{name:<28}{died:>6}{lived:>6}{died / max(1, died + lived):>8.0%}"
