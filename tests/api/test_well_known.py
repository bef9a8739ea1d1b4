"""Names that Kubernetes has given a meaning are written in one place."""

import ast
from collections.abc import Iterator
from pathlib import Path

import kscheduler
from kscheduler.api import well_known

SOURCES = Path(kscheduler.__file__).parent
NAMES = {value for name, value in vars(well_known).items() if name.isupper() and isinstance(value, str)}
LITERALS = NAMES | {well_known.SCHEDULER_PORT}


def written_again(path: Path) -> Iterator[str]:
    text = path.read_text()
    if not any(str(literal) in text for literal in LITERALS):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and node.value in LITERALS:
            yield f"{path.relative_to(SOURCES)}:{node.lineno}: {node.value}"


def test_no_other_module_writes_such_a_name_out() -> None:
    paths = [path for path in sorted(SOURCES.rglob("*.py")) if path != Path(well_known.__file__)]
    assert len(NAMES) > 10
    assert [place for path in paths for place in written_again(path)] == []
