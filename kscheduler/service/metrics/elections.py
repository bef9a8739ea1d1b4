"""Series about the election, under the names that all Kubernetes components give them, and some of our own."""

from collections.abc import Callable, Iterable

from kscheduler.election import ElectionStatistics, Role
from kscheduler.telemetry.samples import Numbers, Sample, Source, gauge
from kscheduler.telemetry.series import MetricSeries

MASTER = MetricSeries(
    "leader_election_master_status",
    "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. "
    "'name' is the string used to identify the lease. Please make sure to group by name.",
    ("name",),
)
SLOW_PATH = MetricSeries(
    "leader_election_slowpath_total",
    "Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the lease. "
    "Please make sure to group by name.",
    ("name",),
)
SINCE_RENEWAL = MetricSeries(
    "kscheduler_leader_election_renewal_age_seconds",
    "Seconds since this process, which leads, has sent its last successful renewal. At renewDeadline its term ends.",
    ("name",),
)
TRANSITIONS = MetricSeries(
    "kscheduler_leader_election_transitions",
    "How often the lease has changed hands, according to the lease.",
    ("name",),
)
FENCED = MetricSeries("kscheduler_fenced_writes_total", "Writes blocked because the process does not hold the lease.")


def election_source(statistics: Callable[[], ElectionStatistics]) -> Source:
    """What is known of the election."""

    def copy() -> Iterable[Sample]:
        found = statistics()
        name, leads = (found.name,), found.role is Role.LEADING
        renewed, slow = found.renewed_seconds_ago, found.slow_renewals
        return [
            gauge(MASTER, {name: float(leads)}),
            gauge(TRANSITIONS, {name: found.transitions}),
            gauge(SINCE_RENEWAL, {name: renewed} if leads and renewed is not None else {}),
            Numbers("counter", FENCED, {(): found.refused_writes}),
            Numbers("counter", SLOW_PATH, {name: slow} if slow else {}),  # upstream's appears with its first value too
        ]

    return copy
