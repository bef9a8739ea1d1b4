"""The requests of a pod (kube-scheduler 1.36, component-helpers/resource).

Regular containers add up; an ordinary init container needs its own request plus those of the sidecars started before
it, and the pod needs the larger of both. Pod-level requests replace the sum for cpu, memory and hugepages; overhead is
added. A running pod (`use_status`) counts the maximum of the spec, the status and the kubelet's allocation, so that a
resize in progress never overcommits the node.

Sums are exact in billionths and rounded up once at the end, as Go's Quantity does; then they saturate.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from kscheduler.api.core import Container, ContainerStatus, Pod, ResourceList, ResourceRequirements
from kscheduler.api.quantity import MAX_INT64, nano_value
from kscheduler.bounded.recently_used import RecentlyUsed

Requests = Mapping[str, int]
"""Resource name to amount: cpu in thousandths, everything else in units."""
Nanos = dict[str, int]

CPU, MEMORY, EPHEMERAL_STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"

NONZERO_DEFAULTS: Mapping[str, int] = MappingProxyType({CPU: 100 * 10**6, MEMORY: 200 * 1024 * 1024 * 10**9})
"""The amounts that scoring presumes for a container without requests (100m, 200Mi), in billionths."""


def incoming_requests(pod: Pod) -> Requests:
    """The amounts that Fit's filter requires of a node for a pod to be scheduled."""
    return _rounded(_pod_nanos(pod))


def accounted_requests(pod: Pod) -> Requests:
    """The amounts that a pod uses on its node, resizes in progress included. Shared by like pods: do not modify."""
    sums = _sums_of_like(pod)
    return sums.accounted if sums is not None else _rounded(_pod_nanos(pod, use_status=True))


def nonzero_accounted(pod: Pod) -> tuple[int, int]:
    """(cpu in thousandths, memory in bytes) that scoring presumes a pod uses on its node."""
    sums = _sums_of_like(pod)
    return sums.nonzero if sums is not None else _nonzero(pod)


def nonzero_requests(pod: Pod, *, use_status: bool, pod_level: bool) -> Requests:
    """The requests for scoring, with `NONZERO_DEFAULTS` for containers that request no cpu or memory.

    With pod-level requests set (and used), a default applies only to resources that the whole pod does not request.
    """
    defaults = NONZERO_DEFAULTS
    if pod_level and pod.spec.resources is not None and supported_at_pod_level(pod.spec.resources.requests):
        plain = _pod_nanos(pod, use_status=use_status)
        defaults = {name: amount for name, amount in NONZERO_DEFAULTS.items() if name not in plain}
    return _rounded(_pod_nanos(pod, use_status=use_status, pod_level=pod_level, defaults=defaults))


def _nonzero(pod: Pod) -> tuple[int, int]:
    presumed = nonzero_requests(pod, use_status=True, pod_level=True)
    return presumed.get(CPU, 0), presumed.get(MEMORY, 0)


# --- pods that share their containers ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sums:
    """The sums of pods with these container and status objects. Holding them keeps their ids from being reused."""

    containers: tuple[Container, ...]
    statuses: tuple[ContainerStatus, ...]
    accounted: Requests
    nonzero: tuple[int, int]


_KEPT_SUMS: Final = 2048
"""Half a kilobyte each, plus the containers that an entry holds."""
_sums: RecentlyUsed[tuple[int, int], _Sums] = RecentlyUsed(_KEPT_SUMS)
"""By the identity of both: informers share the containers of like pods."""


def _sums_of_like(pod: Pod) -> _Sums | None:
    """The sums of pods with the same containers and statuses; `None` if the pod's sums depend on anything else."""
    spec, status = pod.spec, pod.status
    if spec.init_containers or spec.resources is not None or spec.overhead or status.init_container_statuses:
        return None
    if status.container_statuses and _resize_is_infeasible(pod):
        return None
    key = id(spec.containers), id(status.container_statuses)
    sums = _sums.get(key)
    if sums is None:
        accounted = _rounded(_pod_nanos(pod, use_status=True))
        sums = _Sums(spec.containers, status.container_statuses, accounted, _nonzero(pod))
        _sums[key] = sums
    return sums


