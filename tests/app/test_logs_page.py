"""docs/logs.md tells what the code does: every line about pods, its level and fields; every warning about pods."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import kscheduler
from kscheduler.scheduling.pod_log.lines import LINES

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
    told = {
        words(row[0])[0]: (int(row[1]), words(row[3])) for row in rows(section("Lines about pods")) if len(row) == 4
    }
    assert told == {name: (line.level, line.fields) for name, line in LINES.items()}


def test_each_field_is_explained() -> None:
    explained = {name for row in rows(section("Lines about pods")) if len(row) == 2 for name in words(row[0])}
    assert explained == {field for line in LINES.values() for field in line.fields}


def logged_about_pods() -> Iterator[tuple[str, str]]:
    """Level and message of every line that is written elsewhere with a field `pod`."""
    for path in PACKAGE.rglob("*.py"):
        if "simulation" in path.parts:  # hollow kubelets tell of pods, too; they are no scheduler
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS):
                continue
            if any(keyword.arg == "pod" for keyword in node.keywords) and isinstance(node.args[0], ast.Constant):
                yield node.func.attr.replace("exception", "error"), str(node.args[0].value)


def test_each_warning_and_error_about_a_pod_is_documented() -> None:
    """For one that is missing add a row to "Warnings and errors about pods" (or to `LINES`, if it is a story's)."""
    documented = {(row[1], words(row[0])[0]) for row in rows(section("Warnings and errors about pods"))}
    assert set(logged_about_pods()) == documented


def test_the_examples_are_made_of_lines_and_fields_that_exist() -> None:
    examples = [line for line in section("A pod's story").splitlines() if re.match(r"\d{4}-\d\d-\d\dT", line)]
    assert len(examples) > 10
    for line in examples:
        _, _, name, *_ = line.split()
        outside_quotes = re.sub(r'"[^"]*"', '""', line)
        fields = set(re.findall(r" (\w+)=", outside_quotes)) - {"pod"}
        assert fields <= set(LINES[name].fields), line
