"""Rows: tables for terminals and notebooks, dicts, and data frames where pandas or polars are installed."""

import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import msgspec
import pytest

from kscheduler import Cluster, make_node, make_pod
from kscheduler.library import Table
from tests.effort import IS_CI


class Row(msgspec.Struct, frozen=True):
    name: str
    count: int | None = None
    text: str = ""


ROWS = Table(Row, [Row("a", 1), Row("b"), Row("c", 30)])


def needs(package: str) -> None:
    if find_spec(package) is None:
        if IS_CI:
            pytest.fail(f"{package} is missing: make ready installs it")
        pytest.skip(f"needs {package}")


def test_rows_are_a_sequence() -> None:
    assert (len(ROWS), ROWS[0].name, [each.name for each in ROWS[1:]]) == (3, "a", ["b", "c"])
    assert isinstance(ROWS[1:], Table)
    assert ROWS[:2] == Table(Row, ROWS[:2])
    assert Table(Row) != ROWS


def test_a_table_leaves_out_columns_without_a_value() -> None:
    assert str(ROWS).splitlines() == ["name  count", "a         1", "b", "c        30"]
    assert str(Table(Row)) == "no rows: name, count, text"


def test_a_long_table_says_how_many_rows_more_there_are() -> None:
    assert str(Table(Row, [Row(str(number)) for number in range(23)])).splitlines()[-2:] == ["19", "and 3 more"]


def test_names_of_users_neither_move_a_cursor_nor_become_html() -> None:
    row = Table(Row, [Row("\x1b[2J<script>")])
    assert "\x1b" not in str(row)
    assert "<script>" not in row._repr_html_()
    assert "&lt;script&gt;" in row._repr_html_()


def test_dicts_have_every_column() -> None:
    assert ROWS.to_dicts()[1] == {"name": "b", "count": None, "text": ""}


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_without_the_package_an_error_says_what_to_do(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"to_{package}\(\) needs {package}, .*`pip install {package}` installs it"):
        getattr(ROWS, f"to_{package}")()


FRAMES: dict[str, Callable[[Any], list[str]]] = {
    "pandas": lambda frame: list(frame.columns),
    "polars": lambda frame: list(frame.columns),
}


@pytest.mark.parametrize("package", FRAMES)
def test_data_frames(package: str) -> None:
    needs(package)
    columns = FRAMES[package]
    frame = getattr(ROWS, f"to_{package}")()
    assert (columns(frame), frame.shape) == (["name", "count", "text"], (3, 3))
    empty = getattr(Table(Row), f"to_{package}")()
    assert (columns(empty), empty.shape) == (["name", "count", "text"], (0, 3))


@pytest.mark.parametrize("package", FRAMES)
def test_every_answer_becomes_a_data_frame(package: str) -> None:
    needs(package)
    gpus: dict[str, Any] = {"nvidia.com/gpu": "2"}
    nodes = [make_node("a", labels={"zone": "x"}), make_node("b", **gpus)]
    result = Cluster.of(nodes).schedule([make_pod("web"), make_pod("big", requests={"cpu": "9"})])
    answers = (result, result.evicted, result.cluster.nodes, result.cluster.pods, result.cluster.utilisation())
    shapes = [getattr(answer, f"to_{package}")().shape[0] for answer in answers]
    assert shapes == [2, 0, 2, 2, 7]


def test_a_table_of_utilisation_pivots_in_pandas() -> None:
    needs("pandas")
    cluster = Cluster.of([make_node("a"), make_node("b")], make_pod("web", node="a", requests={"cpu": "1"}))
    frame = cluster.utilisation().to_pandas()
    shares = frame.pivot_table(index="node", columns="resource", values="share")
    assert (shares.loc["a", "cpu"], shares.loc["b", "cpu"]) == (0.25, 0.0)


def test_answers_show_themselves_in_a_notebook() -> None:
    cluster = Cluster.of([make_node("a")])
    result = cluster.schedule([make_pod("web"), make_pod("big", requests={"cpu": "9"})])
    html = result._repr_html_()
    assert html.index("1 pod placed on 1 node, 1 pending") < html.index("default/big") < html.index("default/web")
    assert "<td" in cluster._repr_html_()
    assert result.cluster.explain("big")._repr_html_().startswith("<pre>default/big: fits on no node")
    assert result.cluster.drain("a")._repr_html_().startswith("<pre>a would be empty")


def test_a_result_prints_as_a_short_table() -> None:
    result = Cluster.of([make_node("a"), make_node("b")]).schedule(
        [make_pod("web"), make_pod("big", requests={"cpu": "9"})]
    )
    lines = str(result).splitlines()
    assert lines[:3] == ["1 pod placed on 1 node, 1 pending", "", "pending:"]
    assert lines[lines.index("placed:") + 1].split() == ["pod", "node", "score", "origin"]
    assert str(result.cluster) == "cluster of 2 nodes: 2 pods, 1 of them pending"


def test_a_name_is_no_position() -> None:
    with pytest.raises(TypeError, match=r"`to_pandas\(\)\['node'\]` is a column, `\[0\].node` a value"):
        Cluster.of(make_node("a")).nodes["node"]  # type: ignore[call-overload]
