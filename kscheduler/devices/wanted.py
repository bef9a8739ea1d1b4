"""Requests and subrequests in one form."""

from collections.abc import Mapping
from dataclasses import dataclass

from kscheduler.api.devices import EXACT_COUNT, DeviceRequest, DeviceSelector, DeviceSubRequest, DeviceToleration
from kscheduler.api.devices import ExactDeviceRequest as Exactly
from kscheduler.api.quantity import Quantity


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request, or one of its alternatives."""

    name: str
    """Of the request, or of the subrequest alone."""
    parent: str
    """The request of a subrequest; else empty."""
    class_name: str
    mode: str
    count: int
    selectors: tuple[DeviceSelector, ...]
    tolerations: tuple[DeviceToleration, ...]
    capacity: Mapping[str, Quantity] | None
    is_admin: bool = False
    names_admin: bool = False
    """Whether the field is set, whatever it says."""
    has_derived_attributes: bool = False

    @property
    def base(self) -> str:
        """The name of the request."""
        return self.parent or self.name

    @property
    def full_name(self) -> str:
        """As in a result: `request`, or `request/subrequest`."""
        return f"{self.parent}/{self.name}" if self.parent else self.name


def wanted_of(request: DeviceRequest) -> tuple[Wanted, ...]:
    """The ways to satisfy a request, the preferred one first; none for a request of an unknown kind."""
    if request.first_available:
        return tuple(_wanted(sub, sub.name, request.name) for sub in request.first_available)
    if request.exactly is None:
        return ()
    return (_wanted(request.exactly, request.name, ""),)


def _wanted(spec: Exactly | DeviceSubRequest, name: str, parent: str) -> Wanted:
    admin = spec.admin_access if isinstance(spec, Exactly) else None
    mode = spec.allocation_mode or EXACT_COUNT
    return Wanted(
        name=name,
        parent=parent,
        class_name=spec.device_class_name,
        mode=mode,
        count=spec.count or (1 if mode == EXACT_COUNT else 0),
        selectors=spec.selectors,
        tolerations=spec.tolerations,
        capacity=None if spec.capacity is None else spec.capacity.requests,
        is_admin=bool(admin),
        names_admin=admin is not None,
        has_derived_attributes=bool(spec.derived_attributes),
    )
