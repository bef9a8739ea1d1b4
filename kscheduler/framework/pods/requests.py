"""The requests of a pod (component-helpers/resource).

Regular containers add up; an ordinary init container needs its own request plus those of the sidecars started before
it, and the pod needs the larger of both. Pod-level requests replace the sum for cpu, memory and hugepages; overhead
is added. A running pod counts the maximum of the spec, the status and the kubelet's allocation, so that a resize in
progress never overcommits the node: in 1.36 the sum of each container's maximum (`BY_CONTAINER`), from 1.37 on the
maximum of three sums (`BY_POD`).

Sums are exact in billionths and rounded up once at the end, as Go's Quantity does; then they saturate.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import Enum, auto
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Final

import msgspec

from kscheduler.api.core import Container, ContainerStatus, Pod, ResourceList, ResourceRequirements
from kscheduler.api.quantity import MAX_INT64, nano_value
from kscheduler.bounded import RecentlyUsed, RecentlyUsedByWeight, weight_of

# What a pod's spec requests and allows itself, for `/metrics/resources` (component-helpers/resource).
#
# Unlike the sums that decisions are made with, these are of the spec alone and of every resource that it names. Amounts
# are exact, in billionths.

Nanos = dict[str, int]


def spec_requests(pod: Pod) -> Nanos:
    """Requests, with the pod's overhead."""
    total = _aggregated(pod, lambda container: container.resources.requests)
    if pod.spec.resources is not None:
        total.update(_nanos(supported_at_pod_level(pod.spec.resources.requests)))
    add_amounts(total, _nanos(pod.spec.overhead))
    return total


def spec_limits(pod: Pod) -> Nanos:
    """Limits, with the pod's overhead where there is a limit at all: without one nothing is limited."""
    total = _aggregated(pod, lambda container: container.resources.limits)
    if pod.spec.resources is not None:
        total.update(_nanos(supported_at_pod_level(pod.spec.resources.limits)))
    for name, amount in _nanos(pod.spec.overhead).items():
        if total.get(name):
            total[name] += amount
    return total


def _aggregated(pod: Pod, amounts_of: Callable[[Container], ResourceList]) -> Nanos:
    """Regular containers and sidecars together, or an init container with the sidecars before it if that is more."""
    total: Nanos = {}
    for container in pod.spec.containers:
        add_amounts(total, _nanos(amounts_of(container)))
    sidecars: Nanos = {}
    most: Nanos = {}
    for container in pod.spec.init_containers:
        level = _nanos(amounts_of(container))
        if container.restart_policy == "Always":
            add_amounts(total, level)
            add_amounts(sidecars, level)
            level = sidecars
        else:
            add_amounts(level, sidecars)
        raise_amounts(most, level)
    raise_amounts(total, most)
    return total


def _nanos(resources: Mapping[str, str | int | float]) -> Nanos:
    return {name: nano_value(quantity) for name, quantity in resources.items()}


# Resource name to amount: cpu in thousandths, everything else in units.
Requests = Mapping[str, int]
# The amounts of all resources, or of those that matter; a new dictionary.
NanosOf = Callable[[ResourceList], Nanos]
# What a container requests; a new dictionary.
RequestOf = Callable[[Container], Nanos]

CPU, MEMORY, EPHEMERAL_STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"

_NATIVE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)

# The amounts that scoring presumes for a container without requests (100m, 200Mi), in billionths.
NONZERO_DEFAULTS: Mapping[str, int] = MappingProxyType({CPU: 100 * 10**6, MEMORY: 200 * 1024 * 1024 * 10**9})


def incoming_requests(pod: Pod) -> Requests:
    """The amounts that Fit's filter requires of a node for a pod. Shared by like pods: do not modify."""
    return accounted_requests(pod, Resizing.NOT_COUNTED)


class Resizing(Enum):
    """What a pod counts on its node while its containers are being resized."""

    NOT_COUNTED = auto()
    """Its spec: for pods without a node."""
    BY_CONTAINER = auto()
    BY_POD = auto()


def accounted_requests(pod: Pod, resizing: Resizing) -> Requests:
    """The amounts that a pod uses on its node, resizes in progress included. Shared by like pods: do not modify."""
    sums = _sums_of_like(pod, resizing)
    return sums.accounted if sums is not None else _rounded(_pod_nanos(pod, resizing, _request_nanos))


