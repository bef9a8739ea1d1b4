"""`kscheduler bench`: decisions per second on this machine."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kscheduler.cli.interruption import signals_as_usual
from kscheduler.cli.parser import text
from kscheduler.cli.refusal import FAILED, INTERRUPTED, refuse
from kscheduler.config.errors import ConfigError

if TYPE_CHECKING:
    from kscheduler.bench.calls import CallsPerPod
    from kscheduler.bench.figures import Figures
    from kscheduler.bench.scenario import BenchmarkScenario
    from kscheduler.bench.upstream.selection import WorkloadSelection

_DESCRIPTION = """\
Play scheduler_perf's scenarios, and some of our own, in process: the real queue, cache, handlers and all default
plugins, every node scored, metrics and records on; a stand-in for the API server answers at once. Each scenario has a
process of its own. decisions/s (goal: what the project aims at on a quiet machine, at the scenario's own size) is the
number of measured pods that were bound, divided by the time from the arrival of the first to the binding of the last;
p50 and p99 are of single attempts. Exit code 1 if a measured pod was not bound. With --calls, what one more pod calls
is counted instead: the machine's speed does not move it. With --upstream, the workloads of a performance-config.yaml of
Kubernetes 1.37 are played, beside the threshold of upstream's CI; time (of churn, rates, steady states) is counted in
pods, at the pace of that threshold, or of 250 pods/s where there is none. What cannot be played is named with the
reason."""

_WITHOUT_ARGUMENTS = """\
bench plays each plugin of --plugin without arguments. Where it needs some, let the file (or a copy of it) give the \
fields of its arguments defaults, such as `max_price: float = 0.5`"""


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
        help="only this scenario; may be given more than once",
    )
    parser.add_argument("--nodes", type=int, metavar="N", help="the number of nodes (default: scheduler_perf's)")
    parser.add_argument(
        "--pods", type=int, metavar="N", help="the number of measured pods, as far as there is room for them"
    )
    parser.add_argument(
        "--plugin",
        metavar="FILE",
        type=text,
        action="append",
        default=[],
        help="a Python file with plugins, enabled after the default ones without arguments, to measure their cost; "
        "may be repeated",
    )
    parser.add_argument(
        "--calls",
        action="store_true",
        help="count what one more pod calls, in Python and in builtin functions, instead of measuring time "
        "(default: 1,000 nodes, 5,000 pods)",
    )
    parser.add_argument(
        "--beside",
        metavar="FILE",
        type=text,
        help="with --calls: print which functions are called more or less than in this file, written by --json before",
    )
    parser.add_argument(
        "--upstream",
        metavar="FILE",
        type=text,
        help="play the workloads of this file, scheduler_perf's performance-config.yaml, with the templates that it "
        "names; --scenario takes names such as SchedulingBasic/5000Nodes, or of a whole test case",
    )
    parser.add_argument(
        "--nodes-at-most",
        type=int,
        metavar="N",
        help="with --upstream: only workloads of so many nodes (default: 5000)",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON array instead of the table")
    parser.add_argument("--list", action="store_true", help="print the scenarios, their sizes and goals, and exit")
    return parser


def run(args: argparse.Namespace) -> int:
    """Play the scenarios. 0: all measured pods were bound; 1: not all; 2: bad flags; 130: interrupted."""
    if problem := _flag_problem(args):
        return refuse(problem)
    from kscheduler.assembly.configuration_checks import profile_problems
    from kscheduler.assembly.configured import ConfigurationReader
    from kscheduler.bench.calls import DEFAULT_NODES, DEFAULT_PODS
    from kscheduler.bench.catalogue import SCENARIOS
    from kscheduler.bench.template import TemplateError
    from kscheduler.bench.upstream.selection import NODES_AT_MOST, selected

    nodes, pods = args.nodes, args.pods
    if args.calls and not args.upstream:
        nodes, pods = DEFAULT_NODES if nodes is None else nodes, DEFAULT_PODS if pods is None else pods
    selection: WorkloadSelection | None = None
    try:
        if args.upstream:
            selection = selected(Path(args.upstream), args.scenario, args.nodes_at_most or NODES_AT_MOST)
        scenarios = _chosen(SCENARIOS, args.scenario) if selection is None else selection.scenarios
        chosen = [scenario.resized(nodes, pods) for scenario in scenarios]
        before = _read(args.beside) if args.beside else None
    except TemplateError as error:
        return refuse(error)
    if args.list:
        return _print_list(chosen, selection)
    try:
        configured = ConfigurationReader(plugins=args.plugin).default()
    except ConfigError as error:
        return refuse(error)
    if problems := profile_problems(configured.config, configured.registry):
        return refuse("\n".join((*map(str, problems), _WITHOUT_ARGUMENTS)))
    signals_as_usual()  # imports are done: from here on there are processes to end
    try:
        for name, reason in selection.left_out() if selection is not None else ():
            print(f"kscheduler bench: {name} is left out: {reason}", file=sys.stderr)
        if args.calls:
            return _count(chosen, args.plugin, before, as_json=args.json)
        return _play(chosen, args.plugin, as_json=args.json, is_upstream=selection is not None)
    except TemplateError as error:
        print(f"kscheduler bench: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _flag_problem(args: argparse.Namespace) -> str:
    if args.beside and not args.calls:
        return "--beside compares counts of calls: give --calls, too"
    if args.list and args.json:
        return "--list prints text: give either --list or --json"
    if args.beside and args.json:
        return "--beside prints text: give either --beside or --json"
    if args.nodes_at_most is not None and not args.upstream:
        return "--nodes-at-most selects workloads of a file: give --upstream, too"
    if args.nodes_at_most is not None and args.nodes_at_most < 1:
        return "--nodes-at-most must be at least 1"
    if args.nodes is not None and args.upstream:
        return "--nodes does not go with --upstream, whose workloads have their sizes: give --nodes-at-most"
    return ""


def _read(path: str) -> "dict[str, CallsPerPod]":
    """What `--calls --json` has written. Raises `TemplateError`."""
    import msgspec

    from kscheduler.bench.calls import from_json
    from kscheduler.bench.template import TemplateError

    try:
        return from_json(Path(path).read_bytes())
    except OSError as error:
        raise TemplateError(f"--beside {path}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise TemplateError(f"--beside {path} is not from `kscheduler bench --calls --json`: {error}") from None


def _chosen(scenarios: "Mapping[str, BenchmarkScenario]", names: Sequence[str]) -> "list[BenchmarkScenario]":
    """The scenarios of these names; all if there are no names. Raises `TemplateError`."""
    from kscheduler.bench.template import TemplateError

    for name in names:
        if name not in scenarios:
            near = get_close_matches(name, scenarios, n=1, cutoff=0.0)
            raise TemplateError(f"there is no scenario {name!r}; did you mean {near[0]}? --list prints them all")
    return [scenarios[name] for name in names] if names else list(scenarios.values())


def _print_list(chosen: "Sequence[BenchmarkScenario]", selection: "WorkloadSelection | None") -> int:
    if selection is not None:
        print("\n".join(selection.listed()))
        return 0
    print(f"{'scenario':<55}{'nodes':>8}{'pods':>8}{'goal':>8}  source")
    for scenario in chosen:
        goal = f"{scenario.goal:,}" if scenario.goal else ""
        print(f"{scenario.name:<55}{scenario.nodes:>8,}{scenario.pods:>8,}{goal:>8}  {scenario.source}")
    return 0


def _play(
    chosen: "Sequence[BenchmarkScenario]", plugins: Sequence[str], *, as_json: bool, is_upstream: bool = False
) -> int:
    from kscheduler.bench import figures
    from kscheduler.bench.apart import play_apart
    from kscheduler.bench.template import TemplateError

    header, row = figures.HEADER, figures.row
    if is_upstream:
        header, row = figures.UPSTREAM_HEADER, figures.upstream_row
    if not as_json:
        print(header, flush=True)
    results: list[Figures] = []
    failed = False
    for scenario in chosen:
        try:
            (result,) = play_apart([scenario], plugins)
        except TemplateError as error:
            if not is_upstream:
                raise
            # One of many workloads: the others are played all the same.
            print(f"kscheduler bench: {scenario.name} has failed: {error}", file=sys.stderr)
            failed = True
            continue
        results.append(result)
        if not as_json:
            print(row(result), flush=True)
        if is_upstream and not result.is_complete:
            missing = result.pods - result.bound
            print(
                f"kscheduler bench: {result.scenario}: {missing} of {result.pods} pods found no node", file=sys.stderr
            )
    if as_json:
        print(figures.as_json(results))
    return FAILED if failed or not all(result.is_complete for result in results) else 0


def _count(
    chosen: "Sequence[BenchmarkScenario]",
    plugins: Sequence[str],
    before: "Mapping[str, CallsPerPod] | None",
    *,
    as_json: bool,
) -> int:
    from kscheduler.bench import calls
    from kscheduler.bench.apart import count_apart

    if not as_json:
        print(calls.COUNTED, flush=True)
    results: list[CallsPerPod] = []
    for result in count_apart(chosen, plugins):
        results.append(result)
        if as_json:
            continue
        if before is None:
            print(f"\n{calls.as_text(result)}", flush=True)
        elif result.scenario in before:
            print(f"\n{calls.as_difference(before[result.scenario], result)}", flush=True)
        else:
            print(f"\n{calls.as_text(result)}\nIt is not in the file of --beside.", flush=True)
    if as_json:
        print(calls.as_json(results))
    return 0
