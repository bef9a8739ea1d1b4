"""What the repository defines, by name, so that a text which cites it can be checked.

Everything is read with `ast`, nothing is imported. A citation is a span in backticks, and means one of these:

    state/cache.py, tests/e2e           a path, from the package, or from a folder above the text
    state.cache.Cache.add_pod           a dotted name, from the package or from any module's last part
    Cache.add_pod                       a class, and what it or one of its bases defines
    make fuzz, python -m benchmarks.x   a command: the target, the module, the subcommand, the flags
    pod_bound, 0/N nodes are ...        a word or a text that stands in the code as a name or as a string

Limits: a class name that is defined twice means either of them; an attribute that is set from outside is not seen.
"""

import ast
import gc
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "kscheduler"
CODE_FOLDERS: Final = ("kscheduler", "tests", "benchmarks", "deploy")

_FILE: Final = re.compile(r"(?:\.?[\w-]+/)*\.?[\w-]+\.(?:py|md|json|txt|toml|ya?ml|gz|png|lock)")
# Modules that are called like a field of Kubernetes' objects or an event loop: `status.phase` is none of ours.
CALLED_LIKE_OTHERS: Final = frozenset({"__init__", "status", "metadata", "spec", "node", "pod", "details", "loop"})
_SUFFIXES: Final = frozenset({"txt", "md", "json", "yaml", "toml"})
# `cli/VERB.py`: of each command its own.
_PLACEHOLDER: Final = re.compile(r"\b[A-Z]+\.py$")
_FOLDER: Final = re.compile(r"(?:\.?[\w-]+/)+(?:[\w-]+/?)?")
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_CLASS: Final = re.compile(r"_?[A-Z]\w*[a-z]\w*")
_SPAN: Final = re.compile(r"`([^`\n]+)`")
_FENCE: Final = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_COMMENT: Final = re.compile(r"#\s(.*)$")
_WORD: Final = re.compile(r"\w+")
# Characters: what is longer is prose, whose words are no names.
_SHORT: Final = 60
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(slots=True)
class ClassMembers:
    """What one class defines."""

    path: Path
    bases: tuple[str, ...]
    members: set[str]


@dataclass(slots=True)
class SourceFile:
    """One file of code."""

    path: Path
    top: set[str] = field(default_factory=set)
    """Functions, classes and constants of the module."""
    classes: dict[str, ClassMembers] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    """Every name that is defined anywhere in it: parameters and attributes, too."""
    texts: list[str] = field(default_factory=list)
    """Its strings, docstrings aside."""
    numbers: set[int] = field(default_factory=set)
    """Every integer, and every one that is worked out of integers: `32 * 2**20`."""
    words: set[str] = field(default_factory=set)
    """Every name in it, also of what is defined elsewhere, and the words of short texts."""
    prose: list[tuple[int, str]] = field(default_factory=list)
    """Its docstrings and comments, each with the line where it begins."""

    def defines(self, name: str) -> bool:
        """Whether `function`, `Class`, `Class.member` or `CONSTANT` is defined in this file."""
        first, _, member = name.partition(".")
        if not member:
            return first in self.top
        known = self.classes.get(first)
        return known is not None and member in known.members


