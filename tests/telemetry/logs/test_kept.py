"""`warnings_kept`: lines of a question that is answered stand in nobody's output, unless logs are configured."""

from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import CapturingLoggerFactory

from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.kept import MAX_KEPT, warnings_kept
from tests.telemetry.logs.unconfigured import unconfigured


@pytest.fixture(autouse=True)
def logs_of_nobody() -> Iterator[None]:
    with unconfigured():
        yield


def test_warnings_are_kept_and_the_rest_is_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    log = get_logger("test")
    with warnings_kept() as lines:
        log.info("of_no_interest")
        log.warning("slow", plugin="A")
        log.error("plugin_failed", plugin="B")
    assert [(line["event"], line["plugin"]) for line in lines] == [("slow", "A"), ("plugin_failed", "B")]
    assert capsys.readouterr().out == ""
    assert not structlog.is_configured()


def test_a_flood_is_bounded() -> None:
    with warnings_kept() as lines:
        for number in range(MAX_KEPT + 5):
            get_logger("test").warning("again", number=number)
    assert len(lines) == MAX_KEPT


def test_who_has_configured_logs_gets_the_lines_too() -> None:
    factory = CapturingLoggerFactory()
    structlog.configure(logger_factory=factory, processors=[structlog.processors.KeyValueRenderer()])
    with warnings_kept() as lines:
        get_logger("test").warning("slow")
    get_logger("test").warning("later")
    assert [line["event"] for line in lines] == ["slow"]
    assert [call.args for call in factory.logger.calls] == [("event='slow'",), ("event='later'",)]
