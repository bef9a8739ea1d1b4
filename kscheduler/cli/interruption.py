"""Ctrl-C and other signals during start-up, before there is anything to end in order.

The problem: imports take most of the first second, in which Python answers Ctrl-C with a traceback of the import; as
process 1 of a container it ignores SIGTERM until a handler is set. The idea: from the first line on these end the
process at once and silently, with the exit code that shells expect, and what nothing uses has no effect
(`kscheduler.unused_signals`). Code that needs an orderly end replaces these handlers.
"""

import os
import signal
from types import FrameType

from kscheduler.unused_signals import ignore_unused, show_stacks

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_at_once_on_signals() -> None:
    """Make Ctrl-C end this process with 130, SIGTERM with 143 and SIGHUP with 129; unused signals do nothing.

    An ignored SIGHUP stays ignored, for nohup. Main thread only.
    """
    for number in _ENDING:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    ignore_unused()
    show_stacks()


def signals_as_usual() -> None:
    """Restore Python's default handlers of those three, for code that ends in order on `KeyboardInterrupt`."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is _end:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)
