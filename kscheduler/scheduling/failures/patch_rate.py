"""The rate of patches: a mean rate and a burst, both reduced while the API server answers 429.

A token bucket: each 429 halves its rate, and a minute without one restores it. Pure arithmetic; monotonic time is an
argument.
"""

from typing import Final

# The time from rate 0 back to the full rate.
RECOVERY_SECONDS: Final = 60.0
# However often the server refuses, this share of the rate remains, to find out when it has recovered.
LEAST_SHARE: Final = 0.02
# Tokens: a smaller shortage counts as none, because a wait too short to move the clock would never end.
_ROUNDING: Final = 1e-6


class PatchRate:
    """A token bucket that slows down."""

    def __init__(self, per_second: float, burst: int, now: float = 0.0) -> None:
        self._full = per_second
        self._burst = float(burst)
        self._rate = per_second
        self._tokens = float(burst)
        self._filled_at = now

    def delay(self, now: float) -> float:
        """Seconds until the next patch may be sent; 0 if it may be sent now."""
        self._fill(now)
        missing = 1.0 - self._tokens
        return missing / self._rate if missing > _ROUNDING else 0.0

    def take(self, now: float) -> None:
        """A patch is sent."""
        self._fill(now)
        self._tokens -= 1.0

    def slow_down(self, now: float) -> None:
        """The server is overloaded: half the rate from now on, and no burst."""
        self._fill(now)
        self._rate = max(self._full * LEAST_SHARE, self._rate / 2)
        self._tokens = min(self._tokens, 0.0)

    def _fill(self, now: float) -> None:
        seconds, self._filled_at = now - self._filled_at, now
        self._tokens = min(self._burst, self._tokens + seconds * self._rate)
        self._rate = min(self._full, self._rate + seconds * self._full / RECOVERY_SECONDS)
