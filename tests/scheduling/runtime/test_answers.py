"""Answers of the right type with contents that nobody can use are failures of the plugin that gave them."""

from typing import Any

import numpy as np
import pytest

from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.plugin import PermitResult, PostFilterResult, PreFilterResult
from kscheduler.framework.plugin_results import NotCalledError
from kscheduler.framework.status import SUCCESS, Code, Fault, Status, unschedulable
from kscheduler.scheduling.runtime import points
from kscheduler.scheduling.runtime.guard import PluginCall, PluginFailure
from tests.builders import pod_info

PREEMPTOR, VICTIM = pod_info("preemptor"), pod_info("victim")


def preemption(**changes: Any) -> PostFilterResult:
    parts = {"preemptor": PREEMPTOR, "node_name": "n", "victims": (VICTIM,), "plugin": "P", **changes}
    return PostFilterResult(SUCCESS, "n", Preemption(**parts))


async def coroutine() -> None:
    """Never awaited."""


def status(code: Any = Code.UNSCHEDULABLE, reasons: Any = ("x",)) -> Status:
    return Status(code, reasons)


@pytest.mark.parametrize(
    ("call", "answer", "message"),
    [
        pytest.param(points.RESERVE, status(code="Unschedulable"), "code 'Unschedulable'", id="reserve-code"),
        pytest.param(points.RESERVE, status(reasons=None), "reasons None", id="reserve-no-reasons"),
        pytest.param(points.PRE_ENQUEUE, status(code=9), "code 9", id="pre-enqueue-code"),
        pytest.param(points.PRE_FILTER, PreFilterResult(status(code=7)), "code 7", id="pre-filter-code"),
        pytest.param(points.PERMIT, PermitResult(status(reasons=None)), "reasons None", id="permit-reasons"),
        pytest.param(
            points.POST_FILTER, preemption(victims=("v",)), "returned 'v', expected PodInfo", id="victim-text"
        ),
        pytest.param(points.POST_FILTER, preemption(victims=(VICTIM.pod,)), "expected PodInfo", id="victim-pod"),
        pytest.param(points.POST_FILTER, preemption(victims=None), "expected several PodInfo", id="no-victims"),
        pytest.param(points.POST_FILTER, preemption(victims=()), "without victims", id="empty-victims"),
        pytest.param(points.POST_FILTER, preemption(victims=(PREEMPTOR,)), "among its own victims", id="own-victim"),
        pytest.param(points.POST_FILTER, preemption(preemptor=None), "expected PodInfo", id="no-preemptor"),
        pytest.param(points.POST_FILTER, preemption(outbid=("x",)), "expected PodInfo", id="outbid-text"),
        pytest.param(points.POST_FILTER, preemption(node_name=5), "returned 5, expected str", id="node-number"),
        pytest.param(points.MAY_LET_IN, "default/p", "expected several str", id="may-let-in-text"),
        pytest.param(points.MAY_LET_IN, np.zeros(2), "expected str", id="may-let-in-array"),
        pytest.param(points.DETAILS, "text", "expected several Detail", id="details-text"),
        pytest.param(points.EVENTS_TO_REGISTER, None, "expected several ClusterEventWithHint", id="events-none"),
    ],
)
def test_contents_that_nobody_can_use_are_the_plugins_failure(call: PluginCall[Any], answer: Any, message: str) -> None:
    with pytest.raises(PluginFailure) as failure:
        call.call("Mine", lambda: answer)
    assert message in str(failure.value)


@pytest.mark.parametrize("call", [points.ADD_POD, points.REMOVE_POD, points.SIGN], ids=lambda call: call.label)
def test_a_coroutine_where_nobody_awaits_one_is_a_failure(call: PluginCall[Any]) -> None:
    with pytest.raises(PluginFailure, match="a coroutine"):
        call.call("Mine", coroutine)


def test_points_beyond_int64_are_not_wrapped() -> None:
    rows = np.arange(2)
    with pytest.raises(PluginFailure, match=str(2**63 + 50)):
        points.SCORE.call("Mine", lambda _: np.array([1, 2**63 + 50], dtype=np.uint64), rows)


def test_an_answer_of_several_lines_is_shown_on_one() -> None:
    with pytest.raises(PluginFailure) as failure:
        points.RESERVE.call("Mine", lambda: np.zeros((40, 40)))
    assert "\n" not in str(failure.value)


def test_answers_that_can_be_used_pass() -> None:
    assert points.RESERVE.call("Mine", lambda: unschedulable("x")) == unschedulable("x")
    assert points.POST_FILTER.call("Mine", preemption) == preemption()
    assert points.MAY_LET_IN.call("Mine", lambda: (key for key in ["default/p"])) == ("default/p",)


@pytest.mark.parametrize(
    ("is_hold", "fault"), [(True, Fault.HELD_BACK), (False, Fault.ON_TRIAL)], ids=["hold", "trial"]
)
def test_a_plugin_that_is_not_called_for_a_pod_has_not_failed_for_it(is_hold: bool, fault: Fault) -> None:
    def not_called() -> Status:
        raise NotCalledError("it is tried with another pod first", is_hold=is_hold)

    with pytest.raises(PluginFailure) as failure:
        points.PRE_ENQUEUE.call("Gate", not_called)
    assert failure.value.status.fault is fault
