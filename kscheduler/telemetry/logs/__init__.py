"""Structured logs: one event per line, the same fields everywhere, for people at a terminal and machines elsewhere.

The problem: libraries log text through `logging`, we log events with fields, and a newline in a pod's name must not
forge a line. The idea: one structlog pipeline for both: `verbosity` decides what is logged, `clean` makes every field
safe, `storms` keeps a warning repeated a thousand times a second from filling the disk (`throttle` keeps one writer's
line to one a minute), `rendering` makes JSON (`ts level v msg logger pod node ...`) or text, `streams` writes.
Verbosity is klog's, from 0 (the service, warnings, errors) to 10, also by module (`modules`).
Which line about a pod comes at which level is decided in `scheduling.pod_log` and documented in docs/logs.md.
"""

from typing import Protocol, cast

from kscheduler.telemetry.logs.verbosity import verbose

__all__ = ["Logger", "get_logger", "verbose"]


class Logger(Protocol):
    """What `get_logger` returns. Field names are klog's: pod ("ns/name"), uid, node, plugin, event, err."""

    def debug(self, event: str, **fields: object) -> None:
        """Verbosity 4 and above."""

    def info(self, event: str, **fields: object) -> None:
        """Always; a line of verbosity 2 has the field `v=2`, and its caller has checked `verbose(2)`."""

    def warning(self, event: str, **fields: object) -> None:
        """Always: something is wrong, and work goes on."""

    def error(self, event: str, **fields: object) -> None:
        """Always: something failed."""

    def exception(self, event: str, **fields: object) -> None:
        """An error with the traceback of the exception being handled: a bug."""

    def bind(self, **fields: object) -> "Logger":
        """The same logger with fields on every event."""
        ...


def get_logger(name: str) -> Logger:
    """A logger whose events carry `logger: name`. It may be taken before `pipeline.configure` and follows it."""
    import structlog  # here, because it takes longer than the start of a command that logs nothing

    return cast("Logger", structlog.get_logger(name))
