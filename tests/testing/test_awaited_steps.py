"""`async def permit` and `async def post_bind`: the pod waits for the one, nobody for the other."""

import asyncio
from contextlib import suppress
from typing import Any, ClassVar

import pytest
import structlog

from kscheduler.config.errors import ConfigError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import PERMIT_TIMEOUT_SECONDS, PermitResult, Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Code, Status, unschedulable
from kscheduler.scheduling.attempt.binding_cycle import END_SECONDS, POST_BIND_SECONDS
from kscheduler.testing import Cluster, make_node, make_pod


class Licences(Plugin):
    """Asks somebody else before a pod is bound, and tells them afterwards."""

    name = "Licences"
    answers: ClassVar[dict[str, "asyncio.Future[Any]"]] = {}
    """By pod."""
    reported: ClassVar[list[str]] = []
    cancelled: ClassVar[list[str]] = []

    async def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Any:
        try:
            return await self.answers.setdefault(pod.name, asyncio.get_running_loop().create_future())
        except asyncio.CancelledError:
            self.cancelled.append(pod.name)
            raise

    async def post_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        self.reported.append(f"{pod.name} on {node_name}")
        if pod.name == "slow":
            await asyncio.get_running_loop().create_future()
        if pod.name == "broken":
            raise ValueError("no such licence")


@pytest.fixture(autouse=True)
def _nothing_known() -> None:
    for kept in (Licences.answers, Licences.reported, Licences.cancelled):
        kept.clear()


async def test_the_pod_waits_for_the_answer_and_others_do_not_wait_for_the_pod() -> None:
    first, second = make_pod("first"), make_pod("second")
    async with Cluster(make_node("a")).enable(Licences).running() as running:
        await running.add(first, second)
        assert [running.place_of(pod) for pod in (first, second)] == ["waiting", "waiting"]
        (held, _) = running.waiting_pods.all()
        assert held.pending_plugins == {"Licences"}
        Licences.answers["second"].set_result(SUCCESS)
        await running.advance(0.0)
        assert [running.place_of(pod) for pod in (first, second)] == ["waiting", "bound"]
        assert Licences.reported == ["second on a"]


async def test_a_no_is_the_pods_condition_and_what_was_reserved_is_given_back() -> None:
    pod = make_pod("first")
    async with Cluster(make_node("a")).enable(Licences).running() as running:
        await running.add(pod)
        Licences.answers["first"].set_result(unschedulable("no licence is left"))
        await running.advance(0.0)
        assert running.place_of(pod) == "unschedulable"
        assert "no licence is left" in running.message_of(pod)
        assert len(running.waiting_pods.all()) == 0


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (ValueError("the server is away"), "the server is away"),
        (Status(Code.WAIT), "it has waited already"),
        (7, "it returned 7"),
    ],
)
async def test_a_failure_is_an_error_that_names_the_plugin(answer: Any, text: str) -> None:
    pod = make_pod("first")
    async with Cluster(make_node("a")).enable(Licences).running() as running:
        await running.add(pod)
        future = Licences.answers["first"]
        future.set_exception(answer) if isinstance(answer, Exception) else future.set_result(answer)
        await running.advance(0.0)
        assert running.place_of(pod) == "backoff"
        assert 'running Permit plugin "Licences": ' in running.message_of(pod)
        assert text in running.message_of(pod)


async def test_a_result_of_permit_will_do_as_well() -> None:
    pod = make_pod("first")
    async with Cluster(make_node("a")).enable(Licences).running() as running:
        await running.add(pod)
        Licences.answers["first"].set_result(PermitResult(SUCCESS))
        await running.advance(0.0)
        assert running.place_of(pod) == "bound"


async def test_who_does_not_answer_in_time_is_cancelled_and_the_pod_rejected() -> None:
    pod = make_pod("first")
    async with Cluster(make_node("a")).enable(Licences).running() as running:
        await running.add(pod)
        await running.advance(PERMIT_TIMEOUT_SECONDS - 1)
        assert running.place_of(pod) == "waiting"
        await running.advance(1.0)
        assert running.place_of(pod) == "unschedulable"
        assert "rejected due to timeout after waiting 10s at plugin Licences" in running.message_of(pod)
        assert Licences.cancelled == ["first"]


class Patient(Licences):
    """Has more time."""

    name = "Patient"
    permit_timeout_seconds = 600.0


async def test_a_plugin_may_name_its_time() -> None:
    pod = make_pod("first")
    async with Cluster(make_node("a")).enable(Patient).running() as running:
        await running.add(pod)
        await running.advance(590.0)
        assert running.place_of(pod) == "waiting"
        await running.advance(20.0)
        assert running.place_of(pod) == "unschedulable"


async def test_a_pod_that_is_deleted_waits_no_more() -> None:
    pod = make_pod("first")
    async with Cluster(make_node("a")).enable(Licences).running() as running:
        await running.add(pod)
        await running.delete(pod)
        await running.advance(0.0)
        assert Licences.cancelled == ["first"]
        assert len(running.waiting_pods.all()) == 0


async def test_nobody_waits_for_post_bind_and_its_failure_leaves_the_pod_bound() -> None:
    pods = [make_pod(name) for name in ("slow", "broken", "quick")]
    with structlog.testing.capture_logs() as lines:
        async with Cluster(make_node("a")).enable(Licences).running() as running:
            await running.add(*pods)
            for pod in pods:
                Licences.answers[pod.metadata.name].set_result(SUCCESS)
            await running.advance(0.0)
            assert [running.place_of(pod) for pod in pods] == ["bound"] * 3
            assert sorted(Licences.reported) == ["broken on a", "quick on a", "slow on a"]
            await running.advance(POST_BIND_SECONDS)
    failed = [(line["extension_point"], line["pod"], line["err"]) for line in lines if line["event"] == "plugin_failed"]
    assert failed == [
        ("PostBind", "default/broken", "ValueError: no such licence"),
        ("PostBind", "default/slow", "TimeoutError: it was cancelled after 60 s"),
    ]


class Deaf(Licences):
    """Ignores its cancellation."""

    name = "Deaf"
    permit_timeout_seconds = 1.0
    may_end = False

    async def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        while not type(self).may_end:
            with suppress(asyncio.CancelledError):
                await asyncio.get_running_loop().create_future()
        return SUCCESS


async def test_who_ignores_its_cancellation_is_quarantined_before_tasks_pile_up() -> None:
    pods = [make_pod(f"p{number}", namespace=f"n{number}") for number in range(3)]
    with structlog.testing.capture_logs() as lines:
        async with Cluster(make_node("a")).enable(Deaf).running() as running:
            await running.add(*pods)
            await running.advance(1.0)
            await running.advance(END_SECONDS)
            Deaf.may_end = True
            for task in asyncio.all_tasks():
                if task.get_name().startswith("plugins/permit of Deaf for n"):
                    task.cancel()
            await running.advance(0.0)
    failed = [line["err"] for line in lines if line["event"] == "plugin_failed"]
    assert failed == ["TimeoutError: it ignores its cancellation, and was at work 5 s later"]
    assert [line["plugin"] for line in lines if line["event"] == "plugin_quarantined"] == ["Deaf"]


class Hasty(Plugin):
    """Gives a pod no time at all."""

    name = "Hasty"
    permit_timeout_seconds = 0

    async def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS


async def test_a_time_that_is_none_is_refused_when_the_plugin_is_built() -> None:
    with pytest.raises(ConfigError, match="`permit_timeout_seconds` is 0: let it be a number of seconds above 0"):
        async with Cluster(make_node("a")).enable(Hasty).running():
            pass
