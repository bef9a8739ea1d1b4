"""The notebook of docs/library.md: each cell runs, in its order, and says what is stored below it.

The cells run as in Jupyter: in one namespace, while an event loop runs in the thread. A small runner does it, because
nbclient would bring a kernel process, its sockets and twenty packages. Cells with the tag `pandas` need pandas and
matplotlib; the picture itself is not compared.
"""

import ast
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final

import pytest

from tests.docs.source_index import ROOT
from tests.library.test_table import needs

NOTEBOOK: Final = ROOT / "docs" / "notebooks" / "cluster.ipynb"
Cell = dict[str, Any]
WITH_FRAMES, PICTURE = "pandas", "picture"


def cells(path: Path = NOTEBOOK) -> list[Cell]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def tags(cell: Cell) -> list[str]:
    found: list[str] = cell["metadata"].get("tags", [])
    return found


def stored(cell: Cell) -> dict[str, str]:
    """What the notebook has below a cell, by type; what was printed is `stream`."""
    found: dict[str, str] = {}
    for output in cell["outputs"]:
        data = output["data"] if "data" in output else {"stream": output["text"]}
        found |= {kind: "".join(text) for kind, text in data.items()}
    return found


def shown(cell: Cell, namespace: dict[str, Any]) -> dict[str, str]:
    """What the cell prints, and its last value as text and HTML."""
    *statements, last = ast.parse("".join(cell["source"])).body
    has_value = isinstance(last, ast.Expr)
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(ast.Module(statements if has_value else [*statements, last], []), "cell", "exec"), namespace)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace) if has_value else None  # type: ignore[attr-defined]
    found = {"stream": printed.getvalue()} if printed.getvalue() else {}
    if value is not None:
        found["text/plain"] = repr(value)
        if hasattr(value, "_repr_html_"):
            found["text/html"] = value._repr_html_()
    return found


async def test_every_cell_says_what_is_stored_below_it() -> None:
    namespace: dict[str, Any] = {}
    for cell in cells():
        if WITH_FRAMES not in tags(cell):
            assert shown(cell, namespace) == stored(cell), "".join(cell["source"])


async def test_the_cells_with_data_frames_run_too(monkeypatch: pytest.MonkeyPatch) -> None:
    needs("pandas")
    needs("matplotlib")
    monkeypatch.setenv("MPLBACKEND", "agg")
    namespace: dict[str, Any] = {}
    for cell in cells():
        found = shown(cell, namespace)
        if PICTURE in tags(cell):
            assert len(namespace["axes"].patches) == 18
        elif WITH_FRAMES in tags(cell):
            assert found["text/plain"] == stored(cell)["text/plain"]


def test_a_plot_of_utilisation_is_there_in_few_cells() -> None:
    before = [cell for cell in cells() if PICTURE in tags(cell)]
    assert "image/png" in stored(before[0])
    assert cells().index(before[0]) <= 5
