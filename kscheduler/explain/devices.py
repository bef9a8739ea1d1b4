"""Which devices a pod's claims have, or would get on each node that passed."""

from collections.abc import Iterable, Iterator

from kscheduler.api.devices import AllocationResult, ResourceClaim
from kscheduler.explain.answer import ClaimedDevice
from kscheduler.framework.cluster.claim_writing import PodReservation
from kscheduler.framework.cluster.devices import DeviceChooser
from kscheduler.framework.status import StatusError
from kscheduler.scenario.decide import Decision
from kscheduler.scheduling.record import SchedulingRecord


def devices_by_node(decision: Decision, record: SchedulingRecord) -> dict[str, list[ClaimedDevice]]:
    """By node that passed the devices of the pod's claims, in the order of the claims; without claims no node."""
    profile, cache = decision.profile, decision.cache
    found: dict[str, list[ClaimedDevice]] = {}
    if profile is None or cache is None:
        return found
    if not record.pod.pod.spec.resource_claims and not cache.devices.serve(record.pod):
        return found
    for plugin in profile.instances:
        if not isinstance(plugin, DeviceChooser):
            continue
        for name in record.feasible_names():
            info = cache.nodes.info(cache.nodes.row_of(name))
            try:
                claims = plugin.claims_with_devices(record.state, info)
            except StatusError:  # the search on this node has failed since Filter, by its time limit
                continue
            found[name] = list(_devices(claims))
    return found


def reserved_devices(record: SchedulingRecord) -> list[ClaimedDevice]:
    """The devices of a pod whose node has been reserved, as for members of a group that is placed."""
    reservation = record.state.find(PodReservation)
    claims = () if reservation is None else reservation.claims
    chosen = [(each.claim, each.claim.status.allocation or each.allocation) for each in claims]
    return list(_devices((claim, allocation) for claim, allocation in chosen if allocation is not None))


def _devices(claims: Iterable[tuple[ResourceClaim, AllocationResult]]) -> Iterator[ClaimedDevice]:
    for claim, allocation in claims:
        is_allocated = claim.status.allocation is not None
        for each in allocation.devices.results:
            yield ClaimedDevice(claim.metadata.name, each.request, each.driver, each.pool, each.device, is_allocated)
