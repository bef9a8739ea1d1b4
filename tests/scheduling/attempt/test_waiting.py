"""Between the decision and the Binding: the expectation is told, Permit and PreBind take their time, or end it."""

import asyncio
from collections.abc import Mapping

from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.client.errors import NotSentError
from kscheduler.framework.activation import activate_later
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import PermitResult, Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SKIP, SUCCESS, Code, Status, error
from kscheduler.scheduling.attempt.workers import Workers
from kscheduler.state.holding.pods_in_pre_bind import PodsInPreBind
from tests.builders import make_pod
from tests.scheduling.around import Around, Told
from tests.scheduling.attempt.test_workers import GatedBind, working
from tests.scheduling.eviction.stage import turns
from tests.scheduling.plugins_for_tests import Answer, AroundBinding, cluster, profile

WAIT = PermitResult(Status(Code.WAIT), 600.0)


class Announced(Told):
    """Writes down which pod was said to be where."""

    def __init__(self, diary: list[str], failure: NotSentError | None = None) -> None:
        super().__init__()
        self.diary = diary
        self.failure = failure

    async def patch_pod_status(self, pod: Pod, condition: Condition | None, nominated_node_name: str) -> bool:
        assert condition is None
        self.diary.append(f"{pod.metadata.name} will be on {nominated_node_name}")
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


def called_back(around: Around) -> PodsInPreBind:
    """Pods whose PreBind can be called back."""
    assert around.in_pre_bind is not None
    return around.in_pre_bind


async def diary_of(**answers: Answer | PermitResult) -> list[str]:
    """What happens to one pod whose plugins answer so; Permit is given after a while."""
    diary: list[str] = []
    plugin = AroundBinding("A", diary, answers)
    around = Around(profile(plugin), cluster("node"), told=Announced(diary))
    async with working(around):
        around.add(make_pod("p"))
        await turns()
        for held in around.waiting.all():
            held.allow("A")
        await turns()
    return [line for line in diary if "reserve" not in line]


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


async def test_that_it_cannot_be_told_is_no_reason_not_to_bind() -> None:
    diary: list[str] = []
    announcer = Announced(diary, NotSentError("refused"))
    binder = open_binder()
    around = Around(profile(binder, AroundBinding("A", diary, {"bind": SKIP})), cluster("node"), told=announcer)
    async with working(around):
        around.add(make_pod("p"))
        await turns()
    assert "p will be on node" in diary
    assert binder.bound == ["p"]


async def test_with_the_gate_off_nothing_is_told_and_pre_bind_cannot_be_called_back() -> None:
    slow, binder = SlowPreBind(), open_binder()
    around = Around(profile(slow, binder), cluster("node"), gates="NominatedNodeNameForExpectation=false")
    assert around.in_pre_bind is None
    async with working(around):
        around.add(make_pod("p"))
        await turns()
        assert around.told.announced == []
        assert around.workers.binding == 0, "all the same it holds no worker"
        slow.gate.set()
        await turns()
    assert binder.bound == ["p"]


async def test_a_failed_pre_flight_ends_the_attempt_before_permit_has_decided() -> None:
    diary: list[str] = []
    answers: Mapping[str, Answer | PermitResult] = {"permit": WAIT, "pre_flight": error("no list")}
    around = Around(profile(AroundBinding("A", diary, answers)), cluster("node"), told=Announced(diary))
    async with working(around):
        around.add(make_pod("p"))
        await turns()
        assert around.told.notes == ['running PreBindPreFlight "A": no list']
        assert len(around.waiting) == 0
        assert around.where("default/p") == "backoff"
        assert around.cache.statistics().pods == 0


# --- preempted


async def test_a_pod_preempted_while_it_waits_for_permit_backs_off_as_after_an_error() -> None:
    around = Around(profile(open_binder(), AroundBinding("Gang", [], {"permit": WAIT})), cluster("node"))
    async with working(around):
        around.add(make_pod("p"))
        await turns()
        held = around.waiting.get("uid-of-p")
        assert held is not None
        assert held.preempt("DefaultPreemption", "preempted")
        assert not held.preempt("DefaultPreemption", "preempted"), "there is a verdict"
        await turns()
        assert around.told.notes == ["waiting on permit for pod: preempted"]
        assert around.where("default/p") == "backoff"
        assert around.cache.statistics().pods == 0


