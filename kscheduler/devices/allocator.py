"""The structured allocator: which devices the claims of a pod would get on a node, the same ones as kube-scheduler's.

It is pure: claims, classes, slices and what is allocated go in, allocations come out. Implements what upstream calls
the incubating allocator, which both versions use with default gates.
"""

from collections.abc import Callable, Mapping, Sequence
from uuid import uuid4

from kscheduler.api.devices import AllocationResult, DeviceClass, ResourceClaim
from kscheduler.devices.errors import AllocationError, FailedOnThisNodeError
from kscheduler.devices.features import AllocatorFeatures
from kscheduler.devices.ids import AllocatedState
from kscheduler.devices.limits.counters import FreeCounters, PoolCounters
from kscheduler.devices.plan import Parts, Planner
from kscheduler.devices.pools import NodeIdentity
from kscheduler.devices.results import allocation_of
from kscheduler.devices.search import Search
from kscheduler.devices.selection import Selections
from kscheduler.devices.slices import SliceIndex

__all__ = ["AllocationError", "Allocator", "FailedOnThisNodeError"]


class Allocator:
    """Allocates for the claims of one pod, on any node, in one state of devices and allocations."""

    def __init__(
        self,
        features: AllocatorFeatures,
        claims: Sequence[ResourceClaim],
        allocated: AllocatedState,
        classes: Callable[[str], DeviceClass | None],
        slices: SliceIndex,
        selections: Selections,
        new_share_id: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        """`classes`: a class by its name. `selections`: shared by all allocators with the same compiler."""
        self._features = features
        self._allocated = allocated
        self._slices = slices
        self._planner = Planner(features, claims, classes, selections, allocated)
        self._counters = FreeCounters(features, allocated)
        self._new_share_id = new_share_id

    def allocate(self, node_name: str, node_labels: Mapping[str, str]) -> list[AllocationResult] | None:
        """What each claim gets on the node; `None` if they do not all get something.

        Raises `AllocationError`, `FailedOnThisNodeError`.
        """
        parts = self.allocate_in_parts(node_name, node_labels)
        while True:
            try:
                next(parts)
            except StopIteration as ended:
                results: list[AllocationResult] | None = ended.value
                return results

    def allocate_in_parts(self, node_name: str, node_labels: Mapping[str, str]) -> Parts[list[AllocationResult] | None]:
        """As `allocate`; who runs it may pause at each `yield`, if what is allocated does not change meanwhile."""
        node = NodeIdentity(node_name, node_labels)
        pools = self._slices.pools(node_name, node_labels)
        plans = yield from self._planner.plans(pools, node)
        counters = PoolCounters(self._counters, self._features)
        search = Search(self._features, plans, pools, node, self._allocated, counters, self._new_share_id)
        if not (yield from search.parts()):
            if any(pool.is_invalid for pool in pools):
                raise FailedOnThisNodeError("invalid resource pools were encountered")
            return None
        return [
            allocation_of(plan, chosen, node_name, self._features)
            for plan, chosen in zip(plans, search.chosen, strict=True)
        ]
