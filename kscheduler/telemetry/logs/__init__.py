"""Structured logs: one event per line, the same fields everywhere, for people at a terminal and machines elsewhere.

The problem: libraries log text through `logging`, we log events with fields, and a newline in a pod's name must not
forge a line. The idea: one structlog pipeline for both: `verbosity` decides what is logged, `clean` makes every field
safe, `storms` keeps a warning repeated a thousand times a second from filling the disk (`throttle` keeps one writer's
line to one a minute), `rendering` makes JSON (`ts level v msg logger pod node ...`) or text, `streams` writes.
Verbosity is klog's, from 0 (the service, warnings, errors) to 10, also by module (`modules`).
Which line about a pod comes at which level is decided in `scheduling.pod_log` and documented in docs/logs.md.

The pipeline is loaded when one of its names is first asked for: it brings structlog, which takes longer than the start
of a command that a service answers, and that logs nothing.
"""

from typing import TYPE_CHECKING, Any, Final

from kscheduler.telemetry.logs.clean import one_line, redacted
from kscheduler.telemetry.logs.verbosity import WARNINGS, verbose

if TYPE_CHECKING:
    from kscheduler.telemetry.logs.modules import ModuleLevel, parse_modules
    from kscheduler.telemetry.logs.pipeline import Logger, configure, flush, get_logger, is_on_terminal, mute
    from kscheduler.telemetry.logs.storms import report_suppressed
    from kscheduler.telemetry.logs.streams import DEFAULT_FLUSH_SECONDS, SplitStream, lost_lines

__all__ = [
    "DEFAULT_FLUSH_SECONDS",
    "WARNINGS",
    "Logger",
    "ModuleLevel",
    "SplitStream",
    "configure",
    "flush",
    "get_logger",
    "is_on_terminal",
    "lost_lines",
    "mute",
    "one_line",
    "parse_modules",
    "redacted",
    "report_suppressed",
    "verbose",
]

# By name the module that has it.
_HOMES: Final = {
    **dict.fromkeys(("ModuleLevel", "parse_modules"), "modules"),
    **dict.fromkeys(("Logger", "configure", "flush", "get_logger", "is_on_terminal", "mute"), "pipeline"),
    "report_suppressed": "storms",
    **dict.fromkeys(("DEFAULT_FLUSH_SECONDS", "SplitStream", "lost_lines"), "streams"),
}


def __getattr__(name: str) -> Any:
    """The name from its module. Raises `AttributeError`."""
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found
