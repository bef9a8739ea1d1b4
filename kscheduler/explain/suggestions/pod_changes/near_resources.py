"""A resource that the pod requests and nobody has, but nearly: probably a typing mistake.

    nvidia.com/gpus                nodes have nvidia.com/gpu              the name is another one
    amd.com/gpu                    nodes have nvidia.com/gpu              the domain is another one
    deviceclass.resource.kubernetes.io/gpu.exmaple.com                    there is a class gpu.example.com

What some node has, or a class of devices stands for, is left alone, whether any of it is free or not.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

import numpy as np

from kscheduler.api.core import Pod
from kscheduler.api.devices import IMPLICIT_EXTENDED_RESOURCE
from kscheduler.explain.suggestions.changed import ADD, REMOVE, Operation, pointer
from kscheduler.explain.suggestions.pod_changes.demand import Demand, Patch
from kscheduler.explain.suggestions.pod_changes.requests_lowered import containers_of
from kscheduler.explain.suggestions.suggestion import ChangeKind
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import is_extended
from kscheduler.state.cache import Cache

# Names that are near, the nearest first.
_TRIED: Final = 2
# Of a pod that has what it asks for, under the name that it has here.
_SIZE: Final = 0.15
# Of whole names, whose domains alone make most of them alike.
_NEARLY_EQUAL: Final = 0.9
_MOST_NAMED: Final = 5


def is_of_devices(resource: str) -> bool:
    """Whether it is a resource that device plugins or device classes offer: without it the pod is another one."""
    return is_extended(resource) or resource.startswith(IMPLICIT_EXTENDED_RESOURCE)


def near_resources(pod: PodInfo, cache: Cache) -> Iterator[Demand]:
    """The pod with a resource under another name, as nodes or classes of devices have it."""
    for resource, amount in sorted(pod.requests.items()):
        if amount <= 0 or not is_of_devices(resource) or is_offered(resource, cache):
            continue
        offered = offered_resources(cache)
        for near in near_names(resource, offered):
            if patch := _renamed(pod.pod, resource, near):
                facts = {"resource": resource, "amount": amount, "to": near, "nodes": offered[near]}
                yield Demand(ChangeKind.RESOURCE_NAME, patch, _SIZE, facts)


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


def instead_of(resource: str, cache: Cache) -> dict[str, Any]:
    """What there is of a resource that nobody has: the `near` name, and the `others`, those of most nodes first."""
    if not is_of_devices(resource) or is_offered(resource, cache):
        return {"near": None, "others": []}
    offered = offered_resources(cache)
    near = next((_as_fact(each, offered) for each in near_names(resource, offered)), None)
    ordered = sorted(offered, key=lambda each: (-offered[each], each))
    # A class of devices has a name of its own for its resource, which says nothing new where it has another one, too.
    reported = [each for each in ordered if not each.startswith(IMPLICIT_EXTENDED_RESOURCE)] or ordered
    return {"near": near, "others": [_as_fact(each, offered) for each in reported[:_MOST_NAMED]]}


def _as_fact(resource: str, offered: Mapping[str, int]) -> dict[str, Any]:
    return {"resource": resource, "nodes": offered[resource]}


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


def _renamed(pod: Pod, resource: str, name: str) -> Patch:
    """The same amounts under another name, in all containers; empty where one asks for both."""
    patch: list[Operation] = []
    for place, container in containers_of(pod):
        queried = (("requests", container.resources.requests), ("limits", container.resources.limits))
        for field, amounts in queried:
            if name in amounts:
                return ()
            if resource in amounts:
                at = (*place, "resources", field)
                patch.append(Operation(ADD, pointer(*at, name), amounts[resource]))
                patch.append(Operation(REMOVE, pointer(*at, resource)))
    return tuple(patch)
