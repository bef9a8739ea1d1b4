"""For whom a plugin is not called for a while, because its calls took longer than their time budget.

What is slow for one pod is held back from that pod, at the extension point where it was slow (a score that is slow for
it must not cost it the filter): for 1 s, then for 10, 20, 40 s ... 5 min, so that a pod costs a few budgets, and then
one in five minutes. Other pods of its namespace do not notice. Only where `MANY_PODS` different pods
of a namespace are slow within `SHORT_SECONDS` does this bound nothing, because there may always be a new pod: then the
plugin is held back from the namespace, for 10 s; after that `STRIKES` slow pods are enough, for 20 s, 40 s ... 5 min.
Pods that are gone by then count as well, or creating and deleting them would be a way around holds.

A hold ends at once when its cause is gone: a pod's own when the pod is edited, a namespace's when fewer than `STRIKES`
of its slow pods are left as they were. Not more than `EARLY_ENDS` times, until there was no overrun for ten minutes:
otherwise a slow pod that is edited every second would use up a budget every second.

Limit: a call about several pods (`add_pod`) is held back from them together, and from none of them alone; such a hold
ends by time only.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from kscheduler.api.meta import rfc3339
from kscheduler.bounded import RecentlyUsed

# So many pods, of a namespace that was held back before, must be slow again.
STRIKES: Final = 3
# So many different pods of a namespace must be slow before the namespace is held back.
MANY_PODS: Final = 5
# Within this time.
SHORT_SECONDS: Final = 60.0
# After a pod's first overrun: the machine may have been slow, and not the plugin.
SHORTEST_SECONDS: Final = 1.0
FIRST_BACKOFF_SECONDS: Final = 10.0
LONGEST_BACKOFF_SECONDS: Final = 300.0
# Without a further overrun, a pod or a namespace begins again.
FORGOTTEN_AFTER_SECONDS: Final = 600.0
EARLY_ENDS: Final = 3
_MOST: Final = 10_000
_MAX_SLOW_PODS: Final = 100
_MAX_NAMED: Final = 5
# In every text that says so.
HELD_BACK: Final = "is held back from"
# The namespace of a call that is about no pod: `refresh`.
NO_NAMESPACE: Final = ""


class Caller(NamedTuple):
    """Who a call was made for."""

    namespace: str
    uid: str
    """Of the pod, or a pod group's name."""


class ReportedHold(msgspec.Struct, frozen=True):
    """A hold, as it is told."""

    namespace: str
    pods: tuple[str, ...]
    """The slow pods: `namespace/name`."""
    is_of_namespace: bool
    """Whether it concerns all pods of the namespace."""
    seconds: float
    until: float
    """Wall-clock seconds."""
    cause: str
    """The last overrun, with the line of the plugin."""

    @property
    def subject(self) -> str:
        """Whom the plugin is held back from, and why: for messages."""
        shown = rfc3339(self.until)
        if not self.is_of_namespace:
            return f"pod {self.pods[0]} until {shown}: it took longer than its time budget for it ({self.cause})"
        more = "" if len(self.pods) <= _MAX_NAMED else f" and {len(self.pods) - _MAX_NAMED} more"
        return (
            f"all pods of namespace {self.namespace} until {shown}: it took longer than its time budget for "
            f"{len(self.pods)} of them, {', '.join(self.pods[:_MAX_NAMED])}{more} (last: {self.cause})"
        )


@dataclass(slots=True)
class _PodHold:
    reported: ReportedHold | None = None
    last: float = 0.0
    until: float = 0.0
    seconds: float = 0.0
    early_ends: int = 0


@dataclass(slots=True)
class _SlowPod:
    name: str
    last: float
    is_left: bool = True
    """Whether it is still there, as it was when the call took too long."""


@dataclass(slots=True)
class _NamespaceHold(_PodHold):
    slow: RecentlyUsed[str, _SlowPod] = field(default_factory=lambda: RecentlyUsed(_MAX_SLOW_PODS))
    """By UID, those of the last `SHORT_SECONDS` before the hold began."""


