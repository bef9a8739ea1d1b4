"""Claims to devices of a frozen cluster: what the scheduler writes, and what the controller of claims does with them.

a pod appears    its claims are made from their templates, and its status names them
PreBind          allocations and reservations are written, as to an API server that never fails (`ReadyClaims`)
a pod is gone    the claims that were made for it go, too; others lose its reservation, the last one the devices
"""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaim, ResourceClaimConsumerReference
from kscheduler.api.kinds import RESOURCE_CLAIMS
from kscheduler.in_memory.claims import ReadyClaims, claim_keys, reserved
from kscheduler.in_memory.cluster import InMemoryCluster
from kscheduler.scenario.device_claims import specs_of_made, with_claims
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.state.devices.claims import ClaimTracker

# Pods that a note names.
_NAMED: Final = 3


class SimulatedClaims(ReadyClaims):
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
        for key in claim_keys(pod):
            claim = self._store.get(key)
            pending = None if claim is None or tracker is None else tracker.pending(claim.metadata.uid)
            if claim is None or tracker is None:
                continue
            status = claim.status if pending is None or claim.status.allocation else pending.status
            if status.allocation is not None:
                self.put(replace(claim, status=reserved(status, _consumer(pod))))
            tracker.remove_pending(claim.metadata.uid, force=True)


def _identified(claim: ResourceClaim) -> ResourceClaim:
    """The claim with what an API server gives it: one of a manifest has neither a UID nor a version."""
    meta = claim.metadata
    if meta.uid and meta.resource_version:
        return claim
    uid, version = meta.uid or f"uid-of-{claim.key}", meta.resource_version or "1"
    return replace(claim, metadata=replace(meta, uid=uid, resource_version=version))


def _consumer(pod: Pod) -> ResourceClaimConsumerReference:
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def _number(claim: ResourceClaim) -> int:
    text = claim.metadata.resource_version
    return int(text) if text.isascii() and text.isdigit() else 0


def _newest(objects: ClusterObjects, tracker: ClaimTracker | None) -> Iterator[ResourceClaim]:
    """The claims of a cluster; where a service holds them, as decided and not as the watch has shown them."""
    for claim in objects.resourceclaims:
        decided = None if tracker is None else tracker.get(claim.key)
        yield claim if decided is None or decided.metadata.uid != claim.metadata.uid else decided
