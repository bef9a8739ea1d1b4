"""What DynamicResources wants written: claims of a pod before it is bound, and after it was not.

Three rules keep a device from being given away twice:

- The devices of a claim stay pending until its write is certain, applied or not; then the answer of the API server is
  what decisions see (`Claims.assume`), before anything pending is given back.
- A write that was sent is never cancelled: it has a task of its own. If PreBind is cancelled meanwhile, what the pod
  has reserved is given back when the outcome is known.
- Requests for one claim and pod follow each other: a pod that is tried again waits until its earlier reservation is
  taken away, or its claim freed. Otherwise a late request would undo what the new attempt has written.

kube-scheduler up to 1.37 restores a claim to what its informer last showed if a later claim of the pod cannot be
written. Until the watch catches up, the devices of the written claim then seem free; here, as in 1.38, they do not.
"""

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final

from kscheduler.aio.clock import Clock
from kscheduler.aio.tasks import TaskSet
from kscheduler.api.codec import UndecodableError
from kscheduler.api.core import PodExtendedResourceClaimStatus
from kscheduler.api.devices import ResourceClaim, ResourceClaimConsumerReference
from kscheduler.client.errors import ClientError
from kscheduler.framework.cluster.claim_writing import ClaimRules, Deallocation, PodReservation, ReservedClaim
from kscheduler.framework.cluster.devices import Claims
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, error
from kscheduler.scheduling.attempt_events import ClaimAssumed, ClaimCreated, ClaimNoLongerPending, ClaimStaysPending
from kscheduler.scheduling.claims import claim_write
from kscheduler.scheduling.claims.claim_storage import ClaimStorage, failure_text, fault_of, is_not_found
from kscheduler.scheduling.claims.claim_write import ClaimWrite, ClaimWriteError, ConditionWait
from kscheduler.scheduling.observers import Observers
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught

_log = get_logger(__name__)

# How long a stop waits for requests that have begun.
DRAIN_SECONDS: Final = 5.0
# After a claim could not be freed, until its pod is tried again: no event would wake it.
PAUSE_SECONDS: Final = 5.0
# How long to wait until the watch shows a claim that was created.
INFORMER_SECONDS: Final = 120.0

# UIDs of claim and pod.
_RequestKey = tuple[str, str]


