"""Time that stands still within a step, so that a replay reads the same times.

A step on the event loop reads the wall clock several times, more often with more verbose logs. Here all of them are the
time at its beginning, in whole microseconds: one number per step is enough to take it again. Monotonic time, which
decides nothing, goes on.
"""

from collections.abc import Callable

from kscheduler.aio.clock import Alarm, Clock

MICROS = 1_000_000
# The same as a float: what is multiplied by it is not converted first, thirty nanoseconds in each step.
_MICROS = 1e6


def _unheard(_micros: int) -> None:
    """For a clock whose steps nobody records."""


class StepClock:
    """A clock over another one. Implements `aio.Clock`."""

    def __init__(self, clock: Clock, note: Callable[[int], object] = _unheard) -> None:
        """`note` is told at each step how many microseconds after the one before it begins; it must be cheap."""
        self._clock = clock
        self.is_real = clock.is_real
        self._note = note
        self._read = clock.time
        self.monotonic: Callable[[], float] = clock.monotonic
        self.micros = int(self._read() * _MICROS)
        """The time of the step that began last, in microseconds since the epoch."""
        self._now = self.micros / _MICROS

    def step(self) -> None:
        """A step begins."""
        micros = int(self._read() * _MICROS)
        self._note(micros - self.micros)
        self.micros = micros
        self._now = micros / _MICROS

    def time(self) -> float:
        """The wall clock as it was when the step began."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """As the other clock."""
        await self._clock.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Alarm:
        """As the other clock."""
        return self._clock.call_later(seconds, callback)


class ReplayedClock:
    """The time that a recording says. Implements `aio.Clock`; nobody sleeps in a replay."""

    is_real = False

    def __init__(self) -> None:
        self.micros = 0
        self._now = 0.0

    def set(self, micros: int) -> None:
        """Set the current time."""
        self.micros = micros
        self._now = micros / MICROS

    def time(self) -> float:
        """The recorded wall clock."""
        return self._now

    def monotonic(self) -> float:
        """The same: deadlines are not kept in a replay, their ends are recorded."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Raises `RuntimeError`."""
        raise RuntimeError(f"a replay does not wait ({seconds:g} s)")

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Alarm:
        del seconds, callback
        return _NoAlarm()


class _NoAlarm:
    def cancel(self) -> None:
        """Nothing is set."""
