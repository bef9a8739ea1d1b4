"""Score: how full the storage would be that serves the pod on a row, by the profile's `shape`.

Only with the feature gate StorageCapacityScoring. On rows where an existing volume serves a claim, only such claims
count: their requests, and the capacities of their volumes. On other rows volumes are provisioned, and the capacity is
what a driver reports for the row. Both are summed by storage class; each class gets points by the requested share of
its capacity (more than the capacity counts as full), and all classes have the same weight.

Limit: where several objects report a capacity for the same row and class, the largest counts; kube-scheduler takes the
first that it finds.
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
from kscheduler.framework.rules.scoring import points_by_utilization
from kscheduler.plugins.storage.volume_binding.placement import Choice, Placement, Storage, reported_capacities
from kscheduler.plugins.storage.volume_binding.reach import selected

# Percent.
FULL: Final = 100
# Below this, a hundred times a sum of bytes still fits into an int64.
_SMALL: Final = 2**56

# [rows], bytes: int64, or Python integers (object) where an int64 would overflow.
Bytes = NDArray[Any]


@dataclass(slots=True)
class _Class:
    """The sums of a storage class, all [rows]."""

    requested: Bytes
    capacity: Bytes
    is_used: Mask


class CapacityScore:
    """Points for the rows of a placement."""

    def __init__(self, shape: Sequence[UtilizationShapePoint]) -> None:
        self._points = points_by_utilization([(point.utilization, point.score) for point in shape])

    def of(self, placement: Placement, storage: Storage) -> Scores:
        """The points of the placement's rows, int64 [rows]; 0 where no storage counts."""
        classes: dict[str, _Class] = {}
        rows = placement.rows
        is_static = np.zeros(len(rows), dtype=np.bool_)
        for choice in placement.choices:
            if choice.chosen is not None:
                is_static |= choice.chosen >= 0
        parts = [*_static_parts(placement.choices), *_provisioned_parts(placement, storage, ~is_static)]
        most = sum(part.requested for part in parts) + sum(int(part.capacity.max(initial=0)) for part in parts)
        for part in parts:
            self._add(classes, part, most < _SMALL)
        return self._mean(list(classes.values()), len(rows))

    def _add(self, classes: dict[str, _Class], part: "_Part", are_small: bool) -> None:
        kind = np.int64 if are_small else object
        size = len(part.mask)
        entry = classes.get(part.storage_class)
        if entry is None:
            empty = np.zeros(size, dtype=kind), np.zeros(size, dtype=kind), np.zeros(size, dtype=np.bool_)
            entry = classes[part.storage_class] = _Class(*empty)
        entry.requested[part.mask] += part.requested
        capacity = part.capacity[part.mask].astype(kind)
        if part.adds_capacity:
            capacity += entry.capacity[part.mask]
        entry.capacity[part.mask] = capacity
        entry.is_used |= part.mask

    def _mean(self, classes: Sequence[_Class], rows: int) -> Scores:
        total, count = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.int64)
        for entry in classes:
            total += np.where(entry.is_used, self._points[_utilization(entry)], 0)
            count += entry.is_used
        # To the nearest, halves up: no points are negative.
        return (2 * total + count) // np.maximum(2 * count, 1)


@dataclass(slots=True)
class _Part:
    """What a claim adds to its storage class on some rows."""

    storage_class: str
    mask: Mask
    requested: int
    capacity: Bytes
    adds_capacity: bool
    """Capacities of volumes add up; a driver's capacity for a row counts once, however many claims share it."""


def _static_parts(choices: Sequence[Choice]) -> Iterator[_Part]:
    for choice in choices:
        if choice.chosen is None:
            continue
        sizes = np.array([value(volume.spec.capacity.get(STORAGE, 0)) for volume in choice.candidates], dtype=object)
        names = [volume.spec.storage_class_name for volume in choice.candidates]
        for name in dict.fromkeys(names):
            is_of_class = np.array([other == name for other in names])
            mask = choice.chosen >= 0
            mask[mask] = is_of_class[choice.chosen[mask]]
            if mask.any():
                yield _Part(name, mask, _request(choice.claim), sizes[choice.chosen], adds_capacity=True)


def _provisioned_parts(placement: Placement, storage: Storage, is_provisioned: Mask) -> Iterator[_Part]:
    """Claims whose volumes have to be provisioned, on rows where no existing volume serves a claim."""
    if not is_provisioned.any():
        return
    needs: list[tuple[PersistentVolumeClaim, Mask]] = [(claim, is_provisioned) for claim in placement.given]
    # On a row where no existing volume serves a claim, all claims have to be provisioned.
    needs.extend((choice.claim, is_provisioned) for choice in placement.choices)
    for claim, mask in needs:
        largest = _largest_reported(claim, storage, placement.rows)
        if largest is not None:
            yield _Part(claim.storage_class, mask & (largest >= 0), _request(claim), largest, adds_capacity=False)


def _largest_reported(claim: PersistentVolumeClaim, storage: Storage, rows: Rows) -> Bytes | None:
    """The largest reported capacity that is enough, int64 [rows], -1 where there is none.

    `None` if the driver reports no capacity or the claim requests no size.
    """
    found = reported_capacities(claim, storage)
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


def _utilization(entry: _Class) -> NDArray[np.int64]:
    is_full = (entry.capacity == 0) | (entry.requested > entry.capacity)
    percent = entry.requested * FULL // np.where(is_full, 1, entry.capacity)
    clipped: NDArray[np.int64] = np.where(is_full, FULL, percent).astype(np.int64)
    return clipped
