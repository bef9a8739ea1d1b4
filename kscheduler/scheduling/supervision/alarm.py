"""The timer signal that ends a plugin's call at its time budget.

The problem: decisions are made on one thread, so a plugin that loops or sleeps holds up every other pod, the watches
and the lease. The idea: an interval timer (`ITIMER_REAL`) sends SIGALRM, and its handler raises `TimeBudgetError` in
the frame that runs. Where it may raise is the whole difficulty: an exception between two statements of kscheduler would
leave a cache half written. So the handler looks at the frames, from the innermost outwards, up to the first one that is
kscheduler's own:

    plugin.filter <- BudgetedCall                       the plugin runs: raise
    json.loads <- plugin.filter <- BudgetedCall         a library runs for the plugin: raise
    NodeTable.info <- plugin.filter <- BudgetedCall     kscheduler runs: look again in a millisecond
    BudgetedCall                                        the plugin has answered already: look again

A plugin that catches the error and goes on is interrupted again after 10, 20, 40 ... ms. A call in which a debugger
stands has no budget from then on (`framework.plugin_time` says where a debugger may).

The same timer ends decisions (`framework.decision_time`), with another error; `scheduling.in_time` says where that may
be. The calls of plugins within it have their own budgets, and it does not pay for them. While decisions are made, the
handler looks four times a second, and a decision that it finds twice has its time: so a decision costs no call and no
clock.

Arming is cheap because the timer is seldom set: a call only writes down its deadline, and the timer that an earlier
call has set fires before it. The handler then looks at who runs now. Under load that is one `setitimer` per budget
instead of two per call; without calls, one late signal finds nothing to do.

Limits: C code (numpy, a C extension, a lock) is not interrupted before it returns to Python; such an overrun is noticed
afterwards. Signals reach the main thread only, and the handler is installed only where SIGALRM and its timer are not in
use: elsewhere calls are measured and not interrupted. The budget is wall-clock time: a container that is throttled, or
a machine that swaps, uses it up as well.
"""

import atexit
import math
import os
import signal
import threading
from collections.abc import Callable
from enum import Enum
from time import perf_counter, thread_time
from types import CodeType, FrameType
from typing import Final

from kscheduler.config.durations import format_duration
from kscheduler.framework import per_node
from kscheduler.framework.decision_time import DECISION_TIME, DecisionEndedError
from kscheduler.framework.plugin_results import CallEndedError
from kscheduler.framework.plugin_time import PLUGIN_TIME, UNLIMITED_SECONDS
from kscheduler.scheduling.supervision.holds import Caller
from kscheduler.unused_signals import is_free

# When the handler looks again if it found kscheduler's own code running.
LOOK_AGAIN_SECONDS: Final = 0.001
FIRST_REPEAT_SECONDS: Final = 0.01
# How often the handler looks at decisions. It first sees one so much later, at most, than it has begun.
WATCH_SECONDS: Final = 0.25
# 0 would switch the timer off.
_LEAST_SECONDS: Final = 0.0002
_MAX_DOUBLINGS: Final = 6
_OWN: Final = "kscheduler"
# Python modules whose state the event loop and kscheduler's tables rely on: not interrupted either.
_SHARED: Final = frozenset(("asyncio", "weakref", "_weakrefset"))


class TimeBudgetError(CallEndedError):
    """A plugin's call has exceeded its time budget."""

    def __init__(self, text: str, caller: Caller | None = None) -> None:
        super().__init__(text)
        self.caller = caller
        """Who the call was made for."""


def overrun_of(failure: BaseException) -> TimeBudgetError | None:
    """The overrun of the time budget behind a failure: another error may have been raised from it."""
    cause: BaseException | None = failure
    while cause is not None and not isinstance(cause, TimeBudgetError):
        cause = cause.__cause__
    return cause


class RunningCall:
    """A call of a plugin that has not returned."""

    __slots__ = ("began", "deadline", "interrupts", "outer", "seconds")

    def __init__(self, began: float, seconds: float, outer: "RunningCall | None") -> None:
        self.began = began
        self.seconds = seconds
        self.deadline = began + seconds
        self.interrupts = 0
        """How often it was interrupted."""
        self.outer = outer
        """The call of another plugin within which this one was made: a dry run of PostFilter calls filters."""

    def left(self, now: float) -> float:
        """Seconds until it may be ended; `now` is of `perf_counter`."""
        return self.deadline - now

    def is_late(self, seconds: float) -> bool:
        """Whether a call that has ended, and took so long, has exceeded its budget."""
        return self.began + seconds > self.deadline


class InDecision(Enum):
    """Where a signal has found the decision under way."""

    ELSEWHERE = "elsewhere"
    """This thread does not decide."""
    BETWEEN = "between"
    """Something may be half changed: it must not be left here."""
    MAY_END = "may end"


