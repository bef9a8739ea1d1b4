"""What an answer says about custom plugins: whose file rejected nodes, and who may hold the pod."""

import json
from pathlib import Path

import pytest
import yaml

from kscheduler.assembly.plugin_files import run_file
from kscheduler.cli import main
from kscheduler.plugins import in_tree
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.supervision.supervisor import cause_of
from kscheduler.testing import make_node, make_pod
from kscheduler.testing.trial.tried_plugin import TriedPlugin
from tests.builders import node_tree, pod_tree
from tests.explain.schema import assert_valid

PLUGINS = """
from kscheduler.framework.per_node import plugin
from kscheduler.framework.plugin import PermitResult, Plugin, PreFilterResult
from kscheduler.framework.status import SUCCESS, unschedulable


@plugin("SameTeam", sign=lambda pod: pod.labels.get("team"))
def filter(pod, node):
    return "node(s) belonged to another team" if node.name == "b" else None


class Columns(Plugin):
    name = "Columns"

    def pre_filter(self, cycle, pod, nodes):
        return PreFilterResult(unschedulable("not today") if "never" in pod.labels else SUCCESS)

    def filter(self, cycle, pod, nodes, rows):
        return rows * 0 + 1

    def permit(self, cycle, pod, node_name):
        return PermitResult(SUCCESS)
"""


def explained(tmp_path: Path, capsys: pytest.CaptureFixture[str], plugins: str, **labels: str) -> str:
    """The answer about a pod on the nodes a and b."""
    (tmp_path / "mine.py").write_text(plugins)
    nodes = [{"apiVersion": "v1", "kind": "Node", **node_tree(name)} for name in "ab"]
    pod = {"apiVersion": "v1", "kind": "Pod", **pod_tree("web", labels=labels)}
    (tmp_path / "cluster.yaml").write_text("---\n".join(map(yaml.safe_dump, [*nodes, pod])))
    main(["explain", "default/web", "--from", str(tmp_path / "cluster.yaml"), "--plugin", str(tmp_path / "mine.py")])
    return " ".join(capsys.readouterr().out.split())  # long lines are wrapped


def line_of(words: str) -> int:
    return 1 + next(number for number, line in enumerate(PLUGINS.splitlines()) if words in line)


def test_who_turned_nodes_down_is_named_with_its_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = explained(tmp_path, capsys, PLUGINS)
    file = tmp_path / "mine.py"
    assert f"SameTeam rejected 1 node (your plugin: {file}:{line_of('def filter(pod, node')})" in text
    assert f"Columns rejected 1 node (your plugin: {file}:{line_of('def filter(self')})" in text
    assert "gives no reason for its code 1" in text
    main(["explain", "--from", str(tmp_path / "cluster.yaml"), "--plugin", str(file), "-o", "json"])
    tree = json.loads(capsys.readouterr().out)
    assert_valid(tree)
    assert {each["plugin"]: each["source"] for each in tree["rejections"]} == {
        "SameTeam": f"{file}:{line_of('def filter(pod, node')}",
        "Columns": f"{file}:{line_of('def filter(self')}",
    }
    text = explained(tmp_path, capsys, PLUGINS, never="true")
    assert f"your plugin: {file}:{line_of('def pre_filter')}" in text


def test_who_may_hold_the_pod_is_named_where_it_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(tmp_path, capsys, PLUGINS.replace("rows * 0 + 1", "rows * 0"))
    assert "before it is bound, Permit plugin Columns may hold it or reject it" in text
    assert "Permit plugin" not in explained(tmp_path, capsys, PLUGINS), "it fits nowhere"
    assert "your plugin" not in explained(tmp_path, capsys, PLUGINS[: PLUGINS.index("class")].replace('"b"', '"x"'))


FUNCTION = """
from kscheduler.framework.per_node import plugin


@plugin("Tens")
def filter(pod, node):
    return {}[node.name]
"""
CLASS = """
import json

from kscheduler.framework.plugin import Plugin


class Tens(Plugin):
    name = "Tens"

    def filter(self, cycle, pod, nodes, rows):
        return json.loads("no")
"""


@pytest.mark.parametrize(
    ("plugins", "error"),
    [
        pytest.param(
            FUNCTION,
            "it raised KeyError: 'a', while looking at node a; it failed for each node that it was tried on "
            "(mine.py:7)",
            id="function",
        ),
        pytest.param(CLASS, "Expecting value: line 1 column 1 (char 0) (mine.py:11)", id="class-that-calls-a-library"),
    ],
)
def test_an_error_of_a_plugins_file_is_reported_with_its_line(
    plugins: str, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f'default/web: error: running "Tens" filter plugin: {error}' in explained(tmp_path, capsys, plugins)


@pytest.mark.parametrize("plugins", [pytest.param(FUNCTION, id="function"), pytest.param(CLASS, id="class")])
def test_the_cause_of_a_quarantine_names_the_line(plugins: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(plugins)
    factory = run_file(str(file), file.read_bytes()).plugins["Tens"]
    registry = in_tree.registry()
    registry.register("Tens", factory)
    tried = TriedPlugin(registry, "Tens", None, [make_node("a")], [])
    with pytest.raises(PluginFailure) as failure:
        tried.answers(make_pod("web"))
    assert failure.value.__cause__ is not None
    assert cause_of(failure.value.__cause__).endswith(f" (mine.py:{plugins.count(chr(10))})")
