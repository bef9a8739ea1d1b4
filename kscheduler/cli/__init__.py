"""The command line: one verb per file, each with `add_parser` and `run`.

Exit codes: 0 done, 1 it went wrong while running, 2 what was asked cannot be done (a bad flag, file or field; one clear
line on stderr says which).
"""

import argparse
import importlib
from collections.abc import Sequence

from kscheduler import __version__

_VERBS = ("run", "explain", "config", "cluster", "demo", "bench")


def main(argv: Sequence[str] | None = None) -> int:
    """The console script."""
    parser = argparse.ArgumentParser(prog="kscheduler", description="A Kubernetes scheduler service in Python.")
    parser.add_argument("--version", action="version", version=f"kscheduler {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for verb in _VERBS:
        module = importlib.import_module(f"{__name__}.{verb}")
        module.add_parser(subparsers).set_defaults(run=module.run)
    args = parser.parse_args(argv)
    code: int = args.run(args)
    return code
