"""How late the event loop is: a heartbeat every 20 ms that records its own delay.

The problem: code that computes for too long without a break delays watches, binds and probes, and no timing of a single
request shows it. The idea: a service that sleeps for a fixed time and records by how much it overslept.

For liveness: a blocked loop answers no probe at all, which the kubelet's timeout notices. `problem` covers the other
cases: the heartbeat's task has died, or the loop has just come back from a block longer than the limit and serves this
probe first. It says nothing about the API server: a liveness check that fails with a dependency would restart a healthy
scheduler into the same outage.
"""

from collections.abc import Callable, Iterable

from kscheduler.aio import REAL_CLOCK, Clock
from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.scheduling.plugin_reports import SlowCall
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.storms import Throttle
from kscheduler.telemetry.samples import Sample, gauge, histograms
from kscheduler.telemetry.series import Histograms, MetricSeries

LAG = MetricSeries("kscheduler_loop_lag_seconds", "Delay of the event loop's heartbeat.")
WORST_LAG = MetricSeries("kscheduler_loop_lag_worst_seconds", "The longest lag within the last one to two minutes.")

_log = get_logger(__name__)

# A longer block of the loop is logged, with the plugin that caused it, if any.
HELD_SECONDS = 1.0
# After such a line further blocks are only counted.
_QUIET_SECONDS = 60.0
_WINDOW_SECONDS = 60.0
# Seconds. The 99th percentile must stay below 50 ms.
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
# A beat costs some 20 us: a thousandth of a core.
_INTERVAL_SECONDS = 0.02


class LoopLag:
    """A heartbeat and its record. Run it as a service; read it on the same loop."""

    name = "loop-lag"

    def __init__(
        self,
        *,
        interval_seconds: float = _INTERVAL_SECONDS,
        limit_seconds: float = 30.0,
        clock: Clock = REAL_CLOCK,
        slowest_call: Callable[[float], SlowCall | None] = lambda _seconds: None,
    ) -> None:
        """`slowest_call(seconds)`: the longest call of a plugin that ended within the last `seconds`."""
        self._slowest_call = slowest_call
        self._held_lines = Throttle(_QUIET_SECONDS)
        self._interval = interval_seconds
        self._limit = limit_seconds
        self._clock = clock
        self._lags = Histograms(LAG, _BOUNDS)
        self._due: float | None = None
        self._window_start = clock.monotonic()
        self._worst = self._previous_worst = 0.0

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            self._due = self._clock.monotonic() + self._interval
            await self._clock.sleep(self._interval)
            self._beat(self._clock.monotonic(), self._due)

    def _beat(self, now: float, due: float) -> None:
        lag = max(now - due, 0.0)
        self._lags[()].observe(lag)
        self._roll(now)
        self._worst = max(self._worst, lag)
        if lag > PLUGIN_TIME.at_most(HELD_SECONDS):
            self._report(now, lag)

    def _report(self, now: float, lag: float) -> None:
        """Log how long nothing else could run, and the plugin responsible, if known."""
        call = self._slowest_call(lag + self._interval)
        if not self._held_lines.admits(now):
            return
        left_out = self._held_lines.take_left_out()
        repeats = {"times_since": left_out} if left_out else {}
        culprit = _culprit_fields(call) if call is not None else {}
        _log.warning("event_loop_held", seconds=round(lag, 3), **culprit, **repeats)

    def _roll(self, now: float) -> None:
        """Begin a new window after a minute. With two windows every scraper sees at least the last minute."""
        if now - self._window_start < _WINDOW_SECONDS:
            return
        skipped = now - self._window_start >= 2 * _WINDOW_SECONDS
        self._previous_worst = 0.0 if skipped else self._worst
        self._worst = 0.0
        self._window_start = now

    @property
    def worst_seconds(self) -> float:
        """The longest lag of the last one to two minutes; a beat that is overdue right now counts."""
        overdue = 0.0 if self._due is None else self._clock.monotonic() - self._due
        return max(self._worst, self._previous_worst, overdue)

    @property
    def beats(self) -> int:
        """The number of heartbeats so far."""
        return self._lags[()].count

    def problem(self) -> str | None:
        """For liveness: what is wrong with the loop, or `None`; also `None` before `run` has begun."""
        if self._due is None:
            return None
        late = self._clock.monotonic() - self._due
        return f"no heartbeat of the event loop for {late:.1f} s" if late > self._limit else None

    def samples(self) -> Iterable[Sample]:
        """A `Source`."""
        return [histograms(self._lags), gauge(WORST_LAG, {(): self.worst_seconds})]


def _culprit_fields(call: SlowCall) -> dict[str, object]:
    """The slowest call, as fields of a log line."""
    return {
        "plugin": call.plugin,
        "extension_point": call.extension_point,
        "pod": call.pod,
        "plugin_seconds": round(call.seconds, 3),
    }
