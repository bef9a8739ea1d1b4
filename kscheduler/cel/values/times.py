"""Durations and moments: reading, zones, and sums that stay within their bounds."""

import re
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from kscheduler.cel.values.kinds import DurationValue, ErrorValue, Timestamp

# The first second of the year 1 and the last of 9999.
LEAST_SECONDS, MAX_SECONDS = -62135596800, 253402300799

TIMESTAMP_OVERFLOW = ErrorValue("timestamp overflow")
_INT_OVERFLOW = ErrorValue("integer overflow")
_NANOS = 10**9
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": _NANOS,
    "m": 60 * _NANOS,
    "h": 3600 * _NANOS,
}
_SPAN = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})"
)
_MAX_INT = 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(text: str) -> DurationValue | None:
    """A duration as Go writes it (`1h30m`, `-1.5s`); None if the text is none."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return DurationValue(0)
    total, at = 0, 0
    while at < len(rest):
        match = _SPAN.match(rest, at)
        if match is None or not (match[1] or match[2]):
            return None
        unit = _UNITS[match[3]]
        total += int(match[1] or 0) * unit
        if match[2]:
            digits = match[2][:18]
            # In floating point, as Go does it.
            total += int(float(int(digits)) * (float(unit) / float(10 ** len(digits))))
        if total > _MAX_INT + (sign < 0):
            return None
        at = match.end()
    return DurationValue(sign * total) if rest else None


def parse_timestamp(text: str) -> Timestamp | ErrorValue | None:
    """A moment in RFC 3339; None if the text is none, an error if it is out of bounds."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    zone = match[8]
    offset = 0 if zone == "Z" else int(zone[1:3]) * 3600 + int(zone[4:6]) * 60
    if zone != "Z" and (int(zone[1:3]) > 24 or int(zone[4:6]) > 60):
        return None
    offset = -offset if zone[0] == "-" else offset
    days = _days(year, month, day)
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    nanos = int((match[7] or "0")[:9].ljust(9, "0"))
    seconds = days * 86400 + hour * 3600 + minute * 60 + second - offset
    if not LEAST_SECONDS <= seconds <= MAX_SECONDS:
        return TIMESTAMP_OVERFLOW
    return Timestamp(seconds, nanos, offset, "UTC" if zone == "Z" or not offset else "")


def _days(year: int, month: int, day: int) -> int | None:
    """Days since 1970; the year 0 is read as well, as in Go."""
    try:
        shift = 400 if year == 0 else 0
        return (datetime(year + shift, month, day, tzinfo=UTC) - _EPOCH).days - (146097 if shift else 0)
    except ValueError:
        return None


class WallClock(msgspec.Struct, frozen=True):
    """What a clock and a calendar show: Python's own end with the year 9999, and a zone may be beyond."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    day_of_year: int
    day_of_week: int


def wall_clock(seconds: int) -> WallClock:
    """The wall clock of a moment, given in seconds since 1970 on that clock."""
    days, rest = divmod(seconds, 86400)
    # 400 years are 146,097 days, always: count from a year that Python knows.
    eras, days = divmod(days, 146097)
    moment = _EPOCH + timedelta(days=days)
    return WallClock(
        year=moment.year + 400 * eras,
        month=moment.month,
        day=moment.day,
        hour=rest // 3600,
        minute=rest // 60 % 60,
        second=rest % 60,
        day_of_year=moment.timetuple().tm_yday,
        day_of_week=moment.isoweekday() % 7,
    )


def in_zone(moment: Timestamp, zone: str) -> WallClock | ErrorValue:
    """The wall clock of a zone: a name of the time zone database, or `+hh:mm`."""
    if ":" not in zone:
        named = _named_zone(zone)
        return named if isinstance(named, ErrorValue) else wall_clock(moment.seconds + _east(moment.seconds, named))
    hours, _, minutes = zone.partition(":")
    parts: list[int] = []
    for part in (hours, minutes):
        if re.fullmatch(r"[+-]?[0-9]+", part) is None:
            return ErrorValue(f'strconv.Atoi: parsing "{part}": invalid syntax')
        parts.append(int(part))
    offset = parts[0] * 60 - parts[1] if zone.startswith("-") else parts[0] * 60 + parts[1]
    return wall_clock(moment.seconds + offset * 60)


def _named_zone(zone: str) -> ZoneInfo | timezone | ErrorValue:
    # A scheduler's own zone is UTC, as in all images.
    if zone in ("", "UTC", "Local"):
        return UTC
    unknown = ErrorValue(f"unknown time zone {zone}")
    if ".." in zone or zone.startswith(("/", "\\")) or "\\" in zone:
        return ErrorValue("time: invalid location name")
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return unknown


def _east(seconds: int, zone: ZoneInfo | timezone) -> int:
    """Seconds east of UTC in a zone; at the ends of the calendar as a year within."""
    moment = _EPOCH + timedelta(seconds=min(max(seconds, LEAST_SECONDS + 86400), MAX_SECONDS - 86400))
    return int((moment.astimezone(zone).utcoffset() or timedelta()).total_seconds())


def checked(nanos: int) -> DurationValue | ErrorValue:
    """A duration within 64 bits."""
    return DurationValue(nanos) if -(2**63) <= nanos <= _MAX_INT else _INT_OVERFLOW


def moved(moment: Timestamp, nanos: int) -> Timestamp | ErrorValue:
    """A moment later (or earlier)."""
    total = moment.seconds * _NANOS + moment.nanos + nanos
    seconds, rest = divmod(total, _NANOS)
    if not LEAST_SECONDS <= seconds <= MAX_SECONDS:
        return TIMESTAMP_OVERFLOW
    return Timestamp(seconds, rest, moment.offset, moment.zone)


def between(one: Timestamp, other: Timestamp) -> DurationValue | ErrorValue:
    """The duration from the other moment to the one."""
    seconds = one.seconds - other.seconds
    if not -(2**63) <= seconds * _NANOS <= _MAX_INT:
        return _INT_OVERFLOW
    return checked(seconds * _NANOS + one.nanos - other.nanos)
