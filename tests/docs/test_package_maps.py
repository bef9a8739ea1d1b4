"""The docstring of a package names its modules: a reader finds each under the name that stands there."""

import ast
import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = sorted(path.parent for path in (_ROOT / "kscheduler").rglob("__init__.py"))
# `guard   the try around every call`, `registry, handle   how a plugin is found`.
_ROW = re.compile(r"^ {0,4}([a-z_][a-z0-9_]*(?:, [a-z_][a-z0-9_]*)*) {2,}\S")


def rows_of(docstring: str) -> list[str]:
    return [name for line in docstring.splitlines() if (row := _ROW.match(line)) for name in row[1].split(", ")]


@pytest.mark.parametrize("package", _PACKAGES, ids=lambda path: str(path.relative_to(_ROOT)))
def test_the_modules_that_a_package_lists_are_there(package: Path) -> None:
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    there = {path.stem for path in package.iterdir()}
    assert [name for name in rows_of(docstring) if name not in there] == []


def test_rows_are_found() -> None:
    assert rows_of("Parts.\n\n    cache   nodes\nqueue, pods  what waits\n\nA line  of text.") == [
        "cache",
        "queue",
        "pods",
    ]
