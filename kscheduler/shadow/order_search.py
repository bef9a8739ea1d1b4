"""Another order of what happened around a binding, in which our decision is the other's.

The other scheduler decided a pod some time before its binding was written. What it knew differs from the view just
before that binding in two ways only:

    bindings        of pods that it had decided before, though they were written later: they counted already
                    of pods that it decided after, though they were written before: they did not count yet
    other changes   that it had not seen yet: the last few, and none from before the pod's creation, which it had seen

Which bindings those are follows from the order of its decisions. A scheduler takes pods by priority and then by
arrival, and that order is known for pods that were never rejected: so this is tried first, with more and more of the
last changes unseen. Then the order of bindings as it is, shifted back and forth. Then single bindings, one after the
other. The search is bounded. What it finds is reported with the number of tries: after many, a match may be
coincidence.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kscheduler.shadow.comparison import Order
from kscheduler.shadow.moves import BoundPod, Move, Rank
from kscheduler.state.cache import Cache, Undo

# Views for one pod.
MAX_TRIES: Final = 800
# The same while searches find nothing: the likeliest orders only.
FEW_TRIES: Final = 16
# Changes that are taken back, one after the other.
MAX_UNSEEN: Final = 600
# Bindings that are taken back, brought forward or exchanged, one after the other.
MAX_STEPS: Final = 32

# Whether we would decide as the other did, in the view as it is now.
Agrees = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class OrderClues:
    """What happened before and after a binding, by which another order is looked for."""

    past: Sequence[Move]
    """Newest first, as far back as views are tried."""
    ahead: Sequence[BoundPod]
    """Bindings that were written after it, oldest first."""
    rank: Rank | None
    """Of the pod itself."""
    seen: int | None = None
    """The version up to which the other had seen changes when it decided the pod before, as far as that is known."""
    most_tries: int = MAX_TRIES


@dataclass(frozen=True, slots=True)
class _Step:
    move: Move
    is_forward: bool = False


# Steps that are taken together before the view is tried.
_Stage = Sequence[_Step]


def find_order(cache: Cache, clues: OrderClues, agrees: Agrees) -> Order | None:
    """The first order that explains it, or `None`. The cache is afterwards as it was."""
    trial = _Trial(cache, agrees, clues.most_tries)
    for stages in _hypotheses(clues):
        order = trial.run(stages)
        if order is not None or trial.tries >= clues.most_tries:
            return order
    return None


class SearchEconomy:
    """How long to look for orders: where another policy decides, nearly every search is in vain.

    A moving average of what searches come to, with about the last fifty of them.
    """

    def __init__(self) -> None:
        self._found = 1.0

    def most_tries(self) -> int:
        """Of the next search."""
        return MAX_TRIES if self._found >= WORTH_WHILE else FEW_TRIES

    def ended(self, *, found: bool) -> None:
        """A search is over."""
        self._found += (found - self._found) / 50


# The share of searches that find an order, from which on each goes to its end.
WORTH_WHILE: Final = 0.1


class _Trial:
    """Views that were tried."""

    def __init__(self, cache: Cache, agrees: Agrees, most_tries: int) -> None:
        self._cache = cache
        self._agrees = agrees
        self._most = most_tries
        self._seen: set[frozenset[int]] = {frozenset()}
        """By what was different in them: each is tried once."""
        self.tries = 0

    def run(self, stages: Sequence[_Stage]) -> Order | None:
        """Try the view after each stage."""
        undos: list[Undo] = []
        taken: list[_Step] = []
        absent: set[str] = set()
        try:
            for stage in stages:
                for step in stage:
                    undo = self._take(step, absent)
                    if undo is not None:
                        undos.append(undo)
                        taken.append(step)
                if self._is_new(taken):
                    if self.tries >= self._most:
                        return None
                    self.tries += 1
                    if self._agrees():
                        return _order_of(taken, self.tries)
            return None
        finally:
            for undo in reversed(undos):
                undo()

    def _take(self, step: _Step, absent: set[str]) -> Undo | None:
        if step.is_forward and isinstance(step.move, BoundPod):
            return step.move.bring_forward(self._cache)
        return step.move.take_back(self._cache, absent)

    def _is_new(self, taken: Sequence[_Step]) -> bool:
        key = frozenset(step.move.change.number for step in taken)
        is_new = key not in self._seen
        self._seen.add(key)
        return is_new


def _order_of(taken: Sequence[_Step], tries: int) -> Order:
    return Order(
        sooner=tuple(step.move.pod.key for step in taken if step.is_forward and isinstance(step.move, BoundPod)),
        later=tuple(step.move.pod.key for step in taken if not step.is_forward and isinstance(step.move, BoundPod)),
        unseen=tuple(step.move.text for step in taken if not isinstance(step.move, BoundPod)),
        tries=tries,
        seen=min((step.move.change.version for step in taken if not isinstance(step.move, BoundPod)), default=None),
    )


# --- hypotheses -------------------------------------------------------------------------------------------------------


def _hypotheses(clues: OrderClues) -> Iterator[Sequence[_Stage]]:
    """The likeliest first."""
    changes = [_Step(move) for move in clues.past if not isinstance(move, BoundPod)]
    one_by_one = [[change] for change in changes[:MAX_UNSEEN]]
    by_queue = _by_queue(clues, by_priority=False)
    yield [by_queue]
    if clues.seen is not None:
        # It saw as much as at the decision before, or a little more: what one has seen is never unseen again.
        unseen = [change for change in changes if change.move.change.version > clues.seen]
        for more in range(min(len(unseen), MAX_STEPS)):
            yield [[*by_queue, *unseen[: len(unseen) - more]]]
    yield [by_queue, *one_by_one]
    yield [_by_queue(clues, by_priority=True), *one_by_one]
    # The order of bindings, as it is: decided some bindings ago ...
    yield [[_Step(move)] for move in clues.past[:MAX_STEPS]]
    # ... or with some of the next ones in flight.
    yield [[_Step(binding, is_forward=True)] for binding in clues.ahead[:MAX_STEPS]]
    for single in _singles(clues):
        others = [step for step in by_queue if step.move is not single.move]
        yield [others if len(others) < len(by_queue) else [*by_queue, single]]


def _by_queue(clues: OrderClues, *, by_priority: bool) -> list[_Step]:
    """The steps to the view that there was, if pods were decided in the order of the queue."""
    later = [
        _Step(move)
        for move in clues.past
        if isinstance(move, BoundPod) and _precedes(clues.rank, move.rank, by_priority=by_priority)
    ]
    sooner = [
        _Step(binding, is_forward=True)
        for binding in clues.ahead
        if _precedes(binding.rank, clues.rank, by_priority=by_priority)
    ]
    return later + sooner


def _precedes(one: Rank | None, other: Rank | None, *, by_priority: bool) -> bool:
    """Whether the queue gave `one` first, against the order of the bindings; false where nobody can know.

    A pod of lower priority that was there before the other may have been taken by the time that one came, or not: the
    order of the bindings stands, unless `by_priority` says that priority decided.
    """
    if one is None or other is None:
        return False
    is_crossed = (one[0] - other[0]) * (one[1] - other[1]) < 0
    return one < other and (by_priority or not is_crossed)


def _singles(clues: OrderClues) -> Iterator[_Step]:
    for move in clues.past[:MAX_STEPS]:
        if isinstance(move, BoundPod):
            yield _Step(move)
    for binding in clues.ahead[:MAX_STEPS]:
        yield _Step(binding, is_forward=True)
