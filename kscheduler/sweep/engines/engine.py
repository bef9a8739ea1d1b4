"""The port of engines."""

import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Final, Protocol

from kscheduler.sweep.row import SweepRow
from kscheduler.sweep.run_spec import RunSpec

# How often a run is tried whose worker dies: it may be the run that kills it.
ATTEMPTS: Final = 3

# Prints a line for the user: a worker died, the Job was created.
Report = Callable[[str], None]


class SweepEngine(Protocol):
    """Executes runs."""

    def rows(self, specs: Sequence[RunSpec], report: Report) -> Generator[SweepRow, None, None]:
        """A row for each spec, in the order in which runs finish. Closing the iterator cancels the rest.

        Raises `EngineError` if no run can be executed at all.
        """
        ...


class EngineError(Exception):
    """The engine cannot be used. The message says why, and what to do."""


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """New processes and threads inherit the mask; an interrupt meanwhile is delivered to this thread later."""
    resource_tracker.ensure_running()  # if the first process started it, that would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def silence_output() -> None:
    """In a worker's process: standard output carries rows, so plugins may neither print nor log to it."""
    import logging
    import sys

    import structlog

    sys.stdout = sys.stderr
    logging.disable(logging.CRITICAL)
    structlog.configure(processors=[_drop_event])


def _drop_event(_logger: object, _method: str, _event: object) -> str:
    import structlog

    raise structlog.DropEvent
