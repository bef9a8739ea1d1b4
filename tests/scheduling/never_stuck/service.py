"""The scheduler of a never-stuck run: the service's assembly, on a virtual clock.

What the API server would answer is up to the test: a Binding stays in flight until the test says what became of it.
Nothing runs by itself. A pod is tried when the test says so, and it may be taken out of the queue long before: what
happens meanwhile happens while it is in flight.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.api.kinds import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    WORKLOAD_KINDS,
    Kind,
)
from kscheduler.api.meta import Condition
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.assembly import Assembly, Ports
from kscheduler.assembly.ports import NoStatuses
from kscheduler.config.loader import default_configuration
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import SUCCESS, Status, error
from kscheduler.informers.informer import Informer
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.attempt.context import Attempt
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.failure import failure_of_record
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.stored_workloads import StoredWorkloads
from tests.scheduling.never_stuck.claims import StoredClaims, WrittenObjects
from tests.scheduling.never_stuck.server import WATCHED, Server

CONFIG: Final = default_configuration("kscheduler")
# Turns of the loop after which nothing in a service moves any more by itself.
_TURNS: Final = 12


@dataclass(slots=True)
class SentBinding:
    """A Binding that the server has, and has not answered."""

    pod: Pod
    node_name: str
    answer: "asyncio.Future[Status]"
    verdict: Status | None = None
    """What the server did with it; `None` until it got to it."""


@dataclass(slots=True)
class ReportedHold:
    """A pod that was taken out of the queue, and how its cycle went, if that was before what happened since."""

    queued: QueuedPodInfo
    record: SchedulingRecord | None = None


class Service:
    """The scheduler, and the server that it talks to."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = VirtualClock()
        self.informers: dict[Kind, Informer[Any]] = {kind: Informer(kind, clock=self.clock) for kind in WATCHED}
        self.server = Server(self.informers)
        self.bindings: dict[str, SentBinding] = {}
        """By UID."""
        self.held: list[ReportedHold] = []
        self.volume_writes_fail = False
        self._written = WrittenObjects(self.server)
        self.claims = StoredClaims(self._written)
        self._tasks: set[asyncio.Task[None]] = set()
        self.observations = _HeardHints()
        assembly = Assembly(CONFIG, registry(), self._ports(), self.clock)
        assembly.listen_to(self.informers)
        self.cache, self.queue, self.profiles = assembly.cache, assembly.queue, assembly.profiles
        self.failures, self.evictions, self.scheduler = assembly.failures, assembly.evictions, assembly.scheduler

    def _ports(self) -> Ports:
        return self._written.ports(
            binder=_Writer(self),
            statuses=_Conditions(self._written),
            volume_writer=_VolumeWriter(self),
            claim_storage=self.claims,
            pod_of=self.informers[PODS].store.get,
            workloads=StoredWorkloads(*(self.informers[kind].store for kind in WORKLOAD_KINDS)),
            observations=self.observations,
        )

    @property
    def hints(self) -> set[tuple[str, str, str]]:
        """What plugins have answered: plugin, event, answer."""
        return self.observations.hints

    def close(self) -> None:
        """Nothing of it is left."""
        for task in self._tasks:
            task.cancel()
        self.turn()
        self.loop.close()

    # --- time ---------------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Let tasks run until they wait for the test."""
        if self._tasks or len(self.evictions):
            self.loop.run_until_complete(_turns())

    def advance(self, seconds: float) -> None:
        """Time passes, and backoff with it."""
        self.loop.run_until_complete(self.clock.advance(seconds))
        self.queue.flush_backoff(self.clock.time())

    # --- attempts -----------------------------------------------------------------------------------------------------

    def pop(self) -> QueuedPodInfo | None:
        """The next pod, in flight from now on."""
        return self.queue.pop_nowait(self.clock.time())

    def hold(self, *, judged: bool) -> None:
        """Take a pod out of the queue and leave it there; `judged`: after its cycle, before anybody acts on that."""
        queued = self.pop()
        if queued is not None:
            self.held.append(
                ReportedHold(queued, self.loop.run_until_complete(self._judge(queued)) if judged else None)
            )

    async def _judge(self, queued: QueuedPodInfo) -> SchedulingRecord:
        """With what PostFilter wants done, as the attempt does: victims that it chooses begin to go meanwhile."""
        record = schedule(self.profiles[queued.pod.pod.spec.scheduler_name], queued.pod, self.cache)
        if record.preemption is not None:
            self.evictions.begin(record.preemption)
        return record

    def release(self) -> None:
        """Go on with the pod that was taken out first."""
        if not self.held:
            return
        held = self.held.pop(0)
        if held.record is None or held.record.status.is_success:
            self.decide(held.queued)
        else:
            self.failures.handle(held.queued, failure_of_record(held.record), self.clock.time())

    def try_next(self) -> bool:
        """Decide on the next pod; whether there was one."""
        queued = self.pop()
        if queued is not None:
            self.decide(queued)
        return queued is not None

    def decide(self, queued: QueuedPodInfo) -> None:
        """What a worker does with a pod."""
        self.loop.run_until_complete(self._decide(queued))
        self.turn()

    async def _decide(self, queued: QueuedPodInfo) -> None:
        attempt = self.scheduler.decide(queued)
        if attempt is not None:
            task = asyncio.create_task(self._bind(attempt))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _bind(self, attempt: Attempt) -> None:
        if await self.scheduler.await_permit(attempt) and await self.scheduler.pre_bind(attempt):
            await self.scheduler.bind(attempt)

    def is_binding(self) -> bool:
        """Whether some attempt has not come to its end."""
        return bool(self._tasks or len(self.evictions))

    # --- what the server does with Bindings ---------------------------------------------------------------------------

    def apply(self, uid: str, *, refused: bool) -> None:
        """The server gets to a Binding; nobody knows yet how it went."""
        sent = self.bindings[uid]
        if sent.verdict is None:
            sent.verdict = error("refused") if refused else self._applied(sent)

    def _applied(self, sent: SentBinding) -> Status:
        pod = self.server.get(PODS, sent.pod.key)
        if pod is None or pod["metadata"]["uid"] != sent.pod.metadata.uid:
            return error("not found")
        if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
            return error("conflict")
        pod["spec"]["nodeName"] = sent.node_name
        self.server.put(PODS, pod)
        return SUCCESS

    def answer(self, uid: str, *, refused: bool = False) -> None:
        """The answer to a Binding arrives."""
        self.apply(uid, refused=refused)
        sent = self.bindings.pop(uid)
        if not sent.answer.done():
            sent.answer.set_result(sent.verdict or SUCCESS)
        self.turn()


