"""Whether a plugin answered with the type that its extension point asks for.

Nothing checks types when a plugin runs: `None` for a Status, a bool for a reason or a coroutine for points would be
noticed somewhere later, in words that name neither the plugin nor the mistake. So each answer is looked at inside the
guard around the call (`scheduling.runtime`), and a wrong type is a failure of that plugin like any exception.
"""

from inspect import iscoroutine
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.nodes.node_table import Rows

T = TypeVar("T")

_LONGEST_SHOWN: Final = 80
_INT64: Final = np.dtype(np.int64)


class WrongAnswerError(TypeError):
    """A plugin answered with something that its extension point has no use for."""


def checked(answer: Any, kind: type[T]) -> T:
    """The answer, if it is one of this kind. Raises `WrongAnswerError`."""
    if isinstance(answer, kind):
        return answer
    raise WrongAnswerError(f"it answered {shown(answer)}, where a {kind.__name__} is due")


def checked_nothing(answer: Any) -> None:
    """Of a call that is to return nothing: any answer will do but work that nobody does. Raises `WrongAnswerError`."""
    if iscoroutine(answer):
        raise WrongAnswerError(f"it answered {shown(answer)}, and nobody awaits it")


def checked_column(answer: Any, rows: Rows, what: str) -> NDArray[np.int64]:
    """The answer, if it is one whole number per row. Raises `WrongAnswerError`. `what`: codes, or points."""
    if type(answer) is np.ndarray and answer.dtype is _INT64 and answer.shape == rows.shape:
        return answer
    if not isinstance(answer, np.ndarray):
        raise WrongAnswerError(f"it answered {shown(answer)}, where an int64 array of {what} is due")
    if answer.shape != rows.shape:
        raise WrongAnswerError(f"it answered with an array of shape {answer.shape} for {len(rows)} nodes")
    if answer.dtype.kind not in "iu":
        raise WrongAnswerError(f"it answered with an array of {answer.dtype}, where int64 {what} are due")
    return answer.astype(np.int64)  # of fewer bits: weighted, they would run over


def words_of(failure: BaseException) -> str:
    """What a plugin raised, for a message: an error's own text; of what is no error (a `sys.exit()`) its kind, too."""
    text = str(failure)
    if isinstance(failure, Exception):
        return text
    return f"it raised {type(failure).__name__}{': ' if text else ''}{text}"


def shown(value: Any) -> str:
    """A value for a message, with its type where the value alone does not tell; never longer than a line."""
    if iscoroutine(value):
        value.close()  # else Python complains later, and elsewhere, that nobody has awaited it
        return "a coroutine (is the method declared with `async def`?)"
    try:
        text = repr(value)
    except BaseException:  # noqa: BLE001  a value of a plugin's own class: its `__repr__` is the plugin's, too
        return f"a {type(value).__name__}"
    text = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
    return text if value is None or isinstance(value, bool | int | float | str) else f"{text} ({type(value).__name__})"
