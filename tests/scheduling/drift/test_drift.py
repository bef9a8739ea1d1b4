"""Cache and queue against the stores: a healthy cache is never accused, a corrupted one is always found and
repaired.
"""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import structlog
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kscheduler.aio import tasks
from kscheduler.aio.clock import VirtualClock
from kscheduler.api.codec import UndecodableError, convert
from kscheduler.api.core import Node, Pod
from kscheduler.api.kinds import NODES, PODS
from kscheduler.client.errors import APIError, APIStatus, StalledError
from kscheduler.client.watch import WatchEvent
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.informers import Informer
from kscheduler.scheduling.drift.cache_comparer import (
    UNCONFIRMED_SECONDS,
    Comparer,
    Drift,
    DriftRepair,
    DriftType,
    Sides,
)
from kscheduler.scheduling.drift.drift_check import (
    CHECK_SECONDS,
    CONFIRM_SECONDS,
    LOOK_SECONDS,
    MAX_LINES,
    MAX_READS,
    SLICE_SECONDS,
    DriftCheck,
    DriftStatistics,
)
from kscheduler.scheduling.failure import Failure
from kscheduler.state.cache import Cache
from tests.builders import Tree, make_node, make_pod, node_tree, pod_info, pod_tree
from tests.effort import example_count
from tests.framework.nodes.cluster_objects import node_fields, pod_fields
from tests.framework.nodes.naive_columns import Place, check
from tests.scheduling.around import SchedulerHarness
from tests.scheduling.plugins_for_tests import TurnsDown, profile

NODE_NAMES = st.sampled_from(["a", "b", "c"])
POD_NAMES = st.sampled_from([f"pod-{number}" for number in range(4)])
MUCH = {"cpu": "much"}
WEB = pod_info("newcomer", labels={"app": "web"})
REPELS = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}


class World:
    """Informers, handlers, cache and queue, with nobody who brings events but the test."""

    def __init__(self) -> None:
        self.cache = Cache()
        clock = VirtualClock()
        self.pods: Informer[Pod] = Informer(PODS, clock=clock)
        self.nodes: Informer[Node] = Informer(NODES, clock=clock)
        self.harness = SchedulerHarness(profile(TurnsDown("F")), self.cache, clock=clock, pod_of=self.pods.store.get)
        self.clock, self.queue, self.failures = clock, self.harness.queue, self.harness.failures
        names = {"kscheduler"}
        pods, nodes = self.harness.pod_handler, self.harness.node_handler
        self.pods.add_handler(pods)
        self.nodes.add_handler(nodes)
        sides = Sides(self.pods.store, self.nodes.store, self.cache, self.queue, names)
        self.unconfirmed = 0
        self.comparer = Comparer(sides, self.clock)
        self.served: list[Pod | Exception] = []
        """What the API server answers, one after the other."""
        self.mender = DriftRepair(sides, pods, nodes, self.clock, self._note_unconfirmed, read=self._serve)
        self.check = DriftCheck(self.comparer, self.mender, self.clock)

    def _note_unconfirmed(self) -> None:
        self.unconfirmed += 1

    async def _serve(self, namespace: str, name: str) -> Pod:
        answer = self.served.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert answer.key == f"{namespace}/{name}"
        return answer

    def see(self, *objects: Pod | Node, event: str = "ADDED") -> None:
        """The watch brings these."""
        for obj in objects:
            if isinstance(obj, Pod):
                self.pods.apply(WatchEvent(event, obj))
            else:
                self.nodes.apply(WatchEvent(event, obj))

    def drifts(self) -> list[Drift]:
        return [found[1] for found in self.comparer.look_at_all() if found is not None]

    def mend(self) -> list[Drift]:
        """As `DriftCheck` does it, without its waiting."""
        suspects = [found[0] for found in self.comparer.look_at_all() if found is not None]
        mended = []
        for subject in suspects:
            drift = self.comparer.look(subject)
            if drift is not None:
                self.mender.mend(drift)
                mended.append(drift)
        return mended


def drive(work: Coroutine[Any, Any, object]) -> None:
    """Run what only yields to the loop."""
    try:
        while True:
            work.send(None)
    except StopIteration:
        return


