"""docs/explain.md is true: its example runs, and its lists are complete."""

import json
import re
from pathlib import Path

import pytest

from kscheduler.cli import build_parser
from kscheduler.explain.outcome import Outcome
from kscheduler.explain.schema import schema_text
from kscheduler.explain.suggestions.all_kinds import KINDS
from kscheduler.scenario.new_pods import WORKLOADS
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.simulate.simulation_result import schema_text as simulation_schema
from tests.explain.test_command import run

PAGE = (Path(__file__).parents[2] / "docs" / "explain.md").read_text(encoding="utf-8")


def test_the_example_runs_as_it_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = re.search(r"<!-- example -->\n```json\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    for name, text in (
        ("example.json", example[1]),
        ("printed-under-any-name", example[1]),
        ("line.jsonl", json.dumps(json.loads(example[1]))),
    ):
        path = tmp_path / name
        path.write_text(text)
        assert run("--from", str(path), "-o", "json") == 0
        tree = json.loads(capsys.readouterr().out)
        assert (tree["id"], tree["outcome"], tree["node"]) == ("first", "Placed", "a")
        assert tree["rejections"][0]["details"][0]["facts"]["closest"][0]["short"] == 500


@pytest.mark.parametrize(
    "names",
    [
        ClusterObjects.__struct_encode_fields__,
        [one.value for one in Outcome],
        list(WORKLOADS),
        [key for key in json.loads(schema_text())["properties"] if key not in ("apiVersion", "kind", "id")],
        [kind.kind for kind in KINDS],
    ],
    ids=["lists of objects", "outcomes", "kinds that make pods", "keys", "kinds of suggestions"],
)
def test_nothing_is_left_out(names: list[str]) -> None:
    assert [name for name in names if not re.search(rf"\b{name}\b", PAGE)] == []


def test_the_schema_knows_all_kinds_of_suggestions() -> None:
    step = json.loads(schema_text())["$defs"]["StepAnswer"]
    assert step["properties"]["kind"]["enum"] == [kind.kind for kind in KINDS]


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--schema") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["$defs"]["Outcome"]["enum"] == [one.value for one in Outcome]


def test_the_page_of_simulate_names_every_flag_and_key() -> None:
    page = (Path(__file__).parents[2] / "docs" / "simulate.md").read_text(encoding="utf-8")
    parser = build_parser(("simulate",))
    (verbs,) = [action.choices for action in parser._actions if isinstance(action.choices, dict)]
    flags = [flag for action in verbs["simulate"]._actions for flag in action.option_strings[-1:]]
    shared = {
        "--help",
        "--scheduler-name",
        "--plugin",
        "--plugin-directory",
        "--debug-plugins",
        "--enable-plugins",
        "--feature-gates",
        "--emulated-version",
    }
    shared |= {"--kubeconfig", "--context", "--master", "--output", "--namespace", "--filename"}
    assert [flag for flag in flags if flag not in shared and f"`{flag}" not in page and f" {flag}" not in page] == []
    keys = json.loads(simulation_schema())["properties"]
    assert [key for key in keys if key not in ("apiVersion", "kind") and f"`{key}`" not in page] == []
