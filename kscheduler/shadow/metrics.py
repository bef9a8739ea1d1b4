"""Series of a shadow (`kscheduler shadow`): comparisons by kind, pods left pending, how far it is behind."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kscheduler.shadow.comparison import DifferenceKind
from kscheduler.shadow.follower import Follower
from kscheduler.shadow.placements import PlacementSums
from kscheduler.shadow.sums import NOMINATIONS
from kscheduler.telemetry.samples import Numbers, Sample, Source, gauge
from kscheduler.telemetry.series import LabelValues, MetricSeries

COMPARISONS = MetricSeries(
    "kscheduler_shadow_comparisons_total",
    "Bindings of the other scheduler that were compared with our own decision, by what came of it.",
    ("kind", "scheduler"),
)
DIFFERENCES = MetricSeries(
    "kscheduler_shadow_differences_total",
    "Comparisons in which we choose another node, and no tie, sample or order of bindings explains it.",
)
WITHOUT_SEARCH = MetricSeries(
    "kscheduler_shadow_differences_without_search_total",
    "Differences for which the search for an order was cut short: earlier searches found none, or time was up.",
)
NOT_EVALUATED = MetricSeries(
    "kscheduler_shadow_pods_not_compared_total",
    "Pods that were first seen on a node: created with one, or bound while the watch was interrupted.",
)
PREEMPTIONS = MetricSeries(
    "kscheduler_shadow_nominations_total",
    "Nominations of the other scheduler, by what we would have done with the pod.",
    ("ours",),
)
EVICTIONS = MetricSeries(
    "kscheduler_shadow_evictions_total",
    "Pods that the other scheduler has preempted (theirs), and that we would have for the same nominations (ours).",
    ("whose",),
)
LEFT_PENDING = MetricSeries(
    "kscheduler_shadow_left_pending_pods",
    "Pods that the other scheduler has left pending for the grace period, though we would place them.",
)
LEFT_PENDING_EVER = MetricSeries(
    "kscheduler_shadow_left_pending_pods_total", "Pods counted in kscheduler_shadow_left_pending_pods since the start."
)
BEHIND = MetricSeries("kscheduler_shadow_behind_seconds", "How long the oldest buffered change has been overdue.")
WAITING = MetricSeries("kscheduler_shadow_changes_waiting", "Buffered changes, waiting to be ordered.")
ELSEWHERE = MetricSeries(
    "kscheduler_shadow_pods_elsewhere", "Running compared pods that we would have put on another node."
)
NODES_USED = MetricSeries(
    "kscheduler_shadow_nodes_used", "Nodes that compared pods use: as they are, and by our choices.", ("whose",)
)
ZONE_SKEW = MetricSeries(
    "kscheduler_shadow_zone_skew_pods",
    "Compared pods in the fullest zone less those in the emptiest: as they are, and by our choices.",
    ("whose",),
)


@dataclass(slots=True)
class _Kept:
    """The sums over all pods, which are worked out at most once in `_SUMS_SECONDS`."""

    sums: PlacementSums
    at: float


_SUMS_SECONDS = 10.0


def shadow_source(follower: Follower, monotonic: Callable[[], float]) -> Source:
    """The numbers of a follower."""
    kept: _Kept | None = None

    def placed() -> PlacementSums:
        nonlocal kept
        now = monotonic()
        if kept is None or now >= kept.at + _SUMS_SECONDS:
            kept = _Kept(follower.placements.sums(follower.assembly.cache.nodes), now)
        return kept.sums

    def copy() -> Iterable[Sample]:
        sums, left, places = follower.sums, follower.pending.statistics(), placed()
        names = sorted(follower.settings.names)
        counts: dict[LabelValues, float] = {
            (kind.value, name): sums.counts[kind, name] for kind in DifferenceKind for name in names
        }
        return [
            Numbers("counter", COMPARISONS, counts),
            Numbers("counter", DIFFERENCES, {(): sums.real_differences}),
            Numbers("counter", WITHOUT_SEARCH, {(): sums.without_search}),
            Numbers("counter", NOT_EVALUATED, {(): sums.not_evaluated}),
            Numbers("counter", PREEMPTIONS, {(ours,): sums.nominations[ours] for ours in NOMINATIONS}),
            Numbers("counter", EVICTIONS, {("theirs",): sums.their_evictions, ("ours",): sums.our_evictions}),
            gauge(LEFT_PENDING, {(): left["now"]}),
            Numbers("counter", LEFT_PENDING_EVER, {(): left["ever"]}),
            gauge(BEHIND, {(): follower.behind_seconds()}),
            gauge(WAITING, {(): len(follower.change_buffer)}),
            gauge(ELSEWHERE, {(): places.elsewhere}),
            gauge(NODES_USED, {("theirs",): places.theirs.nodes_used, ("ours",): places.ours.nodes_used}),
            gauge(ZONE_SKEW, {("theirs",): places.theirs.zone_skew, ("ours",): places.ours.zone_skew}),
        ]

    return copy
