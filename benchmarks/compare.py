"""What got slower, by ratio: a run of `kscheduler bench` against benchmarks/baseline.json.

    python -m benchmarks.compare [--scenario NAME] [--rounds 3]     play, and compare
    python -m benchmarks.compare --result FILE                      compare what was played before
    python -m benchmarks.compare --write FILE                       play, and keep the best in the file
    python -m benchmarks.compare --result FILE --write BASELINE     keep the best of what was played before

Judged is CPU per decision, the median of the rounds: on a machine that others use too, wall clock says little. The
limit of a scenario is 10 %, or how far its rounds lie apart in either run, if that is more. On another kind of CPU the
ratio is divided by that of a fixed piece of work. Exit code 1 if something got slower, larger (resident memory, by
20 %) or binds fewer pods.

A baseline is the best there ever was, not the last: else five changes of 8 % pass, each beside the one before. To a
file that is there, `--write` keeps for each scenario the rounds with the lower median. Higher ones replace them only
with a reason (`--raise "WHY"`), which stays in the file; without one the exit code is 1. Runs on different kinds of CPU
are not mixed.
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
REFUSED = 'refused: a baseline only gets better; --raise "why" takes it all the same'


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
    if _bound(now) < _bound(before):
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


def best(kept: runs.Run, now: runs.Run, why: str = "") -> tuple[runs.Run, list[str]]:
    """The better rounds of each scenario, and a line for each that is new, was replaced or is refused.

    With a reason the higher ones are taken, too. Raises `SystemExit` for runs on different kinds of CPU.
    """
    if kept.machine.cpu != now.machine.cpu:
        raise SystemExit(f"the file is of {kept.machine.cpu}, and this is {now.machine.cpu}: write to another file")
    rounds, raised, lines = kept.rounds(), dict(kept.raised), []
    for name, played in now.rounds().items():
        new = runs.median(played, "cpu_us_per_decision")
        if name not in rounds:
            rounds[name] = played
            lines.append(f"{name}: new, {new:,.1f} us")
            continue
        old = runs.median(rounds[name], "cpu_us_per_decision")
        is_same_work = _size(rounds[name]) == _size(played) and _bound(played) >= _bound(rounds[name])
        if is_same_work and new <= old:
            if new < old:
                rounds[name] = played
                lines.append(f"{name}: {old:,.1f} to {new:,.1f} us")
            continue
        change = f"{old:,.1f} to {new:,.1f} us" if is_same_work else "another size, or fewer pods bound"
        if why:
            rounds[name] = played
            raised[name] = (*raised.get(name, ()), f"{change}: {why}")
            lines.append(f"{name}: {change}, raised")
        else:
            lines.append(f"{name}: {change}, {REFUSED}")
    longest = max(map(len, rounds.values()))
    figures = (each[number] for number in range(longest) for each in rounds.values() if number < len(each))
    return runs.Run(kept.machine, tuple(figures), raised), lines


def keep(path: Path, before: runs.Run | None, now: runs.Run, why: str) -> int:
    """Write the run to the file, or what is best of both; the exit code."""
    if before is None:
        runs.write(path, now)
        return 0
    kept, lines = best(before, now, why)
    print("\n".join(lines or ["nothing got better"]))
    runs.write(path, kept)
    return 1 if any(line.endswith(REFUSED) for line in lines) else 0


def _bound(rounds: list[Figures]) -> int:
    return min(one.bound for one in rounds)


def play(options: argparse.Namespace) -> runs.Run:
    chosen: list[BenchmarkScenario] = [SCENARIOS[name] for name in options.scenario or SCENARIOS]
    resized = [one.resized(options.nodes, options.pods) for one in chosen]
    print(figures.HEADER, flush=True)
    is_new = options.write and not options.write.exists()
    so_far = None
    for so_far in runs.play_rounds(resized, options.rounds):
        print(figures.row(so_far.figures[-1]), flush=True)
        if is_new:
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
    parser.add_argument("--write", type=Path, help="keep what is best in this file, and compare nothing")
    parser.add_argument("--raise", dest="why", metavar="WHY", help="with --write: keep what is worse, too")
    options = parser.parse_args(arguments)
    if options.why is not None and not (options.why.strip() and options.write):
        parser.error("--raise needs a reason, and --write")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if options.rounds < 1:
        raise SystemExit("--rounds must be at least 1")
    before = runs.read(options.write) if options.write and options.write.exists() else None
    now = runs.read(options.result) if options.result else play(options)
    if options.write:
        return keep(options.write, before, now, options.why or "")
    return report(runs.read(options.baseline), now)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)  # what was played so far is in the file of --write, if there was none before
