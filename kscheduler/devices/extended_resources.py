"""The claim behind a pod's extended resources: which devices its containers request, and which container uses which.

A DeviceClass may stand for an extended resource. On a node that has none of that resource to count, the pod's requests
for it become device requests of one claim. Containers that live as long as the pod have a request each. An init
container that ends uses the requests of the long-lived ones from its own place on; what it needs beyond that is one
more request, of which the largest among all init containers is enough: they run one after the other.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from kscheduler.api.core import Container, ContainerExtendedResourceRequest, Pod
from kscheduler.api.devices import EXACT_COUNT, DeviceRequest, ExactDeviceRequest
from kscheduler.api.quantity import value

_ALWAYS: Final = "Always"


class BackedRequests(msgspec.Struct, frozen=True):
    """The requests of a pod's claim for extended resources, sorted by name, and who uses them."""

    requests: tuple[DeviceRequest, ...]
    mappings: tuple[ContainerExtendedResourceRequest, ...]


def requests_of(pod: Pod, classes: Mapping[str, str]) -> BackedRequests:
    """The requests for the resources in `classes` (resource to the name of its class)."""
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(classes):
        of_resource = _OfResource(pod, resource, classes[resource])
        requests += of_resource.requests()
        mappings += of_resource.mappings()
    return BackedRequests(tuple(sorted(requests, key=_name)), tuple(mappings))


class _Use(msgspec.Struct, frozen=True):
    """A container and the names of the requests that it uses, its own among them."""

    container: str
    requests: tuple[str, ...]


class _OfResource:
    """The requests of all containers for one resource."""

    def __init__(self, pod: Pod, resource: str, device_class: str) -> None:
        self._resource = resource
        self._class = device_class
        self._long_lived: dict[int, tuple[str, int]] = {}
        self._long_uses: list[_Use] = []
        self._largest: tuple[str, int] | None = None
        self._short_uses: list[_Use] = []
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        ends = [
            index < len(pod.spec.init_containers) and each.restart_policy != _ALWAYS
            for index, each in enumerate(containers)
        ]
        for index, container in enumerate(containers):
            if not ends[index]:
                self._add_long_lived(index, container)
        extra: set[str] = set()
        for index, container in enumerate(containers):
            if ends[index]:
                extra |= self._add_short_lived(index, container)
        self._rename(extra)

    def requests(self) -> list[DeviceRequest]:
        """One per long-lived container that needs devices, and one for the neediest init container."""
        needed = list(self._long_lived.values())
        if self._largest is not None:
            needed.append(self._largest)
        return [_request(name, self._class, count) for name, count in needed]

    def mappings(self) -> list[ContainerExtendedResourceRequest]:
        """Container to request: long-lived containers first."""
        return [
            ContainerExtendedResourceRequest(
                container_name=use.container, resource_name=self._resource, request_name=name
            )
            for use in (*self._long_uses, *self._short_uses)
            for name in use.requests
        ]

    def _add_long_lived(self, index: int, container: Container) -> None:
        count = _count(container, self._resource)
        if count:
            name = _request_name(index, container, self._resource)
            self._long_lived[index] = name, count
            self._long_uses.append(_Use(container.name, (name,)))

    def _add_short_lived(self, index: int, container: Container) -> set[str]:
        """The name of the further request that the container needs, if any."""
        needed = _count(container, self._resource)
        if not needed:
            return set()
        used, found = _reused(needed, [self._long_lived[at] for at in sorted(self._long_lived) if at >= index])
        if found >= needed:
            self._short_uses.append(_Use(container.name, used))
            return set()
        name, count = _request_name(index, container, self._resource), needed - found
        self._short_uses.append(_Use(container.name, (*used, name)))
        if self._largest is None or self._largest[1] < count:
            self._largest = name, count
        return {name}

    def _rename(self, extra: Iterable[str]) -> None:
        """Let each init container use the one further request that is kept."""
        if self._largest is None:
            return
        kept = self._largest[0]
        left_out = set(extra) - {kept}
        self._short_uses = [
            _Use(use.container, tuple(kept if name in left_out else name for name in use.requests))
            for use in self._short_uses
        ]


def _reused(needed: int, requests: Sequence[tuple[str, int]]) -> tuple[tuple[str, ...], int]:
    """The requests to use, in order, until they are enough; and how many devices they have."""
    names: list[str] = []
    found = 0
    for name, count in requests:
        if found >= needed:
            break
        names.append(name)
        found += count
    return tuple(names), found


def _count(container: Container, resource: str) -> int:
    return value(container.resources.requests.get(resource, "0"))


def _request_name(index: int, container: Container, resource: str) -> str:
    """By the places of the container among all, and of the resource among those of the container."""
    return f"container-{index}-request-{sorted(container.resources.requests).index(resource)}"


def _request(name: str, device_class: str, count: int) -> DeviceRequest:
    exactly = ExactDeviceRequest(device_class_name=device_class, allocation_mode=EXACT_COUNT, count=count)
    return DeviceRequest(name=name, exactly=exactly)


def _name(request: DeviceRequest) -> str:
    return request.name