class BudgetAlarm:
    """The timer of a process. Use `ALARM`: there is one `ITIMER_REAL`, so there is one of these."""

    def __init__(self) -> None:
        self._current: RunningCall | None = None
        self._fires_at = math.inf
        """When the timer fires next, or did so last (`perf_counter`)."""
        self._main = threading.main_thread().ident
        self._is_installed: bool | None = None
        self._calling: tuple[CodeType, ...] = per_node.CALLS_THE_USERS_FUNCTION
        self._find: Callable[[FrameType | None], InDecision] = _nowhere
        self.is_watching = False
        """Whether decisions are watched. Then the timer is set."""

    def is_called_from(self, code: CodeType) -> None:
        """Register a function of kscheduler that calls a plugin's code directly."""
        self._calling = (*self._calling, code)

    def begin(self, seconds: float) -> RunningCall:
        """A call begins, with this budget. The caller must `end` it."""
        began = perf_counter()
        if threading.get_ident() != self._main or not (self._is_installed or self._install()):
            return RunningCall(began, seconds, None)
        call = self._current = RunningCall(began, seconds, self._current)
        if not began < self._fires_at <= call.deadline:  # the timer is off, or fires too late
            self._set(began, seconds)
        return call

    def watch_decisions(self, find: Callable[[FrameType | None], InDecision]) -> None:
        """Decisions are made now: look at `DECISION_TIME` again and again until there are no more.

        Called by each decision, as long as `is_watching` is false. `find` says where a signal has found the
        decision; one whose time is up ends by `DecisionEndedError`. Nothing is watched on another thread than the main
        one.
        """
        if threading.get_ident() != self._main or not (self._is_installed or self._install()):
            return
        self._find, self.is_watching = find, True
        self._look_at_decision(perf_counter())

    def time_decision(self) -> None:
        """The time of the decision that has just begun counts from now on, and not from when it is first seen."""
        if self.is_watching:
            now = perf_counter()
            DECISION_TIME.read_clocks(now, thread_time())
            if not now < self._fires_at <= now + DECISION_TIME.seconds:
                self._set(now, DECISION_TIME.seconds)

    def end(self, call: RunningCall) -> float:
        """The call has ended. Returns its seconds; the calls around it do not pay for them."""
        seconds = perf_counter() - call.began
        if self._current is call:
            outer = self._current = call.outer
            if outer is not None:
                outer.deadline += seconds
                outer.began += seconds
            elif DECISION_TIME.wall_began is not None:
                DECISION_TIME.wall_began += seconds
        return seconds

    def _install(self) -> bool:
        """Whether SIGALRM is ours: nobody else handles it, and nobody else has set the timer."""
        if self._is_installed is None:
            self._is_installed = is_free(signal.SIGALRM) and signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
            if self._is_installed:
                signal.signal(signal.SIGALRM, self._on_alarm)
                os.register_at_fork(after_in_child=self._timer_is_off)  # a copy inherits the handler, and no timer
                atexit.register(_stop_timer)  # the interpreter takes the handler away, and the signal would kill
        return self._is_installed

    def _timer_is_off(self) -> None:
        self._fires_at, self.is_watching = math.inf, False

    def _set(self, now: float, seconds: float) -> None:
        seconds = max(seconds, _LEAST_SECONDS)
        self._fires_at = now + seconds
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def _on_alarm(self, _signal: int, frame: FrameType | None) -> None:
        self._fires_at = math.inf
        now = perf_counter()
        if self._current is not None:
            self._look_at_call(self._current, now, frame)
        elif self.is_watching:
            self._look_at_decision(now, frame)

    def _look_at_call(self, call: RunningCall, now: float, frame: FrameType | None) -> None:
        left = call.left(now)
        if left > 0:
            self._set(now, left)
        elif not self._is_in_plugin(frame):
            self._set(now, LOOK_AGAIN_SECONDS)
        elif PLUGIN_TIME.is_held(frame):
            call.deadline += UNLIMITED_SECONDS
        else:
            self._set_repeat(now, call.interrupts)
            call.interrupts += 1
            raise TimeBudgetError(f"it was ended at its time budget of {shown_seconds(call.seconds)}")

    def _look_at_decision(self, now: float, frame: FrameType | None = None) -> None:
        """Between decisions: stop looking if none has begun since the last look. Else: time it, or end it."""
        decision = DECISION_TIME
        if decision.pod is None:
            self.is_watching, decision.has_begun = decision.has_begun, False
            if self.is_watching:
                self._set(now, WATCH_SECONDS)
            return
        if decision.wall_began is None:
            decision.read_clocks(now, thread_time())
        left = decision.left(now, thread_time())
        if left > 0:
            self._set(now, min(left, WATCH_SECONDS))
            return
        where = self._find(frame)
        if where is InDecision.MAY_END:
            self._set_repeat(now, decision.interrupts)
            decision.interrupts += 1
            raise DecisionEndedError
        decision.is_up = where is InDecision.BETWEEN
        self._set(now, LOOK_AGAIN_SECONDS if decision.is_up else WATCH_SECONDS)

    def _set_repeat(self, now: float, interrupts: int) -> None:
        self._set(now, FIRST_REPEAT_SECONDS * 2 ** min(interrupts, _MAX_DOUBLINGS))

    def _is_in_plugin(self, interrupted: FrameType | None) -> bool:
        """Whether the code that was interrupted is a plugin's, or a library's that the plugin has called."""
        frame = interrupted
        while frame is not None:
            module = str(frame.f_globals.get("__name__", ""))
            package = module.partition(".")[0]
            if package == _OWN:
                return frame is not interrupted and frame.f_code in self._calling
            if package in _SHARED:
                return False
            frame = frame.f_back
        return False


def _nowhere(_frame: FrameType | None) -> InDecision:
    return InDecision.ELSEWHERE


def _stop_timer() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.0)


ALARM: Final = BudgetAlarm()


def shown_seconds(seconds: float) -> str:
    """Seconds as configurations spell them: `200ms`."""
    return format_duration(round(seconds * 1e9))
