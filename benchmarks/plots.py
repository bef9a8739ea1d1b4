"""What a decision costs against the size of the cluster, measured and drawn.

    python -m benchmarks.plots [--only nodes|running] [--resume] [--most-nodes 100000] [--most-running 500000]
    python -m benchmarks.plots --read FOLDER    draw again what was measured before

Two pictures: CPU per decision against nodes (100 to 100,000; plain pods, hard zone spread, preferred pod affinity, each
with a running pod per node where scheduler_perf has them), and against running pods (0 to 500,000 on 5,000 nodes, plain
pods). Each point is a process of its own, and kept as soon as it is there. Needs matplotlib: pip install
'kscheduler[plots]'. At full size: 4 GiB and ten minutes.
"""

import argparse
import importlib.util
import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.runs import Machine, machine
from kscheduler.simulation.benchmarks.apart import play_apart
from kscheduler.simulation.benchmarks.catalogue import SCENARIOS
from kscheduler.simulation.benchmarks.figures import HEADER, Figures, row
from kscheduler.simulation.benchmarks.own_scenarios import running_pods
from kscheduler.simulation.benchmarks.scenario import Scenario

NODE_COUNTS = (100, 300, 1_000, 3_000, 10_000, 20_000, 50_000, 100_000)
GROWTH = 1_000, 50_000
"""From how many nodes to how many a decision may cost at most 6 times as much."""
RUNNING_COUNTS = (0, 1_000, 5_000, 20_000, 50_000, 100_000, 200_000, 350_000, 500_000)
LINES = {
    "plain pods": "SchedulingBasic",
    "hard zone spread": "TopologySpreading",
    "preferred pod affinity": "SchedulingPreferredPodAffinity",
}
COLOURS = ("#0072b2", "#d55e00", "#009e73")
"""Told apart by colour-blind readers too."""


@dataclass(frozen=True)
class Picture:
    """What is written on it."""

    title: str
    x_label: str
    is_logarithmic: bool


BY_NODES = Picture("What a decision costs, by the size of the cluster", "nodes, all scored", is_logarithmic=True)


def by_running_on(nodes: int) -> Picture:
    """The other picture."""
    title = f"What a decision costs, by the pods that run already ({nodes:,} nodes)"
    return Picture(title, "running pods", is_logarithmic=False)


def by_nodes(most: int, pods: int) -> Iterator[tuple[str, Scenario]]:
    """Line and scenario of each point."""
    counts = [count for count in NODE_COUNTS if count <= most] or [most]
    for name, scenario in LINES.items():
        for count in counts:
            yield name, SCENARIOS[scenario].resized(count, pods)


def by_running(most: int, pods: int, nodes: int) -> Iterator[tuple[str, Scenario]]:
    """Line and scenario of each point."""
    for count in RUNNING_COUNTS:
        if count <= most:
            yield "plain pods", running_pods(count, pods, nodes)


# --- measuring --------------------------------------------------------------------------------------------------------


class Measured(msgspec.Struct):
    """The points of a picture, by line, and where they were measured."""

    machine: Machine
    lines: dict[str, list[Figures]] = {}

    def has(self, line: str, scenario: Scenario) -> bool:
        """Whether there is this point."""
        points = self.lines.get(line, ())
        return any((one.scenario, one.nodes, one.pods) == _identity(scenario) for one in points)


def _identity(scenario: Scenario) -> tuple[str, int, int]:
    return scenario.name, scenario.nodes, scenario.pods


def measure(path: Path, points: Iterable[tuple[str, Scenario]], *, resumes: bool) -> None:
    """Play the points, and write the file anew after each; `resumes`: without those that it has already."""
    measured = kept(path) if resumes and path.exists() else Measured(machine())
    for line, scenario in points:
        if not measured.has(line, scenario):
            one = next(iter(play_apart([scenario])))
            print(row(one), flush=True)
            measured.lines.setdefault(line, []).append(one)
            path.write_bytes(msgspec.json.format(msgspec.json.encode(measured), indent=1) + b"\n")


