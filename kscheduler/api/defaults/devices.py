"""Defaults of resource.k8s.io: how many devices a request asks for, and since when a device is tainted."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import DEVICE_TAINT_RULES, RESOURCE_SLICES, ServedResource


def _requests(devices: Object) -> Iterator[Object]:
    for request in devices.get("requests") or ():
        if request.get("exactly") is not None:
            yield request["exactly"]
        yield from request.get("firstAvailable") or ()


def _fill(spec: Object) -> None:
    for request in _requests(spec.get("devices") or {}):
        request["allocationMode"] = request.get("allocationMode") or "ExactCount"
        if request["allocationMode"] == "ExactCount":
            request["count"] = request.get("count") or 1


def _claim(claim: Object) -> None:
    _fill(claim.get("spec") or {})


def _template(template: Object) -> None:
    spec = template.get("spec") or {}
    spec.setdefault("metadata", {})
    _fill(spec.get("spec") or {})


# Defaults by kind; a manifest may be sent again without them.
ON_CREATE: Mapping[str, Callable[[Object], None]] = MappingProxyType(
    {"resourceclaims.resource.k8s.io": _claim, "resourceclaimtemplates.resource.k8s.io": _template}
)


def drop_deallocated(old: Object, new: Object) -> None:
    """Drop what the new status says of devices that were allocated and are no longer."""
    before, after = old.get("status") or {}, new.get("status") or {}
    gone = _allocated(before) - _allocated(after)
    if not gone or not after.get("devices"):
        return
    kept = [device for device in after["devices"] if _identity(device) not in gone]
    new["status"] = {name: part for name, part in after.items() if name != "devices"} | (
        {"devices": kept} if kept else {}
    )


def _allocated(status: Object) -> set[tuple[str | None, ...]]:
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    return {_identity(result) for result in results}


def _identity(device: Object) -> tuple[str | None, ...]:
    return tuple(device.get(name) for name in ("driver", "pool", "device", "shareID"))


def stamp_taints(resource: ServedResource, value: Object, now: str) -> None:
    """Note the time of each taint that has none."""
    spec = value.get("spec") or {}
    if resource is DEVICE_TAINT_RULES and spec.get("taint"):
        spec["taint"].setdefault("timeAdded", now)
    if resource is RESOURCE_SLICES:
        for device in spec.get("devices") or ():
            for taint in device.get("taints") or ():
                taint.setdefault("timeAdded", now)
