"""How many requests the workers keep on the wire.

Too few leave the API server idle; too many queue up inside it, and a decision taken early is a decision taken on old
state. So the limit follows what the server does, round by round (a round is as many answers as there are places):

    answers come within a quarter of a second        one more, if all places were in use; a quarter more, to begin with
    later, and more places would bring a good deal   the same
    later, and they would bring next to nothing      a quarter fewer: what is on the wire only waits inside the server
    429                                              half

A short queue inside the server is wanted: it hides our own pauses, and with many answers at a time each costs less.
What more places bring is found out by trying: every so often a round is played with a quarter of them, and its median
answer is compared with that of the rounds after it. (What four times the places bring is four, over how many times
longer the answers take.) The fastest answer ever seen would be no measure: it dates from when nothing else was going
on, and a server that is slow for reasons of its own is not helped by our sending less. Medians, so that a few binds
that hang in a webhook are not taken for the server; and a round with few places counts only what began in it, so that
binds that hang since before do not take those places.

Additive increase, multiplicative decrease; pure arithmetic, so it is tested without a server.
"""

from dataclasses import dataclass
from statistics import median
from typing import Final

UNNOTICED_SECONDS: Final = 0.25
"""A queue this long harms nobody."""
_SLOW: Final = 3.5
"""Answers take this many times the calm one's: four times the places bring a seventh more, or less."""
_BRISK: Final = 3.0
"""Up to this many times the calm answer four times the places bring a third more: there is room for more."""
_FIRST_GROWTH: Final = 1.25
_CUT: Final = 0.75
_CALM_SHARE: Final = 4
_CALM_ANSWERS: Final = 8
"""At least so many answers tell how long a calm one takes, when few are on the wire."""
_ROUNDS: Final = 12
"""Rounds until that is asked again; it costs about two rounds with a quarter of the places."""
LEAST_BY_LATENCY: Final = 8
"""Slowness alone takes no more: the server is as busy with eight as with one, and each wake-up here does less."""


@dataclass(frozen=True, slots=True)
class ConcurrencyStatistics:
    """A snapshot."""

    limit: int
    in_use: int


class AdaptiveLimit:
    """A number of places that grows and shrinks."""

    def __init__(self, start: int, most: int) -> None:
        self._limit = float(start)
        self._places = start
        """How many there are at this moment."""
        self._most = float(max(start, most))
        self._least = float(min(start, LEAST_BY_LATENCY))
        self._in_use = 0
        self._since_cut = 0
        self._is_new = True
        """Nothing has ever been too much: it grows by a quarter a round."""
        self._calm_seconds = 0.0
        self._is_calm = False
        """A round with few places is being played."""
        self._rounds = 0
        """Rounds for which the calm answer's time is still believed."""
        self.period = 0
        """Moves when a round with few places begins: whoever begins is told, and says so again at the end."""
        self._earlier = 0
        """How many that began before this period still have their places."""
        self._settling = 0
        """Answers in this period until what was sent before it no longer keeps the server busy."""
        self._answers: list[float] = []
        self._was_full = False

    def statistics(self) -> ConcurrencyStatistics:
        """How many places there are, and how many are taken."""
        return ConcurrencyStatistics(int(self._limit), self._in_use)

    def has_room(self) -> bool:
        """Whether another request may start."""
        return self._in_use - (self._earlier if self._is_calm else 0) < self._places

    def begin(self) -> int:
        """A place is taken. Returns the period, for `answered` and `end`."""
        self._in_use += 1
        if self._in_use >= self._places:
            self._was_full = True
        return self.period

    def end(self, period: int) -> None:
        """A place is given back, whether or not a request was made."""
        self._in_use -= 1
        if period != self.period:
            self._earlier -= 1

    def answered(self, seconds: float, period: int) -> None:
        """A request was answered after this time; adjust. The place itself is given back by `end`."""
        self._since_cut += 1
        if self._is_calm and period != self.period:
            return
        if self._settling:
            self._settling -= 1
            return
        self._answers.append(seconds)
        if len(self._answers) >= (max(_CALM_ANSWERS, 2 * self._places) if self._is_calm else self._places):
            self._judge(median(self._answers))
            self._set_places()
            self._answers.clear()
            self._was_full = self._in_use >= self._places

    def refused(self) -> None:
        """The server is overloaded (429). One cut per round of answers, however many refusals it brings."""
        if self._since_cut >= self._limit or self._since_cut == 0:
            self._limit = max(1.0, self._limit / 2)
            self._is_new = False
            self._set_places()
            self._since_cut = 0
        self._since_cut += 1

    def _set_places(self) -> None:
        limit = int(self._limit)
        self._places = max(1, limit // _CALM_SHARE) if self._is_calm else limit

    def _judge(self, seconds: float) -> None:
        """A round is over; `seconds`: its median answer."""
        if self._is_calm:
            self._calm_seconds, self._is_calm, self._rounds = seconds, False, _ROUNDS
        elif not self._was_full:
            self._rounds = 0  # few are on the wire anyway, and what was measured grows old
        elif seconds <= UNNOTICED_SECONDS:
            self._rounds = 0
            self._grow()
        elif not self._rounds:
            self._is_calm, self._earlier = True, self._in_use
            self._settling = max(1, int(self._limit) // _CALM_SHARE)
            self.period += 1
        else:
            self._rounds -= 1
            self._weigh(seconds / self._calm_seconds if self._calm_seconds else 1.0)

    def _weigh(self, times: float) -> None:
        """Answers take so many times as long as with a quarter of the places."""
        if times <= _BRISK:
            self._grow()
            return
        self._is_new = False
        if times > _SLOW:
            self._limit = min(self._limit, max(self._least, self._limit * _CUT))
            self._rounds = 0  # a quarter of them is fewer now: ask again

    def _grow(self) -> None:
        self._limit = min(self._most, self._limit * _FIRST_GROWTH if self._is_new else self._limit + 1.0)
