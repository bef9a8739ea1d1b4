"""The command line: the verbs, a file each in `commands`, over flags, refusals and what starts a process.

Exit codes: 0 done, 1 failed while running, 2 the request is invalid (a bad flag, file or field, named in a line on
stderr), 141 the reader of the output (head, less) has gone, as a shell tells of SIGPIPE. Only the requested verb is
imported, so that `--version` and `--help` answer at once.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from kscheduler.cli.parser import Parser

# The purpose of each verb, as in `kscheduler --help`. `kscheduler/cli/commands/VERB.py` implements it.
VERBS: Final[Mapping[str, str]] = {
    "run": "schedule the pods that name this scheduler",
    "explain": "explain where a pod goes, and why",
    "pending": "list the pending pods by reason",
    "simulate": "simulate more pods, other nodes, a drain, or another configuration",
    "compact": "tell on how few nodes the pods would run, by profile",
    "sweep": "compare policies over a grid of workloads, seeds and weights",
    "replay": "replay a recording and compare the decisions; or show the state at a time",
    "shadow": "report how this configuration would have decided in a cluster that another scheduler serves",
    "config": "check or convert a configuration file, print the default one",
    "cluster": "serve an embedded cluster with hollow nodes",
    "demo": "watch a thousand pods being scheduled",
    "plugin": "write, list and check policies of your own",
    "bench": "measure decisions per second, in process",
    "completion": "print a completion script for your shell",
    "version": "print the version, and the Kubernetes whose rules are followed",
}

# Verbs that call plugins and configure no logs of their own: whether the plugins' lines are shown. Those that ask them
# thousands of times show none.
_CALL_PLUGINS: Final = {
    "bench": False,
    "compact": False,
    "config": True,
    "explain": True,
    "pending": True,
    "plugin": False,
    "replay": False,
    "simulate": True,
    "sweep": False,
}
_BROKEN_PIPE: Final = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line (`argv` `None`: the process's own) and return the exit code."""
    import sys

    words = sys.argv[1:] if argv is None else argv
    verb = next((word for word in words if not word.startswith("-")), "")
    parser = build_parser((verb,))
    if not words:
        parser.print_help(sys.stderr)
        return 2
    if words[0] == verb and verb not in VERBS:
        from kscheduler.cli.refusal import OF_KSCHEDULER, unknown_verb

        parser.error(unknown_verb(verb, VERBS, OF_KSCHEDULER))

    def run() -> int:
        args = parser.parse_args(words)
        with _plugins_apart(verb):
            code: int = args.run(args)
        return code

    return answering(run)


def _plugins_apart(verb: str) -> "AbstractContextManager[object]":
    """What plugins log and print must not stand in the answer of a command that calls them."""
    from contextlib import nullcontext

    if verb not in _CALL_PLUGINS:
        return nullcontext()
    from kscheduler.cli.standard_streams import plugins_apart

    return plugins_apart(are_logs_shown=_CALL_PLUGINS[verb])


def answering(run: Callable[[], int]) -> int:
    """The exit code of a command, also where its answer cannot be written."""
    from kscheduler.cli.standard_streams import UnwritableAnswerError, open_missing, unwritable_told

    open_missing()
    try:
        with unwritable_told():
            return run()
    except BrokenPipeError:
        _drop_output()
        return _BROKEN_PIPE
    except UnwritableAnswerError as failure:
        from kscheduler.cli.refusal import FAILED, say

        _drop_output()
        say(f"standard output cannot be written: {failure}")
        return FAILED


def _drop_output() -> None:
    """What is left of the answer may not be flushed at exit: that would fail again."""
    import os
    import sys

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def build_parser(verbs: Sequence[str]) -> "Parser":
    """The parser, with the flags of `verbs`; of other verbs it has name and purpose only."""
    import importlib

    from kscheduler import __version__
    from kscheduler.cli.parser import Parser
    from kscheduler.cli.quick_imports import collector_pauses

    parser = Parser(prog="kscheduler", description="A Kubernetes scheduler service in Python.")
    parser.add_argument("--version", action="version", version=f"kscheduler {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for verb, purpose in VERBS.items():
        if verb in verbs:
            with collector_pauses():
                module = importlib.import_module(f"{__name__}.commands.{verb}")
            module.add_parser(subparsers).set_defaults(run=module.run)
        else:
            subparsers.add_parser(verb, help=purpose)
    return parser
