"""CONTRIBUTING's glossary has one name for each concept: the names that it replaced do not come back.

Names are compared part by part: `_take_away_together` has the parts take, away, together; `TurnedDown` turned, down.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

SOURCES: Final = Path(__file__).parents[2] / "kscheduler"

# By old name, in its parts, the name that is used now.
REPLACED: Final = {
    "surroundings": "attempt context",
    "fate": "failure outcome",
    "ruleset": "compiled configuration",
    "adopt": "apply",
    "adoption": "apply",
    "diary": "service log",
    "overfill": "overcommit",
    "entrance": "admission",
    "patience": "time budget",
    "turnstile": "rate limiter",
    "bell": "wakeup event",
    "take away": "evict",
    "is to go": "must evict",
    "let be slow": "ignore slow calls",
    "turned down": "rejected",
    "too dear": "too expensive",
    "anew": "again",
    "nobody": "none",
    "whoever": "any",
}
# Names that users hold on to (metrics, JSON keys, the plugin API), and names of fields that are encoded.
KEPT: Final = frozenset({"NOBODY", "placed_anew", "assert_turned_down", "nobody_may_go"})
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name


def old_name(name: str) -> str | None:
    """The replaced name that this name contains."""
    parts = f" {' '.join(part.lower() for part in _PART.findall(name))} "
    return next((old for old in REPLACED if f" {old} " in parts), None)


@pytest.mark.parametrize(
    ("name", "old"),
    [
        ("Surroundings", "surroundings"),
        ("_take_away_all", "take away"),
        ("adopted", None),
        ("TurnedDown", "turned down"),
    ],
)
def test_what_counts_as_an_old_name(name: str, old: str | None) -> None:
    assert old_name(name) == old


def test_no_name_is_one_that_the_glossary_has_replaced() -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{line}: {name}: say {REPLACED[old]!r}"
        for path in sorted(SOURCES.rglob("*.py"))
        for line, name in names(ast.parse(path.read_text(encoding="utf-8")))
        if name not in KEPT and (old := old_name(name)) is not None
    ]
    found += [
        f"{path.relative_to(SOURCES)}: say {REPLACED[old]!r}"
        for path in sorted(SOURCES.rglob("*.py"))
        if (old := old_name(path.stem)) is not None
    ]
    assert found == []
