"""Whether the API server can be reached: requests and watches tell, readiness and a few log lines ask.

The problem: a dozen reflectors, the binds, the conditions and the Events all notice at once that the API server is
gone, each would say so, and none of them knows when it is back. The idea: every outcome is told to one small state,
and whoever logs asks it once a second what there is to say:

    reachable --a failure--> in doubt --2 s without a success--> away --a line a minute--> ... --a success--> back
                                 '--a success--> reachable, and nothing is said

What stands for a success: any answer of the API server itself, a refusal too, and whatever a watch brings. A 401 says
nothing good about our work and is a trouble of its own, which events on old watches do not end; a 429 is one when it
comes in a storm. A few outages in a row are told at once each; a trouble that goes on coming and going speaks once a
minute.

Pure: time comes in as an argument, in monotonic seconds. Limit: with nothing asked and nothing heard it knows nothing;
`probe_interval` says when somebody should ask.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Literal

from kscheduler.client.errors import APIError
from kscheduler.client.outage_cause import ADVICE, Cause, Diagnosed, cause_of_failure, cause_of_refusal
from kscheduler.logs.throttle import Throttle

UNREADY_SECONDS: Final = 30.0
"""After so long without a success the scheduler is not ready."""
DOUBT_SECONDS: Final = 2.0
"""A failure that is followed by a success within this is nobody's concern: a restart behind a load balancer."""
LINE_SECONDS: Final = 60.0
"""Between two lines about one trouble."""
QUIET_SECONDS: Final = 10.0
"""Nothing heard for so long: somebody should ask. A quiet watch brings a bookmark a minute."""
_PROBE_SECONDS: Final = 1.0
PROMPT_LINES: Final = 3
"""So many beginnings of one trouble are told at once; one more may be after each further minute."""
STORM: Final = 20
"""So many answers 429 within a minute are worth a line; fewer are the usual give and take."""

_OUTAGES: Final = tuple(cause for cause in Cause if cause is not Cause.THROTTLED)
"""What an outage may come from. The metric has all of them from the start: a rate sees the first one too."""

