"""A gate that names what its pods wait for is asked about few of them, and the outcome is the same."""

from collections import Counter
from collections.abc import Collection

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from kscheduler.api.meta import KubeObject
from kscheduler.framework.events import NODE_ADD, ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, unresolvable
from kscheduler.state.queue.backoff import BackoffPolicy
from kscheduler.state.queue.gated_pods import ObjectGateCalls
from kscheduler.state.queue.hints import HintTable
from kscheduler.state.queue.scheduling_queue import GATED, QueuePolicy, SchedulingQueue
from tests.builders import make_node, make_pod
from tests.effort import example_count
from tests.state.queue.model import sort_key

NAMES = st.sampled_from([f"p{number}" for number in range(6)])
OBJECTS = ("a", "b", "c")
NEEDS = st.lists(st.sampled_from(OBJECTS), max_size=3, unique=True).map(" ".join)
CLAIM_CHANGES = ClusterEvent(Resource.RESOURCE_CLAIM, ActionType.UPDATE)
SLICE_COMES = ClusterEvent(Resource.RESOURCE_SLICE, ActionType.ADD)


def needs(pod: PodInfo) -> list[str]:
    return pod.labels["needs"].split()


class World:
    """Objects that are there or not, and a gate that lets pods in whose objects are all there."""

    def __init__(self) -> None:
        self.there: set[str] = set()
        self.changed: dict[str, None] = {}
        self.forgets = False
        self.queried: list[str] = []
        self.hinted: list[str] = []
        self.reported: dict[str, str] = {}

    def missing(self, pod: PodInfo) -> str:
        return next((name for name in needs(pod) if name not in self.there), "")

    def pre_enqueue(self, pod: PodInfo, first: str) -> Status:
        del first
        self.queried.append(pod.name)
        missing = self.missing(pod)
        return unresolvable(f"wait for {missing}", plugin="Gate") if missing else SUCCESS

    def awaited(self, pod: PodInfo) -> Collection[str] | None:
        missing = self.missing(pod)
        return [missing] if missing else None

    def changes(self) -> Collection[str] | None:
        changed = None if self.forgets else list(self.changed)
        self.changed.clear()
        return changed

    def change(self, name: str, *, is_there: bool) -> None:
        (self.there.add if is_there else self.there.discard)(name)
        self.changed[name] = None

    def hint(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        """As long as an object of the pod's is missing, it says the same for all pods."""
        del old
        self.hinted.append(pod.name)
        assert new is not None
        if self.missing(pod):
            return QueueingHint.SKIP
        return QueueingHint.QUEUE if new.metadata.name in (*needs(pod), "any") else QueueingHint.SKIP

    def policy(self, arrivals: Counter[tuple[str, str]]) -> QueuePolicy:
        registrations = {
            "Room": (ClusterEventWithHint(NODE_ADD),),
            "Gate": (ClusterEventWithHint(CLAIM_CHANGES, self.hint), ClusterEventWithHint(SLICE_COMES)),
        }

        def arrive(queue: str, event: str, pods: int, _unasked: int) -> None:
            arrivals[queue, event] += pods

        hints = HintTable({"kscheduler": registrations})
        return QueuePolicy(sort_key, self.pre_enqueue, hints, BackoffPolicy(), arrive)

    def with_gate(self, policy: QueuePolicy) -> QueuePolicy:
        gates = {("kscheduler", "Gate"): ObjectGateCalls(self.awaited, self.changes)}
        return replace(policy, object_gates=gates, on_kept_out=self._report)

    def _report(self, queued: object, message: str, reason: str) -> None:
        del reason
        self.reported[getattr(queued, "key", "")] = message


class Machine(RuleBasedStateMachine):
    """Two queues live through the same; one of them asks the gate about everybody."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.arrivals: tuple[Counter[tuple[str, str]], ...] = (Counter(), Counter())
        plain, known = (self.world.policy(arrivals) for arrivals in self.arrivals)
        self.queues = SchedulingQueue(plain), SchedulingQueue(self.world.with_gate(known))
        self.store: dict[str, PodInfo] = {}
        self.now = 1000.0

    def _hear(self, event: ClusterEvent, old: KubeObject | None, new: KubeObject | None) -> None:
        for queue in self.queues:
            queue.move_all(event, old, new, self.now)

    @rule(name=NAMES, needed=NEEDS, priority=st.integers(0, 1))
    def pod_comes(self, name: str, needed: str, priority: int) -> None:
        self.now += 0.01
        for queue in self.queues:
            queue.add(PodInfo(make_pod(name, priority=priority, labels={"needs": needed})), self.now)
        self.store[name] = PodInfo(make_pod(name, priority=priority, labels={"needs": needed}))

    @rule(name=NAMES, needed=NEEDS)
    def pod_changes(self, name: str, needed: str) -> None:
        if name in self.store:
            old = self.store[name].pod
            new = make_pod(name, priority=old.spec.priority or 0, labels={"needs": needed})
            new.metadata.resource_version = f"{self.now}"
            self.store[name] = PodInfo(new)
            for queue in self.queues:
                queue.update(old, PodInfo(new), self.now)

    @rule(name=NAMES)
    def pod_goes(self, name: str) -> None:
        self.store.pop(name, None)
        for queue in self.queues:
            queue.delete(f"default/{name}")

    @rule(name=st.sampled_from(OBJECTS), is_there=st.booleans(), event=st.sampled_from(["own", "any", "none"]))
    def object_changes(self, name: str, is_there: bool, event: str) -> None:
        """Without an event, too: an assumed version that is given up shows in none."""
        self.world.change(name, is_there=is_there)
        if event != "none":
            self._hear(CLAIM_CHANGES, None, make_node(name if event == "own" else "any"))

    @rule(forgets=st.booleans())
    def gate_forgets(self, forgets: bool) -> None:
        self.world.forgets = forgets

    @rule(event=st.sampled_from([NODE_ADD, SLICE_COMES]))
    def something_comes(self, event: ClusterEvent) -> None:
        self._hear(event, None, make_node("n"))

    @rule()
    def attempt_fails(self) -> None:
        for queue in self.queues:
            queued = queue.pop_nowait(self.now)
            if queued is not None:
                queued.unschedulable_plugins = frozenset(("Room",))
                queue.requeue(queued, self.now)

    @rule(seconds=st.sampled_from([0.5, 3.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        for queue in self.queues:
            queue.flush_backoff(self.now)
            queue.flush_unschedulable(self.now)

    @invariant()
    def nobody_can_report(self) -> None:
        assert self.arrivals[0] == self.arrivals[1]
        plain, known = self.queues
        assert plain.statistics() == known.statistics()
        assert plain.rejections() == known.rejections()
        for name in self.store:
            mine, other = plain.find(f"default/{name}"), known.find(f"default/{name}")
            assert mine is not None
            assert other is not None
            assert mine[0] == other[0]
            assert mine[1].unschedulable_plugins == other[1].unschedulable_plugins
            assert mine[1].backoff_expiration == other[1].backoff_expiration

    @rule()
    def reasons_are_fresh(self) -> None:
        """After an event that the gate hears, a pod that stays out says what it waits for now."""
        self.world.changed.update(dict.fromkeys(OBJECTS))
        self._hear(SLICE_COMES, None, make_node("n"))
        for name in self.store:
            found = self.queues[1].find(f"default/{name}")
            assert found is not None
            place, queued = found
            if place == GATED:
                assert queued.gate_reasons == (f"wait for {self.world.missing(queued.pod)}",)
                assert self.world.reported[queued.key] == queued.gate_reasons[0]


TestObjectGate = Machine.TestCase
TestObjectGate.settings = settings(max_examples=example_count(150), stateful_step_count=40)


def waiting(world: World, arrivals: Counter[tuple[str, str]], pods: int) -> SchedulingQueue:
    """Pods that wait for an object each, `own-0` to `own-N`, with labels of their own."""
    queue = SchedulingQueue(world.with_gate(world.policy(arrivals)))
    for number in range(pods):
        queue.add(PodInfo(make_pod(f"p{number}", labels={"needs": f"own-{number}"})), 1000.0)
    assert queue.statistics().gated == pods
    world.queried.clear()
    arrivals.clear()
    return queue


@pytest.mark.parametrize("pods", [1, 100])
def test_an_event_costs_one_hint_however_many_wait(pods: int) -> None:
    world, arrivals = World(), Counter[tuple[str, str]]()
    queue = waiting(world, arrivals, pods)
    queue.move_all(CLAIM_CHANGES, None, make_node("another"), 1001.0)
    assert (len(world.hinted), world.queried) == (1, [])
    queue.move_all(SLICE_COMES, None, make_node("slice"), 1001.0)
    assert (len(world.hinted), world.queried) == (1, [])
    assert arrivals == {("unschedulable", SLICE_COMES.label): pods}


def test_who_gets_what_it_waits_for_comes_in_alone() -> None:
    world, arrivals = World(), Counter[tuple[str, str]]()
    queue = waiting(world, arrivals, 100)
    world.change("own-7", is_there=True)
    queue.move_all(CLAIM_CHANGES, None, make_node("own-7"), 1001.0)
    assert queue.statistics().gated == 99
    assert world.queried == ["p7"]
    popped = queue.pop_nowait(1001.0)
    assert popped is not None
    assert popped.pod.name == "p7"


def test_a_pod_that_has_gone_is_forgotten() -> None:
    world, arrivals = World(), Counter[tuple[str, str]]()
    queue = waiting(world, arrivals, 2)
    queue.delete("default/p0")
    world.change("own-0", is_there=True)
    world.change("own-1", is_there=True)
    queue.move_all(CLAIM_CHANGES, None, make_node("any"), 1001.0)
    assert world.queried == ["p1"]
    assert queue.statistics().gated == 0
