"""Times in questions and answers about recordings: microseconds since the epoch inside, RFC 3339 outside."""

from datetime import UTC, datetime, timedelta
from typing import Final

from kscheduler.config.durations import parse_duration
from kscheduler.recorder.step_clock import MICROS

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(micros: int) -> str:
    """`2026-11-24T15:30:00.123456Z`."""
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_time(text: str) -> tuple[bool, int]:
    """Whether it is relative to the beginning, and microseconds. Raises `ValueError` with what is expected."""
    if text.startswith("+"):
        return True, int(parse_duration(text[1:]).seconds * MICROS)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no time: write 2026-11-24T15:30:00Z, or +10m for ten minutes after the beginning"
        ) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return False, (found - _EPOCH) // timedelta(microseconds=1)