class ClaimCommits:
    """Implements `framework.cluster.claim_writing.ClaimWriter`. `run` owns the tasks."""

    def __init__(
        self,
        storage: ClaimStorage,
        claims: Claims,
        activate: Callable[[Collection[str]], None],
        observers: Observers,
        clock: Clock,
    ) -> None:
        """`activate` moves the pods with these keys to the active queue."""
        self._storage = storage
        self._claims = claims
        self._activate = activate
        self._observers = observers
        self._tell = observers.tell
        self._clock = clock
        self._tasks = TaskSet("claim", clock)
        self._pauses = TaskSet("claim-pause", clock)
        self._writing: dict[ReservedClaim, asyncio.Task[object]] = {}
        self._newest_write: dict[str, asyncio.Task[object]] = {}
        """By the claim's UID: pods that share a claim write it one after the other, so that none meets a 409."""
        self._undoing: dict[_RequestKey, asyncio.Task[object]] = {}
        """Reservations that are being taken away."""
        self._freeing: dict[str, asyncio.Task[object]] = {}
        """By the claim's UID."""

    def __len__(self) -> int:
        return self._tasks.statistics().running

    async def run(self) -> None:
        """Own the tasks, until cancelled."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await self._pauses.cancel_all()
            await self._tasks.cancel_all()

    async def stop(self) -> bool:
        """Give requests that have begun a few seconds. Returns whether all have ended."""
        await self._pauses.cancel_all()
        drained = await self._tasks.drain(DRAIN_SECONDS)
        if not drained:
            _log.warning("claims_not_drained", requests=len(self), seconds=DRAIN_SECONDS)
        return drained

    # --- PreBind ------------------------------------------------------------------------------------------------------

    async def pre_bind(self, reservation: PodReservation, rules: ClaimRules) -> Status:
        """Write what the pod needs of its claims, then wait for binding conditions."""
        for reserved in reservation.claims:
            if not (reserved.mappings or reserved.claim.metadata.resource_version):
                continue  # the extended resources of the pod are all served by a device plugin
            status = await self._commit(reservation.pod, reserved, rules)
            if not status.is_success:
                return status
            if not rules.keeps_pending:
                self._written(reserved)
        if rules.has_binding_conditions:
            wait = ConditionWait(self._claims, self._observers, self._clock)
            status = await wait.until_ready(reservation, rules.binding_timeout_seconds)
            if not status.is_success:
                return status
        for reserved in reservation.claims:
            self._written(reserved)
        return SUCCESS

    async def _commit(self, pod: PodInfo, reserved: ReservedClaim, rules: ClaimRules) -> Status:
        await self._earlier_requests(pod.uid, reserved.claim.metadata.uid)
        uid = reserved.claim.metadata.uid
        in_turn = self._in_turn(self._newest_write.get(uid), pod, reserved, rules)
        task = self._tasks.spawn(f"write {reserved.claim.key}", self._guarded(in_turn, pod))
        self._newest_write[uid] = task
        task.add_done_callback(partial(_forget, self._newest_write, uid))
        self._writing[reserved] = task
        task.add_done_callback(lambda _: self._writing.pop(reserved, None))
        status = await asyncio.shield(task)
        return status if isinstance(status, Status) else SUCCESS

    async def _in_turn(
        self, before: "asyncio.Task[object] | None", pod: PodInfo, reserved: ReservedClaim, rules: ClaimRules
    ) -> Status:
        if before is not None:
            await asyncio.wait({before})
        write = self._write_extended if reserved.mappings else self._write
        return await write(pod, reserved, rules)

    async def _earlier_requests(self, pod_uid: str, claim_uid: str) -> None:
        """Wait for requests of an earlier attempt of the pod, and for one that frees the claim."""
        earlier = [self._undoing.get((claim_uid, pod_uid)), self._freeing.get(claim_uid)]
        if tasks := [task for task in earlier if task is not None]:
            await asyncio.wait(tasks)

    async def _guarded(self, work: Any, pod: PodInfo) -> Status:
        """What `work` answers; a bug is the pod's failure, and does not end the tasks of others."""
        try:
            status: Status = await work
        except (ClientError, UndecodableError, ClaimWriteError) as failure:
            fault = failure.fault if isinstance(failure, ClaimWriteError) else fault_of(failure)
            return error(failure_text(failure), fault=fault)
        except Exception as failure:  # noqa: BLE001  the per-pod task: its failure is that pod's failure
            count_caught(Boundary.POD_TASK)
            _log.exception("claim_not_written", pod=pod.key)
            return error(f"{type(failure).__name__}: {failure}")
        return status

    async def _write(self, pod: PodInfo, reserved: ReservedClaim, rules: ClaimRules) -> Status:
        claim = reserved.claim
        write = ClaimWrite(
            self._storage,
            self._clock,
            claim,
            reserved.allocation,
            consumer_of(pod),
            needs_allocation=rules.has_binding_conditions,
            is_current=self._is_current(claim),
            is_of_group=reserved.is_of_group,
            on_doubt=partial(_report_doubt, pod, claim),
        )
        try:
            reserved.claim = await write.run()
        except ClaimWriteError:
            # It may hold what we wrote when the answer was lost, and somebody else has taken our reservation away.
            # The watch has yet to show that, and what is pending is given back now.
            if write.seen is not None:
                self._assume(write.seen)
            raise
        self._assume(reserved.claim)
        return SUCCESS

    def _is_current(self, claim: ResourceClaim) -> bool:
        """Whether the claim is the newest known, has no devices and is not being deleted."""
        known, meta = self._claims.get(claim.key), claim.metadata
        if known is None or known.status.allocation is not None or known.metadata.deletion_timestamp is not None:
            return False
        version = known.metadata.uid, known.metadata.resource_version
        return version == (meta.uid, meta.resource_version) and bool(meta.resource_version)

    def _assume(self, claim: ResourceClaim) -> None:
        """Let decisions see the API server's answer."""
        self._tell(ClaimAssumed(claim))
        try:
            self._claims.assume(claim)
        except ValueError as reason:  # it is gone, or the watch was faster: decisions see the newest state in any case
            _log.debug("claim_answer_is_old", claim=claim.key, why=str(reason))

    def _written(self, reserved: ReservedClaim) -> None:
        if reserved.pending_uid:
            self._tell(ClaimNoLongerPending(reserved.pending_uid, force=True))
            self._no_longer_pending(reserved, force=True)

    def _no_longer_pending(self, reserved: ReservedClaim, *, force: bool) -> None:
        uid, reserved.pending_uid = reserved.pending_uid, ""
        if uid:
            self._claims.remove_pending(uid, force=force)

    # --- extended resources -------------------------------------------------------------------------------------------

    async def _write_extended(self, pod: PodInfo, reserved: ReservedClaim, rules: ClaimRules) -> Status:
        """Create the claim, write its allocation, and name it in the pod's status."""
        reserved.claim = await self._create(pod, reserved.claim)
        await self._write(pod, reserved, rules)
        await self._shown(reserved.claim)
        self._assume(reserved.claim)
        status = PodExtendedResourceClaimStatus(reserved.mappings, reserved.claim.metadata.name)
        try:
            await self._storage.report_pod(pod.pod, status)
        except ClientError as failure:
            text = f"update pod {pod.key} ExtendedResourceClaimStatus: {failure_text(failure)}"
            return error(text, fault=fault_of(failure))
        return SUCCESS

    async def _create(self, pod: PodInfo, claim: ResourceClaim) -> ResourceClaim:
        try:
            stored = await self._storage.create(claim, f"{pod.pod.metadata.name}-extended-resources-")
        except ClientError as failure:
            self._tell(ClaimCreated(is_created=False))
            text = f"create claim for extended resources {claim.key}: {failure_text(failure)}"
            raise ClaimWriteError(text, fault_of(failure)) from failure
        self._tell(ClaimCreated(is_created=True))
        return stored.claim

    async def _shown(self, claim: ResourceClaim) -> None:
        """Wait until the watch has shown the claim: what is unknown cannot be assumed."""
        for _ in range(int(INFORMER_SECONDS)):
            if self._claims.confirmed(claim.key) is not None:
                return
            await self._clock.sleep(1.0)
        _log.warning("claim_not_shown", claim=claim.key, seconds=INFORMER_SECONDS)

    # --- Unreserve ----------------------------------------------------------------------------------------------------

    def unreserve(self, reservation: PodReservation) -> None:
        """Give back what is pending at once, and what was written by requests that run beside."""
        for reserved in reservation.claims:
            writing = self._writing.get(reserved)
            if writing is None:
                self._no_longer_pending(reserved, force=False)
                if not self._must_be_undone(reservation.pod, reserved):
                    continue
            elif reserved.pending_uid:
                self._tell(ClaimStaysPending(reserved.pending_uid))
            pod, claim = reservation.pod, reserved.claim
            key = claim.metadata.uid, pod.uid
            # An earlier attempt's may still run: the newest must not be undone by an older one.
            before = [each for each in (self._undoing.get(key), writing) if each is not None]
            task = self._tasks.spawn(f"undo {claim.key}", self._undo(pod, reserved, before))
            self._undoing[key] = task
            task.add_done_callback(partial(_forget, self._undoing, key))

    def _must_be_undone(self, pod: PodInfo, reserved: ReservedClaim) -> bool:
        """Whether the API server has something of this attempt, or of one before it."""
        if reserved.mappings:
            return bool(reserved.claim.metadata.resource_version)
        return is_reserved(self._newest(reserved.claim), pod.uid)

    def _newest(self, claim: ResourceClaim) -> ResourceClaim:
        known = self._claims.get(claim.key)
        return known if known is not None and known.metadata.uid == claim.metadata.uid else claim

    async def _undo(self, pod: PodInfo, reserved: ReservedClaim, before: "Collection[asyncio.Task[object]]") -> None:
        if before:
            await asyncio.wait(before)
            if reserved.pending_uid:
                self._tell(ClaimNoLongerPending(reserved.pending_uid, force=False))
                self._no_longer_pending(reserved, force=False)
            if not self._must_be_undone(pod, reserved):
                return
        claim = reserved.claim
        meta = claim.metadata
        try:
            if reserved.mappings:
                await claim_write.delete(self._storage, self._clock, claim)
                return
            released = await self._storage.release(meta.namespace, meta.name, meta.uid, pod.uid)
            self._assume(released.claim)
        except (ClientError, UndecodableError) as failure:
            if not is_not_found(failure):
                _log.warning("claim_not_unreserved", claim=claim.key, pod=pod.key, err=str(failure))

    # --- PostFilter ---------------------------------------------------------------------------------------------------

    def free(self, deallocation: Deallocation) -> None:
        """Clear a claim's allocation; while that is under way, asking again does nothing."""
        uid = deallocation.claim.metadata.uid
        if uid in self._freeing:
            return
        task = self._tasks.spawn(f"free {deallocation.claim.key}", self._free(deallocation))
        self._freeing[uid] = task
        task.add_done_callback(partial(_forget, self._freeing, uid))

    async def _free(self, deallocation: Deallocation) -> None:
        claim, pod = deallocation.claim, deallocation.pod
        try:
            if deallocation.is_deletion:
                await claim_write.delete(self._storage, self._clock, claim)
            elif not await claim_write.deallocate(self._storage, self._clock, deallocation):
                _log.debug("claim_has_changed", claim=claim.key, pod=pod.key)
        except (ClientError, UndecodableError) as failure:
            _log.warning("claim_not_freed", claim=claim.key, pod=pod.key, err=str(failure))
            self._pauses.spawn(pod.key, self._activate_later(pod.key))

    async def _activate_later(self, key: str) -> None:
        await self._clock.sleep(PAUSE_SECONDS)
        self._activate((key,))


def consumer_of(pod: PodInfo) -> ResourceClaimConsumerReference:
    """The reservation of a pod."""
    return ResourceClaimConsumerReference(resource="pods", name=pod.pod.metadata.name, uid=pod.uid)


def is_reserved(claim: ResourceClaim, uid: str) -> bool:
    """Whether the claim is allocated and the pod with this UID has it reserved."""
    return claim.status.allocation is not None and any(user.uid == uid for user in claim.status.reserved_for)


def _forget(tasks: dict[Any, "asyncio.Task[object]"], key: object, task: "asyncio.Task[object]") -> None:
    if tasks.get(key) is task:
        del tasks[key]


def _report_doubt(pod: PodInfo, claim: ResourceClaim, why: str) -> None:
    _log.warning("claim_write_in_doubt", claim=claim.key, pod=pod.key, err=why)
