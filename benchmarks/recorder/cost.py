"""What recording costs: scenarios of `kscheduler bench` with and without a recorder, in paired rounds.

    python -m benchmarks.recorder.cost                                     SchedulingBasic and two others, 5 rounds each
    python -m benchmarks.recorder.cost --scenario SchedulingBasic --rounds 9 --pods 5000

Each round plays the scenario twice in processes of their own, once with and once without, in alternating order; the
median of the rounds' ratios is told, so what else the machine does meanwhile concerns both. CPU includes the thread
that writes.
"""

import argparse
import asyncio
import gc
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kscheduler.aio.clock import REAL_CLOCK
from kscheduler.bench.catalogue import SCENARIOS
from kscheduler.bench.cluster import StandIn
from kscheduler.bench.figures import Figures
from kscheduler.bench.player import Player
from kscheduler.recorder.building import flight_recorder, recorded_state_of
from kscheduler.recorder.flight_recorder import FlightRecorder, RecordSettings, tap

USUAL = ("SchedulingBasic", "SchedulingPodAffinity", "TopologySpreading")


class Round(msgspec.Struct):
    """One run of a scenario."""

    decisions_per_second: float
    cpu_us: float
    """Of the whole process, per decision."""
    bytes_per_decision: float = 0.0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Pair:
    """The same round without and with."""

    without: Round
    recorded: Round


async def play(name: str, nodes: int | None, pods: int | None, directory: Path | None) -> Round:
    """One run in this process."""
    scenario = SCENARIOS[name].resized(nodes, pods)

    def recorder_of(cluster: StandIn) -> FlightRecorder:
        assert directory is not None
        recorder = flight_recorder(RecordSettings(directory), REAL_CLOCK)
        tap(recorder, cluster.informers, tuple(cluster.informers))
        return recorder

    player = Player(scenario, recorded_by=None if directory is None else recorder_of)
    recorder, tending = player.recorder, None
    if recorder is not None:
        informers = player.cluster.informers
        recorder.start(recorded_state_of(player.service, informers, tuple(informers), tuple))
        tending = asyncio.ensure_future(recorder.run())
    figures: Figures = await player.play()
    result = Round(figures.decisions_per_second, figures.cpu_us_per_decision)
    if recorder is not None and tending is not None:
        tending.cancel()
        await recorder.stop()
        found = recorder.statistics()
        result.bytes_per_decision = found.thread.written_bytes / max(found.decisions, 1)
        result.lost = found.lost
    return result


def in_a_process(name: str, args: argparse.Namespace, *, records: bool) -> Round:
    """One run in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.recorder.cost", "--one", name]
    command += [f"--{flag}={value}" for flag, value in (("nodes", args.nodes), ("pods", args.pods)) if value]
    with tempfile.TemporaryDirectory(prefix="kscheduler-cost-") as directory:
        command += ["--record", directory] if records else []
        done = subprocess.run(command, capture_output=True, check=True)
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Round)


def pair(name: str, number: int, args: argparse.Namespace) -> Pair:
    """Both, in an order that alternates."""
    order = (False, True) if number % 2 == 0 else (True, False)
    found = {records: in_a_process(name, args, records=records) for records in order}
    return Pair(found[False], found[True])


def reported(name: str, pairs: list[Pair]) -> str:
    """A line about a scenario."""
    ratios = [each.recorded.decisions_per_second / each.without.decisions_per_second for each in pairs]
    slower = 1 - statistics.median(ratios)
    cpu = statistics.median(each.recorded.cpu_us - each.without.cpu_us for each in pairs)
    base = statistics.median(each.without.cpu_us for each in pairs)
    size = statistics.median(each.recorded.bytes_per_decision for each in pairs)
    lost = sum(each.recorded.lost for each in pairs)
    return (
        f"{name:<28}{len(pairs):>3} rounds: {slower:>6.1%} fewer decisions/s, {cpu:>6.1f} us of CPU more than "
        f"{base:.0f}, {size:.0f} bytes a decision, {lost} entries lost"
    )


def main() -> None:
    """Print a line per scenario."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", action="append", choices=sorted(SCENARIOS), default=[])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--pods", type=int)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    args: Any = parser.parse_args()
    if args.one:
        gc.collect()
        print(msgspec.json.encode(asyncio.run(play(args.one, args.nodes, args.pods, args.record))).decode())
        return
    for name in args.scenario or USUAL:
        print(reported(name, [pair(name, number, args) for number in range(args.rounds)]), flush=True)


if __name__ == "__main__":
    main()
