"""The decision under way in this process, and the end of its time.

The problem: a decision can be ended (`scheduling.in_time`) only where nothing is half changed. Code of the state
is never left in the middle, so it must look itself whether the time is up; and the watchdog, in a thread of its own,
must be able to say which pod the loop was held by. Both are far below and apart from the code that decides.

The idea: one record, written by the decision and by the timer, and read by all others. Decisions are made one after
the other, so there is one.
"""

from typing import Final, Protocol

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
