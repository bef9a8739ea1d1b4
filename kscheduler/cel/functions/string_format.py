"""`"%s".format([x])`: the clauses, what they make of values, and what is wrong with a format that is a literal."""

import math
from collections.abc import Callable
from typing import Any

import msgspec

from kscheduler.cel import types
from kscheduler.cel.steps import spend
from kscheduler.cel.types import Type
from kscheduler.cel.values import go_text
from kscheduler.cel.values.converting import convert
from kscheduler.cel.values.kinds import ANY_MAP, ErrorValue, Uint
from kscheduler.cel.values.typing import type_name, type_of

_DEFAULT_PRECISION = 6
_ONLY = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and"
    " timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}
_STRINGABLE = frozenset(("int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type"))


_LETTERS_PER_STEP = 64


class FormatError(ValueError):
    """A clause does not fit; `number` is the node of the argument, if it is known."""

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.number = number


def unfit(letter: str, type_shown: str, number: int | None = None) -> FormatError:
    """A clause was given something that it does not take."""
    return FormatError(f"{_ONLY[letter]}, was given {type_shown}", number)


class Clause(msgspec.Struct, frozen=True):
    """`%.2f`: the letter (`x` for `X` too), and the precision or None."""

    letter: str
    precision: int | None
    upper: bool


Formatter = Callable[[Clause, Any], str]


