"""`kubectl kscheduler`: the verbs that ask, under kubectl's own name for plugins.

    kubectl kscheduler why POD        where a pod goes and why
    kubectl kscheduler whatif ...     what would happen if
    kubectl kscheduler pending        the pods that wait, by reason
    kubectl kscheduler nodes          the nodes by use
    kubectl kscheduler top            the running scheduler on a screen

kubectl finds `kubectl-kscheduler` on the PATH, and for completion `kubectl_complete-kscheduler`. Each verb asks the
running service through the API server's proxy if the user may; otherwise it decides by itself from the objects that the
user may read, and says which. `kubectl/VERB.py` implements it.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kscheduler.cli.parser import Parser

# By verb its purpose.
VERBS: Final[Mapping[str, str]] = {
    "why": "say why a pod goes where it goes, or changes that would make it fit",
    "whatif": "say what would happen with more pods, other nodes, a drain",
    "pending": "list the pending pods by reason",
    "nodes": "list the nodes by use, with the pods that they reject",
    "top": "show the running scheduler on a screen",
}

# What cobra reads from the last line: nothing but the lines above, or files as well.
_COMPLETES_HERE, _COMPLETES_FILES = ":4", ":0"
_INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb of the plugin; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        (sys.stdout if words else sys.stderr).write(_help())
        return 0 if words else 2
    if words[0] not in VERBS:
        from kscheduler.cli import VERBS as COMMANDS
        from kscheduler.cli.refusal import OF_KUBECTL, unknown_verb

        elsewhere = {**{command: f"`kscheduler {command}`" for command in COMMANDS}, **OF_KUBECTL}
        sys.stderr.write(f"kubectl kscheduler: {unknown_verb(words[0], VERBS, elsewhere)}\n{_help()}")
        return 2
    from kscheduler.cli import answering

    def run() -> int:
        args = build_parser(words[0]).parse_args(words)
        code: int = args.run(args)
        return code

    try:
        return answering(run)
    except KeyboardInterrupt:
        return _INTERRUPTED


def build_parser(verb: str) -> "Parser":
    """The parser of a verb."""
    import importlib

    from kscheduler.cli.parser import Parser
    from kscheduler.cli.quick_imports import collector_pauses

    parser = Parser(prog="kubectl kscheduler")
    subparsers = parser.add_subparsers(metavar="VERB", required=True)
    with collector_pauses():
        module = importlib.import_module(f"kscheduler.cli.kubectl.{verb}")
    module.add_parser(subparsers).set_defaults(run=module.run)
    return parser


def complete(argv: Sequence[str] | None = None) -> int:
    """Print what may follow the words, as kubectl asks for it; the last word is the one being typed."""
    words = list(sys.argv[1:] if argv is None else argv)
    typed = words[-1] if words else ""
    if len(words) <= 1:
        found = [f"{verb}\t{purpose}" for verb, purpose in VERBS.items() if verb.startswith(typed)]
    elif words[0] in VERBS and typed.startswith("-"):
        found = [flag for flag in _flags(words[0]) if flag.startswith(typed)]
    else:
        found = []
    wants_a_file = not found and not typed.startswith("-")
    sys.stdout.write("\n".join([*found, _COMPLETES_FILES if wants_a_file else _COMPLETES_HERE]) + "\n")
    return 0


def _flags(verb: str) -> list[str]:
    parser = build_parser(verb)
    (verbs,) = [action.choices for action in parser._actions if isinstance(action.choices, dict)]
    return sorted(flag for action in verbs[verb]._actions for flag in action.option_strings if flag.startswith("--"))


def _help() -> str:
    lines = [f"  kubectl kscheduler {verb:8} {purpose}" for verb, purpose in VERBS.items()]
    return "\n".join(["usage:", *lines, "", "Each has --help. Nothing is written to the cluster.", ""])


def entry() -> None:
    """The script `kubectl-kscheduler`."""
    sys.exit(main())


def complete_entry() -> None:
    """The script `kubectl_complete-kscheduler`."""
    sys.exit(complete())
