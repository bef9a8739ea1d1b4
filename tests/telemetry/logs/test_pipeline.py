"""The log pipeline: levels, formats, colours, tracebacks, what libraries log."""

import io
import json
import logging
import re

import pytest

from kscheduler.telemetry.logs import get_logger, verbose
from kscheduler.telemetry.logs.pipeline import configure
from kscheduler.telemetry.logs.verbosity import WARNINGS


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
        pytest.param(WARNINGS, ["w"], id="warnings only"),
        pytest.param(0, ["i", "w"], id="the service"),
        pytest.param(2, ["i", "w"], id="pods"),
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


def test_a_traceback_is_in_one_line_of_json_and_cannot_forge_one_of_text() -> None:
    for is_json in (True, False):
        stream = io.StringIO()
        configure(stream=stream, json=is_json)
        try:
            int('gone\n2026-11-22T11:01:05.123456Z I pod_bound pod="forged"')
        except ValueError:
            get_logger("t").exception("failed")
        first, *rest = stream.getvalue().splitlines()
        assert "failed" in first
        assert all(line.startswith("    | ") for line in rest)
        assert bool(rest) is not is_json


def test_a_broken_message_of_a_library_is_written_as_it_is() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    logging.getLogger("lib").warning("%d pods", "many")
    (line,) = lines_of(stream)
    assert line["msg"] == "%d pods"


def test_libraries_that_report_credentials_say_no_more_than_warnings() -> None:
    stream = io.StringIO()
    configure(stream=stream, verbosity=10)
    logging.getLogger("kubernetes_asyncio.client.rest").debug("response body: secret")
    assert stream.getvalue() == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "is_coloured"),
    [
        pytest.param(Terminal(), {}, True, id="terminal"),
        pytest.param(io.StringIO(), {}, False, id="file"),
        pytest.param(Terminal(), {"NO_COLOR": "1"}, False, id="NO_COLOR"),
        pytest.param(Terminal(), {"NO_COLOR": ""}, True, id="NO_COLOR, empty"),
        pytest.param(Terminal(), {"TERM": "dumb"}, False, id="dumb terminal"),
        pytest.param(io.StringIO(), {"FORCE_COLOR": "1"}, True, id="FORCE_COLOR"),
        pytest.param(io.StringIO(), {"FORCE_COLOR": "0"}, False, id="FORCE_COLOR=0"),
        pytest.param(io.StringIO(), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, id="both"),
    ],
)
def test_text_is_coloured_on_a_terminal_only(
    stream: io.StringIO, environment: dict[str, str], is_coloured: bool
) -> None:
    configure(stream=stream, json=False, environment=environment)
    get_logger("t").info("bound", pod="ns/a")
    text = stream.getvalue()
    assert ("\x1b" in text) is is_coloured
    assert 'pod="ns/a"' in text


def test_json_is_never_coloured() -> None:
    stream = Terminal()
    configure(stream=stream, json=True, environment={"FORCE_COLOR": "1"})
    get_logger("t").error("failed")
    assert "\x1b" not in stream.getvalue()


def test_a_person_gets_text_with_the_time_in_utc() -> None:
    stream = io.StringIO()
    configure(stream=stream, json=False)
    get_logger("t").warning("node is late", pod="ns/a", nodes=["a", "b"], seconds=1.5)
    when, rest = stream.getvalue().rstrip("\n").split(" ", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", when)
    assert rest == 'W "node is late" pod="ns/a" nodes=["a","b"] seconds=1.5 logger="t"'


def test_a_stream_that_cannot_be_written_ends_nothing() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    stream.close()
    get_logger("t").warning("nobody hears")
    logging.getLogger("lib").warning("nobody hears")


def test_a_field_that_cannot_be_written_does_not_end_what_wanted_to_report_it() -> None:
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("no text")

        def __repr__(self) -> str:
            return "Odd"

    stream = io.StringIO()
    configure(stream=stream)
    get_logger("t").info("told", what=Odd(), big=10**40)
    (line,) = lines_of(stream)
    assert line["msg"] == "told"
    assert "no text" in str(line["err"])
