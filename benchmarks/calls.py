"""What one more pod may call, by scenario: `kscheduler bench --calls` against benchmarks/calls.json.

    python -m benchmarks.calls [--scenario NAME]     count, and fail if a count is above its limit
    python -m benchmarks.calls --write               lower limits to what was counted, and add those of new scenarios
    python -m benchmarks.calls --raise "WHY"         raise those that are exceeded, too; the reason is kept beside them

The problem: CPU differs by 10 % from run to run on a shared machine, so a change that costs 5 % passes, and five such
changes are a quarter. The idea: counts of calls repeat, and CPU follows them, so each count is a limit that only goes
down. The limits are of one minor version of Python, and are compared on that one only; numpy's functions count, too, so
a new release of numpy may need a reason. Scenarios are small: the check takes a minute.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from kscheduler.bench.apart import count_apart
from kscheduler.bench.calls import CallsPerPod, at_least, differences, python_version
from kscheduler.bench.catalogue import SCENARIOS

LIMITS: Final = Path(__file__).parent / "calls.json"
NODES: Final = 300
PODS: Final = 1000
COUNTED: Final = (
    "SchedulingBasic",
    "SchedulingBasic100Classes",
    "SchedulingPodAffinity",
    "TopologySpreading",
    "Unschedulable",
    "DeploymentsWithServices",
    "IndexedJobs",
    "DaemonSetsEveryNode",
    "StatefulSetsWithClaims",
    "SchedulingWithResourceClaimTemplate",
    "GangScheduling",
    "PreemptionBasic",
)
# How far a count may be above its limit: calls per pod, or a share of the limit if that is more.
TOLERANCE: Final = 0.5
TOLERANCE_SHARE: Final = 0.002
# Functions with fewer calls per pod are not kept.
_LEAST_KEPT: Final = 0.5


class Limit(msgspec.Struct, frozen=True):
    """What one more pod of a scenario may call."""

    python_calls_per_pod: float
    builtin_calls_per_pod: float
    why: tuple[str, ...] = ()
    """For each time that it was raised: from what to what, and the reason."""
    by_file: dict[str, dict[str, float]] = {}
    """The functions of the count that the limit is of, to tell what was added; builtin ones have the file `builtin`."""

    @property
    def by_function(self) -> dict[str, float]:
        """As `CallsPerPod.by_function`."""
        return {
            f"{file}:{function}": calls
            for file, functions in self.by_file.items()
            for function, calls in functions.items()
        }


class Limits(msgspec.Struct, frozen=True):
    """The limits of all scenarios."""

    python: str
    numpy: str
    """The versions that they were counted with."""
    scenarios: dict[str, Limit]


@dataclass(frozen=True)
class Verdict:
    """A count beside its limit."""

    now: CallsPerPod
    limit: Limit | None
    """`None`: it has none yet."""

    @property
    def is_above(self) -> bool:
        """Whether the check fails."""
        return self.limit is None or any(now > limit + tolerance(limit) for _, limit, now in self._pairs())

    @property
    def is_below(self) -> bool:
        """Whether a limit can be lowered by more than counts differ."""
        return self.limit is not None and any(now < limit - tolerance(limit) for _, limit, now in self._pairs())

    def lines(self) -> list[str]:
        """What to print."""
        if self.limit is None:
            return [f"{self.now.scenario}: no limit yet; python -m benchmarks.calls --write adds it"]
        counts = ", ".join(f"{now:,.1f} {kind} (limit {limit:,.1f})" for kind, limit, now in self._pairs())
        moved = differences(self.limit.by_function, at_least(_LEAST_KEPT, self.now.by_function), _LEAST_KEPT)
        if self.is_above:
            return [
                f"{self.now.scenario}: {counts}: ABOVE",
                *(f"  {more:+9.2f}  {name}" for name, more in moved.items()),
            ]
        return [f"{self.now.scenario}: {counts}{': lower the limit' if self.is_below else ''}"]

    def _pairs(self) -> Iterable[tuple[str, float, float]]:
        if self.limit is not None:
            yield "Python", self.limit.python_calls_per_pod, self.now.python_calls_per_pod
            yield "builtin", self.limit.builtin_calls_per_pod, self.now.builtin_calls_per_pod


def tolerance(limit: float) -> float:
    """How far a count may be above the limit, in calls per pod."""
    return max(TOLERANCE, limit * TOLERANCE_SHARE)


def judged(limits: Mapping[str, Limit], counted: Iterable[CallsPerPod]) -> list[Verdict]:
    """Each count beside its limit."""
    return [Verdict(now, limits.get(now.scenario)) for now in counted]


def lowered(limits: Limits, counted: Iterable[CallsPerPod], why: str = "") -> Limits:
    """The limits after this count: lower where it is lower, and higher only with a reason and where it is exceeded."""
    scenarios = dict(limits.scenarios)
    for verdict in judged(limits.scenarios, counted):
        now, limit = verdict.now, verdict.limit
        if limit is None:
            scenarios[now.scenario] = _limit(now, (why,) if why and not limits.scenarios else ())
        elif verdict.is_above and why:
            raised = (
                f"{limit.python_calls_per_pod} to {now.python_calls_per_pod} Python, "
                f"{limit.builtin_calls_per_pod} to {now.builtin_calls_per_pod} builtin: {why}"
            )
            scenarios[now.scenario] = _limit(now, (*limit.why, raised))
        elif not verdict.is_above:
            scenarios[now.scenario] = _lower(limit, now)
    in_order = {name: scenarios[name] for name in sorted(scenarios, key=_place)}
    return Limits(limits.python, limits.numpy, in_order)


def _limit(now: CallsPerPod, why: tuple[str, ...]) -> Limit:
    return Limit(now.python_calls_per_pod, now.builtin_calls_per_pod, why, _by_file(now))


def _lower(limit: Limit, now: CallsPerPod) -> Limit:
    python = min(limit.python_calls_per_pod, now.python_calls_per_pod)
    builtin = min(limit.builtin_calls_per_pod, now.builtin_calls_per_pod)
    if (python, builtin) == (limit.python_calls_per_pod, limit.builtin_calls_per_pod):
        return limit
    return Limit(python, builtin, limit.why, _by_file(now))


def _by_file(now: CallsPerPod) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name, calls in sorted(at_least(_LEAST_KEPT, now.by_function).items()):
        file, _, function = name.partition(":")
        found.setdefault(file, {})[function] = calls
    return found


def read(path: Path) -> Limits:
    """The limits that were written. Raises `SystemExit` with what is wrong."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Limits)
    except (OSError, msgspec.DecodeError) as error:
        raise SystemExit(f"{path}: {error}") from None


