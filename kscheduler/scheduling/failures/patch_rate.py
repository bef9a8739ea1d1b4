"""How many patches a second: so many on average, so many at once, fewer while the API server says 429.

A token bucket whose rate gives way: each 429 halves it, and a quiet minute brings all of it back. Pure arithmetic on a
monotonic time that comes in as an argument.
"""

from typing import Final

RECOVERY_SECONDS: Final = 60.0
"""From nothing back to the full rate."""
LEAST_SHARE: Final = 0.02
"""However often the server refuses, this share of the rate remains: somebody has to find out that it has recovered."""
_ROUNDING: Final = 1e-6
"""A wait too short to move a clock would never end."""


class PatchRate:
    """A token bucket that slows down."""

    def __init__(self, per_second: float, burst: int, now: float = 0.0) -> None:
        self._full = per_second
        self._burst = float(burst)
        self._rate = per_second
        self._tokens = float(burst)
        self._filled_at = now

    def delay(self, now: float) -> float:
        """Seconds until the next one may go; 0 when it may go now."""
        self._fill(now)
        missing = 1.0 - self._tokens
        return missing / self._rate if missing > _ROUNDING else 0.0

    def take(self, now: float) -> None:
        """One goes."""
        self._fill(now)
        self._tokens -= 1.0

    def slow_down(self, now: float) -> None:
        """The server has had too much: half as many from now on, and no burst."""
        self._fill(now)
        self._rate = max(self._full * LEAST_SHARE, self._rate / 2)
        self._tokens = min(self._tokens, 0.0)

    def _fill(self, now: float) -> None:
        seconds, self._filled_at = now - self._filled_at, now
        self._tokens = min(self._burst, self._tokens + seconds * self._rate)
        self._rate = min(self._full, self._rate + seconds * self._full / RECOVERY_SECONDS)
