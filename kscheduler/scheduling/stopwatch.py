"""Times the extension points of a cycle into `Observations`, in a few hundred nanoseconds each."""

from collections.abc import Callable
from typing import Final

from kscheduler.framework.plugin_listener import NO_LISTENER, SLOW_CALL_SECONDS, PluginListener
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status
from kscheduler.scheduling.observations import OF_POD, Observations
from kscheduler.scheduling.runtime.points import FILTER, POST_FILTER, PRE_FILTER, PRE_SCORE, SCORE
from kscheduler.telemetry.series import Histogram

EXTENSION_POINTS: Final = (PRE_FILTER.label, FILTER.label, PRE_SCORE.label, SCORE.label)
# In one of this many cycles each plugin is timed.
SAMPLED_EVERY: Final = 100 // Observations.PLUGIN_SAMPLE_PERCENT


class ObservedStopwatch:
    """A stopwatch for one profile. Implements `runtime.timing.Stopwatch`; `start` it before each cycle."""

    def __init__(
        self,
        profile: str,
        observations: Observations,
        now: Callable[[], float],
        listener: PluginListener = NO_LISTENER,
    ) -> None:
        self._profile = profile
        self._listener = listener
        self._pod: PodInfo | None = None
        self._observations = observations
        self._now = now
        self._last = self._call_began = self._post_filter_last = 0.0
        self._slow_in, self._slow_seconds = 0.0, 0.0
        """When the extension point or PostFilter plugin with the last reported slow calls began, and their seconds."""
        self._cycles = 0
        self._is_sampled = False
        self._evaluations = observations.plugin_evaluations
        self._success: dict[str, Histogram] = {
            point: observations.extension_points[point, SUCCESS.code.label, profile] for point in EXTENSION_POINTS
        }

        self._repeated = [self._success[point].observe for point in EXTENSION_POINTS]

    def start(self, pod: PodInfo | None = None, now: float | None = None) -> None:
        """A cycle begins, for this pod. `now`: the time, where it has just been read."""
        self._pod = pod
        self._last = self._call_began = self._now() if now is None else now
        self._cycles += 1
        self._is_sampled = self._cycles % SAMPLED_EVERY == 0

    def lap(self, point: str, status: Status) -> None:
        """An extension point has run."""
        now = self._now()
        if status.is_success and point in self._success:
            self._success[point].observe(now - self._last)
        else:
            self._observations.extension_point(point, status.code.label, self._profile, now - self._last)
        self._last = self._call_began = now

    def repeated(self) -> None:
        """The points of a cycle have run as one, without a call of a plugin: the time counts for the first of them."""
        now = self._now()
        seconds = now - self._last
        for observe in self._repeated:
            observe(seconds)
            seconds = 0.0
        self._last = self._call_began = now

    def evaluated(self, point: str, plugin: str, nodes: int = 1) -> None:
        """A call has ended that judged this many nodes; 0 if the plugin skipped the pod.

        Evaluations are counted by node, as in kube-scheduler; the call is timed as a whole, in a sample of the cycles.
        Answers that are known for the pod's class are not counted, as with kube-scheduler's batches.
        """
        now = self._now()
        seconds = now - self._call_began  # the body of `call_ended`, repeated: calling it would double the cost
        self._call_began = now
        if seconds > SLOW_CALL_SECONDS:
            self._slow(plugin, point, seconds, nodes)
        if nodes:
            self._evaluations[plugin, point, self._profile] += nodes
        if self._is_sampled:
            self._observations.plugin_execution(plugin, point, "Success" if nodes else "Skip", seconds)

    def restart(self) -> None:
        """The next call begins now: the time since the last one is no plugin's."""
        self._call_began = self._now()

    def call_ended(self, point: str, plugin: str, nodes: int = 1) -> float:
        """A call has ended that is measured, but not counted. Returns its seconds."""
        now = self._now()
        seconds = now - self._call_began
        self._call_began = now
        if seconds > SLOW_CALL_SECONDS:
            self._slow(plugin, point, seconds, nodes)
        return seconds

    def _slow(self, plugin: str, point: str, seconds: float, nodes: int) -> None:
        began = max(self._last, self._post_filter_last)
        if self._slow_in != began:
            self._slow_in, self._slow_seconds = began, 0.0
        self._slow_seconds += seconds
        self._listener.slow(plugin, point, self._pod, seconds, nodes)

    def post_filtered(self, plugin: str, result: str) -> None:
        """A PostFilter plugin has run. DefaultPreemption counts as a search for victims, eligible or not."""
        if plugin == "DefaultPreemption":
            self._observations.preemption_attempt()
        now, began = self._now(), max(self._last, self._post_filter_last)
        seconds = now - began
        if plugin == "DefaultPreemption" and self._observations.follows_groups:
            self._observations.preemption_evaluation(OF_POD, result, seconds)
        if self._slow_in == began:  # slow filters of its dry runs are reported under their own names
            seconds -= self._slow_seconds
        self._post_filter_last = now
        if seconds > SLOW_CALL_SECONDS:
            self._listener.slow(plugin, POST_FILTER.label, self._pod, seconds)
