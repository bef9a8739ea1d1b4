"""`kscheduler sweep`: compare policies over a grid of workloads, node shapes, weights and seeds.

    sweep grid.yaml                          all of it on this machine's cores; the same command goes on
    sweep grid.yaml --dask local             the same by Dask
    sweep grid.yaml --on-cluster --image I   the same by pods of a cluster
    sweep grid.yaml --search                 the weights that serve a goal
    sweep grid.yaml --only FGD --list        the runs of one policy, and which of them are done

docs/sweeps.md describes the file, the columns and the engines.
"""

import argparse
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from kscheduler.cli.cluster_flags import add_cluster, live_client, namespace_of
from kscheduler.cli.interruption import signals_as_usual
from kscheduler.cli.parser import AppendText, StoreText
from kscheduler.cli.refusal import FAILED, INTERRUPTED, missing_extra, refuse, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kscheduler.sweep.engines.engine import SweepEngine
    from kscheduler.sweep.results import Results
    from kscheduler.sweep.row import SweepRow
    from kscheduler.sweep.run_spec import RunSpec
    from kscheduler.sweep.sweep_file import Sweep

_DONE: Final = 0
_TERMINATED: Final = 143
_PODS: Final = 4
# Flags that say nothing of runs on this machine, or by Dask.
_ON_CLUSTER: Final = ("image", "namespace", "pods", "data_claim", "kubeconfig", "context", "master")

