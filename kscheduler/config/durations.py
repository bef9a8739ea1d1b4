"""Durations as Go writes them: `15s`, `1m30s`, `1.5h`."""

import re

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(r"([0-9]{0,20})(?:\.([0-9]{0,20}))?([^0-9.]*)")
_LONGEST = 200
_MAX_INT64 = 2**63 - 1


class DurationError(ValueError):
    """The text is not a duration; the message shows it."""


class Duration(int):
    """Nanoseconds. A separate type, so that a bare number in a file is not taken for a duration."""

    __slots__ = ()

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return int(self) / 1e9

    def __str__(self) -> str:
        return format_duration(self)

    def __repr__(self) -> str:
        return f"Duration({format_duration(self)})"


def seconds(count: float) -> Duration:
    """A duration of this number of seconds."""
    return Duration(round(count * 1e9))


def parse_duration(text: str) -> Duration:
    """Read `[-+]?` and numbers with units ns, us, ms, s, m, h, as Go does. Raises `DurationError`."""
    body = text[1:] if text[:1] in ("-", "+") else text
    if body == "0":
        return Duration(0)
    if not body or len(body) > _LONGEST:
        raise DurationError(f"invalid duration {text[:_LONGEST]!r}")
    total = 0
    while body:
        nanoseconds, body = _leading_part(body, text)
        total += nanoseconds
    if total > _MAX_INT64:
        raise DurationError(f"invalid duration {text!r}: longer than 292 years")
    return Duration(-total if text.startswith("-") else total)


def _leading_part(body: str, text: str) -> tuple[int, str]:
    match = _PART.match(body)
    whole, fraction, unit = match.groups() if match else ("", "", "")
    if match is None or not (whole or fraction):
        raise DurationError(f"invalid duration {text!r}")
    if not unit:
        raise DurationError(f'missing unit in duration {text!r}: write "{text}s" for seconds')
    if unit not in _NANOSECONDS:
        raise DurationError(f"unknown unit {unit!r} in duration {text!r}: use ns, us, ms, s, m or h")
    scale = _NANOSECONDS[unit]
    part = int(whole or "0") * scale + int(fraction or "0") * scale // 10 ** len(fraction or "")
    return part, body[match.end() :]


def format_duration(duration: int) -> str:
    """The duration as Go prints it: `15s`, `1m30s`, `10m0s`, `1.5s`, `250ms`, `0s`."""
    sign, left = ("-", -duration) if duration < 0 else ("", duration)
    if left < _NANOSECONDS["s"]:
        return sign + _below_a_second(left)
    minutes, rest = divmod(left, _NANOSECONDS["m"])
    text = f"{_decimal(rest, _NANOSECONDS['s'])}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"
    return sign + text


def _below_a_second(nanoseconds: int) -> str:
    if nanoseconds == 0:
        return "0s"
    unit = "ms" if nanoseconds >= 1_000_000 else "µs" if nanoseconds >= 1_000 else "ns"
    return f"{_decimal(nanoseconds, _NANOSECONDS[unit])}{unit}"


def _decimal(amount: int, scale: int) -> str:
    whole, rest = divmod(amount, scale)
    digits = len(str(scale)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0") if rest else str(whole)
