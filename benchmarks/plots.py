"""What a decision costs against the size of the cluster, measured and drawn.

    python -m benchmarks.plots [--only nodes|running] [--resume] [--most-nodes 100000] [--most-running 500000]
    python -m benchmarks.plots --read FOLDER    draw again what was measured before

Two pictures: CPU per decision against nodes (100 to 100,000; scheduler_perf's scenarios, with its running pods) and
against running pods (0 to 500,000 on 5,000 nodes, all of them like the measured ones). Pods that are there before are
not scheduled first, they run already.

Each point is a process of its own, and all points are played in rounds: what disturbs the machine for a minute hits
each of them once. Drawn are medians. What is measured is kept at once beside the pictures, and `--resume` goes on where
a run was interrupted. Needs matplotlib: pip install '.[plots]' in a checkout.
"""

import argparse
import importlib.util
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.runs import Machine, machine
from kscheduler import __version__
from kscheduler.bench import objects
from kscheduler.bench.apart import play_apart
from kscheduler.bench.catalogue import SCENARIOS
from kscheduler.bench.figures import HEADER, row
from kscheduler.bench.own_scenarios import running_pods
from kscheduler.bench.scenario import BenchmarkScenario
from kscheduler.bench.template import Template

NODE_COUNTS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
RUNNING_COUNTS = (0, 10_000, 50_000, 100_000, 200_000, 350_000, 500_000)
PLAIN = "plain pods"
# The scenario against nodes, and the pods against running pods.
LINES: dict[str, tuple[str, Template]] = {
    PLAIN: ("SchedulingBasic", objects.DEFAULT_POD),
    "hard zone spread": ("TopologySpreading", objects.SPREAD_POD),
    "preferred pod affinity": ("SchedulingPreferredPodAffinity", objects.PREFERRED_AFFINITY_POD),
}
# Colours that colour-blind readers can distinguish.
COLOURS = dict(zip(LINES, ("#0072b2", "#d55e00", "#009e73"), strict=True))

# From how many nodes to how many a decision on a plain pod may cost at most so many times as much.
GROWTH, MAX_GROWTH = (1_000, 50_000), 6
# On so many nodes 10,000 decisions on plain pods a second are promised.
GOAL_NODES, GOAL_US = 5_000, 100


@dataclass(frozen=True)
class Wanted:
    """A point to be measured."""

    line: str
    at: int
    """On the x axis."""
    scenario: BenchmarkScenario


def by_nodes(most: int, pods: int) -> Iterator[Wanted]:
    """The points of the first picture."""
    for line, (scenario, _) in LINES.items():
        for count in [count for count in NODE_COUNTS if count <= most] or [most]:
            yield Wanted(line, count, SCENARIOS[scenario].resized(count, pods).settled())


def by_running(most: int, pods: int, nodes: int) -> Iterator[Wanted]:
    """The points of the second."""
    for line, (_, kind) in LINES.items():
        for count in RUNNING_COUNTS:
            if count <= most:
                yield Wanted(line, count, running_pods(count, pods, nodes, kind))


# --- measuring --------------------------------------------------------------------------------------------------------


class Point(msgspec.Struct):
    """A size of the cluster."""

    at: int
    cpu_us: list[float] = []
    """Per decision, of each round."""

    @property
    def median(self) -> float:
        """Of the rounds."""
        return statistics.median(self.cpu_us)


class RunMeasurements(msgspec.Struct):
    """A picture's points, and what else is to be said of them."""

    nodes: int
    """On which the pods run already; 0 where the nodes are what is drawn against."""
    pods: int
    """At most so many are measured for a point: as many as have room."""
    version: str
    machine: Machine
    lines: dict[str, list[Point]] = {}

    def point(self, line: str, at: int) -> Point:
        """What is known of it so far."""
        points = self.lines.setdefault(line, [])
        found = next((one for one in points if one.at == at), None)
        if found is None:
            found = Point(at)
            points.append(found)
        return found

    def costs(self, line: str) -> dict[int, float]:
        """Microseconds by x, ascending."""
        points = sorted(self.lines.get(line, ()), key=lambda one: one.at)
        return {one.at: one.median for one in points if one.cpu_us}


