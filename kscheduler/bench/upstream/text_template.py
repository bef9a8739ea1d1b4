"""Go's text/template, as far as scheduler_perf's files use it.

    {{.Index}} {{ Mod .Index 12 }}         fields of the data, functions, numbers, "strings", nil, true, false
    {{(or .count 1) | Int}}                pipelines and parentheses
    {{$n := or .count 10}} {{$n}}          variables
    {{if .a}} {{else if eq .b "x"}} {{else}} {{end}}
    {{with .a}} {{.}} {{else}} {{end}}
    {{range .n}} {{range $i := .n}} {{end}}    over a number or a list
    {{- .a -}} {{/* comment */}}

Functions are those that scheduler_perf adds, and Go's for comparisons and logic. Anything else is an error that names
it with its line. A field that the data does not have is nil, as in Go; to print it is an error here, where Go writes
`<no value>`.
"""

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec


class TextTemplateError(ValueError):
    """A template cannot be read or executed; the message has the line."""


# --- functions --------------------------------------------------------------------------------------------------------


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError(f"{_shown(value)} is not a number")
    return float(value)


def _divide(first: Any, second: Any) -> float:
    if _number(second) == 0:
        raise ValueError("division by zero")
    return _number(first) / _number(second)


def _mod(first: Any, second: Any) -> int:
    if int(_number(second)) == 0:
        raise ValueError("division by zero")
    return int(math.fmod(int(_number(first)), int(_number(second))))


def _add(*numbers: Any) -> float:
    return math.fsum(map(_number, numbers))


def _multiply(*numbers: Any) -> float:
    return math.prod(map(_number, numbers))


def _subtract(first: Any, second: Any) -> float:
    return _number(first) - _number(second)


def _integer(function: Callable[..., float]) -> Callable[..., int]:
    return lambda *numbers: int(function(*numbers))


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _first_true(*values: Any) -> Any:
    return next((value for value in values if value), values[-1])


def _first_false(*values: Any) -> Any:
    return next((value for value in values if not value), values[-1])


def _equals(first: Any, *others: Any) -> bool:
    return any(first == other for other in others)


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "AddFloat": _add,
        "AddInt": _integer(_add),
        "DivideFloat": _divide,
        "DivideInt": _integer(_divide),
        "Int": _integer(_number),
        "JSON": _json,
        "Mod": _mod,
        "MultiplyFloat": _multiply,
        "MultiplyInt": _integer(_multiply),
        "SubtractFloat": _subtract,
        "SubtractInt": _integer(_subtract),
        "and": _first_false,
        "eq": _equals,
        "ge": operator.ge,
        "gt": operator.gt,
        "le": operator.le,
        "lt": operator.lt,
        "ne": operator.ne,
        "not": operator.not_,
        "or": _first_true,
    }
)

# --- the tree ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Constant:
    value: Any


@dataclass(frozen=True, slots=True)
class _Field:
    """`.a.b`; without names, the dot itself."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str


@dataclass(frozen=True, slots=True)
class _Call:
    function: str
    arguments: tuple["_Expression", ...]
    line: int


_Expression: TypeAlias = _Constant | _Field | _Variable | _Call


@dataclass(frozen=True, slots=True)
class _Print:
    expression: _Expression
    line: int


@dataclass(frozen=True, slots=True)
class _Assign:
    name: str
    expression: _Expression


@dataclass(frozen=True, slots=True)
class _If:
    condition: _Expression
    then: tuple["_Node", ...]
    otherwise: tuple["_Node", ...]


@dataclass(frozen=True, slots=True)
class _With:
    """As `if`, with the value as the dot."""

    value: _Expression
    then: tuple["_Node", ...]
    otherwise: tuple["_Node", ...]


@dataclass(frozen=True, slots=True)
class _Range:
    over: _Expression
    index: str
    """The variable of the index; empty: none."""
    value: str
    """The variable of the value; empty: none."""
    body: tuple["_Node", ...]
    otherwise: tuple["_Node", ...]
    line: int


_Node: TypeAlias = str | _Print | _Assign | _If | _With | _Range

# --- reading ----------------------------------------------------------------------------------------------------------

_ACTION: Final = re.compile(r"\{\{(-\s)?(.*?)(\s-)?\}\}", re.DOTALL)
_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<string>"(?:[^"\\]|\\.)*"|`[^`]*`)
      | (?P<number>[-+]?\d+(?:\.\d+)?(?![\w.]))
      | (?P<variable>\$\w+)
      | (?P<field>\.(?:\w+(?:\.\w+)*)?)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<sign>:=|[|(),])
    )""",
    re.VERBOSE,
)
_WORDS: Final[Mapping[str, Any]] = MappingProxyType({"true": True, "false": False, "nil": None})


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str


