"""Counts the volumes on nodes between decisions, so that the next pod with a claim need not wait for it.

The problem: after a start, or a change of many nodes, nobody has counted what is attached where, and the first pod
that needs a volume attached has it all counted in its Filter: 0.4 s on 5,000 nodes with ten such pods each, in which
the event loop stands still. The idea: once a second what is to be counted is counted in slices, if there are claims and
limits at all.

Limits: a replica that waits for the lease has counted before it leads. One that may decide at once does not wait for
this: if the first pods have claims, the first of them still has the rest counted.
"""

from typing import Final

from kscheduler.aio.clock import Clock
from kscheduler.aio.tasks import Slicer, run_in_slices
from kscheduler.state.storage.volumes import VolumeTable
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught

PAUSE_SECONDS: Final = 1.0
# After a bug, which would be met again.
PAUSE_AFTER_FAILURE_SECONDS: Final = 60.0
_SLICE_SECONDS: Final = 0.002

_log = get_logger(__name__)


class VolumeCounts:
    """Keeps the counts up to date while `run` is running."""

    def __init__(self, volumes: VolumeTable, clock: Clock) -> None:
        self._volumes, self._clock = volumes, clock

    async def run(self) -> None:
        """Until cancelled. The cache must be filled."""
        while True:
            await self._clock.sleep(await self._count())

    async def _count(self) -> float:
        """Returns the seconds to the next time."""
        try:
            await run_in_slices(self._volumes.recounting(), Slicer(_SLICE_SECONDS))
        except Exception:  # noqa: BLE001  the next query meets it, in a call of a plugin: one pod's failure
            count_caught(Boundary.EVENT_HANDLER)
            _log.exception("volumes_not_counted_ahead", next_try_seconds=PAUSE_AFTER_FAILURE_SECONDS)
            return PAUSE_AFTER_FAILURE_SECONDS
        return PAUSE_SECONDS
