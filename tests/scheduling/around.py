"""A harness for scheduling attempts: the parts that surround them, on a virtual clock and without an API server."""

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import Any

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS
from kscheduler.api.meta import Condition
from kscheduler.assembly import Assembly
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import default_configuration
from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.registry import Registry
from kscheduler.in_memory.cluster import InMemoryCluster
from kscheduler.scheduling.extenders.extender_results import Extenders
from kscheduler.scheduling.foreign_bindings import ForeignBindings
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.work.concurrency import AdaptiveLimit
from kscheduler.scheduling.work.workers import Workers
from kscheduler.state.cache import Cache


class RecordedEvents:
    """Keeps the recorded Events. Implements `EventSink`."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def record(self, regarding: Any, **fields: Any) -> None:
        self.notes.append(f"{fields['type']} {fields['reason']}: {fields['note']}")


@dataclass
class ReportedFailures:
    """Keeps the reported failures. Implements `assembly.ports.StatusPort`."""

    reports: list[tuple[str, Condition, str]] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    nominations: list[str | None] = field(default_factory=list)
    announced: list[tuple[str, str]] = field(default_factory=list)
    """Nominations that were written at once: pod and node."""
    classes: dict[Hashable, tuple[Collection[str], Condition]] = field(default_factory=dict)

    def report(self, pod: Pod, condition: Condition, note: str, nominated_node_name: str | None = None) -> None:
        self.reports.append((pod.key, condition, note))
        self.nominations.append(nominated_node_name)

    def report_class(self, name: Hashable, members: Collection[str], condition: Condition) -> None:
        self.classes[name] = (members, condition)

    def withdraw(self, uid: str) -> None:
        self.withdrawn.append(uid)

    async def settled(self, uid: str) -> None:
        """No request is ever in flight."""

    async def patch_pod_status(self, pod: Pod, condition: Condition | None, nominated_node_name: str) -> bool:
        self.announced.append((pod.key, nominated_node_name))
        return True

    @property
    def notes(self) -> list[str]:
        """The notes of all reports, in order."""
        return [note for _, _, note in self.reports]


@dataclass
class StartedPreemptions:
    """Keeps the preemptions that were begun, and the pods that released their node. Implements `PreemptionRunner`."""

    preemptions: list[Preemption] = field(default_factory=list)
    given_back: list[str] = field(default_factory=list)
    on_begin: Callable[[], None] = lambda: None

    def begin(self, preemption: Preemption) -> None:
        self.on_begin()
        self.preemptions.append(preemption)

    def requeued(self, uid: str) -> None:
        """Nobody is evicted here."""

    def released_node(self, pod: PodInfo) -> None:
        self.given_back.append(pod.key)


class SchedulerHarness(InMemoryCluster):
    """A scheduler with one given profile, and four workers by default, whom a test wakes."""

    def __init__(
        self,
        profile: Profile,
        cache: Cache,
        *,
        workers: int = 4,
        limit: int = 4,
        reported: ReportedFailures | None = None,
        gates: str = "",
        clock: VirtualClock | None = None,
        pod_of: Callable[[str], Pod | None] | None = None,
        extenders: Extenders | None = None,
        observer: object | None = None,
    ) -> None:
        """`gates`: as in `--feature-gates`. `pod_of`: by default, the pods given to `add`. `observer` hears first."""
        super().__init__()
        self.clock = VirtualClock() if clock is None else clock
        self.cache = cache
        self.reported = ReportedFailures() if reported is None else reported
        self.recorded = RecordedEvents()
        self.started = StartedPreemptions()
        self.observations = Observations()
        self.taken = ForeignBindings(self.observations, self.clock)
        config = default_configuration("kscheduler", parse_feature_gates(gates))
        ready = {profile.name: profile}
        ports = self.ports(
            statuses=self.reported,
            events=self.recorded,
            pod_of=pod_of or self.pod_of,
            observations=self.observations,
            extenders=lambda _: extenders,
            taken=self.taken,
            journal=observer,
        )
        assembly = Assembly(
            config,
            Registry(),
            ports,
            self.clock,
            cache=cache,
            build=lambda *_: ready,
            preemptions=self.started,
        )
        self.queue, self.waiting, self.in_pre_bind = assembly.queue, assembly.waiting, assembly.in_pre_bind
        self.failures, self.scheduler = assembly.failures, assembly.scheduler
        self.pod_handler, self.node_handler = assembly.pod_handler, assembly.node_handler
        self.handlers = assembly.handlers
        self.limit = AdaptiveLimit(limit, limit)
        self.workers = Workers(workers, self.queue, self.scheduler, self.limit, self.clock)
        self.wake = self.workers.wake

    def add(self, *pods: Pod) -> None:
        """Put pods that need a node into the store and the queue."""
        for pod in pods:
            self.stores[PODS].put(pod.key, pod)
            self.queue.add(PodInfo(pod), self.clock.time())

    def where(self, key: str) -> str:
        """The queue in which the pod waits; empty if none."""
        found = self.queue.find(key)
        return found[0] if found is not None else ""
