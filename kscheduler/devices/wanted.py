"""Requests and subrequests in one form."""

from collections.abc import Collection, Mapping

import msgspec

from kscheduler.api.devices import EXACT_COUNT, DeviceRequest, DeviceSelector, DeviceSubRequest, DeviceToleration
from kscheduler.api.devices import ExactDeviceRequest as Exactly
from kscheduler.api.quantity import Quantity
from kscheduler.api.releases import Behaviours

# How an allocation ends without a result.


class AllocationError(Exception):
    """The claims, their classes or devices are wrong: an error for the pod, whichever node was looked at."""


class FailedOnThisNodeError(Exception):
    """The pools that a node reaches are wrong, and without them the claims cannot be allocated there."""


class BadPoolError(FailedOnThisNodeError):
    """All devices are asked for, and a pool of the node is not whole."""

    def __init__(self, claim: str, number: int, problem: str) -> None:
        super().__init__(f"claim {claim}, {problem}")
        self.number, self.problem = number, problem
        """The place of the claim among all, and the text without its name."""


class Wanted(msgspec.Struct, frozen=True):
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


# What an allocator may do: feature gates, and what two versions of Kubernetes do differently.


class AllocatorFeatures(msgspec.Struct, frozen=True):
    """One value for each gate and for each difference. The defaults are those of 1.37."""

    admin_access: bool = True
    prioritized_list: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    binding_conditions: bool = True
    consumable_capacity: bool = True
    fractional_capacity_range: bool = True
    list_attributes: bool = False
    """Attributes may be lists; constraints compare them as sets."""
    compatibility_groups: bool = False
    """Devices that share counters need a compatibility group in common."""
    refuses_skipped_operations: bool = False
    """Devices that need no preparation by their node are not allocated: so where that gate is off and another is on."""
    counts_by_pool_and_driver: bool = True
    """Counters belong to a driver's pool; else to all pools of that name."""
    counter_sets_choose_nodes: bool = True
    """A slice of counter sets belongs to the nodes that it names; else to all."""
    compares_all_distinct: bool = True
    """A distinct attribute differs from those of all devices before; else from the last one of each request."""
    restores_common_values: bool = True
    """What devices have in common is wider again when the last one is given up; else it stays narrowed."""
    refuses_odd_capacities: bool = True
    """A negative or unrepresentable capacity is an error; else it is computed with."""
    all_means_static_capacity: bool = True
    """`All` means devices that are large enough; else those that have that much left."""
    reports_device_of_error: bool = True
    """The text of a selector's error names the device, and that of too many devices the request."""
    shortens_config: bool = True
    """A configuration for all requests lists none of them."""
    repeats_config: bool = False
    """A configuration of the claim is listed once for each request that it names."""
    ignores_compatibility_groups: bool = True
    """Slices whose devices have compatibility groups are left out, because that gate is off."""
    joins_names_of_devices: bool = False
    """Names with and without the driver's domain are the same; of two that a device has the one with it counts."""
    refuses_unreadable_attributes: bool = False
    """A constraint on an attribute without a value that can be read is an error; else the device does not meet it."""
    compares_versions: bool = False
    """Versions are compared as such, without their builds; else as texts."""
    keeps_shared_devices_from_exclusive_use: bool = False
    """A device of which claims have shares is not given away as a whole."""
    bad_pools_reject_one_node: bool = False
    """`All` with a pool that is not whole fails on the node; else for the pod."""
    refuses_negative_amounts: bool = False
    """A negative request is an error, also where a policy would round it up."""

    @staticmethod
    def of(gates: Collection[str], behaviours: Behaviours) -> "AllocatorFeatures":
        """`gates`: the names of those that are on."""
        as_1_37 = behaviours.allocates_as_1_37
        has_groups = "DRADeviceCompatibilityGroups" in gates
        return AllocatorFeatures(
            admin_access="DRAAdminAccess" in gates,
            prioritized_list="DRAPrioritizedList" in gates,
            partitionable_devices="DRAPartitionableDevices" in gates,
            device_taints="DRADeviceTaints" in gates,
            binding_conditions={"DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"} <= set(gates),
            consumable_capacity="DRAConsumableCapacity" in gates,
            fractional_capacity_range="DRAFractionalCapacityRange" in gates,
            list_attributes="DRAListTypeAttributes" in gates,
            compatibility_groups=has_groups,
            refuses_skipped_operations=as_1_37 and (has_groups or "DRAListTypeAttributes" in gates),
            counts_by_pool_and_driver=as_1_37,
            counter_sets_choose_nodes=as_1_37,
            compares_all_distinct=as_1_37,
            restores_common_values=as_1_37,
            refuses_odd_capacities=as_1_37,
            all_means_static_capacity=as_1_37,
            reports_device_of_error=as_1_37,
            shortens_config=as_1_37,
            repeats_config=not as_1_37,
            ignores_compatibility_groups=as_1_37 and not has_groups,
            joins_names_of_devices=behaviours.joins_names_of_devices,
            refuses_unreadable_attributes=behaviours.refuses_unreadable_attributes,
            compares_versions=behaviours.compares_versions,
            keeps_shared_devices_from_exclusive_use=behaviours.keeps_shared_devices_from_exclusive_use,
            bad_pools_reject_one_node=behaviours.bad_pools_reject_one_node,
            refuses_negative_amounts=behaviours.refuses_negative_amounts,
        )
