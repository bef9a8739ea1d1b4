"""Devices, claims to them and their classes (resource.k8s.io/v1), with the fields that a scheduler reads or writes.

A request is written `exactly` or as `firstAvailable`, a list of which the first that can be satisfied counts. What the
allocator found is written into a claim's `status.allocation`; its parts are therefore whole.
"""

from typing import Any

import msgspec

from kscheduler.api.core import NodeSelector
from kscheduler.api.meta import Condition, KubeObject, ObjectMeta, Value
from kscheduler.api.quantity import Quantity

GROUP = "resource.k8s.io"
# The finalizer of a claim that is allocated.
DELETE_PROTECTION = "resource.kubernetes.io/delete-protection"
# On a claim, with the value `true`: the scheduler made it for a pod's extended resources.
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
# Before the name of a class: the extended resource that each class has without naming one.
IMPLICIT_EXTENDED_RESOURCE = "deviceclass.resource.kubernetes.io/"

# Allocation modes.
EXACT_COUNT, ALL = "ExactCount", "All"
# Sources of an allocation's configuration.
FROM_CLASS, FROM_CLAIM = "FromClass", "FromClaim"


# --- requests ---------------------------------------------------------------------------------------------------------


class CELDeviceSelector(Value, frozen=True):
    """An expression over `device` that is true for devices that are wanted."""

    expression: str = ""


class DeviceSelector(Value, frozen=True):
    """A selector; CEL is the only kind."""

    cel: CELDeviceSelector | None = None


class DeviceToleration(Value, frozen=True):
    """Taints of devices that do not matter to a request."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(Value, frozen=True):
    """How much of a device's capacities a request needs."""

    requests: dict[str, Quantity] = {}


class DeviceDerivedAttribute(Value, frozen=True):
    """An attribute worked out by CEL for one request (gate DRADerivedAttributes)."""

    name: str = ""
    expression: str = ""


class ExactDeviceRequest(Value, frozen=True):
    """A number of devices (or all) of a class that pass all selectors. An empty mode is `ExactCount`, no count is 1."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceSubRequest(Value, frozen=True):
    """One of several ways to satisfy a request."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceRequest(Value, frozen=True):
    """A request of a claim: one of both fields is set."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Value, frozen=True):
    """What the devices of some requests (of all, if none is named) have in common, or must not."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class OpaqueDeviceConfiguration(Value, frozen=True):
    """Parameters for a driver, handed on as they are."""

    driver: str = ""
    parameters: Any = None


class DeviceClassConfiguration(Value, frozen=True):
    """What a class tells its drivers."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaimConfiguration(Value, frozen=True):
    """What a claim tells the drivers of some requests (of all, if none is named)."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Value, frozen=True):
    """The requests of a claim and what holds between them."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Value, frozen=True):
    """The specification of a claim."""

    devices: DeviceClaim = DeviceClaim()


# --- allocations ------------------------------------------------------------------------------------------------------


class DeviceRequestAllocationResult(Value, frozen=True):
    """One device that a request got; `request` is `name` or `name/subrequest`."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, Quantity] = {}
    skip_node_operations: tuple[str, ...] = ()


class DeviceAllocationConfiguration(Value, frozen=True):
    """Configuration of an allocation, from a class or from the claim."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Value, frozen=True):
    """The devices of an allocation, in the order in which they were chosen."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Value, frozen=True):
    """What a claim got, and the nodes that can use it (no selector: all)."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumerReference(Value, frozen=True):
    """Who may use a claim: a pod, or a pod group."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(Value, frozen=True):
    """What a driver tells of a device that is allocated."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()


class ResourceClaimStatus(Value, frozen=True):
    """The status of a claim."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(KubeObject):
    """A claim to devices."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Value, frozen=True):
    """What the claims of a template are like."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(KubeObject):
    """A template from which a controller makes one claim for each pod."""

    spec: ResourceClaimTemplateSpec = msgspec.field(default_factory=ResourceClaimTemplateSpec)


class DeviceClassSpec(Value, frozen=True):
    """What the devices of a class have in common."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(KubeObject):
    """A class of devices."""

    spec: DeviceClassSpec = DeviceClassSpec()


# --- devices ----------------------------------------------------------------------------------------------------------


class DeviceAttribute(Value, frozen=True):
    """A value of a device: one of the fields is set. The lists are behind the gate DRAListTypeAttributes."""

    int_value: int | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string_value: str | None = msgspec.field(default=None, name="string")
    version_value: str | None = msgspec.field(default=None, name="version")
    int_values: tuple[int, ...] | None = msgspec.field(default=None, name="ints")
    bool_values: tuple[bool, ...] | None = msgspec.field(default=None, name="bools")
    string_values: tuple[str, ...] | None = msgspec.field(default=None, name="strings")
    version_values: tuple[str, ...] | None = msgspec.field(default=None, name="versions")


class CapacityRequestPolicyRange(Value, frozen=True):
    """The amounts of a capacity that may be requested, from `min` on in steps."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Value, frozen=True):
    """How requests for a capacity are rounded, and what counts where nothing is requested."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Value, frozen=True):
    """An amount that a device has."""

    value: Quantity = "0"
    request_policy: CapacityRequestPolicy | None = None


class Counter(Value, frozen=True):
    """An amount that devices of a pool share."""

    value: Quantity = "0"


class CounterSet(Value, frozen=True):
    """Counters by name."""

    name: str = ""
    counters: dict[str, Counter] = {}


class DeviceCounterConsumption(Value, frozen=True):
    """What a device takes of a counter set while it is allocated."""

    counter_set: str = ""
    counters: dict[str, Counter] = {}
    compatibility_groups: tuple[str, ...] = ()


class DeviceTaint(Value, frozen=True):
    """A reason not to use a device; effects None, NoSchedule, NoExecute."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeAllocatableMapping(Value, frozen=True):
    """How much of a node's resource a device stands for (gate DRANodeAllocatableResources)."""

    capacity_key: str | None = None
    capacity_multiplier: Quantity | None = None
    device_multiplier: Quantity | None = None


class NodeAllocatableOverhead(Value, frozen=True):
    """What a device costs its node beside that."""

    per_pod: Quantity | None = None
    per_container: Quantity | None = None


class NodeAllocatableResource(Value, frozen=True):
    """What a device means for one resource of its node."""

    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class Device(Value, frozen=True):
    """A device of a slice. With `perDeviceNodeSelection` it says itself which nodes reach it."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None
    node_allocatable_resources: dict[str, NodeAllocatableResource] = {}


class ResourcePool(Value, frozen=True):
    """The pool that a slice is part of; only the slices of its highest generation count."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Value, frozen=True):
    """Devices of one driver and pool, and the nodes that reach them: one of the four ways to say so is set."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()
    partition_type_attribute: str | None = None
    skip_node_operations: tuple[str, ...] = ()


class ResourceSlice(KubeObject):
    """Devices that a driver publishes."""

    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceTaintSelector(Value, frozen=True):
    """The devices of a taint rule: all fields that are set must be equal."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Value, frozen=True):
    """A taint and the devices that get it; without a selector none."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(KubeObject):
    """A taint that an administrator adds to devices."""

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