class Holds:
    """Of one plugin in one profile. Pure state."""

    __slots__ = ("_namespaces", "_now", "_pods", "_wall_clock")

    def __init__(self, now: Callable[[], float], wall_clock: Callable[[], float]) -> None:
        """`now`: monotonic seconds. `wall_clock`: for texts."""
        self._now = now
        self._wall_clock = wall_clock
        self._pods: RecentlyUsed[Caller, dict[str, _PodHold]] = RecentlyUsed(_MOST)
        """By extension point."""
        self._namespaces: RecentlyUsed[str, _NamespaceHold] = RecentlyUsed(_MOST)

    def __bool__(self) -> bool:
        """Whether there was an overrun that is not forgotten."""
        return bool(self._namespaces)

    def of(self, caller: Caller, point: str) -> ReportedHold | None:
        """The hold that concerns this pod now at this extension point, the namespace's first."""
        now = self._now()
        for hold in (self._namespaces.get(caller.namespace), self._pods.get(caller, {}).get(point)):
            if hold is not None and now < hold.until:
                return hold.reported
        return None

    def seconds_left(self, caller: Caller) -> float:
        """For how long the plugin is not called for this pod, at some extension point at least; 0: it is everywhere."""
        now, of_namespace = self._now(), self._namespaces.get(caller.namespace)
        if of_namespace is not None and now < of_namespace.until:
            return of_namespace.until - now
        return min((hold.until - now for hold in self._pods.get(caller, {}).values() if now < hold.until), default=0.0)

    def overran(self, caller: Caller, point: str, name: str, cause: str) -> ReportedHold | None:
        """A call took longer than its budget. Returns the hold that begins with it.

        `name`: the pod's, for people. `None`: a call that had begun before the hold, or one about no pod.
        """
        if caller.namespace == NO_NAMESPACE:
            return None
        now = self._now()
        of_namespace = self._overrun_of_namespace(caller, name, cause, now)
        points = self._pods.use(caller)
        if points is None:
            points = self._pods[caller] = {}
        of_pod = points.get(point)
        if of_pod is None or now - of_pod.last > FORGOTTEN_AFTER_SECONDS:
            of_pod = points[point] = _PodHold()
        of_pod.last = now
        if now < of_pod.until:
            return of_namespace
        seconds = max(FIRST_BACKOFF_SECONDS, 2 * of_pod.seconds) if of_pod.seconds else SHORTEST_SECONDS
        reported = self._begin(of_pod, seconds, now, caller.namespace, (name,), cause, is_of_namespace=False)
        return of_namespace or reported

    def _overrun_of_namespace(self, caller: Caller, name: str, cause: str, now: float) -> ReportedHold | None:
        hold = self._namespaces.use(caller.namespace)
        if hold is None or now - hold.last > FORGOTTEN_AFTER_SECONDS:
            hold = self._namespaces[caller.namespace] = _NamespaceHold()
        hold.last = now
        hold.slow[caller.uid] = _SlowPod(name, now)
        if now < hold.until:
            return None
        # Those that were slow before the last hold have paid for it.
        since = max(now - SHORT_SECONDS, hold.until)
        for uid in [uid for uid, slow in hold.slow.items() if slow.last < since]:
            del hold.slow[uid]
        if len(hold.slow) < (STRIKES if hold.seconds else MANY_PODS):
            return None
        seconds = 2 * hold.seconds or FIRST_BACKOFF_SECONDS
        names = tuple(slow.name for slow in hold.slow.values())
        return self._begin(hold, seconds, now, caller.namespace, names, cause, is_of_namespace=True)

    def _begin(
        self,
        hold: _PodHold,
        seconds: float,
        now: float,
        namespace: str,
        names: tuple[str, ...],
        cause: str,
        *,
        is_of_namespace: bool,
    ) -> ReportedHold:
        hold.seconds = min(seconds, LONGEST_BACKOFF_SECONDS)
        hold.until = now + hold.seconds
        until = self._wall_clock() + hold.seconds
        hold.reported = ReportedHold(namespace, names, is_of_namespace, hold.seconds, until, cause)
        return hold.reported

    def changed(self, caller: Caller, *, is_gone: bool) -> bool:
        """A pod was edited, or is gone. Returns whether that has ended the hold of its namespace."""
        now = self._now()
        points = self._pods.pop(caller, {}) if is_gone else self._pods.get(caller, {})
        for of_pod in points.values():
            _end_early(of_pod, now)
        hold = self._namespaces.get(caller.namespace)
        slow = None if hold is None else hold.slow.get(caller.uid)
        if hold is None or slow is None:
            return False
        slow.is_left = False
        return sum(slow.is_left for slow in hold.slow.values()) < STRIKES and _end_early(hold, now)

    def in_force(self) -> Iterator[ReportedHold]:
        """The holds of now; of namespaces first."""
        now = self._now()
        of_pods = (hold for points in self._pods.values() for hold in points.values())
        for hold in (*self._namespaces.values(), *of_pods):
            if now < hold.until and hold.reported is not None:
                yield hold.reported


def _end_early(hold: _PodHold, now: float) -> bool:
    """End a hold, unless that was done too often; whether it was in force and is over."""
    if now >= hold.until or hold.early_ends >= EARLY_ENDS:
        return False
    hold.early_ends += 1
    hold.until = now
    return True
