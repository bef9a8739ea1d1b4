"""Parked elements against a plain list; and who is asked about an event."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kscheduler.api.meta import KubeObject
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.hint_index import HintIndex, IndexedEvent
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.state.queue.hints import HintTable, QueueingStrategy
from kscheduler.state.queue.parked import Parked
from tests.builders import make_pod, pod_info

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
# Pods wait for others of their own "app", and for all of them where they have none.
APPS = st.sampled_from(["web", "db", ""])
BY_APP = HintIndex(
    lambda pod: [pod.labels["app"]] if pod.labels.get("app") else None,
    lambda _, new: None if new is None else [new.metadata.labels["app"]],
)


def of_equal_app(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    del old
    app = pod.labels.get("app")
    helps = new is None or not app or app == new.metadata.labels["app"] or pod.key == f"default/{new.metadata.name}"
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


REGISTERED = {
    "Fit": [ClusterEventWithHint(ClusterEvent(Resource.NODE, ActionType.ADD))],
    "Affinity": [
        IndexedEvent(ClusterEvent(Resource.ASSIGNED_POD, ActionType.ADD), of_equal_app, BY_APP),
        ClusterEventWithHint(ClusterEvent(Resource.CSI_NODE, ActionType.UPDATE), of_equal_app),
    ],
}


class ParkedMachine(RuleBasedStateMachine):
    """Elements come and go; hints are called for all elements that an event may move, in the order of parking."""

    def __init__(self) -> None:
        super().__init__()
        self.hints = HintTable({"kscheduler": REGISTERED, "other": {"Fit": REGISTERED["Affinity"]}})
        self.parked = Parked(few=0)
        self.model: list[QueuedPodInfo] = []

    @rule(key=KEYS, profile=PROFILES, unschedulable=PLUGINS, pending=PLUGINS, app=APPS)
    def park(self, key: str, profile: str, unschedulable: frozenset[str], pending: frozenset[str], app: str) -> None:
        self.take(key)
        pod = pod_info(key.partition("/")[2], labels={"app": app}, schedulerName=profile)
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

    @precondition(lambda self: self.model)
    @rule(app=APPS)
    def a_pod_changes_where_it_is(self, app: str) -> None:
        queued = self.model[-1]
        labels = {"app": app}
        queued.pod = pod_info(
            queued.key.partition("/")[2], labels=labels, schedulerName=queued.pod.pod.spec.scheduler_name
        )
        self.parked.renew(queued)

    @rule(event=EVENTS, app=st.none() | APPS, name=KEYS)
    def pods_that_an_event_may_move_are_queried(self, event: ClusterEvent, app: str | None, name: str) -> None:
        new = None if app is None else make_pod(name.partition("/")[2], labels={"app": app})
        queried = self.parked.concerned(self.hints, event, None, new)
        moved = [
            element
            for element in self.model
            if self.hints.strategy(element, event, None, new) is not QueueingStrategy.SKIP
        ]
        if event.resource is Resource.CSI_NODE:
            assert [element for element in queried if element in moved] == moved, (
                "without an index some are queried in vain"
            )
        else:
            assert queried == moved, "the index finds all of them, in order, and no others"

    @invariant()
    def all_are_there_in_the_order_they_came(self) -> None:
        assert list(self.parked) == self.model
        assert len(self.parked) == len(self.model)
        for key in ("default/pod-0", "default/pod-5", "absent"):
            there = next((element for element in self.model if element.key == key), None)
            assert self.parked.get(key) is there
            assert (key in self.parked) is (there is not None)


TestParked = ParkedMachine.TestCase
