"""Claims in use before pods come: each gets devices on a node that is chosen at random, as scheduler_perf does it."""

import random
from collections.abc import Iterator
from typing import Final, cast

from msgspec.structs import replace

from kscheduler.api.core import Node
from kscheduler.api.device_selectors import Release, SelectorCompiler
from kscheduler.api.devices import AllocationResult, ResourceClaim, ResourceClaimStatus
from kscheduler.api.kinds import NODES, RESOURCE_CLAIMS
from kscheduler.bench.cluster import ServiceInProcess, StandIn
from kscheduler.bench.template import TemplateError
from kscheduler.devices.allocator import Allocator
from kscheduler.devices.selection import Selections
from kscheduler.devices.slices import SliceIndex
from kscheduler.devices.wanted import AllocatorFeatures

# The same nodes in each run.
_SEED: Final = 1


def allocate_claims(cluster: StandIn, service: ServiceInProcess, namespace: str) -> None:
    """Allocate all claims of the namespace (all, if it is empty) that have no devices.

    Raises `TemplateError` if one finds none on any node.
    """
    cluster.deliver_all()
    gates, devices = service.config.gates, service.cache.devices
    features = AllocatorFeatures.of(gates.enabled_names(), gates.behaviours)
    compiler = SelectorCompiler(cast("Release", gates.version), gates.enabled("DRAListTypeAttributes"))
    selections = Selections(compiler, features)
    index = SliceIndex(devices.slices(), features)
    nodes: list[Node] = list(cluster.stores[NODES].list())
    chance = random.Random(_SEED)  # noqa: S311 (which nodes are taken is no secret)
    for claim in _unallocated(cluster, namespace):
        chance.shuffle(nodes)
        allocator = Allocator(
            features, [claim], devices.claims.allocated_state(), devices.device_class, index, selections
        )
        allocation = _first(allocator, nodes)
        if allocation is None:
            raise TemplateError(f"{RESOURCE_CLAIMS.name} {claim.key} finds no devices on any node")
        cluster.write(RESOURCE_CLAIMS, claim, replace(claim, status=ResourceClaimStatus(allocation=allocation)))
        cluster.deliver_all()


def _unallocated(cluster: StandIn, namespace: str) -> Iterator[ResourceClaim]:
    for claim in list(cluster.stores[RESOURCE_CLAIMS].list()):
        if claim.status.allocation is None and namespace in ("", claim.metadata.namespace):
            yield claim


def _first(allocator: Allocator, nodes: list[Node]) -> AllocationResult | None:
    for node in nodes:
        found = allocator.allocate(node.metadata.name, node.metadata.labels)
        if found:
            return found[0]
    return None
