"""The scheduler that is measured: the service's assembly with a stand-in for the cluster.

Metrics, records, classes of pods, conditions and preemption are on, as in the service. Left out are the parts that talk
to a network: the client, the workers that only wait for it, and the sending of Events.
"""

from collections.abc import Sequence
from typing import Any, Final

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.api.kinds import POD_DISRUPTION_BUDGETS, WORKLOAD_KINDS
from kscheduler.assembly import Assembly, Ports
from kscheduler.config.feature_gates import DEFAULT_GATES, FeatureGates
from kscheduler.loading import ConfigurationReader
from kscheduler.scheduling.eviction.disruption_budgets import StoredBudgets
from kscheduler.scheduling.failures.status_writer import StatusWriter
from kscheduler.scheduling.groups.group_status_writer import GroupStatusWriter
from kscheduler.scheduling.handlers.workloads import StoredWorkloads
from kscheduler.scheduling.journal import NO_JOURNAL, Journal
from kscheduler.scheduling.reports import EventSink
from kscheduler.simulation.scenarios.claims import StandInClaims
from kscheduler.simulation.scenarios.cluster import StandIn

SCHEDULER_NAME: Final = "kscheduler"


class CountedEvents:
    """Counts Events without building or sending them. Implements `EventSink`."""

    def __init__(self) -> None:
        self.count = 0

    def record(self, *_: Any, **__: Any) -> None:
        """Count an Event."""
        self.count += 1


class ServiceInProcess(Assembly):
    """A scheduler without a network; only the tasks that write conditions run on their own."""

    def __init__(
        self,
        cluster: StandIn,
        *,
        clock: Clock = REAL_CLOCK,
        events: EventSink | None = None,
        plugins: Sequence[str] = (),
        gates: FeatureGates = DEFAULT_GATES,
        journal: Journal = NO_JOURNAL,
    ) -> None:
        """`events`: where Events are recorded; by default they are counted. `plugins`: as of `--plugin`.

        `gates` may be of another version of Kubernetes, whose rules are followed then. Raises `ConfigError` for plugins
        that cannot be used.
        """
        self.cluster = cluster
        self.events = CountedEvents() if events is None else events
        self.status_writer = StatusWriter(cluster, self.events, cluster.pod_of, clock=clock)
        configured = ConfigurationReader(gates, plugins).default(SCHEDULER_NAME)
        self.group_writer = GroupStatusWriter(cluster, clock)
        super().__init__(configured.config, configured.registry, self._cluster_ports(journal), clock)
        self.listen_to(cluster.informers)

    def _cluster_ports(self, journal: Journal) -> Ports:
        cluster = self.cluster
        return Ports(
            binder=cluster,
            evictor=cluster,
            statuses=self.status_writer,
            group_statuses=self.group_writer,
            events=self.events,
            volume_writer=cluster,
            claim_storage=StandInClaims(cluster),
            pod_of=cluster.pod_of,
            workloads=StoredWorkloads(*(cluster.informers[kind].store for kind in WORKLOAD_KINDS)),
            budgets=StoredBudgets(cluster.informers[POD_DISRUPTION_BUDGETS].store),
            journal=journal,
        )
