"""A pod with a smaller request: which containers give up how much.

The largest container gives first, down to nothing, then the next. Ordinary init containers, which run one after the
other, are capped. What a pod-level request says stays above what the containers say, as the API server wants it.
"""

from collections.abc import Iterator
from typing import Final

from kscheduler.api.core import Container, Pod, ResourceList
from kscheduler.api.quantity import nano_value
from kscheduler.explain.suggestions.changed import REPLACE, Operation, pointer
from kscheduler.framework.pods.requests import CPU, is_extended, supported_at_pod_level

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
