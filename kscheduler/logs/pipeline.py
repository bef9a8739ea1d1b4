"""The pipeline that every log event goes through, ours and the standard library's.

    logger.info("pod_bound", pod=...)  --structlog-->  which level? -> storms -> clean -> render -> one write
    logging.getLogger("aiohttp")       --handler------------------------^

An event costs about 10 us; an event below the verbosity, next to nothing. When the stream cannot be written any more
(a full disk, a closed pipe), lines are lost and the service goes on.
"""

import logging
import os
import sys
import time
import traceback
from collections.abc import Mapping
from functools import partial
from threading import Lock
from typing import Any, Protocol, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor

from kscheduler.logs.clean import clean_event, without_credentials
from kscheduler.logs.rendering import Render, json_line, text_line
from kscheduler.logs.storms import storms
from kscheduler.logs.verbosity import DEBUG, LIBRARIES, SERVICE, set_verbosity, verbose

_WARNING = "warning"
_LOUD = frozenset({_WARNING, "error", "critical", "exception"})
_QUIET_LIBRARIES = {"asyncio": logging.DEBUG, "aiohttp.access": logging.DEBUG, "kubernetes_asyncio": logging.WARNING}
"""Their levels above -v 4, else warnings only; kubernetes_asyncio logs whole answers, credentials included."""


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
    """A logger whose events carry `logger: name`. It may be taken before `configure` and follows it."""
    return cast("Logger", structlog.get_logger(name))


def configure(
    *,
    verbosity: int = SERVICE,
    json: bool | None = None,
    stream: TextIO | None = None,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Set up logging for the process; may be called again.

    `verbosity` as klog's -v; `json` None means JSON unless `stream` (standard error by default) is a terminal. Text is
    coloured on a terminal only, and not where `environment` has NO_COLOR; FORCE_COLOR colours it anywhere.
    """
    set_verbosity(verbosity)
    storms.reset()
    target = stream or sys.stderr
    is_terminal = _is_terminal(target)
    as_json = not is_terminal if json is None else json
    is_coloured = _is_coloured(environment, is_terminal=is_terminal)
    render: Render = json_line if as_json else partial(text_line, is_coloured=is_coloured)
    lines = _Lines(target)
    structlog.configure(
        processors=_processors(render),
        wrapper_class=structlog.make_filtering_bound_logger(_least_level()),
        logger_factory=lambda name="": _NamedLogger(name, lines),
        cache_logger_on_first_use=False,
    )
    _route_standard_library(_StandardLibrary(render, lines))


def _least_level() -> int:
    if verbose(DEBUG):
        return logging.DEBUG
    return logging.INFO if verbose(SERVICE) else logging.WARNING


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # it is closed
        return False


def _is_coloured(environment: Mapping[str, str], *, is_terminal: bool) -> bool:
    """As no-color.org and force-color.org say: a variable counts if it is set and not empty; NO_COLOR wins."""
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return False
    return is_terminal or environment.get("FORCE_COLOR", "") not in ("", "0")


# --- events of our own ------------------------------------------------------------------------------------------------


class _Lines:
    """Where lines go; each line is a single write, from any thread."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = Lock()

    def write(self, line: str) -> None:
        """Write a line; lost if the stream is full or closed."""
        with self._lock:
            try:
                self._stream.write(f"{line}\n")
                self._stream.flush()
            except (OSError, ValueError):  # full or closed: there is no place left to report it
                return


class _NamedLogger:
    """What structlog hands the rendered line to."""

    def __init__(self, name: str, lines: _Lines) -> None:
        self.name = name
        self.debug = self.info = self.warning = self.error = self.critical = self.exception = lines.write


def _processors(render: Render) -> list[Processor]:
    def processed(logger: Any, level: str, event: EventDict) -> str:
        message, verbosity = event.pop("event"), event.pop("v", None)
        if verbosity is None:
            first: dict[str, Any] = {"ts": _now(), "level": level, "msg": message, "logger": logger.name}
        else:
            first = {"ts": _now(), "level": level, "v": verbosity, "msg": message, "logger": logger.name}
        return _rendered({**first, **event}, render)

    return [processed]


def _rendered(line: dict[str, Any], render: Render) -> str:
    """The line as it is written. Raises `DropEvent` if there are too many lines of its kind."""
    if line["level"] in _LOUD:
        if not storms.admits(line["logger"], line):
            raise structlog.DropEvent
        without_credentials(_with_traceback(line))
    elif "v" not in line:
        without_credentials(line)
    try:
        return render(clean_event(line))
    except BaseException as failure:  # noqa: BLE001  a field that cannot be written must not end the work that logged it
        first = {key: line.get(key) for key in ("ts", "level", "msg", "logger")}
        return render(clean_event({**first, "err": f"fields cannot be written: {failure!r}", "fields": repr(line)}))


def _with_traceback(line: dict[str, Any]) -> dict[str, Any]:
    """`exc_info` (an exception, or true for the one being handled) as a field of text."""
    given = line.pop("exc_info", None)
    if given is True:
        given = sys.exc_info()[1]
    elif isinstance(given, tuple):
        given = given[1]
    if isinstance(given, BaseException):
        line["exception"] = "".join(traceback.format_exception(given)).rstrip("\n")
    return line


class _Stamp:
    """The time as text, in UTC; all but the microseconds is formatted once a second."""

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def __call__(self) -> str:
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second, self._text = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._text}.{int((now - second) * 1e6):06d}Z"


_now = _Stamp()


# --- the standard library's -------------------------------------------------------------------------------------------


class _StandardLibrary(logging.Handler):
    """Sends what libraries log through the same pipeline."""

    def __init__(self, render: Render, lines: _Lines) -> None:
        super().__init__()
        self._render = render
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record; if its arguments do not fit its format, the format is written as it stands."""
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            message = str(record.msg)
        line = {"ts": _now(), "level": record.levelname.lower(), "msg": message, "logger": record.name}
        if record.exc_info:
            line["exc_info"] = record.exc_info  # type: ignore[assignment]
        try:
            self._lines.write(_rendered(line, self._render))
        except structlog.DropEvent:
            return


def _is_no_cut_handshake(record: logging.LogRecord) -> bool:
    """Whether the record is worth a line: uvloop reports a TLS handshake cut by our own stop as a fatal error."""
    return not str(record.msg).startswith("Fatal error on SSL protocol")


def _route_standard_library(handler: logging.Handler) -> None:
    root = logging.getLogger()
    root.handlers[:] = [handler]
    chatty = logging.INFO if verbose(LIBRARIES) else logging.WARNING
    root.setLevel(logging.DEBUG if verbose(DEBUG) else chatty)
    logging.getLogger("asyncio").addFilter(_is_no_cut_handshake)
    for name, level in _QUIET_LIBRARIES.items():
        logging.getLogger(name).setLevel(level if verbose(DEBUG + 1) else logging.WARNING)
