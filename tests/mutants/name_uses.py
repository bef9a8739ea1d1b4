"""Where a name is used, for changes of what runs at import: a constant, a default value, a field of a class.

No test "runs" such a line, so the tests to ask are those that run a line on which its name stands. Names are taken as
they are written, in whatever module: a name that stands for two things costs a few tests too many and misses none.
"""

import ast
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

# A constant in a table in a class: so many names are followed from one to the next.
_FAR_ENOUGH: Final = 3

Line = tuple[str, int]


class NameUses:
    """An index over the sources of a package."""

    def __init__(self, sources: Mapping[str, bytes]) -> None:
        """`sources` by path."""
        self._lines: dict[str, set[Line]] = defaultdict(set)
        self._defines: dict[str, set[str]] = defaultdict(set)
        for path, source in sources.items():
            for statement in ast.parse(source).body:
                self._look_at(path, statement, ())

    def lines(self, names: tuple[str, ...]) -> set[Line]:
        """The lines within functions that use one of the names, or what is defined by it at import."""
        known: set[str] = set()
        fresh = set(names)
        for _ in range(_FAR_ENOUGH):
            known |= fresh
            fresh = {further for name in fresh for further in self._defines.get(name, ())} - known
        return {line for name in known for line in self._lines.get(name, ())}

    def _look_at(self, path: str, statement: ast.stmt, outer: tuple[str, ...]) -> None:
        """A statement that runs at import."""
        if isinstance(statement, ast.ClassDef):
            for inner in statement.body:
                self._look_at(path, inner, (statement.name,))
            return
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            for inner in statement.body:
                for node in ast.walk(inner):
                    if name := _name(node):
                        self._lines[name].add((path, getattr(node, "lineno", statement.lineno)))
            return
        bound = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and _is_stored(node)}
        for node in ast.walk(statement):
            name = _name(node)
            if name and name not in bound:
                self._defines[name].update(bound or outer)


def _name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.keyword(arg=str(name)):
            return name
        case _:
            return ""


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)
