"""Says again, while it lasts, what the log says once: when it began.

The problem: a refused configuration, a quarantined plugin, an overcommitted node or an object that cannot be read is
a line when it begins. Hours later the last quarter of an hour of the log, which is what people read, has nothing of
it. The idea: whatever lasts is a note of `/readyz?verbose`, so these notes go to the log every two minutes. What
repeats itself (the API server that is away, writes that hang, an extender that fails) is not among them.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from kscheduler.aio.clock import Clock
from kscheduler.telemetry.logs import get_logger

_log = get_logger("kscheduler")

EACH_SECONDS: Final = 120.0
# At a time. The others are counted, up to `_MAX_COUNTED`: a hundred thousand objects may be unreadable.
MAX_LINES: Final = 10
_MAX_COUNTED: Final = 1_000


class OngoingProblems:
    """Writes the notes. Run it as a service."""

    def __init__(self, notes: Callable[[], Iterable[str]], clock: Clock) -> None:
        self._notes = notes
        self._clock = clock

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._clock.sleep(EACH_SECONDS)
            self.report()

    def report(self) -> None:
        """Write what lasts at this moment."""
        notes = list(islice(self._notes(), MAX_LINES + _MAX_COUNTED))
        left_out = len(notes) - MAX_LINES
        for note in notes[:MAX_LINES]:
            _log.warning("trouble_lasts", trouble=note, **({"not_told": left_out} if left_out > 0 else {}))
