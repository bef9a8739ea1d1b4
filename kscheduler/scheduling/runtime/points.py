"""The table of all plugin calls: how each answer is checked, and what follows a failure.

First the checks, then the table, in the order in which a pod meets the extension points. Error texts are
kube-scheduler's where it has one. `FailureOutcome` says what becomes of the pod.
"""

import asyncio
import math
import traceback
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from kscheduler.framework.cluster.preemption import GroupPlacement, PodGroupPostFilterResult, Preemption
from kscheduler.framework.events import ClusterEventWithHint, QueueingHint
from kscheduler.framework.nodes.node_table import Codes, Scores
from kscheduler.framework.plugin import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    PASS_ALL,
    SKIPPED,
    PermitResult,
    Plugin,
    Point,
    PostFilterResult,
    PreFilterResult,
    PreFlightResult,
    Signature,
)
from kscheduler.framework.plugin_results import (
    WrongAnswerError,
    checked,
    checked_column,
    checked_each,
    checked_nothing,
    checked_status,
    kind_and_text,
    shown,
    words_of,
)
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail
from kscheduler.framework.status import SKIP, SUCCESS, Code, Fault, Status
from kscheduler.scheduling.runtime.guard import FailureOutcome, PluginCall

Arguments = tuple[Any, ...]


def unchecked(returned: Any, arguments: Arguments) -> Any:
    """Accept any answer."""
    del arguments
    return returned


def _status(returned: Any, arguments: Arguments) -> Status:
    del arguments
    return checked_status(returned)


def _status_with_wait(returned: Any, arguments: Arguments) -> Status:
    del arguments
    return returned if isinstance(returned, Status) and returned.code is Code.WAIT else checked_status(returned)


def _nothing(returned: Any, arguments: Arguments) -> None:
    del arguments
    checked_nothing(returned)


def _pre_filter_result(returned: Any, arguments: Arguments) -> PreFilterResult:
    del arguments
    result = checked(returned, PreFilterResult)
    if result.status is not SUCCESS:  # checking it takes as long as some plugins do
        checked_status(result.status)
    if not (result.node_names is None or isinstance(result.node_names, frozenset)):
        raise WrongAnswerError(f"it returned node_names {shown(result.node_names)}, expected a frozenset of names")
    return result


def _codes(returned: Any, arguments: Arguments) -> Codes:
    return checked_column(returned, arguments[-1], "codes")  # the last argument is the rows


def _points(returned: Any, arguments: Arguments) -> Scores:
    return checked_column(returned, arguments[-1], "points")  # the last argument is the rows, or their raw points


def _post_filter_result(returned: Any, arguments: Arguments) -> PostFilterResult:
    del arguments
    result = checked(returned, PostFilterResult)
    checked_status(result.status)
    if result.nominated_node_name is not None:
        checked(result.nominated_node_name, str)
    if result.preemption is not None:
        _check_preemption(checked(result.preemption, Preemption))
        if not result.status.is_success:
            raise WrongAnswerError(f"it returned a preemption with status {result.status.code.label}, not Success")
    return result


def _group_result(returned: Any, arguments: Arguments) -> PodGroupPostFilterResult:
    del arguments
    result = checked(returned, PodGroupPostFilterResult)
    checked_status(result.status)
    if result.preemption is not None:
        _check_preemption(checked(result.preemption, Preemption))
    return result


def _placements(returned: Any, arguments: Arguments) -> tuple[GroupPlacement, ...] | Status:
    del arguments
    return checked_status(returned) if isinstance(returned, Status) else checked_each(returned, GroupPlacement)


def _placement_points(returned: Any, arguments: Arguments) -> Scores:
    points = checked_column(
        returned, np.zeros(len(arguments[-1]), dtype=np.intp), "points"
    )  # the last argument is the proposals
    if len(points) and not MIN_NODE_SCORE <= int(points.min()) <= int(points.max()) <= MAX_NODE_SCORE:
        raise WrongAnswerError(f"it returned {points.tolist()}, expected points from 0 to {MAX_NODE_SCORE}")
    return points


