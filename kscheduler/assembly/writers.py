"""Those who write beside the cycles: evictions and claims. Built before the profiles, whose plugins hold them."""

from collections.abc import Callable, Collection

from kscheduler.aio.clock import Clock
from kscheduler.assembly.ports import Ports
from kscheduler.scheduling.claims.claim_commits import ClaimCommits, ClaimPorts
from kscheduler.scheduling.eviction.evictions import AsyncEvictions, EvictionPorts
from kscheduler.scheduling.eviction.victims import Victims
from kscheduler.scheduling.journal import EvictionStep
from kscheduler.scheduling.reports import Reporter
from kscheduler.state.cache import Cache
from kscheduler.state.holding.pods_in_pre_bind import PodsInPreBind
from kscheduler.state.holding.waiting_pods import WaitingPodTable

Activate = Callable[[Collection[str]], None]
"""Wakes pods by their keys."""


def evictions_of(
    ports: Ports,
    cache: Cache,
    waiting: WaitingPodTable,
    in_pre_bind: PodsInPreBind | None,
    reporter: Reporter,
    activate: Activate,
    ask_again: Activate,
    clock: Clock,
) -> AsyncEvictions:
    """Who deletes the victims of preemptions."""
    victims = Victims(
        pods=ports.evictor,
        waiting=waiting,
        in_pre_bind=in_pre_bind,
        pod_of=ports.pod_of,
        reporter=reporter,
        node_of=cache.node_of,
        log=ports.log,
        clock=clock,
    )
    return AsyncEvictions(
        EvictionPorts(
            victims=victims,
            nominator=cache.nominator,
            statuses=ports.statuses,
            activate=activate,
            ask_again=ask_again,
            observations=ports.observations,
            clock=clock,
            journal=ports.journal,
            recent=ports.log.recent,
        )
    )


def claim_commits_of(
    ports: Ports, cache: Cache, reporter: Reporter, activate: Activate, clock: Clock
) -> ClaimCommits | None:
    """Who writes claims to devices; `None` where they are not written."""
    storage, journal = ports.claim_storage, ports.journal
    if storage is None:
        return None

    def wake(keys: Collection[str]) -> None:
        journal.evicting(0, EvictionStep.WOKEN, keys=keys)
        activate(keys)

    return ClaimCommits(
        ClaimPorts(
            storage=storage,
            claims=cache.devices.claims,
            journal=ports.journal,
            reporter=reporter,
            activate=wake,
            observations=ports.observations,
            clock=clock,
        )
    )