class _Tokens:
    """The tokens of one action."""

    def __init__(self, text: str, line: int) -> None:
        self.line = line
        self._tokens = list(_tokens(text, line))
        self._next = 0

    def peek(self, ahead: int = 0) -> _Token:
        at = self._next + ahead
        return self._tokens[at] if at < len(self._tokens) else _Token("end", "")

    def take(self, text: str) -> bool:
        """Skip the next token if it has this text."""
        found = self.peek().text == text
        self._next += found
        return found

    def next(self) -> _Token:
        token = self.peek()
        self._next += 1
        return token

    def must_end(self) -> None:
        if self.peek().kind != "end":
            raise TextTemplateError(f"line {self.line}: {self.peek().text!r} is not expected here")


def _tokens(text: str, line: int) -> Iterator[_Token]:
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise TextTemplateError(f"line {line}: {text[at:end].strip()!r} is not understood")
        at = found.end()
        kind = str(found.lastgroup)
        yield _Token(kind, found[kind])


def _pipeline(tokens: _Tokens) -> _Expression:
    """`command | command`: the value of each is the last argument of the next."""
    piped = _command(tokens, None)
    while tokens.take("|"):
        piped = _command(tokens, piped)
    return piped


def _command(tokens: _Tokens, piped: _Expression | None) -> _Expression:
    token = tokens.peek()
    if token.kind == "word" and token.text not in _WORDS:
        tokens.next()
        if token.text not in _FUNCTIONS:
            raise TextTemplateError(f"line {tokens.line}: the function {token.text!r} is not known")
        arguments: list[_Expression] = []
        while tokens.peek().kind not in ("end", "sign") or tokens.peek().text == "(":
            arguments.append(_operand(tokens))
        if piped is not None:
            arguments.append(piped)
        return _Call(token.text, tuple(arguments), tokens.line)
    if piped is not None:
        raise TextTemplateError(f"line {tokens.line}: a function must follow '|', not {token.text!r}")
    return _operand(tokens)


def _operand(tokens: _Tokens) -> _Expression:
    token = tokens.next()
    match token.kind:
        case "string":
            quoted = token.text
            return _Constant(quoted[1:-1] if quoted.startswith("`") else msgspec.json.decode(quoted.encode()))
        case "number":
            return _Constant(float(token.text) if "." in token.text else int(token.text))
        case "variable":
            return _Variable(token.text)
        case "field":
            return _Field(tuple(filter(None, token.text.split("."))))
        case "word" if token.text in _WORDS:
            return _Constant(_WORDS[token.text])
        case "word" if token.text in _FUNCTIONS:
            return _Call(token.text, (), tokens.line)
        case "word":
            raise TextTemplateError(f"line {tokens.line}: the function {token.text!r} is not known")
        case "sign" if token.text == "(":
            inner = _pipeline(tokens)
            if not tokens.take(")"):
                raise TextTemplateError(f"line {tokens.line}: a parenthesis is not closed")
            return inner
    raise TextTemplateError(f"line {tokens.line}: a value is missing" + (f" at {token.text!r}" if token.text else ""))


class _Reader:
    """Reads a template's text from left to right."""

    def __init__(self, text: str) -> None:
        self._pieces = list(_pieces(text))
        self._next = 0

    def whole(self) -> tuple[_Node, ...]:
        nodes, ended = self._nodes()
        if ended is not None:
            raise TextTemplateError(f"line {ended.line}: {{{{{ended.peek().text}}}}} without a beginning")
        return nodes

    def _nodes(self) -> tuple[tuple[_Node, ...], _Tokens | None]:
        """Nodes up to an `else` or `end`, which is returned, or up to the end of the text."""
        nodes: list[_Node] = []
        while self._next < len(self._pieces):
            piece = self._pieces[self._next]
            self._next += 1
            if isinstance(piece, str):
                nodes.append(piece)
                continue
            if piece.peek().text in ("else", "end"):
                return tuple(nodes), piece
            nodes.append(self._action(piece))
        return tuple(nodes), None

    def _action(self, tokens: _Tokens) -> _Node:
        if tokens.take("if"):
            return self._condition(tokens)
        if tokens.take("with"):
            value = _pipeline(tokens)
            tokens.must_end()
            then, ended = self._nodes()
            return _With(value, then, self._otherwise(tokens.line, ended))
        if tokens.take("range"):
            return self._range(tokens)
        if tokens.peek().kind == "variable" and tokens.peek(1).text == ":=":
            name = tokens.next().text
            tokens.next()
            expression = _pipeline(tokens)
            tokens.must_end()
            return _Assign(name, expression)
        expression = _pipeline(tokens)
        tokens.must_end()
        return _Print(expression, tokens.line)

    def _condition(self, tokens: _Tokens) -> _If:
        condition = _pipeline(tokens)
        tokens.must_end()
        then, ended = self._nodes()
        return _If(condition, then, self._otherwise(tokens.line, ended))

    def _otherwise(self, began: int, ended: _Tokens | None) -> tuple[_Node, ...]:
        """What follows an `else`; empty after an `end`."""
        if ended is None:
            raise TextTemplateError(f"line {began}: {{{{end}}}} is missing")
        if ended.take("end"):
            return ()
        ended.take("else")
        if ended.take("if"):
            return (self._condition(ended),)
        ended.must_end()
        nodes, last = self._nodes()
        if last is None or not last.take("end"):
            raise TextTemplateError(f"line {began}: {{{{end}}}} is missing")
        return nodes

    def _range(self, tokens: _Tokens) -> _Range:
        names: list[str] = []
        if tokens.peek().kind == "variable" and tokens.peek(1).text in (":=", ","):
            names.append(tokens.next().text)
            if tokens.take(","):
                names.append(tokens.next().text)
            if not tokens.take(":="):
                raise TextTemplateError(f"line {tokens.line}: ':=' is missing")
        over = _pipeline(tokens)
        tokens.must_end()
        body, ended = self._nodes()
        otherwise = self._otherwise(tokens.line, ended)
        # A single variable is the value.
        index, value = names if len(names) == 2 else ("", *names, "")[:2]
        return _Range(over, index, value, body, otherwise, tokens.line)


