"""docs/logs.md tells what the code does: every line about pods, its level and fields; every warning about pods."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import structlog

import kscheduler
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.plugin_reports import QUIET_SECONDS, PluginReports, SlowCall
from kscheduler.scheduling.pod_log.lines import LINES
from kscheduler.service.metrics.loop_lag import HELD_SECONDS, LoopLag
from tests.telemetry.metrics.test_loop_lag import LateClock, beating

PACKAGE = Path(kscheduler.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "logs.md").read_text(encoding="utf-8")
LEVELS = {"warning", "error", "exception", "info"}


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def words(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`(\w+)`", cell))


def test_each_line_about_a_pod_is_documented_with_its_level_and_fields() -> None:
    logged = {
        words(row[0])[0]: (int(row[1]), words(row[3])) for row in rows(section("Lines about pods")) if len(row) == 4
    }
    assert logged == {name: (line.level, line.fields) for name, line in LINES.items()}


def test_each_field_is_explained() -> None:
    explained = {name for row in rows(section("Lines about pods")) if len(row) == 2 for name in words(row[0])}
    assert explained == {field for line in LINES.values() for field in line.fields}


@cache
def calls_that_log(path: Path) -> list[ast.Call]:
    """Calls of a method that is called like a level."""
    text = path.read_text(encoding="utf-8")
    if not any(f".{level}(" in text for level in LEVELS):
        return []  # as in most files: parsing all takes seconds
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in LEVELS]


def level_of(call: ast.Call) -> str:
    assert isinstance(call.func, ast.Attribute)
    return call.func.attr.replace("exception", "error")


def logged_about_pods() -> Iterator[tuple[str, str]]:
    """Level and message of every line that is written elsewhere with a field `pod`."""
    for path in PACKAGE.rglob("*.py"):
        if "embedded" in path.parts:  # hollow kubelets tell of pods, too; they are no scheduler
            continue
        for node in calls_that_log(path):
            if any(keyword.arg == "pod" for keyword in node.keywords) and isinstance(node.args[0], ast.Constant):
                yield level_of(node), str(node.args[0].value)


def test_each_warning_and_error_about_a_pod_is_documented() -> None:
    """For one that is missing add a row to "Warnings and errors about pods" (or to `LINES`, if it is a story's)."""
    documented = {(row[1], words(row[0])[0]) for row in rows(section("Warnings and errors about pods"))}
    assert set(logged_about_pods()) == documented


def logged_lines() -> Iterator[tuple[str, str]]:
    """File and message of every line of the service but those for debugging."""
    for path in PACKAGE.rglob("*.py"):
        if "embedded" in path.parts or "cli" in path.parts:  # the embedded cluster and commands are no service
            continue
        for node in calls_that_log(path):
            if node.args and isinstance(node.args[0], ast.Constant):
                yield path.name, str(node.args[0].value)


def test_each_line_is_documented() -> None:
    """For one that is missing add a row that says what it means and what the fields are."""
    documented = {name for line in PAGE.splitlines() if line.startswith("| `") for name in words(line.split(" | ")[0])}
    messages = set(logged_lines())
    assert len(messages) > 60
    assert [each for each in sorted(messages) if each[1] not in documented] == []


async def test_a_held_loop_is_documented_with_its_fields() -> None:
    """The fields are taken from lines that were written, one of them after others were only counted."""
    clock = LateClock()
    lag = LoopLag(clock=clock, slowest_call=lambda _seconds: SlowCall("Mine", "Filter", "default/web", 3.0, 0.0))
    clock.lateness = 2.0
    with structlog.testing.capture_logs() as lines:
        async with beating(lag):
            for _ in range(40):
                await clock.run_to_next()
    written = {field for line in lines for field in line} - {"event", "log_level"}
    (row,) = (row for row in rows(section("Lines about the service")) if "event_loop_held" in words(row[0]))
    assert set(words(row[1])) == written
    assert f"more than {HELD_SECONDS:g} s" in row[1]


def test_a_failing_plugin_is_documented_with_its_fields() -> None:
    (row,) = (row for row in rows(section("Warnings and errors about pods")) if "plugin_failed" in words(row[0]))
    now = 0.0
    reports = PluginReports(Observations(), lambda: now, lambda *_: None, lambda *_: None)
    failure = ValueError("no")
    with structlog.testing.capture_logs() as lines:
        for moment in (0.0, QUIET_SECONDS / 2, QUIET_SECONDS):
            now = moment
            reports.failed("Mine", "PostBind", None, failure, "the pod is bound all the same")
    written = {field for line in lines for field in line}
    assert written - {"event", "log_level", "pod", "exc_info"} == set(words(row[2]))


def test_the_examples_are_made_of_lines_and_fields_that_exist() -> None:
    examples = [line for line in section("A pod's story").splitlines() if re.match(r"\d{4}-\d\d-\d\dT", line)]
    assert len(examples) > 10
    for line in examples:
        _, _, name, *_ = line.split()
        outside_quotes = re.sub(r'"[^"]*"', '""', line)
        fields = set(re.findall(r" (\w+)=", outside_quotes)) - {"pod"}
        assert fields <= set(LINES[name].fields), line