def _check_preemption(preemption: Preemption) -> None:
    """Raises `WrongAnswerError` for a preemption that nobody could carry out."""
    checked(preemption.preemptor, PodInfo)
    checked(preemption.node_name, str)
    checked_each(preemption.outbid, PodInfo)
    if not checked_each(preemption.victims, PodInfo):
        raise WrongAnswerError("it returned a preemption without victims")
    if any(victim.uid == preemption.preemptor.uid for victim in preemption.victims):
        raise WrongAnswerError("it returned a preemption whose preemptor is among its own victims")


def _permit_result(returned: Any, arguments: Arguments) -> PermitResult:
    del arguments
    result = checked(returned, PermitResult)
    seconds: object = result.timeout_seconds
    if not isinstance(seconds, int | float) or math.isnan(seconds):
        raise WrongAnswerError(f"it returned timeout_seconds {shown(seconds)}, expected a number of seconds")
    checked_status(result.status)
    return result


def _status_of_permit(returned: Any, arguments: Arguments) -> Status:
    """Of a coroutine, which has waited itself."""
    del arguments
    status = returned.status if isinstance(returned, PermitResult) else returned
    if isinstance(status, Status) and status.code is Code.WAIT:
        raise WrongAnswerError("it returned Wait, expected a final status: it has waited already")
    return checked_status(status)


def _pre_flight_result(returned: Any, arguments: Arguments) -> PreFlightResult:
    del arguments
    if not isinstance(returned, PreFlightResult):
        return PreFlightResult(checked_status(returned))
    if returned.status is not SKIP and returned.status is not SUCCESS:
        checked_status(returned.status)
    return returned


def _signature(returned: Any, arguments: Arguments) -> Signature:
    del arguments
    checked_nothing(returned)  # a coroutine has a hash, too
    hash(returned)  # raises if the signature cannot be a key
    signature: Signature = returned
    return signature


def _keys(returned: Any, arguments: Arguments) -> tuple[str, ...]:
    del arguments
    return checked_each(returned, str)  # a generator that raises must fail inside the guard


def _keys_or_none(returned: Any, arguments: Arguments) -> tuple[str, ...] | None:
    return None if returned is None else _keys(returned, arguments)


def _details(returned: Any, arguments: Arguments) -> tuple[Detail, ...]:
    del arguments
    return checked_each(returned, Detail)


def _events(returned: Any, arguments: Arguments) -> tuple[ClusterEventWithHint, ...]:
    del arguments
    return checked_each(returned, ClusterEventWithHint)


def _hint(returned: Any, arguments: Arguments) -> QueueingHint:
    del arguments
    return checked(returned, QueueingHint)


def _sort_key(returned: Any, arguments: Arguments) -> Any:
    """The key, if it can be compared with other keys. Raises what its comparison raises, or `WrongAnswerError`."""
    del arguments
    try:
        is_before_itself = bool(returned < returned)
    except TypeError as failure:
        raise WrongAnswerError(f"it returned {shown(returned)}, which does not compare with its like") from failure
    if is_before_itself or _holds_nan(returned):
        raise WrongAnswerError(f"it returned {shown(returned)}, which is neither before nor after its like")
    return returned


def _holds_nan(key: Any) -> bool:
    if isinstance(key, tuple | list):
        return any(map(_holds_nan, key))
    return isinstance(key, float) and key != key


