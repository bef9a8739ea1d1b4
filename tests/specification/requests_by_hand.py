"""How much pods ask for, worked out slowly with fractions: the executable specification of
`framework.pods.requests`.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil

from kscheduler.api.core import Container, Node, Pod, ResourceRequirements

MOST = 2**63 - 1
SUFFIXES = {
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{suffix: Fraction(1, 1000) ** power for power, suffix in enumerate(("m", "u", "n"), 1)},
}
# What scoring takes a container to use that does not say.
PRESUMED = {"cpu": Fraction(1, 10), "memory": Fraction(200 * 2**20)}
SUPPORTED_FOR_WHOLE_PODS = ("cpu", "memory", "hugepages-2Mi")


# What was worked out of parts of a pod, by their identity, which lasts as long as the parts are kept: fractions are
# slow, and objects are never changed in place.
_KNOWN: dict[tuple[object, ...], tuple[tuple[object, ...], int]] = {}
_KEPT = 20_000


@lru_cache(maxsize=4096)
def quantity(text: str) -> Fraction:
    """The number that a quantity stands for."""
    for suffix, factor in SUFFIXES.items():
        if text.endswith(suffix):
            return Fraction(text.removesuffix(suffix)) * factor
    return Fraction(text)


def rounded(amount: Fraction, resource: str) -> int:
    """In the resource's unit (thousandths for cpu), rounded up, and no more than a column holds."""
    return min(ceil(amount * 1000 if resource == "cpu" else amount), MOST)


Wanted = dict[str, Fraction]


def amounts(written: Mapping[str, object]) -> Wanted:
    return {name: quantity(str(text)) for name, text in written.items()}


def largest(*parts: Wanted) -> Wanted:
    return {name: max(part.get(name, Fraction(0)) for part in parts) for part in parts for name in part}


def _or_as_running(wanted: Wanted, resources: ResourceRequirements | None, allocated: Wanted, pod: Pod) -> Wanted:
    """While it is resized it takes the most of what it wants, has and was promised; what was refused does not count."""
    if resources is None:
        return wanted
    there = largest(amounts(resources.requests), allocated)
    pending = [one.reason for one in pod.status.conditions if one.type == "PodResizePending"]
    return there if pending[:1] == ["Infeasible"] else largest(there, wanted)


def _wanted_by(container: Container, pod: Pod, *, running: bool) -> Wanted:
    wanted = amounts(container.resources.requests)
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses) if running else ()
    for status in statuses:
        if status.name == container.name:
            wanted = _or_as_running(wanted, status.resources, amounts(status.allocated_resources), pod)
    return wanted


def _of_container(container: Container, pod: Pod, resource: str, *, presume: bool, running: bool) -> Fraction:
    presumed = PRESUMED.get(resource, Fraction(0)) if presume else Fraction(0)
    return _wanted_by(container, pod, running=running).get(resource, presumed)


def _is_named(pod: Pod, resource: str, *, running: bool) -> bool:
    """Whether some container says how much it takes, be it nothing."""
    init = (
        _wanted_by(one, pod, running=running and one.restart_policy == "Always") for one in pod.spec.init_containers
    )
    return any(
        resource in one for one in (*init, *(_wanted_by(one, pod, running=running) for one in pod.spec.containers))
    )


def _of_containers(pod: Pod, resource: str, *, presume: bool, running: bool) -> Fraction:
    """The most that is needed at any moment: while each init container runs, and once all containers do."""
    sidecars = Fraction(0)
    moments = []
    for container in pod.spec.init_containers:
        stays = container.restart_policy == "Always"
        one = _of_container(container, pod, resource, presume=presume, running=running and stays)
        if stays:
            sidecars += one
        else:
            moments.append(sidecars + one)
    at_last = (_of_container(one, pod, resource, presume=presume, running=running) for one in pod.spec.containers)
    return max([*moments, sidecars + sum(at_last, Fraction(0))])


def request_of(pod: Pod, resource: str, *, presume: bool = False, pod_level: bool = True, running: bool = False) -> int:
    """What the pod asks for; with `presume`, what scoring takes it to ask for; `running`, what it takes on its node."""
    spec = pod.spec
    parts = (spec.containers, spec.init_containers, spec.resources, spec.overhead, pod.status)
    key = (*map(id, parts), resource, presume, pod_level, running)
    known = _KNOWN.get(key)
    if known is None:
        if len(_KNOWN) >= _KEPT:
            _KNOWN.clear()
        amount = _request_of(pod, resource, presume=presume, pod_level=pod_level, running=running)
        known = _KNOWN[key] = parts, amount
    return known[1]


def _request_of(pod: Pod, resource: str, *, presume: bool, pod_level: bool, running: bool) -> int:
    whole = pod.spec.resources.requests if pod.spec.resources is not None and pod_level else {}
    says_something = any(name in SUPPORTED_FOR_WHOLE_PODS for name in whole)
    if resource in whole and resource in SUPPORTED_FOR_WHOLE_PODS:
        wanted = amounts(whole)
        if running:
            wanted = _or_as_running(wanted, pod.status.resources, amounts(pod.status.allocated_resources), pod)
        amount = wanted[resource]
    else:
        is_named = says_something and _is_named(pod, resource, running=running)
        amount = _of_containers(pod, resource, presume=presume and not is_named, running=running)
    if resource in pod.spec.overhead:
        amount += quantity(str(pod.spec.overhead[resource]))
    return rounded(amount, resource)


def requested_on(pods: Iterable[Pod], resource: str, *, presume: bool = False) -> int:
    """The sum over the pods of a node."""
    return min(sum(request_of(pod, resource, presume=presume, running=True) for pod in pods), MOST)


def allocatable_of(node: Node, resource: str) -> int:
    """What the node has."""
    return _amount(str(node.status.allocatable.get(resource, "0")), resource)


@lru_cache(maxsize=4096)
def _amount(text: str, resource: str) -> int:
    return rounded(quantity(text), resource)
