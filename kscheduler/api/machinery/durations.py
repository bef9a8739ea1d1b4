"""Durations as kubectl shows them: `45s`, `3m20s`, `5h`, `12d`, `2y34d`."""

from datetime import UTC, datetime

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 365 * 86_400
UNKNOWN = "<unknown>"


def human_duration(seconds: int) -> str:
    """A duration with one or two units; two while the smaller unit matters."""
    # The limits are kubectl's: 119 is `119s`, 120 is `2m`, 599 is `9m59s`, 600 is `10m`, and so on for larger units.
    if seconds < 0:
        return "0s" if seconds >= -1 else "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{seconds}s"
    if seconds < 10 * _MINUTE:
        return _two(seconds, _MINUTE, "m", 1, "s")
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 8 * _HOUR:
        return _two(seconds, _HOUR, "h", _MINUTE, "m")
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    if seconds < 8 * _DAY:
        return _two(seconds, _DAY, "d", _HOUR, "h")
    if seconds < 2 * _YEAR:
        return f"{seconds // _DAY}d"
    return _two(seconds, _YEAR, "y", _DAY, "d") if seconds < 8 * _YEAR else f"{seconds // _YEAR}y"


def _two(seconds: int, large: int, large_name: str, small: int, small_name: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large}{large_name}" + (f"{rest}{small_name}" if rest else "")


def parse_time(text: str | None) -> datetime | None:
    """A Kubernetes timestamp; None if it is missing or invalid."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def age(text: str | None, now: datetime) -> str:
    """The time since a timestamp."""
    moment = parse_time(text)
    return UNKNOWN if moment is None else human_duration(int((now - moment).total_seconds()))


def timestamp(moment: datetime) -> str:
    """RFC 3339 in whole seconds, as `metav1.Time` is written."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
