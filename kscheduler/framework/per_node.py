"""Plain per-node functions as columnar plugins: a policy in a few lines of Python.

    @plugin("PreferCheap")
    def score(pod: PodInfo, node: NodeInfo) -> int:
        return max(0, 100 - int(float(node.annotations.get("cost", "1")) * 100))

The function's name says what it is: `filter` returns a reason to turn the node down, or `None` where the pod may run
there; `score` returns whole points from 0 to 100. A third parameter `args` gets the plugin's `pluginConfig` arguments,
a mapping that is empty without any; a function without it refuses arguments.

The function's shape is checked when it is declared (`PluginDeclarationError`), its return value at each call: a wrong
type or points out of range fail the pod's attempt with a message that names plugin, node and value. Nothing is rounded,
clamped or converted.

The function is called once per row, which costs about a microsecond a node: fine for hundreds of nodes; for more, write
a columnar plugin. Pods and nodes are objects of the scheduler's own cache: read them, never write to them.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.per_node_declaration import PluginDeclarationError, declared, place_of
from kscheduler.framework.plugin import MAX_NODE_SCORE, MIN_NODE_SCORE, Plugin, status_of_code
from kscheduler.framework.plugin_answers import WrongAnswerError, shown
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Status

__all__ = ["PerNodeFactory", "PerNodeFilter", "PerNodeScore", "PluginDeclarationError", "plugin"]

FilterFunction = Callable[[PodInfo, NodeInfo], str | None]
ScoreFunction = Callable[[PodInfo, NodeInfo], int]


class _Reasons:
    """The texts of one cycle, numbered from 1."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._number_of: dict[str, int] = {}

    def number(self, text: str | None) -> int:
        if text is None:
            return 0
        if text not in self._number_of:
            self.texts.append(text)
            self._number_of[text] = len(self.texts)
        return self._number_of[text]


class PerNodeFilter(Plugin):
    """A filter made of a function for a single node."""

    def __init__(self, name: str, function: FilterFunction) -> None:
        self.name = name
        self._function = function

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        """Call the function for each row; int64 codes in the shape of `rows`. Raises `WrongAnswerError`."""
        reasons = cycle.find(_Reasons) or _Reasons()
        cycle.write(reasons)
        codes = (reasons.number(self._reason(pod, nodes.info(row))) for row in rows.tolist())
        return np.fromiter(codes, dtype=np.int64, count=len(rows))

    def _reason(self, pod: PodInfo, node: NodeInfo) -> str | None:
        reason: object = _called(self._function, pod, node)
        if reason is None or (isinstance(reason, str) and reason):
            return reason
        expected = "the reason to turn the node down (a str that says something), or None where the pod may run there"
        raise WrongAnswerError(f"for node {node.name} it returned {shown(reason)}: return {expected}")

    def status(self, cycle: CycleState, code: int) -> Status:
        """The text that the function gave."""
        return status_of_code(code, (cycle.read(_Reasons).texts[code - 1],), self.name)


class PerNodeScore(Plugin):
    """A score made of a function for a single node."""

    def __init__(self, name: str, function: ScoreFunction) -> None:
        self.name = name
        self._function = function

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """Call the function for each row; int64 points in the shape of `rows`. Raises `WrongAnswerError`."""
        del cycle
        points = (self._points(pod, nodes.info(row)) for row in rows.tolist())
        return np.fromiter(points, dtype=np.int64, count=len(rows))

    def _points(self, pod: PodInfo, node: NodeInfo) -> int:
        points: object = _called(self._function, pod, node)
        if type(points) is not int and not isinstance(points, np.integer):  # a bool is an int, and no number of points
            raise WrongAnswerError(f"for node {node.name} it returned {shown(points)}: return points, {_POINTS}")
        if not MIN_NODE_SCORE <= points <= MAX_NODE_SCORE:
            text = f"it returns an invalid score {shown(points)} for node {node.name}"
            raise WrongAnswerError(f"{text}, it should be in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}]")
        return int(points)


_POINTS: Final = f"an int from {MIN_NODE_SCORE} to {MAX_NODE_SCORE}"


def _called(function: Callable[[PodInfo, NodeInfo], object], pod: PodInfo, node: NodeInfo) -> object:
    """The function's answer for a node; an exception goes on to the plugin runtime, with the node's name."""
    try:
        return function(pod, node)
    except BaseException as failure:
        failure.add_note(f"asked about node {node.name}")
        raise WrongAnswerError(f"for node {node.name} it raised {type(failure).__name__}: {failure}") from failure


CALLS_THE_USERS_FUNCTION: Final = (_called.__code__,)
"""Where this module calls a user's function: what runs below it is the plugin's own code."""


class PerNodeFactory:
    """Builds a per-node plugin for each profile that enables it: what `@plugin` leaves in the module."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        """Raises `PluginDeclarationError` for a function that cannot be a per-node plugin."""
        declaration = declared(name, function)
        self.name = name
        self._takes_args = declaration.takes_args
        self._shape = _SHAPES[declaration.kind]
        self._function = function

    def __repr__(self) -> str:
        return f"@plugin({self.name!r}) {self._function.__name__} ({place_of(self._function)})"

    def __call__(self, args: Any, handle: Handle) -> Plugin:
        """Build the plugin. Raises `ValueError` for arguments if the function has no parameter for them."""
        del handle
        if not self._takes_args:
            if args:
                where = f"`{self._function.__name__}` ({place_of(self._function)})"
                raise ValueError(f"it takes no arguments: give {where} a third parameter `args` to get {shown(args)}")
            return self._shape(self.name, self._function)
        arguments: Mapping[str, object] = MappingProxyType(dict(args or {}))
        return self._shape(self.name, partial(self._function, args=arguments))


_SHAPES: Final[dict[str, type[PerNodeFilter] | type[PerNodeScore]]] = {"filter": PerNodeFilter, "score": PerNodeScore}


def plugin(name: str) -> Callable[[Callable[..., Any]], PerNodeFactory]:
    """Make a plugin of a function called `filter` or `score`. Raises `PluginDeclarationError` for anything else."""
    if not isinstance(name, str):
        declared(None, name)  # type: ignore[unreachable]  # a bare `@plugin`, without a name
    return lambda function: PerNodeFactory(name, function)
