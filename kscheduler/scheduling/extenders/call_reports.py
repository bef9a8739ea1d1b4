"""What calls to one extender say about it: a histogram for metrics, and two lines of the log for an outage.

An extender that is away fails each pod that concerns it, thousands of times; the pods' conditions tell of each. The log
has a warning when it begins to fail, the same each minute while calls go on to fail, and one line when it has answered
again for some seconds: one that fails every other call is one outage.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.storms import Throttle
from kscheduler.telemetry.series import Histograms

_log = get_logger("extenders")

# An outage is over with the first answer so long after the last failure.
RECOVERY_SECONDS: Final = 5.0
# How long after a line about an answer that was ignored further ones are only counted, by verb.
QUIET_SECONDS: Final = 60.0


class CallResult(StrEnum):
    """How a call ended: the `result` label."""

    SUCCESS = "success"
    TIMEOUT = "timeout"
    ERROR = "error"
    """No answer, an answer that is none, or one that says no (an `Error`, or a claim that cannot be)."""


class CallReports:
    """Counts the calls of one extender."""

    def __init__(
        self,
        extender: str,
        now: Callable[[], float],
        seconds: Histograms | None = None,
        *,
        is_ignorable: bool = False,
        logs: bool = True,
    ) -> None:
        """`now`: monotonic seconds. `seconds`: the histogram, by extender, verb and result; `None`: nobody reads it.

        `logs`: a command that prints an answer logs nothing.
        """
        self._logs = logs
        self._extender = extender
        self._is_ignorable = is_ignorable
        self._seconds = seconds
        self.now = now
        self._failing_since: float | None = None
        self._last_failure = 0.0
        self._failures = 0
        self._last_reason = ""
        self._has_reported_of_scores = False
        self._outage_lines = Throttle(QUIET_SECONDS)
        self._refusals: dict[str, Throttle] = {}
        """By verb of the protocol."""

    def notes(self) -> Iterable[str]:
        """A line about the outage, if there is one."""
        if self._failing_since is None:
            return
        now = self.now()
        times = "once" if self._failures == 1 else f"{self._failures} times in {now - self._failing_since:.0f} s"
        last = f"{now - self._last_failure:.0f} s ago"
        yield f"extender {self._extender} has failed {times}, last {last}: {self._last_reason}"

    def ended(self, verb: str, result: CallResult, began: float) -> None:
        """A call has ended; `verb` is the protocol's, not the configured path."""
        if self._seconds is not None:
            self._seconds[self._extender, verb, result].observe(self.now() - began)

    def answered(self) -> None:
        """The extender has given an answer, whatever it says."""
        now = self.now()
        if self._failing_since is None or now - self._last_failure < RECOVERY_SECONDS:
            return
        seconds = round(now - self._failing_since, 3)
        _log.info("extender_recovered", extender=self._extender, failures=self._failures, seconds=seconds)
        self._failing_since, self._failures, self._outage_lines = None, 0, Throttle(QUIET_SECONDS)

    def scored_outside(self, node: str, score: int) -> None:
        """A score is not within 0 to 10. It counts, as in kube-scheduler, and may outweigh all plugins: told once."""
        if self._logs and not self._has_reported_of_scores:
            self._has_reported_of_scores = True
            _log.warning("extender_scores_out_of_range", extender=self._extender, node=node, score=score)

    def passed_over(self, verb: str, pod: str, reason: str) -> None:
        """An ignorable extender has answered with an error, or with what cannot be: no condition tells of it."""
        if not self._logs or not self._refusals.setdefault(verb, Throttle(QUIET_SECONDS)).admits(self.now()):
            return
        times = self._refusals[verb].take_left_out()
        since = {"times_since": times} if times else {}
        _log.warning("extender_passed_over", extender=self._extender, verb=verb, pod=pod, err=reason, **since)

    def was_unavailable(self, verb: str, pod: str, reason: str) -> None:
        """It was not reached, was too slow, or has answered nonsense."""
        if not self._logs:
            return
        self._last_failure = self.now()
        self._failures += 1
        self._last_reason = reason
        _log.debug("extender_call_failed", extender=self._extender, verb=verb, pod=pod, err=reason)
        if self._failing_since is None:
            self._failing_since = self._last_failure
        if not self._outage_lines.admits(self._last_failure):
            return
        times, seconds = self._outage_lines.take_left_out(), round(self._last_failure - self._failing_since)
        since = {"failing_seconds": seconds, "times_since": times} if seconds else {}
        then = "its pods are decided without it" if self._is_ignorable else "its pods are tried again later"
        if verb == "prioritize":
            then = "it gives no points"
        _log.warning("extender_failing", extender=self._extender, verb=verb, pod=pod, err=reason, then=then, **since)
