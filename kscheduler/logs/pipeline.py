"""The pipeline that every log event goes through, ours and the standard library's."""

import logging
import sys
from typing import Any, Protocol, TextIO, cast

import msgspec
import structlog
from structlog.typing import EventDict, Processor

NORMAL = 2
"""klog's usual verbosity: one line per decision that an operator wants to see."""
DEBUG = 4
"""klog's debugging verbosity: a line per attempt."""

_FIRST_FIELDS = ("ts", "level", "msg", "logger")


def _as_text(value: object) -> str:
    return f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else str(value)


_encode = msgspec.json.Encoder(enc_hook=_as_text).encode
_verbosity = NORMAL


class Logger(Protocol):
    """What `get_logger` returns. Field words: pod ("ns/name"), node, plugin, attempt, duration_ms, err."""

    def debug(self, event: str, **fields: object) -> None:
        """Verbosity 4 and above."""

    def info(self, event: str, **fields: object) -> None:
        """Verbosity 1 and above."""

    def warning(self, event: str, **fields: object) -> None:
        """Always: something is not as it should be, and work goes on."""

    def error(self, event: str, **fields: object) -> None:
        """Always: something failed."""

    def exception(self, event: str, **fields: object) -> None:
        """An error with the traceback of the exception being handled: a bug."""

    def bind(self, **fields: object) -> "Logger":
        """The same logger with fields on every event."""
        ...


def get_logger(name: str) -> Logger:
    """A logger whose events carry `logger: name`. It may be taken before `configure` and follows it."""
    return cast("Logger", structlog.stdlib.get_logger(name))


def verbose(level: int) -> bool:
    """Whether the verbosity is at least `level`; guards log calls in inner loops."""
    return _verbosity >= level


def configure(*, verbosity: int = NORMAL, json: bool | None = None, stream: TextIO | None = None) -> None:
    """Set up logging for the process; may be called again.

    `verbosity` as klog's -v; `json` None means JSON unless `stream` (standard error by default) is a terminal.
    """
    global _verbosity  # noqa: PLW0603  # a process has one verbosity
    _verbosity = verbosity
    target = stream or sys.stderr
    as_json = not target.isatty() if json is None else json
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared_processors(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    _route_standard_library(target, as_json=as_json)


def _route_standard_library(target: TextIO, *, as_json: bool) -> None:
    handler = logging.StreamHandler(target)
    renderer = _json_renderer() if as_json else _console_renderer()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_shared_processors(),
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_level_of(_verbosity))
    for chatty in ("asyncio", "aiohttp.access"):
        logging.getLogger(chatty).setLevel(logging.DEBUG if _verbosity > DEBUG else logging.WARNING)


def _json_renderer() -> list[Processor]:
    return [structlog.processors.format_exc_info, _json_line]


def _console_renderer() -> list[Processor]:
    return [structlog.dev.ConsoleRenderer(event_key="msg", timestamp_key="ts")]


def _level_of(verbosity: int) -> int:
    if verbosity >= DEBUG:
        return logging.DEBUG
    return logging.INFO if verbosity >= 1 else logging.WARNING


def _shared_processors() -> list[Processor]:
    return [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        structlog.processors.EventRenamer("msg"),
    ]


def _json_line(_logger: Any, _method: str, event: EventDict) -> str:
    """One line of JSON, the same fields first; newlines are escaped, so no field can forge a line."""
    first = {key: event.pop(key) for key in _FIRST_FIELDS if key in event}
    return _encode({**first, **event}).decode()
