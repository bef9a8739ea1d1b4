"""The cycle of one pod within the time that a decision may take.

Decisions are made on the event loop's thread. What a pod may cost is known before it is decided about (`is_costly`),
but only roughly, and a shape that nobody has thought of must not hold the loop until the Lease is lost: the next leader
would meet the same pod. So the timer of `supervision.alarm` ends a decision that takes too long, for whatever reason.
The pod alone pays: it fails with an Error that says what of it is too much, and backs off for longer each time.

    costly pod      0.08 s     so that others, who come meanwhile, wait no longer
    any other       2 s        far more than the largest preemption takes, far less than the Lease's deadline; 0.2 s for
                               pods of a namespace of which one has taken so long in the last ten minutes
    pod group       5 s        for all members in one trial, those that are costly 0.08 s of it; 1 s after an overrun

The members of a group are judged one after the other with no turn for anybody between them: each sees those before it
on their nodes, and all of them the cluster as it was at the beginning. So a group holds the loop for as long as its
members take together.

All are processor time of this thread: a machine that is busy with something else ends nobody's decision.

Where a decision may be ended is the difficulty. Nothing is assumed before the cycle has returned, but on the way it
fills tables that outlive it. `_may_end` looks at the frames from the innermost outwards up to the cycle's own:

    the innermost of kscheduler's     must not be of a module that keeps something (`_KEEPING`): between two of its
                                      statements a table may be half changed
    those around it                   stand at a call, where an exception may come at any time (a plugin raises, an
                                      answer is wrong), and are written for that
    all of them                       must be of a package that decides (`_DECIDING`): state, log and counters
                                      are never left in the middle

Elsewhere the handler looks again in a millisecond, and the state lets the decision ask nothing more that takes long
(`DECISION_TIME`). The class engine is the one table whose entries share parts, so
that a refresh which ends half-way concerns other classes too: it forgets all classes.

Limits: C code is not interrupted before it returns; a decision on another thread, in virtual time, or while plugins are
debugged, is not timed.
"""

from collections.abc import Callable
from time import thread_time
from types import FrameType
from typing import Final

from kscheduler.aio.clock import Clock
from kscheduler.bounded import RecentlyUsed
from kscheduler.framework.cluster.pod_groups import CycleOfGroup
from kscheduler.framework.decision_time import DECISION_ENDED, DECISION_TIME, DecisionEndedError
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.nodes.search_budget import SearchTimeBudget
from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.pod_weight import largest_parts
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import Fault, error
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.cycle.sampling import NodeSampler
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.extenders.extender_results import ExtenderResults
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.runtime.timing import UNTIMED, Stopwatch
from kscheduler.scheduling.supervision.alarm import ALARM, InDecision, shown_seconds
from kscheduler.state.cache import Cache

COSTLY_SECONDS: Final = 0.08
LONGEST_SECONDS: Final = 2.0
# For the other pods of a namespace of which one was ended after `LONGEST_SECONDS`: its shape was not foreseen, and it
# may be the first of a hundred.
AGAIN_SECONDS: Final = 0.2
REMEMBERED_SECONDS: Final = 600.0
_MAX_NAMESPACES: Final = 1_000
# For all members of a group in one trial: half of what the Lease's holder has to renew it.
GROUP_SECONDS: Final = 5.0
# The same after an attempt that was ended.
GROUP_AGAIN_SECONDS: Final = 1.0

