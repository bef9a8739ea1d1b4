"""What a slow extender must not delay: pods of another extender, and pods that concern none."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS
from kscheduler.config.types import Extender, ExtenderManagedResource
from kscheduler.framework.status import SUCCESS, Status, error
from kscheduler.scheduling.attempt.extender_lines import LEAST_SWEPT, TURNS_PER_LINE
from kscheduler.scheduling.extenders.http_extender import HTTPExtender
from kscheduler.scheduling.extenders.http_extenders import HTTPExtenders
from tests.builders import make_pod
from tests.scheduling.attempt.test_extender_consultation import SlowExtenders, binder, harness_of
from tests.scheduling.attempt.test_workers import working
from tests.scheduling.eviction.stage import turns
from tests.scheduling.extenders.fake_extenders import NamedObjects


class GatedCalls:
    """Leaves every node, as soon as the gate is open."""

    def __init__(self, *, is_open: bool) -> None:
        self.gate = asyncio.Event()
        if is_open:
            self.gate.set()

    async def call(self, verb: str, body: bytes, may_send: Callable[[], bool] | None = None) -> bytes:
        del may_send
        await self.gate.wait()
        return msgspec.json.encode({"NodeNames": msgspec.json.decode(body)["NodeNames"]})


def extender_of(name: str, calls: GatedCalls) -> HTTPExtender:
    managed = (ExtenderManagedResource(name=f"{name}.io/x"),)
    settings = Extender(
        url_prefix=f"http://{name}", filter_verb="filter", weight=1, node_cache_capable=True, managed_resources=managed
    )
    return HTTPExtender(settings, calls)


@pytest.mark.parametrize("stuck", [TURNS_PER_LINE - 1, TURNS_PER_LINE, 10 * TURNS_PER_LINE])
async def test_a_slow_extender_does_not_delay_pods_of_another(stuck: int) -> None:
    slow, bound = GatedCalls(is_open=False), binder()
    querying = HTTPExtenders(
        [extender_of("slow", slow), extender_of("quick", GatedCalls(is_open=True))], NamedObjects()
    )
    harness = harness_of(querying, bound)
    harness.add(*(make_pod(f"slow-{number}", requests={"slow.io/x": "1"}) for number in range(stuck)))
    async with working(harness):
        await turns()
        harness.add(make_pod("quick", requests={"quick.io/x": "1"}))
        await turns()
        bound_meanwhile = list(bound.bound)
        slow.gate.set()
        await turns(20 * stuck)
    assert bound_meanwhile == ["quick"]
    assert len(bound.bound) == stuck + 1


class SlowBinder(SlowExtenders):
    """Binds pods named `slow-...` when the gate opens, and leaves others to the plugins."""

    def binder_of(self, pod: Pod) -> str:
        return "http://binder" if pod.metadata.name.startswith("slow") else ""

    async def bind(self, pod: Pod, node_name: str) -> Status | None:
        await self.gate.wait()
        return self.bind_status


@pytest.mark.parametrize("stuck", [1, 100])
@pytest.mark.parametrize("outcome", [SUCCESS, error("busy"), None], ids=["bound", "failed", "left to plugins"])
async def test_a_slow_binding_extender_does_not_delay_pods_of_none(stuck: int, outcome: Status | None) -> None:
    extenders, bound = SlowBinder(), binder()
    extenders.bind_status = outcome
    harness = harness_of(extenders, bound)
    harness.add(*(make_pod(f"slow-{number}") for number in range(stuck)))
    async with working(harness):
        await turns()
        assert harness.cache.statistics().assumed_pods == stuck
        harness.add(make_pod("quick"))
        await turns()
        bound_meanwhile = list(bound.bound)
        extenders.gate.set()
        await turns(20 * stuck)
        assert not harness.workers.profiles_in_use()
    assert bound_meanwhile == ["quick"]
    assert len(bound.bound) == (stuck + 1 if outcome is None else 1)
    assert len(harness.reported.notes) == (stuck if outcome is not None and not outcome.is_success else 0)


async def test_a_bind_that_an_extender_has_begun_is_waited_for_at_the_end() -> None:
    extenders, bound = SlowBinder(), binder()
    extenders.bind_status = SUCCESS
    harness = harness_of(extenders, bound)
    harness.add(make_pod("slow"))
    async with working(harness):
        await turns()
        stopping = asyncio.ensure_future(harness.workers.stop(10.0))
        await turns()
        assert not stopping.done()
        extenders.gate.set()
        await turns()
        assert await stopping
        assert harness.recorded.notes[0].startswith("Normal Scheduled")


async def test_no_events_are_kept_for_pods_that_stand_in_line() -> None:
    """With ten thousand of them and a slow extender, the log of events would be the memory of the process."""
    extenders, bound = SlowExtenders(), binder()
    harness = harness_of(extenders, bound)
    async with working(harness):
        harness.add(*(make_pod(f"slow-{number}", labels={"asks": "yes"}) for number in range(TURNS_PER_LINE + 50)))
        await turns()
        assert harness.scheduler.lines.standing() == 50
        assert harness.queue.statistics().in_flight == TURNS_PER_LINE + 50
        assert len(harness.queue._in_flight._log) == TURNS_PER_LINE
        extenders.gate.set()
        await turns(500)
        assert (harness.scheduler.lines.standing(), harness.scheduler.lines.in_turn()) == (0, 0)
        assert len(bound.bound) == TURNS_PER_LINE + 50
        assert harness.queue.statistics().in_flight == 0


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "made again"])
async def test_a_pod_that_is_gone_when_its_turn_comes_is_not_queried_about(again: bool) -> None:
    extenders, bound = SlowExtenders(), binder()
    harness = harness_of(extenders, bound)
    async with working(harness):
        harness.add(*(make_pod(f"slow-{number}", labels={"asks": "yes"}) for number in range(TURNS_PER_LINE)))
        await turns()
        harness.add(make_pod("late", labels={"asks": "yes"}, uid="first"))
        await turns()
        harness.stores[PODS].remove("default/late")
        if again:
            harness.add(make_pod("late", labels={"asks": "yes"}, uid="second"))
            await turns()
        extenders.gate.set()
        await turns(500)
        assert [name for name, _ in extenders.queried].count("late") == int(again)
        assert bound.bound.count("late") == int(again)
        assert harness.queue.statistics().in_flight == 0
        assert harness.cache.node_of("first") == ""


async def test_a_pod_that_is_deleted_while_it_is_queried_about_is_not_bound() -> None:
    extenders, bound = SlowExtenders(), binder()
    harness = harness_of(extenders, bound)
    async with working(harness):
        harness.add(make_pod("slow", labels={"asks": "yes"}))
        await turns()
        harness.stores[PODS].remove("default/slow")
        extenders.gate.set()
        await turns()
        assert (bound.bound, harness.reported.notes) == ([], [])
        assert harness.queue.statistics().in_flight == 0


async def test_pods_that_are_deleted_while_they_stand_in_line_leave_it() -> None:
    """An extender that does not answer for hours, and a job that is made and deleted all the time."""
    extenders, bound = SlowExtenders(), binder()
    harness = harness_of(extenders, bound)
    async with working(harness):
        for number in range(3 * LEAST_SWEPT):
            pod = make_pod(f"slow-{number}", labels={"asks": "yes"})
            harness.add(pod)
            if number >= TURNS_PER_LINE:
                await asyncio.sleep(0)
                harness.stores[PODS].remove(pod.key)
                harness.pod_handler.on_delete(pod)
        await turns()
        assert harness.scheduler.lines.standing() <= LEAST_SWEPT
        assert harness.queue.statistics().in_flight <= LEAST_SWEPT + TURNS_PER_LINE
        extenders.gate.set()
        await turns(500)
        assert len(bound.bound) == TURNS_PER_LINE
        assert (harness.scheduler.lines.standing(), harness.queue.statistics().in_flight) == (0, 0)


async def test_a_pod_that_names_another_scheduler_while_it_is_queried_about_is_not_bound() -> None:
    extenders, bound = SlowExtenders(), binder()
    harness = harness_of(extenders, bound)
    async with working(harness):
        names = {f"slow-{number}" for number in range(TURNS_PER_LINE + 1)}
        harness.add(*(make_pod(name, labels={"asks": "yes"}) for name in names))
        await turns()
        (in_line,) = names - {name for name, _ in extenders.queried}
        is_queried_about = extenders.queried[0][0]
        for name in (in_line, is_queried_about):
            harness.stores[PODS].put(f"default/{name}", make_pod(name, labels={"asks": "yes"}, schedulerName="another"))
        extenders.gate.set()
        await turns(500)
        assert set(bound.bound) == names - {in_line, is_queried_about}
        assert in_line not in {name for name, _ in extenders.queried}
        assert (harness.queue.statistics().in_flight, harness.reported.notes) == (0, [])
        assert harness.where(f"default/{is_queried_about}") == "", "the other scheduler is none of ours"


async def test_a_pod_that_concerns_others_when_it_fails_gives_its_turn_back_where_it_had_it() -> None:
    extenders, bound = SlowExtenders(left=()), binder()
    harness = harness_of(extenders, bound)
    async with working(harness):
        harness.add(make_pod("slow", labels={"asks": "one"}))
        await turns()
        harness.stores[PODS].put("default/slow", make_pod("slow", labels={"asks": "another"}))
        extenders.gate.set()
        await turns()
        assert harness.reported.notes == ["0/2 nodes are available: 2 busy."]
        assert harness.scheduler.lines.in_turn() == 0
