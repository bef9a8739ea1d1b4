"""A shadow's report for programs; text and page are made from it, so that all three say the same."""

from typing import Any, Final

import msgspec

from kscheduler.explain.answer import Against
from kscheduler.shadow.follower import Follower
from kscheduler.shadow.placements import Spread, room_of
from kscheduler.shadow.sums import NOMINATIONS
from kscheduler.shadow.verdict import Comparison, DifferenceKind, Order

Tree = dict[str, Any]
MAX_REASONS: Final = 10
MAX_LEFT_PENDING: Final = 20


def shadow_tree(follower: Follower, seconds: float) -> Tree:
    """The report. `seconds`: since the comparisons began."""
    sums, nodes = follower.sums, follower.assembly.cache.nodes
    placed = follower.placements.sums(nodes)
    left = follower.pending.now()
    return {
        "follows": {
            "schedulers": sorted(follower.settings.names),
            "program": follower.settings.followed.name,
            "tiesByChance": follower.settings.followed.ties_by_chance,
            "percentageOfNodesToScore": follower.settings.followed.percentage,
        },
        "config": follower.assembly.config.where or None,
        "hasBegun": follower.begun.is_set(),
        "seconds": round(seconds, 1),
        "compared": sums.judged,
        "differences": sums.real_differences,
        "agreement": sums.agreement,
        "kinds": {kind.value: count for kind, count in sums.by_kind().items()},
        "notCompared": sums.not_evaluated,
        "withoutSearch": sums.without_search,
        "orderTries": sums.order_tries,
        "behindSeconds": round(follower.behind_seconds(), 3),
        "settleSeconds": follower.settings.settle_seconds,
        "reasons": [
            {"kind": each.kind.value, "reason": each.reason, "pods": each.count, "examples": list(each.pods)}
            for each in sums.reasons(MAX_REASONS)
        ],
        "examples": {
            kind.value: [verdict_tree(verdict) for verdict in sums.examples(kind)]
            for kind in DifferenceKind
            if sums.examples(kind)
        },
        "nominations": {ours: sums.nominations[ours] for ours in NOMINATIONS},
        "evictions": {"theirs": sums.their_evictions, "ours": sums.our_evictions},
        "leftPending": {
            "now": len(left),
            "ever": follower.pending.ever,
            "pods": [
                {"pod": each.pod, "node": each.node, "seconds": round(each.seconds)} for each in left[:MAX_LEFT_PENDING]
            ],
        },
        "room": {
            name: {"allocatable": room.allocatable, "requested": room.requested}
            for name, room in room_of(nodes).items()
        },
        "placements": {
            "pods": placed.pods,
            "leftOut": placed.left_out,
            "elsewhere": placed.elsewhere,
            "unplaced": placed.unplaced,
            "theirs": _spread_tree(placed.theirs),
            "ours": _spread_tree(placed.ours),
        },
    }


def verdict_tree(verdict: Comparison) -> Tree:
    compared = verdict.compared
    return {
        "pod": verdict.pod,
        "uid": verdict.uid,
        "scheduler": verdict.scheduler,
        "kind": verdict.kind.value,
        "theirs": verdict.theirs,
        "ours": verdict.ours or None,
        "reason": verdict.reason or None,
        "message": verdict.message or None,
        "order": None if verdict.order is None else _order_tree(verdict.order),
        "searched": verdict.was_searched,
        "against": msgspec.to_builtins(compared) if isinstance(compared, Against) else None,
    }


def _order_tree(order: Order) -> Tree:
    return {
        "sooner": list(order.sooner),
        "later": list(order.later),
        "unseen": list(order.unseen),
        "tries": order.tries,
        "text": order.text,
    }


def _spread_tree(spread: Spread) -> Tree:
    return {"nodesUsed": spread.nodes_used, "zoneSkew": spread.zone_skew, "podsByZone": dict(spread.by_zone)}


def shadow_json(tree: Tree) -> bytes:
    """The tree as one line of JSON."""
    return msgspec.json.encode(tree)
