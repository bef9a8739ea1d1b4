"""The public surface for plugins, as text: what docs/plugin-api.md lists, with parameters and members.

Read from the source, so that it is the same on each Python. `python -m tests.framework.public_surface --write`
records it.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import cleandoc
from itertools import zip_longest
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "plugin-api.md"
RECORDED: Final = Path(__file__).with_name("public_surface.txt")
# Names that are imported from here have another home, where their members are recorded.
SHORT: Final = "kscheduler"

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True, slots=True)
class Member:
    """What a class has: a method, a property or an attribute."""

    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign
    text: str = ""
    """What its docstring says."""


def rows(heading: str) -> Iterator[tuple[str, list[str]]]:
    """First cell and names of the rows of a table."""
    section = PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    for line in section.splitlines():
        cells = [re.findall(r"`([^`]+)`", cell) for cell in line.strip("|").split(" | ")]
        if line.startswith("| `") and len(cells) == 2:
            yield cells[0][0], cells[1]


def surface() -> list[str]:
    """A line per name, and per member of a class."""
    members = dict(rows("Members"))
    return [line for module, names in rows("Names") for name in names for line in _lines(module, name, members)]


def _lines(module: str, name: str, members: dict[str, list[str]]) -> Iterator[str]:
    home, found = definition(module, name)
    if module == SHORT:
        yield f"{module}.{name} is {home}.{name}"
        return
    yield f"{module}.{name}{_shape(found)}"
    if isinstance(found, ast.ClassDef):
        of_class = {member.name: _shape(member.node) for member in members_of(home, found)}
        for member in listed_members(members, module, name) or of_class:
            if member not in of_class:
                raise LookupError(f"docs/plugin-api.md: {name} has no member {member}")
            yield f"{module}.{name}.{member}{of_class[member]}"


def listed_members(members: dict[str, list[str]], module: str, name: str) -> list[str]:
    """The members that the page has for a class; none: all. Of two classes of one name a row names the module."""
    return members.get(f"{module}.{name}") or members.get(name) or []


def definition(module: str, name: str) -> tuple[str, Definition]:
    """Where a name is defined, and how. Raises `LookupError`."""
    if module.partition(".")[0] != "kscheduler":
        raise LookupError(f"{module} is not ours")
    tree = ast.parse(source_of(module).read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return module, node
        if isinstance(node, ast.Assign | ast.AnnAssign) and ast.unparse(_target(node)) == name:
            return module, node
    for each in ast.walk(tree):  # some imports stand below `if TYPE_CHECKING`
        if isinstance(each, ast.ImportFrom) and each.module and any(alias.name == name for alias in each.names):
            return definition(each.module, name)
    raise LookupError(f"docs/plugin-api.md: {module} has no {name}")


def source_of(module: str) -> Path:
    """The file of a module of ours."""
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _target(node: ast.Assign | ast.AnnAssign) -> ast.expr:
    return node.target if isinstance(node, ast.AnnAssign) else node.targets[0]


def members_of(module: str, kind: ast.ClassDef) -> Iterator[Member]:
    """Members of a class and of its bases, without those that begin with an underscore; `__init__` is one."""
    for base in kind.bases:
        with_base = ast.unparse(base).partition("[")[0]
        try:
            home, parent = definition(module, with_base)
        except LookupError:
            continue  # of the standard library
        if isinstance(parent, ast.ClassDef):
            yield from members_of(home, parent)
    for node, after in zip_longest(kind.body, kind.body[1:]):
        yield from _member(node, after)


def _member(node: ast.stmt, after: ast.stmt | None) -> Iterator[Member]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        if node.name == "__init__":
            yield Member(node.name, node)
            for set_there, after_it in zip_longest(node.body, node.body[1:]):
                yield from _set_by(set_there, after_it)
        elif not node.name.startswith("_"):
            yield Member(node.name, node, ast.get_docstring(node) or "")
    elif isinstance(node, ast.AnnAssign | ast.Assign):
        target = _target(node)
        if isinstance(target, ast.Name) and not target.id.startswith("_"):
            yield Member(target.id, node, _text_of(after))


def _set_by(node: ast.stmt, after: ast.stmt | None) -> Iterator[Member]:
    """The attribute that a statement of a constructor sets."""
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return
    target = _target(node)
    if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self" and target.attr[0] != "_":
        yield Member(target.attr, node, _text_of(after))


def _text_of(node: ast.stmt | None) -> str:
    """The string that stands alone below a definition, and says what it is."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return cleandoc(node.value.value)
    return ""


def _shape(node: Definition) -> str:
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        return f"({bases})" if bases else ""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        kind = " async" if isinstance(node, ast.AsyncFunctionDef) else ""
        decorated = {ast.unparse(decorator) for decorator in node.decorator_list}
        returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
        if decorated & {"property", "cached_property"}:
            return f":{returns.removeprefix(' ->')}"
        return f"({ast.unparse(node.args)}){returns}{kind}"
    if isinstance(node, ast.AnnAssign):
        return f": {ast.unparse(node.annotation)}"
    return ""


if __name__ == "__main__":
    text = "\n".join(surface()) + "\n"
    if "--write" in sys.argv:
        RECORDED.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
