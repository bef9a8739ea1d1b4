"""Whether the devices of an allocated claim are ready for use: drivers report conditions, a device at a time.

A device may name conditions that must all become true before a pod is bound (a device is attached to the node's
fabric, say), and conditions that say that this has failed. A device without a report is not ready.
"""

import json
from collections.abc import Iterator
from datetime import datetime

from kscheduler.api.devices import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim
from kscheduler.api.meta import Condition


class DeviceFailedError(Exception):
    """A device reports that it will not become ready. The text is kube-scheduler's."""


def is_ready(claim: ResourceClaim) -> bool:
    """Whether all devices of the claim are ready. Raises `DeviceFailedError`."""
    allocation = claim.status.allocation
    if allocation is None:
        return False
    for result in devices_with_conditions(claim):
        report = _report(claim, result)
        if report is None:
            return False
        conditions = {condition.type: condition for condition in report.conditions}
        for name in result.binding_failure_conditions:
            failed = conditions.get(name)
            if failed is not None and failed.status == "True":
                raise DeviceFailedError(_failure(claim, failed))
        if any(name not in conditions or conditions[name].status != "True" for name in result.binding_conditions):
            return False
    return True


def awaited_devices(claim: ResourceClaim) -> Iterator[tuple[DeviceRequestAllocationResult, tuple[str, ...]]]:
    """The allocated devices that are not ready, each with the conditions that are not true yet."""
    for result in devices_with_conditions(claim):
        report = _report(claim, result)
        reported = () if report is None else report.conditions
        met = {condition.type for condition in reported if condition.status == "True"}
        if missing := tuple(name for name in result.binding_conditions if name not in met):
            yield result, missing


def is_overdue(claim: ResourceClaim, timeout_seconds: float, now: float) -> bool:
    """Whether devices that must become ready have had their time; `now`: seconds since the epoch."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return False
    if not any(devices_with_conditions(claim)):
        return False
    allocated = datetime.fromisoformat(allocation.allocation_timestamp).timestamp()
    return allocated + timeout_seconds < now


def devices_with_conditions(claim: ResourceClaim) -> Iterator[DeviceRequestAllocationResult]:
    """The allocated devices that must become ready."""
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return (result for result in results if result.binding_conditions)


def _report(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    """What a driver reports of a device; of a device that is shared, the report for whichever share comes first."""
    for report in claim.status.devices:
        if (report.driver, report.pool, report.device) == (result.driver, result.pool, result.device):
            return report
    return None


def _failure(claim: ResourceClaim, failed: Condition) -> str:
    message = json.dumps(failed.message, ensure_ascii=False)  # as Go's %q, but for rare control characters
    return f"device binding failed: claim={claim.metadata.name}, reason={failed.reason}, message={message}"
