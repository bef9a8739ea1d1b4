"""The port of engines."""

import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Final, Protocol

from kscheduler.sweep.row import SweepRow
from kscheduler.sweep.run_spec import RunSpec

# How often a run is made whose worker dies: it may be the run that kills it.
ATTEMPTS: Final = 3

# Takes a line for the user: a worker has died, a cluster is waited for.
Tell = Callable[[str], None]


class SweepEngine(Protocol):
    """Makes runs."""

    def rows(self, specs: Sequence[RunSpec], tell: Tell) -> Generator[SweepRow, None, None]:
        """A row for each spec, as they come. Closing the iterator ends what is under way.

        Raises `EngineError` where no run can be made at all.
        """
        ...


class EngineError(Exception):
    """The engine cannot be used. The text says why, and what to do."""


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """New processes and threads inherit the mask; an interrupt that comes meanwhile is delivered here afterwards."""
    resource_tracker.ensure_running()  # its start, with that of the first process, would end the blocking
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def quiet() -> None:
    """For a worker's process: what plugins print and log is no row."""
    import logging
    import sys

    import structlog

    sys.stdout = sys.stderr
    logging.disable(logging.CRITICAL)
    structlog.configure(processors=[_drop])


def _drop(_logger: object, _method: str, _event: object) -> str:
    import structlog

    raise structlog.DropEvent
