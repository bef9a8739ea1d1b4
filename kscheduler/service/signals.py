"""How the service handles signals.

    SIGTERM, SIGINT   an orderly end: no new decisions, binds in flight are awaited; exit code 0
    SIGHUP            the configuration file is read again, if there is one, and the API server is asked for its
                      version. The same as SIGTERM if the terminal that the service was started on is gone. Ignored
                      under nohup
    a second of them  ends at once; exit code 1
    SIGQUIT           prints the stacks of all threads on standard error and ends, as programs in Go do
    SIGUSR2           logs cache and queue and compares them with the stores
    all others        as in a Go program: `kscheduler.unused_signals`

kube-scheduler ends in order at SIGTERM and SIGINT only; at SIGHUP it ends at once and loses track of binds in flight.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.pipeline import flush
from kscheduler.unused_signals import ignore_unused, show_stacks

_log = get_logger("kscheduler")

ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
NOTHING_TO_RELOAD: Final = "neither --config nor --plugin names a file, or --config-reload=off"


class Stop(asyncio.Event):
    """The request to stop, and its reason."""

    reason = "it was asked to"


@contextmanager
def ending(stop: Stop) -> Iterator[None]:
    """Set `stop` at an ending signal while the body runs; on the running loop."""
    loop = asyncio.get_running_loop()
    numbers = [number for number in ENDING if number != signal.SIGHUP or not _is_ignored(number)]
    for number in numbers:
        loop.add_signal_handler(number, _on_signal, stop, number)
    # The program has done so in its first line; a program that calls `service.run` by itself has not.
    ignore_unused()
    show_stacks()
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextmanager
def calling(action: Callable[[], None], number: signal.Signals) -> Iterator[None]:
    """Call `action` on the loop at each such signal while the body runs; before and after, the signal has no effect."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(number, action)
    try:
        yield
    finally:
        loop.remove_signal_handler(number)
        ignore_unused()  # asyncio has restored the system's default, which would end the process


class Reloads(Protocol):
    """Does what a hangup asks for: `terms.Terms`."""

    @property
    def is_on(self) -> bool:
        """Whether there is a file that may be read again."""
        ...

    def ask(self) -> None:
        """Read it, if it may be, and ask for the API server's version, as soon as possible."""
        ...


@contextmanager
def reloading(reloader: Reloads, stop: Stop) -> Iterator[None]:
    """Have everything read again at each SIGHUP while the body runs, inside of `ending`."""
    if _is_ignored(signal.SIGHUP):
        yield
        return
    loop, had_terminal = asyncio.get_running_loop(), _has_terminal()

    def on_hangup() -> None:
        if had_terminal and not _has_terminal():
            _on_signal(stop, signal.SIGHUP, note="the terminal is gone")
            return
        if reloader.is_on:
            _log.info("config_reload_requested", signal=signal.SIGHUP.name)
        else:
            _log.info("nothing_to_reload", signal=signal.SIGHUP.name, reason=NOTHING_TO_RELOAD)
        reloader.ask()

    loop.add_signal_handler(signal.SIGHUP, on_hangup)
    try:
        yield
    finally:
        loop.add_signal_handler(signal.SIGHUP, _on_signal, stop, signal.SIGHUP)


def _has_terminal() -> bool:
    """Whether this process has a controlling terminal: after a hangup it can be opened no more."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _is_ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN


def _on_signal(stop: Stop, number: signal.Signals, note: str = "") -> None:
    if stop.is_set():
        _log.warning("ending_at_once", signal=number.name)
        flush()
        os._exit(1)
    stop.reason = number.name
    _log.info("requested_to_terminate", signal=number.name, **({"note": note} if note else {}))
    stop.set()