Level = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class LogLine:
    """Something for the log."""

    level: Level
    message: str
    fields: dict[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class _Trouble:
    """One kind of trouble, from its first failure to the next success."""

    since: float | None = None
    diagnosed: Diagnosed | None = None
    is_said: bool = False
    silent_until: float = float("-inf")
    """No `Throttle`: a trouble that begins anew may be told earlier, as long as `_prompt` lasts."""
    _prompt: float = PROMPT_LINES
    """How many beginnings may be told at once; it grows by one a minute."""
    _counted_at: float = 0.0

    def begin(self, diagnosed: Diagnosed, now: float) -> None:
        if self.since is None:
            self.since = now
        self.diagnosed = diagnosed

    def end(self) -> None:
        self.since, self.diagnosed, self.is_said = None, None, False

    def seconds(self, now: float) -> float:
        """For how long, once it is no longer a matter of doubt."""
        standing = 0.0 if self.since is None else now - self.since
        return standing if standing >= DOUBT_SECONDS else 0.0

    def is_due(self, now: float) -> bool:
        return self.seconds(now) > 0 and (now >= self.silent_until if self.is_said else self._prompt_at(now) >= 1)

    def say(self, now: float) -> None:
        """A line was written about it."""
        if not self.is_said:
            self._prompt, self._counted_at = self._prompt_at(now) - 1, now
        self.is_said, self.silent_until = True, now + LINE_SECONDS

    def _prompt_at(self, now: float) -> float:
        return min(PROMPT_LINES, self._prompt + (now - self._counted_at) / LINE_SECONDS)


@dataclass(frozen=True, slots=True)
class ReachabilityStatistics:
    """A snapshot for metrics."""

    unreachable_seconds: float
    unauthorized_seconds: float
    outages: dict[str, int]
    """How often the API server went away, or stopped to accept our credentials, by cause."""


class APIServerReachability:
    """What is known of one API server."""

    def __init__(self, server: str, now: float = 0.0) -> None:
        """`server`: its host and port, for people."""
        self.server = server
        self._last_success = now
        self._away = _Trouble()
        self._unauthorized = _Trouble()
        self._throttled = 0
        self._throttled_since = now
        self._storm_lines = Throttle(LINE_SECONDS)
        self._refusal: Diagnosed | None = None
        """The last answer that was no success and no outage: a 401 or 429."""
        self._refusal_at = now
        self._outages: Counter[str] = Counter()
        self._ended: list[LogLine] = []

    # --- what requests and watches tell -------------------------------------------------------------------------------

    def succeeded(self, now: float) -> None:
        """The API server has answered a request."""
        self._last_success = now
        if self._away.since is not None:
            self._back(now)
        if self._unauthorized.since is not None:
            self._accepted(now)

    def heard(self, now: float) -> None:
        """A watch has brought something: it lives, whatever becomes of our requests."""
        self._last_success = now
        if self._away.since is not None:
            self._back(now)

    def refused(self, error: APIError, now: float) -> None:
        """The answer was no. Mostly that is a success: somebody is there, knows us and has looked at it."""
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
            self._away.begin(diagnosed, now)

    def failed(self, failure: BaseException, now: float, text: str = "") -> None:
        """No answer came; `text` is the error as it is told to the caller."""
        diagnosed = cause_of_failure(failure, text)
        trouble = self._unauthorized if diagnosed.cause is Cause.CREDENTIALS else self._away
        trouble.begin(diagnosed, now)

    def _answered(self, refusal: Diagnosed, now: float) -> None:
        """It is there, but does nothing for us: no success, and no outage."""
        self._refusal, self._refusal_at = refusal, now
        if self._away.since is not None:
            self._back(now)

    # --- what others ask ----------------------------------------------------------------------------------------------

    def problem(self, now: float) -> str | None:
        """Why the scheduler is not ready, or `None`."""
        refused = self._unauthorized
        if refused.diagnosed is not None and refused.seconds(now) >= UNREADY_SECONDS:
            seconds = _seconds(refused.seconds(now))
            return f"{self.server} does not accept our credentials for {seconds} s: {refused.diagnosed.text}"
        silent = now - self._last_success
        if silent < UNREADY_SECONDS:
            return None
        what = f"no request to {self.server} has succeeded and no watch has brought anything"
        return f"{what} for {_seconds(silent)} s: {self._last_word()}"

    def _last_word(self) -> str:
        """What came in place of the success that is missing."""
        if self._away.diagnosed is not None:
            return self._away.diagnosed.text
        if self._refusal is not None and self._refusal_at >= self._last_success:
            return self._refusal.text
        return "nothing is heard of it"

    def is_in_trouble(self, now: float) -> bool:
        """Whether everything fails, or may: what single resources have to complain about is then no news."""
        is_throttled = self._throttled >= STORM or self._storm_lines.is_quiet(now)
        return self._away.since is not None or self._unauthorized.since is not None or is_throttled

    def is_outage(self, now: float) -> bool:
        """Whether everything fails, beyond doubt."""
        return self._away.seconds(now) > 0 or self._unauthorized.seconds(now) > 0

    def probe_interval(self, now: float) -> float | None:
        """How often somebody should ask the API server something, in seconds; `None`: others do, and all is well."""
        if self._away.since is not None:
            return _PROBE_SECONDS
        if self._unauthorized.since is not None or now - self._last_success >= QUIET_SECONDS:
            return QUIET_SECONDS  # each 401 may run an exec plugin
        return None

    def statistics(self, now: float) -> ReachabilityStatistics:
        """A snapshot."""
        return ReachabilityStatistics(
            self._away.seconds(now),
            self._unauthorized.seconds(now),
            {str(cause): self._outages[cause] for cause in _OUTAGES},
        )

    def lines(self, now: float) -> list[LogLine]:
        """What there is to log; to be asked each second or so."""
        lines, self._ended = self._ended, []
        lines += self._of_trouble(self._away, "api_server_unreachable", "api_server_still_unreachable", now)
        lines += self._of_trouble(self._unauthorized, "credentials_refused", "credentials_still_refused", now)
        lines += self._of_storm(now)
        return lines

    # --- lines --------------------------------------------------------------------------------------------------------

    def _of_trouble(self, trouble: _Trouble, begins: str, goes_on: str, now: float) -> list[LogLine]:
        if trouble.diagnosed is None or not trouble.is_due(now):
            return []
        fields: dict[str, object] = {"server": self.server}
        if trouble.is_said:
            fields["seconds"] = _seconds(trouble.seconds(now))
        else:
            self._outages[trouble.diagnosed.cause] += 1
        fields |= {
            "cause": str(trouble.diagnosed.cause),
            "err": trouble.diagnosed.text,
            "advice": trouble.diagnosed.advice,
        }
        message = goes_on if trouble.is_said else begins
        trouble.say(now)
        return [LogLine("error", message, fields)]

    def _back(self, now: float) -> None:
        self._say_end(self._away, "api_server_reachable_again", now)
        self._away.end()

    def _accepted(self, now: float) -> None:
        self._say_end(self._unauthorized, "credentials_accepted_again", now)
        self._unauthorized.end()

    def _say_end(self, trouble: _Trouble, message: str, now: float) -> None:
        """Only of what was said to have begun."""
        if trouble.is_said:
            self._ended.append(
                LogLine("info", message, {"server": self.server, "seconds": _seconds(trouble.seconds(now))})
            )

    def _of_storm(self, now: float) -> list[LogLine]:
        """At once when there are too many, and then what came since the last line, each minute while they come."""
        if self._throttled < STORM or not self._storm_lines.admits(now):
            return []
        fields: dict[str, object] = {
            "server": self.server,
            "answers_429": self._throttled,
            "seconds": _seconds(now - self._throttled_since),
            "advice": ADVICE[Cause.THROTTLED],
        }
        self._throttled, self._throttled_since = 0, now
        return [LogLine("warning", "api_server_throttles", fields)]


def _seconds(seconds: float) -> int | float:
    return round(seconds) if seconds >= 10 else round(seconds, 1)
