"""The extension points of VolumeBinding.

PreFilter   find the claims, or the reason why the pod must wait for them
Filter      the rows where the claims can be served
Reserve     assume the choice for the node: the next pod sees the volumes and claims as taken
PreBind     write the choice, and wait until the volume controller has bound everything (600 s at most)
Unreserve   take back what was assumed and not written

Score       by how full the storage would be. Only with the feature gate StorageCapacityScoring, which is on by
            default from 1.37: without it the arguments have no `shape`, and PreScore skips
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from kscheduler.aio.tasks import WakeupEvent
from kscheduler.api.quantity import exact_value, value
from kscheduler.api.storage import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
)
from kscheduler.config.plugin_args import VolumeBindingArgs
from kscheduler.framework.cluster.volumes import NOTHING_KNOWN, Volumes, claim_names, is_bound_to
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ClusterEventWithHint
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.plugin import (
    PASS_ALL,
    SKIPPED,
    UNSIGNABLE,
    Plugin,
    PreFilterResult,
    PreFlightResult,
    Source,
    status_of_code,
)
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail
from kscheduler.framework.status import SKIP, SUCCESS, Status, error
from kscheduler.plugins.storage.volume_binding import events
from kscheduler.plugins.storage.volume_binding.claims import PodClaims, Undertaking, pod_claims
from kscheduler.plugins.storage.volume_binding.details import claim_details, unready_claims
from kscheduler.plugins.storage.volume_binding.placement import (
    BIND_CONFLICT,
    NODE_CONFLICT,
    NOT_ENOUGH_SPACE,
    VOLUME_MISSING,
    Placement,
    SizeOf,
    Storage,
    place,
)
from kscheduler.plugins.storage.volume_binding.scoring import CapacityScore

# How often a waiting pod checks its progress without an event: a node's labels may have changed.
CHECK_SECONDS: Final = 1.0

_PREPARED: Final = PreFilterResult(SUCCESS)

_REASONS = {
    NODE_CONFLICT: "node(s) didn't match PersistentVolume's node affinity",
    BIND_CONFLICT: "node(s) didn't find available persistent volumes to bind",
    NOT_ENOUGH_SPACE: "node(s) did not have enough free storage",
    VOLUME_MISSING: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}
_NOTHING_TO_WRITE: Final = PreFlightResult(SKIP, allow_parallel=True)
_WRITES: Final = PreFlightResult(SUCCESS, allow_parallel=True)


@dataclass(slots=True)
class _Claims:
    """The claims that PreFilter found, and a placement per call of Filter."""

    claims: PodClaims
    placements: list[Placement] = field(default_factory=list)


class VolumeBinding(Plugin):
    """Finds, reserves and binds the volumes of a pod."""

    name = "VolumeBinding"
    depends_on = (Source.ROW, Source.VOLUMES)
    judges_without_labels = True
    needs_volumes = True
    idle_without = (_Claims, Undertaking)
    reads_pods = False

    def __init__(self, args: VolumeBindingArgs | None, handle: Handle) -> None:
        self._handle = handle
        args = args or VolumeBindingArgs()
        self._timeout_seconds = float(args.bind_timeout_seconds)
        self._size_of: SizeOf = exact_value if handle.behaviours.compares_storage_exactly else value
        self._capacity_score = CapacityScore(args.shape) if args.shape else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """All events after which a volume may become available or reachable."""
        return events.registered(self._size_of)

    def sign(self, pod: PodInfo) -> Hashable:
        """Pods with claims cannot share a decision."""
        return UNSIGNABLE if any(True for _ in claim_names(pod.pod)) else ()

    # --- deciding -----------------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Skip for pods without claims."""
        del nodes
        if not pod.pod.spec.volumes:
            return SKIPPED
        volumes = self._handle.volumes
        if volumes is None:
            return PreFilterResult(NOTHING_KNOWN) if any(True for _ in claim_names(pod.pod)) else SKIPPED
        claims = pod_claims(pod, volumes)
        if isinstance(claims, Status):
            return PreFilterResult(claims.by(self.name))
        if not claims.bound and not claims.delayed:
            return SKIPPED
        cycle.write(_Claims(claims))
        return _PREPARED

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """The bits of each row's problems as a negative number, int64 [rows]: preemption cannot provide a volume."""
        del pod
        volumes = self._handle.volumes
        if volumes is None:
            return PASS_ALL
        state, began = cycle.read(_Claims), self._handle.clock.monotonic()
        wrong, placement = place(state.claims, Storage(volumes, nodes, self._size_of), rows)
        state.placements.append(placement)
        self._observe("predicate", began, is_ok=True)
        return PASS_ALL if wrong is None or not wrong.any() else -wrong

    def status(self, cycle: CycleState, code: int) -> Status:
        """The reasons of all bits of the code."""
        del cycle
        return status_of_code(code, tuple(text for bit, text in _REASONS.items() if bit & -code), self.name)

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """Which claim cannot be served, and why; for a pod that must wait for its claims, the unready claims."""
        volumes, state = self._handle.volumes, cycle.find(_Claims)
        if volumes is None:
            return ()
        if state is None or not len(rows):
            return unready_claims(pod, volumes)
        return claim_details(state.claims, Storage(volumes, nodes, self._size_of), rows)

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Status:
        """Skip without a shape. As upstream, pods without claims get 0 points everywhere."""
        del cycle, pod, nodes, rows
        return SKIP if self._capacity_score is None else SUCCESS

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """Points by how full the storage would be that Filter chose for the claims: int64 [rows]."""
        del pod
        points = np.zeros(len(rows), dtype=np.int64)
        state, volumes = cycle.find(_Claims), self._handle.volumes
        if self._capacity_score is None or state is None or volumes is None:
            return points
        storage = Storage(volumes, nodes, self._size_of)
        for placement in state.placements:  # Reserve takes the last placement that has the row, so later ones win
            given = self._capacity_score.of(placement, storage)
            place = placement.rows.searchsorted(rows)
            place[place == len(placement.rows)] = 0
            is_there = placement.rows[place] == rows if len(placement.rows) else np.zeros(len(rows), dtype=np.bool_)
            points[is_there] = given[place[is_there]]
        return points

    # --- reserving ----------------------------------------------------------------------------------------------------

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Assume the choice that Filter made for the node."""
        state, volumes = cycle.find(_Claims), self._handle.volumes
        if state is None or volumes is None or not state.claims.delayed:
            return SUCCESS
        began = self._handle.clock.monotonic()
        status = self._assume(cycle, state, volumes, pod, node_name)
        self._observe("assume", began, is_ok=status.is_success)
        return status

    def _assume(self, cycle: CycleState, state: _Claims, volumes: Volumes, pod: PodInfo, node_name: str) -> Status:
        row = self._handle.view.nodes.row_of(node_name)
        served = None
        for placement in reversed(state.placements):
            served = placement.at(row)
            if served is not None:
                break
        if served is None:
            return error(f'no pod volume found for node "{node_name}"')
        matches, to_provision = served
        undertaking = Undertaking(pod, node_name)
        cycle.write(undertaking)
        try:
            for volume, claim in matches:
                bound = _bound_to(volume, claim)
                volumes.assume_volume(bound)
                undertaking.bindings.append((bound, claim))
            for claim in to_provision:
                provisioned = _provisioned_for(claim, node_name)
                volumes.assume_claim(provisioned)
                undertaking.provisions.append(provisioned)
        except ValueError as out_of_sync:
            self._restore(undertaking)
            return error(str(out_of_sync))
        return SUCCESS

    def unreserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Take back what was assumed. What has been written stays: the next attempt continues from there."""
        del pod, node_name
        undertaking = cycle.find(Undertaking)
        if undertaking is not None:
            self._restore(undertaking)

    def _restore(self, undertaking: Undertaking, first_binding: int = 0, first_provision: int = 0) -> None:
        volumes = self._handle.volumes
        if volumes is not None:
            for volume, _ in undertaking.bindings[first_binding:]:
                volumes.restore_volume(volume)
            for claim in undertaking.provisions[first_provision:]:
                volumes.restore_claim(claim)

    # --- binding ------------------------------------------------------------------------------------------------------

    def pre_bind_pre_flight(self, cycle: CycleState, pod: PodInfo, node_name: str) -> PreFlightResult:
        """Skip if all claims were bound from the start. May run in parallel with the preparation of devices."""
        del pod, node_name
        return _NOTHING_TO_WRITE if cycle.find(Undertaking) is None else _WRITES

    async def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Write the choice, and wait until everything is bound."""
        del pod, node_name
        undertaking = cycle.find(Undertaking)
        if undertaking is None:
            return SUCCESS
        began = self._handle.clock.monotonic()
        status = await self._write(undertaking)
        status = await self._wait(undertaking) if status.is_success else status
        self._observe("bind", began, is_ok=status.is_success)
        return status

    def _observe(self, operation: str, began: float, *, is_ok: bool) -> None:
        self._handle.observe_volumes(operation, self._handle.clock.monotonic() - began, is_ok=is_ok)

    async def _write(self, undertaking: Undertaking) -> Status:
        """Write volumes first, then claims. After a failure, what was written stays; the rest is no longer assumed."""
        writer = self._handle.volume_writer
        if writer is None:
            return error("this process may not write volumes and claims")
        bound = provisioned = 0
        try:
            for number, (volume, claim) in enumerate(undertaking.bindings):
                written = await writer.bind_volume(volume)
                if isinstance(written, Status):
                    return written
                undertaking.bindings[number] = (written, claim)
                bound += 1
            for number, claim in enumerate(undertaking.provisions):
                selected = await writer.select_node(claim)
                if isinstance(selected, Status):
                    return selected
                undertaking.provisions[number] = selected
                provisioned += 1
        finally:
            self._restore(undertaking, bound, provisioned)
        return SUCCESS

    async def _wait(self, undertaking: Undertaking) -> Status:
        volumes, clock = self._handle.volumes, self._handle.clock
        assert volumes is not None  # noqa: S101  without them nothing was undertaken
        deadline = clock.monotonic() + self._timeout_seconds
        changed = WakeupEvent(clock)
        end = volumes.on_change(undertaking.subjects(), changed.notify)
        try:
            while True:
                status = undertaking.progress(volumes, self._handle.view.nodes)
                if status is not None:
                    return status if status.is_success else _failed(status.message)
                left = deadline - clock.monotonic()
                if left <= 0:
                    return _failed("context deadline exceeded")
                await changed.wait(min(left, CHECK_SECONDS))
        finally:
            end()


def _failed(why: str) -> Status:
    return error(f"binding volumes: {why}")


def _bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume as it has to be written: with a reference to the claim, and marked as bound by the controller.

    The mark is left out if a user had already bound the volume to this claim.
    """
    meta = claim.metadata
    reference = ObjectReference(
        "PersistentVolumeClaim", meta.namespace, meta.name, meta.uid, "v1", meta.resource_version
    )
    owner = volume.spec.claim_ref
    is_named = owner is not None and is_bound_to(volume, claim) and owner.uid == meta.uid
    spec = volume.spec if is_named else msgspec.structs.replace(volume.spec, claim_ref=reference)
    annotations = volume.metadata.annotations
    if not is_bound_to(volume, claim) and BOUND_BY_CONTROLLER not in annotations:
        annotations = {**annotations, BOUND_BY_CONTROLLER: "yes"}
    metadata = msgspec.structs.replace(volume.metadata, annotations=annotations)
    return msgspec.structs.replace(volume, metadata=metadata, spec=spec)


def _provisioned_for(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    """The claim as it has to be written: with this node as the selected node."""
    annotations = {**claim.metadata.annotations, SELECTED_NODE: node_name}
    metadata = msgspec.structs.replace(claim.metadata, annotations=annotations)
    return msgspec.structs.replace(claim, metadata=metadata)
