"""Claims to devices in a free run: what they hold is this run's, all else happens as it was recorded.

    a claim comes or changes   spec and metadata as recorded. Devices and reservations stay as this run has them;
                               reservations of pods that have their node from the recording come and go as there
    a pod comes to be decided  what the recorded scheduler had chosen for it already is left out
    a pod gets its node        its devices are written (`ReadyClaims`); who shares a claim later follows the first pod
    a pod is gone              its claims go; a shared one loses its reservation, and with the last one its devices

A recorded allocation is taken over with the first reservation of a pod that is not decided here, or where nobody has
reserved the claim when it first appears. A claim that was made for a pod, or that a pod here has reserved, goes with
the pod and not before: one that the recorded scheduler has evicted runs on here.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from kscheduler.api.core import Pod
from kscheduler.api.devices import (
    EXTENDED_RESOURCE_CLAIM,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from kscheduler.in_memory.claims import FREE, ReadyClaims, claim_keys
from kscheduler.in_memory.cluster import InMemoryCluster
from kscheduler.scheduling.claims.claim_storage import devices_of

_PODS: Final = "pods"
# About a pod, by its namespace, name and UID.
PodQuestion = Callable[[str, str, str], bool]


class ClaimsOfRun(ReadyClaims):
    """The claims of one free run."""

    def __init__(self, cluster: InMemoryCluster, is_as_recorded: PodQuestion, stays: PodQuestion) -> None:
        """`is_as_recorded`: whether the pod has its node from the recording, or is not known yet; `stays`: whether it
        is here and keeps what it has reserved, whatever the recording says.
        """
        super().__init__(cluster)
        self._is_as_recorded, self._stays = is_as_recorded, stays
        self._gone_once: set[str] = set()
        """UIDs of claims that are gone here and not in the recording, or the other way round."""

    # --- as recorded --------------------------------------------------------------------------------------------------

    def apply(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """A change of a claim was recorded."""
        if new is None:
            if old is not None:
                self._deleted(old)
            return
        if new.metadata.uid in self._gone_once or self._is_other_choice(new):
            return
        here = self.find(new.key)
        if here is None or here.metadata.uid != new.metadata.uid:
            self.put(replace(new, status=self._first_status(new)))
            return
        if new.metadata.deletion_timestamp is not None and self._is_of_living_pod(new):
            return
        changed = replace(new, status=self._status_after(here, new))
        metadata = replace(new.metadata, resource_version=here.metadata.resource_version)
        if replace(changed, metadata=metadata) != here:  # what the recorded scheduler has written is no event here
            self.put(changed)

    def _first_status(self, new: ResourceClaim) -> ResourceClaimStatus:
        kept = tuple(user for user in new.status.reserved_for if self._keeps(new, user))
        return FREE if new.status.reserved_for and not kept else replace(new.status, reserved_for=kept)

    def _status_after(self, here: ResourceClaim, new: ResourceClaim) -> ResourceClaimStatus:
        before, recorded = here.status, new.status
        users = [user for user in before.reserved_for if user in recorded.reserved_for or self._is_kept_here(new, user)]
        users += [user for user in recorded.reserved_for if user not in users and self._keeps(new, user)]
        if not users:
            is_unused = not before.reserved_for and recorded.allocation is not None
            return before if is_unused else FREE
        is_recorded = all(user in recorded.reserved_for and self._keeps(new, user) for user in users)
        if is_recorded or before.allocation is None:
            return replace(recorded, reserved_for=tuple(users))
        # what drivers say of the devices that this run has chosen is not known
        is_same = devices_of(before.allocation) == devices_of(recorded.allocation)
        return replace(before, reserved_for=tuple(users), devices=recorded.devices if is_same else before.devices)

    def _deleted(self, old: ResourceClaim) -> None:
        uid, here = old.metadata.uid, self.find(old.key)
        if uid in self._gone_once:
            self._gone_once.discard(uid)
        elif here is not None and here.metadata.uid == uid:
            if self._is_of_living_pod(here) or any(self._is_kept_here(here, user) for user in here.status.reserved_for):
                self._gone_once.add(uid)  # its finalizer keeps it
            else:
                super().remove(here)

    def _keeps(self, claim: ResourceClaim, user: ResourceClaimConsumerReference) -> bool:
        return user.resource != _PODS or self._is_as_recorded(claim.metadata.namespace, user.name, user.uid)

    def _is_kept_here(self, claim: ResourceClaim, user: ResourceClaimConsumerReference) -> bool:
        return user.resource == _PODS and self._stays(claim.metadata.namespace, user.name, user.uid)

    def _is_other_choice(self, claim: ResourceClaim) -> bool:
        """Whether the recorded scheduler has made the claim, for extended resources of a pod that is decided here."""
        owner = claim.metadata.controller
        if owner is None or claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) != "true":
            return False
        return not self._is_as_recorded(claim.metadata.namespace, owner.name, owner.uid)

    def _is_of_living_pod(self, claim: ResourceClaim) -> bool:
        owner = claim.metadata.controller
        if owner is None:
            return False
        pod = self._cluster.pod_of(f"{claim.metadata.namespace}/{owner.name}")
        return pod is not None and pod.metadata.uid == owner.uid

    # --- as this run has it -------------------------------------------------------------------------------------------

    def pod_to_decide(self, pod: Pod, left_over: ResourceClaim | None) -> None:
        """A pod comes without a node. `left_over`: the claim for its extended resources, which is made anew."""
        if left_over is not None:
            self.remove(left_over)
        for key in claim_keys(pod):
            claim = self.find(key)
            if claim is not None:
                self.end_reservation(claim, pod.metadata.uid)

    def end_reservation(self, claim: ResourceClaim, pod_uid: str) -> None:
        """A pod's reservation goes, if there is one. One that is gone in the recording goes with the last one."""
        super().end_reservation(claim, pod_uid)
        left = self.find(claim.key) if claim.metadata.uid in self._gone_once else None
        if left is not None and not left.status.reserved_for:
            self.remove(left)

    def remove(self, claim: ResourceClaim) -> None:
        """The claim is gone."""
        self._gone_once ^= {claim.metadata.uid}
        super().remove(claim)