def both_accounted(pod: Pod, resizing: Resizing) -> tuple[Requests, tuple[int, int]]:
    """`accounted_requests` and `nonzero_accounted`, in one walk over like pods' containers."""
    sums = _sums_of_like(pod, resizing)
    if sums is not None:
        return sums.accounted, sums.nonzero
    return _equal_amounts(_rounded(_pod_nanos(pod, resizing, _request_nanos)), _nonzero(pod, resizing))


def nonzero_accounted(pod: Pod, resizing: Resizing) -> tuple[int, int]:
    """(cpu in thousandths, memory in bytes) that scoring presumes a pod uses on its node."""
    sums = _sums_of_like(pod, resizing)
    return sums.nonzero if sums is not None else _nonzero(pod, resizing)


def nonzero_requests(pod: Pod, *, pod_level: bool) -> Requests:
    """The requests for scoring, with `NONZERO_DEFAULTS` for containers that request no cpu or memory.

    `pod_level`: pod-level requests count, and resizes in progress; without, only the spec of the containers.
    """
    resizing = Resizing.BY_POD if pod_level else Resizing.NOT_COUNTED
    return _rounded(_pod_nanos(pod, resizing, _request_nanos, pod_level=pod_level, defaults=NONZERO_DEFAULTS))


def _nonzero(pod: Pod, resizing: Resizing) -> tuple[int, int]:
    """With pod-level requests set, a default applies only to resources that the whole pod does not request."""
    defaults = NONZERO_DEFAULTS
    if pod.spec.resources is not None and supported_at_pod_level(pod.spec.resources.requests):
        plain = _pod_nanos(pod, resizing, _nanos_of_defaults)
        defaults = {name: amount for name, amount in NONZERO_DEFAULTS.items() if name not in plain}
    presumed = _rounded(_pod_nanos(pod, resizing, _nanos_of_defaults, defaults=defaults))
    return presumed.get(CPU, 0), presumed.get(MEMORY, 0)


# --- pods that share their containers ---------------------------------------------------------------------------------


class _Sums(msgspec.Struct, frozen=True):
    """The sums of pods with these container and status objects. Holding them keeps their ids from being reused."""

    containers: tuple[Container, ...]
    statuses: tuple[ContainerStatus, ...]
    accounted: Requests
    nonzero: tuple[int, int]


# Half a kilobyte each, plus the containers that an entry holds.
_KEPT_SUMS: Final = 2048
_SUMS_BYTES: Final = 4 * 2**20


def _weight(_: tuple[int, int, Resizing], sums: _Sums) -> int:
    return weight_of((sums.containers, sums.statuses))


# By the identity of both, and the rule: informers share the containers of like pods.
_sums: RecentlyUsed[tuple[int, int, Resizing], _Sums] = RecentlyUsedByWeight(_KEPT_SUMS, _SUMS_BYTES, _weight)


def _sums_of_like(pod: Pod, resizing: Resizing) -> _Sums | None:
    """The sums of pods with the same containers and statuses; `None` if the pod's sums depend on anything else."""
    spec, status = pod.spec, pod.status
    if spec.init_containers or spec.resources is not None or spec.overhead or status.init_container_statuses:
        return None
    if status.resources is not None or (status.container_statuses and _resize_is_infeasible(pod)):
        return None
    key = id(spec.containers), id(status.container_statuses), resizing
    sums = _sums.get(key)
    if sums is None:
        accounted = _rounded(_pod_nanos(pod, resizing, _request_nanos))
        accounted, nonzero = _equal_amounts(accounted, _nonzero(pod, resizing))
        sums = _sums[key] = _Sums(spec.containers, status.container_statuses, accounted, nonzero)
    return sums


# Both kinds of sums: pods of many workloads ask for the same few amounts, and each pod on a node holds its own.
_Amounts = tuple[Requests, tuple[int, int]]
_KEPT_AMOUNTS: Final = 4096
_LARGEST_KEPT: Final = 16
_amounts: RecentlyUsed[Hashable, _Amounts] = RecentlyUsed(_KEPT_AMOUNTS)


def _equal_amounts(accounted: Requests, nonzero: tuple[int, int]) -> _Amounts:
    """The first ones that equal these, if they are remembered."""
    if len(accounted) > _LARGEST_KEPT:
        return accounted, nonzero
    key = nonzero, *accounted.items()
    known = _amounts.get(key)
    if known is None:
        known = _amounts[key] = accounted, nonzero
    return known


