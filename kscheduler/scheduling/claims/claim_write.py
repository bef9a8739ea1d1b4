"""Writing allocation and reservation into one claim, and finding out whether that was applied.

    devices for a claim that has none: add the finalizer -> write the status
    else, and after a failure: read the claim -> add the finalizer, if it is missing -> write the status
         ^                                                                                   |
         '---- 409: it has changed (five tries) ---------------------------------------------+
         '---- timeout, reset, 5xx: it may have been written --------------------------------'

The outcome must be certain: as long as a write may still be applied, its devices are taken. A claim that was read
with our allocation and reservation is written. One without them, after a write that may have been applied, is written
again with the version that was just read: of the two writes the API server applies one. As for Bindings, three
answers 5xx count as refused if the claim then is as it was before; the pod must not wait for a broken webhook.

As in kube-scheduler, the first try for a claim without devices goes without reading: the finalizer's patch names the
version that the decision was based on. A claim that has devices is read before, because its status is sent back whole.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final

import msgspec

from kscheduler.aio.clock import Clock
from kscheduler.aio.rate_limiters import Backoff
from kscheduler.api.codec import UndecodableError
from kscheduler.api.devices import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from kscheduler.api.meta import rfc3339
from kscheduler.client.claim_writes import StoredClaim
from kscheduler.client.errors import APIError, ClientError, FencedError
from kscheduler.framework.cluster.claim_writing import Deallocation, PodReservation
from kscheduler.framework.cluster.devices import Claims
from kscheduler.framework.rules.device_readiness import DeviceFailedError, devices_with_conditions, is_overdue, is_ready
from kscheduler.framework.status import SUCCESS, Fault, Status, error
from kscheduler.scheduling.attempt_events import DevicesAwaited, DevicesWaitEnded
from kscheduler.scheduling.claims.claim_storage import (
    CONFLICT_SECONDS,
    CONFLICT_TRIES,
    ClaimStorage,
    devices_of,
    failure_text,
    fault_of,
    is_conflict,
    is_not_found,
    is_server_error,
    leaves_doubt,
    was_not_sent,
)
from kscheduler.scheduling.observers import Observers

# How far a claim's devices are, as PreBind waits for them, and the word for it in metrics.

TIMEOUT = "device binding timeout"


class WaitResult(StrEnum):
    """How a wait ended: the label `status` of kube-scheduler's metrics."""

    SUCCESS = "success"
    FAILURE = "failure"
    TIMEOUT = "timeout"
    ERROR = "error"


class Readiness(msgspec.Struct, frozen=True):
    """What is known now."""

    is_ready: bool = False
    result: WaitResult = WaitResult.SUCCESS
    problem: str = ""
    """Why the wait is over without success."""


WAITING = Readiness()
READY = Readiness(is_ready=True)


def readiness(claim: ResourceClaim, timeout_seconds: float, now: float) -> Readiness:
    """Of all devices of a claim. `now` is Unix time."""
    try:
        if is_ready(claim):
            return READY
    except DeviceFailedError as failure:
        return Readiness(result=WaitResult.FAILURE, problem=str(failure))
    if is_overdue(claim, timeout_seconds, now):
        return Readiness(result=WaitResult.TIMEOUT, problem=f"{TIMEOUT}: claim={claim.metadata.name}")
    return WAITING


# PreBind's wait for the devices of a pod: looked at at once and every five seconds, until all are ready.
#
# What is looked at is the claim as the watch shows it. The wait ends with the first failure condition, when devices
# were allocated longer ago than the timeout, or when the wait itself has lasted as long.

POLL_SECONDS = 5.0


class ConditionWait:
    """Waits for the devices of one pod."""

    def __init__(self, claims: Claims, observers: Observers, clock: Clock) -> None:
        self._claims = claims
        self._tell = observers.tell
        self._clock = clock

    async def until_ready(self, reservation: PodReservation, timeout_seconds: float) -> Status:
        """Success, or an Error with kube-scheduler's text. Without binding conditions there is nothing to wait for."""
        if not any(any(devices_with_conditions(reserved.claim)) for reserved in reservation.claims):
            return SUCCESS
        pod = reservation.pod.pod
        self._tell(DevicesAwaited(pod, reservation.node_name))
        began = self._clock.monotonic()
        found = Readiness(result=WaitResult.ERROR, problem="the wait was cancelled")
        try:
            found = await self._wait(reservation, timeout_seconds, began + timeout_seconds)
        finally:
            self._observe(reservation, found.result, self._clock.monotonic() - began)
        return SUCCESS if found.is_ready else error(found.problem)

    async def _wait(self, reservation: PodReservation, timeout_seconds: float, deadline: float) -> Readiness:
        while True:
            found = self._look(reservation, timeout_seconds)
            if found.is_ready or found.problem:
                return found
            left = deadline - self._clock.monotonic()
            if left <= 0:
                text = f"{TIMEOUT}: context deadline exceeded"
                return Readiness(result=WaitResult.TIMEOUT, problem=text)
            await self._clock.sleep(min(POLL_SECONDS, left))

    def _look(self, reservation: PodReservation, timeout_seconds: float) -> Readiness:
        """The state of the first claim that is not ready."""
        for reserved in reservation.claims:
            claim = self._claims.get(reserved.claim.key)
            if claim is None:
                problem = f'could not find ResourceClaim "{reserved.claim.key}"'
                return Readiness(result=WaitResult.ERROR, problem=problem)
            reserved.claim = claim
            found = readiness(claim, timeout_seconds, self._clock.time())
            if not found.is_ready:
                return found
        return READY

    def _observe(self, reservation: PodReservation, result: WaitResult, seconds: float) -> None:
        profile = reservation.pod.pod.spec.scheduler_name
        drivers, with_conditions = [], []
        for reserved in reservation.claims:
            allocation = reserved.claim.status.allocation
            drivers += [device.driver for device in (allocation.devices.results if allocation is not None else ())]
            with_conditions += [device.driver for device in devices_with_conditions(reserved.claim)]
        self._tell(DevicesWaitEnded(profile, drivers, with_conditions, result.value, seconds))


