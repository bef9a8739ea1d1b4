"""`kscheduler demo`: schedules a thousand pods on an embedded cluster."""

import argparse
import asyncio
import sys
from typing import Any

from kscheduler.cli.embedded_flags import taken_port, wrong_count
from kscheduler.cli.interruption import signals_as_usual
from kscheduler.cli.parser import port
from kscheduler.cli.refusal import FAILED, INTERRUPTED, missing_extra, refuse

_DESCRIPTION = """\
Start an embedded cluster with hollow nodes and, over HTTP, the scheduler as a process of its own; create mixed nodes
and pods; watch them being bound; check the result independently. Exit code 0 only if every pod that could be bound is
bound, no node is over its allocatable and no kubelet has rejected a pod."""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the flags."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "demo", help="watch a thousand pods being scheduled", description=_DESCRIPTION
    )
    parser.add_argument("--nodes", type=int, default=100, metavar="N", help="hollow nodes (default %(default)s)")
    parser.add_argument("--pods", type=int, default=1000, metavar="N", help="mixed pods (default %(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep it running afterwards, until Ctrl-C")
    parser.add_argument("--seed", type=int, default=1, help="makes nodes and pods repeatable (default %(default)s)")
    parser.add_argument("--port", type=port, default=0, help="of the API server; 0 means any free port (default)")
    return parser


def run(args: argparse.Namespace) -> int:
    """Play the demo. 0: passed; 1: failed; 2: bad flags or not installed; 130: interrupted."""
    from kscheduler.telemetry.logs import pipeline
    from kscheduler.telemetry.logs.verbosity import WARNINGS

    wrong = [*wrong_count("--nodes", args.nodes, 1), *wrong_count("--pods", args.pods, 1)]
    wrong = wrong or list(taken_port("127.0.0.1", args.port))
    if wrong:
        return refuse("\n".join(wrong))
    try:
        # The cluster is another process: check here that its packages are installed.
        import jsonpatch  # noqa: F401

        from kscheduler.embedded.demo.play import DemoOptions, play
        from kscheduler.embedded.demo.processes import DemoFailedError
    except ModuleNotFoundError as error:
        return missing_extra("demo", error)
    signals_as_usual()  # imports are done: from here on the demo ends in order
    pipeline.configure(verbosity=WARNINGS)
    options = DemoOptions(nodes=args.nodes, pods=args.pods, seed=args.seed, port=args.port, keep=args.keep)
    try:
        return asyncio.run(play(options, sys.stdout))
    except (asyncio.CancelledError, KeyboardInterrupt):
        print("\ninterrupted; all processes have ended", file=sys.stderr)
        return INTERRUPTED
    except DemoFailedError as error:
        print(f"kscheduler demo: {error}", file=sys.stderr)
        return FAILED
