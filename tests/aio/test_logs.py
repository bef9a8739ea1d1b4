"""The log pipeline; it lies beside aio, below everything else."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from kscheduler.logs import configure, get_logger, verbose


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def lines_of(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_json_line_with_its_fields() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    get_logger("kscheduler.test").info("bound", pod="ns/a", node="n1", duration_ms=1.5)
    (line,) = lines_of(stream)
    assert list(line)[:4] == ["ts", "level", "msg", "logger"]
    assert {key: line[key] for key in ("level", "msg", "logger", "pod", "node", "duration_ms")} == {
        "level": "info",
        "msg": "bound",
        "logger": "kscheduler.test",
        "pod": "ns/a",
        "node": "n1",
        "duration_ms": 1.5,
    }


def test_no_field_can_forge_a_line() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    get_logger("t").warning("odd", pod='x"}\n{"level":"error"', err=ValueError("a\nb"))
    (line,) = lines_of(stream)
    assert line["pod"] == 'x"}\n{"level":"error"'
    assert line["err"] == "ValueError: a\nb"


@pytest.mark.parametrize(
    ("verbosity", "expected"),
    [
        pytest.param(0, ["w"], id="warnings only"),
        pytest.param(2, ["i", "w"], id="normal"),
        pytest.param(4, ["d", "i", "w"], id="debug"),
    ],
)
def test_verbosity_is_klogs(verbosity: int, expected: list[str]) -> None:
    stream = io.StringIO()
    configure(stream=stream, verbosity=verbosity)
    log = get_logger("t")
    log.debug("d")
    log.info("i")
    log.warning("w")
    assert [line["msg"] for line in lines_of(stream)] == expected
    assert verbose(4) == (verbosity >= 4)


def test_the_standard_librarys_logs_take_the_same_way() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    logging.getLogger("aiohttp.client").warning("connection %s", "lost")
    (line,) = lines_of(stream)
    assert (line["msg"], line["logger"], line["level"]) == ("connection lost", "aiohttp.client", "warning")


def test_an_exception_carries_its_traceback() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    try:
        int("gone")
    except ValueError:
        get_logger("t").exception("failed")
    (line,) = lines_of(stream)
    assert "ValueError" in str(line["exception"])


def test_a_person_gets_text() -> None:
    stream = io.StringIO()
    configure(stream=stream, json=False)
    get_logger("t").info("bound", pod="ns/a")
    assert "bound" in stream.getvalue()
    assert not stream.getvalue().startswith("{")
