"""Whether plugins' code has limits in time, in this process.

The problem: a person who looks into a plugin with a debugger stops the whole process at a line of it, for minutes.
Every limit on the time of a plugin's code would end, cancel, hold back or report that code meanwhile: the budget of a
call, a decision's time, the deadlines of `refresh`, `permit`, `post_bind` and `close`, of an import and of reading a
changed file. The idea: code that has such a limit asks here how long it is (`at_most`), so that `--debug-plugins`
decides once, before any plugin is loaded, and no limit can be forgotten.

    who asks                                  limits hold            lifted (--debug-plugins)
    a service                                 a debugger is kept out     a debugger may stand as long as it likes
    explain, simulate, plugin check, tests    a call in which a          likewise; coroutines and imports, too
                                              debugger stands goes on

Not asked are the times that a plugin names itself (the timeout of a Wait in Permit, `refresh_interval`), and what is
no limit on a plugin's code: backoffs, the queue's times, the API server's.
"""

from types import FrameType
from typing import Final, Protocol

# The decision under way in this process, and the end of its time.
#
# The problem: a decision can be ended (`scheduling.in_time`) only where nothing is half changed. Code of
# the state is never left in the middle, so it must look itself whether the time is up; and the watchdog, in a thread of
# its own, must be able to say which pod the loop was held by. Both are far below and apart from the code that decides.
#
# The idea: one record, written by the decision and by the timer, and read by all others. Decisions are made one after
# the other, so there is one.

# How the message of such a pod begins. It stands in the pod's condition, so the next leader knows of it, too.
DECISION_ENDED: Final = "the decision about this pod was ended"


class DecisionEndedError(BaseException):
    """A decision has used up its time and is ended where it stands; its caller says what follows.

    No `Exception`, and no failure of the plugin that happened to run: nobody between may catch it.
    """


class PodUnderDecision(Protocol):
    """A pod: `PodInfo`."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        ...


class DecisionTime:
    """The decision under way, and what of its time is used up. Times are seconds, `None` until they are read.

    Written once for each pod, so it is reused and reads no clock: the timer does, when it first finds the decision.
    """

    __slots__ = ("has_begun", "interrupts", "is_up", "pod", "processor_began", "seconds", "wall_began")

    def __init__(self) -> None:
        self.pod: PodUnderDecision | None = None
        """Whom it is about; `None` between decisions: who decides takes it away. Read by the watchdog, if the decision
        never returns."""
        self.has_begun = False
        """Whether any decision has begun since the timer has last found none."""
        self.seconds = 0.0
        """How long it may take, from when the clocks are read."""
        self.wall_began: float | None = None
        """By `perf_counter`, later by what plugins' calls have taken: these have budgets of their own."""
        self.processor_began = 0.0
        """By `thread_time`."""
        self.is_up = False
        """Its time is used up, but the timer found it in the middle of the state: it ends at the state's next door."""
        self.interrupts = 0
        """How often the timer has ended it; if at all, its answer is worth nothing. More than once, if something has
        caught that."""

    def begin(self, pod: PodUnderDecision, seconds: float) -> None:
        """A decision begins. What the last one has left does not concern it."""
        self.pod, self.seconds, self.wall_began = pod, seconds, None
        self.has_begun, self.is_up, self.interrupts = True, False, 0

    def read_clocks(self, wall: float, processor: float) -> None:
        """Its time counts from now on."""
        self.wall_began, self.processor_began = wall, processor

    def left(self, wall: float, processor: float) -> float:
        """The larger of what is left of wall-clock time without plugins' calls, and of processor time."""
        began = wall if self.wall_began is None else self.wall_began
        return max(began + self.seconds - wall, self.processor_began + self.seconds - processor)


# Of this process.
DECISION_TIME: Final = DecisionTime()


# Stands for no limit. A number, because timers, logs and wall-clock times cannot all be infinite.
UNLIMITED_SECONDS: Final = 30 * 86400.0
# Modules with whose code a debugger waits for a person. Those of ipdb, pudb and pytest are `bdb` below the surface.
_DEBUGGERS: Final = frozenset(("_pydevd_bundle", "bdb", "debugpy", "pdb", "pydevd"))


class PluginTimeLimits:
    """What a command has decided, before it has loaded a plugin. Use `PLUGIN_TIME`: a debugger stops the process."""

    __slots__ = ("is_limited", "lets_debuggers_in")

    def __init__(self) -> None:
        self.is_limited = True
        """Whether there are limits at all."""
        self.lets_debuggers_in = True
        """Whether a call goes on in which a debugger stands, though there are limits. Not in a service."""

    def at_most(self, seconds: float) -> float:
        """How long a plugin's code may take where the limit is `seconds`."""
        return seconds if self.is_limited else UNLIMITED_SECONDS

    def is_held(self, interrupted: FrameType | None) -> bool:
        """Whether a debugger stands in the code that was interrupted, and may."""
        frame = interrupted if self.lets_debuggers_in else None
        while frame is not None:
            if str(frame.f_globals.get("__name__", "")).partition(".")[0] in _DEBUGGERS:
                return True
            frame = frame.f_back
        return False


# Of this process.
PLUGIN_TIME: Final = PluginTimeLimits()
