"""Type checks for the results of plugins.

Python checks no types when a plugin runs: `None` for a Status, a bool for a reason or a coroutine for points would
cause an error later, with a message that names neither the plugin nor the mistake. So each result is checked inside the
guard around the call (`scheduling.runtime`), and a wrong type is a failure of that plugin like any exception.
"""

from collections.abc import Iterable
from inspect import iscoroutine
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.status import Code, Status

T = TypeVar("T")

# What the names of modules made of plugin files begin with.
FILE_MODULES: Final = "kscheduler_plugin_"
_LONGEST_SHOWN: Final = 80
_INT64: Final = np.dtype(np.int64)
_LARGEST: Final = 2**63 - 1


class WrongAnswerError(TypeError):
    """A plugin's result has a type that its extension point does not allow."""

    written_at = ""
    """`FILE:LINE` of the function that gave it, if that is known: no line of it is in the traceback."""


class PartialAnswerError(WrongAnswerError):
    """A plugin has answered for some of the nodes, and failed for the others. Its cause is the first failure."""

    def __init__(
        self,
        text: str,
        answers: NDArray[np.int64],
        is_known: NDArray[np.bool_],
        *,
        are_final: bool = False,
        has_kept: bool = False,
    ) -> None:
        """`answers`: an entry per node that was asked about, of use where `is_known` (of the same shape) is set.

        `are_final`: points that are normalised already. `has_kept`: the plugin was asked about some nodes only, since
        its answers for others are kept.
        """
        super().__init__(text)
        self.answers = answers
        self.is_known = is_known
        self.are_final = are_final
        self.has_kept = has_kept

    @property
    def has_partial_results(self) -> bool:
        """Whether the plugin has a result for at least one node."""
        return self.has_kept or bool(self.is_known.any())


class NotCalledError(Exception):
    """The plugin was not called: what it did to this pod or its namespace before has not been forgotten yet."""

    def __init__(self, text: str, *, is_hold: bool = False) -> None:
        """`is_hold`: it is held back, and called again at a time that is known."""
        super().__init__(text)
        self.is_hold = is_hold


