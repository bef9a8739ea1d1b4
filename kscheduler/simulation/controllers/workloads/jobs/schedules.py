"""Cron schedules: five fields (minute, hour, day, month, weekday) with lists, ranges, steps and names, or `@daily`.

When both day and weekday are restricted, either is enough, as in cron.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, time, timedelta

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_YEARS = 5
"""How far a schedule is searched; the 29th of February comes within it."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A parsed schedule."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    """Whether day and weekday are both restricted, so that either is enough."""

    def after(self, moment: datetime) -> datetime | None:
        """The first time later than `moment`, in its time zone; None when there is none within five years."""
        begin = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
        for number in range(366 * _YEARS):
            day = begin.date() + timedelta(days=number)
            if day.month not in self.months or not self._has_day(day.day, day.isoweekday() % 7):
                continue
            for hour in sorted(self.hours):
                for minute in sorted(self.minutes):
                    found = datetime.combine(day, time(hour, minute), moment.tzinfo)
                    if found >= begin:
                        return found
        return None

    def _has_day(self, day: int, weekday: int) -> bool:
        if self.either_day:
            return day in self.days or weekday in self.weekdays
        return day in self.days and weekday in self.weekdays


def parse(text: str) -> Schedule:
    """Parse a schedule. Raises ValueError if it is invalid."""
    fields = _MACROS.get(text.strip(), text).lower().split()
    if len(fields) != 5:
        raise ValueError(f"expected exactly 5 fields, found {len(fields)}: {text}")
    minute, hour, day, month, weekday = fields
    weekdays = {number % 7 for number in _field(weekday, 0, 7, _DAYS, 0)}
    return Schedule(
        frozenset(_field(minute, 0, 59)),
        frozenset(_field(hour, 0, 23)),
        frozenset(_field(day, 1, 31)),
        frozenset(_field(month, 1, 12, _MONTHS, 1)),
        frozenset(weekdays),
        either_day=day[0] not in "*?" and weekday[0] not in "*?",
    )


def _field(text: str, low: int, high: int, names: list[str] | None = None, first: int = 0) -> Iterator[int]:
    for part in text.split(","):
        span, _, step = part.partition("/")
        begin, _, end = span.partition("-")
        if begin in ("*", "?"):
            start, stop = low, high
        else:
            start = _number(begin, names, first)
            stop = _number(end, names, first) if end else high if step else start
        if not low <= start <= stop <= high or (step and int(step) < 1):
            raise ValueError(f"{part} is not within {low} and {high}")
        yield from range(start, stop + 1, int(step or 1))


def _number(text: str, names: list[str] | None, first: int) -> int:
    return names.index(text) + first if names and text in names else int(text)
