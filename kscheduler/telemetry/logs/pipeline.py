"""The pipeline that every log event goes through, ours and the standard library's.

    logger.info("pod_bound", pod=...)  --structlog-->  which level? -> storms -> clean -> render -> one write
    logging.getLogger("aiohttp")       --handler------------------------^

An event costs about 10 us; an event below the verbosity, next to nothing.
"""

import logging
import os
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, TextIO

import structlog
from structlog.typing import EventDict, Processor

from kscheduler.telemetry.logs.clean import clean_event, without_credentials
from kscheduler.telemetry.logs.modules import ModuleLevel, ModuleLevels
from kscheduler.telemetry.logs.rendering import Render, json_line, text_line
from kscheduler.telemetry.logs.storms import storms
from kscheduler.telemetry.logs.streams import Outlets, SplitStream, outlets_over
from kscheduler.telemetry.logs.verbosity import DEBUG, LIBRARIES, SERVICE, set_verbosity

_WARNING = "warning"
_LOUD = frozenset({_WARNING, "error", "critical", "exception"})
# Their levels above -v 4, else warnings only; kubernetes_asyncio logs whole answers, credentials included.
_QUIET_LIBRARIES = {"asyncio": logging.DEBUG, "aiohttp.access": logging.DEBUG, "kubernetes_asyncio": logging.WARNING}
# The logger of all lines about pods.
PODS: Final = "kscheduler.pods"
# The streams of the last `configure`: what is left in a buffer is written before another takes over.
_open: list[Outlets] = []


def configure(
    *,
    verbosity: int = SERVICE,
    json: bool | None = None,
    stream: TextIO | None = None,
    information: TextIO | None = None,
    environment: Mapping[str, str] = os.environ,
    modules: Sequence[ModuleLevel] = (),
    split: SplitStream | None = None,
) -> None:
    """Set up logging for the process; may be called again.

    `verbosity` as klog's -v, and `modules` as its --vmodule. `split`: whether `information` (standard output by
    default) gets the lines that are neither warnings nor errors. `json` None means JSON unless `stream` (standard error
    by default) is a terminal. Text is coloured on terminals only, and not where `environment` has NO_COLOR; FORCE_COLOR
    colours it anywhere.
    """
    levels = ModuleLevels(verbosity, modules)
    set_verbosity(levels.of(PODS))
    storms.reset()
    flush()
    _open.clear()
    target = stream or sys.stderr
    is_terminal = _is_terminal(target)
    as_json = not is_terminal if json is None else json
    all_terminals = is_terminal and (split is None or _is_terminal(information or sys.stdout))
    is_coloured = _is_coloured(environment, is_terminal=all_terminals)
    render: Render = json_line if as_json else partial(text_line, is_coloured=is_coloured)
    outlets = outlets_over(target, information or sys.stdout, split, partial(_lost_line, render))
    _open.append(outlets)
    structlog.configure(
        processors=_processors(render, levels),
        wrapper_class=structlog.make_filtering_bound_logger(_least_level(levels.most)),
        logger_factory=lambda name="": _NamedLogger(name, outlets),
        cache_logger_on_first_use=False,
    )
    _route_standard_library(_StandardLibrary(render, outlets, levels), levels)


def is_on_terminal() -> bool:
    """Whether standard error is a terminal: then lines are text by default."""
    return _is_terminal(sys.stderr)


def flush() -> None:
    """Write what is left in buffers: before the process ends in a way that Python does not notice."""
    for outlets in _open:
        outlets.close()


def mute() -> None:
    """Lose all further lines: for a copy of the process, which must neither write nor wait for a lock."""
    for outlets in _open:
        outlets.mute()


def _least_level(verbosity: int) -> int:
    if verbosity >= DEBUG:
        return logging.DEBUG
    return logging.INFO if verbosity >= SERVICE else logging.WARNING


def _library_level(verbosity: int) -> int:
    """The level of what libraries log: they have no levels of klog's."""
    if verbosity >= DEBUG:
        return logging.DEBUG
    return logging.INFO if verbosity >= LIBRARIES else logging.WARNING


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


class _NamedLogger:
    """What structlog hands the rendered line to."""

    def __init__(self, name: str, outlets: Outlets) -> None:
        self.name = name
        self.debug = self.info = outlets.information.write
        self.warning = self.error = self.critical = self.exception = outlets.trouble.write


def _processors(render: Render, levels: ModuleLevels) -> list[Processor]:
    def processed(logger: Any, level: str, event: EventDict) -> str:
        if level == "debug" and levels.of(logger.name) < DEBUG:  # another module's debugging lines are wanted
            raise structlog.DropEvent
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


def _lost_line(render: Render, lines: int) -> str:
    """What is written before the first line that a full disk takes again."""
    return render(
        {
            "ts": _now(),
            "level": _WARNING,
            "msg": "log_lines_lost",
            "logger": "kscheduler.telemetry.logs",
            "lines": lines,
        }
    )


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

    def __init__(self, render: Render, outlets: Outlets, levels: ModuleLevels) -> None:
        super().__init__()
        self._render = render
        self._outlets = outlets
        self._levels = levels

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record; if its arguments do not fit its format, the format is written as it stands."""
        if record.levelno < _library_level(self._levels.of(record.name)):
            return  # another module is to say so much
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            message = str(record.msg)
        line = {"ts": _now(), "level": record.levelname.lower(), "msg": message, "logger": record.name}
        if record.exc_info:
            line["exc_info"] = record.exc_info  # type: ignore[assignment]
        try:
            is_trouble = record.levelno >= logging.WARNING
            outlet = self._outlets.trouble if is_trouble else self._outlets.information
            outlet.write(_rendered(line, self._render))
        except structlog.DropEvent:
            return


def _is_no_cut_handshake(record: logging.LogRecord) -> bool:
    """Whether the record is worth a line: uvloop reports a TLS handshake cut by our own stop as a fatal error."""
    return not str(record.msg).startswith("Fatal error on SSL protocol")


def _route_standard_library(handler: logging.Handler, levels: ModuleLevels) -> None:
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_library_level(levels.most))
    logging.getLogger("asyncio").addFilter(_is_no_cut_handshake)
    for name, level in _QUIET_LIBRARIES.items():
        logging.getLogger(name).setLevel(level if levels.of(name) > DEBUG else logging.WARNING)
