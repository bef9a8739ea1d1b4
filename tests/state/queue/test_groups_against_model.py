"""The queue with pod groups against a naive model: no member is lost or in two sub-queues, and groups move as one.

The model keeps a place for each waiting pod, and works out a group's place again at each step. `Quorum` is PreEnqueue:
a gang needs its members, a pod with a gate is kept out. Members have no node as long as the test does not give them
one.
"""

from dataclasses import dataclass, field
from math import floor, sqrt
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kscheduler.api.core import Pod
from kscheduler.framework.cluster.pod_groups import GroupDefinition, GroupKey
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, Resource
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import SUCCESS, Status, unresolvable
from kscheduler.state.group_apis import KUBERNETES
from kscheduler.state.pod_groups import PodGroupTable
from kscheduler.state.queue.backoff import BackoffPolicy
from kscheduler.state.queue.hints import HintTable
from kscheduler.state.queue.queued_group import GroupOutcome, QueuedPodGroup
from kscheduler.state.queue.scheduling_queue import QueuePolicy, SchedulingQueue
from tests.builders import make_pod
from tests.state.queue.model import sort_key

GROUPS = st.sampled_from(["a", "b"])
NUMBERS = st.integers(0, 2)
GATES_GONE = ClusterEvent(Resource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)


@dataclass
class Model:
    """One group."""

    name: str
    least: int = 0
    """0: the group is unknown."""
    waiting: dict[str, Pod] = field(default_factory=dict)
    """By name: in the group's element, or incomplete."""
    late: dict[str, Pod] = field(default_factory=dict)
    """Came while the group was being tried."""
    flying: dict[str, Pod] = field(default_factory=dict)
    """In an attempt, or after it: they have a node and are being bound."""
    bound: set[str] = field(default_factory=set)
    is_tried: bool = False
    rejections: int = 0
    errors: int = 0
    expiry: float = 0.0
    is_queued: bool = False
    """There is an element, which keeps its history."""

    @property
    def is_open(self) -> bool:
        """Whether PreEnqueue lets all waiting members in."""
        members = len(self.waiting) + len(self.late) + len(self.flying) + len(self.bound)
        has_gate = any(pod.spec.scheduling_gates for pod in self.waiting.values())
        return bool(self.least) and members >= self.least and not has_gate


