"""Which bound pods have an Event of their own, by `--scheduled-events`.

The problem: each bound pod has an Event, `Scheduled`. It costs the API server and etcd more than a millisecond of CPU,
as much as half a Binding, and says little that `spec.nodeName` does not. The idea: of what went well less may be said;
of failures nothing is left out.

    all       each pod, as in kube-scheduler
    sampled   of the pods of an owner the first in each minute, then each hundredth; of a namespace at most 60 a minute
    summed    one Event about the owner: how many of its pods were bound to how many nodes. It is sent when the owner
              has been quiet for 5 seconds, at the latest a minute after the first of these pods
    none      no pod

An owner is the pod's controller: a ReplicaSet, a Job, a StatefulSet or whatever else. The pods of a namespace that have
none are sampled as if they had one in common. They are not summed: each has its own Event.

Limits: a tenant names owners as he likes. So an owner is told apart by namespace and UID, one with longer names than
the API server gives is none, and each table drops the entry that was used longest ago: its sum is sent early, and in
`sampled` its next pod is a first one, within what its namespace may have.
"""

from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.api.core import Pod
from kscheduler.api.meta import OwnerReference
from kscheduler.bounded import RecentlyUsed
from kscheduler.client.events.recorder import EventReference

# The values of `--scheduled-events`.
ScheduledEvents = Literal["all", "sampled", "summed", "none"]

WINDOW_SECONDS: Final = 60.0
# `sampled`: of the pods of an owner in a minute, besides the first.
EACH: Final = 100
MOST_OF_NAMESPACE: Final = 60
# `summed`: the sum is sent after so long without a further pod.
QUIET_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 1.0
# Owners that are kept at a time; as many namespaces.
MOST_OWNERS: Final = 4096
# Names of nodes in all sums together.
MOST_NODES: Final = 65_536
# In each word of a reference; names of objects, kinds and groups have at most 253 characters.
_LONGEST_WORD: Final = 512


class SuccessPolicy(Protocol):
    """Decides about the Events of bound pods."""

    @property
    def omitted(self) -> int:
        """How many pods have had no Event of their own."""
        ...

    def has_own(self, pod: Pod, node_name: str) -> bool:
        """Whether this pod, just bound to this node, gets an Event of its own. Called once for each pod."""
        ...


class RecordSum(Protocol):
    """`EventRecorder.record`, as far as sums need it."""

    def __call__(
        self,
        regarding: EventReference,
        *,
        type: str,  # noqa: A002  # the field's name in the API
        reason: str,
        action: str,
        note: str,
        reporting_controller: str,
    ) -> object: ...


class NoPod:
    """`none`."""

    def __init__(self) -> None:
        self.omitted = 0

    def has_own(self, pod: Pod, node_name: str) -> bool:
        del pod, node_name
        self.omitted += 1
        return False


class SampledPods:
    """`sampled`: minutes are those of the clock, the same for all owners."""

    def __init__(self, clock: Clock = REAL_CLOCK) -> None:
        self.omitted = 0
        self._clock = clock
        self._window = -1.0
        self._of_owner: RecentlyUsed[tuple[str, str], int] = RecentlyUsed(MOST_OWNERS)
        """Pods in this minute, by namespace and the owner's UID."""
        self._of_namespace: RecentlyUsed[str, int] = RecentlyUsed(MOST_OWNERS)
        """Events in this minute."""

    def has_own(self, pod: Pod, node_name: str) -> bool:
        del node_name
        window = self._clock.monotonic() // WINDOW_SECONDS
        if window != self._window:
            self._window = window
            self._of_owner.clear()
            self._of_namespace.clear()
        namespace, owner = pod.metadata.namespace, owner_of(pod)
        key = namespace, owner.uid if owner is not None else ""
        earlier = self._of_owner.get(key, 0)
        self._of_owner.put(key, earlier + 1)
        if not earlier or not (earlier + 1) % EACH:
            events = self._of_namespace.get(namespace, 0)
            if events < MOST_OF_NAMESPACE:
                self._of_namespace.put(namespace, events + 1)
                return True
        self.omitted += 1
        return False


