"""What a shadow has seen, in numbers and examples. Every table is bounded."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kscheduler.bounded import RecentlyUsed
from kscheduler.shadow.comparison import Comparison, DifferenceKind, FollowedScheduler

# Of each kind, the newest.
MAX_EXAMPLES: Final = 20
# The reasons that have come up last. Plugins and their words are few, but plugins of users may say anything.
MAX_REASONS: Final = 500
# Pods that a reason names.
MAX_NAMES: Final = 3


@dataclass(slots=True)
class ReasonCount:
    """How often a reason came up."""

    kind: DifferenceKind
    reason: str
    count: int = 0
    pods: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_NAMES))
    """The newest."""


class Sums:
    """Counts and examples since the start."""

    def __init__(self, followed: FollowedScheduler) -> None:
        self.followed = followed
        self.counts: Counter[tuple[DifferenceKind, str]] = Counter()
        """By kind and scheduler name, which are those that are followed."""
        self.without_search = 0
        """Differences for which an order was not looked for to the end: searches found none, or there was no time."""
        self.nominations: Counter[str] = Counter()
        """What we would have done where the other nominated a pod: a closed set of words (`NOMINATIONS`)."""
        self.their_evictions = self.our_evictions = 0
        self.not_evaluated = 0
        """Pods that were seen on a node without having been seen before: after a gap in the watch."""
        self.order_tries = 0
        self._examples: dict[DifferenceKind, deque[Comparison]] = {}
        self._reasons: RecentlyUsed[tuple[DifferenceKind, str], ReasonCount] = RecentlyUsed(MAX_REASONS)

    def add(self, comparison: Comparison) -> None:
        """Count a comparison."""
        kind = comparison.kind
        self.counts[kind, comparison.scheduler] += 1
        if kind is DifferenceKind.SAME:
            return
        self.without_search += not comparison.was_searched
        self.order_tries += comparison.order.tries if comparison.order is not None else 0
        self._examples.setdefault(kind, deque(maxlen=MAX_EXAMPLES)).append(comparison)
        if comparison.reason:
            key = kind, comparison.reason
            count = self._reasons.use(key) or ReasonCount(*key)
            count.count += 1
            count.pods.append(comparison.pod)
            self._reasons.put(key, count)

    # --- reading ------------------------------------------------------------------------------------------------------

    def by_kind(self) -> Mapping[DifferenceKind, int]:
        """Comparisons by kind, each kind present."""
        found = dict.fromkeys(DifferenceKind, 0)
        for (kind, _), count in self.counts.items():
            found[kind] += count
        return found

    @property
    def judged(self) -> int:
        return sum(self.counts.values())

    @property
    def real_differences(self) -> int:
        """Those that the other would not show if its rules and configuration were ours."""
        excused = self.followed.excused
        return sum(count for kind, count in self.by_kind().items() if kind not in excused and kind in REAL)

    @property
    def agreement(self) -> float | None:
        """The share of comparisons without a real difference; those of unknown rules count for neither side."""
        known = self.judged - self.by_kind()[DifferenceKind.UNKNOWN_RULE]
        return 1.0 - self.real_differences / known if known else None

    def examples(self, kind: DifferenceKind) -> Sequence[Comparison]:
        """The newest of a kind, the newest last."""
        return tuple(self._examples.get(kind, ()))

    def reasons(self, most: int) -> Sequence[ReasonCount]:
        """The most frequent reasons, in descending order."""
        return sorted(self._reasons.values(), key=lambda each: (-each.count, each.reason))[:most]


# What can be a difference of rules: an unknown one says nothing.
REAL: Final = frozenset(DifferenceKind) - {DifferenceKind.SAME, DifferenceKind.UNKNOWN_RULE}
# Where we would have nominated a pod that the other nominated; or placed it without a preemption; or neither.
NOMINATIONS: Final = ("same node", "another node", "placed at once", "no node")