def depend_on_the_same(old: Pod, new: Pod) -> bool:
    """Whether nothing that requests are added up of differs between two versions of a pod.

    What a kubelet reports of containers that are not being resized is what their spec asks for, and adds nothing.
    """
    spec, others = new.spec, old.spec
    before, after = old.status, new.status
    return (
        (
            spec is others
            or (
                spec.containers == others.containers
                and spec.init_containers == others.init_containers
                and spec.overhead == others.overhead
                and spec.resources == others.resources
            )
        )
        and (
            before.container_statuses == after.container_statuses or (_reports_its_spec(old) and _reports_its_spec(new))
        )
        and before.init_container_statuses == after.init_container_statuses
        and before.resources == after.resources
        and before.allocated_resources == after.allocated_resources
        and (before.conditions is after.conditions or pending_resize(old) == pending_resize(new))
    )


def _reports_its_spec(pod: Pod) -> bool:
    """Whether the statuses of its containers, if any, have what the containers ask for; false if that may not count."""
    statuses = pod.status.container_statuses
    if not statuses:
        return not _resize_is_infeasible(pod)
    asked = {container.name: container.resources.requests for container in pod.spec.containers}
    for status in statuses:
        requests = asked.get(status.name)
        if requests is None or (status.resources is not None and status.resources.requests != requests):
            return False
        if status.allocated_resources and status.allocated_resources != requests:
            return False
    return not _resize_is_infeasible(pod)


# A quota's name puts that before it.
_LONGEST_DOMAIN: Final = 253 - len("requests.")


@lru_cache(maxsize=4096)
def is_scalar(name: str) -> bool:
    """Whether a resource other than cpu, memory and ephemeral-storage is counted: extended, hugepages, volumes.

    Other native names (`storage`, `example`) are ignored on pods and nodes alike.
    """
    return name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name or is_extended(name)


def is_extended(name: str) -> bool:
    """Whether it is an extended resource: it has its own domain and is not a quota name."""
    prefix, slash, local = name.partition("/")
    if not slash or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return bool(prefix) and bool(local) and "/" not in local and len(prefix) <= _LONGEST_DOMAIN and len(local) <= 63


def is_counted(name: str) -> bool:
    """Whether the scheduler counts the resource (`pods` are counted separately)."""
    return name in _NATIVE or is_scalar(name)


def _pod_nanos(
    pod: Pod,
    resizing: Resizing,
    nanos: NanosOf,
    *,
    pod_level: bool = True,
    defaults: Mapping[str, int] = MappingProxyType({}),
) -> Nanos:
    if resizing is Resizing.BY_POD:
        total = _largest_sums(pod, nanos, defaults)
    else:
        statuses = _resizable_statuses(pod) if resizing is Resizing.BY_CONTAINER else {}
        total = _container_nanos(pod, partial(_largest_request, pod=pod, statuses=statuses, nanos=nanos), defaults)
    if pod_level and pod.spec.resources is not None:
        counts_resizes = resizing is not Resizing.NOT_COUNTED
        total.update(_pod_level_nanos(pod, pod.spec.resources, nanos, use_status=counts_resizes))
    if pod.spec.overhead:
        add_amounts(total, nanos(pod.spec.overhead))
    return total


def _container_nanos(pod: Pod, request_of: RequestOf, defaults: Mapping[str, int]) -> Nanos:
    """The sum over all containers, and the peak while the pod starts."""
    spec = pod.spec

    def request(container: Container) -> Nanos:
        amounts = request_of(container)
        for name, amount in defaults.items():
            amounts.setdefault(name, amount)
        return amounts

    total: Nanos = {}
    for container in spec.containers:
        add_amounts(total, request(container))
    if not spec.init_containers:
        return total
    sidecars: Nanos = {}
    most: Nanos = {}
    for container in spec.init_containers:
        # While it starts, the sidecars before it run. Only its own resources can exceed the peak so far: looking at
        # those of all sidecars each time would be quadratic in a pod with thousands of them.
        own = request(container)
        if container.restart_policy == "Always":
            add_amounts(total, own)
            add_amounts(sidecars, own)
            raise_amounts(most, {name: sidecars[name] for name in own})
        else:
            raise_amounts(most, {name: amount + sidecars.get(name, 0) for name, amount in own.items()})
    raise_amounts(total, most)
    return total


