"""Score: how full the storage would be that serves the pod on a row, by the profile's `shape`.

Only with the feature gate StorageCapacityScoring. Where a claim is bound to a volume that exists, the bound ones alone
are looked at: requested is what the claims ask for, capacity what their volumes have. Elsewhere volumes are made, and
capacity is what a driver tells of the row. Both are summed up by storage class; each class gets points by how much of
its capacity is asked for (more than there is counts as full), and all classes count the same.

Limit: where several objects tell of one row and one class, the largest counts; kube-scheduler takes whichever it sees
first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.quantity import value
from kscheduler.api.storage import STORAGE, CSIStorageCapacity, PersistentVolumeClaim
from kscheduler.config.plugin_args import UtilizationShapePoint
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import Rows, Scores
from kscheduler.framework.rules.resource_scoring import points_by_utilization
from kscheduler.plugins.storage.volume_binding.placement import Choice, Placement, Storage, told_capacities
from kscheduler.plugins.storage.volume_binding.reach import selected

FULL: Final = 100
"""Percent."""
_SMALL: Final = 2**56
"""Below it a hundred times a sum of bytes is still an int64."""

Bytes = NDArray[Any]
"""Per row; int64, or Python integers where those would not do."""


@dataclass(slots=True)
class _Class:
    """What one storage class comes to, per row."""

    requested: Bytes
    capacity: Bytes
    is_used: Mask


class CapacityScore:
    """Points for rows that Filter has found places on."""

    def __init__(self, shape: Sequence[UtilizationShapePoint]) -> None:
        self._points = points_by_utilization([(point.utilization, point.score) for point in shape])

    def of(self, placement: Placement, storage: Storage) -> Scores:
        """Points of the placement's rows, 0 where no storage is looked at."""
        classes: dict[str, _Class] = {}
        rows = placement.rows
        is_static = np.zeros(len(rows), dtype=np.bool_)
        for choice in placement.choices:
            if choice.chosen is not None:
                is_static |= choice.chosen >= 0
        parts = [*_static_parts(placement.choices), *_made_parts(placement, storage, ~is_static)]
        most = sum(part.requested for part in parts) + sum(int(part.capacity.max(initial=0)) for part in parts)
        for part in parts:
            self._add(classes, part, most < _SMALL)
        return self._mean(list(classes.values()), len(rows))

    def _add(self, classes: dict[str, _Class], part: "_Part", are_small: bool) -> None:
        kind = np.int64 if are_small else object
        size = len(part.mask)
        one = classes.get(part.storage_class)
        if one is None:
            empty = np.zeros(size, dtype=kind), np.zeros(size, dtype=kind), np.zeros(size, dtype=np.bool_)
            one = classes[part.storage_class] = _Class(*empty)
        one.requested[part.mask] += part.requested
        capacity = part.capacity[part.mask].astype(kind)
        if part.adds_capacity:
            capacity += one.capacity[part.mask]
        one.capacity[part.mask] = capacity
        one.is_used |= part.mask

    def _mean(self, classes: Sequence[_Class], rows: int) -> Scores:
        total, count = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.int64)
        for one in classes:
            total += np.where(one.is_used, self._points[_utilization(one)], 0)
            count += one.is_used
        # To the nearest, halves up: no points are negative.
        return (2 * total + count) // np.maximum(2 * count, 1)


@dataclass(slots=True)
class _Part:
    """What one claim adds to its class, on some rows."""

    storage_class: str
    mask: Mask
    requested: int
    capacity: Bytes
    adds_capacity: bool
    """Volumes add up; what a driver tells of a row is there once, however many claims share it."""


def _static_parts(choices: Sequence[Choice]) -> Iterator[_Part]:
    for choice in choices:
        if choice.chosen is None:
            continue
        sizes = np.array([value(one.spec.capacity.get(STORAGE, 0)) for one in choice.candidates], dtype=object)
        names = [one.spec.storage_class_name for one in choice.candidates]
        for name in dict.fromkeys(names):
            is_of_class = np.array([one == name for one in names])
            mask = choice.chosen >= 0
            mask[mask] = is_of_class[choice.chosen[mask]]
            if mask.any():
                yield _Part(name, mask, _request(choice.claim), sizes[choice.chosen], adds_capacity=True)


def _made_parts(placement: Placement, storage: Storage, is_made: Mask) -> Iterator[_Part]:
    """Claims whose volumes are to be made, on rows where nothing else is bound."""
    if not is_made.any():
        return
    needs: list[tuple[PersistentVolumeClaim, Mask]] = [(claim, is_made) for claim in placement.given]
    # Where no claim of a row is bound, every one of them is to be made.
    needs.extend((choice.claim, is_made) for choice in placement.choices)
    for claim, mask in needs:
        told = _told(claim, storage, placement.rows)
        if told is not None:
            yield _Part(claim.storage_class, mask & (told >= 0), _request(claim), told, adds_capacity=False)


def _told(claim: PersistentVolumeClaim, storage: Storage, rows: Rows) -> Bytes | None:
    """Per row the largest capacity that is told of it and is enough; -1 where there is none, `None` where no matter."""
    found = told_capacities(claim, storage)
    if found is None:
        return None
    largest = np.full(len(rows), -1, dtype=np.int64)
    for capacity in found:
        reached = selected(capacity.node_topology, storage.nodes, rows)
        largest[reached] = np.maximum(largest[reached], _room(capacity))
    return largest


def _room(capacity: CSIStorageCapacity) -> int:
    return value(capacity.capacity) if capacity.capacity is not None else 0


def _request(claim: PersistentVolumeClaim) -> int:
    return value(claim.spec.resources.requests.get(STORAGE, 0))


def _utilization(one: _Class) -> NDArray[np.int64]:
    is_full = (one.capacity == 0) | (one.requested > one.capacity)
    percent = one.requested * FULL // np.where(is_full, 1, one.capacity)
    clipped: NDArray[np.int64] = np.where(is_full, FULL, percent).astype(np.int64)
    return clipped
