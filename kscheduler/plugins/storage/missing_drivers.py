"""Nodes that lack a CSI driver which wants pods nowhere else (`CSIDriver.spec.preventPodSchedulingIfMissing`)."""

from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.cluster.volumes import AttachableVolume, Volumes
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import NodeTable, Rows


class MissingDrivers(msgspec.Struct, frozen=True):
    """Which driver is missing where."""

    drivers: tuple[str, ...]
    places: NDArray[np.int64]
    """For each row 0, or the place of the first of `drivers` that is missing there, counted from 1."""


def missing_drivers(
    volumes_needed: Iterable[AttachableVolume], volumes: Volumes, nodes: NodeTable, rows: Rows
) -> MissingDrivers | None:
    """The drivers of these volumes that are not on all of these rows and insist on it; `None` if there are none.

    Upstream names one of several at random; here it is the first in the order of their names.
    """
    by_driver: dict[str, list[AttachableVolume]] = {}
    for volume in volumes_needed:
        driver = volumes.csi_driver(volume.driver)
        if driver is not None and driver.spec.prevent_pod_scheduling_if_missing:
            by_driver.setdefault(volume.driver, []).append(volume)
    drivers = tuple(sorted(by_driver))
    places = np.zeros(len(rows), dtype=np.int64)
    for place, driver_name in enumerate(drivers, 1):
        names = [nodes.name_of(row) for row in rows.tolist()]
        lacking = _lacking(driver_name, by_driver[driver_name], names, volumes)
        places[lacking & (places == 0)] = place
    return MissingDrivers(drivers, places) if places.any() else None


def _lacking(driver: str, needed: list[AttachableVolume], names: list[str], volumes: Volumes) -> Mask:
    """By node whether one of the volumes is the driver's there, and the driver is not."""
    return np.fromiter(
        (
            not volumes.has_driver(name, driver)
            and any(not one.migrated_from or volumes.has_csi_node(name) for one in needed)
            for name in names
        ),
        dtype=np.bool_,
        count=len(names),
    )
