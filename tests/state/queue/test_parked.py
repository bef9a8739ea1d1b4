"""Parked elements against a plain list; and who is asked about an event."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, Resource
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.state.queue.hints import HintTable, QueueingStrategy
from kscheduler.state.queue.sub_queues import Parked
from tests.builders import pod_info

KEYS = st.sampled_from([f"default/pod-{number}" for number in range(8)])
PLUGINS = st.frozensets(st.sampled_from(["Fit", "Affinity", "Volumes"]), max_size=2)
PROFILES = st.sampled_from(["kscheduler", "other", "unknown"])
EVENTS = st.sampled_from(
    [
        ClusterEvent(Resource.NODE, ActionType.ADD),
        ClusterEvent(Resource.ASSIGNED_POD, ActionType.ADD),
        ClusterEvent(Resource.CSI_NODE, ActionType.UPDATE),
        ClusterEvent(Resource.WILDCARD, ActionType.ALL, "Wildcard"),
    ]
)
REGISTERED = {
    "Fit": [ClusterEventWithHint(ClusterEvent(Resource.NODE, ActionType.ADD))],
    "Affinity": [ClusterEventWithHint(ClusterEvent(Resource.ASSIGNED_POD, ActionType.ADD))],
}


class ParkedMachine(RuleBasedStateMachine):
    """Elements come and go; hints are called for all elements that an event may move, in the order of parking."""

    def __init__(self) -> None:
        super().__init__()
        self.hints = HintTable({"kscheduler": REGISTERED, "other": {"Fit": REGISTERED["Affinity"]}})
        self.parked = Parked()
        self.model: list[QueuedPodInfo] = []

    @rule(key=KEYS, profile=PROFILES, unschedulable=PLUGINS, pending=PLUGINS)
    def park(self, key: str, profile: str, unschedulable: frozenset[str], pending: frozenset[str]) -> None:
        self.take(key)
        pod = pod_info(key.partition("/")[2], schedulerName=profile)
        queued = QueuedPodInfo(pod, unschedulable_plugins=unschedulable, pending_plugins=pending)
        self.parked.put(queued)
        self.model.append(queued)

    @rule(key=KEYS)
    def take(self, key: str) -> None:
        there = next((element for element in self.model if element.key == key), None)
        assert self.parked.pop(key) is there
        self.model = [element for element in self.model if element is not there]

    @precondition(lambda self: self.model)
    @rule(plugins=PLUGINS)
    def somebody_is_gated_where_it_is(self, plugins: frozenset[str]) -> None:
        """Its plugins change, and it is taken out next: it is still found."""
        queued = self.model[0]
        queued.unschedulable_plugins |= plugins
        self.take(queued.key)

    @rule(event=EVENTS)
    def pods_that_an_event_may_move_are_queried(self, event: ClusterEvent) -> None:
        queried = self.parked.concerned(self.hints, event)
        moved = [
            element
            for element in self.model
            if self.hints.strategy(element, event, None, None) is not QueueingStrategy.SKIP
        ]
        assert queried == moved, "without hints, every element in question is moved"

    @invariant()
    def all_are_there_in_the_order_they_came(self) -> None:
        assert list(self.parked) == self.model
        assert len(self.parked) == len(self.model)
        for key in ("default/pod-0", "default/pod-5", "absent"):
            there = next((element for element in self.model if element.key == key), None)
            assert self.parked.get(key) is there
            assert (key in self.parked) is (there is not None)


TestParked = ParkedMachine.TestCase