_DESCRIPTION: Final = """\
Play each policy over each workload with each seed, by the scheduler's own queue and cycle in memory, and keep a row for
each run. Runs that are done are not repeated: the same command goes on where it was ended."""
_EPILOG: Final = """\
Exit codes: 0 all runs have a result; 1 some failed, or the engine did; 2 flags or files that cannot be used; 130 ended
by Ctrl-C: what is done is kept."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the flags."""
    parser = subparsers.add_parser(
        "sweep",
        help="compare policies over a grid of workloads, seeds and weights",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument("file", metavar="FILE", nargs="?", help="workloads, policies, seeds ... (YAML)")
    parser.add_argument(
        "--results",
        action=StoreText,
        metavar="DIR",
        default="",
        help="where the rows are kept, as Parquet (default: FILE without its ending, and .results)",
    )
    parser.add_argument(
        "--only",
        action=AppendText,
        metavar="TEXT",
        default=[],
        help="only the runs whose workload or policy has this in its name; given again: this one, too",
    )
    parser.add_argument(
        "--list", action="store_true", help="print the runs and which are done or damaged, and make none"
    )
    parser.add_argument(
        "--search",
        action="store_true",
        help="look for the weights that serve the goal of the file's search, instead of making the whole grid",
    )
    engine = parser.add_argument_group("where the runs execute")
    engine.add_argument(
        "--workers",
        type=int,
        metavar="N",
        default=None,
        help="processes on this machine (default: one for each core)",
    )
    engine.add_argument(
        "--dask",
        action=StoreText,
        metavar="ADDRESS",
        default="",
        help="workers of a Dask cluster: the address of its scheduler (tcp://host:8786), or local for one of --workers "
        "processes on this machine",
    )
    cluster = parser.add_argument_group("pods of a Kubernetes cluster")
    cluster.add_argument(
        "--on-cluster",
        action="store_true",
        help="write an Indexed Job whose pods execute the runs, and collect their rows from the pods' logs",
    )
    cluster.add_argument("--image", action=StoreText, metavar="IMAGE", default="", help="of kscheduler, this version")
    cluster.add_argument(
        "-n", "--namespace", action=StoreText, metavar="NAME", default="", help="default: that of the context"
    )
    cluster.add_argument(
        "--pods", type=int, metavar="N", default=None, help=f"how many run at a time (default {_PODS})"
    )
    cluster.add_argument(
        "--data-claim",
        action=StoreText,
        metavar="NAME",
        default="",
        help="a PersistentVolumeClaim with the traces and recordings, mounted where they are here",
    )
    add_cluster(cluster)
    cluster.add_argument("--shard", action=StoreText, metavar="FILE", default="", help=argparse.SUPPRESS)
    return parser


def run(args: argparse.Namespace) -> int:
    """Execute the runs, print the table, return the exit code."""
    from kscheduler.client.errors import ClientError, ConfigurationError
    from kscheduler.config.errors import ConfigError

    if args.shard:
        return _shard(args.shard)
    if args.file is None:
        return refuse("FILE: which sweep? A file with workloads, policies and seeds")
    try:
        from kscheduler.sweep.results import Results
        from kscheduler.sweep.sweep_file import read_sweep

        problem = _flag_problem(args)
        if problem:
            return refuse(problem)
        asked = read_sweep(args.file)
        results = Results(Path(args.results or f"{Path(args.file).with_suffix('')}.results"))
        return _run(args, asked, results)
    except ModuleNotFoundError as error:
        return missing_extra("sweep", error)
    except (ConfigError, ConfigurationError) as problem:
        return refuse(problem)
    except ClientError as problem:
        refuse(problem)
        return FAILED
    except BrokenPipeError:
        raise
    except OSError as problem:
        return refuse(f"{problem.filename or args.results}: {problem.strerror or problem}")


def _flag_problem(args: argparse.Namespace) -> str:
    if args.search and (args.only or args.list):
        return "--search chooses the runs itself; it goes without --only and --list"
    if args.workers is not None and args.workers < 1:
        return "--workers: at least one is needed"
    if args.on_cluster:
        return _flag_problem_on_cluster(args)
    for name in _ON_CLUSTER:
        if getattr(args, name) not in ("", None):
            return f"--{name.replace('_', '-')} goes with --on-cluster"
    if args.workers is not None and args.dask not in ("", "local"):
        return "--workers: how many a Dask cluster has is its own to say; it goes with --dask local"
    return ""


def _flag_problem_on_cluster(args: argparse.Namespace) -> str:
    if args.dask or args.workers is not None or args.search:
        return "--on-cluster goes without --dask, --workers and --search"
    if not args.image:
        return "--on-cluster: --image IMAGE is needed: one of kscheduler, of this version"
    return "--pods: at least one is needed" if args.pods is not None and args.pods < 1 else ""


def _shard(path: str) -> int:
    from kscheduler.sweep.engines.engine import EngineError
    from kscheduler.sweep.engines.indexed_job import run_shard

    try:
        return run_shard(Path(path))
    except EngineError as problem:
        return refuse(problem)


def _run(args: argparse.Namespace, asked: "Sweep", results: "Results") -> int:
    from kscheduler.sweep.engines.indexed_job import data_folder

    for text in asked.incompatible_pairs():
        say(text)
    if args.search:
        return _search(args, asked, results)
    specs = _chosen(asked.runs(), args.only)
    if not specs:
        return refuse(f"--only {' --only '.join(args.only)}: no run has this in the name of its workload or policy")
    if args.list:
        return _list(specs, results)
    if args.on_cluster and data_folder(specs) and not args.data_claim:
        return refuse("--on-cluster: traces and recordings are read from a volume: --data-claim NAME is needed")
    return _sweep(specs, _engine(args, specs), results)


def _chosen(specs: "Sequence[RunSpec]", only: "Sequence[str]") -> "Sequence[RunSpec]":
    def is_chosen(spec: "RunSpec") -> bool:
        return any(text in spec.workload.name or text in spec.policy.name for text in only)

    return [spec for spec in specs if not only or is_chosen(spec)]


def _list(specs: "Sequence[RunSpec]", results: "Results") -> int:
    from kscheduler.sweep.results import DamagedRowError
    from kscheduler.text import aligned, printable

    done = results.done()
    table: list[tuple[str, ...]] = [("workload", "shape", "policy", "seed", "key", "")]
    for spec in specs:
        names = (spec.workload.name, spec.workload.shape.name, spec.policy.name)
        state = ""
        if spec.key in done:
            try:
                results.get(spec.key)
                state = "done"
            except DamagedRowError as damage:
                state = "damaged"
                say(f"{damage}; the next sweep repeats the run")
        table.append((*map(printable, names), str(spec.seed), spec.key, state))
    for line in aligned(table, {3}):
        print(line)
    return _DONE


def _engine(args: argparse.Namespace, specs: "Sequence[RunSpec]" = ()) -> "SweepEngine":
    if args.on_cluster:
        from kscheduler.sweep.engines.indexed_job import IndexedJobEngine, JobSettings

        settings = JobSettings(namespace_of(args), args.image, args.pods or _PODS, args.data_claim)
        return IndexedJobEngine(lambda: live_client(args), settings, specs)
    workers = args.workers or _cores()
    if args.dask:
        from kscheduler.sweep.engines.dask_cluster import DaskEngine

        return DaskEngine(args.dask, workers)
    from kscheduler.sweep.engines.local import LocalEngine

    return LocalEngine(workers)


def _cores() -> int:
    """That this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _sweep(specs: "Sequence[RunSpec]", engine: "SweepEngine", results: "Results") -> int:
    from kscheduler.sweep.page import sweep_page
    from kscheduler.sweep.summary import summary_text
    from kscheduler.sweep.sweeping import sweep
    from kscheduler.text import style_of

    def work(progress: "_Progress") -> int:
        outcome = sweep(specs, engine, results, progress.show, progress.report)
        progress.clear()
        path = results.write_all(outcome.rows)
        page = results.write_page(sweep_page(outcome.rows, results.directory.name))
        print(summary_text(outcome.rows, style_of(sys.stdout)))
        _say_notes(outcome.rows)
        for row in outcome.failed:
            say(f"{row.policy} on {row.workload}, seed {row.seed}: {row.error}")
        done_before = len(specs) - outcome.executed
        say(f"{len(specs):,} runs, of which {done_before:,} were done before: {path}, {page}")
        return FAILED if outcome.failed else _DONE

    def done() -> str:
        return f"{len({spec.key for spec in specs} & results.done()):,} of {len(specs):,} runs are done"

    return _until_signal(work, done)


def _say_notes(rows: "Iterable[SweepRow]") -> None:
    """What recordings and figures lack, once for each, and of each workload only the first few."""
    from kscheduler.sweep.summary import notes_of

    for text in notes_of(rows):
        say(text)


def _search(args: argparse.Namespace, asked: "Sweep", results: "Results") -> int:
    from kscheduler.sweep.page import sweep_page
    from kscheduler.sweep.search import search
    from kscheduler.sweep.search_text import search_lines
    from kscheduler.sweep.sweeping import sweep

    settings = asked.search
    if settings is None:
        return refuse(f"{args.file}: search: Required value: --search needs policy, goal and weights")
    engine, rows_by_key = _engine(args), dict[str, "SweepRow"]()

    def work(progress: "_Progress") -> int:
        def execute(specs: "Sequence[RunSpec]") -> "Sequence[SweepRow]":
            rows = sweep(specs, engine, results, progress.show, progress.report).rows
            rows_by_key.update({row.key: row for row in rows})
            return rows

        found = search(asked, settings, execute)
        progress.clear()
        rows = list(rows_by_key.values())
        results.write_all(rows)
        page = results.write_page(sweep_page(rows, results.directory.name, found))
        for line in search_lines(found):
            print(line)
        _say_notes(rows)
        say(f"{len(rows):,} runs: {page}")
        return _DONE

    return _until_signal(work, lambda: f"{len(rows_by_key):,} runs are done")


def _until_signal(work: "Callable[[_Progress], int]", done: "Callable[[], str]") -> int:
    """The exit code of `work`; a signal ends it and says what is done."""
    from kscheduler.sweep.engines.engine import EngineError

    signals_as_usual()
    signal.signal(signal.SIGTERM, _terminate)
    progress = _Progress()
    try:
        return work(progress)
    except (KeyboardInterrupt, _TerminatedError) as end:
        progress.clear()
        say(f"{done()}; the same command goes on")
        return INTERRUPTED if isinstance(end, KeyboardInterrupt) else _TERMINATED
    except EngineError as problem:
        progress.clear()
        refuse(problem)
        return FAILED


class _TerminatedError(BaseException):
    """SIGTERM arrived."""


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise _TerminatedError


class _Progress:
    """A bar on a terminal, else a line for each twentieth of the runs."""

    _CELLS: Final = 30

    def __init__(self) -> None:
        self._is_bar = sys.stderr.isatty()
        self._printed = 0

    def show(self, done: int, total: int, row: "SweepRow") -> None:
        """A run is done."""
        from kscheduler.text import printable

        if self._is_bar:
            filled = self._CELLS * done // total
            bar = "█" * filled + "░" * (self._CELLS - filled)
            about = printable(f"{row.policy} on {row.workload}, seed {row.seed}")[:60]
            print(f"\r\x1b[K{bar} {done:,} of {total:,}  {about}", end="", file=sys.stderr, flush=True)
        elif 20 * done // total > self._printed or done == total:
            self._printed = 20 * done // total
            say(f"{done:,} of {total:,} runs")

    def report(self, text: str) -> None:
        """A line that stays."""
        self.clear()
        say(text)

    def clear(self) -> None:
        if self._is_bar:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
