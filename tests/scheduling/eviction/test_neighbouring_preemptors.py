"""Two preemptors on one node: the first waits beside the second, and takes no second set of victims elsewhere.

The story, as the preemption storm told it. The first one's victim is gone. Before its turn comes, the second one is
promised the rest of the node, and has chosen its victims there, which are still untouched. So the first one finds them
and the second one in its way, though in the end there is room for both.
"""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.kinds import NODES, PODS
from kscheduler.client.errors import ClientError, NotSentError
from kscheduler.scheduling.attempt_events import PodAwaitsOthersVictims
from kscheduler.scheduling.eviction.pod_change_waits import LONGEST_LAG_SECONDS
from kscheduler.scheduling.observers import hears
from tests.effort import example_count
from tests.scheduling.eviction.stage import FORBIDDEN, Stage, turns
from tests.scheduling.never_stuck import words
from tests.scheduling.never_stuck.service import Service

CPUS = 4


class SmallStorm:
    """Nodes full of pods of one CPU, and a scheduler whose watch, API server and kubelets a test plays."""

    def __init__(self, nodes: int) -> None:
        self.service = Service()
        self.names = [f"n{number}" for number in range(nodes)]
        for name in self.names:
            labels = {words.HOST: name}
            status = {"allocatable": {"cpu": str(CPUS), "memory": "8Gi", "pods": "110"}}
            self.service.server.put(NODES, {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status})
            for slot in range(CPUS):
                self.pod(f"{name}-{slot}", 1, node=name)
        self.service.server.deliver_all()

    def pod(self, name: str, cpus: int, *, node: str = "", wants: str = "") -> None:
        """A pod on a node, or else a preemptor; `wants` is the only node that it may go to."""
        tree = words.pod_tree(name, "default", "", [] if node else ["urgent"], node)
        tree["spec"]["containers"][0]["resources"] = {"requests": {"cpu": str(cpus)}}
        if wants:
            tree["spec"]["nodeSelector"] = {words.HOST: wants}
        self.service.server.put(PODS, tree)

    def victims(self) -> list[str]:
        """Names of those that are on their way out."""
        pods = self.service.server.objects[PODS].values()
        return [pod["metadata"]["name"] for pod in pods if words.is_victim(pod)]

    def goes(self, name: str) -> None:
        """The kubelet has stopped a pod."""
        self.service.server.delete(PODS, f"default/{name}")

    def is_registered(self, events: int = 1_000) -> None:
        """The watch tells the scheduler."""
        self.service.server.deliver(PODS, events)

    def answers(self) -> None:
        """All Bindings are made."""
        for uid in [*self.service.bindings]:
            self.service.answer(uid)

    def ends(self) -> None:
        """Everything happens that is still to happen."""
        for _ in range(30):
            self.service.turn()
            self.answers()
            for name in self.victims():
                self.goes(name)
            self.is_registered()
            self.service.advance(11.0)
            while self.service.try_next():
                self.answers()

    def left(self, node: str) -> int:
        """How many pods of the beginning are still on a node."""
        return sum(f"default/{node}-{slot}" in self.service.server.objects[PODS] for slot in range(CPUS))

    def node_of(self, name: str) -> str:
        """Where a preemptor is bound."""
        return str(self.service.server.objects[PODS][f"default/{name}"]["spec"].get("nodeName", ""))


@pytest.fixture
def storm() -> Iterator[SmallStorm]:
    made = SmallStorm(nodes=2)
    yield made
    made.service.close()


def test_a_preemptor_whose_room_is_there_takes_no_other_while_a_neighbours_victims_are_untouched(
    storm: SmallStorm,
) -> None:
    storm.pod("first", 1)
    storm.is_registered()
    assert storm.service.try_next()
    (victim,) = storm.victims()
    node = victim[:2]
    storm.goes(victim)
    storm.pod("second", 2, wants=node)
    storm.is_registered()
    assert storm.service.try_next(), "the second one: the first one is in backoff"
    # Its victims go at the API server, and the watch does not say so yet.
    assert storm.service.try_next(), "the first one"
    for victim in storm.victims():
        storm.goes(victim)
    storm.ends()
    assert (storm.node_of("first"), storm.node_of("second")) == (node, node)
    assert {name: storm.left(name) for name in storm.names} == {name: 1 if name == node else 4 for name in storm.names}


STEPS = ("try", "try", "hear one", "hear", "go", "answer", "wait")


