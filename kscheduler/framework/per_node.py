"""Plain per-node functions as columnar plugins: a policy in a few lines of Python.

    @plugin("PreferCheap")
    def score(pod: PodInfo, node: NodeInfo) -> int:
        return max(0, 100 - int(float(node.annotations.get("cost", "1")) * 100))

The function's name says what it is: `filter` returns a reason to reject the node, or `None` where the pod may run
there; `score` returns whole points from 0 to 100. A third parameter `args` gets the plugin's `pluginConfig` arguments:
a mapping that is empty without any or, if the parameter is annotated with a `msgspec.Struct`, such a struct, checked
when the configuration is read. A function without it refuses arguments.

The function's shape is checked when it is declared (`PluginDeclarationError`), its return value at each call. An
exception, a wrong type or points out of range concern that node alone (`PartialAnswerError`): it gets no points from
the function, or no pod, and a message names plugin, node and value. Nothing is rounded, clamped or converted. A
function that fails for each of the first nodes it is tried on fails for the pod, and is asked about no more nodes:
the message blames no node then, and says at which one it was looking.

The function is called once per row, which costs about a microsecond a node: fine for hundreds of nodes. With `sign` its
results are kept, and it is called again only for nodes that have changed:

    @plugin("PreferTier", sign=lambda pod: pod.labels.get("tier"))

promises that the result depends on the node, on the pods there, and of the pod on what `sign` returns. For tens of
thousands of nodes, write a columnar plugin. Pods and nodes are objects of the scheduler's own cache: read them, never
write to them.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Final

import msgspec
import numpy as np

from kscheduler.api.meta import KubeObject
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.decision_time import DecisionEndedError
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.per_node_declaration import PluginDeclarationError, declared
from kscheduler.framework.plugin import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    Plugin,
    Signature,
    Source,
    status_of_code,
)
from kscheduler.framework.plugin_results import (
    CallEndedError,
    PartialAnswerError,
    WrongAnswerError,
    probes,
    progress,
    shown,
)
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Status

__all__ = [
    "KeptPerNodeFilter",
    "KeptPerNodeScore",
    "PerNodeFactory",
    "PerNodeFilter",
    "PerNodeScore",
    "PluginDeclarationError",
    "plugin",
]

# Where a module keeps what `@plugin` has declared in it. A module may declare two functions called `score`, and its
# namespace keeps the second only.
DECLARED: Final = "__kscheduler_plugins__"

FilterFunction = Callable[[PodInfo, NodeInfo], str | None]
ScoreFunction = Callable[[PodInfo, NodeInfo], int]
# From a pod to the part of it that the function reads.
Sign = Callable[[PodInfo], Signature]


# Different texts that a kept filter may answer with: a text that names each node, in clusters that come and go.
MAX_REASONS: Final = 10_000
# The text in place of any further one.
ONE_OF_MANY: Final = "node(s) didn't pass, for one of too many reasons to keep"


class _Reasons:
    """The texts of one cycle, or of a plugin whose results are kept, numbered from 1."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._number_of: dict[str, int] = {}

    def number(self, text: str | None) -> int:
        if text is None:
            return 0
        if text not in self._number_of:
            if len(self.texts) >= MAX_REASONS:
                text = ONE_OF_MANY
                if text in self._number_of:
                    return self._number_of[text]
            self.texts.append(text)
            self._number_of[text] = len(self.texts)
        return self._number_of[text]


class PerNodeFilter(Plugin):
    """A filter made of a function for a single node."""

    def __init__(self, name: str, function: FilterFunction, written_at: str = "") -> None:
        self.name = name
        self.written_at = written_at
        """`FILE:LINE` of the function."""
        self._function = function

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        """Call the function for each row; int64 codes in the shape of `rows`. Raises `WrongAnswerError`."""
        reasons = cycle.find(_Reasons) or _Reasons()
        cycle.write(reasons)
        return _answers(self._reason, reasons.number, pod, nodes, rows)

    def _reason(self, pod: PodInfo, node: NodeInfo) -> str | None:
        reason: object = _called(self._function, pod, node)
        if reason is None or (isinstance(reason, str) and reason):
            return reason
        expected = "the reason to reject the node (a str that says something), or None where the pod may run there"
        raise _FailedForNodeError(node, f"it returned {shown(reason)}", f": return {expected}", self.written_at)

    def status(self, cycle: CycleState, code: int) -> Status:
        """The text that the function gave."""
        return status_of_code(code, (cycle.read(_Reasons).texts[code - 1],), self.name)


class KeptPerNodeFilter(PerNodeFilter):
    """A filter whose codes are kept for all pods that are signed alike: a code means the same text in every cycle."""

    depends_on: ClassVar[tuple[Source, ...]] = (Source.ROW,)

    def __init__(self, name: str, function: FilterFunction, sign: Sign, written_at: str = "") -> None:
        super().__init__(name, function, written_at)
        self._sign = sign
        self._reasons = _Reasons()

    def sign(self, pod: PodInfo) -> Signature:
        """What the author says that the function reads of the pod."""
        return self._sign(pod)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        """Call the function for each row; int64 codes in the shape of `rows`. Raises `WrongAnswerError`."""
        del cycle
        return _answers(self._reason, self._reasons.number, pod, nodes, rows)

    def status(self, cycle: CycleState, code: int) -> Status:
        """The text that the function gave."""
        del cycle
        return status_of_code(code, (self._reasons.texts[code - 1],), self.name)


