"""Every small change of a source text that a test should notice: one operator, comparison, boolean sense, constant,
flag, keyword argument, call, return value, `continue` or `break`, `raise` dropped.

A mutant replaces one span of bytes. The span comes from the syntax tree, or from the token between two operands, so the
rest of the text stays as it is and the change reads as a small diff.

Left alone is what is no behaviour: docstrings, annotations, decorators, class keywords (`frozen=True`), `__slots__`,
`__all__`, `__repr__`, `if TYPE_CHECKING`, assertions, type variables, log calls, and text for people (f-strings,
strings with a space, what is said in a `raise`). A string of one word is a key or a name, and is changed.
"""

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

# Operator, and what it becomes: the limit moved by one, the sense turned round.
_COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, tuple[str, ...]]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
_OPERATORS: Final[dict[type[ast.operator], tuple[str, str]]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitOr: ("|", "&"),
    ast.BitAnd: ("&", "|"),
    ast.BitXor: ("^", "&"),
}
_OPPOSITES: Final = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "minimum": "maximum",
    "maximum": "minimum",
    "argmin": "argmax",
    "argmax": "argmin",
}
_NO_BEHAVIOUR: Final = frozenset({"__slots__", "__all__", "__match_args__"})
_FOR_PEOPLE: Final = frozenset({"__repr__", "__str__"})
_OF_TYPES: Final = frozenset({"TypeVar", "ParamSpec", "NewType", "cast", "get_logger", "getLogger"})
_LOG_METHODS: Final = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})

