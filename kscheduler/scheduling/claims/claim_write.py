"""Writing allocation and reservation into one claim, and finding out whether that was applied.

    read the claim -> add the finalizer, if it is missing -> write the status
         ^                                                        |
         '---- 409: it has changed (five tries) ------------------+
         '---- timeout, reset, 5xx: it may have been written -----'

The outcome must be certain: as long as a write may still be applied, its devices are taken. A claim that was read with
our allocation and reservation is written. One without them, after a write that may have been applied, is written again
with the version that was just read: of the two writes the API server applies one. As for Bindings, three answers 5xx
count as refused if the claim then is as it was before; the pod must not wait for a broken webhook.

kube-scheduler's first try goes without reading, from its cache; ours reads, because a claim is sent back whole.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from kscheduler.aio.backoff import Backoff
from kscheduler.aio.clock import Clock
from kscheduler.api.codec import UndecodableError
from kscheduler.api.devices import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from kscheduler.api.meta import rfc3339
from kscheduler.client.errors import ClientError, FencedError
from kscheduler.client.writes.claims import StoredClaim
from kscheduler.framework.status import Fault
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

MOST_SERVER_ERRORS: Final = 3
"""5xx answers to the same write after which it counts as refused, if the claim does not show it."""


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
        meta = self.claim.metadata
        self._step = _Step.READ
        stored = await self.storage.get_claim(meta.namespace, meta.name)
        self.seen = stored.claim
        if self._is_written(stored):
            return stored.claim
        if self._verdict is not None:
            raise self._verdict
        self._check(stored)
        allocation = self.allocation if stored.claim.status.allocation is None else None
        if allocation is not None and not stored.is_protected:
            self._step = _Step.PROTECT
            stored = await self.storage.protect(stored)
        self._step = _Step.WRITE_STATUS
        allocated_at = self._now() if self.needs_allocation else None
        return (await self.storage.reserve(stored, self.consumer, allocation, allocated_at)).claim

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
            if self._server_errors < MOST_SERVER_ERRORS:
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
