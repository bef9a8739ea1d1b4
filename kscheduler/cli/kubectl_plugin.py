"""`kubectl kscheduler`: the verbs that ask, under kubectl's own name for plugins.

    kubectl kscheduler why POD        kscheduler explain
    kubectl kscheduler whatif ...     kscheduler simulate
    kubectl kscheduler pending        kscheduler pending

kubectl finds `kubectl-kscheduler` on the PATH, and for completion `kubectl_complete-kscheduler`. Each decides by itself
from the objects that the user may read; the running service is not asked.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Final

VERBS: Final[Mapping[str, tuple[str, str]]] = {
    "why": ("explain", "say why a pod goes where it goes, or what would make it fit"),
    "whatif": ("simulate", "say what would happen with more pods, other nodes, a drain"),
    "pending": ("pending", "list the pending pods by reason"),
}
"""kubectl's verb, ours, and its purpose."""

_COMPLETES_HERE, _COMPLETES_FILES = ":4", ":0"
"""What cobra reads from the last line: nothing but the lines above, or files as well."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb of the plugin; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        (sys.stdout if words else sys.stderr).write(_help())
        return 0 if words else 2
    if words[0] not in VERBS:
        sys.stderr.write(f"kubectl kscheduler: {words[0]!r} is no verb\n{_help()}")
        return 2
    from kscheduler.cli import main as run

    return run([VERBS[words[0]][0], *words[1:]])


def complete(argv: Sequence[str] | None = None) -> int:
    """Print what may follow the words, as kubectl asks for it; the last word is the one being typed."""
    words = list(sys.argv[1:] if argv is None else argv)
    typed = words[-1] if words else ""
    if len(words) <= 1:
        found = [f"{verb}\t{purpose}" for verb, (_, purpose) in VERBS.items() if verb.startswith(typed)]
    elif words[0] in VERBS and typed.startswith("-"):
        found = [flag for flag in _flags(VERBS[words[0]][0]) if flag.startswith(typed)]
    else:
        found = []
    wants_a_file = not found and not typed.startswith("-")
    sys.stdout.write("\n".join([*found, _COMPLETES_FILES if wants_a_file else _COMPLETES_HERE]) + "\n")
    return 0


def _flags(verb: str) -> list[str]:
    from kscheduler.cli import build_parser

    (verbs,) = [action.choices for action in build_parser((verb,))._actions if isinstance(action.choices, dict)]
    return sorted(flag for action in verbs[verb]._actions for flag in action.option_strings if flag.startswith("--"))


def _help() -> str:
    lines = [f"  kubectl kscheduler {verb:8} {purpose}" for verb, (_, purpose) in VERBS.items()]
    return "\n".join(["usage:", *lines, "", "Each has --help. Nothing is written to the cluster.", ""])


def entry() -> None:
    """The script `kubectl-kscheduler`."""
    sys.exit(main())


def complete_entry() -> None:
    """The script `kubectl_complete-kscheduler`."""
    sys.exit(complete())
