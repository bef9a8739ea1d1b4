"""The share of CEL in scheduler_perf's scenarios of devices: `python -m benchmarks.devices.cel_share`.

Each scenario is played in process, as `kscheduler bench` does, with a stopwatch around every evaluation and compilation
of a selector: what the answers of selectors cost that are not known yet. Seconds are of this thread's CPU.
"""

import argparse
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from kscheduler.api.devices import Device
from kscheduler.bench.devices import DEVICE_SCENARIOS
from kscheduler.bench.player import play
from kscheduler.plugins.dynamic_resources.long_evaluations import PatientCompiler, PatientSelector

NODES = 1_000


@dataclass
class Clock:
    """What CEL has cost so far."""

    seconds: float = 0.0
    evaluations: int = 0
    compilations: int = 0


def measured(clock: Clock) -> None:
    """Put the stopwatch around selectors, for the rest of this process."""
    compile_, matches = PatientCompiler.compile, PatientSelector.matches

    def timed_compile(self: PatientCompiler, expression: str) -> PatientSelector:
        began = time.thread_time()
        try:
            return compile_(self, expression)
        finally:
            clock.seconds += time.thread_time() - began
            clock.compilations += 1

    def timed_matches(self: PatientSelector, driver: str, device: Device) -> bool:
        began = time.thread_time()
        try:
            return matches(self, driver, device)
        finally:
            clock.seconds += time.thread_time() - began
            clock.evaluations += 1

    PatientCompiler.compile = timed_compile  # type: ignore[method-assign]
    PatientSelector.matches = timed_matches  # type: ignore[method-assign]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line per scenario."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=NODES)
    nodes = parser.parse_args(arguments).nodes
    clock = Clock()
    measured(clock)
    for scenario in DEVICE_SCENARIOS:
        clock.seconds, clock.evaluations, clock.compilations = 0.0, 0, 0
        figures = asyncio.run(play(scenario.resized(nodes)))
        spent = figures.cpu_us_per_decision * figures.bound / 1e6
        print(
            f"{figures.scenario}: {figures.bound} of {figures.pods} pods on {figures.nodes} nodes, "
            f"{figures.decisions_per_second:.0f} decisions/s, {figures.cpu_us_per_decision:.0f} us of CPU each; "
            f"CEL {clock.seconds:.2f} of {spent:.2f} s ({100 * clock.seconds / spent:.1f} %): "
            f"{clock.evaluations} evaluations, {clock.compilations} look-ups of compiled ones",
            flush=True,
        )


if __name__ == "__main__":
    main()
