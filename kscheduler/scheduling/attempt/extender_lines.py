"""Pods in line for extenders: a bounded number of turns for each line, and the most important pod goes next.

Pods that concern the same extenders stand in one line, so a slow extender delays nobody who does not concern it. A
pod in line costs an entry of a heap: it has no task, it is not judged yet, and no events are kept for it. When a turn
comes free, the pod is called: a worker decides about it again, by the configuration and the cluster as they are then.

A pod in line has no condition of ours and no Event: kube-scheduler knows no such state. So that an operator sees it,
`statistics` has each line for metrics and notes, and a line in which pods have stood for `LONG_SECONDS` is logged
once.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final

import msgspec

from kscheduler.aio.clock import REAL_CLOCK
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.telemetry.logs import get_logger

_log = get_logger("extenders")

# Pods of a line that are between their first question and their decision. The others wait unjudged, so that what is
# asked is about nodes as they are.
TURNS_PER_LINE: Final = 16

# A line in which pods have stood for so long is logged.
LONG_SECONDS: Final = 10.0
# Pods that may stand in a line before those that are gone are looked for; then twice as many as are left.
LEAST_SWEPT: Final = 1024


def _no_workers() -> None:
    """No worker is to be woken."""


def _none_dropped(_queued: QueuedPodInfo) -> bool:
    """Without a scheduler, every pod that stands in line is there."""
    return False


class ExtenderQueueStatistics(msgspec.Struct, frozen=True):
    """One line, now."""

    extenders: str
    """Their names, comma-separated."""
    asked: int
    """Pods that have a turn."""
    waiting: int
    """Pods that stand in line."""
    seconds: float
    """For how long pods have been standing in it without a break."""


@dataclass(slots=True)
class _Line:
    free: int
    called: int = 0
    """Pods that were called and are not decided yet: as many turns are meant for them."""
    standing: list[tuple[int, int, QueuedPodInfo]] = field(default_factory=list)
    """A heap: by priority, then in the order in which they came."""
    sweep_at: int = LEAST_SWEPT
    standing_since: float = 0.0
    """Monotonic seconds; since then somebody stands in the line all the time."""
    is_logged: bool = False


class ExtenderWaitQueues:
    """The lines that have pods; a line begins with its first pod and ends with its last."""

    def __init__(
        self,
        turns: int = TURNS_PER_LINE,
        now: Callable[[], float] = REAL_CLOCK.monotonic,
        let_go: Callable[[QueuedPodInfo], bool] = _none_dropped,
        wake_worker: Callable[[], None] = _no_workers,
    ) -> None:
        """`now`: monotonic seconds. `let_go` ends the attempt of a pod that is gone, or needs no node any more; whether
        it was so. `wake_worker`: for each pod that has a turn now.
        """
        self._turns = turns
        self._now = now
        self._lines: dict[str, _Line] = {}
        self._line_of_called: dict[str, str] = {}
        """By UID, of those for whom a turn is kept."""
        self._known: set[str] = set()
        """Names of lines, those that have ended, too: as many as the configuration has sets of extenders at most."""
        self._arrivals = 0
        self.called: deque[QueuedPodInfo] = deque()
        """Pods whose turn has come, or whose line must be found again; to be decided before any other pod."""
        self._wake_worker = wake_worker
        self._let_go = let_go

    def standing(self) -> int:
        """How many pods wait for a turn."""
        return len(self.called) + sum(len(line.standing) for line in self._lines.values())

    def in_turn(self) -> int:
        """How many pods have a turn."""
        return sum(self._turns - line.free for line in self._lines.values())

    def statistics(self) -> tuple[ExtenderQueueStatistics, ...]:
        """A snapshot of each line that there has been under this configuration, by name, so that a graph falls to zero
        instead of ending. Pods that were called and are not decided yet stand in none.
        """
        now, empty = self._now(), _Line(self._turns)
        found = []
        for name in sorted(self._known):
            line = self._lines.get(name, empty)
            seconds = now - line.standing_since if line.standing else 0.0
            found.append(ExtenderQueueStatistics(name, self._turns - line.free, len(line.standing), seconds))
        return tuple(found)

    def in_line(self) -> Iterable[tuple[str, QueuedPodInfo]]:
        """A copy of all that stand in line, with the names of the extenders that they wait for, unordered."""
        return [(name, queued) for name, line in self._lines.items() for _, _, queued in line.standing]

    def notes(self) -> Iterable[str]:
        """A line for `/readyz?verbose` for each in which pods have been standing for long."""
        for line in self.statistics():
            if line.waiting and line.seconds >= LONG_SECONDS:
                yield (
                    f"{line.waiting} pods wait until extender {line.extenders} can be asked about them, "
                    f"{line.asked} are asked about; pods have stood in its line for {round(line.seconds)} s"
                )

    def look(self) -> None:
        """Log where pods have been standing for long, and where that is over. Called each second."""
        now = self._now()
        for name, line in self._lines.items():
            seconds = now - line.standing_since
            if line.standing and not line.is_logged and seconds >= LONG_SECONDS:
                line.is_logged = True
                fields = {"pods": len(line.standing), "asked": self._turns - line.free, "seconds": round(seconds, 3)}
                _log.info("extender_pods_wait", extender=name, **fields)

    def begin_or_wait(self, name: str, queued: QueuedPodInfo) -> bool:
        """Whether the pod has a turn now, until `end`. If not, it stands in line, and is called later."""
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = _Line(self._turns)
            self._known.add(name)
        if line.free > line.called:
            line.free -= 1
            return True
        self._arrivals += 1
        if not line.standing:
            line.standing_since = self._now()
        heappush(line.standing, (-queued.pod.priority, self._arrivals, queued))
        if len(line.standing) >= line.sweep_at:
            line.standing = [entry for entry in line.standing if not self._let_go(entry[2])]
            heapify(line.standing)
            line.sweep_at = max(LEAST_SWEPT, 2 * len(line.standing))
        return False

    def end(self, name: str) -> None:
        """A pod of this line needs its turn no more."""
        self._lines[name].free += 1
        self._call_next(name)

    def take_called(self) -> QueuedPodInfo:
        """The next pod that was called. Follow up with `decided`, whatever becomes of it."""
        queued = self.called.popleft()
        if queued.pod.uid in self._line_of_called:
            self._lines[self._line_of_called[queued.pod.uid]].called -= 1
        return queued

    def decided(self, queued: QueuedPodInfo) -> None:
        """A pod that was called has its turn, or turned out to need none: then the next one is called."""
        if queued.pod.uid in self._line_of_called:
            self._call_next(self._line_of_called.pop(queued.pod.uid))

    def call_all(self) -> None:
        """The configuration has changed: perhaps no pod stands in the right line. The most important are called first.

        No turn is kept for them, so that the first who are decided get those that are free.
        """
        everybody = [entry for line in self._lines.values() for entry in line.standing]
        for name, line in list(self._lines.items()):
            line.standing = []
            self._call_next(name)
        self._known = set(self._lines)
        for _, _, queued in sorted(everybody):
            self.called.append(queued)
            self._wake_worker()

    def _call_next(self, name: str) -> None:
        line = self._lines.get(name)
        if line is None:
            return
        while line.standing and line.free > line.called:
            self._call(name, line)
        if line.is_logged and not line.standing:
            line.is_logged = False
            _log.info("extender_pods_wait_no_more", extender=name, seconds=round(self._now() - line.standing_since, 3))
        if line.free == self._turns and not line.called and not line.standing:
            del self._lines[name]

    def _call(self, name: str, line: _Line) -> None:
        _, _, queued = heappop(line.standing)
        line.called += 1
        self._line_of_called[queued.pod.uid] = name
        self.called.append(queued)
        self._wake_worker()
