"""What a decision costs against the size of the cluster, measured and drawn.

    python -m benchmarks.plots [--most-nodes 100000] [--most-running 500000] [--pods 1000] [--to FOLDER]
    python -m benchmarks.plots --read FOLDER    draw again what was measured before

Two pictures: CPU per decision against nodes (100 to 100,000; plain pods, hard zone spread, preferred pod affinity, each
with a running pod per node where scheduler_perf has them), and against running pods (0 to 500,000 on 5,000 nodes, plain
pods). Each point is a process of its own. Needs matplotlib: pip install 'kscheduler[plots]'. At full size: 8 GiB and
half an hour.
"""

import argparse
import importlib.util
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kscheduler.simulation.benchmarks.apart import play_apart
from kscheduler.simulation.benchmarks.catalogue import SCENARIOS
from kscheduler.simulation.benchmarks.figures import HEADER, Figures, row
from kscheduler.simulation.benchmarks.own_scenarios import running_pods

NODE_COUNTS = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
RUNNING_COUNTS = (0, 1_000, 5_000, 20_000, 50_000, 100_000, 200_000, 350_000, 500_000)
LINES = {
    "plain pods": "SchedulingBasic",
    "hard zone spread": "TopologySpreading",
    "preferred pod affinity": "SchedulingPreferredPodAffinity",
}
COLOURS = ("#0072b2", "#d55e00", "#009e73")
"""Told apart by colour-blind readers too."""
Points = Mapping[str, Sequence[Figures]]


def by_nodes(most: int, pods: int) -> dict[str, list[Figures]]:
    counts = [count for count in NODE_COUNTS if count <= most] or [most]
    return {
        name: _told(play_apart(SCENARIOS[scenario].resized(count, pods) for count in counts))
        for name, scenario in LINES.items()
    }


def by_running(most: int, pods: int, nodes: int) -> dict[str, list[Figures]]:
    counts = [count for count in RUNNING_COUNTS if count <= most]
    return {"plain pods": _told(play_apart(running_pods(count, pods, nodes) for count in counts))}


def _told(played: Iterator[Figures]) -> list[Figures]:
    results = []
    for one in played:
        print(row(one), flush=True)
        results.append(one)
    return results


def draw(points: Points, x_label: str, path: Path, *, logarithmic: bool) -> None:
    """CPU per decision of each line, with its name at its end."""
    figure, axes = _empty(x_label, logarithmic=logarithmic)
    for colour, (name, line) in zip(COLOURS, points.items(), strict=False):
        x = [_x(one) for one in line]
        y = [one.cpu_us_per_decision for one in line]
        axes.plot(x, y, marker="o", color=colour, label=name)
        axes.annotate(name, (x[-1], y[-1]), xytext=(6, 4), textcoords="offset points", color=colour)
    lowest, most = _bounds(points)
    axes.set_ylim(*((lowest, most) if logarithmic else (0, None)))
    axes.margins(x=0.18)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    print(path)


def _bounds(points: Points) -> tuple[float, float]:
    """Whole decades around all costs."""
    costs = [one.cpu_us_per_decision for line in points.values() for one in line]
    return 10 ** math.floor(math.log10(min(costs))), 10 ** math.ceil(math.log10(max(costs)))


def _x(one: Figures) -> int:
    """Running pods where the scenario is named after them, else nodes."""
    first = one.scenario.partition(" ")[0]
    return int(first) if first.isdecimal() else one.nodes


def _empty(x_label: str, *, logarithmic: bool) -> tuple[Any, Any]:
    import matplotlib as mpl

    mpl.use("Agg")  # no display is needed
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.5))
    if logarithmic:
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.set_xlabel(x_label)
    axes.set_ylabel("CPU per decision, microseconds")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_minor_formatter("")  # whole decades are labelled, and nothing between
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def measure(options: argparse.Namespace) -> None:
    """Play everything, and keep the points beside the pictures."""
    options.to.mkdir(parents=True, exist_ok=True)
    print(HEADER, flush=True)
    _keep(options.to / "by_nodes.json", by_nodes(options.most_nodes, options.pods))
    _keep(options.to / "by_running.json", by_running(options.most_running, options.pods, options.nodes))


def _keep(path: Path, points: Points) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(points), indent=1) + b"\n")


def _kept(path: Path) -> dict[str, list[Figures]]:
    return msgspec.json.decode(path.read_bytes(), type=dict[str, list[Figures]])


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plots", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--most-nodes", type=int, default=NODE_COUNTS[-1])
    parser.add_argument("--most-running", type=int, default=RUNNING_COUNTS[-1])
    parser.add_argument("--nodes", type=int, default=5_000, help="for the picture of running pods")
    parser.add_argument("--pods", type=int, default=1_000, help="measured for each point")
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "figures", metavar="FOLDER")
    parser.add_argument("--read", type=Path, metavar="FOLDER", help="draw what is there, play nothing")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if min(options.most_nodes, options.nodes, options.pods) < 1 or options.most_running < 0:
        raise SystemExit("--most-nodes, --nodes and --pods must be at least 1, --most-running at least 0")
    if importlib.util.find_spec("matplotlib") is None:  # found missing before the measuring, not after
        raise SystemExit("matplotlib is not installed: pip install 'kscheduler[plots]'")
    if options.read is None:
        measure(options)
    folder: Path = options.read or options.to
    draw(_kept(folder / "by_nodes.json"), "nodes", folder / "by_nodes.png", logarithmic=True)
    draw(_kept(folder / "by_running.json"), "running pods", folder / "by_running.png", logarithmic=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
