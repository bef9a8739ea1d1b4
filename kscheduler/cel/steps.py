"""How much work a compilation or an evaluation may be: counted in steps, so that it ends alike on every machine.

CEL's own cost counts what an evaluation calls. It counts nothing of a compilation, in which a macro may copy what it is
applied to, and types may be as large as 2 to the power of their depth; and of an evaluation it leaves out what one call
does with a value whose parts are shared. Its caller sets a limit for what runs below it, in its
thread; what may take long spends steps: before it works, where its price is known. A step is about half a microsecond.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# What a node of the syntax tree costs to make, check, validate and plan.
STEPS_PER_NODE: Final = 40


class TooManyStepsError(RuntimeError):
    """The work takes more steps than it may."""


class _Left(threading.local):
    """What is left to the work that runs in this thread; without a limit, as good as all."""

    steps: int = 1 << 62


_left = _Left()


@contextmanager
def limited(most: int) -> Iterator[None]:
    """What runs within may spend so many steps, and no more than are left to what it is part of. Raises
    `TooManyStepsError` from within.
    """
    before = _left.steps
    _left.steps = least = min(most, before)
    try:
        yield
    finally:
        _left.steps = before - (least - _left.steps)


def spend(steps: int = 1) -> None:
    """Count steps. Raises `TooManyStepsError`."""
    left = _left.steps - steps
    if left < 0:
        raise TooManyStepsError
    _left.steps = left


def afford(steps: int) -> None:
    """Raise `TooManyStepsError` unless so many are left; they are not spent."""
    if _left.steps < steps:
        raise TooManyStepsError