class SourceIndex:
    """All code of the repository."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        paths = [path for folder in CODE_FOLDERS for path in sorted((root / folder).rglob("*.py"))]
        gc.disable()  # millions of nodes come, of which none is garbage before its file is done
        try:
            self.files = {path: _read(path) for path in paths}
        finally:
            gc.enable()

    @cached_property
    def modules(self) -> dict[str, list[SourceFile]]:
        """By the module's last part; a package by its folder's name."""
        found: dict[str, list[SourceFile]] = {}
        for path, file in self.files.items():
            found.setdefault(path.parent.name if path.stem == "__init__" else path.stem, []).append(file)
        return found

    @cached_property
    def own_modules(self) -> frozenset[str]:
        """Modules and packages of ours, whose name in front of a dot means them."""
        shipped = (path for path in self.files if path.is_relative_to(PACKAGE))
        names = {name for path in shipped for name in (path.stem, path.parent.name)}
        return frozenset(names - CALLED_LIKE_OTHERS)

    @cached_property
    def classes(self) -> dict[str, list[ClassMembers]]:
        """By name."""
        found: dict[str, list[ClassMembers]] = {}
        for file in self.files.values():
            for name, members in file.classes.items():
                found.setdefault(name, []).append(members)
        return found

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name that the code defines."""
        return frozenset().union(*(file.names for file in self.files.values()), *(self.modules.keys(),))

    @cached_property
    def file_names(self) -> frozenset[str]:
        """Of all files beside the code, whose folder the text names elsewhere."""
        return frozenset(path.name for folder in CODE_FOLDERS for path in (self.root / folder).rglob("*.*"))

    @cached_property
    def text(self) -> str:
        """All strings in the code, and the tables that it reads; not what tests of pages say about them."""
        tables = [path for suffix in ("*.txt", "*.json") for path in sorted(PACKAGE.rglob(suffix))]
        files = [file for path, file in self.files.items() if path.parent != Path(__file__).parent]
        texts = [text for file in files for text in file.texts]
        return "\n".join([*texts, *(path.read_text(encoding="utf-8") for path in tables)])

    # --- what a span means --------------------------------------------------------------------------------------------

    def is_path(self, span: str, beside: Path) -> bool | None:
        """Whether the path exists; `None` for what is no path."""
        if _PLACEHOLDER.search(span):
            return None
        if not (_FILE.fullmatch(span) or (_FOLDER.fullmatch(span) and self._begins_with_a_folder(span))):
            return None
        around = [place for place in (beside, *beside.parents) if place.is_relative_to(self.root)]
        if any((place / span).exists() for place in (PACKAGE, *around)):
            return True
        return "/" not in span and span in self.file_names

    def is_code(self, span: str) -> bool | None:
        """Whether the class, or what is behind the dots, is defined; `None` for what need not be a name of ours."""
        name = span.removesuffix("()")
        if _DOTTED.fullmatch(name):
            return self._is_dotted(name.split("."))
        if _CLASS.fullmatch(name) and name in self.classes:
            return True
        return None

    def begins_with_a_module(self, span: str) -> bool:
        """Whether it is a dotted name behind one of our modules: `recently_used.RecentlyUsed`."""
        name = span.removesuffix("()")
        first, _, rest = name.partition(".")
        is_dotted = _DOTTED.fullmatch(name) is not None
        return is_dotted and first in self.own_modules and rest.rpartition(".")[2] not in _SUFFIXES

    def is_word(self, span: str) -> bool:
        """Whether the code has it as a name or in a string; dots at the end stand for whatever follows."""
        name = span.removesuffix("()")
        if name in self.names or name in self.classes:
            return True
        parts = [part.strip() for part in span.split("...") if part.strip()]
        return bool(parts) and all(part in self.text for part in parts)

    def file_at(self, path: str) -> SourceFile | None:
        """The code at a path that a text gives."""
        return next((self.files[place / path] for place in (self.root, PACKAGE) if place / path in self.files), None)

    def files_at(self, path: str) -> list[SourceFile]:
        """The code at a path, or in a folder."""
        file = self.file_at(path)
        if file is not None:
            return [file]
        folder = PACKAGE / path
        return [file for known, file in self.files.items() if known.is_relative_to(folder)]

    def defines(self, path: str, name: str) -> bool:
        """Whether the file at that path defines the name."""
        file = self.file_at(path)
        return file is not None and file.defines(name)

    def _begins_with_a_folder(self, span: str) -> bool:
        first = span.partition("/")[0]
        if first == "build":  # what is built is not in the repository, but may be in this checkout
            return False
        return any((place / first).is_dir() for place in (self.root, PACKAGE))

    def _is_dotted(self, parts: list[str]) -> bool | None:
        if parts[0] in self.classes:
            return self.has_member(parts[0], parts[1])
        for end in range(len(parts), 0, -1):  # the longest part that is a module
            file = self._module(parts[:end])
            if file is not None:
                rest = parts[end:]
                if not rest or any(one.defines(".".join(rest[:2])) for one in file):
                    return True
        is_ours = parts[0] in CODE_FOLDERS or (PACKAGE / parts[0]).is_dir()
        return False if is_ours else None

    def _module(self, parts: list[str]) -> list[SourceFile] | None:
        """Modules whose path ends so; a single part is one only where it is a file or folder of code."""
        if len(parts) == 1:
            return self.modules.get(parts[0])
        tail = "/".join(parts)
        names = (f"/{tail}.py", f"/{tail}/__init__.py")
        found = [file for path, file in self.files.items() if path.as_posix().endswith(names)]
        return found or None

    def has_member(self, name: str, member: str) -> bool:
        """Whether one of the classes of this name, or a base of it, defines the member."""
        todo, seen = [name], set[str]()
        while todo:
            one = todo.pop()
            if one in seen:
                continue
            seen.add(one)
            for known in self.classes.get(one, ()):
                if member in known.members:
                    return True
                todo += known.bases
        return False


def text_of(page: str) -> str:
    """A page, by its path from the root."""
    return (ROOT / page).read_text(encoding="utf-8")


