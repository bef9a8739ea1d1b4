"""What an allocator may do: feature gates, and what two versions of Kubernetes do differently."""

from collections.abc import Collection
from dataclasses import dataclass

from kscheduler.upstream.behaviours import Behaviours


@dataclass(frozen=True, slots=True)
class AllocatorFeatures:
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
    tells_device_of_error: bool = True
    """The text of a selector's error names the device, and that of too many devices the request."""
    shortens_config: bool = True
    """A configuration for all requests lists none of them."""
    repeats_config: bool = False
    """A configuration of the claim is listed once for each request that it names."""
    ignores_compatibility_groups: bool = True
    """Slices whose devices have compatibility groups are left out, because that gate is off."""

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
            tells_device_of_error=as_1_37,
            shortens_config=as_1_37,
            repeats_config=not as_1_37,
            ignores_compatibility_groups=as_1_37 and not has_groups,
        )
