"""What surrounds a scheduling attempt, on a virtual clock and without an API server."""

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import Any

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.client.events import EventRecorder
from kscheduler.framework.events import ASSIGNED_POD_DELETE, NODE_ADD, ClusterEventWithHint
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.preemption import Preemption
from kscheduler.framework.status import SUCCESS
from kscheduler.scheduling.attempt.attempt import Scheduler
from kscheduler.scheduling.attempt.concurrency import AdaptiveLimit
from kscheduler.scheduling.attempt.surroundings import Announcer, Surroundings
from kscheduler.scheduling.attempt.workers import Workers
from kscheduler.scheduling.classes.signatures import Signatures
from kscheduler.scheduling.failures.failures import FailureHandler
from kscheduler.scheduling.failures.infeasible import KnownInfeasible
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.reports import Reporter
from kscheduler.state.backoff import BackoffPolicy
from kscheduler.state.cache import Cache
from kscheduler.state.hints import HintTable
from kscheduler.state.pods_in_pre_bind import PodsInPreBind
from kscheduler.state.queue import QueuePolicy, SchedulingQueue
from kscheduler.state.waiting_pods import WaitingPodTable


class Heard(EventRecorder):
    """Keeps the Events that it is told of."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def record(self, regarding: Any, **fields: Any) -> None:
        self.notes.append(f"{fields['type']} {fields['reason']}: {fields['note']}")


@dataclass
class Told:
    """Where failures are reported. Implements `FailureSink`."""

    reports: list[tuple[str, Condition, str]] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    nominations: list[str | None] = field(default_factory=list)
    classes: dict[Hashable, tuple[Collection[str], Condition]] = field(default_factory=dict)

    def report(self, pod: Pod, condition: Condition, note: str, nominated_node_name: str | None = None) -> None:
        self.reports.append((pod.key, condition, note))
        self.nominations.append(nominated_node_name)

    def report_class(self, name: Hashable, members: Collection[str], condition: Condition) -> None:
        self.classes[name] = (members, condition)

    def forget_class(self, name: Hashable) -> None:
        self.classes.pop(name, None)

    def withdraw(self, uid: str) -> None:
        self.withdrawn.append(uid)

    async def settled(self, uid: str) -> None:
        """Nothing is ever under way."""

    @property
    def notes(self) -> list[str]:
        """What was said, in order."""
        return [note for _, _, note in self.reports]


@dataclass
class Begun:
    """Preemptions that are to be carried out, and the pods that gave their node back. Implements `PreemptionRunner`."""

    preemptions: list[Preemption] = field(default_factory=list)
    given_back: list[str] = field(default_factory=list)
    on_begin: Callable[[], None] = lambda: None

    def begin(self, preemption: Preemption) -> None:
        self.on_begin()
        self.preemptions.append(preemption)

    def gave_node_back(self, pod: PodInfo) -> None:
        self.given_back.append(pod.key)


class Around:
    """A scheduler with one profile. Every plugin of it hears of nodes that come and pods that go."""

    def __init__(
        self,
        profile: Profile,
        cache: Cache,
        *,
        workers: int = 4,
        limit: int = 4,
        announcer: Announcer | None = None,
        in_pre_bind: PodsInPreBind | None = None,
    ) -> None:
        self.clock = VirtualClock()
        self.cache = cache
        self.store: dict[str, Pod] = {}
        self.told = Told()
        self.heard = Heard()
        self.begun = Begun()
        self.waiting = WaitingPodTable()
        self.observations = Observations()
        self.wake: Callable[[], None] = lambda: None
        self.class_of = Signatures({profile.name: profile}, cache.nominator).class_of
        self.queue = SchedulingQueue(self._policy(profile))
        self.failures = FailureHandler(self.queue, cache.nominator, self.store.get, self.told)
        surroundings = Surroundings(
            cache=cache,
            queue=self.queue,
            waiting=self.waiting,
            profiles={profile.name: profile},
            failures=self.failures,
            reporter=Reporter(self.heard),
            observations=self.observations,
            clock=self.clock,
            evictions=self.begun,
            announcer=announcer,
            in_pre_bind=in_pre_bind,
            infeasible=KnownInfeasible(self.class_of, lambda: cache.generation),
        )
        self.scheduler = Scheduler(surroundings)
        self.limit = AdaptiveLimit(limit, limit)
        self.workers = Workers(workers, self.queue, self.scheduler, self.limit, self.clock)

    def _policy(self, profile: Profile) -> QueuePolicy:
        both = (ClusterEventWithHint(NODE_ADD), ClusterEventWithHint(ASSIGNED_POD_DELETE))
        hints = HintTable({profile.name: {plugin.name: both for plugin in profile.instances}})
        sort = profile.queue_sort.sort_key
        return QueuePolicy(sort, lambda *_: SUCCESS, hints, BackoffPolicy(), lambda *_: self.wake(), self.class_of)

    def add(self, *pods: Pod) -> None:
        """Pods that want a node, in the store and in the queue."""
        for pod in pods:
            self.store[pod.key] = pod
            self.queue.add(PodInfo(pod), self.clock.time())

    def where(self, key: str) -> str:
        """The queue that a pod is in, or empty."""
        found = self.queue.find(key)
        return found[0] if found is not None else ""
