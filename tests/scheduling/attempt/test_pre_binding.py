"""PreBind runs in order, neighbours that allow it together, and can be called back until the Binding goes out."""

import asyncio
from collections.abc import Sequence

import pytest

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import Plugin, PreFlightResult
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SKIP, SUCCESS, Fault, Status, error, unschedulable
from kscheduler.scheduling.attempt.pre_bind import PreBindPlan, plan_of, run_pre_bind
from kscheduler.state.pods_in_pre_bind import PodInPreBind, PodsInPreBind
from tests.builders import pod_info
from tests.scheduling.eviction.stage import turns
from tests.scheduling.plugins_for_tests import Explanation, given


class Prepares(Plugin):
    """A PreBind that waits for its gate."""

    def __init__(
        self, name: str, flight: Status | PreFlightResult | Exception = SUCCESS, answer: Explanation = SUCCESS
    ):
        self.name = name
        self.flight = flight
        self.answer = answer
        self.gate = asyncio.Event()
        self.state = ""

    def pre_bind_pre_flight(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status | PreFlightResult:
        if isinstance(self.flight, Exception):
            raise self.flight
        return self.flight

    async def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        self.state = "running"
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.state = "cancelled"
            raise
        self.state = "done"
        return given(self.answer)


WITH_OTHERS = PreFlightResult(SUCCESS, allow_parallel=True)
SKIPS = PreFlightResult(SKIP, allow_parallel=True)


def planned(plugins: Sequence[Prepares]) -> PreBindPlan:
    return plan_of(plugins, CycleState(), pod_info(), "node")


async def running(plugins: Sequence[Prepares], entry: PodInPreBind | None = None) -> "asyncio.Task[Status]":
    """PreBind of these plugins, as far as it gets."""
    task = asyncio.ensure_future(run_pre_bind(planned(plugins), CycleState(), pod_info(), "node", entry))
    await turns()
    return task


@pytest.mark.parametrize(
    ("flights", "groups"),
    [
        pytest.param([SUCCESS, SUCCESS], ["a", "b"], id="one-by-one"),
        pytest.param([WITH_OTHERS, WITH_OTHERS], ["ab"], id="together"),
        pytest.param([WITH_OTHERS, SUCCESS, WITH_OTHERS], ["a", "b", "c"], id="one-wants-no-company"),
        pytest.param([WITH_OTHERS, SKIPS, WITH_OTHERS], ["ac"], id="who-skips-and-allows-it-is-passed-over"),
        pytest.param([WITH_OTHERS, SKIP, WITH_OTHERS], ["a", "c"], id="who-skips-and-does-not-ends-the-group"),
        pytest.param([SKIPS, WITH_OTHERS, WITH_OTHERS], ["bc"], id="skipped-at-first"),
        pytest.param([SUCCESS, WITH_OTHERS, WITH_OTHERS], ["a", "bc"], id="alone-at-first"),
        pytest.param([SKIP, SKIPS], [], id="nothing-to-do"),
    ],
)
def test_neighbours_that_allow_it_make_a_group(flights: list[Status | PreFlightResult], groups: list[str]) -> None:
    plugins = [Prepares(name, flight) for name, flight in zip("abc", flights, strict=False)]
    assert ["".join(one.name for one in group) for group in planned(plugins).groups] == groups


@pytest.mark.parametrize(
    ("flight", "message", "fault"),
    [
        pytest.param(error("no"), 'running PreBindPreFlight "b": no', Fault.PASSING, id="error"),
        pytest.param(RuntimeError("broke"), 'running PreBindPreFlight "b": broke', Fault.BUG, id="bug"),
        pytest.param(
            unschedulable("no"),
            'PreBindPreFlight b returned "Unschedulable", which is unsupported. '
            "It is supposed to return Success, Skip, or Error status",
            Fault.PASSING,
            id="rejection",
        ),
    ],
)
async def test_whoever_cannot_say_what_it_has_to_do_ends_the_attempt(
    flight: Status | Exception, message: str, fault: Fault
) -> None:
    plugins = [Prepares("a"), Prepares("b", flight)]
    failure = planned(plugins).failure
    assert (failure.message, failure.fault) == (message, fault)
    task = await running(plugins)
    assert (await task).message == message
    assert plugins[0].state == ""


async def test_a_group_runs_together_and_the_next_one_after_it() -> None:
    first, second, third = plugins = [Prepares("a", WITH_OTHERS), Prepares("b", WITH_OTHERS), Prepares("c")]
    task = await running(plugins)
    assert [one.state for one in plugins] == ["running", "running", ""]
    first.gate.set()
    await turns()
    assert third.state == ""
    second.gate.set()
    await turns()
    assert third.state == "running"
    third.gate.set()
    assert (await task).is_success


async def test_the_first_failure_cancels_the_others_and_nobody_comes_after_it() -> None:
    first, second, third = plugins = [
        Prepares("a", WITH_OTHERS),
        Prepares("b", WITH_OTHERS, error("no device")),
        Prepares("c"),
    ]
    task = await running(plugins)
    second.gate.set()
    assert (await task).message == 'running PreBind plugin "b": no device'
    assert [one.state for one in (first, third)] == ["cancelled", ""]


async def test_a_pod_that_is_called_back_stops_and_names_the_cause() -> None:
    entry = PodsInPreBind().add("u")
    plugins = [Prepares("a", WITH_OTHERS), Prepares("b", WITH_OTHERS)]
    task = await running(plugins, entry)
    assert entry.cancel("preempted by DefaultPreemption")
    status = await task
    assert status.message == 'running PreBind plugin "a": preempted by DefaultPreemption'
    assert [one.state for one in plugins] == ["cancelled", "cancelled"]
    assert not entry.mark_pre_bound()


async def test_a_plugin_that_does_not_let_itself_be_cancelled_does_not_get_the_pod_bound() -> None:
    class Deaf(Prepares):
        async def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
            self.state = "running"
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                return SUCCESS
            return SUCCESS

    entry = PodsInPreBind().add("u")
    plugins = [Deaf("a"), Prepares("b")]
    task = await running(plugins, entry)
    entry.cancel("preempted by DefaultPreemption")
    assert (await task).message == "preempted by DefaultPreemption"
    assert plugins[1].state == ""


async def test_the_end_of_the_task_ends_the_plugins() -> None:
    plugins = [Prepares("a", WITH_OTHERS), Prepares("b", WITH_OTHERS)]
    task = await running(plugins)
    task.cancel()
    await asyncio.wait({task})
    assert [one.state for one in plugins] == ["cancelled", "cancelled"]


async def test_a_plugin_alone_is_called_back_without_an_end_to_the_task() -> None:
    entry = PodsInPreBind().add("u")
    task = await running([plugin := Prepares("a")], entry)
    assert entry.cancel("preempted by DefaultPreemption")
    assert (await task).message == 'running PreBind plugin "a": preempted by DefaultPreemption'
    assert (plugin.state, task.cancelled(), task.cancelling()) == ("cancelled", False, 0)


@pytest.mark.parametrize("is_called_back", [pytest.param(False, id="alone"), pytest.param(True, id="called-back-too")])
async def test_the_end_of_the_task_ends_a_plugin_alone(is_called_back: bool) -> None:
    entry = PodsInPreBind().add("u")
    task = await running([plugin := Prepares("a")], entry)
    if is_called_back:
        entry.cancel("preempted by DefaultPreemption")
    task.cancel()
    await asyncio.wait({task})
    assert (plugin.state, task.cancelled()) == ("cancelled", True)


async def test_a_deaf_plugin_alone_leaves_the_task_as_it_was() -> None:
    class Deaf(Prepares):
        async def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                await asyncio.sleep(0)
            return SUCCESS

    entry = PodsInPreBind().add("u")
    task = await running([Deaf("a")], entry)
    entry.cancel("preempted by DefaultPreemption")
    assert (await task).is_success
    assert task.cancelling() == 0
    assert not entry.mark_pre_bound()


@pytest.mark.parametrize("has_entry", [True, False], ids=["can-be-called-back", "cannot"])
async def test_a_plugin_alone_whose_own_helper_is_cancelled_fails_and_nothing_more(has_entry: bool) -> None:
    """Nobody ended the task: to end it would leave the pod in no queue, with its room taken."""
    helper: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    class Joins(Prepares):
        async def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
            await helper
            return SUCCESS

    task = await running([Joins("a")], PodsInPreBind().add("u") if has_entry else None)
    helper.cancel()
    assert (await task).message == 'running PreBind plugin "a": it was cancelled'


async def test_a_deaf_plugin_alone_does_not_outlive_the_end_of_the_task() -> None:
    class Deaf(Prepares):
        async def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                return SUCCESS
            return SUCCESS

    task = await running([Deaf("a")], PodsInPreBind().add("u"))
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


def test_a_pod_is_called_back_until_its_binding_goes_out_and_never_after() -> None:
    pods = PodsInPreBind()
    entry = pods.add("u")
    assert pods.get("u") is entry
    assert entry.mark_pre_bound()
    assert not entry.cancel("too late")
    assert entry.cause == ""
    again = pods.add("u")
    assert again.cancel("first")
    assert again.cancel("second")
    assert again.cause == "first"
    pods.remove("u")
    pods.remove("u")
    assert pods.get("u") is None
    assert len(pods) == 0
