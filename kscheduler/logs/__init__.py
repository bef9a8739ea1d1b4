"""Structured logs: one event per line, the same fields everywhere, for people at a terminal and machines elsewhere.

The problem: libraries log text through `logging`, we log events with fields, and a newline in a pod's name must not
forge a line. The idea: one structlog pipeline for both, rendered as JSON (`ts level msg logger pod node ...`) or, at a
terminal, for people. Verbosity is klog's: `-v 2` is normal (info), `-v 4` adds debug, `-v 0` leaves warnings.
"""

from kscheduler.logs.pipeline import Logger, configure, get_logger, verbose

__all__ = ["Logger", "configure", "get_logger", "verbose"]
