"""How many requests the workers have in flight at the same time.

With too few requests the API server is idle; with too many they queue up inside it, and decisions are made earlier
than necessary, on old state. So the limit follows the answers of the server, round by round (a round is as many
answers as there are places, and a place is the right to have one request in flight):

    an answer takes                                    next round
    up to a quarter of a second                        one place more if all were in use; at first a quarter more
    longer, and more places would increase throughput  the same or one place more
    longer, and more places would not                  a quarter fewer: requests would only wait inside the server
    429 of priority and fairness, or to several        half
    namespaces within a few seconds

A short queue inside the server is useful: it hides the pauses of the workers, and many answers at a time cost less.
Whether more places increase throughput is measured: from time to time a *calm* round uses only a quarter of the
places, and its median answer time is compared with that of the rounds after it. (Four times the places bring four
times the throughput, divided by how many times longer the answers take.) The fastest answer ever seen would be a bad
measure: it dates from a time without other load, and a server that is slow for other reasons does not get faster if
we send less. Medians, so that a few binds that hang in a webhook do not count as a slow server. A calm round counts
only requests that began in it, so binds that have been hanging since before do not take its places.

Additive increase, multiplicative decrease. Pure arithmetic, so it is tested without a server.
"""

from statistics import median
from typing import Final

import msgspec

from kscheduler.aio.shared_slots import SeveralOwners

# Waiting this long for an answer does no harm.
UNNOTICED_SECONDS: Final = 0.25
# If answers take more than this many calm answers, four times the places bring less than a seventh more throughput.
_SLOW: Final = 3.5
# If answers take at most this many calm answers, four times the places bring a third more or better: add a place.
_BRISK: Final = 3.0
_FIRST_GROWTH: Final = 1.25
_CUT: Final = 0.75
_CALM_SHARE: Final = 4
# A calm round has at least this many answers.
_CALM_ANSWERS: Final = 8
# Rounds until the next calm round, which costs about two rounds with a quarter of the places.
_ROUNDS: Final = 12
# Slow answers alone never reduce the limit below this: the server is as busy with one, and each wake-up does less.
LEAST_BY_LATENCY: Final = 8


class ConcurrencyStatistics(msgspec.Struct, frozen=True):
    """A snapshot."""

    limit: int
    in_use: int


class AdaptiveLimit:
    """A number of places that grows and shrinks."""

    def __init__(self, start: int, most: int) -> None:
        self._limit = float(start)
        self._places = start
        """How many there are in this round: a quarter of the limit in a calm round."""
        self._most = float(max(start, most))
        self._least = float(min(start, LEAST_BY_LATENCY))
        self._in_use = 0
        self._since_cut = 0
        self._refused = SeveralOwners()
        """429s to several namespaces are the server's; those to one may be a webhook's or a quota's."""
        self._is_new = True
        """The limit has never been too high: it grows by a quarter per round."""
        self._calm_seconds = 0.0
        self._is_calm = False
        """This is a calm round."""
        self._rounds = 0
        """Rounds for which the calm answer time is still valid."""
        self.period = 0
        """Increased when a calm round begins; `begin` returns it, and the request hands it back at its end."""
        self._earlier = 0
        """How many requests of earlier periods are still in flight."""
        self._settling = 0
        """Answers in this period to ignore, until requests of the period before no longer keep the server busy."""
        self._answers: list[float] = []
        self._was_full = False

    def restart(self, start: int, most: int) -> None:
        """Adapt from `start` within other bounds; requests in flight keep their places until they are answered."""
        self._most = float(max(start, most))
        self._least = float(min(start, LEAST_BY_LATENCY))
        self._limit, self._is_new, self._rounds = float(start), True, 0
        self._set_slots()

    def statistics(self) -> ConcurrencyStatistics:
        """How many places there are, and how many are in use."""
        return ConcurrencyStatistics(int(self._limit), self._in_use)

    def has_room(self) -> bool:
        """Whether another request may start."""
        return self._in_use - (self._earlier if self._is_calm else 0) < self._places

    def count(self) -> int:
        """How many places there are in this round."""
        return self._places

    def begin(self) -> int:
        """Take a place. Returns the period, for `answered` and `end`."""
        self._in_use += 1
        if self._in_use >= self._places:
            self._was_full = True
        return self.period

    def end(self, period: int) -> None:
        """Give a place back, whether or not a request was made."""
        self._in_use -= 1
        if period != self.period:
            self._earlier -= 1

    def answered(self, seconds: float, period: int, *, is_full: bool = False) -> None:
        """A request was answered after this time: adjust the limit. `end` gives the place back.

        `is_full`: as many requests as there are places go on beside them.
        """
        self._since_cut += 1
        if is_full:
            self._was_full = True
        if self._is_calm and period != self.period:
            return
        if self._settling:
            self._settling -= 1
            return
        self._answers.append(seconds)
        if len(self._answers) >= (max(_CALM_ANSWERS, 2 * self._places) if self._is_calm else self._places):
            self._judge(median(self._answers))
            self._set_slots()
            self._answers.clear()
            self._was_full = self._in_use >= self._places

    def refused_for(self, namespace: str, now: float) -> None:
        """A 429 to a request of this namespace: the server is overloaded if others get them, too."""
        if self._refused.meet(namespace, now):
            self.refused()

    def refused(self) -> None:
        """The server is overloaded (429): halve the limit, but only once per round of answers."""
        if self._since_cut >= self._limit or self._since_cut == 0:
            self._limit = max(1.0, self._limit / 2)
            self._is_new = False
            self._set_slots()
            self._since_cut = 0
        self._since_cut += 1

    def _set_slots(self) -> None:
        limit = int(self._limit)
        self._places = max(1, limit // _CALM_SHARE) if self._is_calm else limit

    def _judge(self, seconds: float) -> None:
        """A round is over; `seconds`: its median answer time."""
        # Rounds after a calm one are compared with it `_ROUNDS` times; then, or after a cut, a new calm round begins.
        if self._is_calm:
            self._calm_seconds, self._is_calm, self._rounds = seconds, False, _ROUNDS
        elif not self._was_full:
            self._rounds = 0  # few requests are in flight, so the calm measurement is out of date
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

    def _weigh(self, ratio: float) -> None:
        """Answers take `ratio` times as long as in the calm round."""
        if ratio <= _BRISK:
            self._grow()
            return
        self._is_new = False
        if ratio > _SLOW:
            self._limit = min(self._limit, max(self._least, self._limit * _CUT))
            self._rounds = 0  # a quarter of the places is fewer now: measure again

    def _grow(self) -> None:
        self._limit = min(self._most, self._limit * _FIRST_GROWTH if self._is_new else self._limit + 1.0)
