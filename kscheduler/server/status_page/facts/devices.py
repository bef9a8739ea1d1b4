"""Claims to devices: those of a pod with what they have, and who holds the devices of a node.

What there is on a node is counted in `devices.counting`. Claims are read by the names that pods give them: a page costs
as much as its pods have claims, however many there are in the cluster.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from kscheduler.answers.scarce_resources import ScarceResource
from kscheduler.api.core import Pod
from kscheduler.api.devices import ALL, AllocationResult, ResourceClaim, ResourceSlice
from kscheduler.devices.ids import DeviceID
from kscheduler.framework.cluster.devices import Claims, Devices
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.rules.device_readiness import DeviceFailedError, is_ready

MAX_HOLDERS: Final = 500
_MAX_REQUESTS: Final = 32


class ClaimOfPod(msgspec.Struct, frozen=True):
    """A claim that a pod names, or that is made for it."""

    name: str
    """Empty: it has none yet."""
    template: str
    """That it is made from; empty: the pod names the claim."""
    is_for_resources: bool
    """The scheduler has made it for the pod's extended resources."""
    state: str
    tone: str
    """good, bad, busy or quiet: the colour of the state."""
    requests: tuple[str, ...] = ()
    """What it asks for: `gpu: 2 of class gpu.example.com`."""
    devices: tuple[str, ...] = ()
    """What it has, or will have as soon as that is written: driver/pool/device."""


class DeviceHolder(msgspec.Struct, frozen=True):
    """A pod on a node, and the devices that one of its claims has."""

    pod: str
    claim: str
    """Its name; it is in the pod's namespace."""
    devices: tuple[str, ...]


class DeviceTotals:
    """How many devices of each driver there are, and how many of them claims have.

    By driver, not by class: which devices a class has is a question of its selectors, which takes too long for a page
    that is renewed each second. The devices are walked again when a slice changes only.
    """

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._slices: Sequence[ResourceSlice] | None = None
        self._ids: dict[str, set[DeviceID]] = {}
        self._revision = -1
        self._found: tuple[ScarceResource, ...] = ()

    def by_driver(self) -> tuple[ScarceResource, ...]:
        """Of each driver its devices in the newest slices of their pools."""
        if self._devices.revision == self._revision:
            return self._found
        self._revision = self._devices.revision
        slices = self._devices.slices()
        if slices is not self._slices:
            self._slices, self._ids = slices, _ids_by_driver(slices)
        state = self._devices.claims.allocated_state()
        shared = state.shared.keys() | state.consumed.keys()
        self._found = tuple(
            ScarceResource(driver, len((ids & state.devices) | (ids & shared)), len(ids))
            for driver, ids in self._ids.items()
        )
        return self._found


def _ids_by_driver(slices: Sequence[ResourceSlice]) -> dict[str, set[DeviceID]]:
    newest: dict[tuple[str, str], int] = {}
    for each in slices:
        place = each.spec.driver, each.spec.pool.name
        newest[place] = max(newest.get(place, 0), each.spec.pool.generation)
    found: dict[str, set[DeviceID]] = {}
    for each in slices:
        driver, pool = each.spec.driver, each.spec.pool
        if pool.generation == newest[driver, pool.name]:
            ids = found.setdefault(driver, set())
            ids.update(DeviceID(driver, pool.name, device.name) for device in each.spec.devices)
    return {driver: ids for driver, ids in found.items() if ids}


def claims_of(pod: Pod, claims: Claims) -> Iterator[ClaimOfPod]:
    """The pod's claims in its order; that for its extended resources comes last."""
    for template, name in _names(pod):
        claim = claims.get(f"{pod.metadata.namespace}/{name}") if name else None
        if claim is None:
            what = f"is not there: no ResourceClaim {name}" if name else "has not been made yet"
            yield ClaimOfPod(name, template, is_for_resources=False, state=what, tone="bad")
        else:
            yield _reported(pod, claim, claims, template)
    made = _for_resources(pod, claims)
    if made is not None:
        yield _reported(pod, made, claims, "", is_for_resources=True)


