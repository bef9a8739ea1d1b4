"""A shadow's report, as typed values: JSON is their encoding, and text and page render them."""

from typing import Final

from kscheduler.answers import Answer, EmulationVersion, Names, ResourceCapacity
from kscheduler.explain.answer import Against
from kscheduler.scenario.capacity import capacity_of, pod_capacity_of
from kscheduler.shadow.comparison import Comparison, DifferenceKind, Order
from kscheduler.shadow.follower import Follower
from kscheduler.shadow.placements import Spread
from kscheduler.shadow.sums import NOMINATIONS

MAX_REASONS: Final = 10
MAX_LEFT_PENDING: Final = 20


class FollowedAnswer(Answer, frozen=True):
    """Who is followed."""

    schedulers: Names
    program: str
    ties_by_chance: bool
    percentage_of_nodes_to_score: int | None


class ShadowReason(Answer, frozen=True):
    """Pods that would have gone elsewhere for one reason."""

    kind: str
    reason: str
    pods: int
    examples: Names


class OrderAnswer(Answer, frozen=True):
    """An order of bindings in flight that explains a difference."""

    sooner: Names
    later: Names
    unseen: Names
    tries: int
    text: str


class ShadowExample(Answer, frozen=True, kw_only=True):
    """A binding, and what the shadow would have done."""

    pod: str
    uid: str
    scheduler: str
    kind: str
    theirs: str
    ours: str | None
    reason: str | None
    message: str | None
    order: OrderAnswer | None
    searched: bool
    against: Against | None


class EvictionCounts(Answer, frozen=True):
    """Pods that were evicted."""

    theirs: int
    ours: int


class LeftPendingPod(Answer, frozen=True):
    """A pod that the shadow would place."""

    pod: str
    node: str
    seconds: int


class LeftPendingAnswer(Answer, frozen=True):
    """Pods that the followed scheduler leaves pending."""

    now: int
    ever: int
    pods: tuple[LeftPendingPod, ...]


class SpreadAnswer(Answer, frozen=True):
    """How pods are spread."""

    nodes_used: int
    zone_skew: int
    pods_by_zone: dict[str, int]


class PlacementCounts(Answer, frozen=True):
    """The compared pods that run."""

    pods: int
    left_out: int
    elsewhere: int
    unplaced: int
    theirs: SpreadAnswer
    ours: SpreadAnswer


class ShadowReport(Answer, frozen=True, kw_only=True):
    """What a shadow has compared so far."""

    follows: FollowedAnswer
    config: str | None
    emulation_version: EmulationVersion
    has_begun: bool
    seconds: float
    """Since the comparisons began."""
    compared: int
    differences: int
    agreement: float | None
    kinds: dict[str, int]
    not_compared: int
    without_search: int
    order_tries: int
    behind_seconds: float
    settle_seconds: float
    reasons: tuple[ShadowReason, ...]
    examples: dict[str, tuple[ShadowExample, ...]]
    nominations: dict[str, int]
    evictions: EvictionCounts
    left_pending: LeftPendingAnswer
    room: dict[str, ResourceCapacity]
    placements: PlacementCounts


def shadow_report(follower: Follower, seconds: float) -> ShadowReport:
    """The report. `seconds`: since the comparisons began."""
    sums, nodes, settings = follower.sums, follower.assembly.cache.nodes, follower.settings
    placed = follower.placements.sums(nodes)
    left = follower.pending.now()
    return ShadowReport(
        follows=FollowedAnswer(
            schedulers=tuple(sorted(settings.names)),
            program=settings.followed.name,
            ties_by_chance=settings.followed.ties_by_chance,
            percentage_of_nodes_to_score=settings.followed.percentage,
        ),
        config=follower.assembly.config.where or None,
        emulation_version=follower.assembly.config.gates.version,
        has_begun=follower.begun.is_set(),
        seconds=round(seconds, 1),
        compared=sums.judged,
        differences=sums.real_differences,
        agreement=sums.agreement,
        kinds={kind.value: count for kind, count in sums.by_kind().items()},
        not_compared=sums.not_evaluated,
        without_search=sums.without_search,
        order_tries=sums.order_tries,
        behind_seconds=round(follower.behind_seconds(), 3),
        settle_seconds=settings.settle_seconds,
        reasons=tuple(
            ShadowReason(each.kind.value, each.reason, each.count, tuple(each.pods))
            for each in sums.reasons(MAX_REASONS)
        ),
        examples={
            kind.value: tuple(map(_example, examples)) for kind in DifferenceKind if (examples := sums.examples(kind))
        },
        nominations={ours: sums.nominations[ours] for ours in NOMINATIONS},
        evictions=EvictionCounts(sums.their_evictions, sums.our_evictions),
        left_pending=LeftPendingAnswer(
            now=len(left),
            ever=follower.pending.ever,
            pods=tuple(LeftPendingPod(each.pod, each.node, round(each.seconds)) for each in left[:MAX_LEFT_PENDING]),
        ),
        room={**capacity_of(nodes, nodes.rows()), "pods": pod_capacity_of(nodes, nodes.rows())},
        placements=PlacementCounts(
            pods=placed.pods,
            left_out=placed.left_out,
            elsewhere=placed.elsewhere,
            unplaced=placed.unplaced,
            theirs=_spread(placed.theirs),
            ours=_spread(placed.ours),
        ),
    )


def _example(comparison: Comparison) -> ShadowExample:
    compared = comparison.compared
    return ShadowExample(
        pod=comparison.pod,
        uid=comparison.uid,
        scheduler=comparison.scheduler,
        kind=comparison.kind.value,
        theirs=comparison.theirs,
        ours=comparison.ours or None,
        reason=comparison.reason or None,
        message=comparison.message or None,
        order=None if comparison.order is None else _order(comparison.order),
        searched=comparison.was_searched,
        against=compared if isinstance(compared, Against) else None,
    )


def _order(order: Order) -> OrderAnswer:
    return OrderAnswer(tuple(order.sooner), tuple(order.later), tuple(order.unseen), order.tries, order.text)


def _spread(spread: Spread) -> SpreadAnswer:
    return SpreadAnswer(spread.nodes_used, spread.zone_skew, dict(spread.by_zone))
