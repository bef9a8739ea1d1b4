"""Between the decision and the Binding: the expectation is told, Permit and PreBind take their time, or end it."""

import asyncio
from collections.abc import Mapping

from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.client.errors import NotSentError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import PermitResult, Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods_to_activate import activate_later
from kscheduler.framework.status import SKIP, SUCCESS, Code, Status, error
from kscheduler.scheduling.work.workers import Workers
from kscheduler.state.pods_in_pre_bind import PodsInPreBind
from tests.builders import make_pod
from tests.scheduling.around import ReportedFailures, SchedulerHarness
from tests.scheduling.attempt.test_workers import GatedBind, working
from tests.scheduling.eviction.stage import turns
from tests.scheduling.plugins_for_tests import AroundBinding, Explanation, cluster, profile

WAIT = PermitResult(Status(Code.WAIT), 600.0)


class Announced(ReportedFailures):
    """Writes down which pod was said to be where."""

    def __init__(self, service_log: list[str], failure: NotSentError | None = None) -> None:
        super().__init__()
        self.service_log = service_log
        self.failure = failure

    async def patch_pod_status(self, pod: Pod, condition: Condition | None, nominated_node_name: str) -> bool:
        assert condition is None
        self.service_log.append(f"{pod.metadata.name} will be on {nominated_node_name}")
        if self.failure is not None:
            raise self.failure
        return True