def kept(path: Path) -> Measured:
    """What was measured before. Raises `SystemExit` with what is wrong."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Measured)
    except (OSError, msgspec.DecodeError) as error:
        raise SystemExit(f"{path}: {error}") from None


# --- drawing ----------------------------------------------------------------------------------------------------------


def draw(measured: Measured, picture: Picture, path: Path) -> None:
    """CPU per decision of each line."""
    figure, axes = _empty(picture)
    for colour, (name, line) in zip(COLOURS, measured.lines.items(), strict=False):
        points = _points(line)
        words = f"{name}: {points[-1][1]:,.0f} us at {points[-1][0]:,}"
        axes.plot(*zip(*points, strict=True), marker="o", markersize=4, color=colour, label=words)
    lowest, most = _bounds(measured)
    axes.set_ylim(*((lowest, most) if picture.is_logarithmic else (0, None)))
    axes.legend(loc="upper left" if picture.is_logarithmic else "lower left", frameon=False)
    figure.text(0.01, -0.02, _caption(measured), fontsize=7.5, color="#555555", va="top")
    figure.savefig(path, dpi=110, bbox_inches="tight")
    print(path)


def growth(measured: Measured) -> Iterator[str]:
    """How many times as much a decision costs on a large cluster, in words."""
    few, many = GROWTH
    for name, line in measured.lines.items():
        costs = dict(_points(line))
        if few in costs and many in costs:
            yield f"{name}: {costs[many] / costs[few]:.1f} times as much on {many:,} nodes as on {few:,}"


def _points(line: Iterable[Figures]) -> list[tuple[int, float]]:
    """x, and microseconds; ascending."""
    return sorted((_x(one), one.cpu_us_per_decision) for one in line)


def _caption(measured: Measured) -> str:
    here, pods = measured.machine, {one.pods for line in measured.lines.values() for one in line}
    return (
        "A decision is all that the scheduler does for one pod: its arrival, queue, filters and scores of every node,"
        f" reservation, bookkeeping of the binding; no network.\nOne core, {here.cpu}, Python {here.python};"
        f" mean of {max(pods, default=0):,} pods each point. Drawn by make bench-plots."
    )


def _bounds(measured: Measured) -> tuple[float, float]:
    """Whole decades around all costs."""
    costs = [one.cpu_us_per_decision for line in measured.lines.values() for one in line]
    return 10 ** math.floor(math.log10(min(costs))), 10 ** math.ceil(math.log10(max(costs)))


def _x(one: Figures) -> int:
    """Running pods where the scenario is named after them, else nodes."""
    first = one.scenario.partition(" ")[0]
    return int(first) if first.isdecimal() else one.nodes


def _empty(picture: Picture) -> tuple[Any, Any]:
    import matplotlib as mpl

    mpl.use("Agg")  # no display is needed
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.5))
    if picture.is_logarithmic:
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.set_title(picture.title, loc="left", fontsize=11)
    axes.set_xlabel(picture.x_label)
    axes.set_ylabel("CPU per decision, microseconds")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_minor_formatter("")  # whole decades are labelled, and nothing between
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plots", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=("nodes", "running"), help="one of the two pictures")
    parser.add_argument("--most-nodes", type=int, default=NODE_COUNTS[-1])
    parser.add_argument("--most-running", type=int, default=RUNNING_COUNTS[-1])
    parser.add_argument("--nodes", type=int, default=5_000, help="for the picture of running pods")
    parser.add_argument("--pods", type=int, default=1_000, help="measured for each point")
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "figures", metavar="FOLDER")
    parser.add_argument("--resume", action="store_true", help="keep the points that an interrupted run has left")
    parser.add_argument("--read", type=Path, metavar="FOLDER", help="draw what is there, play nothing")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if min(options.most_nodes, options.nodes, options.pods) < 1 or options.most_running < 0:
        raise SystemExit("--most-nodes, --nodes and --pods must be at least 1, --most-running at least 0")
    if importlib.util.find_spec("matplotlib") is None:  # found missing before the measuring, not after
        raise SystemExit("matplotlib is not installed: pip install 'kscheduler[plots]'")
    pictures = {
        "nodes": (BY_NODES, by_nodes(options.most_nodes, options.pods)),
        "running": (by_running_on(options.nodes), by_running(options.most_running, options.pods, options.nodes)),
    }
    folder: Path = options.read or options.to
    folder.mkdir(parents=True, exist_ok=True)
    print(HEADER, flush=True)
    for name, (picture, points) in pictures.items():
        if options.only in (None, name):
            path = folder / f"by_{name}.json"
            if options.read is None:
                measure(path, points, resumes=options.resume)
            draw(kept(path), picture, path.with_suffix(".png"))
            print("\n".join(growth(kept(path))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
