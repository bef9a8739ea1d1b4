"""Texts as Go's fmt and strconv make them: quoted strings, floating point numbers, durations, moments."""

import math
import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Any

from kscheduler.cel.steps import spend
from kscheduler.cel.types import Type
from kscheduler.cel.values.kinds import ANY_MAP, DurationValue, ErrorValue, Opaque, Optional, Timestamp

_ESCAPES = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip
_INVISIBLE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"))


def quoted(text: str) -> str:
    """`%q` of a string."""
    return f'"{"".join(_quoted_letter(letter) for letter in text)}"'


def _quoted_letter(letter: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if letter == " " or unicodedata.category(letter) not in _INVISIBLE:
        return letter
    code = ord(letter)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def quoted_bytes(value: bytes) -> str:
    """`%q` of bytes: what is no UTF-8 by its hexadecimal number."""
    out: list[str] = []
    at = 0
    while at < len(value):
        for length in (1, 2, 3, 4):
            try:
                letter = value[at : at + length].decode()
            except UnicodeDecodeError:
                continue
            if len(letter) == 1:
                out.append(_quoted_letter(letter))
                at += length
                break
        else:
            out.append(f"\\x{value[at]:02x}")
            at += 1
    return f'"{"".join(out)}"'


# From here on `%v` writes an exponent.
_MAX_PLAIN_EXPONENT = 6


def float_g(value: float) -> str:
    """`%g` (and `%v`) of a float64: the shortest digits, an exponent below 1e-4 and from 1e6 on."""
    if not math.isfinite(value):
        return _not_finite(value)
    sign, digits, point = _digits(value)
    exponent = point - 1
    if exponent < -4 or exponent >= _MAX_PLAIN_EXPONENT:
        mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
        return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return sign + _plain(digits, point)


def float_f(value: float) -> str:
    """`strconv.FormatFloat(value, 'f', -1, 64)`: the shortest digits without an exponent."""
    if not math.isfinite(value):
        return _not_finite(value)
    sign, digits, point = _digits(value)
    return sign + _plain(digits, point)


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _digits(value: float) -> tuple[str, str, int]:
    """Sign, shortest digits without zeros around them, and where the point is: 0.0125 is ("", "125", -1)."""
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    point = len(whole) + int(exponent or 0)
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    stripped = stripped.rstrip("0")
    return (sign, stripped, point) if stripped else (sign, "0", 1)


def _plain(digits: str, point: int) -> str:
    if point <= 0:
        return f"0.{'0' * -point}{digits}"
    if point >= len(digits):
        return digits + "0" * (point - len(digits))
    return f"{digits[:point]}.{digits[point:]}"


_NANOS = 10**9


def duration(nanos: int) -> str:
    """`time.DurationValue.String`: 1h0m0s, 1.5s, 20ms."""
    if nanos == 0:
        return "0s"
    sign, rest = ("-", -nanos) if nanos < 0 else ("", nanos)
    if rest < _NANOS:
        for unit, size in (("ns", 1), ("µs", 1000), ("ms", 10**6)):
            if rest < size * 1000:
                return f"{sign}{_fraction(rest, size)}{unit}"
    seconds, parts = rest % (60 * _NANOS), rest // (60 * _NANOS)
    text = f"{_fraction(seconds, _NANOS)}s"
    if parts:
        minutes, hours = parts % 60, parts // 60
        text = f"{minutes}m{text}"
        text = f"{hours}h{text}" if hours else text
    return sign + text


def _fraction(value: int, size: int) -> str:
    whole, rest = divmod(value, size)
    if not rest:
        return str(whole)
    digits = str(rest).rjust(len(str(size)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}"


def rfc3339(seconds: int, nanos: int, offset: int) -> str:
    """`time.RFC3339Nano`."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds + offset)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    zone = "Z"
    if offset:
        minutes = abs(offset) // 60
        zone = f"{'-' if offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{fraction}{zone}"


def moment(seconds: int, nanos: int, offset: int, zone: str) -> str:
    """`time.Time.String`."""
    local = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds + offset)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    minutes = abs(offset) // 60
    east = f"{'-' if offset < 0 else '+'}{minutes // 60:02d}{minutes % 60:02d}"
    return f"{local.year:04d}-{local:%m-%d %H:%M:%S}{fraction} {east} {zone or east}"


# Values as Go's `%v` prints them in error texts.


def shown(value: Any) -> str:  # noqa: C901 : one kind after the other
    """`%v` of a value."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case None:
            return "0"
        case int():
            return str(int(value))
        case float():
            return float_g(value)
        case bytes():
            return f"[{' '.join(str(byte) for byte in value)}]"
        case list():
            spend(len(value))
            return f"[{', '.join(shown(element) for element in value)}]"
        case DurationValue():
            return duration(value.nanos)
        case Timestamp():
            return moment(value.seconds, value.nanos, value.offset, value.zone)
        case Optional():
            return f"optional({shown(value.value)})" if value.present else "optional.none()"
        case Type():
            return str(value)
        case ErrorValue():
            return value.message
        case Opaque():
            return value.text()
    if isinstance(value, ANY_MAP):
        spend(len(value))
        entries = ((key, value.find(key)) for key in value.keys())  # noqa: SIM118 : no dict
        return f"{{{', '.join(f'{shown(key)}: {shown(found[0])}' for key, found in entries if found)}}}"
    return str(value)