# 5xx answers to the same write after which it counts as refused, if the claim does not show it.
MAX_SERVER_ERRORS: Final = 3


class ClaimWriteError(Exception):
    """The claim is certainly not written. The message is kube-scheduler's."""

    def __init__(self, message: str, fault: Fault = Fault.PASSING) -> None:
        super().__init__(message)
        self.fault = fault


class _Step(Enum):
    READ = "read"
    PROTECT = "protect"
    WRITE_STATUS = "write status"


@dataclass(slots=True)
class ClaimWrite:
    """One write of one claim on behalf of one pod."""

    storage: ClaimStorage
    clock: Clock
    claim: ResourceClaim
    """As the cycle saw it."""
    allocation: AllocationResult | None
    """The devices to write; `None`: the claim is allocated, and is only to be reserved."""
    consumer: ResourceClaimConsumerReference
    needs_allocation: bool
    """A claim that is only to be reserved must still be allocated, and allocations have a timestamp."""
    is_current: bool = False
    """`claim` is the newest that is known, so it need not be read before it gets its devices."""
    is_of_group: bool = False
    """Members of the pod's group may have chosen these devices together with it: who is first writes them."""
    on_doubt: Callable[[str], None] = lambda _text: None
    """Called once, when it is not known whether a write was applied."""
    seen: ResourceClaim | None = None
    """As it was read last: it may hold devices, also where nothing is written."""
    _conflicts: int = 0
    _server_errors: int = 0
    _is_in_doubt: bool = False
    _verdict: ClaimWriteError | None = field(default=None)
    """The error to raise unless the claim shows, once more read, that it was written."""
    _step: _Step = _Step.READ

    async def run(self) -> ResourceClaim:
        """The claim as written. Raises `ClaimWriteError`, `FencedError`; does not return while it is in doubt."""
        backoff = Backoff(0.1, cap_seconds=10.0, jitter=0.5, clock=self.clock)
        while True:
            try:
                return await self._try()
            except FencedError:
                raise
            except (ClientError, UndecodableError) as failure:
                pause = self._judge(failure, backoff)
            await self.clock.sleep(pause)

    async def _try(self) -> ResourceClaim:
        allocation = self.allocation
        if self.is_current and allocation is not None:
            self.is_current = False  # the next try reads
            stored = await self._protected(self.claim)
        else:
            self._step = _Step.READ
            stored = await self.storage.get_claim(self.claim.metadata.namespace, self.claim.metadata.name)
            self.seen = stored.claim
            if self._is_written(stored):
                return stored.claim
            if self._verdict is not None:
                raise self._verdict
            self._check(stored)
            if stored.claim.status.allocation is not None:
                allocation = None
            if allocation is not None and not stored.is_protected:
                stored = await self._protected(stored.claim)
        self._step = _Step.WRITE_STATUS
        allocated_at = self._now() if self.needs_allocation else None
        return (await self.storage.reserve(stored, self.consumer, allocation, allocated_at)).claim

    async def _protected(self, claim: ResourceClaim) -> StoredClaim:
        self._step = _Step.PROTECT
        stored = await self.storage.protect(claim)
        self.seen = stored.claim
        return stored

    def _is_written(self, stored: StoredClaim) -> bool:
        """Whether nothing is left to be done. An allocation counts as ours only if we may have written it."""
        if stored.claim.metadata.uid != self.claim.metadata.uid or not stored.is_reserved_for(self.consumer.uid):
            return False
        found = devices_of(stored.claim.status.allocation)
        if self.allocation is None:
            is_kept = found == devices_of(self.claim.status.allocation)
            return is_kept and stored.claim.metadata.deletion_timestamp is None
        return self._is_in_doubt and found == devices_of(self.allocation)

    def _check(self, stored: StoredClaim) -> None:
        """Refuse a claim that is no longer what the cycle has decided about. Raises `ClaimWriteError`."""
        claim, key = stored.claim, self.claim.key
        is_same = claim.metadata.uid == self.claim.metadata.uid
        if not is_same or claim.metadata.deletion_timestamp is not None:
            raise ClaimWriteError(f"claim {key} got deleted in the meantime")
        found = claim.status.allocation
        if self.allocation is not None:
            if found is not None and not (self.is_of_group and devices_of(found) == devices_of(self.allocation)):
                raise ClaimWriteError(f"claim {key} got allocated elsewhere in the meantime")
        elif found is None:
            if self.needs_allocation:
                raise ClaimWriteError(f"claim {key} got deallocated elsewhere in the meantime")
        elif devices_of(found) != devices_of(self.claim.status.allocation):  # other devices, perhaps for another node
            raise ClaimWriteError(f"claim {key} got allocated elsewhere in the meantime")

    def _judge(self, failure: ClientError | UndecodableError, backoff: Backoff) -> float:
        """Seconds until the next try. Raises `ClaimWriteError` if there is none."""
        refusal = ClaimWriteError(f"{self._doing()}: {failure_text(failure)}", fault_of(failure))
        may_be_applied = leaves_doubt(failure) or isinstance(failure, UndecodableError)
        if self._step is _Step.READ:
            if not self._is_in_doubt or is_not_found(failure):
                raise refusal from failure
            return backoff.next()
        if is_conflict(failure):
            self._conflicts += 1
            if self._conflicts < CONFLICT_TRIES:
                return CONFLICT_SECONDS
        elif self._step is _Step.WRITE_STATUS and may_be_applied:
            self._doubt(failure)
            self._server_errors += is_server_error(failure)
            if self._server_errors < MAX_SERVER_ERRORS:
                return backoff.next()
        elif self._is_in_doubt and (may_be_applied or was_not_sent(failure)):
            return backoff.next()
        if not self._is_in_doubt:
            raise refusal from failure
        self._verdict = refusal  # certain only after one more look at the claim
        return backoff.next()

    def _doubt(self, failure: Exception) -> None:
        if not self._is_in_doubt:
            self.on_doubt(failure_text(failure))
        self._is_in_doubt = True

    def _doing(self) -> str:
        """The step in kube-scheduler's words. It does not read first: that step has the name of what comes after it."""
        key = self.claim.key
        if self._step is _Step.READ and (self._conflicts or self._is_in_doubt):
            return f"get updated claim {key} after conflict"
        if self._step is _Step.WRITE_STATUS:
            what = "allocation and reservation" if self.allocation is not None else "reservation"
            return f"add {what} to claim {key}"
        return f"add finalizer to claim {key}" if self.allocation is not None else f"add reservation to claim {key}"

    def _now(self) -> str:
        return rfc3339(self.clock.time())