async def test_a_pod_preempted_in_pre_bind_gives_its_node_back_and_backs_off_as_after_an_error() -> None:
    slow, binder = SlowPreBind(), open_binder()
    around = Around(profile(slow, binder), cluster("node"))
    pods = called_back(around)
    async with working(around):
        around.add(make_pod("p"))
        await turns()
        entry = pods.get("uid-of-p")
        assert entry is not None
        assert entry.cancel("preempted by DefaultPreemption")
        await turns()
        assert around.told.notes == ['running PreBind plugin "Slow": preempted by DefaultPreemption']
        assert slow.unreserved == ["p"]
        assert around.where("default/p") == "backoff"
        assert around.cache.statistics().pods == 0
        assert (len(pods), binder.bound) == (0, [])


async def test_a_pod_can_be_called_back_until_a_worker_is_free_to_bind_it() -> None:
    slow, binder = SlowPreBind(), GatedBind()
    around = Around(profile(slow, binder), cluster("node"), workers=1, limit=1)
    pods = called_back(around)
    async with working(around):
        around.add(make_pod("first"), make_pod("second"))
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
        assert around.told.notes == ["preempted by DefaultPreemption"]
        assert len(pods) == 0


# --- workers


async def test_a_thousand_pods_that_wait_hold_no_worker_and_all_come_to_be_bound() -> None:
    class Gang(AroundBinding):
        def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
            return WAIT if pod.name.startswith("member") else PermitResult(SUCCESS)

    binder = open_binder()
    gang = Gang("Gang", [], {"pre_flight": SKIP, "bind": SKIP})
    around = Around(profile(binder, gang), cluster("node"), workers=2, limit=2)
    async with working(around):
        around.add(*(make_pod(f"member{number}") for number in range(1000)))
        while len(around.waiting) < 1000:
            await turns(10)
        assert around.workers.binding == 0
        around.add(*(make_pod(f"single{number}") for number in range(20)))
        await turns(200)
        assert len(binder.bound) == 20
        for held in around.waiting.all():
            held.allow("Gang")
        while len(binder.bound) < 1020:
            await turns(10)
        assert binder.most <= 2, "let go together, they are bound by the workers and no faster"


async def test_a_pod_that_may_go_is_bound_before_any_is_decided() -> None:
    """It holds a node; a queue that never ends must not hold it up."""
    slow, binder = SlowPreBind(), open_binder()
    around = Around(profile(slow, binder), cluster("node"), workers=1, limit=1)
    workers: Workers = around.workers
    async with working(around):
        around.add(make_pod("p"))
        await turns()
        slow.gate.set()
        around.add(*(make_pod(f"q{number}") for number in range(5)))
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


def parked(around: Around, *names: str) -> None:
    """Pods that a plugin has turned down."""
    for name in names:
        around.add(make_pod(name))
        queued = around.queue.pop_nowait(around.clock.time())
        assert queued is not None
        queued.unschedulable_plugins = frozenset({"Names"})
        around.queue.requeue(queued, around.clock.time())


async def test_pods_that_plugins_name_are_tried_after_the_cycle_and_after_the_binding() -> None:
    around = Around(profile(Names("Names", [])), cluster("node"))
    parked(around, "after-cycle", "after-bind")
    around.add(make_pod("leader"))
    queued = around.queue.pop_nowait(around.clock.time())
    assert queued is not None
    attempt = around.scheduler.decide(queued)
    assert attempt is not None
    assert around.where("default/after-cycle") == "active"
    assert around.where("default/after-bind") == "unschedulable"
    await around.scheduler.bind(attempt)
    assert around.where("default/after-bind") == "active"


async def test_pods_that_were_named_by_an_attempt_that_failed_stay_where_they_are() -> None:
    around = Around(profile(Names("Names", [], {"permit": error("no")})), cluster("node"))
    parked(around, "after-cycle")
    around.add(make_pod("leader"))
    queued = around.queue.pop_nowait(around.clock.time())
    assert queued is not None
    assert around.scheduler.decide(queued) is None
    assert around.where("default/after-cycle") == "unschedulable"
