"""Reporting plugins that fail or hold the event loop: a log line, a count, an Event.

A plugin may fail for each pod or each node, a thousand times a second. So of equal incidents only the first is logged
at once; the others are counted, and a minute later the next one is logged with the count. Incidents are equal if they
are failures of one plugin at one extension point from the same line of code, or slow calls of one plugin at one point.
Failures from that line with another text are logged at once, too, a few of them a minute; and a plugin that a
configuration brings again, in another version perhaps, begins again (`restart`): a user who has just changed its
file wants to see what it does now.
The counters (`kscheduler_plugin_failures_total`, `kscheduler_slow_plugin_calls_total`) count every incident.

If a pod's attempt fails, its condition and FailedScheduling Event name the failure, as in kube-scheduler. If no attempt
fails (QueueSort, PreEnqueue, PostBind), the pod gets an Event of its own, which names the plugin.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.bounded import RecentlyUsed
from kscheduler.framework.plugin import Point
from kscheduler.framework.plugin_results import text_of, with_place
from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.supervision.alarm import overrun_of
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught
from kscheduler.telemetry.logs.storms import Throttle, cause_in, without_values

_log = get_logger(__name__)

# How long after a line equal incidents are only counted.
QUIET_SECONDS: Final = 60.0
# Texts of equal incidents that are logged within the quiet time: a text may be another one for each pod.
MAX_CAUSES: Final = 5
# The most kinds of incidents: a plugin that generates code must not use memory without bound.
_MAX_KINDS: Final = 1000

# Report a sentence about a pod to its owner.
ReportPod = Callable[[Pod, str], None]


@dataclass(slots=True)
class SlowCall:
    """A call that held the event loop for too long."""

    plugin: str
    extension_point: str
    pod: str
    seconds: float
    ended: float
    """Monotonic seconds."""


@dataclass(slots=True)
class _Incident:
    """Equal incidents since the last line about them."""

    lines: Throttle = field(default_factory=lambda: Throttle(QUIET_SECONDS))
    seconds: float = 0.0
    """The sum of the slow calls that were not logged."""
    causes: set[str] = field(default_factory=set)
    """The texts that were logged since the quiet time began, at most `MAX_CAUSES`."""

    def is_due(self, cause: str, now: float) -> bool:
        """Whether to write a line about an incident with this text."""
        if self.lines.is_quiet(now) and cause not in self.causes and len(self.causes) < MAX_CAUSES:
            self.causes.add(cause)
            return True
        is_due = self.lines.admits(now)
        if is_due:
            self.causes = {cause}
        return is_due


class PluginReports:
    """Logs and counts incidents, and reports them to pods. Implements `framework.plugin_listener.PluginListener`."""

    def __init__(
        self, observations: Observations, now: Callable[[], float], record_event: ReportPod, report_held: ReportPod
    ) -> None:
        """`now`: monotonic seconds. `record_event`: an Event; `report_held`: an Event and the pod's condition."""
        self._observations = observations
        self._now = now
        self._record_event = record_event
        self._report_held = report_held
        self._kinds: RecentlyUsed[tuple[object, ...], _Incident] = RecentlyUsed(_MAX_KINDS)
        self._slowest: SlowCall | None = None
        self._is_silent = False
        self._may_be_slow = not PLUGIN_TIME.is_limited

    def ignore_slow_calls(self) -> None:
        """Report no slow calls: in a simulation or a replay, where no loop is held up."""
        self._may_be_slow = True

    def mute_reports(self) -> None:
        """Report nothing any more: in a copy of the process, whose decisions nobody carries out."""
        self._is_silent = True

    def failed(self, plugin: str, point: str, pod: PodInfo | None, failure: BaseException, then: str = "") -> None:
        """Count and log a failure, with its traceback; with `then`, report it to the pod as well."""
        if self._is_silent:
            return
        count_caught(Boundary.PLUGIN)
        self._observations.plugin_failed(plugin, point)
        if overrun_of(failure) is not None:
            self._observations.plugin_overran(plugin, point)
        first = _first_of(failure)
        own = () if pod is None else (pod.key, pod.uid, pod.name, pod.namespace)
        cause = cause_in(without_values(text_of(first)), own)
        kind = self._due("failed", plugin, point, type(failure), *_place_of(first), cause=cause)
        if kind is not None:
            times = kind.lines.take_left_out()
            _log.error(
                "plugin_failed",
                plugin=plugin,
                extension_point=point,
                pod=_key(pod),
                err=with_place(_text(failure), failure),
                **({"then": then} if then else {}),
                **({"times_since": times} if times else {}),
                exc_info=failure,
            )
        if then and pod is not None:
            report = self._report_held if point == Point.PRE_ENQUEUE.label else self._record_event
            reported = with_place(_text(failure), failure)
            report(pod.pod, f'running {point} plugin "{plugin}": {reported}; {then}')

    def slow(self, plugin: str, point: str, pod: PodInfo | None, seconds: float, nodes: int = 0) -> None:
        """Count and log a slow call."""
        if self._is_silent or self._may_be_slow:
            return
        self._observations.plugin_was_slow(plugin, point)
        now = self._now()
        if self._slowest is None or seconds > self._slowest.seconds:
            self._slowest = SlowCall(plugin, point, _key(pod), seconds, now)
        kind = self._due("slow", plugin, point, seconds=seconds)
        if kind is not None:
            times = kind.lines.take_left_out()
            since = {"times_since": times, "seconds_since": round(kind.seconds, 3)} if times else {}
            _log.warning(
                "plugin_slow",
                plugin=plugin,
                extension_point=point,
                pod=_key(pod),
                seconds=round(seconds, 3),
                **({"nodes": nodes} if nodes else {}),
                **since,
            )
            kind.seconds = 0.0

    def take_slowest(self, seconds: float) -> SlowCall | None:
        """The longest call that ended within the last `seconds` and was not returned before."""
        slowest, self._slowest = self._slowest, None
        return slowest if slowest is not None and self._now() - slowest.ended <= seconds else None

    def restart(self, plugins: Collection[str]) -> None:
        """These plugins are others from now on: what was logged of those before keeps nothing of theirs back."""
        for name in [name for name in self._kinds if name[1] in plugins]:
            del self._kinds[name]

    def _due(self, *name: object, seconds: float = 0.0, cause: str = "") -> _Incident | None:
        """The kind of incident if a line is due; otherwise the incident is only counted."""
        kind = self._kinds.use(name)
        if kind is None:
            kind = self._kinds[name] = _Incident()
        if kind.is_due(cause, self._now()):
            return kind
        kind.seconds += seconds
        return None


def _key(pod: PodInfo | None) -> str:
    return "" if pod is None else pod.key


def _text(failure: BaseException) -> str:
    text = text_of(failure)
    return f"{type(failure).__name__}: {text}" if text else type(failure).__name__


def _first_of(failure: BaseException) -> BaseException:
    """The first exception of the chain: the plugin's own."""
    while failure.__cause__ is not None:
        failure = failure.__cause__
    return failure


def _place_of(failure: BaseException) -> tuple[str, int]:
    """File and line that raised it; empty if it was never raised."""
    trace = failure.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return ("", 0) if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
