"""A token bucket: a limit on requests per second and on the size of a burst."""

from kscheduler.aio.clock import REAL_CLOCK, Clock


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
