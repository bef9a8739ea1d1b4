"""A scheduler at work in a plugin's test: every extension point after the choice, the queue, and time."""

from collections.abc import Sequence

import numpy as np

from kscheduler.api.core import Node
from kscheduler.api.kinds import NODES, PODS
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, Resource
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores
from kscheduler.framework.plugin import PermitResult, Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Code, Status, unschedulable
from kscheduler.testing import Cluster, make_node, make_pod


class Around(Plugin):
    """Notes what it is called for; holds pods named `held`, rejects those without a ticket."""

    name = "Around"
    refresh_interval = 30.0
    called: Sequence[str] = ()

    def __init__(self) -> None:
        self.notes: list[str] = []
        type(self).called = self.notes

    async def refresh(self) -> None:
        self.notes.append("refresh")

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(Resource.NODE, ActionType.ADD))]

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        self.notes.append("reserve")
        return SUCCESS if pod.labels.get("ticket") != "false" else unschedulable("no ticket")

    def unreserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        self.notes.append("unreserve")

    def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        waits = pod.name == "held"
        return PermitResult(Status(Code.WAIT) if waits else SUCCESS, timeout_seconds=600.0)

    def pre_bind_pre_flight(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS

    async def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        self.notes.append("pre_bind")
        return SUCCESS

    def post_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        self.notes.append("post_bind")


async def test_a_pod_meets_every_extension_point() -> None:
    pod = make_pod("web")
    async with Cluster(make_node("a")).enable(Around).running() as running:
        await running.add(pod)
        assert (running.node_of(pod), running.place_of(pod)) == ("a", "bound")
        assert Around.called == ["refresh", "reserve", "pre_bind", "post_bind"]
        assert any(line.startswith("Scheduled: ") for line in running.events)
        await running.advance(40.0)
        assert Around.called[-1] == "refresh"


async def test_permit_holds_lets_go_and_times_out() -> None:
    held = make_pod("held")
    async with Cluster(make_node("a")).enable(Around).running() as running:
        await running.add(held)
        assert running.place_of(held) == "waiting"
        (waiting,) = running.waiting_pods.all()
        waiting.allow("Around")
        await running.advance(0.0)
        assert running.node_of(held) == "a"
        await running.delete(held)
        await running.add(held)
        await running.advance(600.0)
        assert running.place_of(held) == "unschedulable"
        assert "timeout" in running.message_of(held)
        assert Around.called[-1] == "unreserve"


async def test_a_parked_pod_wakes_by_what_the_plugin_registered() -> None:
    refused = make_pod("refused", labels={"ticket": "false"})
    async with Cluster(make_node("a"), make_pod("other")).enable(Around).running() as running:
        await running.add(refused)
        assert running.place_of(refused) == "unschedulable"
        assert "no ticket" in running.message_of(refused)
        tried = Around.called.count("reserve")
        await running.add(make_pod("runs", node="a"))
        await running.advance(5.0)
        assert Around.called.count("reserve") == tried, "it did not register the event"
        await running.add(make_node("b"))
        assert Around.called.count("reserve") == tried + 1
        assert running.place_of(refused) == "unschedulable"


class Counting(Plugin):
    """Asks its Handle for listers each time, and hears of nodes."""

    name = "Counting"
    refresh_interval = 10.0
    seen: Sequence[tuple[int, int]] = ()
    heard: Sequence[str] = ()

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        type(self).seen, type(self).heard = [], []
        handle.lister(NODES).on_change(self.changed)

    def changed(self, old: Node | None, new: Node | None) -> None:
        assert isinstance(self.heard, list)
        self.heard.append(f"{'came' if old is None else 'changed'} {new.metadata.name if new is not None else ''}")

    async def refresh(self) -> None:
        assert isinstance(self.seen, list)
        pods = self.handle.lister(PODS).list()
        self.seen.append((len(self.handle.lister(NODES).list()), sum(bool(pod.spec.node_name) for pod in pods)))

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        return np.zeros(len(rows), dtype=np.int64)


async def test_listers_show_what_the_watch_has_shown() -> None:
    pod = make_pod("web")
    async with Cluster(make_node("a")).enable(Counting).running() as running:
        await running.add(make_node("b"), pod)
        await running.advance(11.0)
        assert Counting.seen[-1] == (2, 1)
        assert Counting.heard == ["came a", "came b"]
        await running.delete(pod)
        await running.add(make_node("b", cpu="7"))
        await running.advance(11.0)
        assert Counting.seen[-1] == (2, 0)
        assert Counting.heard[-1] == "changed b"
