"""What the functions of CEL and of its own extensions do, by the names of their overloads."""

from collections.abc import Callable
from typing import Any

# Takes values and gives a value, an error (`kscheduler.cel.values.kinds.ErrorValue`) among them.
Implementation = Callable[..., Any]
