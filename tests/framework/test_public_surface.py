"""What plugins may rely on changes only where somebody has decided it, and what we show them is on the list."""

import ast
from pathlib import Path
from typing import Final

import pytest

from kscheduler.cli import main
from tests.framework.public_surface import RECORDED, ROOT, rows, surface

PUBLIC: Final = {(module, name) for module, names in rows("Names") for name in names}
# Plugins that users copy from.
SHOWN: Final = sorted(
    path
    for folder in ("benchmarks/policies", "deploy/examples", "deploy/helm")
    for path in (ROOT / folder).rglob("*.py")
)


def test_it_is_as_recorded() -> None:
    """After a change on purpose: `python -m tests.framework.public_surface --write`, and a line in CHANGELOG.md."""
    assert surface() == RECORDED.read_text(encoding="utf-8").splitlines()


def imports_of(text: str) -> set[tuple[str, str]]:
    return {
        (node.module, alias.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("kscheduler")
        for alias in node.names
    }


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.name)
def test_examples_rely_on_nothing_else(path: Path) -> None:
    assert imports_of(path.read_text(encoding="utf-8")) <= PUBLIC


def test_the_page_for_authors_relies_on_nothing_else() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    blocks = [block.partition("```")[0] for block in page.split("```python\n")[1:]]
    assert len(blocks) > 8
    for block in blocks:
        assert imports_of(block) <= PUBLIC


def test_new_plugins_begin_with_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugin", "new", "Mine", "--directory", str(tmp_path)]) == 0
    capsys.readouterr()
    made = [path.read_text(encoding="utf-8") for path in tmp_path.iterdir()]
    assert len(made) == 2
    for text in made:
        assert imports_of(text) <= PUBLIC