def holders_on(info: NodeInfo, claims: Claims) -> Iterator[DeviceHolder]:
    """The pods on the node that have devices, by name."""
    for pod in sorted(info.pods.values(), key=lambda each: each.key):
        for claim in _present(pod.pod, claims):
            devices = _devices(_allocation(claim, claims))
            if devices:
                yield DeviceHolder(pod.key, claim.metadata.name, devices)


def _names(pod: Pod) -> Iterator[tuple[str, str]]:
    """For each claim that the pod must have its template and its name; empty where there is none."""
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name:
            yield "", entry.resource_claim_name
        elif made.get(entry.name, "") is not None:  # no name in the status: this pod needs none
            yield entry.resource_claim_template_name or "", made.get(entry.name) or ""


def _for_resources(pod: Pod, claims: Claims) -> ResourceClaim | None:
    status = pod.status.extended_resource_claim_status
    if status is not None and status.resource_claim_name:
        return claims.get(f"{pod.metadata.namespace}/{status.resource_claim_name}")
    return claims.for_extended_resources(pod)


def _present(pod: Pod, claims: Claims) -> Iterator[ResourceClaim]:
    if pod.spec.resource_claims:
        found = (claims.get(f"{pod.metadata.namespace}/{name}") for _, name in _names(pod) if name)
        yield from (claim for claim in found if claim is not None)
    made = _for_resources(pod, claims)
    if made is not None:
        yield made


def _allocation(claim: ResourceClaim, claims: Claims) -> AllocationResult | None:
    """What the claim has, or will have: what is chosen for it and not written yet."""
    if claim.status.allocation is not None:
        return claim.status.allocation
    pending = claims.pending(claim.metadata.uid)
    return None if pending is None else pending.status.allocation


def _devices(allocation: AllocationResult | None) -> tuple[str, ...]:
    results = () if allocation is None else allocation.devices.results
    return tuple(f"{each.driver}/{each.pool}/{each.device}" for each in results)


def _reported(
    pod: Pod, claim: ResourceClaim, claims: Claims, template: str, *, is_for_resources: bool = False
) -> ClaimOfPod:
    state, tone = _state(pod, claim, claims)
    return ClaimOfPod(
        claim.metadata.name,
        template,
        is_for_resources,
        state,
        tone,
        tuple(_requests(claim))[:_MAX_REQUESTS],
        _devices(_allocation(claim, claims)),
    )


def _state(pod: Pod, claim: ResourceClaim, claims: Claims) -> tuple[str, str]:
    """In a few words, and their tone."""
    if claim.metadata.deletion_timestamp is not None:
        return "is being deleted", "bad"
    if claim.status.allocation is None:
        is_chosen = claims.pending(claim.metadata.uid) is not None
        return ("has devices that are not written yet", "busy") if is_chosen else ("has no devices", "quiet")
    try:
        if not is_ready(claim):
            return "has devices that are not ready yet", "busy"
    except DeviceFailedError as problem:
        return str(problem), "bad"
    if any(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for):
        return "has devices, reserved for this pod", "good"
    others = len(claim.status.reserved_for)
    subject = f"{others} {'other' if others == 1 else 'others'}" if others else "nobody"
    return f"has devices, reserved for {subject}", "quiet"


def _requests(claim: ResourceClaim) -> Iterator[str]:
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            wanted = request.exactly
            yield f"{request.name}: {_amount(wanted.allocation_mode, wanted.count)} of class {wanted.device_class_name}"
            continue
        ways = (
            f"{_amount(each.allocation_mode, each.count)} of class {each.device_class_name}"
            for each in request.first_available
        )
        yield f"{request.name}: {', or else '.join(ways)}"


def _amount(mode: str, count: int) -> str:
    return "all" if mode == ALL else str(count or 1)
