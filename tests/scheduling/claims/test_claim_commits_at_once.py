"""Claims over a storage that never waits: what is asked for is done when the call returns, and no event loop runs."""

from typing import Any

from msgspec.structs import replace

from kscheduler.aio.clock import VirtualClock
from kscheduler.aio.synchronous import run_at_once
from kscheduler.api.kinds import RESOURCE_CLAIMS
from kscheduler.api.meta import KubeObject
from kscheduler.assembly import Assembly
from kscheduler.config.loader import default_configuration
from kscheduler.framework.cluster.claim_writing import ClaimRules, Deallocation, PodReservation, ReservedClaim
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.in_memory.claims import ReadyClaims
from kscheduler.in_memory.cluster import InMemoryCluster
from kscheduler.plugins.in_tree import registry
from tests.builders import make_pod
from tests.plugins.dynamic_resources.stage import allocation, claim

POD = make_pod("p", uid="pod-uid")


class World:
    """An assembly that writes claims at once, and two claims."""

    def __init__(self) -> None:
        self.cluster = InMemoryCluster([RESOURCE_CLAIMS])
        self.claims = ReadyClaims(self.cluster)
        ports = self.cluster.reading_ports(claim_storage=self.claims, claims_at_once=True)
        self.assembly = Assembly(default_configuration(), registry(), ports, VirtualClock())
        self.assembly.listen_to(self.cluster.listeners)
        for name in ("a", "b"):
            self.claims.put(claim(name))

    def reservation(self) -> PodReservation:
        """A device for each claim, as Reserve takes it."""
        found = PodReservation(PodInfo(POD), "n0")
        for name, device in (("a", "gpu-0"), ("b", "gpu-1")):
            known = self.claim(name)
            chosen: Any = claim(allocated=allocation("n0", device)).status.allocation
            pending = replace(known, status=replace(known.status, allocation=chosen))
            self.tracker.signal_pending(known.metadata.uid, pending)
            found.claims.append(ReservedClaim(known, chosen, known.metadata.uid))
        return found

    @property
    def tracker(self) -> Any:
        return self.assembly.cache.devices.claims

    def claim(self, name: str) -> Any:
        return self.tracker.get(f"default/{name}")

    def taken(self) -> list[str]:
        return sorted(each.device for each in self.tracker.allocated_state().devices)


def test_allocations_are_written_and_nothing_is_pending() -> None:
    world = World()
    assert world.assembly.claims is not None
    assert run_at_once(world.assembly.claims.pre_bind(world.reservation(), ClaimRules())).is_success
    assert [user.uid for user in world.claim("a").status.reserved_for] == ["pod-uid"]
    assert world.taken() == ["gpu-0", "gpu-1"]
    assert world.tracker.all_pending() == []


def test_what_was_reserved_is_given_back_where_a_write_fails() -> None:
    """The second claim is gone: the first one stays allocated, and is reserved for nobody, as in the service."""
    world = World()
    writer, reservation = world.assembly.claims, world.reservation()
    assert writer is not None
    world.cluster.remove(RESOURCE_CLAIMS, "default/b")
    status = run_at_once(writer.pre_bind(reservation, ClaimRules()))
    assert "not found" in status.message
    writer.unreserve(reservation)
    assert world.claim("a").status.reserved_for == ()
    assert world.taken() == ["gpu-0"]
    assert world.tracker.all_pending() == []


def test_what_is_only_pending_is_given_back() -> None:
    world = World()
    assert world.assembly.claims is not None
    world.assembly.claims.unreserve(world.reservation())
    assert world.taken() == []


def test_a_claim_is_freed() -> None:
    world = World()
    held: KubeObject = world.claims.put(claim("a", allocated=allocation("n0", "gpu-0")))
    assert world.taken() == ["gpu-0"]
    assert world.assembly.claims is not None
    world.assembly.claims.free(Deallocation(POD, world.claim(held.metadata.name)))
    assert world.taken() == []
