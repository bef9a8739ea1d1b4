"""The cycle of one pod within the time that a decision may take.

Decisions are made on the event loop's thread. What a pod may cost is known before it is decided about (`is_costly`),
but only roughly, and a shape that nobody has thought of must not hold the loop until the Lease is lost: the next leader
would meet the same pod. So the timer of `supervision.alarm` ends a decision that takes too long, for whatever reason.
The pod alone pays: it fails with an Error that says what of it is too much, and backs off for longer each time.

    costly pod      0.08 s     so that others, who come meanwhile, wait no longer
    any other       2 s        far more than the largest preemption takes, far less than the Lease's deadline

Both are processor time of this thread: a machine that is busy with something else ends nobody's decision.

Where a decision may be ended is the difficulty. Nothing is assumed before the cycle has returned, but on the way it
fills tables that outlive it. `_may_end` looks at the frames from the innermost outwards up to the cycle's own:

    the innermost of kscheduler's     must not be of a module that keeps something (`_KEEPERS`): between two of its
                                      statements a table may be half changed
    those around it                   stand at a call, where an exception may come at any time (a plugin raises, an
                                      answer is wrong), and are written for that
    all of them                       must be of a room that decides (`_ROOMS`): the state, the log and the counters
                                      are never left in the middle

Elsewhere the handler looks again in a millisecond, and the state lets the decision ask nothing more that takes long
(`DECISION_TIME`). The class engine is the one table whose entries share parts, so
that a refresh which ends half-way concerns other classes too: it forgets all classes.

Limits: C code is not interrupted before it returns; a decision on another thread, or in virtual time, is not timed.
"""

from types import FrameType
from typing import Final

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.framework.cluster.cycle_of_group import CycleOfGroup
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.nodes.patience import Patience
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.pod_weight import largest_parts
from kscheduler.framework.status import DECISION_ENDED, DECISION_TIME, DecisionEndedError, Fault, error
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.cycle.sampling import NodeSampler
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.extenders.answers import ExtenderAnswers
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.runtime.timing import UNTIMED, Stopwatch
from kscheduler.scheduling.supervision.alarm import ALARM, shown_seconds
from kscheduler.state.cache import Cache

COSTLY_SECONDS: Final = 0.08
LONGEST_SECONDS: Final = 2.0

_OWN: Final = "kscheduler."
_ROOMS: Final = (
    "kscheduler.api.",
    "kscheduler.framework.",
    "kscheduler.plugins.",
    "kscheduler.scheduling.classes.",
    "kscheduler.scheduling.cycle.",
    "kscheduler.scheduling.runtime.",
)
_KEEPERS: Final = (
    "kscheduler.framework.nodes.amount_numbers",
    "kscheduler.framework.nodes.change_log",
    "kscheduler.framework.nodes.interned",
    "kscheduler.framework.nodes.label_column",
    "kscheduler.framework.nodes.occupants",
    "kscheduler.framework.nodes.per_taint_set",
    "kscheduler.framework.nodes.sparse",
    "kscheduler.framework.pods.affinity_terms",
    "kscheduler.framework.pods.requests",
    "kscheduler.plugins.default_preemption.budgets",
    "kscheduler.plugins.default_preemption.remembered",
    "kscheduler.plugins.dynamic_resources.",
    "kscheduler.plugins.inter_pod_affinity.own_domains",
    "kscheduler.plugins.pod_topology_spread.deduced",
    "kscheduler.plugins.pod_topology_spread.key_columns",
    "kscheduler.plugins.pod_topology_spread.layout",
    "kscheduler.plugins.storage.",
    "kscheduler.scheduling.classes.",
)
_PURE: Final = frozenset(
    ("collections", "copy", "dataclasses", "enum", "functools", "heapq", "numpy", "operator", "re", "typing")
)
"""Libraries that keep nothing of kscheduler's, beside what is C code."""


def schedule_in_time(
    clock: Clock,
    profile: Profile,
    pod: PodInfo,
    cache: Cache,
    stopwatch: Stopwatch = UNTIMED,
    sampler: NodeSampler | None = None,
    engine: ClassEngine | None = None,
    answers: ExtenderAnswers | None = None,
    within: Rows | None = None,
    patience: Patience | None = None,
    group: CycleOfGroup | None = None,
    *,
    has_overrun: bool = False,
    used_seconds: float = 0.0,
) -> SchedulingRecord:
    """As `schedule`; a decision that was ended is an Error in the record. Nothing is kept of a costly pod's class.

    `has_overrun`: the last decision about the pod was ended, so this one gets no more time than that of a costly pod.
    `used_seconds`: what costly pods of the same group have taken of the time already.
    """
    is_costly = has_overrun or pod.is_costly
    known = None if is_costly else engine
    if clock is not REAL_CLOCK:
        return schedule(profile, pod, cache, stopwatch, sampler, known, answers, within, patience, group)
    record: SchedulingRecord | None = None
    seconds = COSTLY_SECONDS if is_costly else LONGEST_SECONDS
    if is_costly and used_seconds >= seconds:
        return _ended(profile, pod, cache, seconds)
    DECISION_TIME.pod = pod
    decision = ALARM.begin_decision(seconds, _may_end)
    try:
        record = schedule(profile, pod, cache, stopwatch, sampler, known, answers, within, patience, group)
    except DecisionEndedError:
        pass
    finally:
        ALARM.end(decision)
        DECISION_TIME.is_up = False
        DECISION_TIME.pod = None
    if record is not None and not decision.interrupts:
        return record
    if known is not None:
        known.forget_all()
    return _ended(profile, pod, cache, seconds)


def _ended(profile: Profile, pod: PodInfo, cache: Cache, seconds: float) -> SchedulingRecord:
    """The record of a decision that was ended. What was found until then is not used, whatever it is."""
    record = SchedulingRecord(pod, profile.name, num_all_nodes=len(cache.nodes))
    text = (
        f"{DECISION_ENDED} after {shown_seconds(seconds)} of processor time, so that others need "
        f"not wait for it: {largest_parts(pod.pod)}"
    )
    record.status = error(text, fault=Fault.OVER_BUDGET)
    record.nominated_node_name = ""
    return record


def _may_end(interrupted: FrameType | None) -> bool:
    """Whether the cycle may be left where it was interrupted."""
    frame, is_innermost = interrupted, True
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith(_OWN):
            library = module.partition(".")[0]
            if library not in _PURE or (frame is interrupted and library != "numpy"):
                return False  # the interrupted one may hold a lock: `functools.cached_property` has one in Python 3.11
        elif frame.f_code is schedule.__code__:
            return not is_innermost  # between two statements of its own there is nothing to win
        elif not module.startswith(_ROOMS) or (is_innermost and module.startswith(_KEEPERS)):
            return False
        else:
            is_innermost = False
        frame = frame.f_back
    return False