@given(
    cpus=st.lists(st.integers(1, 3), min_size=2, max_size=7),
    steps=st.lists(st.sampled_from(STEPS), max_size=80),
)
@settings(max_examples=example_count(60), deadline=None)
def test_as_many_pods_go_as_the_preemptors_need_in_whatever_order_things_happen(
    cpus: list[int], steps: list[str]
) -> None:
    """The cluster is full, all preemptors are equal, and each could have a node for itself: a pod goes for each CPU."""
    storm = SmallStorm(nodes=len(cpus))
    coming = [(f"high{number}", wanted) for number, wanted in enumerate(cpus)]
    for name, wanted in coming[:2]:
        storm.pod(name, wanted)
    waiting = coming[2:]
    for step in steps:
        if step == "try":
            storm.service.try_next()
        elif step == "hear one":
            storm.is_registered(1)
        elif step == "hear":
            storm.is_registered()
        elif step == "go":
            for name in storm.victims()[:1]:
                storm.goes(name)
        elif step == "answer":
            storm.answers()
        else:
            storm.service.advance(0.5)
            for name, wanted in waiting[:1]:
                storm.pod(name, wanted)
            del waiting[:1]
    for name, wanted in waiting:
        storm.pod(name, wanted)
    storm.ends()
    try:
        assert all(storm.node_of(name) for name, _ in coming)
        assert sum(CPUS - storm.left(node) for node in storm.names) == sum(cpus)
    finally:
        storm.service.close()


# --- the wait, and its end --------------------------------------------------------------------------------------------


def is_clearing(stage: Stage, name: str = "first", priority: int = 100, node: str = "n") -> bool:
    """What a neighbour would be told that is expected on the node."""
    return stage.evictions.is_clearing(node, stage.pod(name, node="", priority=priority))


async def test_a_neighbour_waits_from_the_decision_until_the_watch_shows_all_victims_going() -> None:
    stage = Stage()
    stage.writes.take_their_time = True
    stage.evictions.begin(stage.preemption("a", "b"))
    assert is_clearing(stage), "before anything is written"
    await turns()
    assert stage.executions() == {"success": 1}
    stage.terminating("a")
    assert is_clearing(stage)
    stage.terminating("b")
    assert not is_clearing(stage)
    await turns()
    assert stage.activated == [], "the deletions wake it"
    assert stage.evictions._on_node == {}


async def test_a_recorder_hears_of_a_neighbour_that_waits() -> None:
    heard: list[tuple[str, str]] = []

    class Hears:
        @hears(PodAwaitsOthersVictims)
        def note(self, event: PodAwaitsOthersVictims) -> None:
            heard.append((event.pod.key, event.node_name))

    stage = Stage(journal=Hears())
    assert not is_clearing(stage)
    assert heard == []
    stage.evictions.begin(stage.preemption("a"))
    assert is_clearing(stage)
    assert heard == [("default/first", "n")]


async def test_who_may_not_wait_for_a_neighbours_victims() -> None:
    """The preemptor itself; anyone who was outbid, as nothing was left to it; a pod that need not leave it any room,
    and one that the victims are no less important than; anyone who is expected elsewhere.
    """
    stage = Stage()
    outbid = stage.pod("outbid", node="", priority=50)
    stage.evictions.begin(stage.preemption("v", outbid=[outbid]))
    assert not is_clearing(stage, "big")
    assert not is_clearing(stage, "outbid", priority=50)
    assert not is_clearing(stage, "higher", priority=101)
    assert not is_clearing(stage, "low", priority=0)
    assert not is_clearing(stage, node="other")
    assert is_clearing(stage, "lower", priority=50), "it was nominated later, beside the preemptor"


@pytest.mark.parametrize("failure", [FORBIDDEN, NotSentError("away")], ids=["refused", "not sent"])
async def test_a_neighbour_is_woken_when_victims_stay_after_all(failure: ClientError) -> None:
    stage = Stage()
    stage.writes.failures["a"] = failure
    stage.evictions.begin(stage.preemption("a", "b"))
    assert is_clearing(stage)
    await turns()
    assert stage.activated == ["big", "first"]
    assert not is_clearing(stage)


async def test_a_neighbour_is_woken_when_the_preemptor_needs_no_victims_any_more() -> None:
    stage = Stage()
    stage.evictions.begin(stage.preemption("a", "b"))
    assert is_clearing(stage)
    del stage.store["default/big"]
    await turns()
    assert stage.writes.started == []
    assert "first" in stage.activated


async def test_a_neighbour_waits_no_longer_for_a_victim_that_the_watch_never_shows_than_the_preemptor() -> None:
    stage = Stage()
    stage.writes.take_their_time = True
    stage.evictions.begin(stage.preemption("v"))
    await turns()
    assert is_clearing(stage)
    await stage.clock.advance(LONGEST_LAG_SECONDS + 1.0)
    assert "first" in stage.activated
    assert not is_clearing(stage)


async def test_one_preemption_that_is_over_ends_no_wait_for_another_on_the_node() -> None:
    stage = Stage()
    stage.writes.failures["a"] = FORBIDDEN
    stage.evictions.begin(stage.preemption("a", preemptor="one"))
    stage.evictions.begin(stage.preemption("b", preemptor="two"))
    assert is_clearing(stage)
    stage.writes.take_their_time = True
    await turns()
    assert is_clearing(stage)
    stage.terminating("b")
    assert not is_clearing(stage)
