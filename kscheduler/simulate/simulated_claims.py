"""Claims to devices of a frozen cluster: what the scheduler writes, and what the controller of claims does with them.

    a pod appears    its claims are made from their templates, and its status names them
    PreBind          allocations and reservations are written, as to an API server that never fails
    a pod is gone    the claims that were made for it go, too; others lose its reservation, the last one the devices

Devices are ready as soon as they are allocated: binding conditions are the drivers' part, and nobody plays it.
"""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from kscheduler.api.core import Pod, PodExtendedResourceClaimStatus
from kscheduler.api.devices import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from kscheduler.api.kinds import PODS, RESOURCE_CLAIMS
from kscheduler.client.claim_writes import StoredClaim
from kscheduler.framework.rules.device_readiness import DeviceFailedError, is_ready
from kscheduler.in_memory.claims import FREE, PROTECTED, UNPROTECTED, InMemoryClaims, read, reserved
from kscheduler.in_memory.cluster import InMemoryCluster
from kscheduler.scenario.device_claims import specs_of_made, with_claims
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.state.devices.claims import ClaimTracker

# Pods that a note names.
_NAMED: Final = 3


class SimulatedClaims(InMemoryClaims):
    """The claims of a cluster that is played, which nobody hears of until it is."""

    def __init__(
        self, cluster: InMemoryCluster, objects: ClusterObjects, where: str, running: ClaimTracker | None
    ) -> None:
        """`where`: the source of the objects, for notes. `running`: a service's own tracker, with newer versions."""
        super().__init__(cluster)
        self._where, self._running = where, running
        self._store = cluster.store(RESOURCE_CLAIMS)
        for claim in map(_identified, _newest(objects, running)):
            self._store.put(claim.key, claim)
        self._version = max(map(_number, self._store.list()), default=0)
        given = {template.key: template.spec.spec for template in objects.resourceclaimtemplates}
        self._presumed = {
            template: spec
            for template, spec in specs_of_made(objects.pods, objects.resourceclaims).items()
            if template not in given
        }
        self._specs = self._presumed | given
        self._missing: dict[str, list[str]] = {}
        """By template that is not known, the pods that wait for it."""
        self._used: set[str] = set()
        """Templates that claims were made from."""

    def notes(self) -> list[str]:
        """What had to be presumed of templates, and which are missing."""
        found = []
        for template, pods in self._missing.items():
            more = f" and {len(pods) - _NAMED} more" if pods[_NAMED:] else ""
            found.append(
                f"{self._where}: ResourceClaimTemplate {template} is not known, so no claim is made from it for "
                f"{', '.join(pods[:_NAMED])}{more}: add it to the objects"
            )
        found.extend(
            f"{self._where}: ResourceClaimTemplate {template} was not read: new claims are like those that were made "
            "from it"
            for template in sorted(self._used & self._presumed.keys())
        )
        return found

    # --- the controller's part ----------------------------------------------------------------------------------------

    def made_for(self, pod: Pod) -> Pod:
        """The pod with the claims that its templates ask for."""
        after = with_claims(pod, self._specs, self._store.__contains__)
        for _, template in after.missing:
            self._missing.setdefault(template, []).append(pod.key)
        for claim in after.claims:
            self.put(claim)
        if after.claims:
            namespace = pod.metadata.namespace
            self._used |= {f"{namespace}/{entry.resource_claim_template_name}" for entry in pod.spec.resource_claims}
        return after.pod

    def missing_template(self, pod: Pod) -> str:
        """The template, not known, that a claim of the pod would be made from; empty: none is missing."""
        return next((template for template, pods in self._missing.items() if pod.key in pods), "")

    def settle(self, pod: Pod) -> None:
        """A service is about to bind the pod: what it has chosen for the pod's claims counts as written."""
        tracker = self._running
        for key in self._keys_of(pod):
            claim = self._store.get(key)
            pending = None if claim is None or tracker is None else tracker.pending(claim.metadata.uid)
            if claim is None or tracker is None:
                continue
            status = claim.status if pending is None or claim.status.allocation else pending.status
            if status.allocation is not None:
                self.put(replace(claim, status=reserved(status, _consumer(pod))))
            tracker.remove_pending(claim.metadata.uid, force=True)

    def pod_is_gone(self, pod: Pod) -> None:
        """What becomes of its claims."""
        uid = pod.metadata.uid
        for key in self._keys_of(pod):
            claim = self._store.get(key)
            if claim is None:
                continue
            owner = claim.metadata.controller
            if owner is not None and owner.uid == uid:
                self._cluster.remove(RESOURCE_CLAIMS, key)
                continue
            left = tuple(user for user in claim.status.reserved_for if user.uid != uid)
            if len(left) < len(claim.status.reserved_for):
                self.put(replace(claim, status=replace(claim.status, reserved_for=left) if left else FREE))

    def _keys_of(self, pod: Pod) -> Iterator[str]:
        """The claims of the pod, with that for its extended resources."""
        namespace, status = pod.metadata.namespace, pod.status
        made = (entry.resource_claim_name for entry in status.resource_claim_statuses)
        extended = status.extended_resource_claim_status
        names = [*(entry.resource_claim_name for entry in pod.spec.resource_claims), *made]
        if extended is not None:
            names.append(extended.resource_claim_name)
        return (f"{namespace}/{name}" for name in dict.fromkeys(names) if name)

    # --- the API server's part ----------------------------------------------------------------------------------------

    async def get_claim(self, namespace: str, name: str) -> StoredClaim:
        """The claim with its devices ready. Raises `APIError` (404)."""
        return read(_as_if_ready((await super().get_claim(namespace, name)).claim))

    async def protect(self, claim: ResourceClaim) -> StoredClaim:
        """Nothing is deleted meanwhile. Raises `APIError` (404, 409)."""
        await self.check_version(claim)
        return StoredClaim(claim, PROTECTED)

    async def unprotect(self, stored: StoredClaim) -> StoredClaim:
        """Nothing is deleted meanwhile."""
        return StoredClaim(stored.claim, UNPROTECTED)

    async def reserve(
        self,
        stored: StoredClaim,
        consumer: ResourceClaimConsumerReference,
        allocation: AllocationResult | None,
        allocated_at: str | None,
    ) -> StoredClaim:
        """The devices are ready as soon as they are allocated, and nobody reads when that was."""
        del allocated_at
        status = stored.claim.status if allocation is None else replace(stored.claim.status, allocation=allocation)
        written = replace(stored.claim, status=reserved(status, consumer))
        return read(self.put(_as_if_ready(written)))

    async def report_pod(self, pod: Pod, status: PodExtendedResourceClaimStatus) -> None:
        """The pod's status names the claim for its extended resources; the watch shows it with the next change."""
        before = self._cluster.current(pod)
        if before is not None:
            changed = replace(before.status, extended_resource_claim_status=status)
            self._cluster.store(PODS).put(pod.key, replace(before, status=changed))


