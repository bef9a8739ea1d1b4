"""Nodes and pods of a cluster as rows, and how much of each node is requested.

Amounts are in the units that people compute with: cpu in cores, memory in bytes, all else in units; always floats, so
that a column has one type.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from kscheduler.api.core import Node, Pod
from kscheduler.api.quantity import QuantityError
from kscheduler.explain.cluster_answers import NodeUse
from kscheduler.fragments.fragmentation import ResourceFragmentation
from kscheduler.framework.pods.requests import spec_requests
from kscheduler.simulate.simulation_result import DEVICES_OF_CLASS

_CPU: Final = "cpu"
_THOUSANDTHS: Final = 1000
_BILLIONTHS: Final = 1_000_000_000


class NodeRow(msgspec.Struct, frozen=True):
    """A node."""

    node: str
    ready: bool
    cordoned: bool
    pods: int
    """How many it has."""
    allocatable: dict[str, float]
    """By resource; cpu in cores, memory in bytes."""
    requested: dict[str, float]
    taints: tuple[str, ...]
    """Each as `key=value:effect`."""
    labels: dict[str, str]


class PodRow(msgspec.Struct, frozen=True):
    """A pod."""

    pod: str
    """namespace/name."""
    node: str | None
    phase: str
    priority: int
    scheduler: str
    requests: dict[str, float]
    """By resource; cpu in cores, memory in bytes."""
    labels: dict[str, str]


class NodeUtilisation(msgspec.Struct, frozen=True):
    """A resource of a node, or devices of a class that the node reaches."""

    node: str
    resource: str
    """`cpu`, `memory`, `pods`, `nvidia.com/gpu`; devices as quotas name them: the class's name, and
    `.deviceclass.resource.k8s.io/devices`."""
    allocatable: float
    """cpu in cores, memory in bytes, all else in units."""
    requested: float
    share: float | None
    """What is requested of what is allocatable; `None`: nothing is allocatable."""


class FragmentationRow(msgspec.Struct, frozen=True):
    """What is free of a resource on all nodes, and how much of it no typical pod could use."""

    resource: str
    free: float
    """cpu in cores, memory in bytes, all else in units; so are the others."""
    unusable: float
    cordoned: float
    """Of what is unusable: on nodes that take no pods."""
    lacking: dict[str, float]
    """The rest of it, by the resource that most pods lack there."""
    driver: str = ""
    """Of devices that claims ask for: who publishes them. `resource` names their class."""
    pool: str = ""
    """Of devices that several nodes reach."""


def fragmentation_rows(found: Iterable[ResourceFragmentation]) -> Iterator[FragmentationRow]:
    """A row for each resource; of devices one for each class, driver and shared pool."""
    for each in found:
        name = each.resource
        lacking = {lacked: _unit(name, amount) for lacked, amount in each.lacking.items()}
        free, unusable, cordoned = (_unit(name, amount) for amount in (each.free, each.unusable, each.cordoned))
        yield FragmentationRow(name, free, unusable, cordoned, lacking, each.driver, each.pool)


def node_rows(nodes: Iterable[Node], uses: Iterable[NodeUse]) -> Iterator[NodeRow]:
    """By name."""
    by_name = {node.metadata.name: node for node in nodes}
    for use in uses:
        node = by_name[use.name]
        yield NodeRow(
            node=use.name,
            ready=use.is_ready,
            cordoned=use.is_cordoned,
            pods=use.requested.get("pods", 0),
            allocatable=_in_units(use.allocatable),
            requested=_in_units(use.requested),
            taints=tuple(
                f"{each.key}={each.value}:{each.effect}" if each.value else f"{each.key}:{each.effect}"
                for each in use.taints
            ),
            labels=dict(node.metadata.labels),
        )


def pod_rows(pods: Iterable[Pod]) -> Iterator[PodRow]:
    """In the order of the cluster."""
    for pod in pods:
        yield PodRow(
            pod=pod.key,
            node=pod.spec.node_name or None,
            phase=pod.status.phase or ("Running" if pod.spec.node_name else "Pending"),
            priority=pod.spec.priority or 0,
            scheduler=pod.spec.scheduler_name,
            requests=_requests(pod),
            labels=dict(pod.metadata.labels),
        )


def utilisation_rows(uses: Iterable[NodeUse]) -> Iterator[NodeUtilisation]:
    """For each node its resources, and then its devices by class."""
    for use in uses:
        for resource, amount in use.allocatable.items():
            yield _utilisation(use.name, resource, amount, use.requested[resource])
        for devices in use.devices:
            if devices.device_class:
                name = f"{devices.device_class}{DEVICES_OF_CLASS}"
                yield _utilisation(use.name, name, devices.devices, devices.taken)


def _utilisation(node: str, resource: str, allocatable: int, requested: int) -> NodeUtilisation:
    share = requested / allocatable if allocatable else None
    return NodeUtilisation(node, resource, _unit(resource, allocatable), _unit(resource, requested), share)


def _requests(pod: Pod) -> dict[str, float]:
    try:
        return {name: amount / _BILLIONTHS for name, amount in spec_requests(pod).items()}
    except QuantityError:
        return {}  # such a pod is left out of the cluster where it is read, and noted there


def _in_units(amounts: Mapping[str, int]) -> dict[str, float]:
    return {name: _unit(name, amount) for name, amount in amounts.items()}


def _unit(resource: str, amount: int) -> float:
    return amount / _THOUSANDTHS if resource == _CPU else float(amount)
