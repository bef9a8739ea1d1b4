"""A circuit breaker per plugin and profile: when it is no longer called, and how it comes back.

The problem: what a plugin answers depends on what users write. A label that nobody expected makes it raise, another one
makes it slow, and neither may stop the pods of another namespace. But a plugin that answers nobody must not be called
for each of a hundred thousand pods. The idea is the circuit breaker's:

             nothing right in between: STRIKES pods of SEVERAL namespaces failed
    CLOSED -----------------------------------------------------------------------> OPEN <----+
      ^                                                                              |        | the call failed:
      |                                                after the backoff, or soon   |        | backoff doubled
      |    the call was answered                       for a pod that is new         v        |
      +-------------------------------------------------------------------------- HALF_OPEN --+

"Nothing right in between" is judged at one extension point, over all pods: as long as the plugin answers for some pod
there, each failure is its pod's own (a right answer counts for `ANSWERS_SECONDS`). An answer that is
kept and used for another pod (`scheduling.classes`) is one, too: without new pods of new classes the plugin may not be
called for hours. What the pods of one namespace do, however many, opens nothing: their user wrote them. While the
circuit is open, the profile is another one (`scheduling.quarantined_profiles`, where the word is quarantine).

In HALF_OPEN one call decides. It is made for a pod of a namespace that has not failed since the circuit opened, if one
comes within `GRACE_SECONDS`: otherwise a pod that always fails and always comes first would keep the circuit open. For
the same reason a pod of a namespace that has not failed yet ends the backoff, and a new pod of one that has shortens
it to 10 s: a label that is wrong on some pods of a namespace must not keep the others from their nodes.

A call over its time budget holds up all pods, so the plugin is *held back* from the pod that it was made for, and from
its namespace where many pods are slow (`holds`). `NotCalledError` is what these pods get meanwhile.

Pure state: no I/O, the clock is an argument. In CLOSED without failures, `is_watched` is false, and a call costs two
looks: at it and at the clock.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from time import time
from typing import Final

from kscheduler.bounded import RecentlyUsed
from kscheduler.scheduling.supervision.holds import (
    FIRST_BACKOFF_SECONDS,
    HELD_BACK,
    LONGEST_BACKOFF_SECONDS,
    NO_NAMESPACE,
    STRIKES,
    Caller,
    Holds,
    ReportedHold,
)

# So many namespaces must these pods be of.
SEVERAL: Final = 2
# How long a half-open circuit waits for a pod of a namespace that has not failed.
GRACE_SECONDS: Final = 10.0
# At least, however many namespaces have pods that were not tried.
BETWEEN_TRIALS_SECONDS: Final = 1.0
# So long after a right answer no failures open the circuit: else the pods of two namespaces that always fail would open
# it again and again, between two pods of others.
ANSWERS_SECONDS: Final = 60.0
# If the plugin is not called where it had failed, right answers elsewhere close a half-open circuit after this.
NOT_CALLED_SECONDS: Final = 60.0
# The extension points whose answers are kept for the pods of a class.
_KEPT_POINTS: Final = frozenset(("Sign", "PreFilter", "Filter", "PreScore", "Score"))
# So often a right answer is told to a circuit that is not watched: so that it knows of one when failures begin.
REPORTED_EACH_SECONDS: Final = 10.0
_MAX_NAMESPACES: Final = 10_000
_MAX_POINTS: Final = 64


class CircuitState(StrEnum):
    """Of a circuit; labels of metrics."""

    CLOSED = "closed"
    """The plugin is called."""
    OPEN = "open"
    """It is not: quarantined."""
    HALF_OPEN = "half-open"
    """It is called again, and one call decides."""


@dataclass(slots=True)
class _Streak:
    """Failures at one extension point without a right answer in between."""

    uids: set[str] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)

    def add(self, caller: Caller) -> None:
        """A pod has failed. Bounded: a few pods stand for all."""
        if len(self.uids) < STRIKES:
            self.uids.add(caller.uid)
        if len(self.namespaces) < SEVERAL:
            self.namespaces.add(caller.namespace)

    def says_all_fail(self, last: Caller) -> str:
        """For whom it has failed, if that is enough to take the plugin for one that answers nobody; else empty."""
        if len(self.uids) < STRIKES:
            return ""
        if last.namespace == NO_NAMESPACE:  # `refresh`, which is about no pod, counts by its calls
            return f"for {STRIKES} calls in a row"
        if len(self.namespaces) < SEVERAL:
            return ""
        return f"for {STRIKES} pods of {SEVERAL} namespaces or more and answered none in between"


class CircuitBreaker:
    """The state of one plugin in one profile."""

    __slots__ = (
        *("holds", "is_watched", "now", "kept_answers", "opened_at", "opened_for", "state", "tried_again_at"),
        *("_failed_namespaces", "_failed_pods", "_grace_ends", "_newcomers", "_others_ask"),
        *("_last_answers", "_kept_seen", "_last_trial", "_openings", "_streaks"),
    )

    def __init__(self, now: Callable[[], float], wall_clock: Callable[[], float] = time) -> None:
        """`now`: monotonic seconds. `wall_clock`: for texts."""
        self.now = now
        self.holds = Holds(now, wall_clock)
        self.state = CircuitState.CLOSED
        self.is_watched = False
        """Whether calls must ask `refusal` and tell `answered`."""
        self.opened_at = ""
        """The extension point whose failures have opened it."""
        self.opened_for = ""
        """For whom the plugin had failed when it opened, in words."""
        self.kept_answers = 0
        """How many pods were decided by answers of the plugin that are kept: counted by the class engine."""
        self.tried_again_at = 0.0
        """When an open circuit is tried again."""
        self._streaks: RecentlyUsed[str, _Streak] = RecentlyUsed(_MAX_POINTS)
        self._last_answers: RecentlyUsed[str, float] = RecentlyUsed(_MAX_POINTS)
        """By extension point, when it was told of the last right answer there."""
        self._kept_seen: dict[str, int] = {}
        """By extension point, `kept_answers` at the last failure there."""
        self._openings = 0
        """In a row: the backoff grows with them."""
        self._failed_namespaces: RecentlyUsed[str, bool] = RecentlyUsed(_MAX_NAMESPACES)
        """Those whose pods have failed since it opened."""
        self._failed_pods: RecentlyUsed[str, bool] = RecentlyUsed(_MAX_NAMESPACES)
        self._newcomers: RecentlyUsed[str, bool] = RecentlyUsed(_MAX_NAMESPACES)
        """Pods of these namespaces that came while it was open: nobody knows yet whether it fails for them."""
        self._others_ask = False
        """Whether a pod of another namespace has come."""
        self._grace_ends = 0.0
        self._last_trial = float("-inf")

    # --- before and after a call --------------------------------------------------------------------------------------

    def refusal(self, plugin: str, caller: Caller | None, point: str = "") -> str:
        """Why the plugin is not called for this pod now at an extension point; empty: it is."""
        if caller is None:
            return ""
        now = self.now()
        held = self.holds.of(caller, point)
        if held is not None:
            return f'plugin "{plugin}" {HELD_BACK} {held.subject}'
        if self.state is CircuitState.HALF_OPEN and caller.namespace in self._failed_namespaces:
            if now < self._grace_ends and (self._others_ask or caller.uid not in self._newcomers):
                return (
                    f'plugin "{plugin}" is tried again, with a pod of another namespace than {caller.namespace} first'
                )
            self._failed_namespaces.clear()
        return ""

    def answered(self, point: str) -> bool:
        """The plugin has given a right answer. Returns whether that has closed the circuit."""
        self._streaks.pop(point, None)
        self._last_answers[point] = self.now()
        closes = self.state is CircuitState.HALF_OPEN and (
            point == self.opened_at or self.now() >= self._last_trial + NOT_CALLED_SECONDS
        )
        if closes:
            self.state = CircuitState.CLOSED
            self._openings = 0
            self._failed_namespaces.clear()
            self._failed_pods.clear()
            self._newcomers.clear()
        self._watch()
        return closes

    def failed(self, point: str, caller: Caller) -> bool:
        """The plugin has failed for this pod. Returns whether that has opened the circuit, perhaps again."""
        if self.state is CircuitState.OPEN:
            return False  # an attempt that had begun before
        if self.state is CircuitState.HALF_OPEN and point == self.opened_at:
            self._open(point, (caller.namespace,), (caller.uid,))
            return True
        now = self.now()
        streak = self._streaks.use(point)
        if point in _KEPT_POINTS and self._kept_seen.get(point, 0) != self.kept_answers:
            self._kept_seen[point], self._last_answers[point], streak = self.kept_answers, now, None
        if streak is None:
            streak = self._streaks[point] = _Streak()
        streak.add(caller)
        answered = self._last_answers.get(point)
        opened_for = "" if answered is not None and now - answered < ANSWERS_SECONDS else streak.says_all_fail(caller)
        if opened_for:
            self.opened_for = opened_for
            self._open(point, streak.namespaces, streak.uids)
        self._watch()
        return bool(opened_for)

    def overran(self, caller: Caller, point: str, name: str, cause: str) -> ReportedHold | None:
        """A call took longer than its budget. Returns the hold that begins with it; see `Holds.overran`."""
        held = self.holds.overran(caller, point, name, cause)
        self._watch()
        return held

    # --- open and half-open -------------------------------------------------------------------------------------------

    def is_due(self) -> bool:
        """Whether an open circuit is to be tried again now."""
        return self.state is CircuitState.OPEN and self.now() >= self.tried_again_at

    def asks_for(self, namespace: str, uid: str = "") -> float | None:
        """A pod of this namespace comes while the circuit is open. In how many seconds is it worth a trial?

        `None`: not before the end of the backoff, because the plugin has failed for the pod, or, where only its
        namespace is known, for pods there.
        """
        if self.state is not CircuitState.OPEN:
            return None
        now = self.now()
        if namespace not in self._failed_namespaces:
            self._others_ask = True
            soonest = self._last_trial + BETWEEN_TRIALS_SECONDS
        elif uid and uid not in self._failed_pods:
            self._newcomers[uid] = True
            soonest = self._last_trial + FIRST_BACKOFF_SECONDS
        else:
            return None
        self.tried_again_at = min(self.tried_again_at, max(now, soonest))
        return self.tried_again_at - now

    def seconds_to_trial(self) -> float:
        """How long it stays open."""
        return max(0.0, self.tried_again_at - self.now())

    def half_open(self) -> None:
        """The plugin is called again."""
        now = self.now()
        self.state = CircuitState.HALF_OPEN
        self._last_trial, self._grace_ends = now, now + GRACE_SECONDS
        self._watch()

    def _open(self, point: str, namespaces: Iterable[str], uids: Iterable[str]) -> None:
        now = self.now()
        self._openings += 1
        doubled = FIRST_BACKOFF_SECONDS * 2 ** min(self._openings - 1, 10)
        self.state, self.opened_at = CircuitState.OPEN, point
        self._streaks.clear()
        self._others_ask = False
        for namespace in namespaces:
            self._failed_namespaces[namespace] = True
        for uid in uids:
            self._failed_pods[uid] = True
            self._newcomers.pop(uid, None)
        backoff = FIRST_BACKOFF_SECONDS if self._newcomers else min(doubled, LONGEST_BACKOFF_SECONDS)
        self.tried_again_at = now + backoff

    def strikes(self) -> int:
        """How many pods have failed since the last right answer, at the extension point where they are most."""
        return max((len(streak.uids) for streak in self._streaks.values()), default=0)

    def _watch(self) -> None:
        self.is_watched = bool(self._streaks or self.holds or self.state is CircuitState.HALF_OPEN)
