"""Flags for logs: `-v`, `--log-format`, and kube-scheduler's names for them.

-v 2, -v2, -v=2, --v 2, --v=2     all the same; the default is 0, as in kube-scheduler
--log-format json|text            without it: text on a terminal, JSON elsewhere
--logging-format json|text        kube-scheduler's name for --log-format
--vmodule pattern=N,...           read and checked, without effect: its patterns name Go's source files
"""

import argparse
import re
from typing import Final

from kscheduler.cli.parser import COMMAND_LINE
from kscheduler.config.errors import config_error

FORMATS: Final = ("json", "text")
MOST: Final = 2**32 - 1
_PATTERN: Final = re.compile(r"[^=,]+=\d{1,10}")


def verbosity(text: str) -> int:
    """A whole number from 0, as in klog. Raises `ArgumentTypeError`."""
    if not (text.isascii() and text.isdecimal()) or int(text) > MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 (0: the service; 2: pods; 10: points)")
    return int(text)


def add_log_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    group = parser.add_argument_group("logs", "which line comes at which level: docs/logs.md")
    group.add_argument(
        "-v",
        "--v",
        type=verbosity,
        default=0,
        metavar="LEVEL",
        help="as klog: 0 the service, warnings, errors (default); 2 every pod's outcome; 4 what wakes pods; 10 points",
    )
    group.add_argument("--log-format", choices=FORMATS, help="default: text on a terminal, json elsewhere")
    group.add_argument("--logging-format", choices=FORMATS, help="the same by kube-scheduler's name")


def configure_logs(args: argparse.Namespace) -> None:
    """Set up logging. Raises `ConfigError` if flags contradict each other or are invalid."""
    from kscheduler import logs

    log_format, logging_format = args.log_format, args.logging_format
    chosen = log_format or logging_format
    logs.configure(verbosity=args.v, json=None if chosen is None else chosen == "json")
    if log_format and logging_format and log_format != logging_format:
        raise config_error(
            "", f"--log-format {log_format} and --logging-format {logging_format} mean the same: give one", COMMAND_LINE
        )
    for part in str(getattr(args, "vmodule", "")).split(","):
        if part and not _PATTERN.fullmatch(part):
            raise config_error("", f"--vmodule {part!r} is not pattern=LEVEL", COMMAND_LINE)
