"""A line's message is a name, so that it can be searched for and counted: no sentence, and nothing is formatted in."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import kscheduler

PACKAGE = Path(kscheduler.__file__).parent
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def _is_logger(receiver: ast.expr) -> bool:
    """`log`, `_log`, `logger`, `self._log`, `get_logger(...)`, `logs.get_logger(...)`."""
    if isinstance(receiver, ast.Call):
        receiver = receiver.func
    last = receiver.attr if isinstance(receiver, ast.Attribute) else getattr(receiver, "id", "")
    return last.strip("_") in {"log", "logger", "get_logger", "getLogger"}


@cache
def logged(source: str) -> tuple[tuple[int, ast.expr], ...]:
    """Line and message of each call that logs."""
    return tuple(_logged(source)) if "log" in source else ()


def _logged(source: str) -> Iterator[tuple[int, ast.expr]]:
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        if node.func.attr in LEVELS and _is_logger(node.func.value):
            yield node.lineno, node.args[0]


def sentences(source: str) -> list[tuple[int, str]]:
    """Messages that are written out and are no names. One that a variable holds is a literal elsewhere."""
    found = [(line, ast.unparse(each)) for line, each in logged(source) if isinstance(each, ast.JoinedStr)]
    for line, each in logged(source):
        if isinstance(each, ast.Constant) and not NAME.fullmatch(str(each.value)):
            found.append((line, str(each.value)))
    return found


@pytest.mark.parametrize(
    "call",
    [
        'log.info("the node is gone", node=name)',
        'self._log.debug("list failed; trying again")',
        'logs.get_logger("x").warning("Node_gone")',
        'logging.getLogger(__name__).exception("defect while answering %s", path)',
        '_log.error(f"{what}_failed")',
    ],
)
def test_a_sentence_is_found(call: str) -> None:
    assert len(sentences(call)) == 1


def test_each_message_is_a_name() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    sources = {path: path.read_text(encoding="utf-8") for path in files}
    assert sum(len(logged(source)) for source in sources.values()) > 150
    found = [(path.name, *each) for path, source in sources.items() for each in sentences(source)]
    assert found == []
