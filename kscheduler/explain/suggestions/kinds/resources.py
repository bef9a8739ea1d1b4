"""Resources: a pod with a smaller request, and what nodes and device classes offer.

A smaller request: the largest container gives first, down to nothing, then the next. Ordinary init containers, which
run one after the other, are capped. What a pod-level request says stays above what the containers say, as the API
server wants it.

A resource that nobody has is probably another one under a wrong name. What some node has, or a class of devices stands
for, is left alone, whether any of it is free or not.

    nvidia.com/gpus                nodes have nvidia.com/gpu              the name is another one
    amd.com/gpu                    nodes have nvidia.com/gpu              the domain is another one
    deviceclass.resource.kubernetes.io/gpu.exmaple.com                    there is a class gpu.example.com
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

import msgspec
import numpy as np

from kscheduler.api.core import Container, Pod, ResourceList
from kscheduler.api.devices import IMPLICIT_EXTENDED_RESOURCE
from kscheduler.api.quantity import nano_value
from kscheduler.explain.suggestions.object_changes import REPLACE, Operation, pointer
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.requests import CPU, is_extended, supported_at_pod_level
from kscheduler.state.cache import Cache

_BINARY_UNITS: Final = (("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))
Place = tuple[str | int, ...]


def lowered(pod: Pod, resource: str, total: int) -> tuple[Operation, ...] | None:
    """A patch after which the pod requests at most `total` of the resource (cpu in thousandths, others in units).

    `None` if no container gives it: it is overhead, or more than `total` of it is.
    """
    spec = pod.spec
    room = total - _amount(spec.overhead, resource)
    if room < 0:
        if total > 0:
            return None
        room = 0
    patch: list[Operation] = []
    whole = spec.resources
    at_pod_level = supported_at_pod_level(whole.requests) if whole is not None else {}
    if _amount(at_pod_level, resource) > room:
        patch += _set(("spec", "resources"), resource, room, has_limit=False)
    amounts = {place: _amount(each.resources.requests, resource) for place, each in containers_of(pod)}
    kept = _kept(pod, amounts, room)
    for place, container in containers_of(pod):
        if kept[place] < amounts[place]:
            has_limit = resource in container.resources.limits and _must_equal_limit(resource)
            patch += _set((*place, "resources"), resource, kept[place], has_limit=has_limit)
    return tuple(patch) or None


def quantity_text(resource: str, amount: int) -> str:
    """An amount exactly, in the unit that divides it."""
    if resource == CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    for unit, shift in _BINARY_UNITS:
        if amount and amount % (1 << shift) == 0:
            return f"{amount >> shift}{unit}"
    return str(amount)


def _kept(pod: Pod, amounts: dict[Place, int], room: int) -> dict[Place, int]:
    """What each container may still request, so that the pod needs no more than the room."""
    together = [place for place, container in containers_of(pod) if place[1] == "containers" or _is_sidecar(container)]
    kept = dict(amounts)
    excess = sum(amounts[place] for place in together) - room
    for place in sorted(together, key=lambda each: -amounts[each]):
        given = min(max(excess, 0), kept[place])
        kept[place] -= given
        excess -= given
    before = 0
    for place, container in containers_of(pod):
        if place[1] != "initContainers":
            continue
        if _is_sidecar(container):
            before += kept[place]
        else:
            kept[place] = min(kept[place], max(room - before, 0))
    return kept


def containers_of(pod: Pod) -> Iterator[tuple[Place, Container]]:
    """The containers with where each stands: first those that initialise the pod."""
    for position, container in enumerate(pod.spec.init_containers):
        yield ("spec", "initContainers", position), container
    for position, container in enumerate(pod.spec.containers):
        yield ("spec", "containers", position), container


def _is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def _set(at: Place, resource: str, amount: int, *, has_limit: bool) -> list[Operation]:
    value = quantity_text(resource, amount)
    fields = ("requests", "limits") if has_limit else ("requests",)
    return [Operation(REPLACE, pointer(*at, field, resource), value) for field in fields]


def _must_equal_limit(resource: str) -> bool:
    """Whether the API server wants request and limit equal: nobody shares such a resource."""
    return is_extended(resource) or resource.startswith("hugepages-")


def _amount(resources: ResourceList, resource: str) -> int:
    """Rounded up, as the scheduler counts."""
    nanos = nano_value(resources.get(resource, "0"))
    return -(-nanos // (10**6 if resource == CPU else 10**9))


# --- what is offered --------------------------------------------------------------------------------------------------

# Names that are near, the nearest first.
_TRIED: Final = 2
# Of whole names, whose domains alone make most of them alike.
_NEARLY_EQUAL: Final = 0.9
_MAX_NAMED: Final = 5


class OfferedResource(msgspec.Struct, frozen=True):
    """An extended resource that there is."""

    resource: str
    nodes: int
    """How many have it; 0: devices stand for it."""

    @property
    def who_has(self) -> str:
        """`2 nodes have`"""
        return (
            "a device class stands for"
            if not self.nodes
            else "1 node has"
            if self.nodes == 1
            else f"{self.nodes} nodes have"
        )

    @property
    def where(self) -> str:
        """`on 2 nodes`"""
        return "as devices" if not self.nodes else "on 1 node" if self.nodes == 1 else f"on {self.nodes} nodes"


def is_of_devices(resource: str) -> bool:
    """Whether it is a resource that device plugins or device classes offer: without it the pod is another one."""
    return is_extended(resource) or resource.startswith(IMPLICIT_EXTENDED_RESOURCE)


def is_offered(resource: str, cache: Cache) -> bool:
    """Whether some node has the resource, or a class of devices stands for it."""
    nodes = cache.nodes
    has_any = nodes.amounts(nodes.allocatable, resource, nodes.rows()).any()
    return bool(has_any) or cache.devices.class_of_resource(resource) is not None


def offered_resources(cache: Cache) -> dict[str, int]:
    """The extended resources that there are, by name, each with the number of nodes that have it; 0: as devices."""
    nodes, devices = cache.nodes, cache.devices
    found = dict.fromkeys(_of_classes(cache), 0)
    for resource in sorted(_of_nodes(nodes)):
        count = int(np.count_nonzero(nodes.amounts(nodes.allocatable, resource, nodes.rows())))
        if count:
            found[resource] = count
    return {name: count for name, count in found.items() if count or devices.class_of_resource(name) is not None}


def near_names(resource: str, offered: Mapping[str, int]) -> list[str]:
    """Of the same name in another domain; else of nearly this name in the same one; else nearly equal as a whole."""
    domain, _, name = resource.rpartition("/")
    same_name = [each for each in offered if each.rpartition("/")[2] == name]
    if same_name:
        return sorted(same_name, key=lambda each: (-offered[each], each))[:_TRIED]
    of_domain = [each.rpartition("/")[2] for each in offered if each.rpartition("/")[0] == domain]
    if near := get_close_matches(name, of_domain, n=_TRIED):
        return [f"{domain}/{each}" for each in near]
    return get_close_matches(resource, list(offered), n=_TRIED, cutoff=_NEARLY_EQUAL)


def instead_of(resource: str, cache: Cache) -> tuple[OfferedResource | None, Sequence[OfferedResource]]:
    """What there is of a resource that nobody has: the near name, and all others, those of most nodes first."""
    if not is_of_devices(resource) or is_offered(resource, cache):
        return None, []
    offered = offered_resources(cache)
    near = next((OfferedResource(each, offered[each]) for each in near_names(resource, offered)), None)
    ordered = sorted(offered, key=lambda each: (-offered[each], each))
    # A class of devices has a name of its own for its resource, which says nothing new where it has another one, too.
    reported = [each for each in ordered if not each.startswith(IMPLICIT_EXTENDED_RESOURCE)] or ordered
    return near, [OfferedResource(each, offered[each]) for each in reported[:_MAX_NAMED]]


def _of_nodes(nodes: NodeTable) -> set[str]:
    """The extended resources of all nodes, those of which they have nothing included."""
    infos = (nodes.info(row) for row in nodes.rows().tolist())
    return {resource for info in infos for resource in info.allocatable if is_of_devices(resource)}


def _of_classes(cache: Cache) -> Iterator[str]:
    for name in cache.devices.class_names():
        found = cache.devices.device_class(name)
        if found is not None and found.spec.extended_resource_name:
            yield found.spec.extended_resource_name
        yield f"{IMPLICIT_EXTENDED_RESOURCE}{name}"
