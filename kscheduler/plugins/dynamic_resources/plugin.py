"""The extension points of DynamicResources.

PreEnqueue  the pod waits outside of the queue until its claims exist
PreFilter   find the claims, and what can be said about them whatever the node
Filter      the rows that can use the allocated claims, and have devices for the others
PostFilter  no node fits: which claim should give its devices back, so that others are chosen
Score       points for rows where claims get the better of their alternatives
Reserve     take the devices that Filter has found on the node: the next pod sees them as taken
PreBind     have the claims written (`framework.cluster.claim_writing`)
Unreserve   give back what was taken
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar, Final

import msgspec
import numpy as np

from kscheduler.api.devices import AllocationResult, ResourceClaim
from kscheduler.config.feature_gates import RESIZE_PREEMPTION
from kscheduler.config.plugin_args import DynamicResourcesArgs
from kscheduler.devices.counting import NodeDevices, PoolCount
from kscheduler.framework.cluster.claim_writing import (
    BINDING_TIMEOUT_SECONDS,
    NO_CLAIM_WRITER,
    ClaimRules,
    Deallocation,
    PodReservation,
    ReservedClaim,
)
from kscheduler.framework.cluster.devices import NO_DEVICES_KNOWN, Devices
from kscheduler.framework.cluster.pod_groups import CycleOfGroup
from kscheduler.framework.cluster.preemption import GroupTrial, PodGroupPostFilterResult
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ClusterEventWithHint
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.nodes.search_budget import SearchTimeBudget
from kscheduler.framework.plugin import (
    PASS_ALL,
    SKIPPED,
    UNSIGNABLE,
    Plugin,
    PostFilterResult,
    PreFilterResult,
    PreFlightResult,
    Signature,
)
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import resize_is_deferred
from kscheduler.framework.reasons.details import Detail
from kscheduler.framework.reasons.diagnosis import Diagnosis
from kscheduler.framework.rules.device_readiness import DeviceFailedError, is_overdue, is_ready
from kscheduler.framework.rules.scoring import default_normalize
from kscheduler.framework.status import SKIP, SUCCESS, Fault, Status, StatusError, error, unresolvable, unschedulable
from kscheduler.plugins.dynamic_resources import extended
from kscheduler.plugins.dynamic_resources.allocators import Allocators
from kscheduler.plugins.dynamic_resources.alternatives import have_alternatives
from kscheduler.plugins.dynamic_resources.details import claim_details, held_by_less_important
from kscheduler.plugins.dynamic_resources.events import DeviceEvents
from kscheduler.plugins.dynamic_resources.in_cycle import (
    ChosenByGroup,
    ClaimNotReadyError,
    ClaimsInCycle,
    awaited_claims,
    missing_claim,
    pod_claims,
    reachable_from,
    unservable,
)
from kscheduler.plugins.dynamic_resources.node_result_cache import NodeResult
from kscheduler.plugins.dynamic_resources.search import NOT_AVAILABLE, REASONS, LookAhead, UnfinishedError

_PREPARED: Final = PreFilterResult(SUCCESS)
_NOTHING_TO_WRITE: Final = PreFlightResult(SKIP, allow_parallel=True)
_WRITES: Final = PreFlightResult(SUCCESS, allow_parallel=True)


class _Begun(msgspec.Struct, frozen=True):
    """In the state of a cycle: PreFilter has run, and has perhaps ended early."""


_BEGUN: Final = _Begun()


_DONE_FOR_GROUP: Final = unschedulable(
    "deallocation and deletion of ResourceClaims completed", plugin="DynamicResources"
)


class DynamicResources(Plugin):
    """Finds and reserves the devices of a pod."""

    name = "DynamicResources"
    depends_on = ()
    judges_without_labels = True
    """Nothing: what is signed is a pod without claims, and every node suits it equally."""
    reads_pods = False
    reads_spec_only = True
    idle_without = (ClaimsInCycle, PodReservation)
    is_live_unsigned = True
    lets_in_plain_pods = True
    normalizes_points_only = True
    reasons: ClassVar = REASONS | extended.REASONS

    def __init__(self, args: DynamicResourcesArgs | None, handle: Handle) -> None:
        args = args or DynamicResourcesArgs()
        self._handle = handle
        self._allocators = Allocators(handle, args.filter_timeout)
        self._events = DeviceEvents(None if handle.devices is None else handle.devices.claims)
        self._claim_changes = 0
        """How many changes of claims the queue has been told of."""
        self._rules = ClaimRules(
            {"DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"} <= set(handle.features),
            BINDING_TIMEOUT_SECONDS if args.binding_timeout is None else args.binding_timeout / 1e9,
            handle.behaviours.claims_stay_pending,
        )
        shares_devices = "DRAConsumableCapacity" in handle.features
        self._refuses_negative = handle.behaviours.refuses_negative_amounts and shares_devices
        self._has_alternatives = "DRAPrioritizedList" in handle.features
        self._counts_resizes = RESIZE_PREEMPTION in handle.features
        self._has_extended = "DRAExtendedResource" in handle.features
        named = handle.behaviours.names_claims_to_deallocate
        self._nothing_to_deallocate = unschedulable("no new claims to deallocate") if named else unschedulable()
        self._not_helped = unschedulable("still not schedulable") if named else unschedulable()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """All events after which a pod's claims may exist, be free or get devices."""
        return self._events.registered()

    def sign(self, pod: PodInfo) -> Signature:
        """Pods without claims are all alike; pods with claims cannot share a decision."""
        return UNSIGNABLE if pod.pod.spec.resource_claims else ()

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """All claims must exist."""
        devices = self._handle.devices
        if not pod.pod.spec.resource_claims or devices is None:
            return SUCCESS
        return missing_claim(pod.pod, devices.claims) or SUCCESS

    def gating_objects(self, pod: PodInfo) -> Collection[str] | None:
        """The claim that the pod waits for. A pod whose status names no claim yet waits for its own change."""
        devices = self._handle.devices
        return None if devices is None else awaited_claims(pod.pod, devices.claims)

    def changed_gating_objects(self) -> Collection[str] | None:
        """The claims that have changed since the last call."""
        devices = self._handle.devices
        if devices is None:
            return None
        since, self._claim_changes = self._claim_changes, devices.claims.changes
        return devices.claims.changed_since(since)

    # --- deciding -----------------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Skip for pods without claims."""
        del nodes
        if self._grows_in_place(pod):
            return SKIPPED
        cycle.write(_BEGUN)
        devices = self._handle.devices
        if not pod.pod.spec.resource_claims and (devices is None or not self._may_have_extended(pod, devices)):
            return SKIPPED
        if devices is None:
            return PreFilterResult(NO_DEVICES_KNOWN)
        try:
            claims = pod_claims(pod.pod, devices.claims)
        except ClaimNotReadyError as not_ready:
            return PreFilterResult(unresolvable(str(not_ready), plugin=self.name))
        state = ClaimsInCycle(claims, shared=_chosen_by_group(cycle, claims, devices))
        search_for = partial(self._allocators.search_for, devices=devices, search_budget=cycle.find(SearchTimeBudget))
        if self._may_have_extended(pod, devices):
            state.extended = extended.extended_resources(
                pod, state.to_allocate, devices, search_for, has_user_claims=bool(claims)
            )
        if state.is_empty:
            return SKIPPED
        to_allocate = state.to_allocate
        for claim in to_allocate:
            problem = self._problem(claim, devices)
            if problem is not None:
                return PreFilterResult(problem.by(self.name))
        allocations = [state.allocation_of(claim) for claim in claims]
        try:
            state.reachable = [
                None if allocation is None else reachable_from(claim, allocation)
                for claim, allocation in zip(claims, allocations, strict=True)
            ]
        except StatusError as too_many:
            return PreFilterResult(error(str(too_many), fault=too_many.fault).by(self.name))
        negative = self._refused_amounts(state, devices)
        if negative:
            text = f"gather allocation state: {negative}"
            return PreFilterResult(error(text, fault=Fault.CLAIM).by(self.name))
        if to_allocate and state.extended is None:
            state.search = search_for(to_allocate)
        cycle.write(state)
        return _PREPARED

    def _refused_amounts(self, state: ClaimsInCycle, devices: Devices) -> str:
        """The amount of any claim that keeps devices from being chosen, as text; empty where none have to be."""
        extended_claim = () if state.extended is None else (state.extended.claim,)
        if not self._refuses_negative or all(
            claim.status.allocation is not None for claim in (*state.claims, *extended_claim)
        ):
            return ""
        return devices.claims.negative_amounts()

    def _grows_in_place(self, pod: PodInfo) -> bool:
        """Whether the pod runs and waits for room on its node: its devices are there."""
        return self._counts_resizes and bool(pod.node_name) and resize_is_deferred(pod.pod)

    def _may_have_extended(self, pod: PodInfo, devices: Devices) -> bool:
        return self._has_extended and devices.stand_for_any(pod.requests)

    def _problem(self, claim: ResourceClaim, devices: Devices) -> Status | None:
        """Why no node can give devices to the claim."""
        if devices.claims.pending(claim.metadata.uid) is not None:
            return unresolvable(f"resource claim {claim.key} is in the process of being allocated")
        return unservable(claim, devices, has_alternatives=self._has_alternatives)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """The code of what each row lacks, int64 [rows]. As upstream, devices are looked for first."""
        del pod
        state = cycle.read(ClaimsInCycle)
        try:
            codes, found = self._devices_on(state, nodes, rows)
        except UnfinishedError:
            is_live = nodes is self._handle.view.nodes
            cycle.read(SearchTimeBudget).rest = LookAhead(nodes, rows, state.search_on, is_live=is_live)
            raise StatusError("the search for devices goes on") from None
        for claim, mask in self._unavailable(state, nodes, rows):
            here = mask & ((codes == 0) | (codes == NOT_AVAILABLE))
            if here.any():
                state.unavailable.add(claim)
                codes[here] = NOT_AVAILABLE
                for row in rows[here].tolist():
                    found.pop(nodes.name_of(row), None)
        state.found.update(found)
        return codes if codes.any() else PASS_ALL

    def status(self, cycle: CycleState, code: int) -> Status:
        """That a pool is not whole is said with the name of the pod's claim."""
        bad_pool, state = self._allocators.bad_pools.problem(code), cycle.find(ClaimsInCycle)
        if bad_pool is None or state is None:
            return super().status(cycle, code)
        number, problem = bad_pool
        claims = state.searched_claims
        name = claims[number].key if number < len(claims) else ""
        return unresolvable(f"claim {name}, {problem}", plugin=self.name)

    def _devices_on(self, state: ClaimsInCycle, nodes: NodeTable, rows: Rows) -> tuple[Codes, dict[str, NodeResult]]:
        """The codes of rows without devices, int64 [rows], and by node what was found and is not kept."""
        search = state.search_on_all(nodes, rows) if nodes is self._handle.view.nodes else None
        if search is not None:
            return search.on_rows(nodes, rows)
        codes = np.zeros(len(rows), dtype=np.int64)
        found: dict[str, NodeResult] = {}
        if state.search is None and state.extended is None:
            return codes, found
        for place, row in enumerate(rows.tolist()):
            info = nodes.info(row)
            answer = state.devices_on(info)
            if isinstance(answer, int):
                codes[place] = answer
            else:
                found[info.name] = answer
        return codes, found

    def _unavailable(self, state: ClaimsInCycle, nodes: NodeTable, rows: Rows) -> list[tuple[int, Mask]]:
        """Places of claims with devices, each with the rows that cannot use them: bool [rows]."""
        found = []
        for place, (claim, terms) in enumerate(zip(state.claims, state.reachable, strict=True)):
            if state.allocation_of(claim) is None:
                continue
            mask = np.zeros(len(rows), dtype=np.bool_) if terms is None else ~nodes.matches_any(terms, rows)
            if claim.status.allocation is not None and self._has_failed(claim):
                mask = np.ones(len(rows), dtype=np.bool_)
            if mask.any():
                found.append((place, mask))
        return found

    def _has_failed(self, claim: ResourceClaim) -> bool:
        """Whether the claim's devices will not become ready, or have had their time."""
        if not self._rules.has_binding_conditions:
            return False
        try:
            return not is_ready(claim) and is_overdue(
                claim, self._rules.binding_timeout_seconds, self._handle.clock.time()
            )
        except DeviceFailedError:
            return True

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """Which claim is not served, and why. Where no node was looked at, the message says all."""
        devices, state = self._handle.devices, cycle.find(ClaimsInCycle) or ClaimsInCycle()
        if devices is None or not len(rows):
            return ()
        search_for = partial(self._allocators.search_for, devices=devices)
        of_claims = claim_details(state, devices, search_for, self._allocators.obstacles(devices), nodes, rows)
        return (*of_claims, *held_by_less_important(pod, devices, nodes, rows))

    def claims_with_devices(
        self, cycle: CycleState, node: NodeInfo
    ) -> Sequence[tuple[ResourceClaim, AllocationResult]]:
        """For questions: implements `framework.cluster.devices.DeviceChooser`."""
        state = cycle.find(ClaimsInCycle)
        return () if state is None else state.with_devices(node)

    def devices_on(self, nodes: Iterable[NodeInfo]) -> dict[str, NodeDevices]:
        """By node its devices by class. Implements `framework.cluster.devices.DeviceCounter`."""
        devices = self._handle.devices
        if devices is None:
            return {}
        return self._allocators.devices_on((info.node for info in nodes if info.node is not None), devices)

    def devices_by_pool(self, nodes: Iterable[NodeInfo]) -> dict[str, tuple[PoolCount, ...]]:
        """By node its devices by class and pool. Implements `framework.cluster.devices.DeviceCounter`."""
        devices = self._handle.devices
        if devices is None:
            return {}
        return self._allocators.devices_by_pool((info.node for info in nodes if info.node is not None), devices)

    def pool_states(self) -> Mapping[tuple[str, str], int]:
        """By (driver, state) the number of pools. Implements `framework.cluster.devices.DeviceCounter`."""
        return {} if self._handle.devices is None else self._allocators.pool_states(self._handle.devices)

    def post_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, diagnosis: Diagnosis) -> PostFilterResult:
        """Request that a claim which some node cannot use gives its devices back, if nobody else uses it.

        Else that a claim for extended resources goes which is left over from an earlier attempt.

        Fails, as upstream, where another plugin ended PreFilter before this one ran.
        """
        del nodes, diagnosis
        if self._grows_in_place(pod):
            return PostFilterResult(unschedulable())
        if cycle.find(_Begun) is None:
            return PostFilterResult(error("not found"))
        state = cycle.find(ClaimsInCycle)
        if state is None:
            return PostFilterResult(self._nothing_to_deallocate)
        request = _claim_to_free(pod, state)
        if request is None:
            return PostFilterResult(self._not_helped)
        done = "deletion" if request.is_deletion else "deallocation"
        return PostFilterResult(unschedulable(f"{done} of ResourceClaim completed"), deallocation=request)

    def pod_group_post_filter(self, trial: GroupTrial) -> PodGroupPostFilterResult:
        """Request the same for each member. As upstream it says that this is done also where nothing was to be done.

        For a group that was tried in placements, or a composite one, it does nothing at all, and says nothing.
        """
        if trial.group.key.is_composite:
            return PodGroupPostFilterResult(unschedulable())
        if trial.group.topology_key and "TopologyAwareWorkloadScheduling" in self._handle.features:
            return PodGroupPostFilterResult(unschedulable())
        states = [(member, trial.state_of(member)) for member in trial.members]
        claims = [(member, state.find(ClaimsInCycle)) for member, state in states if state is not None]
        requests = [_claim_to_free(member, known) for member, known in claims if known is not None]
        return PodGroupPostFilterResult(
            _DONE_FOR_GROUP, deallocations=[request for request in requests if request is not None]
        )

    def gives_points(self, cycle: CycleState) -> bool:
        """Whether `score` may give any row points: only where a claim has alternatives."""
        state = cycle.find(ClaimsInCycle)
        return state is not None and self._has_alternatives and have_alternatives([each.spec for each in state.claims])

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """Points by the alternatives that claims get, int64 [rows]."""
        del pod
        points = np.zeros(len(rows), dtype=np.int64)
        state = cycle.find(ClaimsInCycle)
        if state is None or not self.gives_points(cycle):
            return points
        kept = state.points_on_rows(nodes, rows) if nodes is self._handle.view.nodes else None
        if kept is not None:
            return kept
        for place, row in enumerate(rows.tolist()):
            found = state.found_on(nodes.info(row))
            if found is not None:
                points[place] = state.points(found)
        return points

    def normalize(self, cycle: CycleState, pod: PodInfo, rows: Rows, scores: Scores) -> Scores:
        """0..100, int64 [rows]: shares of the most points."""
        del cycle, pod, rows
        return default_normalize(scores)

    # --- reserving and binding ----------------------------------------------------------------------------------------

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Take what Filter has found on the node."""
        state, devices = cycle.find(ClaimsInCycle), self._handle.devices
        if state is None or devices is None:
            return SUCCESS
        info = self._handle.view.nodes.info(self._handle.view.nodes.row_of(node_name))
        try:
            claims, found = state.claims_on(info), state.found_on(info)
        except StatusError as problem:
            return error(str(problem), fault=problem.fault)
        if found is None and state.to_allocate:
            return error("claim allocation not found for node")
        if found and len(found) != len(claims):
            counts = f"have {len(found)} allocations, {len(claims)} claims to allocate, want {len(claims)} claims"
            return error(f"internal error, {counts}")
        reservation = PodReservation(pod, node_name)
        cycle.write(reservation)
        chosen = dict(state.shared)
        chosen |= {claim.metadata.uid: allocation for claim, allocation in zip(claims, found or (), strict=False)}
        _report_group(cycle, chosen)
        for claim in state.claims:
            taken = _taken(devices, claim, chosen.get(claim.metadata.uid))
            taken.is_of_group = cycle.find(CycleOfGroup) is not None
            reservation.claims.append(taken)
        if state.extended is not None and found:
            claim, mappings = state.extended.claim_on(info)
            if mappings:  # else the node counts all of them itself
                taken = _taken(devices, claim, chosen[claim.metadata.uid])
                taken.mappings = mappings
                reservation.claims.append(taken)
        return SUCCESS

    def unreserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Give back what was taken, and what was written meanwhile."""
        del pod, node_name
        reservation, devices = cycle.find(PodReservation), self._handle.devices
        if reservation is None or devices is None:
            return
        if self._handle.claim_writer is not None:
            self._handle.claim_writer.unreserve(reservation)
            return
        for reserved in reservation.claims:
            if reserved.pending_uid and devices.claims.remove_pending(reserved.pending_uid, force=False):
                devices.claims.restore(reserved.claim.key)

    def pre_bind_pre_flight(self, cycle: CycleState, pod: PodInfo, node_name: str) -> PreFlightResult:
        """Skip for pods without claims. May run in parallel with the preparation of volumes."""
        del pod, node_name
        return _NOTHING_TO_WRITE if cycle.find(PodReservation) is None else _WRITES

    async def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Write allocations and reservations, and wait until the devices are ready."""
        del pod, node_name
        reservation, writer = cycle.find(PodReservation), self._handle.claim_writer
        if reservation is None:
            return SUCCESS
        return NO_CLAIM_WRITER if writer is None else await writer.pre_bind(reservation, self._rules)


def _claim_to_free(pod: PodInfo, state: ClaimsInCycle) -> Deallocation | None:
    """The first claim of the pod that some node cannot use and that nobody else has reserved; `None`: there is none.

    Else the claim for its extended resources, if that is left over from an earlier attempt.
    """
    for place in sorted(state.unavailable):  # upstream: in random order
        claim = state.claims[place]
        if claim.status.allocation is None:
            continue  # its devices are not written yet
        if all(consumer.uid == pod.pod.metadata.uid for consumer in claim.status.reserved_for):
            return Deallocation(pod.pod, claim)
    if state.extended is not None and not state.extended.is_in_memory:
        return Deallocation(pod.pod, state.extended.claim, is_deletion=True)
    return None


def _chosen_by_group(
    cycle: CycleState, claims: Sequence[ResourceClaim], devices: Devices
) -> dict[str, AllocationResult]:
    """By UID, the devices that members before this one have chosen in the same trial, for claims that it names too.

    Only these: what another trial, or a pod of no group, has chosen may yet be given back.
    """
    trial = cycle.find(CycleOfGroup)
    chosen = None if trial is None else trial.state.find(ChosenByGroup)
    if chosen is None:
        return {}
    pending = {claim.metadata.uid: devices.claims.pending(claim.metadata.uid) for claim in claims}
    return {
        uid: claim.status.allocation
        for uid, claim in pending.items()
        if uid in chosen.uids and claim is not None and claim.status.allocation is not None
    }


def _report_group(cycle: CycleState, uids: Iterable[str]) -> None:
    """Let the members after this one know for which claims it has chosen devices."""
    trial = cycle.find(CycleOfGroup)
    if trial is None:
        return
    if trial.state.find(ChosenByGroup) is None:
        trial.state.write(ChosenByGroup())
    trial.state.read(ChosenByGroup).uids.update(uids)


def _taken(devices: Devices, claim: ResourceClaim, allocation: AllocationResult | None) -> ReservedClaim:
    """Count what was chosen for the claim as taken; `None`: it is allocated already."""
    if allocation is None:
        return ReservedClaim(claim)
    uid, status = claim.metadata.uid, msgspec.structs.replace(claim.status, allocation=allocation)
    devices.claims.signal_pending(uid, msgspec.structs.replace(claim, status=status))
    return ReservedClaim(claim, allocation, uid)