def spans(text: str) -> Iterator[str]:
    """What stands in backticks in a page, pictures and examples aside."""
    yield from _SPAN.findall(_FENCE.sub("", text))


def pictures(text: str) -> Iterator[str]:
    """The fenced blocks of a page that name no language."""
    for block in _FENCE.findall(text):
        first, _, rest = block.partition("\n")
        if first == "```":
            yield rest.removesuffix("```")


def _read(path: Path) -> SourceFile:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    file = SourceFile(path)
    strings: dict[int, str] = {}
    docstrings = set[int]()
    for node in ast.walk(tree):
        # By its type, and no `match`: the files have two million nodes.
        note = _BY_TYPE.get(type(node))
        if note is not None:
            note(file, node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings[id(node)] = node.value
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.add(id(node.value))
            file.prose.append((node.value.lineno, node.value.value))
    file.texts = [text for number, text in strings.items() if number not in docstrings]
    for text in file.texts:
        if len(text) < _SHORT:
            file.words.update(_WORD.findall(text))
    file.words |= file.names
    for statement in tree.body:
        file.top.update(_defined_by(statement))
        if not isinstance(statement, _Definition):
            file.top.update(name for part in ast.walk(statement) for name in _defined_by(part))
            file.top.update(_imported_by(statement))
    lines = enumerate(source.splitlines(), start=1)
    file.prose += [(number, match[1]) for number, line in lines if "#" in line and (match := _COMMENT.search(line))]
    return file


def _note_name(file: SourceFile, node: ast.Name) -> None:
    file.words.add(node.id)
    if isinstance(node.ctx, ast.Store):
        file.names.add(node.id)


def _note_attribute(file: SourceFile, node: ast.Attribute) -> None:
    file.words.add(node.attr)
    if isinstance(node.ctx, ast.Store):
        file.names.add(node.attr)


def _note_constant(file: SourceFile, node: ast.Constant) -> None:
    match node.value:
        case int(number):
            file.numbers.add(number)
        case float(number) if number.is_integer():
            file.numbers.add(int(number))


def _note_product(file: SourceFile, node: ast.BinOp) -> None:
    if (result := _calculated(node)) is not None:
        file.numbers.add(result)


def _note_definition(file: SourceFile, node: _Definition) -> None:
    file.names.add(node.name)
    if isinstance(node, ast.ClassDef):
        bases = tuple(map(_last_part, node.bases))
        file.classes[node.name] = ClassMembers(file.path, bases, _members(node))


_BY_TYPE: Final[dict[type[ast.AST], Any]] = {
    ast.Name: _note_name,
    ast.Attribute: _note_attribute,
    ast.Constant: _note_constant,
    ast.BinOp: _note_product,
    ast.FunctionDef: _note_definition,
    ast.AsyncFunctionDef: _note_definition,
    ast.ClassDef: _note_definition,
    ast.arg: lambda file, node: file.names.add(node.arg),
    ast.keyword: lambda file, node: file.words.add(node.arg or ""),
    ast.alias: lambda file, node: file.words.add(node.name),
}


def _defined_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Name(ctx=ast.Store()):
            yield node.id
        case ast.Attribute(ctx=ast.Store()):
            yield node.attr
        case ast.arg():
            yield node.arg


def _imported_by(statement: ast.stmt) -> Iterator[str]:
    """A module has what it imports, too: a package's `__init__` hands on what its modules define."""
    if isinstance(statement, ast.ImportFrom | ast.Import):
        yield from (alias.asname or alias.name for alias in statement.names)


def _calculated(node: ast.expr) -> int | None:
    """The value of products and powers of integers."""
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.BinOp(left=left, op=ast.Mult() | ast.Pow() as operation, right=right):
            first, second = _calculated(left), _calculated(right)
            if first is None or second is None:
                return None
            if isinstance(operation, ast.Mult):
                return first * second
            return first**second if 0 <= second <= 64 else None
    return None


def _members(node: ast.ClassDef) -> set[str]:
    members = set[str]()
    for statement in node.body:
        members.update(_defined_by(statement))
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            members.update(name for part in ast.walk(statement) for name in _defined_by(part))
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            attributes = (part for part in ast.walk(statement) if isinstance(part, ast.Attribute))
            members.update(part.attr for part in attributes if isinstance(part.ctx, ast.Store))
    return members


def _last_part(base: ast.expr) -> str:
    match base:
        case ast.Subscript():
            return _last_part(base.value)
        case ast.Attribute():
            return base.attr
        case ast.Name():
            return base.id
    return ""
