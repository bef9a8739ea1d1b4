"""The queue against a naive model: no pod is lost, none is in two sub-queues, and no wake-up is missed."""

from collections import Counter
from collections.abc import Iterator

import hypothesis.strategies as st
import msgspec
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kscheduler.api.core import Pod
from kscheduler.framework.events import ASSIGNED_POD_DELETE, FORCE_ACTIVATE, NODE_ADD, ClusterEvent
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.state.queue.scheduling_queue import SchedulingQueue
from tests.builders import make_pod
from tests.state.queue.model import GATES_GONE, UNHEARD, Entry, Event, gauge, policy

NAMES = st.sampled_from(["p0", "p1", "p2", "p3"])
REJECTORS = st.frozensets(st.sampled_from(["Room", "Peer", "Deaf"]), max_size=2)
GATE = {"schedulingGates": [{"name": "hold"}]}


class QueueMachine(RuleBasedStateMachine):
    """What the watch, the workers and the clock may do, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.arrivals: list[tuple[str, str]] = []
        self.queue = SchedulingQueue(policy(self.arrivals))
        self.now = 1000.25
        self.serial = 0
        self.store: dict[str, Pod] = {}
        """By name, as the informer has them."""
        self.waiting: dict[str, Entry] = {}
        """By name."""
        self.in_flight: dict[str, tuple[QueuedPodInfo, Entry]] = {}
        """By UID."""

    # --- the watch

    @initialize(gated=st.integers(0, 4))
    def there_are_pods(self, gated: int) -> None:
        for number in range(4):
            self.pod_comes(f"p{number}", gated=number == gated, priority=number % 2)

    @rule(name=NAMES, gated=st.booleans(), priority=st.integers(0, 2))
    def pod_comes(self, name: str, gated: bool, priority: int) -> None:
        """A new pod; where one of its name is known, that one is gone first. The old one may be in flight."""
        if name in self.store:
            self.pod_goes(name)
        self.serial += 1
        pod = make_pod(name, uid=f"{name}-{self.serial}", priority=priority, **(GATE if gated else {}))
        self.store[name] = pod
        self.queue.add(PodInfo(pod), self.now)
        entry = self.waiting[name] = Entry(pod, self.now)
        entry.enter("active", self.now)

    @rule(name=NAMES)
    def pod_goes(self, name: str) -> None:
        self.store.pop(name, None)
        self.waiting.pop(name, None)
        self.queue.delete(f"default/{name}")

    @precondition(lambda self: any(pod.spec.scheduling_gates for pod in self.store.values()))
    @rule(name=NAMES)
    def gates_go(self, name: str) -> None:
        if name in self.store and self.store[name].spec.scheduling_gates:
            old = self.store[name]
            spec = msgspec.structs.replace(old.spec, scheduling_gates=())
            self.changes(name, old, Pod(metadata=old.metadata, spec=spec, status=old.status), GATES_GONE)

    @rule(name=NAMES)
    def status_changes(self, name: str) -> None:
        """Our own condition comes back on the watch: it wakes no pod."""
        if name in self.store:
            old = self.store[name]
            self.changes(name, old, Pod(metadata=old.metadata, spec=old.spec, status=old.status), UNHEARD)

    def changes(self, name: str, old: Pod, new: Pod, event: ClusterEvent) -> None:
        """A new version of a pod that wants a node."""
        self.store[name] = new
        self.queue.update(old, PodInfo(new), self.now)
        flying = self.in_flight.get(new.metadata.uid)
        if flying is not None:
            flying[1].missed.append((event, old, new))
        elif name in self.waiting:
            entry = self.waiting[name]
            entry.pod = new
            if entry.place in {"unschedulable", "gated"}:
                entry.wake([(event, old, new)], self.now)
        else:
            entry = self.waiting[name] = Entry(new, self.now)
            entry.enter("active", self.now)

    @rule(event=st.sampled_from([NODE_ADD, UNHEARD]))
    def something_happens(self, event: ClusterEvent) -> None:
        self.apply_external((event, None, None))

    @rule(name=NAMES)
    def assigned_pod_goes(self, name: str) -> None:
        self.apply_external((ASSIGNED_POD_DELETE, make_pod("gone", node="n", labels={"helps": name}), None))

    def apply_external(self, event: Event) -> None:
        """The queue and every parked or flying pod of the model hear of it; gated ones hear only of their gate."""
        self.queue.move_all(*event, self.now)
        for entry in self.waiting.values():
            if entry.place == "unschedulable":
                entry.wake([event], self.now)
        for _, entry in self.in_flight.values():
            entry.missed.append(event)

    # --- the workers

    def has_ready(self) -> bool:
        """Whether anyone may be popped."""
        return any(entry.place in {"active", "backoff"} for entry in self.waiting.values())

    @precondition(lambda self: not self.has_ready())
    @rule()
    def nobody_to_pop(self) -> None:
        assert not self.queue.has_ready()
        assert self.queue.pop_nowait(self.now) is None

    @precondition(lambda self: self.has_ready())
    @rule()
    def pop(self) -> None:
        ready = [entry for entry in self.waiting.values() if entry.place == "active"]
        early = [entry for entry in self.waiting.values() if entry.place == "backoff"]
        assert self.queue.has_ready() is bool(ready or early)
        queued = self.queue.pop_nowait(self.now)
        assert queued is not None
        entry = self.waiting.pop(queued.pod.name)
        if ready:
            assert entry.place == "active"
            assert entry.order == min(candidate.order for candidate in ready)
        else:
            assert entry.place == "backoff"
            assert (entry.expiry, entry.order) == min((candidate.expiry, candidate.order) for candidate in early)
        entry.first_attempt = entry.first_attempt or self.now
        entry.attempts += 1
        entry.missed = []
        self.in_flight[queued.pod.uid] = (queued, entry)

    @precondition(lambda self: self.in_flight)
    @rule(pick=st.integers(0, 3))
    def attempt_succeeds(self, pick: int) -> None:
        uid = sorted(self.in_flight)[pick % len(self.in_flight)]
        del self.in_flight[uid]
        self.queue.done(uid)

    @rule(rejectors=REJECTORS, pending=REJECTORS)
    def all_who_are_ready_fail(self, rejectors: frozenset[str], pending: frozenset[str]) -> None:
        """An ordinary minute: every pod that may be tried is tried once."""
        for _ in range(len(self.waiting)):
            if self.has_ready():
                self.pop()
        for _ in range(len(self.in_flight)):
            self.attempt_fails(0, rejectors, pending)

    @precondition(lambda self: self.in_flight)
    @rule(pick=st.integers(0, 3), rejectors=REJECTORS, pending=REJECTORS)
    def attempt_fails(self, pick: int, rejectors: frozenset[str], pending: frozenset[str]) -> None:
        uid = sorted(self.in_flight)[pick % len(self.in_flight)]
        queued, entry = self.in_flight.pop(uid)
        current = self.store.get(queued.pod.name)
        if current is None or current.metadata.uid != uid:
            self.queue.done(uid)
            return
        queued.pod = PodInfo(current)
        queued.unschedulable_plugins, queued.pending_plugins = rejectors - pending, pending
        self.queue.requeue(queued, self.now)
        entry.pod = current
        entry.fail(rejectors, pending, self.now)
        self.waiting[queued.pod.name] = entry

    @rule(names=st.sets(NAMES))
    def activate(self, names: set[str]) -> None:
        self.queue.activate([f"default/{name}" for name in sorted(names)], self.now)
        for name in sorted(names):
            flying = [entry for queued, entry in self.in_flight.values() if queued.pod.name == name]
            if name in self.waiting:
                if self.waiting[name].place != "active":
                    self.waiting[name].enter("active", self.now)
            elif flying:
                flying[-1].missed.append((FORCE_ACTIVATE, None, None))

    # --- the clock

    @rule(seconds=st.sampled_from([0.0, 0.5, 0.75, 1.0, 2.0, 11.0]))
    def backoff_is_flushed(self, seconds: float) -> None:
        self.now += seconds
        self.queue.flush_backoff(self.now)
        for entry in self.waiting.values():
            if entry.place in {"backoff", "error-backoff"} and entry.expiry < int(self.now):
                entry.enter("active", self.now)

    @rule(seconds=st.sampled_from([100.0, 299.0, 301.0]))
    def the_safety_net(self, seconds: float) -> None:
        self.now += seconds
        self.queue.flush_unschedulable(self.now)
        for entry in self.waiting.values():
            if entry.place in {"unschedulable", "gated"} and self.now - entry.timestamp > 300:
                entry.after_backoff(self.now)

    # --- what must hold

    def entries(self) -> Iterator[tuple[str, Entry]]:
        """Everyone who waits, by key."""
        return ((f"default/{name}", entry) for name, entry in self.waiting.items())

    @invariant()
    def every_pod_is_in_exactly_one_place(self) -> None:
        for key, entry in self.entries():
            found = self.queue.find(key)
            assert found is not None
            assert found[0] == entry.place.removeprefix("error-")
            assert found[1].pod.pod is entry.pod
        sizes, places = self.queue.statistics(), Counter(entry.place for entry in self.waiting.values())
        assert sizes.active == places["active"]
        assert sizes.backoff == places["backoff"] + places["error-backoff"]
        assert sizes.unschedulable == places["unschedulable"]
        assert sizes.gated == places["gated"]
        assert sizes.in_flight == len(self.in_flight)
        assert {pod.key for pod in self.queue.parked()} == {
            key for key, entry in self.entries() if entry.place in {"unschedulable", "gated"}
        }

    @invariant()
    def every_history_is_reported(self) -> None:
        for key, entry in self.entries():
            found = self.queue.find(key)
            assert found is not None
            queued = found[1]
            assert queued.unschedulable_plugins | queued.pending_plugins == entry.blamed
            assert (queued.attempts, queued.unschedulable_count) == (entry.attempts, entry.rejections)
            assert queued.consecutive_errors_count == entry.errors
            assert (queued.timestamp, queued.backoff_expiration) == (entry.timestamp, entry.expiry)
            assert queued.initial_attempt_timestamp == entry.first_attempt
            assert bool(queued.gating_plugin) is (entry.place == "gated")

    @invariant()
    def the_gauge_of_rejections_is_a_recount(self) -> None:
        assert self.queue.rejections() == gauge(iter(self.waiting.values()))

    @invariant()
    def nothing_is_remembered_for_nobody(self) -> None:
        if not self.in_flight:
            assert not any(self.queue.statistics().in_flight_events.values())


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(stateful_step_count=80)