class PerNodeScore(Plugin):
    """A score made of a function for a single node."""

    def __init__(self, name: str, function: ScoreFunction, written_at: str = "") -> None:
        self.name = name
        self.written_at = written_at
        """`FILE:LINE` of the function."""
        self._function = function

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """Call the function for each row; int64 points in the shape of `rows`. Raises `WrongAnswerError`."""
        del cycle
        return _answers(self._points, int, pod, nodes, rows)

    def _points(self, pod: PodInfo, node: NodeInfo) -> int:
        points: object = _called(self._function, pod, node)
        if type(points) is not int and not isinstance(points, np.integer):  # a bool is an int, and no number of points
            text = f"it returned {shown(points)}"
            raise _FailedForNodeError(node, text, f": return points, {_POINTS}", self.written_at)
        if not MIN_NODE_SCORE <= points <= MAX_NODE_SCORE:
            text = f"it returns an invalid score {shown(points)}"
            bounds = f", it should be in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}]"
            raise _FailedForNodeError(node, text, bounds, self.written_at)
        return points  # type: ignore[return-value]  # `_answers` makes an int of it


class KeptPerNodeScore(PerNodeScore):
    """A score whose points are kept for all pods that are signed alike."""

    depends_on: ClassVar[tuple[Source, ...]] = (Source.ROW,)

    def __init__(self, name: str, function: ScoreFunction, sign: Sign, written_at: str = "") -> None:
        super().__init__(name, function, written_at)
        self._sign = sign

    def sign(self, pod: PodInfo) -> Signature:
        """What the author says that the function reads of the pod."""
        return self._sign(pod)


_POINTS: Final = f"an int from {MIN_NODE_SCORE} to {MAX_NODE_SCORE}"


class _FailedForNodeError(WrongAnswerError):
    """The function has failed while it looked at a node. The text blames the node: others may have a result."""

    def __init__(self, node: NodeInfo, what: str, advice: str = "", written_at: str = "") -> None:
        """`what`: what it did, in words; `advice`: what it should have done. `written_at`: of the function."""
        super().__init__(f"for node {node.name} {what}{advice}")
        self.written_at = written_at
        self._node = node.name
        self._what = what
        self._advice = advice

    def for_the_pod(self, nodes: int) -> WrongAnswerError:
        """The same, where the function has failed for each of the `nodes` that it was tried on: none is to blame."""
        tried = "; it failed for each node that it was tried on" if nodes > 1 else ""
        failure = WrongAnswerError(f"{self._what}, while looking at node {self._node}{self._advice}{tried}")
        failure.written_at = self.written_at
        failure.__cause__ = self.__cause__
        return failure


class _EndedCallError(WrongAnswerError):
    """The function did not fail by an `Exception`: it has called `sys.exit()`, for example."""

    def __init__(self, node: str, failure: BaseException) -> None:
        super().__init__(f"it raised {type(failure).__name__}: {failure}")
        self.node = node


# A user's function with the check of its result. Raises `WrongAnswerError`.
PerNodeFunction = Callable[[PodInfo, NodeInfo], Any]


