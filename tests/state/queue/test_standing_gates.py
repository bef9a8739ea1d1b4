"""A gate that knows which pods it would reject again is not called for them, and the outcome is the same."""

from collections import Counter
from collections.abc import Collection, Hashable

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from kscheduler.api.meta import KubeObject
from kscheduler.framework.events import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    QueueingHint,
    Resource,
)
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, unresolvable
from kscheduler.state.queue.backoff import BackoffPolicy
from kscheduler.state.queue.hints import HintTable
from kscheduler.state.queue.scheduling_queue import GATED, QueuePolicy, SchedulingQueue
from tests.builders import make_node, make_pod
from tests.effort import example_count
from tests.state.queue.model import sort_key

NAMES = st.sampled_from([f"p{number}" for number in range(6)])
COLOURS = ("red", "blue", "plain")
DELETE = ClusterEvent(Resource.POD, ActionType.DELETE)


class AttemptContext:
    """A gate that is shut for some, open for others, and ajar for those about whom it has to think."""

    def __init__(self) -> None:
        self.shut: set[str] = set()
        """Keys."""
        self.ajar: set[str] = set()
        """Those that it lets in if the last event was for the good of their colour."""
        self.good_for = ""
        self.queried: list[str] = []
        self.hinted: list[str] = []
        self.fails = False

    def pre_enqueue(self, pod: PodInfo, first: str) -> Status:
        del first
        self.queried.append(pod.name)
        is_out = pod.key in self.shut or (pod.key in self.ajar and pod.labels["colour"] != self.good_for)
        return unresolvable("wait", plugin="Gate") if is_out else SUCCESS

    def may_let_in(self) -> Collection[str] | None:
        return None if self.fails else sorted(self.ajar)

    def hint(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        self.hinted.append(pod.name)
        changed = old or new
        assert changed is not None
        is_its = changed.metadata.labels["colour"] in (pod.labels["colour"], "any")
        return QueueingHint.QUEUE if is_its else QueueingHint.SKIP

    def policy(self, arrivals: Counter[tuple[str, str]]) -> QueuePolicy:
        registrations = {
            "Room": (ClusterEventWithHint(NODE_ADD, self.hint), ClusterEventWithHint(DELETE, self.hint)),
            "Gate": tuple(ClusterEventWithHint(event, lambda *_: QueueingHint.SKIP) for event in (DELETE, NODE_ADD)),
        }

        def arrive(queue: str, event: str, pods: int, _unasked: int) -> None:
            arrivals[queue, event] += pods

        hints = HintTable({"kscheduler": registrations})
        return QueuePolicy(sort_key, self.pre_enqueue, hints, BackoffPolicy(), arrive)


def alike(pod: PodInfo, plugins: frozenset[str]) -> Hashable | None:
    """Plain pods are like no other."""
    colour = pod.labels["colour"]
    return None if colour == "plain" else (colour, pod.priority, plugins)


class Machine(RuleBasedStateMachine):
    """Two queues live through the same; one of them asks the gate about everybody."""

    def __init__(self) -> None:
        super().__init__()
        self.around = AttemptContext()
        self.arrivals: tuple[Counter[tuple[str, str]], ...] = (Counter(), Counter())
        standing = {("kscheduler", "Gate"): self.around.may_let_in}
        plain, known = (self.around.policy(arrivals) for arrivals in self.arrivals)
        known = replace(known, standing_gates=standing, hints_alike=alike)
        self.queues = SchedulingQueue(plain), SchedulingQueue(known)
        self.store: dict[str, PodInfo] = {}
        self.now = 1000.0

    @rule(name=NAMES, colour=st.sampled_from(COLOURS), priority=st.integers(0, 1))
    def pod_comes(self, name: str, colour: str, priority: int) -> None:
        self.now += 0.01
        for queue in self.queues:
            queue.add(PodInfo(make_pod(name, priority=priority, labels={"colour": colour})), self.now)
        self.store[name] = PodInfo(make_pod(name, priority=priority, labels={"colour": colour}))

    @rule(name=NAMES, colour=st.sampled_from(COLOURS))
    def pod_changes(self, name: str, colour: str) -> None:
        if name in self.store:
            old = self.store[name].pod
            new = make_pod(name, priority=old.spec.priority or 0, labels={"colour": colour})
            new.metadata.resource_version = f"{self.now}"
            self.store[name] = PodInfo(new)
            for queue in self.queues:
                queue.update(old, PodInfo(new), self.now)

    @rule(name=NAMES)
    def pod_goes(self, name: str) -> None:
        self.store.pop(name, None)
        for queue in self.queues:
            queue.delete(f"default/{name}")

    @rule(name=NAMES)
    def gate_shuts(self, name: str) -> None:
        """Only for pods that were let in: a pod is behind the gate because the gate is closed for it."""
        found = self.queues[0].find(f"default/{name}")
        if found is None or found[0] != GATED:
            self.around.ajar.discard(f"default/{name}")
            self.around.shut.add(f"default/{name}")

    @rule(name=NAMES)
    def gate_opens_a_little(self, name: str) -> None:
        self.around.shut.discard(f"default/{name}")
        self.around.ajar.add(f"default/{name}")

    @rule(fails=st.booleans())
    def gate_forgets(self, fails: bool) -> None:
        self.around.fails = fails

    @rule(good_for=st.sampled_from(COLOURS), colour=st.sampled_from([*COLOURS, "any"]), spared=st.none() | NAMES)
    def pod_leaves_its_node(self, good_for: str, colour: str, spared: str | None) -> None:
        self.around.good_for = good_for
        gone = make_pod("gone", node="n", labels={"colour": colour})
        uid = f"uid-of-{spared}" if spared else ""
        for queue in self.queues:
            queue.move_all(ASSIGNED_POD_DELETE, gone, None, self.now, uid, lambda pod: pod.priority <= 1)
            queue.move_all(ASSIGNED_POD_DELETE, gone, None, self.now, pre_check=lambda pod: pod.priority < 1)

    @rule(colour=st.sampled_from([*COLOURS, "any"]))
    def node_comes(self, colour: str) -> None:
        node = make_node("n", labels={"colour": colour})
        for queue in self.queues:
            queue.move_all(NODE_ADD, None, node, self.now)

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


TestStandingGate = Machine.TestCase
TestStandingGate.settings = settings(max_examples=example_count(150), stateful_step_count=40)


def shut_out(around: AttemptContext, arrivals: Counter[tuple[str, str]], *priorities: int) -> SchedulingQueue:
    """Red pods with these priorities that Room has rejected once, behind a gate that is shut."""
    standing = {("kscheduler", "Gate"): around.may_let_in}
    queue = SchedulingQueue(replace(around.policy(arrivals), standing_gates=standing, hints_alike=alike))
    for number, priority in enumerate(priorities):
        queue.add(PodInfo(make_pod(f"p{number}", labels={"colour": "red"}, priority=priority)), 1000.0)
    while (queued := queue.pop_nowait(1000.0)) is not None:
        queued.unschedulable_plugins = frozenset(("Room",))
        queue.requeue(queued, 1000.0)
        around.shut.add(queued.key)
        queue.move_all(ASSIGNED_POD_DELETE, make_pod("gone", labels={"colour": "red"}), None, 1000.0)
    assert queue.statistics().gated == len(priorities)
    around.queried.clear()
    around.hinted.clear()
    arrivals.clear()
    return queue


@pytest.mark.parametrize("pods", [1, 100])
def test_those_who_stay_shut_out_cost_one_hint(pods: int) -> None:
    around, arrivals = AttemptContext(), Counter[tuple[str, str]]()
    queue = shut_out(around, arrivals, *[0] * pods)
    assert queue.gated_by_plugin() == {"Gate": pods}
    queue.move_all(ASSIGNED_POD_DELETE, make_pod("gone", labels={"colour": "red"}), None, 1001.0)
    assert around.queried == []
    assert len(around.hinted) == 1
    assert arrivals == {("unschedulable", "AssignedPodDelete"): pods}


@pytest.mark.parametrize("spared", ["", "uid-of-p1"])
def test_hints_about_nodes_are_called_for_each_node_that_pods_are_nominated_to(spared: str) -> None:
    around, arrivals = AttemptContext(), Counter[tuple[str, str]]()
    queue = shut_out(around, arrivals, 0, 0, 0, 0)
    for name, node_name in (("p0", "a"), ("p1", "a"), ("p2", "b")):
        old = make_pod(name, labels={"colour": "red"})
        new = make_pod(name, labels={"colour": "red"}, status={"nominatedNodeName": node_name})
        new.metadata.resource_version = "2"
        queue.update(old, PodInfo(new), 1001.0)
    around.hinted.clear()
    arrivals.clear()
    queue.move_all(NODE_ADD, None, make_node("a", labels={"colour": "any"}), 1001.0, spared)
    assert len(around.hinted) == 3
    assert arrivals == {("unschedulable", "NodeAdd"): 4 - (spared != "")}
    around.hinted.clear()
    queue.move_all(ASSIGNED_POD_DELETE, make_pod("gone", labels={"colour": "any"}), None, 1001.0, spared)
    assert len(around.hinted) == 1


@pytest.mark.parametrize("excluded", [0, 1], ids=["the lower priority", "the higher priority"])
def test_a_group_that_the_event_does_not_concern_hides_no_other_group(excluded: int) -> None:
    around, arrivals = AttemptContext(), Counter[tuple[str, str]]()
    queue = shut_out(around, arrivals, 0, 0, 1, 1)
    gone = make_pod("gone", labels={"colour": "red"})
    queue.move_all(ASSIGNED_POD_DELETE, gone, None, 1001.0, pre_check=lambda pod: pod.priority != excluded)
    assert arrivals == {("unschedulable", "AssignedPodDelete"): 2}


def test_a_pod_that_changes_behind_the_gate_hears_events_as_what_it_is_now() -> None:
    around, arrivals = AttemptContext(), Counter[tuple[str, str]]()
    queue = shut_out(around, arrivals, 0, 0, 0)
    old, new = (make_pod("p1", labels={"colour": colour}) for colour in ("red", "blue"))
    new.metadata.resource_version = "2"
    queue.update(old, PodInfo(new), 1001.0)
    arrivals.clear()
    queue.move_all(ASSIGNED_POD_DELETE, make_pod("gone", labels={"colour": "blue"}), None, 1001.0)
    assert arrivals == {("unschedulable", "AssignedPodDelete"): 1}
    queue.move_all(ASSIGNED_POD_DELETE, make_pod("gone", labels={"colour": "red"}), None, 1001.0)
    assert arrivals == {("unschedulable", "AssignedPodDelete"): 1 + 2}
    assert queue.statistics().gated == 3