_OWN: Final = "kscheduler."
_DECIDING: Final = (
    "kscheduler.api.",
    "kscheduler.framework.",
    "kscheduler.plugins.",
    "kscheduler.scheduling.classes.",
    "kscheduler.scheduling.cycle.",
    "kscheduler.scheduling.runtime.",
)
_KEEPING: Final = (
    "kscheduler.framework.cluster.device_amounts",
    "kscheduler.framework.nodes.amount_numbers",
    "kscheduler.framework.nodes.change_log",
    "kscheduler.framework.nodes.interned",
    "kscheduler.framework.nodes.label_column",
    "kscheduler.framework.nodes.pod_columns",
    "kscheduler.framework.nodes.per_taint_set",
    "kscheduler.framework.nodes.sparse",
    "kscheduler.framework.pods.affinity_terms",
    "kscheduler.plugins.default_preemption.budgets",
    "kscheduler.plugins.default_preemption.remembered",
    "kscheduler.plugins.dynamic_resources.",
    "kscheduler.plugins.inter_pod_affinity.domains",
    "kscheduler.plugins.packing.",
    "kscheduler.plugins.pod_topology_spread.default_selector",
    "kscheduler.plugins.pod_topology_spread.domains",
    "kscheduler.plugins.pod_topology_spread.layout",
    "kscheduler.plugins.storage.",
    "kscheduler.scheduling.classes.",
)
# Libraries that keep nothing of kscheduler's, beside what is C code.
_PURE: Final = frozenset(
    ("collections", "copy", "dataclasses", "enum", "functools", "heapq", "numpy", "operator", "re", "typing")
)


class GroupBudget:
    """The time for the decisions about all members of a pod group in one trial: for so long it holds the event loop."""

    __slots__ = ("costly_left", "has_overrun", "left", "members", "seconds")

    def __init__(self, members: int, *, has_overrun: bool) -> None:
        """`members`: how many there are. `has_overrun`: the last attempt at the group was ended."""
        self.members = members
        self.has_overrun = has_overrun
        self.seconds = GROUP_AGAIN_SECONDS if has_overrun else GROUP_SECONDS
        self.left = self.seconds
        self.costly_left = COSTLY_SECONDS
        """The share of `left` for members that cost much."""


class TimedCycles:
    """Runs cycles, each within its time.

    All who decide have this one, so that the rules are the same for pods alone and members of groups, for those that
    extenders are asked about, for resizes, and under a profile that has gone.
    """

    def __init__(self, clock: Clock, cache: Cache, costly_tried: Callable[[float], None]) -> None:
        """`costly_tried` hears for how many seconds a costly pod was decided about: the next one waits for them."""
        self._cache = cache
        self._costly_tried = costly_tried
        self._clock = clock
        self._is_timed = clock.is_real and PLUGIN_TIME.is_limited
        self._overran: RecentlyUsed[str, float] = RecentlyUsed(_MAX_NAMESPACES)
        """By namespace, until when its pods have less time."""

    def schedule(
        self,
        queued: QueuedPodInfo,
        profile: Profile,
        stopwatch: Stopwatch = UNTIMED,
        sampler: NodeSampler | None = None,
        engine: ClassEngine | None = None,
        answers: ExtenderResults | None = None,
        search_budget: SearchTimeBudget | None = None,
    ) -> SchedulingRecord:
        """As `cycle.schedule`; a decision that was ended is an Error in the record.

        A pod whose last decision was ended gets no more time than a costly one. Nothing is kept of such pods' classes.
        """
        pod = queued.pod
        if not (queued.overruns or pod.is_costly):
            is_watched = bool(self._overran) and self._has_overrun(pod.namespace)
            seconds = AGAIN_SECONDS if is_watched else LONGEST_SECONDS
            record = self._run(
                seconds, profile, pod, stopwatch, sampler, engine, answers, None, search_budget, is_watched=is_watched
            )
            if record is None:
                self._overran[pod.namespace] = self._clock.monotonic() + REMEMBERED_SECONDS
        else:
            seconds, began = COSTLY_SECONDS, thread_time()
            record = self._run(
                seconds, profile, pod, stopwatch, sampler, None, answers, None, search_budget, is_watched=True
            )
            if self._is_timed:
                self._costly_tried(thread_time() - began)
        return record if record is not None else _ended(profile, pod, self._cache, shown_seconds(seconds))

    def _has_overrun(self, namespace: str) -> bool:
        until = self._overran.get(namespace)
        if until is not None and self._clock.monotonic() >= until:
            del self._overran[namespace]
            return False
        return until is not None

    def schedule_member(
        self,
        pod: PodInfo,
        budget: GroupBudget,
        group: CycleOfGroup,
        profile: Profile,
        stopwatch: Stopwatch = UNTIMED,
        sampler: NodeSampler | None = None,
        engine: ClassEngine | None = None,
        answers: ExtenderResults | None = None,
        within: Rows | None = None,
        search_budget: SearchTimeBudget | None = None,
    ) -> SchedulingRecord:
        """The same for a member of a group, within what is left for all of them."""
        record, began, is_costly, left = None, thread_time(), pod.is_costly, min(budget.left, LONGEST_SECONDS)
        if is_costly:
            left, engine = min(left, budget.costly_left), None
        if left > 0:
            record = self._run(
                left, profile, pod, stopwatch, sampler, engine, answers, within, search_budget, group, is_watched=True
            )
        if self._is_timed:
            seconds = thread_time() - began
            budget.left -= seconds
            budget.costly_left -= seconds if is_costly else 0.0
            if is_costly or budget.has_overrun:
                self._costly_tried(seconds)
        if record is not None:
            return record
        if is_costly and budget.costly_left <= 0:
            shown = f"{shown_seconds(COSTLY_SECONDS)} (for those members of its group that cost much)"
        elif budget.left <= 0:
            shown = f"{shown_seconds(budget.seconds)} (for all {budget.members:,} members of its group)"
        else:
            shown = shown_seconds(LONGEST_SECONDS)
        return _ended(profile, pod, self._cache, shown)

    def _run(
        self,
        seconds: float,
        profile: Profile,
        pod: PodInfo,
        stopwatch: Stopwatch,
        sampler: NodeSampler | None,
        engine: ClassEngine | None,
        answers: ExtenderResults | None,
        within: Rows | None,
        search_budget: SearchTimeBudget | None,
        group: CycleOfGroup | None = None,
        *,
        is_watched: bool = False,
    ) -> SchedulingRecord | None:
        """`None`: it was ended. `is_watched`: the time counts from now on, and not from when the timer finds it."""
        cache = self._cache
        if not self._is_timed:
            return schedule(profile, pod, cache, stopwatch, sampler, engine, answers, within, search_budget, group)
        record: SchedulingRecord | None = None
        DECISION_TIME.begin(pod, seconds)
        if not ALARM.is_watching:
            ALARM.watch_decisions(_find)
        elif is_watched:
            ALARM.time_decision()
        try:
            record = schedule(profile, pod, cache, stopwatch, sampler, engine, answers, within, search_budget, group)
        except DecisionEndedError:
            pass
        finally:
            DECISION_TIME.pod, DECISION_TIME.is_up = None, False
        if record is not None and not DECISION_TIME.interrupts:
            return record
        if engine is not None:
            engine.forget_all()
        return None


