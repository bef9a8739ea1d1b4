"""Makes sure that standard input, output and error are open, and that only answers go to standard output.

A daemon may be started with them closed. Python then has `None` for them, and the next three files that are opened get
their numbers, so that output to standard error would go into the API server's connection.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


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
def logs_apart(*, are_shown: bool) -> Iterator[None]:
    """What is logged in the body goes to standard error from info on, or nowhere, unless logs are configured."""
    import logging

    import structlog

    if structlog.is_configured():
        yield
        return
    structlog.configure(
        processors=None if are_shown else [_drop],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )
    disabled = logging.root.manager.disable
    logging.disable(disabled if are_shown else logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(disabled)
        structlog.reset_defaults()


def _drop(_logger: Any, _method: str, _event: Any) -> Any:
    """A structlog processor."""
    import structlog

    raise structlog.DropEvent
