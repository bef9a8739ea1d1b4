"""Cron schedules: five fields (minute, hour, day, month, weekday) with lists, ranges, steps and names, or `@daily`.

When both day and weekday are restricted, either is enough, as in cron.
"""

import re
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
_EVERY = "@every "
# How far a schedule is searched; the 29th of February comes within it.
_YEARS = 5


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


def check(text: str) -> None:
    """Refuse what the API server refuses. Raises ValueError in its words (robfig/cron's)."""
    zone, _, rest = text.partition(" ")
    if zone.startswith(("TZ=", "CRON_TZ=")):
        text = rest.strip()
    if not text.startswith(_EVERY):  # taken, but no controller here acts on it
        parse(text)


def parse(text: str) -> Schedule:
    """Parse a schedule. Raises ValueError if it is invalid."""
    if text.startswith("@") and text not in _MACROS:
        raise ValueError(f"unrecognized descriptor: {text}")
    fields = _MACROS.get(text.strip(), text).split()
    if len(fields) != 5:
        raise ValueError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    minute, hour, day, month, weekday = fields
    minutes, hours, days = (
        frozenset(_field(part, *bounds)) for part, bounds in ((minute, (0, 59)), (hour, (0, 23)), (day, (1, 31)))
    )
    months = frozenset(_field(month, 1, 12, _MONTHS, 1))
    weekdays = frozenset(_field(weekday, 0, 6, _DAYS, 0))
    return Schedule(minutes, hours, days, months, weekdays, either_day=day[0] not in "*?" and weekday[0] not in "*?")


def _field(text: str, low: int, high: int, names: list[str] | None = None, first: int = 0) -> Iterator[int]:
    for part in filter(None, text.split(",")):
        span, *steps = part.split("/")
        begin, *ends = span.split("-")
        if begin in ("*", "?"):
            start, stop = low, high
        else:
            start = _number(begin, names, first)
            if len(ends) > 1:
                raise ValueError(f"too many hyphens: {part}")
            stop = _number(ends[0], names, first) if ends else start
        if len(steps) > 1:
            raise ValueError(f"too many slashes: {part}")
        step = _number(steps[0]) if steps else 1
        if steps and not ends:
            stop = high
        if start < low:
            raise ValueError(f"beginning of range ({start}) below minimum ({low}): {part}")
        if stop > high:
            raise ValueError(f"end of range ({stop}) above maximum ({high}): {part}")
        if start > stop:
            raise ValueError(f"beginning of range ({start}) beyond end of range ({stop}): {part}")
        if step == 0:
            raise ValueError(f"step of range should be a positive number: {part}")
        yield from range(start, stop + 1, step)


def _number(text: str, names: list[str] | None = None, first: int = 0) -> int:
    if names and text.lower() in names:
        return names.index(text.lower()) + first
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if int(text) < 0:
        raise ValueError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
