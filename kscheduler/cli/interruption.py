"""Ctrl-C and other signals during start-up, before there is anything to end in order.

The problem: imports take most of the first second, in which Python answers Ctrl-C with a traceback of the import; as
process 1 of a container it ignores SIGTERM until a handler is set. SIGUSR2, which asks a running service for a dump,
ends a process without a handler for it. The idea: from the first line on the former end the process at once and
silently, with the exit code that shells expect, and SIGUSR2 does nothing. Code that needs an orderly end replaces these
handlers.
"""

import os
import signal
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_at_once_on_signals() -> None:
    """Make Ctrl-C end this process with 130, SIGTERM with 143 and SIGHUP with 129; SIGUSR2 does nothing.

    An ignored SIGHUP stays ignored, for nohup. Main thread only.
    """
    for number in _ENDING:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    if signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL:
        signal.signal(signal.SIGUSR2, _pass)


def signals_as_usual() -> None:
    """Restore Python's default handlers, for code that ends in order on `KeyboardInterrupt`."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is _end:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGUSR2) is _pass:
        signal.signal(signal.SIGUSR2, signal.SIG_DFL)


def _end(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)


def _pass(_number: int, _frame: FrameType | None) -> None:
    """Do nothing. A handler rather than SIG_IGN, which child processes would inherit."""
