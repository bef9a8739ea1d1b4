"""`kscheduler bench`: how many decisions a second, on this machine."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from kscheduler.cli.interruption import signals_as_usual
from kscheduler.cli.parser import text
from kscheduler.cli.refusal import refuse

if TYPE_CHECKING:
    from kscheduler.simulation.benchmarks.figures import Figures
    from kscheduler.simulation.benchmarks.scenario import BenchmarkScenario

_FAILED, _INTERRUPTED = 1, 130
_DESCRIPTION = """\
Play scheduler_perf's scenarios, and some of our own, in process: the real queue, cache, handlers and all default
plugins, every node scored, metrics and records on; the API server is one that answers at once. Each scenario has a
process of its own. decisions/s counts measured pods that were bound, over the whole time from the first one's arrival
to the last one's binding; p50 and p99 are of single attempts. Exit code 1 if a measured pod was not bound."""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the flags."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "bench", help="measure decisions per second, in process", description=_DESCRIPTION
    )
    parser.add_argument(
        "--scenario",
        metavar="NAME",
        type=text,
        action="append",
        default=[],
        help="only this one; may be given more than once",
    )
    parser.add_argument("--nodes", type=int, metavar="N", help="so many nodes (default: scheduler_perf's)")
    parser.add_argument("--pods", type=int, metavar="N", help="so many measured pods, as far as there is room for them")
    parser.add_argument("--json", action="store_true", help="a JSON array in place of the table")
    parser.add_argument("--list", action="store_true", help="tell the scenarios, their sizes and goals, and end")
    return parser


def run(args: argparse.Namespace) -> int:
    """Play them. 0: all measured pods were bound; 1: not all; 2: bad flags; 130: interrupted."""
    from kscheduler.simulation.benchmarks.catalogue import SCENARIOS
    from kscheduler.simulation.benchmarks.template import TemplateError

    try:
        chosen = [one.resized(args.nodes, args.pods) for one in _chosen(SCENARIOS, args.scenario)]
    except TemplateError as error:
        return refuse(error)
    if args.list:
        return _tell(chosen)
    signals_as_usual()  # all is imported: from here on there are processes to end
    try:
        return _play(chosen, as_json=args.json)
    except TemplateError as error:
        print(f"kscheduler bench: {error}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED


def _chosen(scenarios: "Mapping[str, BenchmarkScenario]", names: Sequence[str]) -> "list[BenchmarkScenario]":
    """Those of these names, all without any. Raises `TemplateError`."""
    from kscheduler.simulation.benchmarks.template import TemplateError

    for name in names:
        if name not in scenarios:
            near = get_close_matches(name, scenarios, n=1, cutoff=0.0)
            raise TemplateError(f"there is no scenario {name!r}; did you mean {near[0]}? --list tells them all")
    return [scenarios[name] for name in names] if names else list(scenarios.values())


def _tell(chosen: "Sequence[BenchmarkScenario]") -> int:
    print(f"{'scenario':<55}{'nodes':>8}{'pods':>8}{'goal':>8}  source")
    for one in chosen:
        goal = f"{one.goal:,}" if one.goal else ""
        print(f"{one.name:<55}{one.nodes:>8,}{one.pods:>8,}{goal:>8}  {one.source}")
    return 0


def _play(chosen: "Sequence[BenchmarkScenario]", *, as_json: bool) -> int:
    from kscheduler.simulation.benchmarks import figures
    from kscheduler.simulation.benchmarks.apart import play_apart

    if not as_json:
        print(figures.HEADER, flush=True)
    results: list[Figures] = []
    for one in play_apart(chosen):
        results.append(one)
        if not as_json:
            print(figures.row(one), flush=True)
    if as_json:
        print(figures.as_json(results))
    return 0 if all(one.is_complete for one in results) else _FAILED
