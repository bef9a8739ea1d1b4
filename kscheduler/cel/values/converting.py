"""Conversions between types: `int("1")`, `string(1.5)`, `type(x)`."""

import math
import re
from typing import Any

from kscheduler.cel import types
from kscheduler.cel.types import Type
from kscheduler.cel.values import go_text
from kscheduler.cel.values.kinds import ANY_MAP, DurationValue, ErrorValue, Opaque, Timestamp, Uint
from kscheduler.cel.values.times import (
    LEAST_SECONDS,
    MAX_SECONDS,
    TIMESTAMP_OVERFLOW,
    parse_duration,
    parse_timestamp,
)
from kscheduler.cel.values.typing import type_of

# What cel-go says of a value that is not of a wanted Go type.


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


_BOOLS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEXADECIMAL = re.compile(r"([+-]?)0[xX]([0-9a-fA-F]*)(?:\.([0-9a-fA-F]*))?[pP]([+-]?[0-9]+)")
_LOOSE_UNDERSCORE = re.compile(r"(?<![0-9a-fA-FxX])_|_(?![0-9a-fA-F])")
_SPECIAL = re.compile(r"([+-]?)(inf|infinity|nan)", re.IGNORECASE)
_INT_OVERFLOW = ErrorValue("integer overflow")
_UINT_OVERFLOW = ErrorValue("unsigned integer overflow")


def convert(value: Any, wanted: Type) -> Any:
    """The value as another type, or an error."""
    if wanted.kind == "type":
        return value if type(value) is ErrorValue else type_of(value)
    if type(value) is ErrorValue:
        return value
    own = type_of(value)
    if own.kind == wanted.kind and own.name == wanted.name and not isinstance(value, Opaque):
        return types.TYPE if type(value) is Type else value
    converted = _converted(value, wanted.kind)
    return ErrorValue(f"type conversion error from '{_origin(own)}' to '{wanted}'") if converted is None else converted


def _origin(own: Type) -> str:
    return str(own)


def _converted(value: Any, kind: str) -> Any:
    match value:
        case bool():
            return ("true" if value else "false") if kind == "string" else None
        case str():
            return _from_string(value, kind)
        case bytes():
            return _from_bytes(value) if kind == "string" else None
        case int():
            return _from_integer(value, kind)
        case float():
            return _from_double(value, kind)
        case None:
            return "null" if kind == "string" else None
        case DurationValue():
            return _from_duration(value, kind)
        case Timestamp():
            if kind == "string":
                return go_text.rfc3339(value.seconds, value.nanos, value.offset)
            return value.seconds if kind == "int" else None
        case Type():
            return value.name if kind == "string" else None
        case Opaque() if kind == "string" and value.TYPE_NAME.startswith("net."):
            return value.text()
    return None


def _from_bytes(value: bytes) -> str | ErrorValue:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return ErrorValue("invalid UTF-8 in bytes, cannot convert to string")


def _from_integer(value: int, kind: str) -> Any:
    if kind == "string":
        return str(int(value))
    if kind == "double":
        return float(value)
    if kind == "uint":
        return Uint(value) if value >= 0 else _UINT_OVERFLOW
    if kind == "int":
        return int(value) if value < 2**63 else _INT_OVERFLOW
    if kind == "timestamp" and type(value) is int:
        return Timestamp(value) if LEAST_SECONDS <= value <= MAX_SECONDS else TIMESTAMP_OVERFLOW
    return None


def _from_double(value: float, kind: str) -> Any:
    if kind == "string":
        return go_text.float_g(value)
    if kind == "int":
        fits = math.isfinite(value) and -float(2**63) < value < float(2**63)
        return int(value) if fits else _INT_OVERFLOW
    if kind == "uint":
        fits = math.isfinite(value) and 0 <= value < float(2**64)
        return Uint(int(value)) if fits else _UINT_OVERFLOW
    return None


def _from_duration(value: DurationValue, kind: str) -> Any:
    if kind == "string":
        whole, rest = divmod(abs(value.nanos), 10**9)
        seconds = float(whole) + float(rest) / 1e9
        return f"{go_text.float_f(-seconds if value.nanos < 0 else seconds)}s"
    return value.nanos if kind == "int" else None


def _from_string(value: str, kind: str) -> Any:
    match kind:
        case "int":
            number = _integer(value, r"[+-]?[0-9]+")
            return number if number is not None and -(2**63) <= number < 2**63 else None
        case "uint":
            number = _integer(value, r"[0-9]+")
            return Uint(number) if number is not None and number < 2**64 else None
        case "double":
            return parse_float(value)
        case "bool":
            return _BOOLS.get(value)
        case "bytes":
            return value.encode("utf-8", "surrogatepass")
        case "duration":
            return parse_duration(value)
        case "timestamp":
            return parse_timestamp(value)
    return None


def _integer(text: str, shape: str) -> int | None:
    # Digits beyond the 20 of 64 bits are counted before int() reads them all.
    if re.fullmatch(shape, text) is None or len(text.lstrip("+-0")) > 20:
        return None
    return int(text)


def parse_float(text: str) -> float | None:
    """A number as Go's `strconv.ParseFloat` reads it; None if it is none or too big."""
    special = _SPECIAL.fullmatch(text)
    if special is not None:
        return float(text) if special[2].lower() != "nan" or not special[1] else None
    if "_" in text:
        if _LOOSE_UNDERSCORE.search(text):
            return None
        text = text.replace("_", "")
    if _DECIMAL.fullmatch(text):
        value = float(text)
        return value if math.isfinite(value) else None
    match = _HEXADECIMAL.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        return None
    try:
        return float.fromhex(text)
    except OverflowError:
        return None
