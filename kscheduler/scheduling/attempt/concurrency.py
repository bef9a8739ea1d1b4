"""How many requests the workers keep on the wire.

Too few leave the API server idle; too many queue up inside it, and a decision taken early is a decision taken on old
state. So the limit follows what the server does: it creeps up while requests are answered about as fast as the fastest
seen lately and all places are in use, creeps down when they slow to several times that, and halves when the server says
429. Additive increase, multiplicative decrease; pure arithmetic, so it is tested without a server.
"""

from dataclasses import dataclass

_SLOW = 4.0
"""This many times the floor is congestion."""
_BRISK = 2.0
"""Up to this many times the floor there is room for more."""
_FLOOR_DRIFT = 1.002
"""The floor rises this much per answer, so that it forgets a faster past."""


@dataclass(frozen=True, slots=True)
class ConcurrencyStatistics:
    """A snapshot."""

    limit: int
    in_use: int


class AdaptiveLimit:
    """A number of places that grows and shrinks."""

    def __init__(self, start: int, most: int) -> None:
        self._limit = float(start)
        self._most = float(max(start, most))
        self._floor_seconds = 0.0
        self._in_use = 0
        self._since_cut = 0

    def statistics(self) -> ConcurrencyStatistics:
        """How many places there are, and how many are taken."""
        return ConcurrencyStatistics(int(self._limit), self._in_use)

    def has_room(self) -> bool:
        """Whether another request may start."""
        return self._in_use < int(self._limit)

    def begin(self) -> None:
        """A place is taken."""
        self._in_use += 1

    def end(self) -> None:
        """A place is given back without a request having been made."""
        self._in_use -= 1

    def answered(self, seconds: float) -> None:
        """A request was answered after this time; adjust. The place itself is given back by `end`."""
        self._since_cut += 1
        floor = min(self._floor_seconds * _FLOOR_DRIFT, seconds) if self._floor_seconds else seconds
        self._floor_seconds = floor
        if seconds > _SLOW * floor:
            self._limit = max(1.0, self._limit - 1.0 / self._limit)
        elif seconds <= _BRISK * floor and self._in_use >= int(self._limit):
            self._limit = min(self._most, self._limit + 1.0 / self._limit)

    def refused(self) -> None:
        """The server is overloaded (429). One cut per round of answers, however many refusals it brings."""
        if self._since_cut >= self._limit or self._since_cut == 0:
            self._limit = max(1.0, self._limit / 2)
            self._since_cut = 0
        self._since_cut += 1
