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

_DESCRIPTION = """\
Play scheduler_perf's scenarios, and some of our own, in process: the real queue, cache, handlers and all default
plugins, every node scored, metrics and records on; a stand-in for the API server answers at once. Each scenario has a
process of its own. decisions/s is the number of measured pods that were bound, divided by the time from the arrival of
the first to the binding of the last; p50 and p99 are of single attempts. Exit code 1 if a measured pod was not
bound. With --calls, what one more pod calls is counted instead: the machine's speed does not move it."""

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

    nodes, pods = args.nodes, args.pods
    if args.calls:
        nodes, pods = DEFAULT_NODES if nodes is None else nodes, DEFAULT_PODS if pods is None else pods
    try:
        chosen = [scenario.resized(nodes, pods) for scenario in _chosen(SCENARIOS, args.scenario)]
        before = _read(args.beside) if args.beside else None
    except TemplateError as error:
        return refuse(error)
    if args.list:
        return _print_list(chosen)
    try:
        configured = ConfigurationReader(plugins=args.plugin).default()
    except ConfigError as error:
        return refuse(error)
    if problems := profile_problems(configured.config, configured.registry):
        return refuse("\n".join((*map(str, problems), _WITHOUT_ARGUMENTS)))
    signals_as_usual()  # imports are done: from here on there are processes to end
    try:
        if args.calls:
            return _count(chosen, args.plugin, before, as_json=args.json)
        return _play(chosen, args.plugin, as_json=args.json)
    except TemplateError as error:
        print(f"kscheduler bench: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _flag_problem(args: argparse.Namespace) -> str:
    if args.beside and not args.calls:
        return "--beside compares counts of calls: give --calls, too"
    if args.beside and args.json:
        return "--beside prints text: give either --beside or --json"
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


def _print_list(chosen: "Sequence[BenchmarkScenario]") -> int:
    print(f"{'scenario':<55}{'nodes':>8}{'pods':>8}{'goal':>8}  source")
    for scenario in chosen:
        goal = f"{scenario.goal:,}" if scenario.goal else ""
        print(f"{scenario.name:<55}{scenario.nodes:>8,}{scenario.pods:>8,}{goal:>8}  {scenario.source}")
    return 0


def _play(chosen: "Sequence[BenchmarkScenario]", plugins: Sequence[str], *, as_json: bool) -> int:
    from kscheduler.bench import figures
    from kscheduler.bench.apart import play_apart

    if not as_json:
        print(figures.HEADER, flush=True)
    results: list[Figures] = []
    for result in play_apart(chosen, plugins):
        results.append(result)
        if not as_json:
            print(figures.row(result), flush=True)
    if as_json:
        print(figures.as_json(results))
    return 0 if all(result.is_complete for result in results) else FAILED


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
            print(f"\n{result.scenario}: not in the file of --beside", flush=True)
    if as_json:
        print(calls.as_json(results))
    return 0