@lru_cache(maxsize=4096)
def is_scalar(name: str) -> bool:
    """Whether a resource other than cpu, memory and ephemeral-storage is counted: extended, hugepages, volumes.

    Other native names (`storage`, `example`) are ignored on pods and nodes alike.
    """
    return name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name or is_extended(name)


@lru_cache(maxsize=4096)
def is_extended(name: str) -> bool:
    """Whether it is an extended resource: it has its own domain and is not a quota name."""
    prefix, slash, local = name.partition("/")
    if not slash or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return bool(prefix) and bool(local) and "/" not in local and len("requests." + prefix) <= 253 and len(local) <= 63


def is_counted(name: str) -> bool:
    """Whether the scheduler counts the resource (`pods` are counted separately)."""
    return name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar(name)


def _pod_nanos(
    pod: Pod, *, use_status: bool = False, pod_level: bool = True, defaults: Mapping[str, int] = MappingProxyType({})
) -> Nanos:
    total = _container_nanos(pod, use_status=use_status, defaults=defaults)
    if pod_level and pod.spec.resources is not None:
        total.update(_pod_level_nanos(pod, pod.spec.resources, use_status=use_status))
    if pod.spec.overhead:
        add_amounts(total, _nanos(pod.spec.overhead))
    return total


def _container_nanos(pod: Pod, *, use_status: bool, defaults: Mapping[str, int]) -> Nanos:
    spec = pod.spec
    statuses = _statuses(pod) if use_status else {}
    total: Nanos = {}
    for container in spec.containers:
        add_amounts(total, _container_request(container, statuses, pod, defaults))
    if not spec.init_containers:
        return total
    sidecars: Nanos = {}
    most: Nanos = {}
    for container in spec.init_containers:
        if container.restart_policy == "Always":
            request = _container_request(container, statuses, pod, defaults)
            add_amounts(total, request)
            add_amounts(sidecars, request)
            level = sidecars
        else:
            level = _container_request(container, {}, pod, defaults)
            add_amounts(level, sidecars)
        raise_amounts(most, level)
    raise_amounts(total, most)
    return total


def _container_request(
    container: Container, statuses: Mapping[str, ContainerStatus], pod: Pod, defaults: Mapping[str, int]
) -> Nanos:
    request = _nanos(container.resources.requests)
    status = statuses.get(container.name)
    if status is not None and status.resources is not None:
        running = _nanos(status.resources.requests)
        raise_amounts(running, _nanos(status.allocated_resources))
        if not _resize_is_infeasible(pod):
            raise_amounts(running, request)
        request = running
    for name, amount in defaults.items():
        request.setdefault(name, amount)
    return request


def _pod_level_nanos(pod: Pod, resources: ResourceRequirements, *, use_status: bool) -> Nanos:
    spec = supported_at_pod_level(resources.requests)
    if not spec:
        return {}
    request = _nanos(spec)
    if use_status and pod.status.resources is not None:
        running = _nanos(supported_at_pod_level(pod.status.resources.requests))
        raise_amounts(running, _nanos(supported_at_pod_level(pod.status.allocated_resources)))
        if not _resize_is_infeasible(pod):
            raise_amounts(running, request)
        request = running
    return request


def supported_at_pod_level(resources: ResourceList) -> ResourceList:
    """The resources that pod-level requests support; others are ignored there."""
    return {
        name: amount for name, amount in resources.items() if name in (CPU, MEMORY) or name.startswith("hugepages-")
    }


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    both: Iterable[ContainerStatus] = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return {status.name: status for status in both}


def _resize_is_infeasible(pod: Pod) -> bool:
    """Whether the kubelet refused the resize for good: then the spec does not count. The first condition decides."""
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _nanos(resources: ResourceList) -> Nanos:
    return {name: nano_value(quantity) for name, quantity in resources.items()}


def add_amounts(total: Nanos, more: Mapping[str, int]) -> None:
    """Add in place."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def raise_amounts(total: Nanos, level: Mapping[str, int]) -> None:
    """Raise each amount to at least its level, in place."""
    for name, amount in level.items():
        if amount > total.get(name, -1):
            total[name] = amount


def _rounded(nanos: Mapping[str, int]) -> Requests:
    return {
        name: min(-(-amount // (10**6 if name == CPU else 10**9)), MAX_INT64)
        for name, amount in nanos.items()
        if is_counted(name)
    }