def _identified(claim: ResourceClaim) -> ResourceClaim:
    """The claim with what an API server gives it: one of a manifest has neither a UID nor a version."""
    meta = claim.metadata
    if meta.uid and meta.resource_version:
        return claim
    uid, version = meta.uid or f"uid-of-{claim.key}", meta.resource_version or "1"
    return replace(claim, metadata=replace(meta, uid=uid, resource_version=version))


def _consumer(pod: Pod) -> ResourceClaimConsumerReference:
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def _as_if_ready(claim: ResourceClaim) -> ResourceClaim:
    """The claim without conditions that its devices would still have to meet; one that has failed stays as it is."""
    allocation = claim.status.allocation
    try:
        if allocation is None or is_ready(claim):
            return claim
    except DeviceFailedError:
        return claim
    results = tuple(
        replace(each, binding_conditions=(), binding_failure_conditions=()) for each in allocation.devices.results
    )
    ready = replace(allocation, devices=replace(allocation.devices, results=results))
    return replace(claim, status=replace(claim.status, allocation=ready))


def _number(claim: ResourceClaim) -> int:
    text = claim.metadata.resource_version
    return int(text) if text.isascii() and text.isdigit() else 0


def _newest(objects: ClusterObjects, tracker: ClaimTracker | None) -> Iterator[ResourceClaim]:
    """The claims of a cluster; where a service holds them, as decided and not as the watch has shown them."""
    for claim in objects.resourceclaims:
        decided = None if tracker is None else tracker.get(claim.key)
        yield claim if decided is None or decided.metadata.uid != claim.metadata.uid else decided
