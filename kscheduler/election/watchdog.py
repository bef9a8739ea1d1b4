"""Ends the process if its event loop does not come back in time.

The election runs on the event loop. If that is blocked past the lease's deadline (C code of a plugin that computes for
a minute, a process that was stopped), another process leads by the time it comes back. The fence keeps writes in; this
thread ends what can do nothing any more, so that a fresh follower takes its place. It also ends a process that has lost
its lease and does not get through its orderly end.

A thread, not a task, because it is the loop that hangs. It needs Python's interpreter lock: while C code holds that,
nobody runs, and nothing is written either.
"""

import os
import threading
from collections.abc import Callable
from typing import Final, NoReturn

from kscheduler.framework.decision_time import DECISION_TIME
from kscheduler.telemetry.logs import get_logger

_log = get_logger("election")

# How long the event loop has, after the deadline, to notice the loss and to end the process in order.
GRACE_SECONDS: Final = 0.5
# How long an orderly end after a loss may take.
ENDING_SECONDS: Final = 10.0
# The thread's waits do not count the time for which the machine sleeps, so they are short.
POLL_SECONDS: Final = 1.0
EXIT_CODE: Final = 1
LAST_LINE_SECONDS: Final = 1.0


def end_process(reason: str) -> NoReturn:
    """Write a last line, then end at once, without any cleaning up. The line names the pod that is decided about."""
    try:
        pod = DECISION_TIME.pod
        if pod is not None:
            reason = f"{reason}; pod {pod.key} was being decided about"
        # In a thread of its own: the thread that hangs may hold the log's lock.
        writer = threading.Thread(
            target=_log.error, args=("ended_by_watchdog",), kwargs={"reason": reason}, daemon=True
        )
        writer.start()
        writer.join(LAST_LINE_SECONDS)
    finally:
        os._exit(EXIT_CODE)


class Watchdog:
    """Calls `end` when a deadline passes that nobody has moved."""

    def __init__(self, now: Callable[[], float], end: Callable[[str], object]) -> None:
        """`now` counts suspension. `end`, called in the watchdog's thread, gets the reason and should not return."""
        self._now = now
        self._end = end
        self._deadline: tuple[float, str] | None = None
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def expect_before(self, deadline: float, reason: str) -> None:
        """End the process at `deadline` for this reason, unless it is moved or lifted before."""
        self._deadline = deadline, reason
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="lease-watchdog", daemon=True)
            self._thread.start()

    def lift(self) -> None:
        """There is no deadline any more; the thread ends."""
        self._deadline = None
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.is_set():
            deadline = self._deadline  # read once: the event loop replaces it at any time
            if deadline is None:
                return
            left = deadline[0] - self._now()
            if left <= 0:
                self._end(deadline[1])
                return
            self._stopped.wait(min(left, POLL_SECONDS))