# What has a place in the text.
Node = ast.expr | ast.stmt | ast.keyword


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    path: str
    kind: str
    scope: str
    """Qualified name of the function or class around it, empty at the top of the module."""
    start: int
    end: int
    """Bytes of the source that are replaced."""
    replacement: str
    line: int
    before: str
    after: str
    """The lines that change, joined and without indentation: a mutant is known by them, wherever they stand."""
    above: str
    """The line above them, to tell equal ones in one function apart."""
    header: range
    """Lines of the statement; of a compound one, without its body."""
    function: range | None
    """Lines of the body of the innermost function that runs it; None for what runs when the module is imported."""
    names: tuple[str, ...]
    """What the statement defines, for a statement that runs at import."""

    def applied(self, source: bytes) -> bytes:
        """The file's source with the change."""
        return source[: self.start] + self.replacement.encode() + source[self.end :]

    def __str__(self) -> str:
        """The change in a line."""
        return f"{self.path}:{self.line}: {self.before}  ->  {self.after}"


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """All changes of one file, in the order of its text."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return sorted(finder.found, key=lambda mutant: (mutant.start, mutant.end, mutant.replacement))


class _Finder(ast.NodeVisitor):
    """Walks over a module's tree and keeps where in it it is."""

    def __init__(self, path: str, source: bytes) -> None:
        self._text = _Text(source)
        self._path = path
        self._scope: list[str] = []
        self._header = range(0)
        self._function: range | None = None
        self._returns = ""
        self._names: tuple[str, ...] = ()
        self.found: list[Mutant] = []

    def visit(self, node: ast.AST) -> None:
        """Keep the statement that is being looked at."""
        if isinstance(node, ast.stmt):
            before = self._header, self._names
            self._header = _header(node)
            if self._function is None:
                self._names = _names(node)
            super().visit(node)
            self._header, self._names = before
        else:
            super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Default values run where the function is defined; annotations and decorators are left alone."""
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """As any."""
        self._visit_function(node)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in _FOR_PEOPLE:
            return
        for default in (*node.args.defaults, *(value for value in node.args.kw_defaults if value is not None)):
            self.visit(default)
        outer = self._function, self._returns
        self._scope.append(node.name)
        self._function = range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
        self._returns = ast.unparse(node.returns) if node.returns is not None else ""
        for statement in node.body:
            self.visit(statement)
        self._scope.pop()
        self._function, self._returns = outer

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Bases, keywords and decorators say what kind of class it is, and nothing that it does."""
        self._scope.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._scope.pop()

    def visit_Assign(self, node: ast.Assign) -> None:
        """Without lists of names for the language."""
        if not _NO_BEHAVIOUR.intersection(_names(node)):
            self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """The value only."""
        if node.value is not None and not _NO_BEHAVIOUR.intersection(_names(node)):
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        """An assertion tells the type checker what holds."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Text for people."""

    def visit_Expr(self, node: ast.Expr) -> None:
        """A call for its effect may be dropped; a docstring is none."""
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Constant) or _is_log_call(call):
            return
        if isinstance(call, ast.Call):
            self._replace("call dropped", node, "pass")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """What it says is for people."""
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if raised is not None and not (isinstance(raised, ast.Name) and raised.id == "NotImplementedError"):
            self._replace("raise dropped", node, "pass")

    def visit_Return(self, node: ast.Return) -> None:
        """By what the function is declared to return: None for an optional value, the contrary of a bool, one more."""
        value = node.value
        if value is None:
            self._replace("return dropped", node, "pass")
            return
        if not isinstance(value, ast.Constant | ast.Compare):
            if self._returns == "bool" and not _is_not(value):
                self._around("return value", value, "not (", ")")
            elif self._returns == "int":
                self._around("return value", value, "(", ") + 1")
            elif "None" in self._returns.split(" | "):
                self._replace("return value", value, "None")
            elif self._returns.startswith("list[") and not (isinstance(value, ast.List) and not value.elts):
                self._replace("return value", value, "[]")
        self.visit(value)

    def visit_Continue(self, node: ast.Continue) -> None:
        """The rest is skipped too."""
        self._replace("continue", node, "break")

    def visit_Break(self, node: ast.Break) -> None:
        """The rest is walked too."""
        self._replace("break", node, "continue")

    def visit_If(self, node: ast.If) -> None:
        """Imports for the type checker are left alone."""
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._condition(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        """`while True` is turned by its constant."""
        self._condition(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """As `if`."""
        self._condition(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """Each of its conditions."""
        for test in node.ifs:
            self._condition(test)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Each operator of a chain."""
        for (left, right), operator in zip(pairwise((node.left, *node.comparators)), node.ops, strict=True):
            old, others = _COMPARISONS[type(operator)]
            for new in others:
                self._between("comparison", left, right, old, new)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Each `and` and `or`."""
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in pairwise(node.values):
            self._between("boolean", left, right, old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Dropped. A negative constant is a constant."""
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            self._number(node, -_as_number(node.operand))
            return
        length = 3 if isinstance(node.op, ast.Not) else 1
        if not isinstance(node.op, ast.UAdd):
            start = self._text.start(node)
            self._span("boolean" if length == 3 else "operator", start, start + length, "")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Strings are joined for people; a union of types, at the top of a module, is no arithmetic."""
        is_text = any(isinstance(side, ast.JoinedStr) or _is_string(side) for side in (node.left, node.right))
        is_union = isinstance(node.op, ast.BitOr) and self._function is None
        if type(node.op) in _OPERATORS and not is_text and not is_union:
            old, new = _OPERATORS[type(node.op)]
            self._between("operator", node.left, node.right, old, new)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """`+=` becomes `-=`."""
        if type(node.op) in _OPERATORS:
            old, new = _OPERATORS[type(node.op)]
            self._between("operator", node.target, node.value, f"{old}=", f"{new}=")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """A truth value, a number, a word."""
        if isinstance(node.value, bool):
            self._replace("flag", node, str(not node.value))
        elif isinstance(node.value, int | float):
            self._number(node, node.value)
        elif isinstance(node.value, str) and " " not in node.value:
            end = self._text.end(node) - 1
            self._span("word", end, end, "XX")

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """At the top of a module it is a type."""
        if self._function is not None:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Each keyword argument dropped; the least made the most."""
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in _OF_TYPES or _is_log_call(node):
            return
        if called in _OPPOSITES:
            end = self._text.end(node.func)
            self._span("opposite", end - len(called), end, _OPPOSITES[called])
        for keyword in node.keywords:
            if keyword.arg not in (None, "repr") and not _is_strict(node, keyword):
                self._span("keyword dropped", *self._text.argument(node, keyword), "")
        for child in ast.iter_child_nodes(node):
            if not (isinstance(child, ast.keyword) and _is_strict(node, child)):
                self.visit(child)

    def _condition(self, test: ast.expr) -> None:
        """Turned round, where no comparison, `not` or constant in it does the same."""
        if not isinstance(test, ast.Compare | ast.Constant) and not _is_not(test):
            self._around("condition", test, "not (", ")")

    def _number(self, node: ast.expr, value: float) -> None:
        by = 1 if isinstance(value, int) else max(1.0, abs(value) // 2)  # one more says nothing beside 1e38
        for other in (value + by, value - by) if value else (by,):
            self._replace("number", node, repr(other))

    def _replace(self, kind: str, node: Node, replacement: str) -> None:
        self._span(kind, self._text.start(node), self._text.end(node), replacement)

    def _around(self, kind: str, node: ast.expr, opening: str, closing: str) -> None:
        start, end = self._text.start(node), self._text.end(node)
        self._span(kind, start, end, f"{opening}{self._text.source[start:end].decode()}{closing}")

    def _between(self, kind: str, left: Node, right: Node, old: str, new: str) -> None:
        start, end = self._text.operator(self._text.end(left), self._text.start(right), old)
        self._span(kind, start, end, new)

    def _span(self, kind: str, start: int, end: int, replacement: str) -> None:
        before, after = self._text.lines_around(start, end, replacement)
        line = self._text.line_of(start)
        self.found.append(
            Mutant(
                self._path,
                kind,
                ".".join(self._scope),
                start,
                end,
                replacement,
                line,
                before,
                after,
                self._text.line_above(start),
                self._header,
                self._function,
                self._names,
            )
        )


class _Text:
    """A source, by byte. The syntax tree counts bytes within lines, the tokenizer characters."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._operators = list(self._tokens())

    def start(self, node: Node) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: Node) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def line_of(self, position: int) -> int:
        return self.source.count(b"\n", 0, position) + 1

    def operator(self, start: int, end: int, text: str) -> tuple[int, int]:
        """The span of an operator between two operands; one of two words may be written with any space between."""
        words = text.split()
        there = [token for token in self._operators if start <= token[0] < end and token[2] in words]
        assert len(there) == len(words), f"{text} between bytes {start} and {end}"
        return there[0][0], there[-1][1]

    def argument(self, call: ast.Call, keyword: ast.keyword) -> tuple[int, int]:
        """The span of an argument with the comma that goes with it."""
        arguments: tuple[Node, ...] = (*call.args, *call.keywords)
        starts = sorted(map(self.start, arguments))
        start = self.start(keyword)
        later = [position for position in starts if position > start]
        if later:
            return start, later[0]
        end = self.end(keyword)
        comma = [token for token in self._operators if end <= token[0] < self.end(call) and token[2] == ","]
        return start, comma[0][1] if comma else end

    def lines_around(self, start: int, end: int, replacement: str) -> tuple[str, str]:
        """The lines that a change touches, before and after, without indentation and line ends."""
        first = self.source.rfind(b"\n", 0, start) + 1
        last = self.source.find(b"\n", end)
        last = len(self.source) if last < 0 else last
        before = self.source[first:last].decode()
        after = self.source[first:start].decode() + replacement + self.source[end:last].decode()
        return _joined(before), _joined(after)

    def line_above(self, position: int) -> str:
        """Without indentation; empty at the top."""
        end = self.source.rfind(b"\n", 0, position)
        return self.source[self.source.rfind(b"\n", 0, max(end, 0)) + 1 : max(end, 0)].decode().strip()

    def _tokens(self) -> Iterator[tuple[int, int, str]]:
        lines = self.source.decode().splitlines(keepends=True)
        for token in tokenize.generate_tokens(io.StringIO(self.source.decode()).readline):
            if token.type in (tokenize.OP, tokenize.NAME):
                row, column = token.start
                start = self._starts[row - 1] + len(lines[row - 1][:column].encode())
                yield start, start + len(token.string.encode()), token.string


def _joined(lines: str) -> str:
    return " ".join(line.strip() for line in lines.splitlines()).strip()


def _header(statement: ast.stmt) -> range:
    """Lines of a statement without its body."""
    body: Sequence[Any] = getattr(statement, "body", ())
    last = statement.end_lineno or statement.lineno
    if body and isinstance(body[0], ast.stmt):
        last = max(statement.lineno, body[0].lineno - 1)
    return range(statement.lineno, last + 1)


def _names(statement: ast.stmt) -> tuple[str, ...]:
    """What a statement binds."""
    match statement:
        case ast.Assign(targets=targets):
            return tuple(node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            return (name,)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return (statement.name,)
        case _:
            return ()


def _is_strict(call: ast.Call, keyword: ast.keyword) -> bool:
    """`zip(..., strict=True)` asserts."""
    return keyword.arg == "strict" and isinstance(call.func, ast.Name) and call.func.id == "zip"


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_not(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _as_number(node: ast.Constant) -> float:
    assert isinstance(node.value, int | float)
    return node.value


def _is_log_call(node: ast.AST) -> bool:
    """`_log.warning(...)`, whatever holds the logger."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LOG_METHODS):
        return False
    receiver = node.func.value
    name = receiver.attr if isinstance(receiver, ast.Attribute) else getattr(receiver, "id", "")
    return str(name).endswith(("log", "logger"))