def formatted(text: str, argument: Callable[[int], Any], size: int, formatter: Formatter) -> str:
    """Go through a format. `argument` gives the value of an index and may raise. Raises `FormatError`."""
    data = text.encode("utf-8", "surrogatepass")
    out = bytearray()
    at = index = 0
    while at < len(data):
        if data[at] != ord("%"):
            out.append(data[at])
            at += 1
        elif data[at + 1 : at + 2] == b"%":
            out += b"%"
            at += 2
        else:
            value = argument(index)
            if at + 1 >= len(data):
                message = "unexpected end of string"
                raise FormatError(message)
            if index >= size:
                raise FormatError(f"index {index} out of range")
            clause, at = _clause(data, at + 1)
            try:
                written = formatter(clause, value).encode("utf-8", "surrogatepass")
                spend(1 + len(written) // _LETTERS_PER_STEP)
                out += written
            except FormatError as error:
                raise FormatError(f"error during formatting: {error}", error.number) from None
            index += 1
    return out.decode("utf-8", "surrogatepass")


def _clause(data: bytes, at: int) -> tuple[Clause, int]:
    """The clause behind a percent sign, and where the format goes on."""
    wrong = "could not parse formatting clause"
    precision = None
    if data[at : at + 1] == b".":
        end = at + 1
        while end < len(data) and data[end] in b"0123456789":
            end += 1
        if end >= len(data):
            raise FormatError(f"{wrong}: error while parsing precision: could not find end of precision specifier")
        digits = data[at + 1 : end].decode()
        precision, at = _precision(digits, wrong), end
    letter = chr(data[at])
    if letter.lower() not in _ONLY or (letter.isupper() and letter != "X"):
        raise FormatError(f'{wrong}: unrecognized formatting clause "{letter}"')
    return Clause(letter.lower(), precision, letter == "X"), at + 1


def _precision(digits: str, wrong: str) -> int:
    reason = "" if digits else "invalid syntax"
    if digits and (len(digits) > 19 or int(digits) > 2**63 - 1):
        reason = "value out of range"
    if reason:
        cause = f'strconv.Atoi: parsing "{digits}": {reason}'
        message = f"{wrong}: error while parsing precision: error while converting precision to integer: {cause}"
        raise FormatError(message)
    return int(digits)


def format_string(text: str, values: list[Any]) -> str | ErrorValue:
    """`text.format(values)`."""

    def argument(index: int) -> Any:
        if index >= len(values):
            raise FormatError(f"index {index} out of range")
        return values[index]

    try:
        return formatted(text, argument, len(values), _format)
    except FormatError as error:
        return ErrorValue(str(error))


def _format(clause: Clause, value: Any) -> str:
    match clause.letter:
        case "s":
            return _string(value)
        case "d":
            return _decimal(value)
        case "f" | "e":
            return _floating(clause, value)
        case "b":
            return _binary(value)
        case "x":
            text = _hexadecimal(value)
            return text.upper() if clause.upper else text
    if type(value) not in (int, Uint):
        raise unfit("o", type_name(value))
    return f"{value:o}"


def _string(value: Any) -> str:
    if isinstance(value, list):
        return _list(value)
    if isinstance(value, ANY_MAP):
        return _map(value)
    if value is None:
        return "null"
    if type_of(value).kind not in _STRINGABLE:
        raise unfit("s", type_name(value))
    text = convert(value, types.STRING)
    if isinstance(text, ErrorValue):
        message = f"could not convert argument {go_text.quoted(text.message)} to string"
        raise FormatError(message)
    return str(text)


def _decimal(value: Any) -> str:
    if type(value) not in (int, Uint):
        raise unfit("d", type_name(value))
    return str(int(value))


def _binary(value: Any) -> str:
    if type(value) is bool:
        return "1" if value else "0"
    if type(value) not in (int, Uint):
        raise unfit("b", type_name(value))
    return f"{value:b}"


def _hexadecimal(value: Any) -> str:
    if type(value) is bytes:
        return value.hex()
    if type(value) is str:
        return value.encode("utf-8", "surrogatepass").hex()
    if type(value) not in (int, Uint):
        raise unfit("x", type_name(value))
    return f"{value:x}"


# Go stops to read a width or precision beyond.
_LARGEST_NUMBER = 1_000_000

_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _floating(clause: Clause, value: Any) -> str:
    """In the English of Go's message.Printer: groups of thousands, `×` for exponents, `∞`."""
    if type(value) is str and value in _SPECIAL:
        value = _SPECIAL[value]
    if type(value) is not float:
        raise unfit(clause.letter, type_name(value))
    if clause.precision is not None and clause.precision // 10 > _LARGEST_NUMBER:
        return "%!(NOVERB)"
    if math.isnan(value):
        text = "NaN"
    elif math.isinf(value):
        text = "∞" if value > 0 else "-∞"
    elif clause.letter == "f":
        # Go keeps eight bits of the precision, and no sign of a zero.
        precision = _DEFAULT_PRECISION if clause.precision is None else clause.precision % 256
        return f"{value or 0.0:,.{precision}f}"
    else:
        text = _scientific(value)
    if clause.letter == "f":
        return text
    # cel-go writes the precision where Go reads a width, of which sixteen bits are kept.
    width = _DEFAULT_PRECISION if clause.precision is None else clause.precision % 65536
    return text.rjust(width)


def _scientific(value: float) -> str:
    mantissa, _, exponent = f"{value:.{_DEFAULT_PRECISION}e}".partition("e")
    power = int(exponent)
    raised = f"{'-' if power < 0 else ''}{abs(power):02d}".translate(_SUPERSCRIPTS)
    return f"{mantissa}×10{raised}"


_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def _list(value: list[Any]) -> str:
    spend(2 + 2 * len(value))
    return f"[{', '.join(_quoted(member, _element(member)) for member in value)}]"


def _map(value: Any) -> str:
    pairs: list[tuple[str, str]] = []
    spend(2 + 2 * len(value))
    for key in value.keys():  # noqa: SIM118 : no dict
        if type(key) not in (str, bool, int, Uint):
            message = f"no formatting function for map key of type {type_name(key)}"
            raise FormatError(message)
        found = value.find(key)
        shown_value = _quoted(found[0], _element(found[0])) if found else ""
        pairs.append((_quoted(key, _string(key)), shown_value))
    pairs.sort(key=lambda pair: pair[0].encode("utf-8", "surrogatepass"))
    return f"{{{', '.join(f'{key}:{shown}' for key, shown in pairs)}}}"


def _element(value: Any) -> str:
    """A value within a list or map."""
    described: Type = type_of(value)
    match described.kind:
        case "int" | "uint":
            return _decimal(value)
        case "string" | "bytes" | "bool" | "null" | "type" | "list" | "map":
            return _string(value)
        case "timestamp" | "duration":
            name = "timestamp" if described.kind == "timestamp" else "duration"
            return f"{name}({go_text.quoted(convert(value, types.STRING))})"
        case "double":
            return _plain_double(value)
    message = f"no formatting function for {described.name}"
    raise FormatError(message)


def _plain_double(value: float) -> str:
    if math.isfinite(value):
        return f"{value:.{_DEFAULT_PRECISION}f}"
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _quoted(value: Any, text: str) -> str:
    if type(value) is str:
        spend(len(text))
        return go_text.quoted(text)
    if type(value) is bytes:
        return f"b{go_text.quoted(text)}"
    if type(value) is float and not math.isfinite(value):
        return go_text.quoted(text)
    return text