class GroupMachine(RuleBasedStateMachine):
    """Pods and groups come and go in any order; groups are tried and fail or not."""

    stops_at_the_first_gate = False

    def __init__(self) -> None:
        super().__init__()
        self.table = PodGroupTable([KUBERNETES])
        hints = HintTable({"kscheduler": {"Gate": (ClusterEventWithHint(GATES_GONE),)}})
        policy = QueuePolicy(
            sort_key,
            self.pre_enqueue,
            hints,
            BackoffPolicy(),
            lambda *_: None,
            groups=self.table,
            groups_stop_at_the_first_gate=self.stops_at_the_first_gate,
        )
        self.queue = SchedulingQueue(policy)
        self.now = 1000.25
        self.serial = 0
        self.models = {name: Model(name) for name in ("a", "b")}
        self.tried: QueuedPodGroup | None = None

    def pre_enqueue(self, pod: PodInfo, first: str) -> Status:
        """A gate of its own, or too few members."""
        del first
        if pod.pod.spec.scheduling_gates:
            return unresolvable("gate", plugin="Gate")
        key = self.table.key_of(pod.pod)
        definition = self.table.definition(key) if key is not None else None
        if key is not None and definition is not None and self.table.count_all(key) < definition.least:
            return unresolvable("too few", plugin="GangScheduling")
        return SUCCESS

    # --- the watch

    @rule(group=GROUPS, number=NUMBERS, gated=st.sampled_from([False, False, False, True]))
    def pod_comes(self, group: str, number: int, gated: bool) -> None:
        name = f"{group}{number}"
        model = self.models[group]
        if name in model.flying or name in model.bound:
            return
        self.pod_goes(group, number)
        self.serial += 1
        fields: dict[str, Any] = {"schedulingGates": [{"name": "hold"}]} if gated else {}
        pod = make_pod(name, uid=f"{name}-{self.serial}", schedulingGroup={"podGroupName": group}, **fields)
        self.table.add_member(PodInfo(pod))
        self.queue.add(PodInfo(pod), self.now)
        if model.is_tried and model.least:
            model.late[name] = pod
        else:
            self.joins(model, name, pod)

    def joins(self, model: Model, name: str, pod: Pod) -> None:
        """A new element has no history."""
        if not model.is_queued and model.least:
            model.is_queued, model.rejections, model.errors, model.expiry = True, 0, 0, 0.0
        model.waiting[name] = pod

    @rule(group=GROUPS, number=NUMBERS)
    def pod_goes(self, group: str, number: int) -> None:
        name, model = f"{group}{number}", self.models[group]
        pod = model.waiting.get(name) or model.late.get(name)
        if pod is None:
            return
        self.table.remove_member(PodInfo(pod))
        self.queue.delete(f"default/{name}")
        model.late.pop(name, None)
        model.waiting.pop(name, None)
        model.is_queued = model.is_queued and bool(model.waiting)

    @rule(group=GROUPS, number=NUMBERS)
    def gate_goes(self, group: str, number: int) -> None:
        name, model = f"{group}{number}", self.models[group]
        pods = model.waiting if name in model.waiting else model.late
        old = pods.get(name)
        if old is None or not old.spec.scheduling_gates:
            return
        new = Pod(metadata=old.metadata, spec=msgspec.structs.replace(old.spec, scheduling_gates=()))
        pods[name] = new
        self.table.add_member(PodInfo(new))
        self.queue.update(old, PodInfo(new), self.now)

    @rule(group=GROUPS, least=st.integers(1, 3))
    def group_comes(self, group: str, least: int) -> None:
        model, key = self.models[group], GroupKey("scheduling.k8s.io", "default", group)
        was = model.least
        if was and least > was:
            return  # a gang that was let in is not asked again, as upstream: the model would have to remember that
        model.least = least
        self.table.put(GroupDefinition(key, least))
        if was:
            self.queue.group_changed(key, self.now)
            return
        self.queue.group_appeared(key, self.now)
        if model.is_tried:
            model.late |= model.waiting
            model.waiting = {}
        elif model.waiting:
            model.is_queued, model.rejections, model.errors, model.expiry = True, 0, 0, 0.0

    @rule(group=GROUPS)
    def group_goes(self, group: str) -> None:
        model, key = self.models[group], GroupKey("scheduling.k8s.io", "default", group)
        if not model.least:
            return
        model.least = 0
        self.table.remove(key)
        self.queue.group_gone(key, self.now)
        model.waiting |= model.late
        model.late = {}
        model.is_queued = False

    # --- the workers

    @precondition(lambda self: self.tried is None)
    @rule()
    def pop(self) -> None:
        ready = [model for model in self.models.values() if model.waiting and self.place(model) == "active"]
        popped = self.queue.pop_next(self.now)
        assert (popped is None) is (not ready)
        if popped is None:
            return
        assert isinstance(popped, QueuedPodGroup)
        model = self.models[popped.key.name]
        assert model in ready
        assert {member.pod.name for member in popped.members.values()} == model.waiting.keys()
        model.flying, model.waiting = {**model.flying, **model.waiting}, {}
        model.is_tried, model.is_queued, self.tried = True, False, popped

    @precondition(lambda self: self.tried is not None)
    @rule(outcome=st.sampled_from(list(GroupOutcome)), placed=NUMBERS)
    def the_attempt_ends(self, outcome: GroupOutcome, placed: int) -> None:
        """On success some members have a node, and the others come back; else all come back."""
        assert self.tried is not None
        model, tried, self.tried = self.models[self.tried.key.name], self.tried, None
        for position, queued in enumerate(tried.in_order()):
            name = queued.pod.name
            if outcome is GroupOutcome.SUCCESS and position <= placed:
                self.table.placed(queued.pod, "node")
                self.queue.done(queued.pod.uid)
                del model.flying[name]
                model.bound.add(name)
                continue
            queued.unschedulable_plugins = frozenset({"Room"})
            self.queue.requeue(queued, self.now)
            pod = model.flying.pop(name)
            (model.late if model.least else model.waiting)[name] = pod
        self.queue.group_attempted(tried, outcome, self.now)
        model.is_tried = False
        if model.late:
            self.comes_back(model, tried, outcome)

    def comes_back(self, model: Model, tried: QueuedPodGroup, outcome: GroupOutcome) -> None:
        """The members that have no node are one element again."""
        if outcome is GroupOutcome.SUCCESS:
            model.rejections = model.errors = 0
        elif outcome is GroupOutcome.REJECTED:
            model.rejections, model.errors = model.rejections + 1, 0
        else:
            model.errors += 1
        model.waiting, model.late, model.is_queued = model.late, {}, True
        count = model.errors or model.rejections
        longest = 10 * sqrt(len(model.waiting))
        model.expiry = floor(self.now + min(2 ** (count - 1), longest)) if count else 0.0
        del tried

    # --- the clock

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.queue.flush_backoff(self.now)
        for model in self.models.values():
            if model.expiry and model.expiry < floor(self.now):
                model.expiry = 0.0

    # --- what must hold

    def place(self, model: Model) -> str:
        """Where the group's waiting members must be."""
        if not model.least:
            return "incomplete"
        if not model.is_open:
            return "gated"
        return "backoff" if model.expiry and model.expiry >= floor(self.now) else "active"

    @invariant()
    def every_member_is_where_it_must_be(self) -> None:
        counts = dict.fromkeys(("active", "backoff", "gated", "incomplete", "pending"), 0)
        for model in self.models.values():
            for name in model.waiting:
                found = self.queue.find(f"default/{name}")
                assert found is not None, name
                assert found[0] == self.place(model), (name, found[0], model)
                counts[found[0]] += 1
            for name in model.late:
                assert self.queue.find(f"default/{name}") is not None
                counts["pending"] += 1
            for name in (*model.flying, *model.bound):
                assert self.queue.find(f"default/{name}") is None
        sizes = self.queue.statistics()
        assert {place: getattr(sizes, place) for place in counts} == counts

    @invariant()
    def nobody_is_parked_for_ever(self) -> None:
        parked = {queued.pod.name for queued in self.queue.parked()}
        for model in self.models.values():
            if self.place(model) in {"gated", "incomplete"}:
                assert model.waiting.keys() <= parked

    @invariant()
    def rejections_are_those_of_the_waiting(self) -> None:
        counted = sum(self.queue.rejections().values())
        waiting: list[QueuedPodInfo] = []
        for model in self.models.values():
            found = (self.queue.find(f"default/{name}") for name in (*model.waiting, *model.late))
            waiting += [each[1] for each in found if each is not None]
        assert counted == sum(len(queued.unschedulable_plugins | queued.pending_plugins) for queued in waiting)