# --- the corruptions --------------------------------------------------------------------------------------------------

# Breaks what concerns a pod (its UID) or a node (its name); whether there was anything to break.
Corruption = Callable[[World, str, str], bool]


def _lose_pod(world: World, uid: str, _: str) -> bool:
    confirmed = bool(world.cache.node_of(uid)) and not world.cache.is_assumed(uid)
    if confirmed:
        world.cache.remove_pod(uid)
    return confirmed


def _lose_pod_on_its_node(world: World, uid: str, _: str) -> bool:
    info = world.cache.node_info(world.cache.node_of(uid))
    return info is not None and info.pods.pop(uid, None) is not None


def _lose_pod_but_for_its_node(world: World, uid: str, _: str) -> bool:
    confirmed = bool(world.cache.node_of(uid)) and not world.cache.is_assumed(uid)
    if confirmed:
        del world.cache._pods[uid]
    return confirmed


def _move_pod(world: World, uid: str, node: str) -> bool:
    pod, before = world.cache.pod_of(uid), world.cache.node_of(uid)
    if pod is None or before == node or world.cache.is_assumed(uid):
        return False
    world.cache.add_pod(make_pod(pod.name, uid=uid, node=node, requests={"cpu": "1"}))
    return True


def _resize_pod(world: World, uid: str, _: str) -> bool:
    pod = world.cache.pod_of(uid)
    if pod is None or world.cache.is_assumed(uid):
        return False
    world.cache.add_pod(make_pod(pod.name, uid=uid, node=world.cache.node_of(uid), requests={"cpu": "17m"}))
    return True


def _count_a_stranger(world: World, _: str, node: str) -> bool:
    world.cache.add_pod(make_pod("stranger", node=node, requests={"cpu": "1"}, affinity=REPELS))
    return True


def _unqueue(world: World, uid: str, _: str) -> bool:
    pod = next((one for one in world.pods.store.list() if one.metadata.uid == uid), None)
    if pod is None or pod.spec.node_name or world.queue.find(pod.key) is None:
        return False
    if pod.metadata.deletion_timestamp is not None:  # it need not be queued
        return False
    world.queue.delete(pod.key)
    return True


def _lose_node(world: World, _: str, node: str) -> bool:
    there = world.cache.has_node(node)
    world.cache.remove_node(node)
    return there


def _invent_node(world: World, _: str, __: str) -> bool:
    world.cache.add_node(make_node("nowhere"))
    return True


def _stale_node(world: World, _: str, node: str) -> bool:
    there = world.cache.has_node(node)
    if there:
        world.cache.add_node(make_node(node, cpu="77", labels={"zone": "old"}))
    return there


def _wrong_sum(world: World, _: str, node: str) -> bool:
    info = world.cache.node_info(node)
    if info is not None:
        info.requested["cpu"] = info.requested.get("cpu", 0) + 7
    return info is not None


def _wrong_cell(name: str) -> Corruption:
    def corrupt(world: World, _: str, node: str) -> bool:
        row = world.cache.nodes.row_of(node)
        if row >= 0:
            column = getattr(world.cache.nodes, name)
            column[..., row] = ~column[..., row] if column.dtype == np.bool_ else column[..., row] + 1
        return row >= 0

    return corrupt


COLUMNS = ("requested", "allocatable", "nonzero_requested", "pod_count", "allowed_pods", "unschedulable")
CORRUPTIONS: tuple[Corruption, ...] = (
    _lose_pod,
    _lose_pod_on_its_node,
    _lose_pod_but_for_its_node,
    _move_pod,
    _resize_pod,
    _count_a_stranger,
    _unqueue,
    _lose_node,
    _invent_node,
    _stale_node,
    _wrong_sum,
    *(_wrong_cell(name) for name in COLUMNS),
)


# --- the property -----------------------------------------------------------------------------------------------------


@dataclass
class Deciding:
    """A pod that a worker has: before its node is chosen, or assumed."""

    queued: QueuedPodInfo
    node: str = ""


