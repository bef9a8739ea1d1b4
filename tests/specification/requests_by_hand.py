"""How much pods ask for, worked out slowly with fractions: the executable specification of `framework.requests`."""

from collections.abc import Iterable
from fractions import Fraction
from math import ceil

from kscheduler.api.core import Container, Node, Pod

MOST = 2**63 - 1
SUFFIXES = {"m": Fraction(1, 1000), "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30)}
PRESUMED = {"cpu": Fraction(1, 10), "memory": Fraction(200 * 2**20)}
"""What scoring takes a container to use that does not say."""
SUPPORTED_FOR_WHOLE_PODS = ("cpu", "memory", "hugepages-2Mi")


def quantity(text: str) -> Fraction:
    """The number that a quantity stands for."""
    for suffix, factor in SUFFIXES.items():
        if text.endswith(suffix):
            return Fraction(text.removesuffix(suffix)) * factor
    return Fraction(text)


def rounded(amount: Fraction, resource: str) -> int:
    """In the resource's unit (thousandths for cpu), rounded up, and no more than a column holds."""
    return min(ceil(amount * 1000 if resource == "cpu" else amount), MOST)


def _of_container(container: Container, resource: str, *, presume: bool) -> Fraction:
    if resource in container.resources.requests:
        return quantity(str(container.resources.requests[resource]))
    return PRESUMED.get(resource, Fraction(0)) if presume else Fraction(0)


def _of_containers(pod: Pod, resource: str, *, presume: bool) -> Fraction:
    """The most that is needed at any moment: while each init container runs, and once all containers do."""
    sidecars = Fraction(0)
    moments = []
    for container in pod.spec.init_containers:
        one = _of_container(container, resource, presume=presume)
        if container.restart_policy == "Always":
            sidecars += one
        else:
            moments.append(sidecars + one)
    running = (_of_container(container, resource, presume=presume) for container in pod.spec.containers)
    return max([*moments, sidecars + sum(running, Fraction(0))])


def request_of(pod: Pod, resource: str, *, presume: bool = False, pod_level: bool = True) -> int:
    """What the pod asks for; with `presume`, what scoring takes it to ask for."""
    whole = pod.spec.resources.requests if pod.spec.resources is not None and pod_level else {}
    says_something = any(name in SUPPORTED_FOR_WHOLE_PODS for name in whole)
    if resource in whole and resource in SUPPORTED_FOR_WHOLE_PODS:
        amount = quantity(str(whole[resource]))
    else:
        is_named = any(
            resource in container.resources.requests for container in (*pod.spec.containers, *pod.spec.init_containers)
        )
        amount = _of_containers(pod, resource, presume=presume and not (says_something and is_named))
    if resource in pod.spec.overhead:
        amount += quantity(str(pod.spec.overhead[resource]))
    return rounded(amount, resource)


def requested_on(pods: Iterable[Pod], resource: str, *, presume: bool = False) -> int:
    """The sum over the pods of a node."""
    return min(sum(request_of(pod, resource, presume=presume) for pod in pods), MOST)


def allocatable_of(node: Node, resource: str) -> int:
    """What the node has."""
    return rounded(quantity(str(node.status.allocatable.get(resource, "0"))), resource)
