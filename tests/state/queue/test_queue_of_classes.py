"""The queue with classes: many pods cost as much as one, and no pod that fits is left waiting."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kscheduler.api.core import Node, Pod
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
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import SUCCESS, Status, unresolvable
from kscheduler.state.queue.backoff import BackoffPolicy
from kscheduler.state.queue.hints import HintTable
from kscheduler.state.queue.scheduling_queue import QueuePolicy, SchedulingQueue
from tests.builders import make_node, make_pod, pod_info
from tests.state.queue.model import sort_key

COLOURS = ("red", "blue")
NAMES = st.sampled_from([f"p{number}" for number in range(8)])
LABELS = ClusterEvent(Resource.POD, ActionType.UPDATE_POD_LABEL)


def colour_of(pod: PodInfo) -> str:
    return pod.labels["colour"]


def class_of(pod: PodInfo) -> tuple[str, int] | None:
    """Colour and priority; a nominated pod is like no other."""
    return None if pod.pod.status.nominated_node_name else (colour_of(pod), pod.priority)


@dataclass
class Cluster:
    """Places by colour. A pod needs one of its own colour."""

    free: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COLOURS, 0))
    closed: set[str] = field(default_factory=set)
    """Colours that PreEnqueue keeps out."""
    queried: list[str] = field(default_factory=list)
    """Pods whose hints were asked."""

    def fits(self, pod: PodInfo) -> bool:
        return self.free[colour_of(pod)] > 0

    def hint(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        self.queried.append(pod.name)
        changed = new or old
        assert changed is not None
        is_its = isinstance(changed, Pod) and changed.metadata.uid == pod.uid
        helps = is_its or changed.metadata.labels["colour"] == colour_of(pod)
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP

    def pre_enqueue(self, pod: PodInfo, first: str) -> Status:
        assert first in {"", "Gate"}
        return unresolvable("closed", plugin="Gate") if colour_of(pod) in self.closed else SUCCESS

    def policy(self, arrivals: list[tuple[str, str, int]]) -> QueuePolicy:
        """The queue's attempt context."""
        heard = (NODE_ADD, ASSIGNED_POD_DELETE, LABELS)
        registrations = {
            "Room": tuple(ClusterEventWithHint(event, self.hint) for event in heard),
            "Gate": (ClusterEventWithHint(NODE_ADD), ClusterEventWithHint(LABELS)),
        }
        hints = HintTable({"kscheduler": registrations})

        def arrive(queue: str, event: str, pods: int, _unasked: int) -> None:
            arrivals.append((queue, event, pods))

        return QueuePolicy(sort_key, self.pre_enqueue, hints, BackoffPolicy(), arrive, class_of)


def coloured(name: str, colour: str = "red", **fields: object) -> Pod:
    return make_pod(name, labels={"colour": colour}, **fields)