@dataclass
class Server:
    """DriftType the API server has, and what it has not told yet."""

    version: int = 0
    pods: dict[str, Tree] = field(default_factory=dict)
    nodes: dict[str, Tree] = field(default_factory=dict)
    untold: list[WatchEvent[Any]] = field(default_factory=list)

    def write(self, kind: type[Pod | Node], tree: Tree, event: str) -> None:
        self.version += 1
        tree = {**tree, "metadata": {**tree["metadata"], "resourceVersion": str(self.version)}}
        stored = self.pods if kind is Pod else self.nodes
        if event == "DELETED":
            stored.pop(tree["metadata"]["name"])
        else:
            stored[tree["metadata"]["name"]] = tree
        self.untold.append(WatchEvent(event, convert(tree, kind)))


class TruthMachine(RuleBasedStateMachine):
    """The API server changes, tells late or tells all again; workers decide meanwhile; now and then something
    breaks.
    """

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.server = Server()
        self.deciding: list[Deciding] = []
        self.created = 0
        for name in ("a", "b"):
            self.node_comes_or_changes(name, {"labels": {"zone": name}})
        for number, node in enumerate(("a", "a", None, None)):
            self.create_pod(f"pod-{number}", node, {}, repels=not number)
        self.list_anew()

    # --- the API server

    @rule(name=POD_NAMES, node=st.none() | NODE_NAMES, fields=pod_fields, repels=st.booleans())
    def create_pod(self, name: str, node: str | None, fields: Tree, repels: bool) -> None:
        if name not in self.server.pods:
            self.created += 1
            more = {**fields, **({"affinity": REPELS} if repels else {})}
            tree = pod_tree(name, uid=f"uid-{self.created}", node=node or "", **more)
            self.server.write(Pod, tree, "ADDED")

    @rule(name=POD_NAMES, node=NODE_NAMES)
    def someone_else_binds(self, name: str, node: str) -> None:
        tree = self.server.pods.get(name)
        if tree is not None and not tree["spec"]["nodeName"]:
            self.server.write(Pod, {**tree, "spec": {**tree["spec"], "nodeName": node}}, "MODIFIED")

    @rule(name=POD_NAMES, fields=pod_fields, label=st.sampled_from(["web", "db"]), terminating=st.booleans())
    def change_pod(self, name: str, fields: Tree, label: str, terminating: bool) -> None:
        tree = self.server.pods.get(name)
        if tree is not None:
            metadata = {**tree["metadata"], "labels": {"app": label}}
            if terminating:
                metadata["deletionTimestamp"] = "2026-11-21T00:00:00Z"
            self.server.write(Pod, {**tree, "metadata": metadata, "spec": {**tree["spec"], **fields}}, "MODIFIED")

    @rule(name=POD_NAMES)
    def pod_goes(self, name: str) -> None:
        if name in self.server.pods:
            self.server.write(Pod, self.server.pods[name], "DELETED")

    @rule(name=POD_NAMES)
    def unreadable_pod(self, name: str) -> None:
        tree = self.server.pods.get(name)
        if tree is not None:
            spec = {**tree["spec"], **pod_tree(requests=MUCH)["spec"], "nodeName": tree["spec"]["nodeName"]}
            self.server.write(Pod, {**tree, "spec": spec}, "MODIFIED")

    @rule(name=NODE_NAMES, fields=node_fields)
    def node_comes_or_changes(self, name: str, fields: Tree) -> None:
        event = "MODIFIED" if name in self.server.nodes else "ADDED"
        self.server.write(Node, node_tree(name, **fields), event)

    @rule(name=NODE_NAMES)
    def unreadable_node(self, name: str) -> None:
        event = "MODIFIED" if name in self.server.nodes else "ADDED"
        self.server.write(Node, node_tree(name, cpu="four"), event)

    @rule(name=NODE_NAMES)
    def node_goes(self, name: str) -> None:
        if name in self.server.nodes:
            self.server.write(Node, self.server.nodes[name], "DELETED")

    # --- the watch

    @rule(count=st.integers(1, 5), pods=st.booleans())
    def report(self, count: int, pods: bool) -> None:
        """In order within a kind, in none across kinds."""
        kind = Pod if pods else Node
        reported = [event for event in self.server.untold if isinstance(event.object, kind)][:count]
        for event in reported:
            self.server.untold.remove(event)
            (self.world.pods if pods else self.world.nodes).apply(event)

    @rule()
    def list_anew(self) -> None:
        """A gap: what was not told is found in the list, or never."""
        self.server.untold.clear()
        drive(self.world.nodes.replace([convert(tree, Node) for tree in self.server.nodes.values()], ()))
        drive(self.world.pods.replace([convert(tree, Pod) for tree in self.server.pods.values()], ()))

    # --- the workers

    @rule()
    def pop(self) -> None:
        queued = self.world.queue.pop_nowait(self.world.clock.time())
        if queued is None:
            return
        if queued.pod.is_terminating or self.world.cache.node_of(queued.pod.uid):
            self.world.queue.done(queued.pod.uid)
        else:
            self.deciding.append(Deciding(queued))

    @rule(node=NODE_NAMES)
    def assume(self, node: str) -> None:
        one = next((one for one in self.deciding if not one.node), None)
        if one is None:
            return
        self.deciding.remove(one)
        stored = self.world.pods.store.get(one.queued.key)
        if stored is None or stored.metadata.uid != one.queued.pod.uid:  # a decision is one step: it is never too late
            self.world.failures.handle(one.queued, Failure("gone", "SchedulerError"), self.world.clock.time())
            return
        try:
            self.world.cache.assume_pod(one.queued.pod, node)
        except ValueError:  # it cannot be read (a QuantityError), or it has been bound by someone else meanwhile
            self.world.failures.handle(one.queued, Failure("error", "SchedulerError"), self.world.clock.time())
            return
        self.world.queue.done(one.queued.pod.uid)
        self.deciding.append(Deciding(one.queued, node))

    @rule(works=st.booleans())
    def bind(self, works: bool) -> None:
        one = next((one for one in self.deciding if one.node), None)
        if one is None:
            return
        self.deciding.remove(one)
        uid, tree = one.queued.pod.uid, self.server.pods.get(one.queued.pod.name)
        if works and tree is not None and tree["metadata"]["uid"] == uid and not tree["spec"]["nodeName"]:
            self.server.write(Pod, {**tree, "spec": {**tree["spec"], "nodeName": one.node}}, "MODIFIED")
            self.world.cache.finish_binding(uid, self.world.clock.time())
        else:
            self.world.cache.forget_pod(uid)
            self.world.failures.handle(one.queued, Failure("error", "SchedulerError"), self.world.clock.time())

    @rule()
    def turn_down(self) -> None:
        one = next((one for one in self.deciding if not one.node), None)
        if one is not None:
            self.deciding.remove(one)
            failure = Failure("no", "Unschedulable", frozenset({"F"}))
            self.world.failures.handle(one.queued, failure, self.world.clock.time())

    # --- what breaks

    @rule(corrupt=st.sampled_from(CORRUPTIONS), pick=st.integers(0, 9), node=NODE_NAMES)
    def break_and_mend(self, corrupt: Corruption, pick: int, node: str) -> None:
        readable = [pod for pod in self.world.pods.store.list() if pod.spec.containers[0].resources.requests != MUCH]
        uids = [pod.metadata.uid for pod in readable]  # nobody could count the others again
        uid = uids[pick % len(uids)] if uids else ""
        if corrupt(self.world, uid, node):
            assert self.world.mend(), "it was not found"

    # --- what must hold

    @invariant()
    def nothing_is_accused(self) -> None:
        assert self.world.drifts() == []

    @invariant()
    def the_columns_are_those_of_the_objects(self) -> None:
        cache = self.world.cache
        places: dict[str, Place] = {}
        for node in self.world.nodes.store.list():
            info = cache.node_info(node.metadata.name)
            if info is not None and info.node is not None:
                places[node.metadata.name] = Place(node, dict(info.pods))
        check(cache.nodes, places)

    @invariant()
    def the_anti_affinity_of_pods_on_nodes_is_a_recount(self) -> None:
        cache = self.world.cache
        (column,) = [one.holders for one in cache.counters.required_anti_affinity(WEB)] or [np.zeros(1, dtype=np.int64)]
        repelling = 0
        for row in cache.nodes.rows().tolist():
            here = sum(one.pod.spec.affinity is not None for one in cache.nodes.info(row).pods.values())
            assert not here or column[row] == here
            repelling += here
        assert column.sum() == repelling


