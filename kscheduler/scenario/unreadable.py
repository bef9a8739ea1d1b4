"""Finds quantities that cannot be read, with their field names, which are lost once quantities are summed.

A scheduler leaves a node or pod with one out. One that wrote `cpu: four` by hand should hear of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from kscheduler.api.core import Node, Pod
from kscheduler.api.quantity import QuantityError, nano_value
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scenario.scenario import ClusterObjects

# Fields with amounts by resource name that the scheduler reads.
_LISTS = frozenset(("requests", "overhead", "allocatable", "allocatedResources"))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A node or pod that cannot be read."""

    found: Node | Pod
    problem: str
    """`path: what is wrong`."""

    @property
    def name(self) -> str:
        """`node a`, `pod default/web`."""
        return f"{'node' if isinstance(self.found, Node) else 'pod'} {self.found.key}"

    @property
    def text(self) -> str:
        """Which object, and what is wrong with it."""
        return f"{self.name}: {self.problem}"


def readable(objects: ClusterObjects) -> tuple[ClusterObjects, list[LeftOut]]:
    """The cluster without the nodes and pods that cannot be read, and which these are."""
    every: list[Node | Pod] = [*objects.nodes, *objects.pods]
    bad = [found for found in every if not is_readable(found)]
    if not bad:
        return objects, []
    gone = {id(found) for found in bad}
    whole = msgspec.structs.replace(
        objects,
        nodes=tuple(node for node in objects.nodes if id(node) not in gone),
        pods=tuple(pod for pod in objects.pods if id(pod) not in gone),
    )
    return whole, [LeftOut(found, unreadable_quantity(found)) for found in bad]


def notes_of(left_out: list[LeftOut], where: str) -> list[str]:
    """For the reader of the answer. `where` the objects come from."""
    return [f"{where}: {each.text}: it is left out" for each in left_out]


def unreadable_quantity(found: Node | Pod) -> str:
    """`path: what is wrong` for the first quantity that cannot be read; empty if all can."""
    return next(_problems(msgspec.to_builtins(found), ""), "")


def is_readable(found: Node | Pod) -> bool:
    """Whether all of its quantities can be read; much faster than `unreadable_quantity`."""
    try:
        if isinstance(found, Node):
            for quantity in found.status.allocatable.values():
                nano_value(quantity)
        else:
            pod = PodInfo(found)
            _ = pod.requests, pod.nonzero_requests, pod.accounted
    except QuantityError:
        return False
    return True


def _problems(tree: Any, path: str) -> Iterator[str]:
    if isinstance(tree, dict):
        for name, child in tree.items():
            place = f"{path}.{name}" if path else name
            yield from _problems_of_amounts(child, place) if name in _LISTS else _problems(child, place)
    elif isinstance(tree, (list, tuple)):
        for position, child in enumerate(tree):
            yield from _problems(child, f"{path}[{position}]")


def _problems_of_amounts(amounts: Any, path: str) -> Iterator[str]:
    for name, quantity in amounts.items():
        try:
            nano_value(quantity)
        except QuantityError as problem:
            yield f"{path}.{name}: {problem}"
