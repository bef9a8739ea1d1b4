"""What signals do to the service.

    SIGTERM, SIGINT   an orderly end: nothing new is decided, sent binds come back; exit code 0
    SIGHUP            the same: the terminal is gone, or somebody wants the configuration read anew, which a new start
                      does. Under nohup it is ignored, as nohup asks
    a second of them  the end at once; exit code 1
    SIGQUIT           the stacks of all threads on standard error, then the end by the signal, as programs in Go do
    SIGUSR2           cache and queue are written to the log and compared with what was watched
    SIGPIPE           nothing (Python ignores it): a log that nobody reads is no reason not to schedule

kube-scheduler ends in order at SIGTERM and SIGINT alone, and at once at SIGHUP: binds that were sent are lost sight of.
"""

import asyncio
import faulthandler
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from kscheduler.logs import get_logger

_log = get_logger("kscheduler")

ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Stop(asyncio.Event):
    """The request to stop, and whose it is."""

    reason = "it was asked to"


@contextmanager
def ending(stop: Stop) -> Iterator[None]:
    """Set `stop` at a signal to end while the body runs; on the running loop."""
    loop = asyncio.get_running_loop()
    numbers = [number for number in ENDING if number != signal.SIGHUP or not _is_ignored(number)]
    for number in numbers:
        loop.add_signal_handler(number, _on_signal, stop, number)
    shows_stacks = _show_stacks_on(signal.SIGQUIT)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
        if shows_stacks:
            faulthandler.unregister(signal.SIGQUIT)


@contextmanager
def dumping(ask_for_dump: Callable[[], None]) -> Iterator[None]:
    """Ask for a dump at each SIGUSR2 while the body runs."""
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGUSR2)
    loop.add_signal_handler(signal.SIGUSR2, ask_for_dump)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGUSR2)
        if callable(before):  # asyncio leaves the system's own way, which ends the process
            signal.signal(signal.SIGUSR2, before)


def _is_ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN


def _show_stacks_on(number: signal.Signals) -> bool:
    try:
        faulthandler.register(number, file=sys.stderr, all_threads=True, chain=True)
    except (AttributeError, OSError, RuntimeError, ValueError):
        return False  # standard error is closed, or is no file
    return True


def _on_signal(stop: Stop, number: signal.Signals) -> None:
    if stop.is_set():
        _log.warning("ending_at_once", signal=number.name)
        os._exit(1)
    note = {"note": "the configuration is not read again; a new start does that"} if number == signal.SIGHUP else {}
    stop.reason = number.name
    _log.info("requested_to_terminate", signal=number.name, **note)
    stop.set()
