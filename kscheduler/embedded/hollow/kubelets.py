"""Hollow kubelets: a process simulates the kubelets of all nodes over HTTP, for the embedded or a real API server.

The problem: a scheduler is only half tested while bound pods stay Pending and overcommitted nodes go unnoticed. The
idea: informers on pods and nodes feed `KubeletState`, which checks with its own sums; a few workers write its
decisions: Running, Failed with the kubelet's reason, Succeeded after a while, the final delete of terminating pods.

A pod's run time is the annotation `simulation.kscheduler.io/run-seconds`, or for a Job's pod a time drawn from the seed
and its UID, or a second for a hook of Helm; other pods run until they are deleted. A pod succeeds unless the annotation
`simulation.kscheduler.io/exit-code` says otherwise.

A pod with device claims starts when they are prepared (`prepared_claims`); until then an Event says why it does not.

Limits: containers never restart, images take no time, volumes are ignored. A rejection is checked again
with the API server before it is reported, because the watch may be late to show that a pod has gone.
"""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Generic, TypeVar

import msgspec

from kscheduler.aio import REAL_CLOCK, BackgroundService, Clock, TaskSet, running
from kscheduler.api.core import Node, NodeStatus, Pod
from kscheduler.api.kinds import PODS, Kind
from kscheduler.api.meta import KubeObject, Value, rfc3339
from kscheduler.client.access.connection import Connection, plain_connection
from kscheduler.client.errors import APIError, ClientError
from kscheduler.client.lists import ListDecoder
from kscheduler.client.pod_writes import PodWriter, pod_path
from kscheduler.client.rest import STRATEGIC_MERGE, APIClient
from kscheduler.embedded.hollow import heartbeats
from kscheduler.embedded.hollow.heartbeats import HeartbeatRates, Heartbeats
from kscheduler.embedded.hollow.kubelet_state import Deed, KubeletState, Task, every_node
from kscheduler.embedded.hollow.prepared_claims import ClaimPreparation
from kscheduler.informers import Informer, InformerFactory
from kscheduler.telemetry.logs import get_logger

log = get_logger(__name__)

T = TypeVar("T", bound=KubeObject)

# Annotation: the pod ends after this number of seconds.
RUN_SECONDS = "simulation.kscheduler.io/run-seconds"
# Annotation: the exit code of its containers; anything but 0 means that the pod fails.
EXIT_CODE = "simulation.kscheduler.io/exit-code"
# Annotation: Helm waits for the end of this pod (`helm test`); one that ran forever would hang it.
HELM_HOOK = "helm.sh/hook"
# Concurrent status reports.
WORKERS = 16

_RETRY_SECONDS = 0.5
_HOOK_SECONDS = 1.0
# Between attempts to prepare a pod's claims.
_PREPARE_SECONDS = 0.5
_JOB_SECONDS = (5.0, 30.0)
_FIRST_POD_ADDRESS = int(IPv4Address("10.128.0.1"))
_POD_ADDRESSES = 2**22
_UNKNOWN_HOST = "192.0.2.1"


class NodeAddress(Value, frozen=True):
    """One of a node's addresses."""

    type: str = ""
    address: str = ""


class AddressedStatus(NodeStatus, frozen=True):
    """A node's status with the addresses, which kubelets need."""

    addresses: tuple[NodeAddress, ...] = ()


class AddressedNode(Node):
    """A node with addresses."""

    status: AddressedStatus = msgspec.field(default_factory=AddressedStatus)


ADDRESSED_NODES = Kind("", "v1", "nodes", "Node", AddressedNode)


@dataclass(frozen=True, slots=True)
class KubeletStatistics:
    """Counts since the start; `nodes` and `running` are now."""

    nodes: int
    running: int
    started: int
    """Pods reported Running."""
    rejected: int
    finished: int
    """Pods reported Succeeded."""
    removed: int
    """Terminating pods deleted for good."""
    waiting: int
    """Reports not yet sent."""


