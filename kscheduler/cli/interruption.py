"""Ctrl-C and other signals while nothing runs yet that would have to be ended in order.

The problem: importing takes most of the first second, and Python answers Ctrl-C there with a traceback of whatever it
was importing; as process 1 of a container it does not hear SIGTERM at all before somebody asks for it. SIGUSR2, which
asks a running service for a dump, ends a process that does not know it yet. The idea: from the first line on the former
end the process at once and without a word, with the exit code that shells expect, and the latter does nothing; whoever
has something to end in order takes the signals over when it has.
"""

import os
import signal
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_at_once_on_signals() -> None:
    """From now on Ctrl-C ends this process with 130, SIGTERM with 143 and SIGHUP with 129; SIGUSR2 does nothing.

    A SIGHUP that is ignored stays ignored: nohup asks for that. For the main thread.
    """
    for number in _ENDING:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    if signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL:
        signal.signal(signal.SIGUSR2, _pass)


def signals_as_usual() -> None:
    """Python's own ways again, for code that ends in order on `KeyboardInterrupt`."""
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
    """Nothing; as a handler, because programs that we start would inherit that a signal is ignored."""
