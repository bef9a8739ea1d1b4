"""Whether the API server can be reached, for readiness and for a few log lines.

The problem: when the API server goes away, a dozen reflectors, binds, conditions and Events all notice, each would log
it, and none knows when it is back. The idea: requests and watches report every outcome to one small state machine, and
the logger asks it once a second for lines:

    reachable --a failure--> in doubt --2 s without a success--> away --a line a minute--> ... --a success--> back
                                 '--a success--> reachable, and nothing is logged

Any answer of the API server itself counts as a success, refusals included, and so does any data on a watch. A 401 is
a trouble of its own, which events on old watches do not end; so is a storm of 429. The first few outages are logged at
once; a trouble that keeps coming and going is logged once a minute, with how often it came and went untold.

An outage is noticed when a request fails. It is dated back to the moment when that request was sent, or to the last
sign of life if that came later. Requests that their senders gave up after `DOUBT_SECONDS` or more without an answer (a
renewal of the lease) date it back as well. The two seconds of doubt always count from the moment of notice.

Open connections say nothing about new ones: without DNS, file descriptors or a valid certificate requests succeed over
the former, and no watch that ends can be opened again. So that is a trouble of its own, which ends when a connection is
made; so are look-ups of the host's name that fail while the addresses found before still serve.

Pure: time comes in as an argument, in monotonic seconds. Limit: without requests and watch data it knows nothing;
`probe_interval` says when a probe is due.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from kscheduler.client.errors import APIError
from kscheduler.client.outage_cause import (
    Cause,
    Diagnosed,
    advice_about,
    cause_of_failure,
    cause_of_refusal,
    is_about_new_connections,
)
from kscheduler.telemetry.logs.storms import Throttle

# After this long without a success the scheduler is not ready.
UNREADY_SECONDS: Final = 30.0
# A failure followed by a success within this time is not reported: a restart behind a load balancer.
DOUBT_SECONDS: Final = 2.0
# Seconds between two lines about one trouble.
LINE_SECONDS: Final = 60.0
# After this long without data a probe is due. A quiet watch brings a bookmark a minute.
QUIET_SECONDS: Final = 10.0
_PROBE_SECONDS: Final = 1.0
# While requests succeed and no new connection can be made.
_CONNECT_PROBE_SECONDS: Final = 5.0
# How many beginnings of one trouble are logged at once; one more is allowed per minute.
PROMPT_LINES: Final = 3
# This many answers 429 within a minute are worth a line; fewer are normal.
STORM: Final = 20

# Causes of an outage. The metric has all of them from the start, so that a rate sees the first outage too.
_OUTAGES: Final = tuple(cause for cause in Cause if cause is not Cause.THROTTLED)

Level = Literal["error", "warning", "info"]


class LogLine(msgspec.Struct, frozen=True):
    """A line for the log."""

    level: Level
    message: str
    fields: dict[str, object] = {}


@dataclass(slots=True)
class _Trouble:
    """One kind of trouble, from its first failure to the next success."""

    since: float | None = None
    noticed_at: float = 0.0
    diagnosed: Diagnosed | None = None
    is_logged: bool = False
    untold: int = 0
    """How often it came and went since the last line about it."""
    silent_until: float = float("-inf")
    """No `Throttle`: a trouble that begins again may be logged earlier, as long as `_prompt` lasts."""
    _prompt: float = PROMPT_LINES
    """How many beginnings may be logged at once; it grows by one a minute."""
    _counted_at: float = 0.0

    def begin(self, diagnosed: Diagnosed, now: float, since: float | None = None) -> None:
        """It is noticed now. `since`: when it began, if that was earlier; of several moments the first."""
        began = now if since is None else since
        if self.since is None:
            self.since, self.noticed_at = began, now
        self.since = min(self.since, began)
        self.diagnosed = diagnosed

    def end(self) -> None:
        self.since, self.diagnosed, self.is_logged = None, None, False

    def seconds(self, now: float) -> float:
        """How long the trouble has lasted; 0 while it is in doubt."""
        return 0.0 if self.since is None or now - self.noticed_at < DOUBT_SECONDS else now - self.since

    def is_due(self, now: float) -> bool:
        return self.seconds(now) > 0 and (now >= self.silent_until if self.is_logged else self._prompt_at(now) >= 1)

    def logged(self, now: float) -> None:
        """A line about the trouble was logged."""
        if not self.is_logged:
            self._prompt, self._counted_at = self._prompt_at(now) - 1, now
        self.is_logged, self.silent_until = True, now + LINE_SECONDS

    def _prompt_at(self, now: float) -> float:
        return min(PROMPT_LINES, self._prompt + (now - self._counted_at) / LINE_SECONDS)


class ReachabilityStatistics(msgspec.Struct, frozen=True):
    """A snapshot for metrics."""

    unreachable_seconds: float
    unauthorized_seconds: float
    outages: dict[str, int]
    """How often the API server went away, or stopped accepting our credentials, by cause."""


class APIServerReachability:
    """What is known of one API server."""

    def __init__(self, server: str, now: float = 0.0) -> None:
        """`server`: its host and port, for messages."""
        self.server = server
        self._last_success = now
        self._last_heard_at = now
        self._given_up_since: float | None = None
        """When the oldest of the requests was sent that were given up without an answer since the last sign of life."""
        self._away = _Trouble()
        self._unauthorized = _Trouble()
        self._connecting = _Trouble()
        self._names = _Trouble()
        self._throttled = 0
        self._throttled_since = now
        self._storm_lines = Throttle(LINE_SECONDS)
        self._refusal: Diagnosed | None = None
        """The last answer that was neither success nor outage: a 401 or 429."""
        self._refusal_at = now
        self.returns = 0
        """How often the API server has answered again after it did not."""
        self._outages: Counter[str] = Counter()
        self._ended: list[LogLine] = []

    # --- reports of requests and watches ------------------------------------------------------------------------------

    def succeeded(self, now: float) -> None:
        """The API server has answered a request."""
        self._last_success = self._last_heard_at = now
        self._given_up_since = None
        if self._away.since is not None:
            self._back(now)
        if self._unauthorized.since is not None:
            self._accepted(now)

    def heard(self, now: float) -> None:
        """A watch has brought data: the API server is up, whatever happens to our requests."""
        self._last_success = now
        self._heard_from(now)

    def refused(self, error: APIError, now: float, sent_at: float | None = None) -> None:
        """A request was refused. Usually that counts as a success: the server is up and has judged the request."""
        diagnosed = cause_of_refusal(error)
        if diagnosed is None:
            self.succeeded(now)
        elif diagnosed.cause is Cause.UNAUTHORIZED:
            self._answered(diagnosed, now)
            self._unauthorized.begin(diagnosed, now)
        elif diagnosed.cause is Cause.THROTTLED:
            self._answered(diagnosed, now)
            if now - self._throttled_since >= LINE_SECONDS and self._throttled < STORM:
                self._throttled, self._throttled_since = 0, now
            self._throttled += 1
        else:
            self._away.begin(diagnosed, now, self._silent_since(sent_at, now))

    def failed(self, failure: BaseException, now: float, text: str = "", sent_at: float | None = None) -> None:
        """No answer came; `text` is the error as the caller sees it. `sent_at`: when it was asked for."""
        diagnosed = cause_of_failure(failure, text)
        if diagnosed.cause is Cause.CREDENTIALS:
            self._unauthorized.begin(diagnosed, now)
        else:
            self._away.begin(diagnosed, now, self._silent_since(sent_at, now))
        if is_about_new_connections(failure):
            self._connecting.begin(diagnosed, now)

    def given_up(self, sent_at: float, now: float) -> None:
        """The sender of a request no longer waits for its answer. That is no failure, but dates the next one back.

        Most cancelled requests have waited for a moment only, which says nothing about the API server.
        """
        if now - sent_at >= DOUBT_SECONDS:
            self._given_up_since = self._silent_since(sent_at, now)

    def _silent_since(self, sent_at: float | None, now: float) -> float:
        """When the silence began in which a request that was sent at `sent_at` has had no answer."""
        began = now if sent_at is None else max(sent_at, self._last_heard_at)
        return began if self._given_up_since is None else min(began, self._given_up_since)

    def connected(self, now: float) -> None:
        """A connection was made."""
        if self._connecting.since is not None:
            self._log_end(self._connecting, "new_connections_work_again", now)
            self._connecting.end()

    def unresolved(self, failure: OSError, now: float) -> None:
        """The host's name could not be looked up, and addresses that were found before are used."""
        self._names.begin(cause_of_failure(failure, f"the host's name cannot be looked up: {failure}"), now)

    def resolved(self, now: float) -> None:
        """The host's name was looked up."""
        if self._names.since is not None:
            self._log_end(self._names, "host_name_resolved_again", now)
            self._names.end()

    def _answered(self, refusal: Diagnosed, now: float) -> None:
        """The server answers but does not serve us: neither a success nor an outage."""
        self._refusal, self._refusal_at = refusal, now
        self._heard_from(now)

    def _heard_from(self, now: float) -> None:
        self._last_heard_at, self._given_up_since = now, None
        if self._away.since is not None:
            self._back(now)

    # --- queries ------------------------------------------------------------------------------------------------------

    @property
    def last_heard_at(self) -> float:
        """When the last sign of life came, in monotonic seconds: a success, data on a watch, or a 401 or 429.

        `_last_success`, which readiness goes by, does not count these two, which refuse to serve us.
        """
        return self._last_heard_at

    def problem(self, now: float) -> str | None:
        """Why the scheduler is not ready, or `None`."""
        refused = self._unauthorized
        if refused.diagnosed is not None and refused.seconds(now) >= UNREADY_SECONDS:
            seconds = _seconds(refused.seconds(now))
            return f"{self.server} has not accepted our credentials for {seconds} s: {refused.diagnosed.text}"
        silent = now - self._last_success
        if silent < UNREADY_SECONDS:
            return None
        silence = f"no request to {self.server} has succeeded and no watch has brought anything"
        return f"{silence} for {_seconds(silent)} s: {self._last_word()}"

    def outage(self, now: float) -> str | None:
        """What is wrong, as soon as it is beyond doubt; `None`: nothing is."""
        for trouble in (self._away, self._unauthorized):
            if trouble.diagnosed is not None and trouble.seconds(now) > 0:
                return (
                    f"{self.server} has not served us for {_seconds(trouble.seconds(now))} s: {trouble.diagnosed.text}"
                )
        return None

    def _last_word(self) -> str:
        """The last failure or refusal, in place of a success."""
        if self._away.diagnosed is not None:
            return self._away.diagnosed.text
        if self._refusal is not None and self._refusal_at >= self._last_success:
            return self._refusal.text
        return "nothing has been heard from it"

    def is_in_trouble(self, now: float) -> bool:
        """Whether all requests fail or may fail; complaints about single resources are then not worth a line."""
        is_throttled = self._throttled >= STORM or self._storm_lines.is_quiet(now)
        return self._away.since is not None or self._unauthorized.since is not None or is_throttled

    def notes(self, now: float) -> Iterator[str]:
        """For `/readyz?verbose`: troubles that leave us ready."""
        for trouble, what in (
            (self._connecting, "no new connection can be made"),
            (self._names, "old addresses are used"),
        ):
            if trouble.diagnosed is not None and trouble.seconds(now) > 0:
                yield f"{self.server}: {what} for {_seconds(trouble.seconds(now))} s: {trouble.diagnosed.text}"

    def must_reconnect(self) -> bool:
        """Whether a probe should go over a new connection, as none could be made."""
        return self._connecting.since is not None

    def is_outage(self, now: float) -> bool:
        """Whether all requests fail, beyond doubt."""
        return self._away.seconds(now) > 0 or self._unauthorized.seconds(now) > 0

    def probe_interval(self, now: float) -> float | None:
        """Seconds between probes of the API server; `None` if none are needed: other requests succeed."""
        if self._away.since is not None:
            return _PROBE_SECONDS
        if self._connecting.since is not None:
            return _CONNECT_PROBE_SECONDS
        if self._unauthorized.since is not None or now - self._last_success >= QUIET_SECONDS:
            return QUIET_SECONDS  # each 401 may run an exec plugin
        return None

    def statistics(self, now: float) -> ReachabilityStatistics:
        return ReachabilityStatistics(
            self._away.seconds(now),
            self._unauthorized.seconds(now),
            {str(cause): self._outages[cause] for cause in _OUTAGES},
        )

    def lines(self, now: float) -> list[LogLine]:
        """The lines to log now; called about once a second."""
        lines, self._ended = self._ended, []
        lines += self._of_trouble(self._away, "api_server_unreachable", "api_server_still_unreachable", now)
        lines += self._of_trouble(self._unauthorized, "credentials_refused", "credentials_still_refused", now)
        # An outage says it all; beside it this would be the same line again.
        if self._away.since is None or not self._away.seconds(now):
            lines += self._of_trouble(self._connecting, "new_connections_fail", "new_connections_still_fail", now)
        lines += self._of_trouble(self._names, "host_name_not_resolved", "host_name_still_not_resolved", now)
        lines += self._of_storm(now)
        return lines

    # --- lines --------------------------------------------------------------------------------------------------------

    def _of_trouble(self, trouble: _Trouble, begins: str, goes_on: str, now: float) -> list[LogLine]:
        if trouble.diagnosed is None or not trouble.is_due(now):
            return []
        fields: dict[str, object] = {"server": self.server}
        if trouble.is_logged:
            fields["seconds"] = _seconds(trouble.seconds(now))
        else:
            self._outages[trouble.diagnosed.cause] += 1
        fields |= {
            "cause": str(trouble.diagnosed.cause),
            "err": trouble.diagnosed.text,
            "advice": trouble.diagnosed.advice,
        }
        if trouble.untold:
            fields["times_since"], trouble.untold = trouble.untold, 0
        message = goes_on if trouble.is_logged else begins
        trouble.logged(now)
        return [LogLine("error", message, fields)]

    def _back(self, now: float) -> None:
        self.returns += 1
        self._log_end(self._away, "api_server_reachable_again", now)
        self._away.end()

    def _accepted(self, now: float) -> None:
        self._log_end(self._unauthorized, "credentials_accepted_again", now)
        self._unauthorized.end()

    def _log_end(self, trouble: _Trouble, message: str, now: float) -> None:
        """Log the end of a trouble whose beginning was logged; count it if it was not, and was beyond doubt."""
        if trouble.is_logged:
            self._ended.append(
                LogLine("info", message, {"server": self.server, "seconds": _seconds(trouble.seconds(now))})
            )
        elif trouble.diagnosed is not None and trouble.seconds(now) > 0:
            trouble.untold += 1
            self._outages[trouble.diagnosed.cause] += 1

    def _of_storm(self, now: float) -> list[LogLine]:
        """A line as soon as there are `STORM` answers 429, then one a minute with the number since the last line."""
        if self._throttled < STORM or not self._storm_lines.admits(now):
            return []
        fields: dict[str, object] = {
            "server": self.server,
            "answers_429": self._throttled,
            "seconds": _seconds(now - self._throttled_since),
            "advice": advice_about(Cause.THROTTLED),
        }
        self._throttled, self._throttled_since = 0, now
        return [LogLine("warning", "api_server_throttles", fields)]


def _seconds(seconds: float) -> int | float:
    return round(seconds) if seconds >= 10 else round(seconds, 1)
