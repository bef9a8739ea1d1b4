"""What got slower, by ratio: a run of `kscheduler bench` against benchmarks/baseline.json.

    python -m benchmarks.compare [--scenario NAME] [--rounds 3]     play, and compare
    python -m benchmarks.compare --result FILE                      compare what was played before
    python -m benchmarks.compare --rounds 3 --write FILE            play and keep: this is how the baseline is made

Judged is CPU per decision, the median of the rounds: on a machine that others use too, wall clock says little. The
limit of a scenario is 10 %, or how far its rounds lie apart in either run, if that is more. On another kind of CPU the
ratio is divided by that of a fixed piece of work. Exit code 1 if something got slower, larger (resident memory, by
20 %) or binds fewer pods.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks import runs
from kscheduler.bench import figures
from kscheduler.bench.catalogue import SCENARIOS
from kscheduler.bench.figures import Figures
from kscheduler.bench.scenario import BenchmarkScenario

BASELINE = Path(__file__).parent / "baseline.json"
TOLERANCE = 0.10
MEMORY_TOLERANCE = 0.20


@dataclass(frozen=True)
class LoggedFailure:
    """One scenario, before and now."""

    scenario: str
    before_us: float
    now_us: float
    ratio: float
    """CPU per decision, now to before; the machine's own speed is taken out."""
    limit: float
    """Above this ratio it got slower, below its inverse faster."""
    memory_ratio: float
    words: tuple[str, ...]

    @property
    def is_worse(self) -> bool:
        """Whether a person should look at the difference."""
        return not {"slower", "larger", "binds fewer"}.isdisjoint(self.words)

    def row(self) -> str:
        """A line under `HEADER`."""
        return (
            f"{self.scenario:<54}{self.before_us:>10,.0f}{self.now_us:>10,.0f}{self.ratio:>8.2f}{self.limit:>8.2f}"
            f"{self.memory_ratio:>9.2f}  {', '.join(self.words)}"
        )


HEADER = f"{'scenario':<54}{'before us':>10}{'now us':>10}{'ratio':>8}{'limit':>8}{'memory':>9}"


def compared(before: runs.Run, now: runs.Run) -> list[LoggedFailure]:
    """A verdict on each scenario that both runs have in the same size."""
    known = before.rounds()
    speed = _speed(before.machine, now.machine)
    return [
        judged(known[name], rounds, speed)
        for name, rounds in now.rounds().items()
        if name in known and _size(known[name]) == _size(rounds)
    ]


def left_out(before: runs.Run, now: runs.Run) -> list[str]:
    """Scenarios of the run that are not in the baseline, or in another size."""
    known = before.rounds()
    return [name for name, rounds in now.rounds().items() if name not in known or _size(known[name]) != _size(rounds)]


def judged(before: list[Figures], now: list[Figures], speed: float) -> LoggedFailure:
    """One scenario's rounds. `speed`: how many times slower the machine is now."""
    old, new = (runs.median(rounds, "cpu_us_per_decision") for rounds in (before, now))
    ratio = new / old / speed if old else 1.0
    limit = 1 + max(TOLERANCE, spread(before), spread(now))
    memory = runs.median(now, "rss_mib") / runs.median(before, "rss_mib")
    words = []
    if ratio > limit:
        words.append("slower")
    elif ratio < 1 / limit:
        words.append("faster")
    if memory > 1 + MEMORY_TOLERANCE:
        words.append("larger")
    if min(one.bound for one in now) < min(one.bound for one in before):
        words.append("binds fewer")
    return LoggedFailure(now[0].scenario, old, new, ratio, limit, memory, tuple(words))


def spread(rounds: list[Figures]) -> float:
    """How far apart the rounds are, as a share of their median; unknown for a single round."""
    values = [one.cpu_us_per_decision for one in rounds]
    middle = runs.median(rounds, "cpu_us_per_decision")
    return (max(values) - min(values)) / middle if middle else 0.0


def _size(rounds: list[Figures]) -> tuple[int, int]:
    return rounds[0].nodes, rounds[0].pods


def _speed(before: runs.Machine, now: runs.Machine) -> float:
    return 1.0 if before.cpu == now.cpu else now.reference_us / before.reference_us


def play(options: argparse.Namespace) -> runs.Run:
    chosen: list[BenchmarkScenario] = [SCENARIOS[name] for name in options.scenario or SCENARIOS]
    resized = [one.resized(options.nodes, options.pods) for one in chosen]
    print(figures.HEADER, flush=True)
    so_far = None
    for so_far in runs.play_rounds(resized, options.rounds):
        print(figures.row(so_far.figures[-1]), flush=True)
        if options.write:
            runs.write(options.write, so_far)
    assert so_far is not None  # there is at least one scenario and one round
    return so_far


def report(before: runs.Run, now: runs.Run) -> int:
    """Tell all verdicts; the exit code."""
    verdicts = compared(before, now)
    print(f"\nbaseline: {before.machine}\nthis run: {now.machine}\n{HEADER}")
    for verdict in verdicts:
        print(verdict.row())
    for name in left_out(before, now):
        print(f"{name:<54}not in the baseline, or in another size")
    worse = [verdict.scenario for verdict in verdicts if verdict.is_worse]
    print(f"\nworse: {', '.join(worse)}" if worse else "\nnothing got worse")
    return 1 if worse else 0


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--scenario", action="append", choices=sorted(SCENARIOS), metavar="NAME", help="only this one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--pods", type=int)
    parser.add_argument("--baseline", type=Path, default=BASELINE)
    parser.add_argument("--result", type=Path, help="compare this run instead of playing")
    parser.add_argument("--write", type=Path, help="keep the run in this file, and compare nothing")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if options.rounds < 1:
        raise SystemExit("--rounds must be at least 1")
    now = runs.read(options.result) if options.result else play(options)
    if options.write:
        return 0
    return report(runs.read(options.baseline), now)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)  # what was played so far is in the file of --write