class CallEndedError(BaseException):
    """A plugin's call was ended from outside. The text is a sentence about the plugin: it has raised nothing.

    No `Exception`: an `except Exception` in the plugin must not swallow it.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.nodes = 0
        """How many nodes the plugin was asked about; 0: about none, or it is not known."""
        self.node = ""
        """The node that a function was looking at which is called once per node."""
        self.answered = 0
        """For how many nodes that function had answered."""

    def __str__(self) -> str:
        text = super().__str__()
        if self.node:
            return f"{text}{progress(self.node, self.answered, self.nodes)}"
        return f"{text} for {self.nodes} nodes" if self.nodes else text


def progress(node: str, answered: int, nodes: int) -> str:
    """How far a function came that is called once per node, for the end of a sentence about it."""
    return f", while looking at node {node}; it had answered for {answered} of {nodes} nodes"


# Up to so many nodes each one is tried.
_FEW_NODES: Final = 8


def probes(number: int) -> tuple[int, ...]:
    """Where to try a plugin again that has failed for this many nodes: the first of them, the middle one, the last.

    If it fails there, too, it fails for the pod: a few bad nodes are hardly just these. Of few nodes they may be, so
    that each is tried.
    """
    return tuple(range(number)) if number <= _FEW_NODES else (0, number // 2, number - 1)


def checked(result: Any, kind: type[T]) -> T:
    """The result, if it is an instance of `kind`. Raises `WrongAnswerError`."""
    if isinstance(result, kind):
        return result
    raise WrongAnswerError(f"it returned {shown(result)}, expected {kind.__name__}")


def checked_status(result: Any) -> Status:
    """The result, if it is a Status whose code and reasons can be read. Raises `WrongAnswerError`."""
    status = result if type(result) is Status else checked(result, Status)
    code: object = status.code
    reasons: object = status.reasons
    if type(code) is not Code:  # an enumeration with members has no subclasses
        raise WrongAnswerError(f"it returned a Status with code {shown(code)}, expected a Code")
    if not isinstance(reasons, tuple) or [reason for reason in reasons if not isinstance(reason, str)]:
        raise WrongAnswerError(f"it returned a Status with reasons {shown(reasons)}, expected a tuple of texts")
    return status


def checked_each(results: Any, kind: type[T]) -> tuple[T, ...]:
    """The result as a tuple, if it can be iterated and holds nothing but `kind`. Raises `WrongAnswerError`."""
    if isinstance(results, str | bytes) or not isinstance(results, Iterable):
        raise WrongAnswerError(f"it returned {shown(results)}, expected several {kind.__name__}")
    found = tuple(results)
    for result in found:
        if not isinstance(result, kind):
            checked(result, kind)
    return found


def checked_nothing(result: Any) -> None:
    """Check a call that should return nothing: only a coroutine, which is never awaited, raises `WrongAnswerError`."""
    if iscoroutine(result):
        raise WrongAnswerError(f"it returned {shown(result)}, which is never awaited")


def checked_column(result: Any, rows: Rows, what: str) -> NDArray[np.int64]:
    """The result as int64 in the shape of `rows`, if it has an integer per row. Raises `WrongAnswerError`.

    `what`: `codes` or `points`, for the message.
    """
    if type(result) is np.ndarray and result.dtype is _INT64 and result.shape == rows.shape:
        return result
    if not isinstance(result, np.ndarray):
        raise WrongAnswerError(f"it returned {shown(result)}, expected an int64 array of {what}")
    if result.shape != rows.shape:
        raise WrongAnswerError(f"it returned an array of shape {result.shape} for {len(rows)} nodes")
    if result.dtype.kind not in "iu":
        raise WrongAnswerError(f"it returned an array of {result.dtype}, expected int64 {what}")
    if result.dtype.kind == "u" and result.size and int(result.max()) > _LARGEST:
        raise WrongAnswerError(f"it returned {int(result.max())} among its {what}, beyond int64")
    return result.astype(np.int64)  # a narrower type would overflow when it is weighted


def text_of(failure: BaseException) -> str:
    """The exception's text. Never raises: an exception of a plugin's own may have a `__str__` with a bug."""
    try:
        return str(failure)
    except BaseException as bug:  # noqa: BLE001  the plugin's code
        return f"(its text cannot be made: {type(bug).__name__})"


def kind_and_text(failure: BaseException) -> str:
    """`ValueError: boom`, or `MemoryError` of one without a text. Never raises."""
    text = text_of(failure)
    return f"{type(failure).__name__}: {text}" if text else type(failure).__name__


def place_in_file(failure: BaseException) -> str:
    """`tens.py:6`, the line of a plugin's own file that the failure came from; empty for a plugin that is imported.

    Of a result of the wrong type: where the function begins that gave it.
    """
    while failure.__cause__ is not None:
        failure = failure.__cause__
    place, trace = "", failure.__traceback__
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__", "")).startswith(FILE_MODULES):
            place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    if not place and isinstance(failure, WrongAnswerError) and failure.written_at.rpartition(":")[2].isdigit():
        return Path(failure.written_at).name
    return place


def with_place(text: str, failure: BaseException) -> str:
    """A text about the failure, with the place in the plugin's own file, once."""
    place = place_in_file(failure)
    return f"{text} ({place})" if place and f"({place})" not in text else text


def words_of(failure: BaseException) -> str:
    """What a plugin raised, for a message: the text; for a non-error such as `sys.exit()` also the type."""
    if isinstance(failure, Exception | CallEndedError):
        return text_of(failure)
    return f"it raised {kind_and_text(failure)}"


def shown(value: Any) -> str:
    """A value for a message, with its type unless that is obvious; at most a line long."""
    if iscoroutine(value):
        value.close()  # else Python warns later, elsewhere, that it was never awaited
        return "a coroutine (is the method declared with `async def`?)"
    try:
        text = repr(value)
    except BaseException:  # noqa: BLE001  a class of the plugin may have a broken `__repr__`
        return f"a {type(value).__name__}"
    text = " ".join(text.split())  # an array's text has several lines
    text = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
    return text if value is None or isinstance(value, bool | int | float | str) else f"{text} ({type(value).__name__})"
