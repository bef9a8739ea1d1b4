"""Makes sure that standard input, output and error are open, and that only answers go to standard output.

A daemon may be started with them closed. Python then has `None` for them, and the next three files that are opened get
their numbers, so that output to standard error would go into the API server's connection.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def open_missing() -> None:
    """Open the null device for each closed stream. Must be called before any file is opened."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is `descriptor`
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115  # for the life of the process
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


@contextmanager
def logs_to_standard_error() -> Iterator[None]:
    """What is logged in the body goes to standard error, from info on, unless logs are configured already."""
    import logging

    import structlog

    if structlog.is_configured():
        yield
        return
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )
    try:
        yield
    finally:
        structlog.reset_defaults()