class Scene:
    """A queue with a worker that judges by `Cluster`."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.arrivals: list[tuple[str, str, int]] = []
        self.queue = SchedulingQueue(self.cluster.policy(self.arrivals))
        self.now = 1000.25
        self.judged: list[str] = []

    def add(self, *pods: Pod) -> None:
        for pod in pods:
            self.now += 0.001
            self.queue.add(PodInfo(pod), self.now)

    def room(self, colour: str, places: int = 1) -> None:
        """Room appears, and the queue hears of it."""
        self.cluster.free[colour] += places
        self.queue.move_all(NODE_ADD, None, node(colour), self.now)

    def judge(self, queued: QueuedPodInfo) -> bool:
        """One attempt; whether the pod found a place."""
        self.judged.append(queued.pod.name)
        if self.cluster.fits(queued.pod):
            self.cluster.free[colour_of(queued.pod)] -= 1
            self.queue.done(queued.pod.uid)
            return True
        queued.unschedulable_plugins, queued.pending_plugins = frozenset({"Room"}), frozenset()
        self.queue.requeue(queued, self.now, holds_for=class_of(queued.pod))
        return False

    def drain(self) -> list[str]:
        """Try all pods that are ready; returns their names."""
        self.judged.clear()
        while (queued := self.queue.pop_nowait(self.now)) is not None:
            self.judge(queued)
        return list(self.judged)


def node(colour: str) -> Node:
    return make_node("n", labels={"colour": colour})


@pytest.fixture
def scene() -> Scene:
    """Ten red pods and two blue ones, all parked."""
    scene = Scene()
    scene.add(
        *(coloured(f"red-{number}") for number in range(10)), coloured("blue-0", "blue"), coloured("blue-1", "blue")
    )
    scene.drain()
    assert scene.queue.statistics().unschedulable == 12
    scene.arrivals.clear()
    return scene


def test_an_event_asks_one_pod_of_each_class(scene: Scene) -> None:
    scene.queue.move_all(NODE_ADD, None, node("green"), scene.now)
    assert sorted(scene.cluster.queried) == ["blue-0", "red-0"]


def test_a_class_moves_as_one_and_is_rejected_with_one_of_its_pods(scene: Scene) -> None:
    scene.queue.move_all(NODE_ADD, None, node("red"), scene.now)
    assert scene.arrivals == [("backoff", "NodeAdd", 10)]
    assert scene.queue.statistics().backoff == 10
    assert scene.drain() == ["red-0"], "the others are parked with it"
    assert scene.queue.statistics().unschedulable == 12
    assert scene.queue.rejections() == {("Room", "kscheduler"): 12}


def test_as_many_are_tried_as_fit_and_one_more(scene: Scene) -> None:
    scene.room("red", 3)
    assert scene.drain() == ["red-0", "red-1", "red-2", "red-3"]
    assert scene.queue.statistics().unschedulable == 9


def test_members_take_turns(scene: Scene) -> None:
    tried = []
    for _ in range(12):
        scene.now += 20
        scene.queue.move_all(NODE_ADD, None, node("red"), scene.now)
        tried += scene.drain()
    assert tried == [f"red-{number % 10}" for number in range(12)]


def test_who_was_not_tried_has_no_attempt_more(scene: Scene) -> None:
    scene.queue.move_all(NODE_ADD, None, node("red"), scene.now)
    scene.drain()
    attempts = {}
    for name in ("red-0", "red-1", "blue-0"):
        found = scene.queue.find(f"default/{name}")
        assert found is not None
        attempts[name] = found[1].attempts
    assert attempts == {"red-0": 2, "red-1": 1, "blue-0": 1}


def test_a_newcomer_that_is_rejected_parks_those_of_its_class_that_were_awake(scene: Scene) -> None:
    scene.now += 20
    scene.queue.move_all(NODE_ADD, None, node("red"), scene.now)
    assert scene.queue.statistics().active == 10
    scene.add(coloured("new"))
    newcomer = next(queued for queued in iter(lambda: scene.queue.pop_nowait(scene.now), None))
    assert newcomer.pod.name == "red-0", "those that wait longer go first"
    scene.judge(newcomer)
    assert scene.drain() == ["new"]
    assert scene.queue.statistics().unschedulable == 13


def test_a_change_of_its_own_takes_a_pod_out_of_its_class(scene: Scene) -> None:
    old = coloured("red-3")
    new = coloured("red-3", "green")
    scene.cluster.free["green"] = 1
    scene.queue.update(old, PodInfo(new), scene.now)
    assert scene.drain() == ["red-3"]
    assert scene.queue.find("default/red-3") is None
    assert scene.queue.statistics().unschedulable == 11


def test_the_word_of_its_own_condition_leaves_a_pod_where_it_is(scene: Scene) -> None:
    old = coloured("red-3")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    new = coloured("red-3", status={"conditions": [condition]})
    scene.cluster.queried.clear()
    scene.queue.update(old, PodInfo(new), scene.now)
    found = scene.queue.find("default/red-3")
    assert found is not None
    assert found[1].pod.pod is new
    scene.queue.move_all(NODE_ADD, None, node("green"), scene.now)
    assert len(scene.cluster.queried) == 2, "one of its class is asked, as before"


def test_a_pod_that_gets_a_nomination_goes_its_own_way(scene: Scene) -> None:
    new = coloured("red-3", status={"nominatedNodeName": "n"})
    scene.queue.update(coloured("red-3"), PodInfo(new), scene.now)
    scene.cluster.queried.clear()
    scene.queue.move_all(NODE_ADD, None, node("green"), scene.now)
    assert sorted(scene.cluster.queried) == ["blue-0", "red-0", "red-3"]


def test_activation_takes_one_pod_and_leaves_the_others(scene: Scene) -> None:
    scene.queue.activate(["default/red-5"], scene.now)
    assert scene.queue.statistics().active == 1
    assert scene.drain() == ["red-5"]
    assert scene.queue.statistics().unschedulable == 12


def test_a_closed_gate_takes_a_class_apart(scene: Scene) -> None:
    scene.cluster.closed.add("red")
    scene.room("red", 10)
    assert scene.queue.statistics().gated == 10
    scene.cluster.closed.clear()
    scene.queue.move_all(NODE_ADD, None, node("red"), scene.now + 20)
    assert len(scene.drain()) == 10
    assert scene.queue.rejections() == {("Room", "kscheduler"): 2}


def test_the_safety_net_tries_one_of_each_class(scene: Scene) -> None:
    scene.now += 301
    scene.queue.flush_unschedulable(scene.now)
    assert sorted(scene.drain()) == ["blue-0", "red-0"]
    scene.cluster.free["red"] = 1
    scene.now += 302
    scene.queue.flush_unschedulable(scene.now)
    queued = scene.queue.pop_nowait(scene.now)
    assert queued is not None
    assert queued.was_flushed


def test_a_class_backs_off_as_the_pod_that_was_judged_last(scene: Scene) -> None:
    scene.queue.move_all(NODE_ADD, None, node("red"), scene.now)
    assert scene.queue.statistics().backoff == 10
    scene.queue.flush_backoff(1001.9)
    assert scene.queue.statistics().backoff == 10
    scene.queue.flush_backoff(1002.0)
    assert scene.queue.statistics().active == 10


def test_a_verdict_that_an_event_has_overtaken_is_not_the_class_s(scene: Scene) -> None:
    scene.add(coloured("new"))
    queued = scene.queue.pop_nowait(scene.now)
    assert queued is not None
    scene.queue.move_all(ASSIGNED_POD_DELETE, coloured("gone", node="n"), None, scene.now)
    queued.unschedulable_plugins = frozenset({"Room"})
    assert scene.queue.requeue(queued, scene.now, holds_for=class_of(queued.pod)) is None
    assert scene.queue.statistics().backoff == 11, "it comes back, and so do the others"


def test_the_members_of_a_bundle_can_be_watched(scene: Scene) -> None:
    """The reporter of a verdict goes through the members, and checks for each whether it is still a member."""
    scene.add(coloured("new"))
    queued = scene.queue.pop_nowait(scene.now)
    assert queued is not None
    queued.unschedulable_plugins = frozenset({"Room"})
    equivalence_group = scene.queue.requeue(queued, scene.now, holds_for=class_of(queued.pod))
    assert equivalence_group is not None
    members = equivalence_group.keys()
    assert len(members) == 11
    scene.queue.delete("default/red-7")
    assert "default/red-7" not in members
    assert "default/new" in members


class ClassesMachine(RuleBasedStateMachine):
    """After any events: once nothing is ready and backoff is over, no pod that fits is left waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene()
        self.store: dict[str, Pod] = {}
        self.flying: list[QueuedPodInfo] = []
        self.rejected: list[QueuedPodInfo] = []
        """Judged, and not back in the queue yet."""
        self.serial = 0

    @rule(name=NAMES, colour=st.sampled_from(COLOURS), priority=st.integers(0, 1))
    def pod_comes(self, name: str, colour: str, priority: int) -> None:
        self.pod_goes(name)
        self.serial += 1
        self.store[name] = coloured(name, colour, uid=f"{name}-{self.serial}", priority=priority)
        self.scene.add(self.store[name])

    @rule(name=NAMES)
    def pod_goes(self, name: str) -> None:
        self.store.pop(name, None)
        self.scene.queue.delete(f"default/{name}")

    @rule(name=NAMES, colour=st.sampled_from(COLOURS))
    def labels_change(self, name: str, colour: str) -> None:
        if name in self.store:
            meta = msgspec.structs.replace(self.store[name].metadata, labels={"colour": colour})
            self.changes(name, msgspec.structs.replace(self.store[name], metadata=meta))

    @rule(name=NAMES, nominated=st.sampled_from(["", "n"]))
    def nomination_changes(self, name: str, nominated: str) -> None:
        if name in self.store:
            status = msgspec.structs.replace(self.store[name].status, nominated_node_name=nominated)
            self.changes(name, msgspec.structs.replace(self.store[name], status=status))

    def changes(self, name: str, new: Pod) -> None:
        old, self.store[name] = self.store[name], new
        self.scene.queue.update(old, PodInfo(new), self.scene.now)

    @rule(colour=st.sampled_from(COLOURS), places=st.integers(0, 2))
    def room_appears(self, colour: str, places: int) -> None:
        self.scene.room(colour, places)

    @rule(colour=st.sampled_from(COLOURS))
    def room_goes(self, colour: str) -> None:
        self.scene.cluster.free[colour] = 0

    @rule(name=NAMES)
    def activate(self, name: str) -> None:
        self.scene.queue.activate([f"default/{name}"], self.scene.now)

    @rule(colour=st.sampled_from(COLOURS))
    def gate_opens_or_closes(self, colour: str) -> None:
        self.scene.cluster.closed ^= {colour}
        self.scene.queue.move_all(NODE_ADD, None, node(colour), self.scene.now)

    @rule()
    def an_attempt(self) -> None:
        self.finish(self.scene.queue.pop_nowait(self.scene.now))

    @rule()
    def a_long_attempt_begins(self) -> None:
        """It found a place, and its binding takes its time."""
        queued = self.scene.queue.pop_nowait(self.scene.now)
        if queued is not None and self.scene.cluster.fits(queued.pod):
            self.scene.cluster.free[colour_of(queued.pod)] -= 1
            self.flying.append(queued)
        else:
            self.finish(queued)

    @rule()
    def a_pod_is_rejected(self) -> None:
        """What happens before it is back in the queue must not pass it by, nor those who were judged with it."""
        queued = self.scene.queue.pop_nowait(self.scene.now)
        if queued is not None and not self.scene.cluster.fits(queued.pod):
            self.rejected.append(queued)
        else:
            self.finish(queued)

    @precondition(lambda self: self.rejected)
    @rule()
    def it_comes_back(self) -> None:
        queued = self.rejected.pop(0)
        judged = class_of(queued.pod)
        if self.is_current(queued):
            queued.pod = PodInfo(self.store[queued.pod.name])
            queued.unschedulable_plugins, queued.pending_plugins = frozenset({"Room"}), frozenset()
            self.scene.queue.requeue(queued, self.scene.now, holds_for=judged)
        else:
            self.scene.queue.done(queued.pod.uid)

    @precondition(lambda self: self.flying)
    @rule(rejected=st.booleans())
    def a_long_attempt_fails(self, rejected: bool) -> None:
        queued = self.flying.pop()
        self.scene.cluster.free[colour_of(queued.pod)] += 1
        place = queued.pod.pod
        if self.is_current(queued):
            queued.pod = PodInfo(self.store[queued.pod.name])
            queued.unschedulable_plugins = frozenset({"Deaf"} if rejected else ())
            queued.pending_plugins = frozenset()
            self.scene.queue.requeue(queued, self.scene.now)
        else:
            self.scene.queue.done(queued.pod.uid)
        self.scene.queue.move_all(ASSIGNED_POD_DELETE, place, None, self.scene.now)

    @rule(seconds=st.sampled_from([0.5, 2.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        self.scene.now += seconds
        self.scene.queue.flush_backoff(self.scene.now)

    @rule(count=st.integers(2, 5), colour=st.sampled_from(COLOURS))
    def several_of_a_kind_come(self, count: int, colour: str) -> None:
        for number in range(count):
            self.pod_comes(f"p{number}", colour, 0)

    @rule()
    def it_gets_quiet(self) -> None:
        """The property: no pod that fits is left waiting, and no pod is lost."""
        while self.rejected:
            self.it_comes_back()
        self.scene.now += 12
        self.scene.queue.flush_backoff(self.scene.now)
        for _ in range(200):
            self.finish(queued := self.scene.queue.pop_nowait(self.scene.now))
            if queued is None:
                break
        else:
            raise AssertionError("it never gets quiet")
        for queued in self.scene.queue.parked():
            is_closed = colour_of(queued.pod) in self.scene.cluster.closed
            is_deaf = queued.unschedulable_plugins == {"Deaf"}
            assert is_closed or is_deaf or not self.scene.cluster.fits(queued.pod)

    def is_current(self, queued: QueuedPodInfo) -> bool:
        known = self.store.get(queued.pod.name)
        return known is not None and known.metadata.uid == queued.pod.uid

    def finish(self, queued: QueuedPodInfo | None) -> None:
        if queued is None:
            return
        assert queued.pod.pod is self.store[queued.pod.name]
        if self.scene.judge(queued):
            del self.store[queued.pod.name]

    def keys(self) -> Iterator[str]:
        flying = {queued.pod.uid for queued in (*self.flying, *self.rejected)}
        return (pod.key for pod in self.store.values() if pod.metadata.uid not in flying)

    @invariant()
    def everybody_is_in_one_place(self) -> None:
        found = {key: self.scene.queue.find(key) for key in self.keys()}
        sizes = self.scene.queue.statistics()
        places = [where[0] for where in found.values() if where is not None]
        assert len(places) == len(found), "no pod is lost"
        waiting = (sizes.active, sizes.backoff, sizes.unschedulable, sizes.gated)
        assert waiting == tuple(map(places.count, ("active", "backoff", "unschedulable", "gated")))
        parked = {queued.key for queued in self.scene.queue.parked()}
        assert parked == {key for key, where in found.items() if where and where[0] in {"unschedulable", "gated"}}

    @invariant()
    def the_gauge_is_a_recount(self) -> None:
        count: dict[tuple[str, str], int] = {}
        for key in self.keys():
            where = self.scene.queue.find(key)
            for plugin in where[1].unschedulable_plugins if where is not None else ():
                count[plugin, "kscheduler"] = count.get((plugin, "kscheduler"), 0) + 1
        assert self.scene.queue.rejections() == count


TestClasses = ClassesMachine.TestCase
TestClasses.settings = settings(stateful_step_count=60)


def test_a_pod_of_the_same_version_is_no_news() -> None:
    """A relist brings every pod again: the object is taken over, and no pod is woken."""
    scene = Scene()
    scene.add(coloured("p", metadata={"resourceVersion": "5", "labels": {"colour": "red"}}))
    scene.drain()
    again = coloured("p", metadata={"resourceVersion": "5", "labels": {"colour": "red"}})
    scene.cluster.queried.clear()
    scene.queue.update(again, PodInfo(again), scene.now)
    found = scene.queue.find("default/p")
    assert found is not None
    assert (found[0], found[1].pod.pod is again, scene.cluster.queried) == ("unschedulable", True, [])
    scene.queue.update(again, pod_info("stranger", metadata={"resourceVersion": "5"}), scene.now)
    assert scene.queue.find("default/stranger") is None
