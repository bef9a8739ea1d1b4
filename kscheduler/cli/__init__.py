"""The command line: one verb per file, each with `add_parser` and `run`.

Exit codes: 0 done, 1 it went wrong while running, 2 what was asked cannot be done (a bad flag, file or field; one clear
line on stderr says which). Only the verb that was asked for is imported: `--version` and `--help` answer at once.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kscheduler.cli.parser import Parser

VERBS: Final[Mapping[str, str]] = {
    "run": "schedule the pods that name this scheduler",
    "explain": "say where a pod goes and why",
    "config": "check a configuration file, print the default one",
    "cluster": "serve an embedded cluster with hollow nodes",
    "demo": "watch a thousand pods being scheduled",
    "bench": "measure decisions per second, in process",
    "completion": "print a completion script for your shell",
}
"""What each is for, as `kscheduler --help` says it. `kscheduler/cli/VERB.py` does it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says (`argv` None: the process's own) and return the exit code."""
    import sys

    given = sys.argv[1:] if argv is None else argv
    verb = next((word for word in given if not word.startswith("-")), "")
    parser = build_parser((verb,))
    if not given:
        parser.print_help(sys.stderr)
        return 2
    args = parser.parse_args(given)
    code: int = args.run(args)
    return code


def build_parser(verbs: Sequence[str]) -> "Parser":
    """The parser, with the flags of these verbs; of the others it knows names and purpose."""
    import importlib

    from kscheduler import __version__
    from kscheduler.cli.parser import Parser

    parser = Parser(prog="kscheduler", description="A Kubernetes scheduler service in Python.")
    parser.add_argument("--version", action="version", version=f"kscheduler {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for verb, purpose in VERBS.items():
        if verb in verbs:
            module = importlib.import_module(f"{__name__}.{verb}")
            module.add_parser(subparsers).set_defaults(run=module.run)
        else:
            subparsers.add_parser(verb, help=purpose)
    return parser
