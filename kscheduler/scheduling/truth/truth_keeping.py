"""Assembling the checks and the dump: their background services, their statistics, and what SIGUSR2 requests."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import quote

from kscheduler.aio.clock import Clock
from kscheduler.aio.services import BackgroundService
from kscheduler.api.codec import Decoder
from kscheduler.api.core import Pod
from kscheduler.api.kinds import NODES, PODS, Kind
from kscheduler.client.rest import APIClient
from kscheduler.informers import InformerFactory
from kscheduler.informers.audit import AUDIT_SECONDS, StoreAudit, StoreAudits
from kscheduler.scheduling.handlers.event_handlers import NodeHandler, PodHandler
from kscheduler.scheduling.journal import NO_JOURNAL, Journal
from kscheduler.scheduling.truth.dump import Dump
from kscheduler.scheduling.truth.truth import Comparer, Mender, Sides
from kscheduler.scheduling.truth.truth_check import CHECK_SECONDS, TruthCheck
from kscheduler.state.cache import Cache
from kscheduler.state.queue.scheduling_queue import SchedulingQueue

RELIST_REASON: Final = "drift"
READ_SECONDS: Final = 5.0
_pods: Final[Decoder[Pod]] = Decoder(Pod)


@dataclass(frozen=True, slots=True)
class Periods:
    """The periods of the checks in seconds; 0: only on request."""

    cache_check: float = CHECK_SECONDS
    """Cache and queue against the stores: CPU only, about one percent of a core at 100,000 pods."""
    store_audit: float = AUDIT_SECONDS
    """Stores against the API server: a LIST of metadata, of pods and of nodes."""


class TruthKeeping:
    """Both checks and the dump."""

    def __init__(
        self,
        informers: InformerFactory,
        cache: Cache,
        queue: SchedulingQueue,
        profiles: Collection[str],
        handlers: tuple[PodHandler, NodeHandler],
        client: APIClient,
        clock: Clock,
        periods: Periods,
        journal: Journal = NO_JOURNAL,
    ) -> None:
        """`handlers`: the informers' handlers, through which objects are replayed."""
        pods, nodes = informers.informer(PODS), informers.informer(NODES)

        def audit_of(kind: Kind) -> StoreAudit:
            return StoreAudit(client, informers.informer(kind), lambda: informers.relist(kind, RELIST_REASON), clock)

        self.audits = StoreAudits((audit_of(NODES), audit_of(PODS)), clock, period_seconds=periods.store_audit)
        sides = Sides(pods.store, nodes.store, cache, queue, profiles)
        mender = Mender(sides, *handlers, clock, self.audits.ask, journal, partial(_read_pod, client))
        self.check = TruthCheck(Comparer(sides, clock), mender, clock, period_seconds=periods.cache_check)
        self.dump = Dump(cache, queue, pods.store, then=self.check.ask)

    def services(self) -> tuple[BackgroundService, ...]:
        """The background services, which run in parallel with the workers."""
        return (
            BackgroundService("cache-check", self.check.run),
            BackgroundService("binding-confirmation", self.check.keep_confirming),
            BackgroundService("store-audit", self.audits.run),
            BackgroundService("dump", self.dump.run),
        )


async def _read_pod(client: APIClient, namespace: str, name: str) -> Pod:
    path = PODS.object_path(quote(name, safe=""), quote(namespace, safe=""))
    return _pods.decode(await client.get(path, retries=0, timeout_seconds=READ_SECONDS))
