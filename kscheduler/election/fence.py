"""The right to write, checked before each write.

A process that was stopped for a minute believes that it leads until somebody looks at the clock. So the clock is
looked at before each write leaves (`client.http`; through a proxy, before its connection is opened), without a
request: 0.2 us. The check is in the one place that these writes pass, not with their callers, so that none can
forget it. Events alone leave without it: they change no decision, and the end of a term is told by one.

A refused write does not return to its caller as long as the process stops leading in time: the pod has not failed, and
its plugins are not to be asked to undo anything. The caller waits until it is cancelled with all that the process has
begun as leader, or until the process ends; the refusal itself brings that about. If neither happens within
`HELD_SECONDS`, or if the process never led, the caller gets a `FencedError` (`refused`).

Nobody opens a fence again that has closed: each term has its own.

What a fence cannot do: call back a request that has been sent. It may lie in a buffer of the kernel, a proxy or the API
server, and be applied when another process leads. Three things make that rare and mostly harmless: a leader stops
`leaseDuration - renewDeadline` before anybody else begins, the same process included; connections are reset when the
term or the process ends, so the kernel drops what it has not sent; and each write carries the UID or the version of its
object, so the API server refuses a second Binding of a pod. Left over is a Binding that was delayed by more than those
seconds and takes room which the new leader has given to another pod.
"""

import math
import sys
import time
from collections.abc import Callable
from typing import Final, NoReturn

from kscheduler.aio.clock import Clock
from kscheduler.client.errors import FencedError

# How long a refused caller waits for the end of the process.
HELD_SECONDS: Final = 30.0


class Fence:
    """Implements `client.rest.WriteFence`. Closed at first."""

    __slots__ = ("_clock", "_now", "_until", "has_closed", "on_refusal", "refusals")

    def __init__(self, now: Callable[[], float], clock: Clock) -> None:
        """`now` counts suspension (`boot_time`); `clock` is what waits."""
        self._now = now
        self._clock = clock
        self._until = -math.inf
        self.has_closed = False
        """The process has led, and may not any more."""
        self.refusals = 0
        self.on_refusal: Callable[[str], None] = lambda _write: None
        """Called with the write's method and path, for the process to end."""

    def open_until(self, until: float) -> None:
        """Writes may leave until then, in seconds of `now`."""
        self._until = until

    def close(self) -> None:
        """No write may leave any more."""
        self._until = -math.inf
        self.has_closed = True

    def is_open(self) -> bool:
        """Whether a write may leave now."""
        return self._now() < self._until

    async def refused(self, write: str) -> NoReturn:
        """Report a write that was not sent; waits for the end of the process. Raises `FencedError`.

        A process that has never led is not ended by it: some part writes too early, which is a bug of that part.
        """
        self.refusals += 1
        led = self.has_closed or self._until > -math.inf
        if led:
            self.on_refusal(write)
            await self._clock.sleep(HELD_SECONDS)
        reason = "its lease has run out" if led else "it does not lead"
        message = f"{write} was not sent: this process may not write, because {reason}"
        raise FencedError(message)


# --- a clock that goes on while the machine sleeps -----------------------------------------------------------------
#
# `time.monotonic` stands still while a laptop or a virtual machine is suspended; a lease runs out meanwhile. Linux has
# `CLOCK_BOOTTIME`, which counts that time. On macOS, `time.monotonic` stands still during sleep, and there
# `CLOCK_MONOTONIC` counts it. Elsewhere `time.monotonic` has to do: Windows' counts sleep by itself.


def _best_clock() -> Callable[[], float]:
    number = getattr(time, "CLOCK_BOOTTIME", None)
    if number is None and sys.platform == "darwin":
        number = getattr(time, "CLOCK_MONOTONIC", None)
    if number is None:
        return time.monotonic
    try:
        time.clock_gettime(number)
    except OSError:  # a sandbox that knows no such clock
        return time.monotonic
    known: int = number
    return lambda: time.clock_gettime(known)


# Seconds since an arbitrary moment; never steps back, and counts suspension where the system can.
boot_time: Callable[[], float] = _best_clock()
