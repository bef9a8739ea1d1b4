"""`--debug-plugins`: a person looks into plugins with a debugger.

Its prompt, or an IDE's breakpoint, stops the whole process. With the flag no limit on the time of plugins' code holds
(`framework.plugin_time`), and a service runs without leader election: nobody could renew the Lease. Without it a
service keeps debuggers out. A `breakpoint()` that was left in a plugin would hold up every pod where standard input is
a terminal, and end in an error of pdb elsewhere; so it raises `DebuggerKeptOutError`, and that is a
failure of the plugin as any other.

Commands that answer one question (`explain`, `plugin check`), and tests, let a debugger in without the flag, too.

Limits: a debugger that is attached from outside to a service without the flag is not noticed. Time budgets end the
calls in which it stands, and where they cannot, the Lease is lost.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    import argparse

FLAG: Final = "--debug-plugins"
ELECTS: Final = "contradicts --debug-plugins: who stands at a breakpoint cannot renew a Lease"
DEBUGGED: Final = (
    "for a developer's machine: nothing ends a plugin that takes long, and nothing else is done meanwhile; there is no "
    "leader election, so no other scheduler may have this one's name; questions (--answer-questions) are off"
)
_KEPT_OUT: Final = (
    f"breakpoint() would stop the whole scheduler, so there is no debugger here: run it with {FLAG} on a machine of "
    "your own, or remove the breakpoint"
)


class DebuggerKeptOutError(RuntimeError):
    """A plugin has called for a debugger in a service that must not stop."""


def add_debug_flag(parser: Any) -> None:
    """Declare the flag."""
    parser.add_argument(
        FLAG,
        action="store_true",
        help="for a developer's machine: breakpoint() in a plugin opens a prompt, or stops in an IDE, and no plugin is "
        "interrupted, held back or reported for being slow. A service runs without leader election",
    )


def begin_debugging(args: "argparse.Namespace") -> None:
    """Before any plugin is loaded: lift the limits on their time, if the flag says so."""
    from kscheduler.framework.plugin_time import PLUGIN_TIME

    PLUGIN_TIME.is_limited = not getattr(args, "debug_plugins", False)


@contextmanager
def debuggers_in_service(args: "argparse.Namespace") -> Iterator[None]:
    """Around a service, from before its plugins are loaded: make room for a debugger, or keep it out."""
    from kscheduler.framework.plugin_time import PLUGIN_TIME

    begin_debugging(args)
    PLUGIN_TIME.lets_debuggers_in = args.debug_plugins
    try:
        with _leaving_interrupts_alone() if args.debug_plugins else _kept_out():
            yield
    finally:
        PLUGIN_TIME.is_limited = PLUGIN_TIME.lets_debuggers_in = True


def prompt_problem() -> str:
    """Why a breakpoint would give no prompt that somebody can answer; empty if it does, or an IDE takes its place."""
    has_own_hook = sys.breakpointhook is not sys.__breakpointhook__ or os.environ.get("PYTHONBREAKPOINT")
    if has_own_hook or (sys.stdin is not None and sys.stdin.isatty()):
        return ""
    return (
        "standard input is no terminal: a breakpoint reads its commands from there without a prompt, and where it has "
        "ended, the call fails with BdbQuit. Start it in a terminal, or from an IDE"
    )


@contextmanager
def _kept_out() -> Iterator[None]:
    """`breakpoint()`, and whatever is made of `bdb`, raises."""
    import bdb

    def refuse(*_: object, **__: object) -> NoReturn:
        raise DebuggerKeptOutError(_KEPT_OUT)

    def hook(*arguments: Any, **options: Any) -> None:
        if os.environ.get("PYTHONBREAKPOINT") != "0":  # Python's own way to say that there are none
            refuse(*arguments, **options)

    # `reset` is what set_trace, post_mortem and run of each of them begin with: pdb, ipdb, pudb.
    before = sys.breakpointhook, bdb.Bdb.reset
    sys.breakpointhook, bdb.Bdb.reset = hook, refuse  # type: ignore[method-assign]
    try:
        yield
    finally:
        sys.breakpointhook, bdb.Bdb.reset = before  # type: ignore[method-assign]


@contextmanager
def _leaving_interrupts_alone() -> Iterator[None]:
    """Ctrl-C ends the service also after a breakpoint: by default pdb takes it over with its first `continue`."""
    import pdb

    before = pdb.Pdb

    class Prompt(before):  # type: ignore[valid-type,misc]  # whatever it is
        """Python's own, with signals left to the service."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **{**options, "nosigint": True})

    pdb.Pdb = Prompt  # type: ignore[misc]
    try:
        yield
    finally:
        pdb.Pdb = before  # type: ignore[misc]
