"""Ctrl-C and SIGTERM while nothing runs yet that would have to be ended in order.

The problem: importing takes most of the first second, and Python answers Ctrl-C there with a traceback of whatever it
was importing; as process 1 of a container it does not hear SIGTERM at all before somebody asks for it. The idea: from
the first line on both end the process at once and without a word, with the exit code that shells expect; whoever has
something to end in order takes the signals over when it has.
"""

import os
import signal
from types import FrameType

_BOTH = (signal.SIGINT, signal.SIGTERM)


def end_at_once_on_signals() -> None:
    """From now on Ctrl-C ends this process with 130 and SIGTERM with 143. For the main thread."""
    for number in _BOTH:
        signal.signal(number, _end)


def signals_as_usual() -> None:
    """Python's own ways again, for code that ends in order on `KeyboardInterrupt`."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGTERM) is _end:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)
