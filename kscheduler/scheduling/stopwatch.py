"""Times the extension points of a cycle into `Observations`, in a few hundred nanoseconds each."""

from collections.abc import Callable
from typing import Final

from kscheduler.framework.status import SUCCESS, Status
from kscheduler.scheduling.observations import Histogram, Observations

EXTENSION_POINTS: Final = ("PreFilter", "Filter", "PreScore", "Score")


class ObservedStopwatch:
    """A stopwatch for one profile. Implements `cycle.Stopwatch`; `start` it before each cycle."""

    def __init__(self, profile: str, observations: Observations, now: Callable[[], float]) -> None:
        self._profile = profile
        self._observations = observations
        self._now = now
        self._last = 0.0
        self._evaluations = observations.plugin_evaluations
        self._success: dict[str, Histogram] = {
            point: observations.extension_points[point, SUCCESS.code.label, profile] for point in EXTENSION_POINTS
        }

    def start(self) -> None:
        """A cycle begins."""
        self._last = self._now()

    def lap(self, point: str, status: Status) -> None:
        """An extension point has run."""
        now = self._now()
        if status.is_success:
            self._success[point].observe(now - self._last)
        else:
            self._observations.extension_point(point, status.code.label, self._profile, now - self._last)
        self._last = now

    def evaluated(self, point: str, plugin: str) -> None:
        """A plugin has been asked."""
        self._evaluations[plugin, point, self._profile] += 1