def _pieces(text: str) -> Iterator[str | _Tokens]:
    """Texts and actions in turn, trimmed where an action says so."""
    at, trims = 0, False
    for action in _ACTION.finditer(text):
        before = text[at : action.start()]
        before = before.lstrip() if trims else before
        yield before.rstrip() if action[1] else before
        line = text.count("\n", 0, action.start()) + 1
        if not action[2].strip().startswith("/*"):
            yield _Tokens(action[2], line)
        at, trims = action.end(), bool(action[3])
    rest = text[at:]
    if "{{" in rest:
        raise TextTemplateError(f"line {text.count(chr(10), 0, at + rest.index('{{')) + 1}: '{{{{' is not closed")
    yield rest.lstrip() if trims else rest


# --- executing --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _read(text: str) -> tuple[_Node, ...]:
    return _Reader(text).whole()


def check(text: str) -> None:
    """Raises `TextTemplateError` if the template cannot be read."""
    _read(text)


def is_constant(text: str) -> bool:
    """Whether the template is text without actions."""
    return "{{" not in text


def execute(text: str, data: Mapping[str, Any]) -> str:
    """The text that the template makes of the data. Raises `TextTemplateError`."""
    out: list[str] = []
    _write(_read(text), data, {}, out)
    return "".join(out)


def _write(nodes: tuple[_Node, ...], dot: Any, variables: dict[str, Any], out: list[str]) -> None:
    for node in nodes:
        match node:
            case str():
                out.append(node)
            case _Print(expression, line):
                out.append(_printed(_value(expression, dot, variables), expression, line))
            case _Assign(name, expression):
                variables[name] = _value(expression, dot, variables)
            case _If(condition, then, otherwise):
                # A copy: what a branch declares ends with it.
                _write(then if _value(condition, dot, variables) else otherwise, dot, dict(variables), out)
            case _With(expression, then, otherwise):
                value = _value(expression, dot, variables)
                _write(then if value else otherwise, value or dot, dict(variables), out)
            case _Range():
                _repeat(node, dot, variables, out)


def _repeat(node: _Range, dot: Any, variables: dict[str, Any], out: list[str]) -> None:
    over = _value(node.over, dot, variables)
    if isinstance(over, bool) or not isinstance(over, int | list | None):
        raise TextTemplateError(
            f"line {node.line}: range over {_shown(over)}, which is neither a whole number nor a list"
        )
    items = range(over) if isinstance(over, int) else over or ()
    for index, item in enumerate(items):
        inner = dict(variables)
        inner |= {name: value for name, value in ((node.index, index), (node.value, item)) if name}
        _write(node.body, item, inner, out)
    if not items:
        _write(node.otherwise, dot, dict(variables), out)


def _value(expression: _Expression, dot: Any, variables: Mapping[str, Any]) -> Any:
    match expression:
        case _Constant(value):
            return value
        case _Field(names):
            return reduce(lambda value, name: value.get(name) if isinstance(value, Mapping) else None, names, dot)
        case _Variable(name):
            if name not in variables:
                raise TextTemplateError(f"the variable {name} is not declared")
            return variables[name]
        case _Call(function, arguments, line):
            values = [_value(argument, dot, variables) for argument in arguments]
            try:
                return _FUNCTIONS[function](*values)
            except (ValueError, TypeError, IndexError) as error:
                shown = " ".join(map(_shown, values))
                raise TextTemplateError(f"line {line}: {function} {shown}: {error}") from None


def _printed(value: Any, expression: _Expression, line: int) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | str):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    name = f".{'.'.join(expression.names)}" if isinstance(expression, _Field) else "a value"
    if value is None:
        raise TextTemplateError(f"line {line}: {name} is not set")
    raise TextTemplateError(f"line {line}: {name} is {_shown(value)}, which cannot be printed: use JSON")


def _shown(value: Any) -> str:
    return _json(value)
