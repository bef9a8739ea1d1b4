"""What an attempt has reserved besides its node: devices that are pending, volumes and claims that are assumed.

A decision that is made again in a replay reserves the same by itself. One that is only followed (extenders, a long
search) does not, nor does an attempt that a snapshot puts back: there the recording says what was reserved. Without
it the next pod would be given the same devices or volumes again.
"""

import contextlib
from collections.abc import Iterable

import msgspec

from kscheduler.api.devices import ResourceClaim
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.framework.cluster.claim_writing import ClaimRules, Deallocation, PodReservation, ReservedClaim
from kscheduler.framework.cluster.devices import Claims
from kscheduler.framework.status import Status
from kscheduler.plugins.storage.volume_binding.claims import Undertaking
from kscheduler.scheduling.attempt.context import Attempt
from kscheduler.scheduling.attempt_events import Decided
from kscheduler.state.cache import Cache


class Reservations(msgspec.Struct, frozen=True):
    """Of one attempt."""

    claims: tuple[tuple[str, ResourceClaim], ...] = ()
    """The UID under which the devices are pending, and the claim with them."""
    bindings: tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...] = ()
    """Volumes as they are assumed, each with its claim."""
    provisions: tuple[PersistentVolumeClaim, ...] = ()
    """Claims as they are assumed."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing but the node."""
        return not (self.claims or self.bindings or self.provisions)


def reserved_by(attempt: Decided) -> Reservations:
    """What the attempt has reserved and not given back."""
    if not isinstance(attempt, Attempt):
        return Reservations()
    devices, volumes = attempt.record.state.find(PodReservation), attempt.record.state.find(Undertaking)
    return Reservations(
        () if devices is None else tuple(_pending(devices.claims)),
        () if volumes is None else tuple(volumes.bindings),
        () if volumes is None else tuple(volumes.provisions),
    )


def _pending(claims: Iterable[ReservedClaim]) -> Iterable[tuple[str, ResourceClaim]]:
    for each in claims:
        if each.pending_uid:
            status = msgspec.structs.replace(each.claim.status, allocation=each.allocation)
            yield each.pending_uid, msgspec.structs.replace(each.claim, status=status)


def release_on_failure(attempt: Attempt, reserved: Reservations) -> None:
    """Let the attempt give this back when it fails. Nothing is reserved: `reserve_again` does that."""
    pod, node_name, state = attempt.queued.pod, attempt.node_name, attempt.record.state
    if reserved.claims:
        claims = [ReservedClaim(claim, claim.status.allocation, uid) for uid, claim in reserved.claims]
        state.write(PodReservation(pod, node_name, claims))
    if reserved.bindings or reserved.provisions:
        state.write(Undertaking(pod, node_name, list(reserved.bindings), list(reserved.provisions)))


def reserve_again(cache: Cache, reserved: Reservations) -> None:
    """In the cache, so that decisions see it."""
    for uid, claim in reserved.claims:
        cache.devices.claims.signal_pending(uid, claim)
    with contextlib.suppress(ValueError):  # the watch was faster
        for volume, _ in reserved.bindings:
            cache.volumes.assume_volume(volume)
        for claim_of_volume in reserved.provisions:
            cache.volumes.assume_claim(claim_of_volume)


class RecordedClaimWriter:
    """Gives back what was pending, when the recorded scheduler did. Implements `claim_writing.ClaimWriter`.

    A write that is under way when its pod is given up keeps its devices until it has ended: then the recording says of
    them first that they stay pending, and later when they no longer are.
    """

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self._stay: set[str] = set()
        """UIDs of claims that the attempt which is about to be given up does not give back yet."""

    def stays_pending(self, uid: str) -> None:
        """The claim's write goes on."""
        self._stay.add(uid)

    def no_longer_pending(self, uid: str, *, force: bool) -> None:
        """The claim's write has ended."""
        self._claims.remove_pending(uid, force=force)

    async def pre_bind(self, _reservation: PodReservation, _rules: ClaimRules) -> Status:
        """Raises `RuntimeError`: nothing is written in a replay."""
        raise RuntimeError("a replay writes no claims")

    def unreserve(self, reservation: PodReservation) -> None:
        """What was written stays, until the recording shows what became of it."""
        for reserved in reservation.claims:
            uid, reserved.pending_uid = reserved.pending_uid, ""
            if uid and uid not in self._stay:
                self._claims.remove_pending(uid, force=False)
        self._stay.clear()

    def free(self, _deallocation: Deallocation) -> None:
        """The recording shows what became of it."""