def _place(scenario: str) -> int:
    """In the order in which they are counted."""
    return COUNTED.index(scenario) if scenario in COUNTED else len(COUNTED)


def write(path: Path, limits: Limits) -> None:
    """One line for each file of a scenario's functions: `git diff` then shows what has changed."""
    text = msgspec.json.format(msgspec.json.encode(limits), indent=1).decode()
    path.write_text(_FUNCTIONS.sub(_in_one_line, text) + "\n", encoding="utf-8")


# In the text, the functions of one file: the innermost objects.
_FUNCTIONS: Final = re.compile(r"\{\n[^{}]*\}")
_WHOLE: Final = re.compile(r"\.0(?=[,}])")


def _in_one_line(found: re.Match[str]) -> str:
    return _WHOLE.sub("", msgspec.json.format(found[0], indent=0))


def count(names: Iterable[str]) -> Iterable[CallsPerPod]:
    """Count the scenarios in the sizes of the limits."""
    return count_apart(SCENARIOS[name].resized(NODES, PODS) for name in names)


def run(options: argparse.Namespace, counted: Iterable[CallsPerPod]) -> int:
    """Count, compare, and write if it was asked for; the exit code."""
    why, results = options.why or "", []
    limits = read(options.limits) if options.limits.exists() else Limits(python_version(), "", {})
    if limits.python != python_version():
        if not why or options.scenario:
            print(
                f"the limits are of Python {limits.python}, and this is {python_version()}: nothing is compared; "
                'all are counted anew on this one by --raise "why", without --scenario'
            )
            return 2 if options.write or why else 0
        limits, why = Limits(python_version(), "", {}), f"counted anew on Python {python_version()}: {why}"
    for now in counted:
        (verdict,) = judged(limits.scenarios, [now])
        print("\n".join(verdict.lines()), flush=True)
        results.append(now)
    above = [verdict.now.scenario for verdict in judged(limits.scenarios, results) if verdict.is_above]
    if options.write or why:
        after = lowered(limits, results, why)
        numpy = results[0].numpy if len(results) == len(after.scenarios) else limits.numpy
        write(options.limits, Limits(after.python, numpy, after.scenarios))
        above = [verdict.now.scenario for verdict in judged(after.scenarios, results) if verdict.is_above]
    if above:
        print(f'\nabove the limit: {", ".join(above)}. If it is worth it: python -m benchmarks.calls --raise "why"')
        if limits.numpy != results[0].numpy:
            print(f"the limits were counted with numpy {limits.numpy}, this is numpy {results[0].numpy}")
    return 1 if above else 0


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calls", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scenario", action="append", choices=COUNTED, metavar="NAME", help="only this one")
    parser.add_argument("--limits", type=Path, default=LIMITS)
    parser.add_argument("--write", action="store_true", help="lower the limits to what was counted")
    parser.add_argument("--raise", dest="why", metavar="WHY", help="raise limits, too, for this reason")
    options = parser.parse_args(arguments)
    if options.why is not None and not options.why.strip():
        parser.error("--raise needs a reason")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    return run(options, count(options.scenario or COUNTED))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
