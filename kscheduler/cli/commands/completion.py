"""`kscheduler completion`: completion scripts for bash, zsh, fish and tcsh, written by shtab from the parsers."""

import argparse
from collections.abc import Mapping
from typing import Any

_DESCRIPTION = """\
Print a script that completes commands, flags and files.

  bash    source <(kscheduler completion bash)            # in ~/.bashrc, for every shell
  zsh     kscheduler completion zsh > "${fpath[1]}/_kscheduler"
  fish    kscheduler completion fish > ~/.config/fish/completions/kscheduler.fish
  tcsh    kscheduler completion tcsh > ~/.kscheduler.tcsh  # and source it in ~/.tcshrc"""
_SHELLS = ("bash", "zsh", "fish", "tcsh")


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the argument."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "completion",
        help="print a completion script for your shell",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=_SHELLS)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    from kscheduler.cli import VERBS, build_parser

    parser = build_parser(tuple(VERBS))
    _complete_files(parser, {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY})
    print(shtab.complete(parser, shell=args.shell))
    return 0


def _complete_files(parser: argparse.ArgumentParser, files: Mapping[str, Any]) -> None:
    """Complete names of files and folders where the help says FILE and DIR; shtab reads the attribute `complete`."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                _complete_files(below, files)
        elif isinstance(action.metavar, str) and action.metavar in files:
            action.complete = files[action.metavar]  # type: ignore[attr-defined]
