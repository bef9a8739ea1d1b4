"""The oldest followed version can be dropped: nothing but tables names it, and the others decide without it."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import kscheduler
from kscheduler.api.releases import BEHAVIOURS

OLDEST: Final = next(iter(BEHAVIOURS))
NEXT: Final = [*BEHAVIOURS][1]
PACKAGE: Final = Path(kscheduler.__file__).parent
ROOT: Final = PACKAGE.parent
SECONDS: Final = 300.0
# The tables by version; a column of each goes with the version.
TABLES: Final = frozenset(
    {"api/releases.py", "api/device_selectors.py", "config/feature_gates.py", "config/in_tree_plugins.py"}
)
# What does not take the oldest version for granted, and shows that another one decides as before.
SUITE: Final = (
    "tests/vectors/test_recorded_decisions.py",
    "tests/scheduling/test_registered_events.py",
    "tests/scheduling/test_extension_points.py",
)


def names_a_version(path: Path, version: str) -> bool:
    """Whether the module has the version as a text; comments and docstrings tell of it in a sentence."""
    return any(
        isinstance(node, ast.Constant) and node.value == version for node in ast.walk(ast.parse(path.read_text()))
    )


def test_only_tables_name_the_oldest_version() -> None:
    """Of later ones some name the version that a kind is served since."""
    naming = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if names_a_version(path, OLDEST)}
    assert naming == TABLES


@pytest.mark.slow("runs other tests once more")
def test_without_its_column_the_next_version_decides_as_before() -> None:
    """By the tests that name that version in their ids."""
    plugin = "tests.controlplane.releases.without_oldest"
    command = [sys.executable, "-m", "pytest", "-q", "-p", plugin, "-p", "no:cacheprovider", "-k", NEXT, *SUITE]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-1000:]
    passed = int(ran.stdout.strip().splitlines()[-1].split()[0])
    assert passed > 50
