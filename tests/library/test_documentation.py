"""docs/library.md and the section of README.md say what is so."""

import re
from pathlib import Path
from typing import Any, Final

import pytest

from kscheduler import Cluster, ClusterError, make_node, make_pod
from kscheduler.cli import main
from kscheduler.library import NodeRow, NodeUtilisation, PodResult, PodRow
from kscheduler.simulate.simulation_result import Evicted
from tests.docs.source_index import ROOT
from tests.library.manifests import pod_tree
from tests.library.test_table import needs

PAGE: Final = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
README: Final = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## From Python\n")[2]


def blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def test_the_example_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    needs("pandas")
    namespace: dict[str, Any] = {}
    exec(blocks(README)[0], namespace)
    printed = capsys.readouterr().out
    assert printed.startswith("7 pods placed on 2 nodes, 1 pending\n")
    assert "changes that would make it fit" in printed


def test_the_examples_of_the_page_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    needs("pandas")
    needs("matplotlib")
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    [command] = re.findall(r"^kscheduler (config policies .*) > policies.yaml$", PAGE, re.MULTILINE)
    assert main(command.split()) == 0
    Path("policies.yaml").write_text(capsys.readouterr().out, encoding="utf-8")
    namespace: dict[str, Any] = {"pods": [make_pod("more")]}
    for block in blocks(PAGE):
        exec(block, namespace)
    assert "1 pending" in capsys.readouterr().out
    assert namespace["larger"].added_nodes == ("a-new-1", "a-new-2")
    compared = {policy: (row["placed"], row["nodes"]) for policy, row in namespace["table"].items()}
    assert compared.pop("kscheduler") == (4, 2)
    assert set(compared.values()) == {(4, 1)}


@pytest.mark.parametrize(
    ("named", "kind"),
    [
        ("`cluster.nodes`", NodeRow),
        ("`cluster.pods`", PodRow),
        ("`cluster.utilisation()`", NodeUtilisation),
        ("`placed`, `pending`, `pods`", PodResult),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_the_tables_list_the_columns(named: str, kind: Any) -> None:
    cell = next(line for line in PAGE.splitlines() if line.startswith(f"| {named} |")).split("|")[2]
    assert re.findall(r"`(\w+)`", cell.partition(";")[0].partition(":")[0]) == list(kind.__struct_fields__)


def test_columns_of_evictions_exist() -> None:
    cell = next(line for line in PAGE.splitlines() if line.startswith("| `evicted` |")).split("|")[2]
    assert {*re.findall(r"`(\w+)`", cell)} <= {*Evicted.__struct_fields__}


def test_errors_are_as_the_page_shows_them() -> None:
    pods = [*(pod_tree(f"web-{number}") for number in range(3)), pod_tree("web-3", cpu="x")]
    with pytest.raises(ClusterError) as failure:
        Cluster.of(make_node("a")).schedule(pods)
    assert str(failure.value).partition(" '")[0] in PAGE
    with pytest.raises(ClusterError) as failure:
        Cluster.of([make_node(name) for name in "abc"]).simulate(add_nodes={"node-7": 1})
    assert str(failure.value) in PAGE
