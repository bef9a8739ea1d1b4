"""A resource that the pod requests and nobody has, under the name that nodes or classes of devices have it."""

from collections.abc import Iterator
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.explain.suggestions.kinds.resources import (
    OfferedResource,
    containers_of,
    is_of_devices,
    is_offered,
    near_names,
    offered_resources,
)
from kscheduler.explain.suggestions.object_changes import ADD, REMOVE, Operation, pointer
from kscheduler.explain.suggestions.suggestion import Demand, Patch, PodChange, Step
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.state.cache import Cache

# Of a pod that has what it asks for, under the name that it has here.
_SIZE: Final = 0.15


class RenameResource(PodChange, frozen=True):
    """A request under another name: probably the first is a typing mistake."""

    kind = "resourceName"
    touched = frozenset(("NodeResourcesFit",))

    resource: str
    amount: int
    to: str
    nodes: int
    """How many have it; 0: devices stand for it."""

    @classmethod
    def demands(cls, pod: PodInfo, cache: Cache) -> Iterator[Demand]:
        for resource, amount in sorted(pod.requests.items()):
            if amount <= 0 or not is_of_devices(resource) or is_offered(resource, cache):
                continue
            offered = offered_resources(cache)
            for near in near_names(resource, offered):
                if patch := _renamed(pod.pod, resource, near):
                    yield Demand(cls(resource, amount, near, offered[near]), patch, _SIZE)

    def text(self, step: Step) -> str:
        who_has = OfferedResource(self.to, self.nodes).who_has
        return f"request {self.to} instead of {self.resource}: no node has {self.resource}, {who_has} {self.to}"


def _renamed(pod: Pod, resource: str, name: str) -> Patch:
    """The same amounts under another name, in all containers; empty where one asks for both."""
    patch: list[Operation] = []
    for place, container in containers_of(pod):
        listed = (("requests", container.resources.requests), ("limits", container.resources.limits))
        for field, amounts in listed:
            if name in amounts:
                return ()
            if resource in amounts:
                at = (*place, "resources", field)
                patch.append(Operation(ADD, pointer(*at, name), amounts[resource]))
                patch.append(Operation(REMOVE, pointer(*at, resource)))
    return tuple(patch)
