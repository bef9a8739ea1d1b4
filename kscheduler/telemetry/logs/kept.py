"""Log lines that are kept instead of written: for a caller who gets an answer, and has not configured any logs.

The problem: structlog writes to standard output until somebody configures it. In a notebook the traceback of a plugin
would stand above the answer. The idea: while a question is answered, warnings and errors go into a list, from which the
answer says what concerns it. Who has configured structlog gets the lines there.
"""

import logging
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final

# Lines that are kept of a question; those that come later are dropped.
MAX_KEPT: Final = 1000

Line = MutableMapping[str, Any]


@contextmanager
def warnings_kept() -> Iterator[list[Line]]:
    """Warnings and errors of kscheduler's own loggers, as fields; `event` is the line's name. The rest is dropped."""
    import structlog

    kept: list[Line] = []
    if structlog.is_configured():
        yield kept
        return

    def keep(_logger: Any, _method: str, fields: Line) -> Any:
        if len(kept) < MAX_KEPT:
            kept.append(fields)
        raise structlog.DropEvent

    structlog.configure(processors=[keep], wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    try:
        yield kept
    finally:
        structlog.reset_defaults()