def _ended(profile: Profile, pod: PodInfo, cache: Cache, shown: str) -> SchedulingRecord:
    """The record of a decision that was ended. What was found until then is not used, whatever it is."""
    record = SchedulingRecord(pod, profile.name, num_all_nodes=len(cache.nodes))
    text = (
        f"{DECISION_ENDED} after {shown} of processor time, so that others need not wait for it: "
        f"{largest_parts(pod.pod)}"
    )
    record.status = error(text, fault=Fault.OVER_BUDGET)
    record.nominated_node_name = ""
    return record


def _find(interrupted: FrameType | None) -> InDecision:
    """Where a signal has interrupted this thread, and whether the cycle may be left there."""
    if _may_end(interrupted):
        return InDecision.MAY_END
    frame = interrupted
    while frame is not None:
        if frame.f_code is schedule.__code__:
            return InDecision.BETWEEN
        frame = frame.f_back
    return InDecision.ELSEWHERE


def _may_end(interrupted: FrameType | None) -> bool:
    frame, is_innermost = interrupted, True
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith(_OWN):
            library = module.partition(".")[0]
            if library not in _PURE or (frame is interrupted and library != "numpy"):
                return False  # the interrupted one may hold a lock: `functools.cached_property` has one in Python 3.11
        elif frame.f_code is schedule.__code__:
            return not is_innermost  # between two statements of its own there is nothing to win
        elif not module.startswith(_DECIDING) or (is_innermost and module.startswith(_KEEPING)):
            return False
        else:
            is_innermost = False
        frame = frame.f_back
    return False
