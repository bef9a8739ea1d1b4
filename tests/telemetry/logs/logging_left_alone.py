"""What `configure` changes, put back."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from kscheduler.telemetry.logs.verbosity import SERVICE, set_verbosity


@contextmanager
def logging_left_alone() -> Iterator[None]:
    """Afterwards logging is as it was before, whatever happened to it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.reset_defaults()
        set_verbosity(SERVICE)
