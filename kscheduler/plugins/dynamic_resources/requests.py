"""Whether the requests of a claim can be served at all, whatever the node."""

from kscheduler.api.devices import ResourceClaim
from kscheduler.framework.cluster.devices import Devices
from kscheduler.framework.status import Fault, Status, error, unresolvable


def unservable(claim: ResourceClaim, devices: Devices, *, has_alternatives: bool) -> Status | None:
    """Why the claim cannot be served: the first problem of its requests, in order; `None` without one.

    `has_alternatives`: whether requests may name alternatives (gate DRAPrioritizedList).
    """
    for request in claim.spec.devices.requests:
        where = f"resource claim {claim.key}, request {request.name}"
        if request.exactly is not None:
            classes = [(request.name, request.exactly.device_class_name)]
        elif not request.first_available:
            return unresolvable(f"{where}: unknown request type")
        elif not has_alternatives:
            return unresolvable(f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled")
        else:
            classes = [(f"{request.name}/{each.name}", each.device_class_name) for each in request.first_available]
        for name, class_name in classes:
            if not class_name:
                return error(f"request {name}: unsupported request type", fault=Fault.CLAIM)
            if devices.device_class(class_name) is None:
                return unresolvable(f"request {name}: device class {class_name} does not exist")
    return None