TestTruth = TruthMachine.TestCase
TestTruth.settings = settings(
    max_examples=max(example_count(12), settings().max_examples // 8)
)  # each is the work of eight elsewhere


# --- case by case -----------------------------------------------------------------------------------------------------


@pytest.fixture
def world() -> World:
    world = World()
    world.see(make_node("a"), make_node("b"), on_a(version="1"), make_pod("pending"))
    return world


def on_a(version: str) -> Pod:
    return make_pod("on-a", node="a", requests={"cpu": "1"}, metadata={"resourceVersion": version})


async def checked(world: World, meanwhile: Callable[[], None] = lambda: None) -> list[Drift]:
    """One check, its waiting included; `meanwhile` comes between the two looks."""
    checking = asyncio.ensure_future(world.check.check())
    await asyncio.sleep(0)
    while not checking.done():
        async with asyncio.timeout(5):
            seconds = await world.clock.next_sleep()
        if seconds > 1:  # less is a rest between slices, which a slow machine takes more of
            meanwhile()
        await world.clock.advance(seconds)
    return await checking


async def test_a_difference_that_lasts_is_counted_mended_and_gone(world: World) -> None:
    world.cache.remove_pod("uid-of-on-a")
    (drift,) = await checked(world)
    assert (drift.kind, drift.what, drift.stored, drift.cached) == ("pods", DriftType.MISSING, "a, version 1", "")
    assert world.cache.node_of("uid-of-on-a") == "a"
    assert world.check.statistics() == DriftStatistics(1, {("pods", "missing"): 1}, 0)
    assert await checked(world) == []


async def test_a_difference_that_is_gone_at_the_second_look_was_none(world: World) -> None:
    world.cache.remove_pod("uid-of-on-a")
    assert not await checked(world, lambda: world.see(on_a(version="2"), event="MODIFIED"))
    assert world.check.statistics().drift == {}


async def test_every_difference_is_mended_and_only_the_first_twenty_are_reported_one_by_one(world: World) -> None:
    pods = [make_pod(f"p{number}", node="b", metadata={"resourceVersion": "1"}) for number in range(MAX_LINES + 5)]
    world.see(*pods)
    for pod in pods:
        world.cache.remove_pod(pod.metadata.uid)
    with structlog.testing.capture_logs() as reported:
        assert len(await checked(world)) == len(pods)
    assert [one["event"] for one in reported] == ["cache_drift"] * MAX_LINES + ["cache_drift_not_all_told"]
    assert all(world.cache.node_of(pod.metadata.uid) == "b" for pod in pods)


async def test_a_pod_that_nobody_has_is_queued_again(world: World) -> None:
    world.queue.delete("default/pending")
    (drift,) = await checked(world)
    assert drift.what is DriftType.UNQUEUED
    assert world.harness.where("default/pending") == "active"


def test_a_pod_that_is_going_or_belongs_to_someone_else_is_missed_by_nobody(world: World) -> None:
    world.see(make_pod("going", metadata={"deletionTimestamp": "2026-11-21T00:00:00Z"}))
    world.queue.delete("default/going")
    world.see(make_pod("foreign", schedulerName="default-scheduler"))
    assert world.drifts() == []


async def test_an_unconfirmed_binding_is_reported_after_a_while_and_its_room_is_kept(world: World) -> None:
    queued = world.queue.pop_nowait(world.clock.time())
    assert queued is not None
    world.cache.assume_pod(queued.pod, "b")
    world.queue.done(queued.pod.uid)
    await world.clock.advance(10 * UNCONFIRMED_SECONDS)
    assert world.drifts() == [], "its binding is under way, however long it takes"
    world.cache.finish_binding(queued.pod.uid, world.clock.time())
    await world.clock.advance(UNCONFIRMED_SECONDS)
    assert world.drifts() == [], "the watch may be late"
    await world.clock.advance(1)
    world.served = [make_pod("pending", node="b")]
    (drift,) = await checked(world)
    assert (drift.what, drift.cached) == (DriftType.UNCONFIRMED, "assumed on b")
    assert world.unconfirmed == 1, "the API server is to be asked"
    assert world.cache.is_assumed(queued.pod.uid)
    assert world.check.statistics().unmended == 0
    world.see(make_pod("pending", node="b", metadata={"resourceVersion": "9"}), event="MODIFIED")
    assert world.drifts() == []


def bound_in_vain(world: World) -> str:
    """A pod whose Binding something else than the API server has accepted, long ago; its UID."""
    queued = world.queue.pop_nowait(world.clock.time())
    assert queued is not None
    world.cache.assume_pod(queued.pod, "b")
    world.queue.done(queued.pod.uid)
    world.cache.finish_binding(queued.pod.uid, world.clock.time() - 2 * UNCONFIRMED_SECONDS)
    return queued.pod.uid


async def test_a_pod_that_the_api_server_has_not_bound_gives_its_room_back_and_is_queued(world: World) -> None:
    uid = bound_in_vain(world)
    world.served = [make_pod("pending")]
    with structlog.testing.capture_logs() as reported:
        await checked(world)
    assert [one["event"] for one in reported] == ["cache_drift", "cache_drift_requeued"]
    assert not world.cache.is_assumed(uid)
    assert world.harness.where("default/pending") == "active"
    assert world.check.statistics().unmended == 0
    assert world.drifts() == []


def settled_ago(world: World, seconds: float, name: str = "pending") -> str:
    """A pod whose Binding was answered so long ago, and that the watch has not shown; its UID."""
    world.see(make_pod(name))
    queued = world.queue.pop_nowait(world.clock.time())
    while queued is not None and queued.pod.name != name:
        world.queue.done(queued.pod.uid)
        queued = world.queue.pop_nowait(world.clock.time())
    assert queued is not None
    world.cache.assume_pod(queued.pod, "b")
    world.queue.done(queued.pod.uid)
    world.cache.finish_binding(queued.pod.uid, world.clock.time() - seconds)
    return queued.pod.uid


async def test_a_binding_that_was_answered_and_not_applied_is_reported_within_fifteen_seconds(world: World) -> None:
    """A proxy answers 201 and applies nothing: it took 107 s, and was called a drift of our cache."""
    uid = settled_ago(world, CONFIRM_SECONDS - LOOK_SECONDS, "fake")
    running = asyncio.ensure_future(world.check.keep_confirming())
    with structlog.testing.capture_logs() as lines:
        async with asyncio.timeout(5):
            await world.clock.next_sleep()
        await world.clock.advance(LOOK_SECONDS)
        assert world.cache.is_assumed(uid), "the watch may be late"
        world.served = [make_pod("fake")]
        await world.clock.advance(LOOK_SECONDS)
    running.cancel()
    (line,) = lines
    assert (line["event"], line["log_level"], line["cause"]) == ("binding_not_applied", "error", "proxy")
    assert (line["pod"], line["node"]) == ("default/fake", "b")
    assert world.harness.where("default/fake") == "active"
    assert world.check.statistics().drift == {("pods", "unconfirmed"): 1}


async def test_a_watch_that_is_late_costs_one_read_a_pod_and_a_few_at_a_time(world: World) -> None:
    number = 2 * MAX_READS + 1
    for each in range(number):
        settled_ago(world, CONFIRM_SECONDS + 1, f"late-{each}")
    world.served = [make_pod(f"late-{each}", node="b") for each in range(number)]
    left = []
    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            await world.check.confirm()
            left.append(len(world.served))
    assert left == [number - MAX_READS, 1, 0, 0, 0]
    assert lines == []


async def test_who_cannot_be_queried_is_queried_again_and_nothing_is_given_back_meanwhile(world: World) -> None:
    uid = settled_ago(world, CONFIRM_SECONDS + 1, "fake")
    world.served = [StalledError("no answer"), make_pod("fake")]
    await world.check.confirm()
    assert world.cache.is_assumed(uid)
    await world.check.confirm()
    assert not world.cache.is_assumed(uid)


async def test_an_unconfirmed_binding_of_which_nobody_can_report_counts_as_not_mended(world: World) -> None:
    uid = bound_in_vain(world)
    for number, failure in enumerate([StalledError("no answer"), UndecodableError("?")], 1):
        world.served = [failure]
        await checked(world)
        assert world.check.statistics().unmended == number
    assert world.cache.is_assumed(uid), "its room may be taken"


async def test_a_binding_that_the_watch_does_not_show_again_and_again_counts_as_not_mended(world: World) -> None:
    """Or a pod that the API server does not have any more."""
    bound_in_vain(world)
    gone = APIError(APIStatus(code=404, kind="Status"))
    answers: list[Pod | Exception] = [make_pod("pending", node="b"), make_pod("pending", node="b"), gone]
    for number, answer in enumerate(answers):
        world.served = [answer]
        await checked(world)
        assert world.check.statistics().unmended == number
    assert world.unconfirmed == 3, "the store is to be compared each time"


async def test_what_stays_wrong_after_it_was_mended_is_reported_as_that(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Pod) -> str:
        raise KeyError("a bug")

    world.cache.remove_pod("uid-of-on-a")
    monkeypatch.setattr(world.cache, "add_pod", broken)
    with structlog.testing.capture_logs() as reported:
        await checked(world)
    assert [one["event"] for one in reported] == ["cache_drift", "cache_drift_not_mended", "cache_drift_stays"]
    assert world.check.statistics().unmended == 1


async def test_a_redundant_pod_goes_without_the_one_that_waits_under_its_name(world: World) -> None:
    world.cache.add_pod(make_pod("pending", uid="uid-of-an-earlier-life", node="b", requests={"cpu": "1"}))
    (drift,) = await checked(world)
    assert (drift.what, drift.uid) == (DriftType.REDUNDANT, "uid-of-an-earlier-life")
    assert world.cache.node_of("uid-of-an-earlier-life") == ""
    assert world.harness.where("default/pending") == "active"


async def test_it_checks_each_period_and_at_once_when_queried(world: World) -> None:
    running = asyncio.ensure_future(world.check.run())
    async with asyncio.timeout(5):
        await world.clock.next_sleep()
    await world.clock.advance(CHECK_SECONDS - 1)
    assert world.check.statistics().checks == 0
    await world.clock.advance(CHECK_SECONDS / 2)
    assert world.check.statistics().checks == 1
    world.check.ask()
    await world.clock.advance(1)
    assert world.check.statistics().checks == 2
    running.cancel()
    await asyncio.wait({running})


@pytest.mark.parametrize("is_lost", [False, True], ids=["looking", "mending"])
async def test_a_slice_is_two_milliseconds_of_work_each_time(
    world: World, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    """If only the first slice were as long, each further pod would cost a rest: half an hour for 100,000 pods."""
    pods = [make_pod(f"p{number}", node="b", metadata={"resourceVersion": "1"}) for number in range(400)]
    world.see(*pods)
    for pod in pods if is_lost else ():
        world.cache.remove_pod(pod.metadata.uid)
    ticks = itertools.count()
    each_look = SLICE_SECONDS / 20
    monkeypatch.setattr(tasks, "time", SimpleNamespace(perf_counter=lambda: next(ticks) * each_look))
    rests = 0
    checking = asyncio.ensure_future(world.check.check())
    await asyncio.sleep(0)
    while not checking.done():
        async with asyncio.timeout(5):
            rests += await world.clock.run_to_next() < 1
    assert len(await checking) == (len(pods) if is_lost else 0)
    looks = next(ticks)
    assert looks >= 400
    assert looks / 25 <= rests <= looks / 20


async def test_decisions_go_on_while_many_pods_are_checked(world: World) -> None:
    world.see(*(make_pod(f"p{number}", node="b", requests={"cpu": "1"}) for number in range(3_000)))
    turns = 0
    checking = asyncio.ensure_future(world.check.check())
    await asyncio.sleep(0)
    while not checking.done():
        async with asyncio.timeout(5):
            await world.clock.run_to_next()
        turns += 1
    assert await checking == []
    assert turns > 1
