"""What a pod's spec requests and allows itself, for `/metrics/resources` (component-helpers/resource).

Unlike the sums that decisions are made with, these are of the spec alone and of every resource that it names. Amounts
are exact, in billionths.
"""

from collections.abc import Callable, Mapping

from kscheduler.api.core import Container, Pod, ResourceList
from kscheduler.api.quantity import nano_value
from kscheduler.framework.pods.requests import add_amounts, raise_amounts, supported_at_pod_level

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
