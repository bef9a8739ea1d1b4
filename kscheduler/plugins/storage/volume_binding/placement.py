"""Filter: on which rows the pod's claims can be served, and by what.

    bound claims     the volume must be reachable from the row
    delayed claims   with a selected node: provisioned on that node only
                     otherwise the smallest free volume that matches and is reachable; if there is none, provisioned

Claims are served from the smallest request to the largest, so that a small claim does not take the only large volume. A
volume that is reserved for the claim beforehand is taken, or none. Which volume serves which claim differs from row to
row (local disks), so each claim keeps a column of choices.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.quantity import Quantity, exact_value
from kscheduler.api.selectors import parse_label_selector
from kscheduler.api.storage import (
    FILESYSTEM,
    NO_PROVISIONER,
    STORAGE,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from kscheduler.framework.cluster.volumes import Volumes, is_bound_to
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.plugins.storage.volume_binding.claims import PodClaims, selected_node
from kscheduler.plugins.storage.volume_binding.reach import in_topology, reachable, reachable_as_migrated, selected

# Bits of the problems of a row.
NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, VOLUME_MISSING = 1, 2, 4, 8

AVAILABLE = "Available"
_NONE = -1

Bits = NDArray[np.int64]


@dataclass(slots=True)  # freezing costs more than the rest of a placement, here and below
class Choice:
    """The volume that serves a claim on each row."""

    claim: PersistentVolumeClaim
    candidates: Sequence[PersistentVolume] = ()
    chosen: NDArray[np.int64] | None = None
    """int64 [rows]: the index into `candidates`, `_NONE` to provision. `None`: provisioned on all rows."""

    def volume_at(self, place: int) -> PersistentVolume | None:
        """The volume for the claim at this place of the rows; `None` if it has to be provisioned."""
        index = _NONE if self.chosen is None else int(self.chosen[place])
        return None if index == _NONE else self.candidates[index]

    @property
    def to_provision(self) -> Mask | None:
        """Where the volume has to be provisioned, bool [rows]; `None` is on all rows."""
        return None if self.chosen is None else self.chosen == _NONE


# (volume, claim) pairs to bind, and claims whose volumes have to be provisioned.
Served = tuple[list[tuple[PersistentVolume, PersistentVolumeClaim]], list[PersistentVolumeClaim]]


@dataclass(slots=True)
class Placement:
    """How the delayed claims are served on these rows."""

    rows: Rows
    given: tuple[PersistentVolumeClaim, ...] = ()
    """Claims with a selected node."""
    choices: tuple[Choice, ...] = ()

    def at(self, row: int) -> Served | None:
        """How the claims are served on this row; `None` if the row was not judged."""
        place = int(self.rows.searchsorted(row))
        if place == len(self.rows) or self.rows.item(place) != row:
            return None
        served = [(choice.claim, choice.volume_at(place)) for choice in self.choices]
        made = [claim for claim, volume in served if volume is None]
        return [(volume, claim) for claim, volume in served if volume is not None], [*self.given, *made]


SizeOf = Callable[[Quantity], int]


@dataclass(slots=True)
class Storage:
    """The inputs of a placement besides the claims."""

    volumes: Volumes
    nodes: NodeTable
    size_of: SizeOf
    """How large a claim and a reported capacity are: both in the same unit."""


def place(claims: PodClaims, storage: Storage, rows: Rows) -> tuple[Bits | None, Placement]:
    """The problems of each row, int64 [rows] of bits, and how the claims are served on the rows without a problem.

    `None` means that no row has a problem, here and below: most pods' claims can be served on every node, and to build
    and test an array of zeros over thousands of rows costs as much as all the rest. Raises `ValueError`, which becomes
    an Error status.
    """
    wrong = _bound_elsewhere(claims.bound, storage, rows)
    if not claims.delayed:
        return wrong, Placement(rows)
    given: list[PersistentVolumeClaim] = []
    open_claims: list[PersistentVolumeClaim] = []
    for claim in claims.delayed:
        (open_claims if selected_node(claim) is None else given).append(claim)
    on_selected = _on_selected_nodes(given, storage.nodes, rows) if given else None
    judged = rows if on_selected is None else rows[on_selected]
    choices = tuple(_matched(open_claims, storage, judged))
    to_provision: list[tuple[PersistentVolumeClaim, Mask | None]] = [(claim, None) for claim in given]
    to_provision.extend((choice.claim, choice.to_provision) for choice in choices)
    lacking = _not_provisionable(to_provision, storage, judged)
    if on_selected is None:
        return _either(wrong, lacking), Placement(rows, tuple(given), choices)
    conflicts = np.where(on_selected, 0, BIND_CONFLICT)
    if lacking is not None:
        conflicts[on_selected] |= lacking
    return _either(wrong, conflicts), Placement(judged, tuple(given), choices)


def _either(first: Bits | None, second: Bits | None) -> Bits | None:
    if first is None or second is None:
        return second if first is None else first
    return first | second


# --- bound claims -----------------------------------------------------------------------------------------------------


def _bound_elsewhere(claims: Iterable[PersistentVolumeClaim], storage: Storage, rows: Rows) -> Bits | None:
    """The problem of the first claim that fails on each row, int64 [rows]; `None` if there is no problem."""
    wrong: Bits | None = None
    for claim in claims:
        volume = storage.volumes.volume(claim.spec.volume_name)
        if volume is None:
            return _marked(wrong, None, VOLUME_MISSING, rows)
        fits = reachable_as_migrated(volume, storage.volumes, storage.nodes, rows)
        if np.count_nonzero(fits) < len(fits):
            wrong = _marked(wrong, ~fits, NODE_CONFLICT, rows)
    return wrong


def _marked(wrong: Bits | None, failing: Mask | None, bit: int, rows: Rows) -> Bits:
    """The problems with this bit set on the failing rows (`None`: all rows) that had no problem before."""
    if wrong is None:
        wrong = np.zeros(len(rows), dtype=np.int64)
    is_good = wrong == 0
    wrong[is_good if failing is None else is_good & failing] = bit
    return wrong


# --- delayed claims ---------------------------------------------------------------------------------------------------


def _on_selected_nodes(claims: Iterable[PersistentVolumeClaim], nodes: NodeTable, rows: Rows) -> Mask:
    on_selected = np.ones(len(rows), dtype=np.bool_)
    for claim in claims:
        name = selected_node(claim)
        if name is not None:
            on_selected &= rows == nodes.row_of(name)
    return on_selected


def _matched(claims: Sequence[PersistentVolumeClaim], storage: Storage, rows: Rows) -> Iterator[Choice]:
    taken: dict[str, Mask] = {}
    for claim in sorted(claims, key=_request) if len(claims) > 1 else claims:
        volumes = storage.volumes.volumes_for(claim)
        candidates = _candidates(claim, volumes) if volumes else ()
        if not candidates:
            yield Choice(claim)
            continue
        chosen = np.full(len(rows), _NONE, dtype=np.int64)
        for index, volume in enumerate(candidates):
            usable = reachable(volume, storage.nodes, rows) & (chosen == _NONE)
            if volume.metadata.name in taken:
                usable &= ~taken[volume.metadata.name]
            chosen[usable] = index
            if usable.any():
                taken[volume.metadata.name] = taken.get(volume.metadata.name, False) | usable
            if (chosen != _NONE).all():
                break
        yield Choice(claim, candidates, chosen)


def _candidates(claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]) -> Sequence[PersistentVolume]:
    """The volumes that may serve the claim, best first; only the volume that is reserved for it, if there is one."""
    fitting = [volume for volume in volumes if _may_serve(volume, claim)]
    set_aside = next((volume for volume in fitting if is_bound_to(volume, claim)), None)
    if set_aside is not None:
        return [set_aside]
    selector = parse_label_selector(claim.spec.selector) if claim.spec.selector is not None else None
    free = [
        volume
        for volume in fitting
        if volume.status.phase == AVAILABLE
        and (selector is None or selector.matches(volume.metadata.labels))
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
    ]
    return sorted(free, key=_capacity)


def _may_serve(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    required, offered = claim.spec, volume.spec
    return (
        _capacity(volume) >= _request(claim)
        and (required.volume_mode or FILESYSTEM) == (offered.volume_mode or FILESYSTEM)
        and (required.volume_attributes_class_name or "") == (offered.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )


def _request(claim: PersistentVolumeClaim) -> int:
    return exact_value(claim.spec.resources.requests.get(STORAGE, 0))


def _capacity(volume: PersistentVolume) -> int:
    return exact_value(volume.spec.capacity.get(STORAGE, 0))


# --- volumes to provision ---------------------------------------------------------------------------------------------


def _not_provisionable(
    needs: Iterable[tuple[PersistentVolumeClaim, Mask | None]], storage: Storage, rows: Rows
) -> Bits | None:
    """The problem of the first claim that cannot be provisioned on each row, int64 [rows]; `None` if there is none.

    `needs` has each claim with the rows where it needs provisioning (`None`: all rows).
    """
    wrong: Bits | None = None
    for claim, needed in needs:
        if not _is_needed(needed, wrong, rows):
            continue
        storage_class = _class_of(claim, storage.volumes)
        if storage_class.provisioner in ("", NO_PROVISIONER):
            wrong = _marked(wrong, needed, BIND_CONFLICT, rows)
            continue
        if storage_class.allowed_topologies:
            forbidden = ~in_topology(storage_class.allowed_topologies, storage.nodes, rows)
            wrong = _marked(wrong, _both(needed, forbidden), BIND_CONFLICT, rows)
        has_room = _has_room(claim, storage_class, storage, rows)
        if has_room is not None:
            wrong = _marked(wrong, _both(needed, ~has_room), NOT_ENOUGH_SPACE, rows)
    return wrong


def _is_needed(needed: Mask | None, wrong: Bits | None, rows: Rows) -> bool:
    """Whether a row without a problem so far needs the claim's volume provisioned."""
    if wrong is None:
        return len(rows) > 0 if needed is None else bool(needed.any())
    return bool(np.count_nonzero(wrong == 0 if needed is None else needed & (wrong == 0)))


