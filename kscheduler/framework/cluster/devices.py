"""Devices and the claims to them, as plugins see them: what exists, what was decided and not written yet, what is free.

A decision about devices (this claim gets that device) must count before the API server confirms it, or two claims get
the same device. There are two stages on the way:

    pending    Reserve has chosen the devices; nothing is written. Other pods with the claim must wait, and its devices
               are taken. Ends when all claims of the pod are written, or when the pod is not bound after all
    assumed    PreBind has written the claim, and the API server's answer is here before the watch shows it

A claim is tracked in each of these stages under its UID: its devices count once, whatever stages it is in.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kscheduler.api.core import Pod
from kscheduler.api.devices import AllocationResult, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.status import error

if TYPE_CHECKING:
    from kscheduler.devices.counting import NodeDevices, PoolCount
    from kscheduler.devices.ids import AllocatedState, PoolID

# For pods with claims if the `Handle` has no devices: a pod must not be placed with a part of the rules.
NO_DEVICES_KNOWN = error("devices and claims to them are not available here")

# `listener(before, now)`: a claim as readers saw it, and as they see it now; `None` where there was or is none.
ClaimListener = Callable[[ResourceClaim | None, ResourceClaim | None], None]


@runtime_checkable
class DeviceChooser(Protocol):
    """A plugin that chooses devices, for questions about its cycle after it has ended."""

    def claims_with_devices(
        self, cycle: CycleState, node: NodeInfo
    ) -> Sequence[tuple[ResourceClaim, AllocationResult]]:
        """The pod's claims with the devices that they have, or would get on a node that passed. Nothing is reserved.

        Raises `StatusError`.
        """
        ...


@runtime_checkable
class DeviceCounter(Protocol):
    """A plugin that knows which devices nodes reach, for people who ask how many are left."""

    def devices_on(self, nodes: Iterable[NodeInfo]) -> "dict[str, NodeDevices]":
        """By name of a node its devices by class, and how many are taken; without nodes that reach none."""
        ...

    def devices_by_pool(self, nodes: Iterable[NodeInfo]) -> "dict[str, tuple[PoolCount, ...]]":
        """By name of a node its devices by class and pool; without nodes that reach none of any class."""
        ...

    def pool_states(self) -> Mapping[tuple[str, str], int]:
        """How many pools there are by (driver, state): `complete`, `incomplete`."""
        ...


class Claims(Protocol):
    """The claims, assumed versions first. Synchronous; objects are shared and must not be changed."""

    @property
    def revision(self) -> int:
        """Grows with each change of what is allocated or pending."""
        ...

    def get(self, key: str) -> ResourceClaim | None:
        """The claim `namespace/name`: as assumed, else as the API server last showed it, without pending devices."""
        ...

    def confirmed(self, key: str) -> ResourceClaim | None:
        """The claim `namespace/name` as the API server last showed it."""
        ...

    def allocated(self) -> Sequence[ResourceClaim]:
        """The claims that have devices, assumed versions first, without pending ones."""
        ...

    def for_extended_resources(self, pod: Pod) -> ResourceClaim | None:
        """The claim that was written for the pod's extended resources, in this attempt or an earlier one."""
        ...

    def assume(self, claim: ResourceClaim) -> None:
        """Let readers see this version, an answer of the API server, until the watch has shown it or a newer one.

        Raises `ValueError` if the claim is gone, or the watch has already shown a newer version.
        """
        ...

    def restore(self, key: str) -> None:
        """Let readers see what the API server last showed of the claim; nothing happens without an assumption."""
        ...

    def pending(self, uid: str) -> ResourceClaim | None:
        """The claim of this UID with the devices that were chosen for it and are not written yet."""
        ...

    def signal_pending(self, uid: str, claim: ResourceClaim) -> None:
        """Count the devices of `claim.status.allocation` as taken, and its claim as in the process of being allocated.

        Once more for a claim that is pending: it has one more sharer, and keeps the devices of the first. Nothing
        happens if the claim is allocated already.
        """
        ...

    def remove_pending(self, uid: str, *, force: bool) -> bool:
        """Take one sharer away, or all (`force`). Returns whether the claim is no longer pending because of this."""
        ...

    def pools_changed_since(self, revision: int) -> Collection["PoolID"] | None:
        """The pools in which anything has been taken or given back since; `None`: too much to tell."""
        ...

    @property
    def changes(self) -> int:
        """The number of changes of claims, assumed ones included."""
        ...

    def changed_since(self, changes: int) -> Collection[str] | None:
        """The keys of the claims that have changed since there were so many changes; `None`: too much to tell."""
        ...

    def allocated_state(self) -> "AllocatedState":
        """The devices that allocated and pending claims hold. It must not be kept across an `await`."""
        ...

    def negative_amounts(self) -> str:
        """The first claim, in the order of the texts, that takes less than nothing of a device; empty without one."""
        ...

    def on_change(self, listener: ClaimListener) -> Callable[[], None]:
        """Call `listener` after each change of what `get` returns; returns a function that ends the subscription."""
        ...


class Devices(Protocol):
    """The state of devices."""

    @property
    def revision(self) -> int:
        """Grows with each change of slices, taints, classes, and of what is allocated or pending."""
        ...

    @property
    def class_changes(self) -> int:
        """The number of changes of classes."""
        ...

    @property
    def claims(self) -> Claims:
        """The claims and what is allocated."""
        ...

    def slices(self) -> Sequence[ResourceSlice]:
        """The slices, with the taints of all rules; the same object as long as no slice and no rule changes."""
        ...

    def taint_rules(self) -> Sequence[DeviceTaintRule]:
        """The rules whose taints `slices` have, by name."""
        ...

    def device_class(self, name: str) -> DeviceClass | None:
        """A class of devices."""
        ...

    def class_names(self) -> tuple[str, ...]:
        """The names of all classes, sorted."""
        ...

    def stand_for_any(self, resources: Collection[str]) -> bool:
        """Whether devices stand for one of these resources."""
        ...

    def class_of_resource(self, resource: str) -> DeviceClass | None:
        """The class whose devices stand for an extended resource."""
        ...