class HollowKubelets:
    """The kubelets of all hollow nodes; `run` is a service."""

    def __init__(
        self,
        client: APIClient,
        *,
        seed: int = 0,
        workers: int = WORKERS,
        heartbeats: HeartbeatRates | None = None,
        is_hollow: Callable[[Node], bool] = every_node,
        clock: Clock = REAL_CLOCK,
    ) -> None:
        """`clock` is for run times and heartbeats; `heartbeats` None sends none."""
        self._client = client
        self._writer = PodWriter(client)
        self._clock = clock
        self._seed = seed
        self._workers = workers
        self._state = KubeletState(is_hollow)
        self._tasks: asyncio.Queue[Task] = asyncio.Queue()
        self._counts = dict.fromkeys(Deed, 0)
        self._addresses = itertools.count()
        self._later = TaskSet("later work of kubelets", clock)
        self._pods_of_list: ListDecoder[Pod] = ListDecoder(PODS)
        self._factory = InformerFactory(client, (PODS, ADDRESSED_NODES))
        self._pods: Informer[Pod] = self._factory.informer(PODS)
        self._nodes: Informer[AddressedNode] = self._factory.informer(ADDRESSED_NODES)
        self._heartbeats = heartbeats
        self._claims = ClaimPreparation(client)
        self._has_lists = False

    def statistics(self) -> KubeletStatistics:
        counts = self._counts
        return KubeletStatistics(
            nodes=len(self._state.node_names()),
            running=len(self._state),
            started=counts[Deed.RUN],
            rejected=counts[Deed.REJECT],
            finished=counts[Deed.FINISH],
            removed=counts[Deed.REMOVE],
            waiting=self._tasks.qsize(),
        )

    async def settle(self) -> None:
        """Return when every due report has been answered."""
        await self._tasks.join()

    async def run(self) -> None:
        """Run until cancelled."""
        self._pods.store.add_index("node", lambda pod: (pod.spec.node_name,) if pod.spec.node_name else ())
        self._pods.add_handler(_Ear(self._see_pod, self._forget_pod))
        self._nodes.add_handler(_Ear(self._see_node, self._forget_node))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._factory.run(), name="kubelet informers")
                group.create_task(self._begin(), name="kubelet first lists")
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"kubelet worker {number}")
                if self._heartbeats is not None:
                    names = self._state.node_names
                    beats = Heartbeats(self._client, names, self._heartbeats, self._clock)
                    group.create_task(beats.run(), name="heartbeats")
        finally:
            await self._later.cancel_all()

    # --- pods and nodes -----------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Check no pod before both first lists are complete, since running pods take their room first."""
        await self._nodes.wait_until_synced()
        await self._pods.wait_until_synced()
        self._has_lists = True
        for node in self._nodes.store.list():
            self._see_node(node)

    def _see_pod(self, pod: Pod) -> None:
        if self._has_lists and (task := self._state.see(pod)) is not None:
            self._tasks.put_nowait(task)

    def _forget_pod(self, pod: Pod) -> None:
        self._state.forget(pod)
        self._claims.release(pod)

    def _see_node(self, node: Node) -> None:
        if not self._has_lists:
            return
        # Pods of an unknown node were ignored so far: a new node brings all of its pods, running ones first.
        is_new = self._state.set_node(node)
        pods = self._pods.store.by_index("node", node.metadata.name)
        if not is_new:
            # The node may be back: look again at pods that were marked as not ready meanwhile.
            for pod in pods:
                if self._state.holds(pod.metadata.uid):
                    self._see_pod(pod)
            return
        for task in self._state.see_all(pods):
            self._tasks.put_nowait(task)
        for pod in pods:
            if pod.status.phase == "Running":
                self._finish_later(pod)

    def _forget_node(self, node: Node) -> None:
        self._state.remove_node(node.metadata.name)

    # --- tasks --------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            task = await self._tasks.get()
            if await self._done(task):
                self._tasks.task_done()
            else:
                self._later.spawn(task.pod.key, self._try_again(task))

    async def _try_again(self, task: Task) -> None:
        await REAL_CLOCK.sleep(_RETRY_SECONDS)
        if task.deed is Deed.REMOVE or task.deed is Deed.REJECT or self._state.holds(task.pod.metadata.uid):
            self._tasks.put_nowait(task)
        self._tasks.task_done()

    async def _done(self, task: Task) -> bool:
        """Execute a task; False if it must be tried again. A refusal is final: the pod is gone or has ended."""
        try:
            await self._do(task)
        except APIError as error:
            if error.is_too_many_requests or error.is_server_error:
                return False
            if error.code not in (404, 409):
                log.warning("kubelet_report_refused", pod=task.pod.key, deed=task.deed, err=error)
        except ClientError as error:
            log.debug("kubelet_report_sent_again", pod=task.pod.key, deed=task.deed, err=error)
            return False
        return True

    async def _do(self, task: Task) -> None:
        match task.deed:
            case Deed.RUN:
                if not await self._start(task.pod):
                    return
            case Deed.REJECT:
                await self._check_and_reject(task)
            case Deed.FINISH:
                started = task.pod.status.start_time or self._now()
                await self._patch(task.pod, heartbeats.ended(task.pod, started, self._now(), exit_code(task.pod)))
            case Deed.READY:
                await self._patch(task.pod, heartbeats.ready_again(task.pod, self._now()))
            case Deed.REMOVE:
                meta = task.pod.metadata
                await self._writer.delete_pod(meta.namespace, meta.name, meta.uid, grace_period_seconds=0)
        if task.deed is not Deed.REJECT:
            self._counts[task.deed] += 1

    async def _start(self, pod: Pod) -> bool:
        """Whether it has started; a pod whose claims are not prepared is tried again, as it will be then."""
        if not await self._claims.prepare(pod, self._now()):
            self._later.spawn(pod.key, self._start_later(pod))
            return False
        host = _address_of(self._state.node(pod.spec.node_name))
        address = host if pod.spec.host_network else self._next_address()
        await self._patch(pod, heartbeats.running(pod, host, address, self._now()))
        self._finish_later(pod)
        return True

    async def _start_later(self, pod: Pod) -> None:
        await REAL_CLOCK.sleep(_PREPARE_SECONDS)
        now = self._pods.store.get(pod.key)
        if now is not None and now.metadata.uid == pod.metadata.uid and self._state.holds(pod.metadata.uid):
            self._tasks.put_nowait(Task(Deed.RUN, now))

    async def _check_and_reject(self, task: Task) -> None:
        name = task.pod.spec.node_name
        self._state.keep_only(name, await self._uids_on(name))
        judged = self._state.judge(task.pod)
        if judged is None:
            return
        if judged.refusal is None:
            self._tasks.put_nowait(judged)
            return
        await self._patch(task.pod, heartbeats.rejected(task.pod, judged.refusal, self._now()))
        self._counts[Deed.REJECT] += 1
        log.warning("pod_rejected_by_kubelet", pod=task.pod.key, node=name, reason=judged.refusal.reason)

    async def _uids_on(self, node: str) -> set[str]:
        selector = f"{PODS.field_selector},spec.nodeName={node}"
        page = self._pods_of_list.decode(await self._client.get(PODS.path, {"fieldSelector": selector}))
        return {pod.metadata.uid for pod in page.items}

    async def _patch(self, pod: Pod, body: bytes) -> None:
        path = f"{pod_path(pod.metadata.namespace, pod.metadata.name)}/status"
        await self._client.patch(path, body, STRATEGIC_MERGE)

    def _finish_later(self, pod: Pod) -> None:
        seconds = run_seconds(pod, self._seed)
        if seconds is not None:
            self._later.spawn(pod.key, self._finish_after(pod, seconds))

    async def _finish_after(self, pod: Pod, seconds: float) -> None:
        await self._clock.sleep(seconds)
        if self._state.holds(pod.metadata.uid):
            self._tasks.put_nowait(Task(Deed.FINISH, pod))

    def _next_address(self) -> str:
        return str(IPv4Address(_FIRST_POD_ADDRESS + next(self._addresses) % _POD_ADDRESSES))

    def _now(self) -> str:
        return rfc3339(self._clock.time())


