"""How often and how soon: exponential backoff per item, and a token bucket for requests per second."""

import random

from kscheduler.aio.clock import REAL_CLOCK, Clock

# How long to wait before the next try: exponential, capped, jittered, reset after a healthy period.

# Shared: making and seeding a generator costs 10 us, and most series never hand out a delay.
_UNSEEDED = random.Random()  # noqa: S311  # spreads retries, protects nothing


class Backoff:
    """A series of delays `initial * factor^n`, at most `cap`, each times a random number in [1, 1 + jitter).

    The random generator is the caller's, seeded where the work must be repeatable.
    """

    def __init__(
        self,
        initial_seconds: float,
        *,
        cap_seconds: float,
        factor: float = 2.0,
        jitter: float = 0.0,
        rng: random.Random | None = None,
        reset_after_seconds: float | None = None,
        clock: Clock = REAL_CLOCK,
    ) -> None:
        """`reset_after_seconds`: after this long without a failure the series restarts by itself."""
        self._initial = initial_seconds
        self._cap = cap_seconds
        self._factor = factor
        self._jitter = jitter
        self._rng = rng or _UNSEEDED
        self._reset_after = reset_after_seconds
        self._clock = clock
        self._last_failure: float | None = None
        self._base = initial_seconds
        self.failures = 0
        """Delays handed out since the last reset."""

    def next(self) -> float:
        """Seconds to wait after one more failure."""
        self._reset_if_healthy()
        base, self._base = self._base, min(self._base * self._factor, self._cap)
        self.failures += 1
        return base * (1.0 + self._jitter * self._rng.random())

    def reset(self) -> None:
        """The work has succeeded: the next delay is the first one again."""
        self._base = self._initial
        self.failures = 0

    def _reset_if_healthy(self) -> None:
        now = self._clock.monotonic()
        if (
            self._reset_after is not None
            and self._last_failure is not None
            and now - self._last_failure > self._reset_after
        ):
            self.reset()
        self._last_failure = now


# A token bucket: a limit on requests per second and on the size of a burst.


class TokenBucket:
    """Fills with `qps` tokens a second up to `burst`; `qps=None` never limits.

    `reserve` lets the balance go negative and returns how long to wait for the token, so callers are served in order
    and no timer polls.
    """

    def __init__(self, qps: float | None, burst: int = 1, clock: Clock = REAL_CLOCK) -> None:
        if qps is not None and (qps <= 0 or burst < 1):
            message = f"a token bucket needs qps > 0 and burst >= 1, not {qps} and {burst}"
            raise ValueError(message)
        self._qps = qps
        self._burst = float(burst)
        self._clock = clock
        self._tokens = float(burst)
        self._filled_at = clock.monotonic()

    def reserve(self) -> float:
        """Take a token, present or future; returns the seconds to wait until it is there."""
        if self._qps is None:
            return 0.0
        self._fill(self._qps)
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._qps)

    async def take(self) -> None:
        """Wait for a token."""
        delay = self.reserve()
        if delay > 0:
            await self._clock.sleep(delay)

    def _fill(self, qps: float) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * qps)
        self._filled_at = now
