"""Finds quantities that cannot be read, with their field names, which are lost once quantities are summed."""

from collections.abc import Iterator
from typing import Any

import msgspec

from kscheduler.api.core import Node, Pod
from kscheduler.api.quantity import QuantityError, nano_value
from kscheduler.framework.pods.pod_info import PodInfo

_LISTS = frozenset(("requests", "overhead", "allocatable", "allocatedResources"))
"""Fields with amounts by resource name that the scheduler reads."""


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
