"""Whether the devices of a claim are ready for their node, as their driver says in the claim's status.

A device may have binding conditions (it must be attached first, say): all of them must be true before the pod is bound,
and one failure condition that is true ends the wait. A device without a status is not ready.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kscheduler.api.devices import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim
from kscheduler.api.meta import Condition

TIMEOUT = "device binding timeout"


class WaitResult(StrEnum):
    """How a wait ended: the label `status` of kube-scheduler's metrics."""

    SUCCESS = "success"
    FAILURE = "failure"
    TIMEOUT = "timeout"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Readiness:
    """What is known now."""

    is_ready: bool = False
    result: WaitResult = WaitResult.SUCCESS
    problem: str = ""
    """Why the wait is over without success."""


WAITING = Readiness()
READY = Readiness(is_ready=True)


def devices_with_conditions(claim: ResourceClaim) -> Iterator[DeviceRequestAllocationResult]:
    """The allocated devices that must be waited for."""
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return (found for found in results if found.binding_conditions)


def readiness(claim: ResourceClaim, timeout_seconds: float, now: float) -> Readiness:
    """Of all devices of a claim. `now` is Unix time."""
    if claim.status.allocation is None:
        return WAITING
    verdict = _readiness(claim)
    if verdict is WAITING and is_overdue(claim, timeout_seconds, now):
        return Readiness(result=WaitResult.TIMEOUT, problem=f"{TIMEOUT}: claim={claim.metadata.name}")
    return verdict


def _readiness(claim: ResourceClaim) -> Readiness:
    for device in devices_with_conditions(claim):
        status = _status_of(claim, device)
        if status is None:
            return WAITING
        conditions = {condition.type: condition for condition in status.conditions}
        true = {name for name, condition in conditions.items() if condition.status == "True"}
        for name in device.binding_failure_conditions:
            if name in true:
                return Readiness(result=WaitResult.FAILURE, problem=_failure(claim, conditions[name]))
        if not true.issuperset(device.binding_conditions):
            return WAITING
    return READY


def is_overdue(claim: ResourceClaim, timeout_seconds: float, now: float) -> bool:
    """Whether devices that must be waited for were allocated longer ago than the timeout. `now` is Unix time."""
    allocation = claim.status.allocation
    if allocation is None or not allocation.allocation_timestamp or not any(devices_with_conditions(claim)):
        return False
    try:
        allocated = datetime.fromisoformat(allocation.allocation_timestamp).timestamp()
    except ValueError:
        return False
    return allocated + timeout_seconds < now


def _status_of(claim: ResourceClaim, device: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    for status in claim.status.devices:
        if (status.driver, status.pool, status.device) == (device.driver, device.pool, device.device):
            return status
    return None


def _failure(claim: ResourceClaim, failed: Condition) -> str:
    message = json.dumps(failed.message, ensure_ascii=False)  # as Go's %q, but for rare control characters
    return f"device binding failed: claim={claim.metadata.name}, reason={failed.reason}, message={message}"
