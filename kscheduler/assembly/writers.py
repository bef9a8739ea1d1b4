"""Those who write in the background: evictions and claims. Built before the profiles, whose plugins hold them."""

from collections.abc import Callable, Collection

from kscheduler.aio.clock import Clock
from kscheduler.assembly.ports import Ports
from kscheduler.scheduling.attempt_events import EvictionStep, EvictionStepTaken
from kscheduler.scheduling.claims.claim_commits import ClaimCommits
from kscheduler.scheduling.claims.claim_commits_at_once import ClaimCommitsAtOnce
from kscheduler.scheduling.eviction.evictions import AsyncEvictions, RunningPreemption
from kscheduler.scheduling.eviction.victims import Victims
from kscheduler.scheduling.observers import Observers
from kscheduler.state.cache import Cache
from kscheduler.state.pods_in_pre_bind import PodsInPreBind
from kscheduler.state.waiting_pods import WaitingPodTable

# Wakes pods by their keys.
Activate = Callable[[Collection[str]], None]


def evictions_of(
    ports: Ports,
    cache: Cache,
    waiting: WaitingPodTable,
    in_pre_bind: PodsInPreBind | None,
    observers: Observers,
    activate: Activate,
    retry: Activate,
    clock: Clock,
    carry_out: Callable[[RunningPreemption], None] | None,
) -> AsyncEvictions:
    """Notes preemptions and evicts their victims; with `carry_out` that is called instead of evicting."""
    victims = Victims(
        pods=ports.evictor,
        waiting=waiting,
        in_pre_bind=in_pre_bind,
        pod_of=ports.pod_of,
        observers=observers,
        node_of=cache.node_of,
        clock=clock,
    )
    return AsyncEvictions(victims, cache.nominator, ports.statuses, activate, retry, observers, clock, carry_out)


def claim_commits_of(
    ports: Ports, cache: Cache, observers: Observers, activate: Activate, clock: Clock
) -> ClaimCommits | None:
    """Who writes claims to devices; `None` where they are not written."""
    storage = ports.claim_storage
    if storage is None:
        return None

    def wake(keys: Collection[str]) -> None:
        observers.tell(EvictionStepTaken(0, EvictionStep.WOKEN, keys=keys))
        activate(keys)

    if ports.claims_at_once:
        return ClaimCommitsAtOnce(storage, cache.devices.claims, wake, observers, clock)
    return ClaimCommits(storage, cache.devices.claims, wake, observers, clock)
