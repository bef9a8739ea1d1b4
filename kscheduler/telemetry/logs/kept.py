"""Log lines that are kept: for a caller who gets an answer, and may not have configured any logs.

The problem: structlog writes to standard output until somebody configures it. In a notebook the traceback of a plugin
would stand above the answer. The idea: while a question is answered, warnings and errors go into a list, from which the
answer says what concerns it. Where nobody has configured structlog, they go nowhere else.
"""

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final

# Lines that are kept of a question; those that come later are not.
MAX_KEPT: Final = 1000
_METHODS: Final = ("warning", "error", "exception", "critical")

Line = MutableMapping[str, Any]


@contextmanager
def warnings_kept() -> Iterator[list[Line]]:
    """Warnings and errors of kscheduler's own loggers, as fields; `event` is the line's name."""
    import structlog

    kept: list[Line] = []
    before, was_configured = structlog.get_config(), structlog.is_configured()

    def keep(_logger: Any, method: str, fields: Line) -> Line:
        if method in _METHODS and len(kept) < MAX_KEPT:
            kept.append(dict(fields))
        if not was_configured:
            raise structlog.DropEvent
        return fields

    structlog.configure(**{**before, "processors": [keep, *before["processors"]]})
    try:
        yield kept
    finally:
        structlog.configure(**before)
        if not was_configured:
            structlog.reset_defaults()
