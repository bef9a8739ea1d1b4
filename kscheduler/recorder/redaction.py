"""What a recording may show of names. By default everything."""

from collections.abc import Callable
from typing import Any

Redaction = Callable[[Any], Any]
"""From an object to what is written of it."""


def no_redaction(obj: Any) -> Any:
    """The object as it is."""
    return obj
