"""Structured logs: one event per line, the same fields everywhere, for people at a terminal and machines elsewhere.

The problem: libraries log text through `logging`, we log events with fields, and a newline in a pod's name must not
forge a line. The idea: one structlog pipeline for both: `verbosity` decides what is logged, `clean` makes every field
safe, `storms` keeps a warning repeated a thousand times a second from filling the disk (`throttle` keeps one writer's
line to one a minute), `rendering` makes JSON (`ts level v msg logger pod node ...`) or text, `streams` writes.
Verbosity is klog's, from 0 (the service, warnings, errors) to 10, also by module (`modules`).
Which line about a pod comes at which level is decided in `scheduling.pod_log` and documented in docs/logs.md.
"""

from kscheduler.logs.clean import one_line, redacted
from kscheduler.logs.modules import ModuleLevel, parse_modules
from kscheduler.logs.pipeline import Logger, configure, flush, get_logger, is_on_terminal, mute
from kscheduler.logs.storms import report_suppressed
from kscheduler.logs.streams import DEFAULT_FLUSH_SECONDS, SplitStream, lost_lines
from kscheduler.logs.verbosity import WARNINGS, verbose

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
