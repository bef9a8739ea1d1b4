"""Plain per-node functions as columnar plugins: a policy in a few lines of Python.

    @plugin("PreferCheap")
    def score(pod: PodInfo, node: NodeInfo) -> int:
        return 100 - int(float(node.annotations.get("cost", "1")) * 100)

The function's name says what it is: `filter` returns a reason to reject (or `None`), `score` returns points. It is
called once per row, which costs about a microsecond a node: fine for hundreds of nodes, and a columnar plugin is always
the way out. Points are clamped to 0..100, so a policy cannot end a cycle by overshooting.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.node_info import NodeInfo
from kscheduler.framework.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.plugin import MAX_NODE_SCORE, MIN_NODE_SCORE, Plugin, status_of_code
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.status import Status

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
    """A filter made of a function that looks at one node."""

    def __init__(self, name: str, function: FilterFunction) -> None:
        self.name = name
        self._function = function

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        """Call the function for each row."""
        reasons = cycle.find(_Reasons) or _Reasons()
        cycle.write(reasons)
        codes = (reasons.number(self._function(pod, nodes.info(row))) for row in rows.tolist())
        return np.fromiter(codes, dtype=np.int64, count=len(rows))

    def status(self, cycle: CycleState, code: int) -> Status:
        """The text that the function gave."""
        return status_of_code(code, (cycle.read(_Reasons).texts[code - 1],), self.name)


class PerNodeScore(Plugin):
    """A score made of a function that looks at one node."""

    def __init__(self, name: str, function: ScoreFunction) -> None:
        self.name = name
        self._function = function

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """Call the function for each row."""
        del cycle
        points = (_clamped(self._function(pod, nodes.info(row))) for row in rows.tolist())
        return np.fromiter(points, dtype=np.int64, count=len(rows))


def _clamped(points: float) -> int:
    return int(max(MIN_NODE_SCORE, min(points, MAX_NODE_SCORE)))


class PerNodeFactory:
    """Builds a per-node plugin for each profile that enables it: what `@plugin` leaves in the module."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        shape = _SHAPES.get(function.__name__)
        if shape is None:
            raise ValueError(f"@plugin({name!r}): name the function `filter` or `score`, not `{function.__name__}`")
        self.name = name
        self._shape = shape
        self._function = function

    def __call__(self, args: Any, handle: Handle) -> Plugin:
        """Build the plugin; a plain function takes neither arguments nor a handle."""
        del args, handle
        return self._shape(self.name, self._function)


_SHAPES: dict[str, type[PerNodeFilter] | type[PerNodeScore]] = {"filter": PerNodeFilter, "score": PerNodeScore}


def plugin(name: str) -> Callable[[Callable[..., Any]], PerNodeFactory]:
    """Make a plugin of a function called `filter` or `score`. Raises `ValueError` for any other name."""
    return lambda function: PerNodeFactory(name, function)