class _HeardHints(Observations):
    """Keeps what plugins have said of events."""

    def __init__(self) -> None:
        super().__init__()
        self.hints: set[tuple[str, str, str]] = set()

    def queueing_hint(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        super().queueing_hint(plugin, event, hint, seconds)
        self.hints.add((plugin, event, hint))


async def _turns() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)


class _Writer:
    """Sends Bindings. Implements `framework.handle.Writer`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def bind(self, pod: Pod, node_name: str) -> Status:
        sent = SentBinding(pod, node_name, asyncio.get_running_loop().create_future())
        self._service.bindings[pod.metadata.uid] = sent
        return await sent.answer


class _VolumeWriter:
    """Writes at once, as long as nobody else was faster. Implements `framework.cluster.volumes.VolumeWriter`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def bind_volume(self, volume: PersistentVolume) -> PersistentVolume | Status:
        written: PersistentVolume | Status = self._write(PERSISTENT_VOLUMES, volume, "spec")
        return written

    async def select_node(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim | Status:
        written: PersistentVolumeClaim | Status = self._write(PERSISTENT_VOLUME_CLAIMS, claim, "metadata")
        return written

    def _write(self, kind: Kind, obj: Any, part: str) -> Any:
        tree = self._service.server.get(kind, obj.key)
        if self._service.volume_writes_fail:
            return error("refused")
        if tree is None or tree["metadata"]["resourceVersion"] != obj.metadata.resource_version:
            return error("conflict")
        tree["metadata"]["annotations"] = dict(obj.metadata.annotations)
        if part == "spec":
            tree["spec"]["claimRef"] = msgspec.to_builtins(obj.spec.claim_ref)
        return convert(self._service.server.put(kind, tree), kind.type)


class _Conditions(NoStatuses):
    """Failures become conditions, and so come back as updates; one that is there already does not."""

    def __init__(self, written: WrittenObjects) -> None:
        self._written = written

    def report(self, pod: Pod, condition: Condition, note: str, nominated_node_name: str | None = None) -> None:
        del note
        timeless = Condition(type=condition.type, status=condition.status, message=condition.message)
        self._written.apply_status(pod, timeless, nominated_node_name)

    async def patch_pod_status(self, pod: Pod, condition: Condition | None, nominated_node_name: str) -> bool:
        """Take a nomination back."""
        del condition
        current = self._written.current(pod)
        if current is None or current.status.nominated_node_name == nominated_node_name:
            return False
        self._written.apply_status(pod, None, nominated_node_name)
        return True