def _both(first: Mask | None, second: Mask) -> Mask:
    return second if first is None else first & second


def _class_of(claim: PersistentVolumeClaim, volumes: Volumes) -> StorageClass:
    name = claim.storage_class
    if not name:
        raise ValueError(f'no class for claim "{claim.key}"')
    found = volumes.storage_class(name)
    if found is None:
        raise ValueError(f'failed to find storage class "{name}"')
    return found


def _has_room(claim: PersistentVolumeClaim, storage_class: StorageClass, storage: Storage, rows: Rows) -> Mask | None:
    """Rows that reach enough capacity, bool [rows]; `None` (all) if no capacity is reported or no size requested."""
    sufficient = _sufficient(claim, storage_class, storage)
    if sufficient is None:
        return None
    mask = np.zeros(len(rows), dtype=np.bool_)
    for capacity in sufficient:
        mask |= selected(capacity.node_topology, storage.nodes, rows)
    return mask


def reported_capacities(claim: PersistentVolumeClaim, storage: Storage) -> Iterable[CSIStorageCapacity] | None:
    """The reported capacities, of all topologies, that are enough for the claim.

    `None` if the driver reports no capacity or the claim requests no size.

    Raises `ValueError` for a claim without a class.
    """
    return _sufficient(claim, _class_of(claim, storage.volumes), storage)


def _sufficient(
    claim: PersistentVolumeClaim, storage_class: StorageClass, storage: Storage
) -> Iterable[CSIStorageCapacity] | None:
    request = claim.spec.resources.requests.get(STORAGE)
    driver = storage.volumes.csi_driver(storage_class.provisioner)
    if request is None or driver is None or not driver.spec.storage_capacity:
        return None
    size, reported = storage.size_of(request), storage.volumes.capacities(storage_class.metadata.name)
    return (each for each in reported if each.limit is not None and storage.size_of(each.limit) >= size)