# Taking an allocation away from a claim that keeps its pod from every node; deleting a claim for extended resources.
#
# kube-scheduler does this within the cycle, with its cached claim: if the claim has changed meanwhile, the API server
# answers 409, and the pod is tried again. Here it runs in the background. The claim is read again, and is left alone
# unless it has the same devices and nobody but the pod has it reserved; a change by others has caused an event for
# the pod.


async def deallocate(storage: ClaimStorage, clock: Clock, deallocation: Deallocation) -> bool:
    """Clear the claim's status. Returns whether that was done. Raises `ClientError`, `UndecodableError`."""
    claim, pod = deallocation.claim, deallocation.pod
    for tries_left in reversed(range(CONFLICT_TRIES)):
        try:
            stored = await storage.get_claim(claim.metadata.namespace, claim.metadata.name)
            if not _is_as_seen(stored.claim, claim, pod.metadata.uid):
                return False
            await storage.free(stored)
        except APIError as failure:
            if is_not_found(failure):
                return False
            if not (failure.is_conflict and tries_left):
                raise
            await clock.sleep(CONFLICT_SECONDS)
        else:
            return True
    return False


def _is_as_seen(stored: ResourceClaim, seen: ResourceClaim, pod_uid: str) -> bool:
    is_same = stored.metadata.uid == seen.metadata.uid
    has_devices = devices_of(stored.status.allocation) == devices_of(seen.status.allocation)
    return is_same and has_devices and all(consumer.uid == pod_uid for consumer in stored.status.reserved_for)


async def delete(storage: ClaimStorage, clock: Clock, claim: ResourceClaim) -> None:
    """Delete the claim, whatever it holds, if it is there. Raises `ClientError`, `UndecodableError`."""
    for tries_left in reversed(range(CONFLICT_TRIES)):
        try:
            stored = await storage.get_claim(claim.metadata.namespace, claim.metadata.name)
            if stored.claim.metadata.uid != claim.metadata.uid:
                return
            if stored.is_protected:
                await storage.unprotect(stored)
            await storage.delete(claim)
        except APIError as failure:
            if is_not_found(failure):
                return
            if not (failure.is_conflict and tries_left):
                raise
            await clock.sleep(CONFLICT_SECONDS)
        else:
            return
