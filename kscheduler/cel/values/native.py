"""What cel-go says of a value that is not of a wanted Go type."""

from typing import Any

from kscheduler.cel.types import Type
from kscheduler.cel.values.kinds import ANY_MAP, DurationValue, Opaque, Timestamp, Uint
from kscheduler.cel.values.typing import type_of


def unconvertible(value: Any, native: str) -> str:  # noqa: C901 : one kind after the other
    """Why a value is no `native`."""
    match value:
        case bool():
            return f"type conversion error from bool to '{native}'"
        case str():
            return f"unsupported native conversion from string to '{native}'"
        case Uint():
            return f"unsupported type conversion from 'uint' to {native}"
        case int():
            return f"unsupported type conversion from 'int' to {native}"
        case float():
            return f"type conversion error from Double to '{native}'"
        case bytes():
            return f"type conversion error from Bytes to '{native}'"
        case list():
            return f"type conversion error from list to '{native}'"
        case DurationValue():
            return f"type conversion error from 'Duration' to '{native}'"
        case Timestamp():
            return f"type conversion error from 'Timestamp' to '{native}'"
        case Opaque():
            return f"type conversion error from '{value.SHORT_NAME}' to '{native}'"
        case Type():
            return "type conversion not supported for 'type'"
    if isinstance(value, ANY_MAP):
        return f"type conversion error from map to '{native}'"
    return f"type conversion error from '{type_of(value)}' to '{native}'"
