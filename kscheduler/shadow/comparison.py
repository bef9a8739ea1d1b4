"""What a comparison of two choices for one pod can come to, and how it is decided. Pure.

The other scheduler took node T, we would take node U:

    unknown rule      something decides this pod that a shadow does not play: an extender, its pod group, claims that
                      were bound before it
    same              T is U
    order             T is U, if bindings that were in flight meanwhile are counted in another order; the order is told
    tie               T has as many points as U: the other takes any of the best by chance
    sampled           T has fewer points, but the other looks at a sample of the nodes, which may have lacked the better
    different score   T has fewer points, and no sample can be the reason
    not feasible      T is rejected by our filters

The first three that apply win, in the order above, but for a tie of a scheduler that ties by chance: that needs no
order to explain it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

# kube-scheduler looks for at least so many nodes that fit.
FEWEST_SAMPLED: Final = 100


class DifferenceKind(StrEnum):
    """What came of a comparison; values of labels."""

    SAME = "same"
    ORDER = "order"
    TIE = "tie"
    SAMPLED = "sampled"
    DIFFERENT_SCORE = "different score"
    NOT_FEASIBLE = "not feasible"
    UNKNOWN_RULE = "unknown rule"


@dataclass(frozen=True, slots=True)
class FollowedScheduler:
    """How the other scheduler chooses, apart from filters and points."""

    name: str
    """`kube-scheduler` or `kscheduler`, for the report."""
    ties_by_chance: bool
    """Whether it takes any of the nodes with the most points; kscheduler's rule is fixed."""
    percentage: int | None
    """Its `percentageOfNodesToScore`: 0 adapts to the number of nodes, `None`: it scores every node."""

    @property
    def excused(self) -> frozenset[DifferenceKind]:
        """The kinds that this scheduler shows even where rules and configuration are equal to ours."""
        kinds = {DifferenceKind.SAME, DifferenceKind.ORDER}
        if self.ties_by_chance:
            kinds.add(DifferenceKind.TIE)
        if self.percentage is not None:
            kinds.add(DifferenceKind.SAMPLED)
        return frozenset(kinds)


KUBE_SCHEDULER: Final = FollowedScheduler("kube-scheduler", ties_by_chance=True, percentage=0)
KSCHEDULER: Final = FollowedScheduler("kscheduler", ties_by_chance=False, percentage=None)


def sample_size(percentage: int, nodes: int) -> int:
    """How many nodes that fit kube-scheduler looks for, out of `nodes`; `nodes` where it looks at them all.

    Where the percentage is 0 it is 50 less one for each 125 nodes, and 5 at least; of 100 nodes or fewer, all.
    """
    share = percentage or max(5, 50 - nodes // 125)
    return min(nodes, max(FEWEST_SAMPLED, nodes * share // 100))


@dataclass(frozen=True, slots=True)
class Order:
    """A view in which our decision is the other's: which bindings must count in another order than they came."""

    sooner: tuple[str, ...] = ()
    """Pods that were bound after this one and must count already: their bindings were in flight."""
    later: tuple[str, ...] = ()
    """Pods that were bound before this one and must not count yet: they were decided after it, and bound faster."""
    unseen: tuple[str, ...] = ()
    """Other changes that must not be seen yet: `deletion of shop/web-1`."""
    seen: int | None = None
    """The version of the oldest change that must not be seen; `None`: all are."""
    tries: int = 0
    """How many views were tried until this one: the more, the more may chance explain."""

    @property
    def text(self) -> str:
        """In words, at most three names of each kind."""
        parts = [
            f"{label} {_some(names)}"
            for label, names in (("already decided:", self.sooner), ("not yet:", self.later), ("unseen:", self.unseen))
            if names
        ]
        return "; ".join(parts)


def _some(names: Sequence[str]) -> str:
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of both choices in the view before the binding, if they are not the same."""

    is_feasible: bool
    """Whether the other's node passes our filters."""
    behind: int = 0
    """By how many points it is behind our best node; only for a feasible one."""
    feasible: int = 0
    """How many nodes pass our filters."""
    better: int = 0
    """How many of them have more points than the other's node."""
    searched: int = 0
    """How many nodes there are to look at: all, or those that the pod's own rules name."""


def kind_of(facts: Facts, followed: FollowedScheduler, order: Order | None = None) -> DifferenceKind:
    """The kind of a comparison whose nodes differ in the view before the binding."""
    is_tie = facts.is_feasible and facts.behind <= 0
    if is_tie and followed.ties_by_chance:
        return DifferenceKind.TIE
    if order is not None:
        return DifferenceKind.ORDER
    if is_tie:
        return DifferenceKind.TIE
    if not facts.is_feasible:
        return DifferenceKind.NOT_FEASIBLE
    return DifferenceKind.SAMPLED if _may_be_sampled(facts, followed) else DifferenceKind.DIFFERENT_SCORE


def _may_be_sampled(facts: Facts, followed: FollowedScheduler) -> bool:
    """Whether a sample can be without each node that is better: so many others must fit that they fill it."""
    if followed.percentage is None:
        return False
    size = sample_size(followed.percentage, facts.searched)
    return facts.feasible - facts.better >= size < facts.searched


class Compared(Protocol):
    """The other's node beside ours: `explain.answer.Against`."""

    @property
    def problem(self) -> str | None:
        """Why they cannot be compared."""
        ...

    @property
    def status(self) -> Any:
        """Why the node was rejected, with `plugin`, `code` and `reasons`; `None`: the pod fits there."""
        ...

    @property
    def points(self) -> Sequence[Any]:
        """By plugin; each has `plugin`, `weight`, `chosen` (ours) and `other` (theirs)."""
        ...


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison."""

    pod: str
    uid: str
    scheduler: str
    theirs: str
    """The node that the other took."""
    ours: str
    """The node that we would take in the view before the binding; empty: none."""
    kind: DifferenceKind
    reason: str = ""
    """Why, in a few words without names of pods and nodes, so that equal reasons can be counted; empty if the same."""
    message: str = ""
    """Where we have no node: the text of the condition that we would write."""
    order: Order | None = None
    compared: Compared | None = None
    """`None` where nothing was compared."""
    was_searched: bool = True
    """Whether an order was looked for to the end, where one was needed."""


def reason_of(kind: DifferenceKind, compared: Compared | None) -> str:
    """The reason of a difference in score or feasibility, the same words for the same reason."""
    if compared is None:
        return ""
    if compared.status is not None:
        reasons = ", ".join(compared.status.reasons) or compared.status.code
        return f"{compared.status.plugin or 'PreFilter'}: {reasons}"
    if compared.points and kind in (DifferenceKind.DIFFERENT_SCORE, DifferenceKind.SAMPLED):
        most = max(compared.points, key=lambda each: (each.chosen - each.other, each.plugin))
        return f"{most.plugin} gives our node more points"
    return compared.problem or ""