def _where_it_raised(failure: BaseException) -> str:
    """An exception with file and line, for a message without traceback; only the text of a `ValueError`."""
    if isinstance(failure, ValueError):
        return str(failure)
    frames = traceback.extract_tb(failure.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{kind_and_text(failure)}{place}"


def _words_or_cancelled(failure: BaseException) -> str:
    # PreBind may be cancelled from outside when another plugin of its group fails: the plugin itself raised nothing
    return "it was cancelled" if isinstance(failure, asyncio.CancelledError) else words_of(failure)


# --- when the service starts ------------------------------------------------------------------------------------------

FACTORY: Final = PluginCall[Plugin](
    "Factory",
    unchecked,
    FailureOutcome.NO_START,
    text='initializing plugin "{plugin}": {words}',
    words=_where_it_raised,
)
EVENTS_TO_REGISTER: Final = PluginCall(
    "events_to_register", _events, FailureOutcome.NO_START, text='running {point} of plugin "{plugin}": {words}'
)

# --- while a pod waits in the queue -----------------------------------------------------------------------------------

PRE_ENQUEUE: Final = PluginCall(Point.PRE_ENQUEUE.label, _status, FailureOutcome.KEPT_OUT, usual=SUCCESS)
MAY_LET_IN: Final = PluginCall("MayLetIn", _keys, FailureOutcome.QUERIED_ONE_BY_ONE)
GATING_OBJECTS: Final = PluginCall("GatingObjects", _keys_or_none, FailureOutcome.QUERIED_ONE_BY_ONE)
QUEUE_SORT: Final = PluginCall[Any](Point.QUEUE_SORT.label, _sort_key, FailureOutcome.SORTED_BEHIND)
# Keys may be objects of the plugin's own classes, so comparing two keys runs its code, too.
QUEUE_SORT_COMPARES: Final = PluginCall[bool](Point.QUEUE_SORT.label, unchecked, FailureOutcome.SORTED_BEHIND)
QUEUEING_HINT: Final = PluginCall("QueueingHint", _hint, FailureOutcome.QUEUED, usual=QueueingHint.SKIP)
SIGN: Final = PluginCall("Sign", _signature, FailureOutcome.WITHOUT_CLASS)
# Collecting the signatures of all plugins, and looking them up: this runs `__eq__` and `__hash__` of their values.
SIGNATURES: Final = PluginCall[Any]("Sign", unchecked, FailureOutcome.WITHOUT_CLASS)

# --- a cycle ----------------------------------------------------------------------------------------------------------

PRE_FILTER: Final = PluginCall(Point.PRE_FILTER.label, _pre_filter_result, FailureOutcome.ATTEMPT_FAILS, usual=SKIPPED)
_ON_PRE_FILTER: Final = 'running {point} on PreFilter plugin "{plugin}": {words}'
ADD_POD: Final = PluginCall[None]("AddPod", _nothing, FailureOutcome.ATTEMPT_FAILS, text=_ON_PRE_FILTER)
REMOVE_POD: Final = PluginCall[None]("RemovePod", _nothing, FailureOutcome.ATTEMPT_FAILS, text=_ON_PRE_FILTER)
# A user's filter that fails for some nodes only does not end the attempt: `partial_results.codes_after`.
FILTER: Final = PluginCall[Codes | None](
    Point.FILTER.label,
    _codes,
    FailureOutcome.ATTEMPT_FAILS,
    usual=PASS_ALL,
    text='running "{plugin}" filter plugin: {words}',
)
POST_FILTER: Final = PluginCall(
    Point.POST_FILTER.label, _post_filter_result, FailureOutcome.STAYS_REJECTED, words=kind_and_text
)
PRE_SCORE: Final = PluginCall(Point.PRE_SCORE.label, _status, FailureOutcome.NO_POINTS, usual=SKIP)
_SCORES: Final = 'plugin "{plugin}" failed with: {words}'
SCORE: Final = PluginCall(
    Point.SCORE.label, _points, FailureOutcome.NO_POINTS, text=f"running Score plugins: {_SCORES}"
)
SCORE_IN_BOUNDS: Final = PluginCall[Scores](
    Point.SCORE.label,
    unchecked,
    FailureOutcome.NO_POINTS,
    text='applying score defaultWeights on Score plugins: plugin "{plugin}" {words}',
)
NORMALIZE_SCORE: Final = PluginCall(
    "NormalizeScore", _points, FailureOutcome.NO_POINTS, text=f"running Normalize on Score plugins: {_SCORES}"
)

# --- a pod group ------------------------------------------------------------------------------------------------------

PLACEMENT_FEASIBLE: Final = PluginCall(
    "PlacementFeasible", _status_with_wait, FailureOutcome.ATTEMPT_FAILS, usual=SUCCESS
)
PLACEMENT_GENERATE: Final = PluginCall("PlacementGenerate", _placements, FailureOutcome.ATTEMPT_FAILS)
PLACEMENT_SCORE: Final = PluginCall(
    "PlacementScore",
    _placement_points,
    FailureOutcome.NO_POINTS,
    text='running PlacementScore plugins: plugin "{plugin}" failed with: {words}',
)
POD_GROUP_POST_FILTER: Final = PluginCall(
    "PodGroupPostFilter",
    _group_result,
    FailureOutcome.ATTEMPT_FAILS,
    text='error in "{plugin}" {point} plugins: {words}',
)

# --- the attempt, once a node is chosen -------------------------------------------------------------------------------

RESERVE: Final = PluginCall(Point.RESERVE.label, _status, FailureOutcome.ATTEMPT_FAILS, usual=SUCCESS)
UNRESERVE: Final = PluginCall("Unreserve", _nothing, FailureOutcome.OTHERS_GIVE_BACK, usual=None)
PERMIT: Final = PluginCall(Point.PERMIT.label, _permit_result, FailureOutcome.ATTEMPT_FAILS)
PRE_BIND_PRE_FLIGHT: Final = PluginCall(
    "PreBindPreFlight", _pre_flight_result, FailureOutcome.ATTEMPT_FAILS, text='running {point} "{plugin}": {words}'
)
# A call that awaits an API server may fail for a reason that is gone a second later, so its failures are not bugs.
PRE_BIND: Final = PluginCall(
    Point.PRE_BIND.label,
    _status,
    FailureOutcome.ATTEMPT_FAILS,
    words=_words_or_cancelled,
    usual=SUCCESS,
    fault=Fault.PASSING,
)
BIND: Final = PluginCall(Point.BIND.label, _status, FailureOutcome.ATTEMPT_FAILS, usual=SUCCESS, fault=Fault.PASSING)
POST_BIND: Final = PluginCall(Point.POST_BIND.label, _nothing, FailureOutcome.BOUND, usual=None)
PERMIT_AWAITED: Final = PluginCall(
    Point.PERMIT.label,
    _status_of_permit,
    FailureOutcome.ATTEMPT_FAILS,
    words=_words_or_cancelled,
    usual=SUCCESS,
    fault=Fault.PASSING,
)
POST_BIND_AWAITED: Final = PluginCall[None](
    Point.POST_BIND.label, _nothing, FailureOutcome.BOUND, words=_words_or_cancelled, usual=None, fault=Fault.PASSING
)

# --- in the background ------------------------------------------------------------------------------------------------

REFRESH: Final = PluginCall[None]("Refresh", _nothing, FailureOutcome.DATA_STAY, usual=None, fault=Fault.PASSING)

# --- when nobody uses the plugin any more -----------------------------------------------------------------------------

CLOSE: Final = PluginCall[None]("Close", _nothing, FailureOutcome.GONE, usual=None)

# --- texts, made after the cycle --------------------------------------------------------------------------------------

STATUS: Final = PluginCall("Status", _status, FailureOutcome.SAID_INSTEAD, text="{words}", words=kind_and_text)
DETAILS: Final = PluginCall("Details", _details, FailureOutcome.SAID_INSTEAD, text="{words}", words=kind_and_text)

_CALLS: Final = {
    call.label: call
    for call in (
        *(PRE_ENQUEUE, MAY_LET_IN, GATING_OBJECTS, QUEUE_SORT, QUEUEING_HINT, SIGN, PRE_FILTER, ADD_POD, FILTER),
        *(POST_FILTER, PRE_SCORE, SCORE, NORMALIZE_SCORE, PLACEMENT_FEASIBLE, PLACEMENT_GENERATE, PLACEMENT_SCORE),
        *(POD_GROUP_POST_FILTER, RESERVE, UNRESERVE, PERMIT, PRE_BIND_PRE_FLIGHT, PRE_BIND, BIND, POST_BIND, REFRESH),
        *(STATUS, DETAILS),
    )
}


def is_right_answer(normalizes: bool, label: str, returned: Any, arguments: Arguments) -> bool:
    """Whether the answer of a call is used: asked about plugins that have failed before, about others now and then.

    `normalizes`: whether the points of `score` may be out of bounds. An iterator is not read here, where it would be
    used up, and counts as right.
    """
    if isinstance(returned, Iterator):
        return True
    call = _CALLS.get(label)
    if call is not None and not call.takes(returned, arguments):
        return False
    if label != SCORE.label or normalizes:
        return True
    return bool(((returned >= MIN_NODE_SCORE) & (returned <= MAX_NODE_SCORE)).any())