class SlowPreBind(Plugin):
    """A PreBind that waits for its gate."""

    name = "Slow"

    def __init__(self, answer: Status = SUCCESS) -> None:
        self.gate = asyncio.Event()
        self.answer = answer
        self.unreserved: list[str] = []

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS

    def unreserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        self.unreserved.append(pod.name)

    def pre_bind_pre_flight(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS

    async def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        await self.gate.wait()
        return self.answer


def open_binder() -> GatedBind:
    """Binds at once."""
    binder = GatedBind()
    binder.gate.set()
    return binder


def called_back(harness: SchedulerHarness) -> PodsInPreBind:
    """Pods whose PreBind can be called back."""
    assert harness.in_pre_bind is not None
    return harness.in_pre_bind


async def diary_of(**answers: Explanation | PermitResult) -> list[str]:
    """What happens to one pod whose plugins answer so; Permit is given after a while."""
    service_log: list[str] = []
    plugin = AroundBinding("A", service_log, answers)
    harness = SchedulerHarness(profile(plugin), cluster("node"), reported=Announced(service_log))
    async with working(harness):
        harness.add(make_pod("p"))
        await turns()
        for held in harness.waiting.all():
            held.allow("A")
        await turns()
    return [line for line in service_log if "reserve" not in line]


async def test_a_pod_with_something_to_prepare_names_its_node_first() -> None:
    assert await diary_of() == [
        *("A.permit", "A.pre_flight", "p will be on node", "A.pre_bind", "A.bind", "A.post_bind")
    ]


async def test_a_pod_that_waits_for_permit_names_its_node_first() -> None:
    assert await diary_of(permit=WAIT, pre_flight=SKIP) == [
        *("A.permit", "A.pre_flight", "p will be on node", "A.bind", "A.post_bind")
    ]


async def test_a_pod_that_is_bound_at_once_costs_no_such_request() -> None:
    assert await diary_of(pre_flight=SKIP) == ["A.permit", "A.pre_flight", "A.bind", "A.post_bind"]


async def test_that_it_cannot_be_reported_is_no_reason_not_to_bind() -> None:
    service_log: list[str] = []
    announcer = Announced(service_log, NotSentError("refused"))
    binder = open_binder()
    harness = SchedulerHarness(
        profile(binder, AroundBinding("A", service_log, {"bind": SKIP})), cluster("node"), reported=announcer
    )
    async with working(harness):
        harness.add(make_pod("p"))
        await turns()
    assert "p will be on node" in service_log
    assert binder.bound == ["p"]


async def test_with_the_gate_off_nothing_is_reported_and_pre_bind_cannot_be_called_back() -> None:
    slow, binder = SlowPreBind(), open_binder()
    harness = SchedulerHarness(profile(slow, binder), cluster("node"), gates="NominatedNodeNameForExpectation=false")
    assert harness.in_pre_bind is None
    async with working(harness):
        harness.add(make_pod("p"))
        await turns()
        assert harness.reported.announced == []
        assert harness.workers.binding == 0, "all the same it holds no worker"
        assert (harness.workers.in_binding_cycle, harness.workers.in_pre_bind) == (1, 1)
        slow.gate.set()
        await turns()
        assert (harness.workers.in_binding_cycle, harness.workers.in_pre_bind) == (0, 0)
    assert binder.bound == ["p"]


async def test_a_failed_pre_flight_ends_the_attempt_before_permit_has_decided() -> None:
    service_log: list[str] = []
    answers: Mapping[str, Explanation | PermitResult] = {"permit": WAIT, "pre_flight": error("no list")}
    harness = SchedulerHarness(
        profile(AroundBinding("A", service_log, answers)), cluster("node"), reported=Announced(service_log)
    )
    async with working(harness):
        harness.add(make_pod("p"))
        await turns()
        assert harness.reported.notes == ['running PreBindPreFlight "A": no list']
        assert len(harness.waiting) == 0
        assert harness.where("default/p") == "backoff"
        assert harness.cache.statistics().pods == 0


# --- preempted


async def test_a_pod_preempted_while_it_waits_for_permit_backs_off_as_after_an_error() -> None:
    harness = SchedulerHarness(profile(open_binder(), AroundBinding("Gang", [], {"permit": WAIT})), cluster("node"))
    async with working(harness):
        harness.add(make_pod("p"))
        await turns()
        held = harness.waiting.get("uid-of-p")
        assert held is not None
        assert held.preempt("DefaultPreemption", "preempted")
        assert not held.preempt("DefaultPreemption", "preempted"), "there is a verdict"
        await turns()
        assert harness.reported.notes == ["waiting on permit for pod: preempted"]
        assert harness.where("default/p") == "backoff"
        assert harness.cache.statistics().pods == 0


async def test_a_pod_preempted_in_pre_bind_gives_its_node_back_and_backs_off_as_after_an_error() -> None:
    slow, binder = SlowPreBind(), open_binder()
    harness = SchedulerHarness(profile(slow, binder), cluster("node"))
    pods = called_back(harness)
    async with working(harness):
        harness.add(make_pod("p"))
        await turns()
        entry = pods.get("uid-of-p")
        assert entry is not None
        assert entry.cancel("preempted by DefaultPreemption")
        await turns()
        assert harness.reported.notes == ['running PreBind plugin "Slow": preempted by DefaultPreemption']
        assert slow.unreserved == ["p"]
        assert harness.where("default/p") == "backoff"
        assert harness.cache.statistics().pods == 0
        assert (len(pods), binder.bound) == (0, [])


async def test_a_pod_can_be_called_back_until_a_worker_is_free_to_bind_it() -> None:
    slow, binder = SlowPreBind(), GatedBind()
    harness = SchedulerHarness(profile(slow, binder), cluster("node"), workers=1, limit=1)
    pods = called_back(harness)
    async with working(harness):
        harness.add(make_pod("first"), make_pod("second"))
        await turns()
        slow.gate.set()
        await turns()
        assert binder.under_way == 1
        assert pods.get("uid-of-first") is None, "its Binding has been sent"
        entry = pods.get("uid-of-second")
        assert entry is not None
        assert entry.cancel("preempted by DefaultPreemption")
        binder.gate.set()
        await turns()
        assert binder.bound == ["first"]
        assert harness.reported.notes == ["preempted by DefaultPreemption"]
        assert len(pods) == 0


# --- workers


async def test_a_thousand_pods_that_wait_hold_no_worker_and_all_come_to_be_bound() -> None:
    class Gang(AroundBinding):
        def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
            return WAIT if pod.name.startswith("member") else PermitResult(SUCCESS)

    binder = open_binder()
    gang = Gang("Gang", [], {"pre_flight": SKIP, "bind": SKIP})
    harness = SchedulerHarness(profile(binder, gang), cluster("node"), workers=2, limit=2)
    async with working(harness):
        harness.add(*(make_pod(f"member{number}") for number in range(1000)))
        while len(harness.waiting) < 1000:
            await turns(10)
        assert harness.workers.binding == 0
        harness.add(*(make_pod(f"single{number}") for number in range(20)))
        await turns(200)
        assert len(binder.bound) == 20
        for held in harness.waiting.all():
            held.allow("Gang")
        while len(binder.bound) < 1020:
            await turns(10)
        assert binder.most <= 2, "let go together, they are bound by the workers and no faster"


async def test_a_pod_that_may_go_is_bound_before_any_is_decided() -> None:
    """It holds a node; a queue that never ends must not hold it up."""
    slow, binder = SlowPreBind(), open_binder()
    harness = SchedulerHarness(profile(slow, binder), cluster("node"), workers=1, limit=1)
    workers: Workers = harness.workers
    async with working(harness):
        harness.add(make_pod("p"))
        await turns()
        slow.gate.set()
        harness.add(*(make_pod(f"q{number}") for number in range(5)))
        await turns(200)
        assert workers.binding == 0
        assert binder.bound[0] == "p"
        assert len(binder.bound) == 6


# --- pods to activate


class Names(AroundBinding):
    """Names pods to be tried: one in Reserve, one in PostBind."""

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        if pod.name == "leader":
            activate_later(cycle, "default/after-cycle", "default/unknown")
        return super().reserve(cycle, pod, node_name)

    def post_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        if pod.name == "leader":
            activate_later(cycle, "default/after-bind")


def parked(harness: SchedulerHarness, *names: str) -> None:
    """Pods that a plugin has rejected."""
    for name in names:
        harness.add(make_pod(name))
        queued = harness.queue.pop_nowait(harness.clock.time())
        assert queued is not None
        queued.unschedulable_plugins = frozenset({"Names"})
        harness.queue.requeue(queued, harness.clock.time())


async def test_pods_that_plugins_name_are_tried_after_the_cycle_and_after_the_binding() -> None:
    harness = SchedulerHarness(profile(Names("Names", [])), cluster("node"))
    parked(harness, "after-cycle", "after-bind")
    harness.add(make_pod("leader"))
    queued = harness.queue.pop_nowait(harness.clock.time())
    assert queued is not None
    attempt = harness.scheduler.decide(queued)
    assert attempt is not None
    assert harness.where("default/after-cycle") == "active"
    assert harness.where("default/after-bind") == "unschedulable"
    await harness.scheduler.bind(attempt)
    assert harness.where("default/after-bind") == "active"


async def test_pods_that_were_named_by_an_attempt_that_failed_stay_where_they_are() -> None:
    harness = SchedulerHarness(profile(Names("Names", [], {"permit": error("no")})), cluster("node"))
    parked(harness, "after-cycle")
    harness.add(make_pod("leader"))
    queued = harness.queue.pop_nowait(harness.clock.time())
    assert queued is not None
    assert harness.scheduler.decide(queued) is None
    assert harness.where("default/after-cycle") == "unschedulable"