def measure(path: Path, measured: RunMeasurements, points: Sequence[Wanted], rounds: int) -> None:
    """Play the points that are missing, round by round, and write the file again after each."""
    for number in range(rounds):
        for wanted in points:
            point = measured.point(wanted.line, wanted.at)
            if len(point.cpu_us) <= number:
                one = next(iter(play_apart([wanted.scenario])))
                print(row(one), flush=True)
                point.cpu_us.append(one.cpu_us_per_decision)
                _keep(path, measured)


def _keep(path: Path, measured: RunMeasurements) -> None:
    """Written whole or not at all: an interrupted run is gone on with."""
    part = path.with_suffix(".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(measured), indent=1) + b"\n")
    part.replace(path)


def begun(path: Path, nodes: int, pods: int, *, resumes: bool) -> RunMeasurements:
    """What an interrupted run has left, or nothing yet. Raises `SystemExit` where that was another measurement."""
    fresh = RunMeasurements(nodes, pods, __version__, machine())
    if not resumes or not path.exists():
        return fresh
    left = kept(path)
    if (left.nodes, left.pods, left.version) != (fresh.nodes, fresh.pods, fresh.version):
        raise SystemExit(f"{path}: measured with other pods, nodes or another version; begin anew without --resume")
    return left


def kept(path: Path) -> RunMeasurements:
    """What was measured before. Raises `SystemExit` with what is wrong."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunMeasurements)
    except (OSError, msgspec.DecodeError) as error:
        raise SystemExit(f"{path}: {error}") from None


# --- drawing ----------------------------------------------------------------------------------------------------------


def draw(measured: RunMeasurements, path: Path) -> None:
    """CPU per decision of each line: the median of the rounds, and lightly what lies between the rounds."""
    figure, axes = _empty()
    for line in sorted(measured.lines, key=lambda line: -_last(measured, line)[1]):  # the legend has the lines' order
        costs, (at, last) = measured.costs(line), _last(measured, line)
        rounds = [point.cpu_us for point in sorted(measured.lines[line], key=lambda point: point.at)]
        axes.fill_between([*costs], [*map(min, rounds)], [*map(max, rounds)], color=COLOURS[line], alpha=0.12, lw=0)
        words = f"{line}: {last:,.0f} µs at {at:,}"
        axes.plot([*costs], [*costs.values()], marker="o", markersize=4.5, color=COLOURS[line], label=words)
    (_against_running if measured.nodes else _against_nodes)(axes, measured)
    axes.legend(loc="lower right" if measured.nodes else "upper left", frameon=False, fontsize=10)
    figure.text(0.012, 0.02, caption(measured), fontsize=8, color="#555555", linespacing=1.4)
    figure.savefig(path, dpi=130, pil_kwargs={"optimize": True})
    print(path)


def growth(measured: RunMeasurements) -> Iterator[str]:
    """How many times as much a decision costs on a large cluster, in words."""
    few, many = GROWTH
    for line in measured.lines:
        costs = measured.costs(line)
        if few in costs and many in costs:
            yield f"{line}: {costs[many] / costs[few]:.1f} times as much on {many:,} nodes as on {few:,}"


def caption(measured: RunMeasurements) -> str:
    """Two lines: what a decision is; where it was measured."""
    here, rounds = measured.machine, [len(one.cpu_us) for points in measured.lines.values() for one in points]
    return (
        "All that the scheduler does for a pod, from its arrival to its binding being seen; no network.\n"
        f"kscheduler {measured.version}, one core of {here.cpu}, Python {here.python}, numpy {here.numpy};"
        f" {measured.pods:,} pods a point, median of {min(rounds, default=0)} rounds (shaded: all)."
    )


def _against_nodes(axes: Any, measured: RunMeasurements) -> None:
    axes.set_title("What a decision costs, by the size of the cluster", loc="left", fontsize=12)
    axes.set_xlabel("nodes; every feasible one is scored")
    axes.set_xscale("log")
    axes.set_yscale("log")
    costs, (few, many) = measured.costs(PLAIN), GROWTH
    axes.set_xticks([*costs], [f"{count:,}" for count in costs])
    axes.set_xticks([], minor=True)
    if few in costs and many in costs:
        ends, goal = [costs[few], costs[few] * MAX_GROWTH], {"color": COLOURS[PLAIN], "linestyle": ":", "lw": 1.2}
        words = f"goal for plain pods: at most {MAX_GROWTH} times from {few:,} to {many:,}"
        axes.plot(GROWTH, ends, **goal, label=words + f" (is {costs[many] / costs[few]:.1f})")
    _whole_steps(axes)


def _against_running(axes: Any, measured: RunMeasurements) -> None:
    axes.set_title(f"What a decision costs, by the pods that run already ({measured.nodes:,} nodes)", loc="left")
    axes.set_xlabel("running pods, all like the one that is decided on")
    axes.set_ylim(0, axes.get_ylim()[1] * 1.05)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    if measured.nodes == GOAL_NODES:
        words = f"goal for plain pods: {10**6 // GOAL_US:,} decisions a second"
        axes.axhline(GOAL_US, color=COLOURS[PLAIN], linestyle=":", lw=1.2, label=words)


def _whole_steps(axes: Any) -> None:
    """Bounds and labels of a logarithmic axis at 1, 2 and 5."""
    lowest, most = axes.get_ylim()
    steps = [step * 10**power for power in range(7) for step in (1, 2, 5)]
    first, last = max(one for one in steps if one <= lowest), min(one for one in steps if one >= most)
    axes.set_yticks([one for one in steps if first <= one <= last])
    axes.set_yticks([], minor=True)
    axes.set_ylim(first, last)
    axes.yaxis.set_major_formatter("{x:,.0f}")


def _last(measured: RunMeasurements, line: str) -> tuple[int, float]:
    """Where the line ends, and microseconds there."""
    return [*measured.costs(line).items()][-1]


def _empty() -> tuple[Any, Any]:
    import matplotlib as mpl

    mpl.use("Agg")  # no display is needed
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 5.2))
    figure.subplots_adjust(left=0.09, right=0.97, top=0.92, bottom=0.19)
    axes.set_ylabel("CPU per decision, microseconds")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plots", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=("nodes", "running"), help="one of the two pictures")
    parser.add_argument("--most-nodes", type=int, default=NODE_COUNTS[-1])
    parser.add_argument("--most-running", type=int, default=RUNNING_COUNTS[-1])
    parser.add_argument("--nodes", type=int, default=GOAL_NODES, help="for the picture of running pods")
    parser.add_argument("--pods", type=int, default=2_000, help="measured for each point")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "figures", metavar="FOLDER")
    parser.add_argument("--resume", action="store_true", help="keep the points that an interrupted run has left")
    parser.add_argument("--read", type=Path, metavar="FOLDER", help="draw what is there, play nothing")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if min(options.most_nodes, options.nodes, options.pods, options.rounds) < 1 or options.most_running < 0:
        raise SystemExit("--most-nodes, --nodes, --pods, --rounds must be at least 1, --most-running at least 0")
    if importlib.util.find_spec("matplotlib") is None:  # found missing before the measuring, not after
        raise SystemExit("matplotlib is not installed: pip install '.[plots]' in a checkout")
    pictures = {
        "nodes": (0, [*by_nodes(options.most_nodes, options.pods)]),
        "running": (options.nodes, [*by_running(options.most_running, options.pods, options.nodes)]),
    }
    folder: Path = options.read or options.to
    folder.mkdir(parents=True, exist_ok=True)
    if options.read is None:
        print(HEADER, flush=True)
    for name, (nodes, points) in pictures.items():
        if options.only in (None, name):
            path = folder / f"by_{name}.json"
            if options.read is None:
                measure(path, begun(path, nodes, options.pods, resumes=options.resume), points, options.rounds)
            draw(kept(path), path.with_suffix(".png"))
            print("\n".join([] if nodes else growth(kept(path))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
