"""Docstrings and comments name modules, functions and classes as they are: what has moved is named where it is now.

The rules: a dotted name in backticks is ours if it begins with one of our packages or modules. Then it has to be there:
a module, something that a module defines, or an attribute of a class in it. A name in backticks with an underscore or a
capital inside has to be written somewhere in the code. Everything is read from the tree as it is.
"""

import ast
import builtins
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import kscheduler

SOURCES = Path(kscheduler.__file__).parent
ROOT = SOURCES.parent
DOTTED = re.compile(r"`((?:[a-z_][a-z0-9_]*\.)+[A-Za-z_][A-Za-z0-9_]*)(?:\(\))?`")
BARE = re.compile(r"`(_?[a-z]+_[a-z0-9_]+|[A-Z][a-z]+[A-Z]\w+)(?:\(\))?`")
# Modules that are called like a field of Kubernetes' objects or an event loop: `status.phase` is none of ours.
CALLED_LIKE_OTHERS = frozenset({"status", "metadata", "spec", "node", "pod", "details", "loop"})
FILES = frozenset({"txt", "md", "json", "yaml", "toml"})
# What a comment makes up as an example.
MADE_UP = frozenset({"NodeUpdateNodeTaint"})


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> Mapping[str, Path]:
    found = {
        module_name(path): path for top in ("kscheduler", "tests", "benchmarks") for path in (ROOT / top).rglob("*.py")
    }
    folders = {name.rpartition(".")[0]: path.parent for name, path in found.items()}
    return {**{name: path for name, path in folders.items() if name}, **found}


@cache
def by_ending() -> Mapping[str, list[str]]:
    """Modules by each name that they may be called by: `bounded.recently_used`, `recently_used`."""
    found: dict[str, list[str]] = {}
    for module in modules():
        parts = module.split(".")
        for begin in range(len(parts)):
            found.setdefault(".".join(parts[begin:]), []).append(module)
    return found


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def names_in(module: str) -> frozenset[str]:
    """What a module defines or imports, dotted for what classes define."""
    path = modules()[module]
    return frozenset(_defined(tree_of(path).body)) if path.is_file() else frozenset()


def _defined(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield prefix + node.name
            yield from _defined(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name
            yield from (prefix + one for one in _set_on_self(node))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (prefix + (one.asname or one.name) for one in node.names)
        else:
            yield from (prefix + one.id for one in ast.walk(node) if isinstance(one, ast.Name))


def _set_on_self(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node.attr


@cache
def prose(path: Path) -> tuple[tuple[int, str], ...]:
    """Comments and strings that stand for themselves, with the line where they begin."""
    return tuple(_prose(path))


def _prose(path: Path) -> Iterator[tuple[int, str]]:
    text = path.read_text()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def candidates(dotted: str) -> Iterator[tuple[str, str]]:
    """The modules that the name may begin with, and what is left of it."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        for module in by_ending().get(".".join(parts[:end]), ()):
            yield module, ".".join(parts[end:])


def is_there(dotted: str) -> bool | None:
    """Whether something of this name is in the tree; `None` for a name that is none of ours."""
    found = list(candidates(dotted))
    if not found or dotted.partition(".")[0] in CALLED_LIKE_OTHERS or dotted.rpartition(".")[2] in FILES:
        return None
    return any(not rest or rest in names_in(module) for module, rest in found)


def gone(path: Path) -> Iterator[str]:
    for line, text in prose(path):
        for dotted in DOTTED.findall(text):
            if is_there(dotted) is False:
                yield f"{path.relative_to(ROOT)}:{line}: {dotted}"


def test_every_module_and_function_that_is_named_is_there() -> None:
    assert [place for path in sorted(SOURCES.rglob("*.py")) for place in gone(path)] == []


@cache
def written() -> frozenset[str]:
    """Every name in the code, and every word in a short text of it: fields of objects are such."""
    found = {*dir(builtins), *MADE_UP}
    for path in SOURCES.rglob("*.py"):
        found.update(path.with_suffix("").parts)
        for node in ast.walk(tree_of(path)):
            found.update(
                value for field in ("name", "id", "attr", "arg") if isinstance(value := getattr(node, field, None), str)
            )
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 60:
                found.update(re.findall(r"\w+", node.value))
    return frozenset(found)


def test_every_name_that_looks_like_code_is_in_the_code() -> None:
    places = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted(SOURCES.rglob("*.py"))
        for line, text in prose(path)
        for name in BARE.findall(text)
        if name not in written()
    ]
    assert places == []


@pytest.mark.parametrize(
    ("dotted", "answer"),
    [
        ("kscheduler.bounded", True),
        ("kscheduler.bounded.RecentlyUsed", True),
        ("bounded.RecentlyUsed.use", True),
        ("bounded.WithinBudget.weight", True),
        ("bounded.Nothing", False),
        ("kscheduler.no_such_module", False),
        ("numpy.flatnonzero", None),
        ("status.phase", None),
    ],
)
def test_what_the_rule_takes_for_ours(dotted: str, answer: bool | None) -> None:
    assert is_there(dotted) is answer