# --- resizes ----------------------------------------------------------------------------------------------------------


def _largest_request(
    container: Container, *, pod: Pod, statuses: Mapping[str, ContainerStatus], nanos: NanosOf
) -> Nanos:
    """The largest of what it may use now and what it may get."""
    request = nanos(container.resources.requests)
    status = statuses.get(container.name)
    if status is None or status.resources is None:
        return request
    running = nanos(status.resources.requests)
    raise_amounts(running, nanos(status.allocated_resources))
    if not _resize_is_infeasible(pod):
        raise_amounts(running, request)
    return running


def _resizable_statuses(pod: Pod) -> dict[str, ContainerStatus]:
    """Without ordinary init containers, which are not resized."""
    ordinary = {container.name for container in pod.spec.init_containers if container.restart_policy != "Always"}
    return {name: status for name, status in _statuses(pod).items() if name not in ordinary}


def _largest_sums(pod: Pod, nanos: NanosOf, defaults: Mapping[str, int]) -> Nanos:
    """The largest of three sums: what the spec asks for, what the kubelet has allocated, and what is in force.

    The first one does not count once the kubelet has refused it for good.
    """
    statuses, is_infeasible, whole = _statuses(pod), _resize_is_infeasible(pod), pod.status

    def spec(container: Container) -> Nanos:
        return nanos(container.resources.requests)

    def allocated(container: Container) -> Nanos:
        status = statuses.get(container.name)
        if status is not None and status.allocated_resources:
            return nanos(status.allocated_resources)
        return {} if is_infeasible else spec(container)

    def in_force(container: Container) -> Nanos:
        status = statuses.get(container.name)
        if status is not None and status.resources is not None and status.resources.requests:
            return nanos(status.resources.requests)
        return allocated(container)

    if whole.allocated_resources and whole.resources is not None and whole.resources.requests:
        total = nanos(whole.allocated_resources)
        raise_amounts(total, nanos(whole.resources.requests))
    elif not statuses and not is_infeasible:
        return _container_nanos(pod, spec, defaults)
    else:
        total = _container_nanos(pod, allocated, defaults)
        raise_amounts(total, _container_nanos(pod, in_force, defaults))
    if not is_infeasible:
        raise_amounts(total, _container_nanos(pod, spec, defaults))
    return total


def _pod_level_nanos(pod: Pod, resources: ResourceRequirements, nanos: NanosOf, *, use_status: bool) -> Nanos:
    spec = supported_at_pod_level(resources.requests)
    if not spec:
        return {}
    request = nanos(spec)
    if use_status and pod.status.resources is not None:
        running = nanos(supported_at_pod_level(pod.status.resources.requests))
        raise_amounts(running, nanos(supported_at_pod_level(pod.status.allocated_resources)))
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


def resize_is_deferred(pod: Pod) -> bool:
    """Whether the kubelet has put a resize off, because the node has no room for it now."""
    return pending_resize(pod) == "Deferred"


def _resize_is_infeasible(pod: Pod) -> bool:
    """Whether the kubelet refused the resize for good: then the spec does not count."""
    return pending_resize(pod) == "Infeasible"


def pending_resize(pod: Pod) -> str:
    """The reason of the condition PodResizePending, whatever its status; the first one decides. Empty if none waits."""
    for condition in pod.status.conditions:  # written out: each event of a pod comes by here
        if condition.type == "PodResizePending":
            return condition.reason
    return ""


def _request_nanos(resources: ResourceList) -> Nanos:
    return {name: nano_value(quantity) for name, quantity in resources.items()}


def _nanos_of_defaults(resources: ResourceList) -> Nanos:
    """Two of perhaps tens of thousands of resources."""
    return {name: nano_value(resources[name]) for name in NONZERO_DEFAULTS if name in resources}


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
    amounts: dict[str, int] = {}
    for name, amount in nanos.items():
        # `is_counted`, written out: a pod may have tens of thousands of resources.
        if name in _NATIVE or is_scalar(name):
            units = -(-amount // (10**6 if name == CPU else 10**9))
            amounts[name] = min(units, MAX_INT64)
    return amounts
