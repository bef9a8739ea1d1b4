"""Makes sure that standard input, output and error are open, and that only answers go to standard output.

A daemon may be started with them closed. Python then has `None` for them, and the next three files that are opened get
their numbers, so that output to standard error would go into the API server's connection.
"""

import os
import sys
from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, TextIO, cast


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
def plugins_apart(*, are_logs_shown: bool) -> Iterator[None]:
    """Only answers go to standard output: what plugins print in the body goes to standard error.

    So does what is logged, from info on, or it goes nowhere, unless logs are configured.
    """
    before = sys.stdout
    sys.stdout = cast("TextIO", _AnswersOnly(before, sys.stderr))
    try:
        with _logs_apart(are_shown=are_logs_shown):
            yield
    finally:
        sys.stdout = before


class _AnswersOnly:
    """Standard output for what kscheduler prints, standard error for everybody else: a plugin's `print`, say."""

    def __init__(self, answers: TextIO, others: TextIO) -> None:
        self._answers = answers
        self._others = others

    def write(self, text: str) -> int:
        """Write where the code that prints belongs."""
        return (self._answers if _is_own(sys._getframe(1)) else self._others).write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        (self._answers if _is_own(sys._getframe(1)) else self._others).writelines(lines)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._answers, name)


def _is_own(frame: FrameType | None) -> bool:
    """Whether kscheduler's own code prints, perhaps by a module of Python's such as `json`."""
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in sys.stdlib_module_names:
            return package == "kscheduler"
        frame = frame.f_back
    return False


@contextmanager
def _logs_apart(*, are_shown: bool) -> Iterator[None]:
    import logging

    import structlog

    if structlog.is_configured():
        yield
        return
    structlog.configure(
        processors=[_report_failure, *structlog.get_config()["processors"]] if are_shown else [_drop],
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


def _report_failure(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor: a plugin's failure is one line, which names the plugin's own; the rest goes on."""
    import structlog

    from kscheduler.config.errors import escaped

    if event.get("event") != "plugin_failed":
        return event
    about = f", pod {event['pod']}" if event.get("pod") else ""
    then = f"; {event['then']}" if event.get("then") else ""
    # Our names for what the plugin did.
    cause = str(event["err"]).removeprefix("WrongAnswerError: ").removeprefix("TimeBudgetError: ")
    line = f"plugin {event['plugin']} failed ({event['extension_point']}{about}): {cause}{then}"
    print(f"kscheduler: {escaped(line)}", file=sys.stderr)
    raise structlog.DropEvent


def _drop(_logger: Any, _method: str, _event: Any) -> Any:
    """A structlog processor."""
    import structlog

    raise structlog.DropEvent