class _Ear(Generic[T]):
    """An informer's handler that is interested in the newest state only."""

    def __init__(self, see: Callable[[T], None], forget: Callable[[T], None]) -> None:
        self._see = see
        self._forget = forget

    def on_add(self, obj: T, initial: bool) -> None:
        """A new object."""
        del initial
        self._see(obj)

    def on_update(self, old: T, new: T) -> None:
        """A changed object."""
        del old
        self._see(new)

    def on_delete(self, obj: T) -> None:
        """A deleted object."""
        self._forget(obj)


def run_seconds(pod: Pod, seed: int) -> float | None:
    """The pod's run time: its annotation, or 1 s for a hook of Helm, 5 to 30 s for a Job's pod, or `None` forever."""
    written = pod.metadata.annotations.get(RUN_SECONDS)
    if written is not None:
        try:
            return max(0.0, float(written))
        except ValueError:
            log.warning("annotation_not_a_number_of_seconds", pod=pod.key, annotation=RUN_SECONDS, value=written)
    if HELM_HOOK in pod.metadata.annotations:
        return _HOOK_SECONDS
    if any(owner.kind == "Job" for owner in pod.metadata.owner_references):
        return random.Random(f"{seed}/{pod.metadata.uid}").uniform(*_JOB_SECONDS)
    return None


def exit_code(pod: Pod) -> int:
    """The exit code of the pod's containers; there are no restarts, so anything but 0 ends the pod."""
    written = pod.metadata.annotations.get(EXIT_CODE, "0")
    return int(written) if written.isdigit() else 0


def _address_of(node: Node | None) -> str:
    addresses = node.status.addresses if isinstance(node, AddressedNode) else ()
    return next((address.address for address in addresses if address.type == "InternalIP"), _UNKNOWN_HOST)


@asynccontextmanager
async def hollow_kubelets(
    server: str | Connection,
    *,
    seed: int = 0,
    heartbeats: HeartbeatRates | None = None,
    is_hollow: Callable[[Node], bool] = every_node,
) -> AsyncIterator[HollowKubelets]:
    """Run kubelets with their own client while the body runs. `server` is a plain URL or a connection."""
    connection = plain_connection(server) if isinstance(server, str) else server
    async with APIClient(connection) as client:
        kubelets = HollowKubelets(client, seed=seed, heartbeats=heartbeats, is_hollow=is_hollow)
        async with running(BackgroundService("hollow kubelets", kubelets.run)):
            yield kubelets
