"""The first verdict on a waiting pod counts; later ones learn that they came too late."""

from collections.abc import Callable

import pytest

from kscheduler.framework.status import Code
from kscheduler.state.waiting_pods import PodAtPermit, WaitingPodTable
from tests.builders import pod_info


def held(name: str = "p", **timeouts: float) -> PodAtPermit:
    """A pod that waits since the clock stood at 0."""
    waits = timeouts or {"A": 10.0}
    return PodAtPermit(pod_info(name), "node", dict(waits), waits)


def is_open(pod: PodAtPermit) -> bool:
    """Whether there is no verdict yet."""
    return pod.verdict is None


def table(*pods: PodAtPermit) -> WaitingPodTable:
    waiting = WaitingPodTable()
    for pod in pods:
        waiting.hold(pod)
    return waiting


def test_the_last_permission_decides_and_a_plugin_that_was_not_queried_decides_nothing() -> None:
    pod = held(A=10.0, B=20.0)
    pod.allow("C")
    pod.allow("A")
    assert is_open(pod)
    assert pod.pending_plugins == {"B"}
    pod.allow("B")
    assert pod.verdict is not None
    assert pod.verdict.is_success


@pytest.mark.parametrize(
    ("say", "code"),
    [
        pytest.param(lambda pod: pod.reject("A", "no"), Code.UNSCHEDULABLE, id="reject"),
        pytest.param(lambda pod: pod.preempt("A", "no"), Code.ERROR, id="preempt"),
    ],
)
def test_the_first_no_counts_and_names_the_plugin(say: Callable[[PodAtPermit], bool], code: Code) -> None:
    pod = held()
    assert say(pod)
    assert not pod.reject("B", "too late")
    assert not pod.preempt("B", "too late")
    pod.allow("A")
    assert pod.verdict is not None
    assert (pod.verdict.code, pod.verdict.plugin, pod.verdict.reasons) == (code, "A", ("no",))


def test_a_verdict_is_reported_to_who_listens_even_afterwards_and_once() -> None:
    reported: list[str] = []
    pod = held()
    pod.on_verdict(lambda: reported.append("before"))
    pod.reject("A", "no")
    pod.reject("A", "no")
    pod.on_verdict(lambda: reported.append("after"))
    assert reported == ["before", "after"]


def test_time_runs_out_for_each_plugin_by_itself() -> None:
    pod = held(A=10.0, B=5.0)
    assert pod.next_deadline() == 5.0
    pod.expire(4.9)
    assert is_open(pod)
    pod.expire(5.0)
    assert pod.verdict is not None
    assert pod.verdict.message == "rejected due to timeout after waiting 5s at plugin B"


def test_pods_are_found_by_uid_and_by_name_and_kept_in_order() -> None:
    first, second = held("first"), held("second")
    waiting = table(first, second)
    assert waiting.all() == (first, second)
    assert waiting.get("uid-of-second") is waiting.find("default/second") is second
    assert waiting.get("nobody") is waiting.find("default/nobody") is None
    waiting.release("uid-of-first")
    waiting.release("uid-of-first")
    assert waiting.all() == (second,)


def test_a_pod_that_is_removed_is_rejected_by_nobody_in_particular() -> None:
    pod = held()
    waiting = table(pod)
    assert waiting.reject("uid-of-p")
    assert not waiting.reject("uid-of-p")
    assert not waiting.reject("nobody")
    assert pod.verdict is not None
    assert (pod.verdict.message, pod.verdict.plugin) == ("removed", "")