class StoppingMachine(GroupMachine):
    """(1.38: Q7)"""

    stops_at_the_first_gate = True


TestGroups = GroupMachine.TestCase
TestGroups.settings = settings(stateful_step_count=40)
TestStoppingGroups = StoppingMachine.TestCase
TestStoppingGroups.settings = settings(stateful_step_count=40)


@pytest.mark.parametrize("stops", [False, True])
def test_from_1_38_members_behind_the_first_gated_one_are_not_queried(stops: bool) -> None:
    """(1.38: Q7) Neither when they come nor when the group is judged again; once it is let in, the next one is."""
    table, queried = PodGroupTable([KUBERNETES]), list[str]()

    def gates(pod: PodInfo, first: str) -> Status:
        del first
        queried.append(pod.name)
        return unresolvable("gate", plugin="Gate") if pod.pod.spec.scheduling_gates else SUCCESS

    hints = HintTable({"kscheduler": {"Gate": (ClusterEventWithHint(GATES_GONE),)}})
    policy = QueuePolicy(sort_key, gates, hints, BackoffPolicy(), lambda *_: None, groups=table)
    queue = SchedulingQueue(msgspec.structs.replace(policy, groups_stop_at_the_first_gate=stops))
    table.put(GroupDefinition(GroupKey("scheduling.k8s.io", "default", "a"), 1))
    group, held = {"podGroupName": "a"}, [{"name": "hold"}]
    pods = [make_pod(name, uid=name, schedulingGroup=group, schedulingGates=held) for name in "xyz"]
    for pod in pods:
        table.add_member(PodInfo(pod))
        queue.add(PodInfo(pod), 0.0)
    assert queried == (["x", "x", "x"] if stops else ["x", "x", "y", "x", "z"])
    assert sum(queue.rejections().values()) == (1 if stops else 3)
    queried.clear()
    for pod in pods:
        free = make_pod(pod.metadata.name, uid=pod.metadata.uid, schedulingGroup=group)
        table.add_member(PodInfo(free))
        queue.update(pod, PodInfo(free), 1.0)
    assert queue.statistics().active == 3
