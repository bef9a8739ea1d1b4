"""Checks a per-node function when it is declared.

The author of a policy learns of a mistake when the module is loaded, with the function's line and a working example,
and not a minute later from the first pod.
"""

import inspect
import linecache
import re
from collections.abc import Callable
from types import CodeType
from typing import Any, Final

import msgspec

EXAMPLE: Final = '''\
    @plugin("PreferCheap")
    def score(pod: PodInfo, node: NodeInfo) -> int:          # points from 0 to 100
        return max(0, 100 - int(float(node.annotations.get("cost", "1")) * 100))

    @plugin("OnlyLinux")
    def filter(pod: PodInfo, node: NodeInfo) -> str | None:  # a reason to reject the node, or None
        return None if node.labels.get("kubernetes.io/os") == "linux" else "node(s) didn't run Linux"'''

_RETURNS: Final[dict[str, str]] = {
    "filter": "a reason to reject the node (str), or None where the pod may run there",
    "score": "points, an int from 0 to 100",
}
# Annotations that promise a wrong type.
_WRONG_RETURNS: Final[dict[str, frozenset[object]]] = {
    "filter": frozenset((bool, int, float, "bool", "int", "float", "Status")),
    "score": frozenset((bool, float, str, None, "bool", "float", "str", "None", "Status")),
}


class PluginDeclarationError(TypeError):
    """`@plugin` decorates something that cannot be a per-node plugin. The text shows two that work."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}. Two that work:\n\n{EXAMPLE}\n")
        self.problem = problem
        """In one line, without the examples."""


class Declaration(msgspec.Struct, frozen=True):
    """The kind of a per-node function and its parameters."""

    kind: str
    """`filter` or `score`."""
    takes_args: bool
    """Whether it takes the arguments of its `pluginConfig`."""
    args_kind: type[msgspec.Struct] | None = None
    """The struct that its `args` is annotated with."""
    written_at: str = ""
    """`FILE:LINE` of the function: read from its file now, which may be changed later."""


def declared(name: Any, function: Any, sign: Any = None) -> Declaration:
    """The declaration of a function. Raises `PluginDeclarationError`."""
    problem = _problem(name, function) or _sign_problem(sign)
    if problem:
        raise PluginDeclarationError(f"@plugin({name!r}), {place_of(function)}: {problem}")
    takes_args = _takes_args(inspect.signature(function))
    args_kind = _args_kind(function) if takes_args else None
    return Declaration(function.__name__, takes_args, args_kind, place_of(function))


def place_of(function: Any) -> str:
    """`file:line` of a function, for anything else its repr. Reads the file, unless `linecache` has it."""
    code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
    return f"{code.co_filename}:{_line_of(code)}" if code is not None else repr(function)


def _line_of(code: CodeType) -> int:
    """The line of `def`, where it can be read. The code itself says that of the first decorator, further up."""
    head = re.compile(rf"\s*(async\s+)?def\s+{re.escape(code.co_name)}\b")
    linecache.checkcache(code.co_filename)
    last = max((line for _, _, line in code.co_lines() if line is not None), default=code.co_firstlineno)
    lines = range(code.co_firstlineno, last + 1)
    return next((line for line in lines if head.match(linecache.getline(code.co_filename, line))), lines[0])


def _problem(name: Any, function: Any) -> str:
    """The problem, without a full stop; empty if there is none."""
    if not isinstance(name, str) or not name.strip():
        return 'a plugin needs a name, as in @plugin("PreferCheap")'
    if isinstance(function, type) or not callable(function) or getattr(function, "__name__", None) is None:
        return "it is for functions; a class is registered by itself: registry.register(name, factory)"
    called = function.__name__
    if called not in _RETURNS:
        return f"name the function `filter` or `score`, not `{called}`"
    if inspect.iscoroutinefunction(function):
        return f"`{called}` must not be `async`: it is called once per node, and nothing waits for it"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return f"`{called}` must return an answer, not yield"
    return _signature_problem(function) or _return_problem(called, function)


def _takes_args(signature: inspect.Signature) -> bool:
    parameter = signature.parameters.get("args")
    return parameter is not None and parameter.kind is not inspect.Parameter.VAR_POSITIONAL


def _args_kind(function: Callable[..., Any]) -> type[msgspec.Struct] | None:
    """The struct that `args` is annotated with; an annotation that cannot be evaluated is none of ours."""
    annotation = inspect.get_annotations(function).get("args")
    if isinstance(annotation, str):  # the module has `from __future__ import annotations`
        annotation = getattr(function, "__globals__", {}).get(annotation)
    return annotation if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct) else None


def _sign_problem(sign: Any) -> str:
    if sign is None:
        return ""
    if not callable(sign) or inspect.iscoroutinefunction(sign):
        return "`sign` is a function from a pod to what is read of it, as in sign=lambda pod: pod.labels.get('tier')"
    try:
        signature = inspect.signature(sign)
        signature.bind(object())
    except TypeError as mistake:
        return f"`sign` is called with (pod): {mistake}"
    except ValueError:  # no signature is known, of a builtin for example
        return ""
    return ""


def _signature_problem(function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    extra: dict[str, object] = {"args": {}} if _takes_args(signature) else {}
    try:
        signature.bind(object(), object(), **extra)
    except TypeError as mistake:
        called = function.__name__
        return f"`{called}{signature}` is called with (pod, node), and `args` if it names that: {mistake}"
    if list(signature.parameters)[:2] == ["node", "pod"]:
        return f"`{function.__name__}{signature}` is called with (pod, node), in this order"
    return ""


def _return_problem(called: str, function: Callable[..., Any]) -> str:
    annotation = getattr(function, "__annotations__", {}).get("return", inspect.Signature.empty)
    try:
        is_wrong = annotation in _WRONG_RETURNS[called]
    except TypeError:  # an annotation may be anything
        return ""
    declared_type = getattr(annotation, "__name__", str(annotation))
    return f"`{called}` is declared to return {declared_type}: return {_RETURNS[called]}" if is_wrong else ""
