"""Assembling what looks for overfilled nodes: the background services and what `/readyz?verbose` and metrics show."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kscheduler.aio.clock import Clock
from kscheduler.aio.services import BackgroundService
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.overfill.incidents import OverfilledNodes
from kscheduler.scheduling.overfill.overfill_reports import OverfillReporter, summary_of
from kscheduler.scheduling.overfill.repair import OverfillRepair, UnstartedPodEvictor
from kscheduler.scheduling.reports import EventSink
from kscheduler.scheduling.taken_pods import TakenPods
from kscheduler.state.cache import Cache

MOST_NOTES: Final = 10


class OverfillKeeping:
    """Looks for overfilled nodes; repairs them where that is wanted."""

    def __init__(
        self,
        cache: Cache,
        profiles: Collection[str],
        taken: TakenPods,
        events: EventSink,
        evictor: UnstartedPodEvictor | None,
        observations: Observations,
        clock: Clock,
    ) -> None:
        """`profiles`: our scheduler names, as they are now. `evictor`: `None` where nothing is to be repaired."""
        reporter = OverfillReporter(events, observations, next(iter(profiles)))
        self.nodes = OverfilledNodes(cache, profiles, taken, reporter, clock)
        self._taken = taken
        self._repair = None
        if evictor is not None:
            self._repair = OverfillRepair(cache, self.nodes, evictor, reporter, observations, clock)
        self._shown: dict[tuple[str, str], float] = {}

    def begin_scheduling(self) -> None:
        """This process binds pods from now on, and speaks for all replicas."""
        self._taken.is_scheduling = self.nodes.is_reporting = True

    def services_beside_cache(self) -> tuple[BackgroundService, ...]:
        """What runs as soon as the cache is filled, also on a replica that stands by."""
        return (BackgroundService("overfilled nodes", self.nodes.run),)

    def services_beside_workers(self) -> tuple[BackgroundService, ...]:
        """What runs only while pods are scheduled."""
        return () if self._repair is None else (BackgroundService("repair of overfilled nodes", self._repair.run),)

    def notes(self) -> Iterable[str]:
        """Lines for `/readyz?verbose`: the longest incidents first."""
        incidents = sorted(self.nodes.incidents(), key=lambda overfill: overfill.since)
        for overfill in incidents[:MOST_NOTES]:
            yield f"node {overfill.node_name} is overfilled: {summary_of(overfill)}"
        if len(incidents) > MOST_NOTES:
            yield f"{len(incidents) - MOST_NOTES} more resources of nodes are overfilled"

    def counts(self) -> Mapping[tuple[str, str], float]:
        """Overfilled nodes by (resource, cause), for the gauge. What has been there stays at zero."""
        self._shown = {**dict.fromkeys(self._shown, 0.0), **self.nodes.nodes_by_cause()}
        return self._shown
