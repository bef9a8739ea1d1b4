"""A scheduler at work in a plugin's test: every extension point after the choice, the queue, and time."""

from collections.abc import Sequence

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, Resource
from kscheduler.framework.plugin import PermitResult, Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Code, Status, unschedulable
from kscheduler.testing import Cluster, make_node, make_pod


class Around(Plugin):
    """Notes what it is called for; holds pods named `held`, turns down those without a ticket."""

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
