"""Errors of attempts that come again and again: a line a minute for each cause, for as long as pods wait because of it.

The problem: of a pod's error only the first is written as one (`attempt_failed`); a pod that is tried for hours would
fill the log. But then the log of a long outage has nothing in its last quarter of an hour, which is what people read.
The idea: errors are gathered by cause, over all pods. A cause that was not written for a minute is written again, with
a pod that still waits because of it and the number of attempts since the last line.

    cause     the error's text without what differs from pod to pod: its own names, numbers
    bound     `MAX_CAUSES`, and one for all others; `PODS_EACH` pods of each are known

Nothing is done for pods that do not fail. Pure: `now` is wall-clock seconds, as in the queue.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from kscheduler.bounded import RecentlyUsed
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.telemetry.logs.storms import cause_in

# Between two lines about one cause.
QUIET_SECONDS: Final = 60.0
# Without an attempt that failed by it, and without a pod that waits: no backoff is longer than 300 s.
FORGOTTEN_AFTER_SECONDS: Final = 330.0
MAX_CAUSES: Final = 20
PODS_EACH: Final = 8
_OTHERS: Final = ""

# A pod that waits, with its queue.
FoundPod = tuple[str, QueuedPodInfo]


class Repeated(msgspec.Struct, frozen=True):
    """A line that is due."""

    queue: str
    queued: QueuedPodInfo
    """One of the pods that wait."""
    extender: str
    times: int
    """How many attempts have failed by this cause since the last line."""
    seconds: float
    """Since the first of them all."""


@dataclass(slots=True)
class _Cause:
    since: float
    reported_at: float
    failed_at: float
    extender: str = ""
    times: int = 0
    pods: RecentlyUsed[str, bool] = field(default_factory=lambda: RecentlyUsed(PODS_EACH))
    """The keys of those that have failed last."""


class RepeatedErrors:
    """The causes by which attempts fail now."""

    def __init__(self) -> None:
        self._causes: dict[str, _Cause] = {}

    def __len__(self) -> int:
        return len(self._causes)

    def failed(self, queued: QueuedPodInfo, message: str, extender: str, now: float, *, is_reported: bool) -> None:
        """An attempt at the pod has failed with this error. `is_reported`: a line of its own says so."""
        name = _cause_of(queued, message)
        if name not in self._causes and len(self._causes) >= MAX_CAUSES:
            name = _OTHERS
        cause = self._causes.get(name)
        if cause is None:
            cause = self._causes[name] = _Cause(now, now, now)
        cause.failed_at, cause.extender = now, extender
        cause.pods[queued.key] = True
        if is_reported:
            cause.reported_at = now
        else:
            cause.times += 1

    def is_reported(self, queued: QueuedPodInfo, message: str, now: float) -> bool:
        """Whether a line has told of this cause within the last minute, of this pod or of another."""
        cause = self._causes.get(_cause_of(queued, message))
        return cause is not None and abs(now - cause.reported_at) < QUIET_SECONDS

    def due(self, now: float, find: Callable[[str], FoundPod | None]) -> list[Repeated]:
        """The lines to be written now. `find`: where a pod waits, by its key; `None`: it is being tried, or is gone."""
        if not self._causes:
            return []
        lines = []
        for name, cause in list(self._causes.items()):
            if abs(now - cause.reported_at) < QUIET_SECONDS:  # the clock may have been set back
                continue
            waiting = self._waiting(name, cause, find)
            if waiting is not None:
                lines.append(Repeated(*waiting, cause.extender, cause.times, now - cause.since))
                cause.reported_at, cause.times = now, 0
            elif abs(now - cause.failed_at) >= FORGOTTEN_AFTER_SECONDS:
                del self._causes[name]
        return lines

    def _waiting(self, name: str, cause: _Cause, find: Callable[[str], FoundPod | None]) -> FoundPod | None:
        for key in reversed(list(cause.pods)):
            found = find(key)
            if found is not None and found[1].last_error:
                known = _cause_of(found[1], found[1].last_error)
                if known == name or (name == _OTHERS and known not in self._causes):
                    return found
        return None


def _cause_of(queued: QueuedPodInfo, message: str) -> str:
    pod = queued.pod.pod
    return cause_in(message, (queued.key, queued.pod.uid, pod.metadata.name, pod.metadata.namespace))
