"""A bounded number of places for work that waits for others, where what hangs for one owner holds up no other owner.

The problem: requests take turns on a few places, so that the server is not flooded. A hundred requests of one namespace
that hang, or sleep before they are tried again, hold all places, and everybody else waits. The idea: a place is held
only while the work is *on time*. Work that is late gives its place back and goes on beside the places, and from then on
its owner is *slow*:

    begin   an owner that is not slow       takes a place, or waits in line for one
            a slow owner                    goes beside the places, `TURNS` at a time; more waits in a line of its own
    late    unanswered for longer than `LATE_FACTOR` times what is usual, within `LEAST_SECONDS` and `MOST_SECONDS`;
            or it says itself that it will take long (`give_back`)
    end     TURNS in a row on time, or a minute without any: the owner is not slow any more, its line joins the others'

To be taken for slow by mistake does little harm: an owner whose work is answered keeps TURNS at a time.
What is late is found when somebody needs the place, and by whoever calls `look`: as long as there is room, it costs
nothing. Limits: at most `MOST_BESIDE` go beside the places, over all owners; then late work keeps its place.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final, Protocol

from kscheduler.aio.clock import Alarm, Clock

TURNS: Final = 32
"""Of one slow owner, beside the places at the same time."""
MOST_BESIDE: Final = 256
"""Of all slow owners: each may hold a connection, and processes have few descriptors."""
LATE_FACTOR: Final = 8.0
LEAST_SECONDS: Final = 0.25
MOST_SECONDS: Final = 1.0
FORGET_SECONDS: Final = 60.0
MOST_OWNERS: Final = 1024
"""Slow owners that are remembered while they have no work."""
_RECENT: Final = 64
"""Pieces of work whose median is what is usual."""


class PlacesLeft(Protocol):
    """How many places there are: a number, or `scheduling.work.concurrency.AdaptiveLimit`."""

    def has_room(self) -> bool:
        """Whether a place is free."""
        ...

    def begin(self) -> int:
        """Take a place; `end` wants the number that is returned."""
        ...

    def end(self, period: int) -> None:
        """Give it back."""
        ...


class FixedRoom:
    """A number of places that others may change."""

    def __init__(self, places: int) -> None:
        self.places = places
        self._in_use = 0

    def has_room(self) -> bool:
        """Whether a place is free."""
        return self._in_use < self.places

    def begin(self) -> int:
        """Take a place."""
        self._in_use += 1
        return 0

    def end(self, _period: int) -> None:
        """Give it back."""
        self._in_use -= 1


@dataclass(frozen=True, slots=True)
class SlowOwner:
    """One slow owner, now."""

    owner: Hashable
    beside: int
    """Pieces of its work that go on beside the places."""
    waiting: int
    """Pieces that wait for a turn here."""
    seconds: float
    """How long the oldest of those that go on has been unanswered."""


@dataclass(slots=True)
class _Slow:
    owner: Hashable
    beside: int = 0
    on_time: int = 0
    """Ends in a row that were on time."""
    used_at: float = 0.0
    resume_at: float = 0.0
    """Nothing of it begins before."""
    line: "deque[_Waiting]" = field(default_factory=deque)


_Waiting = tuple[Any, "asyncio.Future[None]"]


class SharedPlaces:
    """The places. Work is any object; it is told apart by identity, and begins once before it ends."""

    def __init__(
        self,
        room: PlacesLeft,
        clock: Clock,
        owner_of: Callable[[Any], Hashable | None],
        *,
        turns: int = TURNS,
        on_room: Callable[[], None] = lambda: None,
        on_turn: Callable[[Hashable], None] = lambda _owner: None,
    ) -> None:
        """`owner_of` is asked about work that is late, and about all work while any owner is slow; `None`: such work
        is never late.

        `on_room`: late work has given its place back. `on_turn`: an owner has a free turn, or is slow no more, and none
        of those who wait here needs it.
        """
        self.room = room
        self.on_room = on_room
        self.on_turn = on_turn
        self._clock = clock
        self._owner_of = owner_of
        self._turns = turns
        self._held: dict[int, tuple[Any, float, int]] = {}
        """By identity, in the order in which they began: the work, since when, and the room's number."""
        self._beside: dict[int, tuple[_Slow, float]] = {}
        self.beside = 0
        """How many pieces of work go on beside the places."""
        self._late: set[int] = set()
        """Of those beside, the ones that are late already, or have said so."""
        self.slow: dict[Hashable, _Slow] = {}
        """Empty as a rule, which is all that is looked at then."""
        self._line: deque[_Waiting] = deque()
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._alarm: Alarm | None = None

    # --- beginning and ending -----------------------------------------------------------------------------------------

    def begin_now(self, work: Any) -> bool:
        """Whether the work has begun. If not, its owner has no turn, or there is no room."""
        if self.slow:
            owner = self._owner_of(work)
            slow = self.slow.get(owner) if owner is not None else None
            if slow is not None:
                return self._begin_beside(work, slow)
        if not self.room.has_room():
            return False
        self.hold(work)
        return True

    def hold(self, work: Any) -> None:
        """Begin in a place, which must be free; no owner is slow."""
        self._held[id(work)] = work, self._clock.monotonic(), self.room.begin()

    def has_begun(self, work: Any) -> bool:
        """Whether the work has begun and has not ended."""
        return id(work) in self._held or id(work) in self._beside

    def holds(self, work: Any) -> bool:
        """Whether the work has begun and holds a place."""
        return id(work) in self._held

    async def begin(self, work: Any) -> None:
        """Begin the work as soon as it may. Work of one owner begins in the order in which it came."""
        if not self._has_line(work) and self.begin_now(work):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        slow = self._slow_owner(work)
        line = self._line if slow is None else slow.line
        line.append((work, turn))
        if slow is None:
            self.expect_late()
        try:
            await turn
        except BaseException:
            if self.has_begun(work):
                self.end(work)  # its turn has come in the same instant
            raise

    def end(self, work: Any) -> bool:
        """The work has ended. Whether it held its place to the end."""
        now = self._clock.monotonic()
        held = self._held.pop(id(work), None)
        if held is not None:
            self.room.end(held[2])
            self._recent.append(now - held[1])
            if self._line:
                self._admit()
            return True
        slow, began = self._beside.pop(id(work))
        self.beside -= 1
        slow.beside -= 1
        slow.used_at = now
        is_late = id(work) in self._late or now - began > self.late_seconds()
        self._late.discard(id(work))
        if self.slow.get(slow.owner) is not slow:
            return False  # its owner has recovered meanwhile
        slow.on_time = 0 if is_late else slow.on_time + 1
        if slow.on_time >= self._turns:
            self._recover(slow)
        else:
            self._next_turn(slow)
        if self.beside == MOST_BESIDE - 1:
            for other in list(self.slow.values()):
                self._next_turn(other)
        return False

    def give_back(self, work: Any) -> bool:
        """The work will take long, for example because it sleeps before it is tried again: it goes on beside the
        places. Whether it has given back a place.
        """
        held = self._held.get(id(work))
        if held is None:
            if id(work) in self._beside:
                self._late.add(id(work))
            return False
        owner = self._owner_of(work)
        if owner is None or self.beside >= MOST_BESIDE:
            return False
        del self._held[id(work)]
        slow = self._slow_from_now(owner)
        slow.beside += 1
        slow.on_time = 0
        self._beside[id(work)] = slow, held[1]
        self.beside += 1
        self._late.add(id(work))
        self.room.end(held[2])
        self._admit()
        self.on_room()
        return True

    def hold_back(self, owner: Hashable, seconds: float) -> None:
        """The server wants nothing of this owner for so long."""
        slow = self._slow_from_now(owner)
        slow.on_time = 0
        until = self._clock.monotonic() + seconds
        if until > slow.resume_at:
            slow.resume_at = until
            self._clock.call_later(seconds, lambda: self._next_turn(slow))

    # --- what is late -------------------------------------------------------------------------------------------------

    def late_seconds(self) -> float:
        """How long work may take before it is late."""
        usual = median(self._recent) if self._recent else 0.0
        return min(MOST_SECONDS, max(LEAST_SECONDS, LATE_FACTOR * usual))

    def look(self) -> None:
        """Find what is late; forget slow owners that have had no work for long."""
        now = self._clock.monotonic()
        seconds = self.late_seconds()
        for work, began, _ in list(self._held.values()):
            if now - began < seconds:
                break  # the others began later
            self.give_back(work)
        for slow in list(self.slow.values()):
            if not slow.beside and not slow.line and now - slow.used_at >= FORGET_SECONDS:
                self._recover(slow)

    def expect_late(self) -> None:
        """Somebody waits for room: look when the oldest work becomes late."""
        if self._alarm is None and self._held:
            began = next(iter(self._held.values()))[1]
            wait = began + self.late_seconds() - self._clock.monotonic()
            self._alarm = self._clock.call_later(max(wait, 0.01), self._look_again)

    def _look_again(self) -> None:
        self._alarm = None
        self.look()
        if not self.room.has_room():
            self.expect_late()

    # --- slow owners --------------------------------------------------------------------------------------------------

    def statistics(self) -> tuple[SlowOwner, ...]:
        """The slow owners that have work now."""
        now = self._clock.monotonic()
        oldest: dict[Hashable, float] = {}
        for slow, began in self._beside.values():
            oldest[slow.owner] = max(oldest.get(slow.owner, 0.0), now - began)
        return tuple(
            SlowOwner(slow.owner, slow.beside, len(slow.line), oldest.get(slow.owner, 0.0))
            for slow in self.slow.values()
            if slow.beside or slow.line
        )

    def is_slow(self, owner: Hashable) -> bool:
        """Whether work of this owner goes beside the places."""
        return owner in self.slow

    def _slow_owner(self, work: Any) -> _Slow | None:
        owner = self._owner_of(work) if self.slow else None
        return self.slow.get(owner) if owner is not None else None

    def _has_line(self, work: Any) -> bool:
        slow = self._slow_owner(work)
        return bool(self._line) if slow is None else bool(slow.line)

    def _slow_from_now(self, owner: Hashable) -> _Slow:
        slow = self.slow.get(owner)
        if slow is None:
            if len(self.slow) >= MOST_OWNERS:
                idle = next((one for one in self.slow.values() if not one.beside and not one.line), None)
                if idle is not None:
                    self._recover(idle)
            slow = self.slow[owner] = _Slow(owner)
        slow.used_at = self._clock.monotonic()
        return slow

    def _begin_beside(self, work: Any, slow: _Slow) -> bool:
        now = self._clock.monotonic()
        if slow.beside >= self._turns or self.beside >= MOST_BESIDE or now < slow.resume_at:
            return False
        slow.beside += 1
        slow.used_at = now
        self._beside[id(work)] = slow, now
        self.beside += 1
        return True

    def _next_turn(self, slow: _Slow) -> None:
        """Who waits for a turn of this owner begins, as far as there are any."""
        if self.slow.get(slow.owner) is not slow:
            return
        while slow.line:
            work, turn = slow.line[0]
            if not turn.done():
                if not self._begin_beside(work, slow):
                    return
                turn.set_result(None)
            slow.line.popleft()
        if slow.beside < self._turns:
            self.on_turn(slow.owner)

    def _recover(self, slow: _Slow) -> None:
        """The owner is not slow any more. What goes on beside the places ends there."""
        del self.slow[slow.owner]
        self._line.extend(slow.line)
        slow.line.clear()
        self._admit()
        self.on_turn(slow.owner)

    def _admit(self) -> None:
        """Those in line begin, as far as there is room. Whose owner is slow by now takes none."""
        while self._line:
            work, turn = self._line[0]
            slow = self._slow_owner(work)
            if turn.done():
                self._line.popleft()
            elif slow is not None:
                self._line.popleft()
                slow.line.append((work, turn))
                self._next_turn(slow)
            elif self.begin_now(work):
                self._line.popleft()
                turn.set_result(None)
            else:
                self.expect_late()
                return