def _answers(
    ask: PerNodeFunction, number: Callable[[Any], int], pod: PodInfo, nodes: NodeTable, rows: Rows
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The number of each row's result. Raises `PartialAnswerError` with those of the nodes where it did not fail.

    Raises `WrongAnswerError` where it fails for every node that it is tried on, or by no `Exception`, and
    `CallEndedError` where it was ended at its time budget.
    """
    failures: dict[int, _FailedForNodeError | None] = {}
    numbers = np.fromiter(_each(ask, number, pod, nodes, rows, failures), dtype=np.int64, count=len(rows))
    if not failures:
        return numbers
    is_known = np.ones(len(rows), dtype=np.bool_)
    is_known[list(failures)] = False
    first = next(iter(failures.values()))
    raise PartialAnswerError(str(first), numbers, is_known) from first


def _each(
    ask: PerNodeFunction,
    number: Callable[[Any], int],
    pod: PodInfo,
    nodes: NodeTable,
    rows: Rows,
    failures: dict[int, _FailedForNodeError | None],
) -> Iterator[int]:
    """The numbers, row by row; 0 where the function fails.

    The places of these rows become keys of `failures`, the first one with what was raised. What ends the whole call
    says how far it came: the time budget is for all nodes.
    """
    info, place = nodes.info, 0
    try:
        for place, row in enumerate(rows.tolist()):
            try:
                yield number(ask(pod, info(row)))
            except _FailedForNodeError as failure:
                if not (failures or _answers_for_one(ask, pod, nodes, rows)):
                    raise failure.for_the_pod(len(rows)) from failure.__cause__
                failure.__traceback__ = None  # it refers to this frame, and this frame to it
                failures[place] = None if failures else failure
                yield 0
    except CallEndedError as ended:
        ended.answered, ended.nodes = place - len(failures), len(rows)
        raise
    except _EndedCallError as ended:
        came = progress(ended.node, place - len(failures), len(rows))
        raise WrongAnswerError(f"{ended}{came}") from ended.__cause__


def _answers_for_one(ask: PerNodeFunction, pod: PodInfo, nodes: NodeTable, rows: Rows) -> bool:
    """Whether the function answers for the first, the middle or the last of the nodes.

    If not, it fails for the pod, and would raise for each of 5,000 nodes.
    """
    for place in probes(len(rows)):
        try:
            ask(pod, nodes.info(rows.item(place)))
        except _FailedForNodeError:
            continue
        return True
    return False


def _called(function: Callable[[PodInfo, NodeInfo], object], pod: PodInfo, node: NodeInfo) -> object:
    """The function's result for a node; an exception goes on to the plugin runtime, with the node's name."""
    try:
        return function(pod, node)
    except DecisionEndedError:
        raise
    except CallEndedError as ended:
        ended.node = node.name
        raise
    except BaseException as failure:
        failure.add_note(f"asked about node {node.name}")
        if not isinstance(failure, Exception):
            raise _EndedCallError(node.name, failure) from failure
        raise _FailedForNodeError(node, f"it raised {type(failure).__name__}: {failure}") from failure


# Where this module calls a user's function: what runs below it is the plugin's own code.
CALLS_THE_USERS_FUNCTION: Final = (_called.__code__,)


class PerNodeFactory:
    """Builds a per-node plugin for each profile that enables it: what `@plugin` leaves in the module."""

    def __init__(self, name: str, function: Callable[..., Any], sign: Sign | None = None) -> None:
        """Raises `PluginDeclarationError` for a function that cannot be a per-node plugin."""
        declaration = declared(name, function, sign)
        self.name = name
        self.args_kind: type[msgspec.Struct] | None = declaration.args_kind
        """The struct that the function's `args` is annotated with; `None`: it gets a plain mapping."""
        self._takes_args = declaration.takes_args
        self._kind = declaration.kind
        self._written_at = declaration.written_at
        self._function = function
        self._sign = sign
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        return f"@plugin({self.name!r}) {self._function.__name__} ({self._written_at})"

    def __call__(self, args: Any, handle: Handle) -> Plugin:
        """Build the plugin. Raises `ValueError` for arguments if the function has no parameter for them.

        Raises `TypeError` where it is called with a pod and a node, as the function was before it became a plugin.
        """
        if isinstance(args, KubeObject | PodInfo) or isinstance(handle, KubeObject | NodeInfo):
            ask = "points" if self._kind == "score" else "node_for"
            raise TypeError(
                f"`{self._function.__name__}` is the plugin {self.name} now, and a cluster calls it: in a test "
                f"`Cluster(node).enable({self._function.__name__}).{ask}(pod{f', {self.name!r}' * (ask == 'points')})` "
                "of kscheduler.testing"
            )
        del handle
        if not self._takes_args:
            if args:
                where = f"`{self._function.__name__}` ({self._written_at})"
                raise ValueError(f"it takes no arguments: give {where} a third parameter `args` to get {shown(args)}")
            return self._built(self._function)
        if self.args_kind is not None:
            # raises msgspec's ValidationError, a ValueError, where an argument without default is missing
            given = msgspec.convert({}, self.args_kind) if args is None else args
            return self._built(partial(self._function, args=given))
        arguments: Mapping[str, object] = MappingProxyType(dict(args or {}))
        return self._built(partial(self._function, args=arguments))

    def _built(self, function: Callable[..., Any]) -> Plugin:
        if self._sign is None:
            return _SHAPES[self._kind](self.name, function, self._written_at)
        return _KEPT_SHAPES[self._kind](self.name, function, self._sign, self._written_at)


_SHAPES: Final[dict[str, type[PerNodeFilter] | type[PerNodeScore]]] = {"filter": PerNodeFilter, "score": PerNodeScore}
_KEPT_SHAPES: Final[dict[str, type[KeptPerNodeFilter] | type[KeptPerNodeScore]]] = {
    "filter": KeptPerNodeFilter,
    "score": KeptPerNodeScore,
}


def plugin(name: str, *, sign: Sign | None = None) -> Callable[[Callable[..., Any]], PerNodeFactory]:
    """Make a plugin of a function called `filter` or `score`. Raises `PluginDeclarationError` for anything else.

    `sign`: from a pod to what the function reads of it (a label, say); the results are then kept for all pods with
    equal signatures, and the function is called again only for nodes that have changed.
    """
    if not isinstance(name, str):
        declared(None, name)  # type: ignore[unreachable]  # a bare `@plugin`, without a name

    def decorated(function: Callable[..., Any]) -> PerNodeFactory:
        factory = PerNodeFactory(name, function, sign)
        getattr(function, "__globals__", {}).setdefault(DECLARED, []).append(factory)
        return factory

    return decorated
