"""`from kscheduler import plugin`: the short imports are the long ones, and cost a start nothing."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

import kscheduler

# Each name, and the module from which type checkers believe it to come.
FOR_TYPE_CHECKERS: Final = {
    alias.name: node.module
    for branch in ast.parse(Path(kscheduler.__file__).read_text(encoding="utf-8")).body
    if isinstance(branch, ast.If)
    for node in branch.body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}


def test_type_checkers_and_star_imports_see_the_same_names() -> None:
    assert {*kscheduler.__all__} == {*FOR_TYPE_CHECKERS, "__version__"}
    assert {*kscheduler.__all__} <= {*dir(kscheduler)}


@pytest.mark.parametrize("name", FOR_TYPE_CHECKERS)
def test_a_short_import_is_the_long_one(name: str) -> None:
    home = import_module(str(FOR_TYPE_CHECKERS[name]))
    assert getattr(kscheduler, name) is getattr(home, name)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing_like_that'"):
        _ = kscheduler.nothing_like_that  # type: ignore[attr-defined]


def test_importing_the_package_imports_nothing_else() -> None:
    """The command line does so first of all."""
    source = "import sys; before = {*sys.modules}; import kscheduler; print(*sorted({*sys.modules} - before))"
    ran = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["kscheduler"]