@dataclass(slots=True)
class _Sum:
    """Pods of one owner that were bound and are not reported."""

    owner: OwnerReference
    namespace: str
    scheduler_name: str
    began: float
    """When the first was bound, in monotonic seconds; `last_at`: the last."""
    last_at: float
    last: str
    """Its key, and no pod: that may be large."""
    last_node: str
    pods: int = 0
    nodes: set[str] = field(default_factory=set)

    def is_due(self, now: float) -> bool:
        return now - self.last_at >= QUIET_SECONDS or now - self.began >= WINDOW_SECONDS

    @property
    def note(self) -> str:
        """In kube-scheduler's words, as far as they go."""
        last = f"{self.last} to {self.last_node}"
        if self.pods == 1:
            return f"Successfully assigned {last}"
        nodes = "1 node" if len(self.nodes) == 1 else f"{len(self.nodes)} nodes"
        return f"Successfully assigned {self.pods} pods to {nodes}, the last one {last}"


class SummedPods:
    """`summed`. `run` sends the sums that are due, `flush` all that there are."""

    def __init__(self, record: RecordSum, clock: Clock = REAL_CLOCK) -> None:
        self.omitted = 0
        self._record = record
        self._clock = clock
        self._sums: RecentlyUsed[tuple[str, str, str], _Sum] = RecentlyUsed(MOST_OWNERS)
        """By namespace, the owner's UID and scheduler name."""
        self._nodes = 0
        """Names of nodes in all sums."""

    def has_own(self, pod: Pod, node_name: str) -> bool:
        owner = owner_of(pod)
        if owner is None:
            return True
        self.omitted += 1
        namespace, scheduler_name, now = pod.metadata.namespace, pod.spec.scheduler_name, self._clock.monotonic()
        key = namespace, owner.uid, scheduler_name
        found = self._sums.use(key)
        if found is None:
            found = _Sum(owner, namespace, scheduler_name, now, now, pod.key, node_name)
            evicted = self._sums.put(key, found)
            if evicted is not None:
                self._send(evicted)
        found.pods += 1
        found.last_at, found.last, found.last_node = now, pod.key, node_name
        if node_name not in found.nodes:
            found.nodes.add(node_name)
            self._nodes += 1
            while self._nodes > MOST_NODES:
                self._send(self._sums.popitem(last=False)[1])
        return False

    async def run(self) -> None:
        """Send each sum when it is due, until cancelled."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            now = self._clock.monotonic()
            for key in [key for key, each in self._sums.items() if each.is_due(now)]:
                self._send(self._sums.pop(key))

    async def flush(self) -> None:
        """Send all sums: nothing more will be bound."""
        while self._sums:
            self._send(self._sums.popitem(last=False)[1])

    def _send(self, summed: _Sum) -> None:
        """Report a sum that has left the table."""
        self._nodes -= len(summed.nodes)
        owner = summed.owner
        self._record(
            EventReference(owner.api_version, owner.kind, summed.namespace, owner.name, owner.uid),
            type="Normal",
            reason="Scheduled",
            action="Binding",
            note=summed.note,
            reporting_controller=summed.scheduler_name,
        )


def owner_of(pod: Pod) -> OwnerReference | None:
    """The pod's controller; `None`: it has none, or one whose reference is no sound one."""
    owner = pod.metadata.controller if pod.metadata.owner_references else None
    if owner is None or not owner.uid:
        return None
    words = owner.uid, owner.name, owner.kind, owner.api_version
    return owner if max(map(len, words)) <= _LONGEST_WORD else None


def success_policy(events: ScheduledEvents, record: RecordSum, clock: Clock = REAL_CLOCK) -> SuccessPolicy | None:
    """The policy of this value of the flag; `None`: each pod has its Event."""
    match events:
        case "all":
            return None
        case "sampled":
            return SampledPods(clock)
        case "summed":
            return SummedPods(record, clock)
        case "none":
            return NoPod()
