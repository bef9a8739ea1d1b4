"""A limit on how much work clients can cause per second, shared fairly among their addresses.

The problem: deciding and serving share one event loop, and a TLS handshake costs as much as ten decisions. A client
that opens connections in a loop would slow all decisions, and a plain limit would make the kubelet's probe wait behind
that client's thousand requests. The idea: each handshake and each further request takes a turn; there are so many turns
per second in all, and while turns are scarce the waiting addresses take them in rotation, those that have asked more
often.

Pure but for one timer of the clock. The number of waiting requests is bounded by the number of connections, since a
connection waits for one turn at a time.
"""

from collections import OrderedDict, deque
from collections.abc import Callable

from kscheduler.aio.clock import REAL_CLOCK, Alarm, Clock

# A turn, less what sums of floats lose: an alarm must never come too early by nothing.
_WHOLE = 1.0 - 1e-6


class Turn:
    """A turn that was asked for; `cancel` gives it up."""

    __slots__ = ("address", "callback")

    def __init__(self, address: str, callback: Callable[[], None]) -> None:
        self.address = address
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """The client has gone: its turn goes to the next, at no cost."""
        self.callback = None


class ConnectionRateLimiter:
    """Gives turns: `burst` at once, then `per_second`."""

    def __init__(self, per_second: float, burst: int, clock: Clock = REAL_CLOCK) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._clock = clock
        self._turns = float(burst)
        self._filled_at = clock.monotonic()
        self._waiting: OrderedDict[str, deque[Turn]] = OrderedDict()
        self._alarm: Alarm | None = None
        self.delayed = 0
        """How many had to wait."""

    def ask(self, address: str, callback: Callable[[], None]) -> Turn:
        """Call `callback` at the turn, which may be at once."""
        turn = Turn(address, callback)
        self._fill()
        if not self._waiting and self._turns >= _WHOLE:
            self._turns -= 1.0
            callback()
            return turn
        self.delayed += 1
        self._waiting.setdefault(address, deque()).append(turn)
        self._arm()
        return turn

    def close(self) -> None:
        """Forget all that wait."""
        self._waiting.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _fill(self) -> None:
        now = self._clock.monotonic()
        self._turns = min(self._burst, self._turns + (now - self._filled_at) * self._per_second)
        self._filled_at = now

    def _arm(self) -> None:
        if self._alarm is None and self._waiting:
            self._alarm = self._clock.call_later(max(0.0, 1.0 - self._turns) / self._per_second, self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm = None
        self._fill()
        while self._turns >= _WHOLE and (callback := self._next()) is not None:
            self._turns -= 1.0
            callback()
        self._arm()

    def _next(self) -> Callable[[], None] | None:
        """The next turn that is still wanted. Its address goes to the end of the rotation."""
        while self._waiting:
            address, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[address] = turns
            if turn.callback is not None:
                return turn.callback
        return None
