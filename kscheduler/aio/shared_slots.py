"""A bounded number of places for work that waits for others, where what hangs for one owner holds up no other owner.

The problem: requests take turns on a few places, so that the server is not flooded. A hundred requests of one namespace
that hang, or sleep before they are tried again, hold all places, and everybody else waits. The idea: a place is held
only while the work is *on time*. Work that is late gives its place back and goes on beside the places, and from then on
its owner is *slow*:

    begin   an owner that is not slow       takes a place, or waits for one in line; each owner that waits gets one in
                                            turn
            a slow owner                    goes beside the places, as long as it has a turn; more waits in a line of
                                            its own
    late    unanswered for longer than `LATE_FACTOR` times what the quickest work takes, within `LEAST_SECONDS` and
            `MAX_SECONDS`; or it says itself that it will take long (`give_back`)
    end     TURNS in a row on time, or a minute without any: the owner is not slow any more, its line joins the others'

Is it the owner, or the server? As soon as `PROOFS` pieces of work of owners that are not slow were on time in a row, it
is the owner (`have_others_finished`). Until then the server may be slow for everybody, and must not get more to do for
it:

    turns of a slow owner      `TURNS` while others are on time; without, all slow owners together have as many as there
                               are places, so what adapts the places (`AdaptiveLimit`) rules both. As many again are for
                               owners that have none, and beyond that one a second, or one whose last work was on time
    who is next                the owner that has waited longest since it had a turn
    late work                  gives its place back in either case. That is at most a place's worth for each owner, and
                               how others are shown to be on time where several hang and hold all places
    how long work took         of a slow owner says something of the server only while no others are on time

Where one hangs, the next may: while any owner is slow, one of which nothing was on time yet is *on trial*. It holds a
sixteenth of the places, and if it wants more, it is slow until one of these is on time. Otherwise each of a dozen
owners would hold all places in its turn until it is late.

To be taken for slow by mistake does little harm: an owner whose work is answered keeps its turns. What is late is
found when somebody needs the place, and by each call of `look`: as long as there is room, it costs nothing. Limits:
at most `MAX_BESIDE` go beside the places, over all owners, and turns are given for half of that; then late work keeps
its place.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from kscheduler.aio.clock import Alarm, Clock

# Of one slow owner, beside the places at the same time.
TURNS: Final = 32
# Of all slow owners: each may hold a connection, and processes have few descriptors.
MAX_BESIDE: Final = 256
LATE_FACTOR: Final = 8.0
LEAST_SECONDS: Final = 0.25
MAX_SECONDS: Final = 1.0
FORGET_SECONDS: Final = 60.0
# What several owners meet within this time may be the server's; it is how long others count as on time, too.
SHARED_SECONDS: Final = 5.0
# Pieces of work of others that were on time in a row, since an owner became slow: a busy server answers one or two.
PROOFS: Final = 8
# Slow owners that are remembered while they have no work.
MAX_OWNERS: Final = 1024
# Of the places, for work of an owner on trial: at least one.
TRIAL_SHARE: Final = 16
PROBE_SECONDS: Final = 1.0
# Pieces of work of which the quickest says what is usual: the owner of most of the work cannot raise it.
_RECENT: Final = 64


class SlotCapacity(Protocol):
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

    def count(self) -> int:
        """How many places there are now, free or not."""
        ...


class SeveralOwners:
    """Tells one owner's trouble from everybody's: what two owners meet within `SHARED_SECONDS` may be the server's."""

    def __init__(self) -> None:
        self._last: tuple[Hashable, float] | None = None

    def meet(self, owner: Hashable, now: float) -> bool:
        """This owner meets it now, in monotonic seconds. Whether another has within that time."""
        last, self._last = self._last, (owner, now)
        return last is not None and last[0] != owner and now - last[1] <= SHARED_SECONDS


class FixedCapacity:
    """A number of places that others may change."""

    def __init__(self, work_slots: int) -> None:
        self.work_slots = work_slots
        self._in_use = 0

    def has_room(self) -> bool:
        """Whether a place is free."""
        return self._in_use < self.work_slots

    def begin(self) -> int:
        """Take a place."""
        self._in_use += 1
        return 0

    def end(self, _period: int) -> None:
        """Give it back."""
        self._in_use -= 1

    def count(self) -> int:
        """How many there are."""
        return self.work_slots


class SlowOwner(msgspec.Struct, frozen=True):
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
    is_on_trial: bool = False
    """It was never late: it wanted more than a trial's share."""
    line: "deque[_Waiting]" = field(default_factory=deque)


@dataclass(slots=True)
class _BackgroundWork:
    """Work that goes on beside the places."""

    slow: _Slow
    began: float
    is_late: bool = False
    has_paused: bool = False
    """It has slept: how long it took says nothing of the server."""


# The work, since when, and the room's number.
_Held = tuple[Any, float, int]
_Waiting = tuple[Any, "asyncio.Future[None]"]


class SharedSlots:
    """The places. Work is any object; it is told apart by identity, and begins once before it ends."""

    def __init__(
        self,
        room: SlotCapacity,
        clock: Clock,
        owner_of: Callable[[Any], Hashable | None],
        *,
        turns: int = TURNS,
        on_capacity: Callable[[Any], None] = lambda _work: None,
        on_turn: Callable[[Hashable], None] = lambda _owner: None,
    ) -> None:
        """`owner_of` is asked about work that is late, and about all work while any owner is slow; `None`: such work
        is never late.

        `on_capacity`: this work was late, and has given its place back. `on_turn`: an owner may have a free turn, or is
        no longer slow, and none of those who wait here needs it.
        """
        self.room = room
        self.on_capacity = on_capacity
        self.on_turn = on_turn
        self._clock = clock
        self._owner_of = owner_of
        self._turns = turns
        self._held: dict[int, _Held] = {}
        """By identity, in the order in which they began."""
        self._without_owner: dict[int, _Held] = {}
        """Of those that hold a place, the ones that would be late and have no owner."""
        self._beside: dict[int, _BackgroundWork] = {}
        self.beside = 0
        """How many pieces of work go on beside the places."""
        self.slow: dict[Hashable, _Slow] = {}
        """Empty as a rule, which is all that is looked at then."""
        self._in_need: dict[Hashable, _Slow] = {}
        """Slow owners that were refused a turn because of the others' turns, those that have waited longest first."""
        self._on_time_in_row = 0
        """Ends of work of owners that are not slow, since one became slow or was late."""
        self._on_time_at = float("-inf")
        self._probe_at = float("-inf")
        """When the next owner without a turn has one, however much hangs."""
        self._on_trial: dict[int, Hashable] = {}
        """Owners of work that has begun in a place while some owner was slow, by the work's identity."""
        self._trials: Counter[Hashable] = Counter()
        """The same, counted."""
        self._cleared: dict[Hashable, float] = {}
        """Owners of which work was on time since some owner is slow, and when last, in that order."""
        self._lines: dict[Hashable, deque[_Waiting]] = {}
        """By owner, those that wait for a place: each owner that waits gets one in turn, the first is next."""
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._alarm: Alarm | None = None

    # --- beginning and ending -----------------------------------------------------------------------------------------

    def begin_now(self, work: Any) -> bool:
        """Whether the work has begun. If not, its owner has no turn, or there is no room."""
        if not self.slow:
            if self.room.has_room():
                self._held[id(work)] = work, self._clock.monotonic(), self.room.begin()  # as `hold`
                return True
            return False
        owner = self._owner_of(work)
        if owner is not None and self.is_slow_with_more(owner):
            return self._begin_in_background(work, self.slow[owner])
        if not self.room.has_room():
            return False
        self.hold(work)
        if owner is not None:
            self._on_trial[id(work)] = owner
            self._trials[owner] += 1
        return True

    def hold(self, work: Any) -> None:
        """Begin in a place, which must be free; no owner is slow."""
        self._held[id(work)] = work, self._clock.monotonic(), self.room.begin()

    def has_begun(self, work: Any) -> bool:
        """Whether the work has begun and has not ended."""
        return id(work) in self._beside or self.holds(work)

    def holds(self, work: Any) -> bool:
        """Whether the work has begun and holds a place."""
        return id(work) in self._held or id(work) in self._without_owner

    async def begin(self, work: Any) -> None:
        """Begin the work as soon as it may. Work of one owner begins in the order in which it came."""
        if not self._has_line(work) and self.begin_now(work):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        owner = self._owner_of(work)
        slow = self.slow.get(owner)
        line = self._lines.setdefault(owner, deque()) if slow is None else slow.line
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
        if held is None and self._without_owner:
            held = self._without_owner.pop(id(work), None)
        if held is not None:
            self.room.end(held[2])
            seconds = now - held[1]
            if self.slow:
                self._note_end(work, seconds, now)
            self._recent.append(seconds)
            if self._lines:
                self._admit()
            return True
        piece = self._beside.pop(id(work))
        slow, seconds = piece.slow, now - piece.began
        self.beside -= 1
        slow.beside -= 1
        slow.used_at = now
        is_late = piece.is_late or seconds > self.late_seconds()
        if not (piece.has_paused or self.have_others_finished()):
            self._recent.append(seconds)
        if self.slow.get(slow.owner) is not slow:
            self._give_turns()
            return False  # its owner has recovered meanwhile
        slow.on_time = 0 if is_late else slow.on_time + 1
        slow.is_on_trial = slow.is_on_trial and not is_late
        if slow.on_time >= (1 if slow.is_on_trial else self._turns):
            self._recover(slow)
        elif self._in_need:
            self._in_need.setdefault(slow.owner, slow)  # behind those that have waited for longer
        else:
            self._next_turn(slow)
        self._give_turns()
        return False

    def give_back(self, work: Any) -> bool:
        """The work will take long, for example because it sleeps before it is tried again: it goes on beside the
        places. Whether it has given back a place.
        """
        has_left = self._leave_slot(work)
        piece = self._beside.get(id(work))
        if piece is not None:
            piece.is_late = piece.has_paused = True
        return has_left

    def _leave_slot(self, work: Any) -> bool:
        held = self._held.get(id(work))
        owner = self._owner_of(work) if held is not None and self.beside < MAX_BESIDE else None
        if held is None or owner is None:
            return False
        del self._held[id(work)]
        self._end_trial(work)
        if owner not in self.slow:
            self._on_time_in_row = 0
        slow = self._slow_from_now(owner)
        slow.beside += 1
        slow.on_time, slow.is_on_trial = 0, False
        self._beside[id(work)] = _BackgroundWork(slow, held[1], is_late=True)
        self.beside += 1
        self.room.end(held[2])
        self._admit()
        self.on_capacity(work)
        return True

    def hold_back(self, owner: Hashable, seconds: float) -> None:
        """The server wants nothing of this owner for so long."""
        slow = self._slow_from_now(owner)
        slow.on_time, slow.is_on_trial = 0, False
        until = self._clock.monotonic() + seconds
        if until > slow.resume_at:
            slow.resume_at = until
            self._clock.call_later(seconds, lambda: self._next_turn(slow))

    # --- what is late -------------------------------------------------------------------------------------------------

    def late_seconds(self) -> float:
        """How long work may take before it is late."""
        usual = min(self._recent, default=0.0)
        return min(MAX_SECONDS, max(LEAST_SECONDS, LATE_FACTOR * usual))

    def look(self) -> None:
        """Find what is late; forget slow owners that have had no work for long."""
        now = self._clock.monotonic()
        seconds = self.late_seconds()
        for held in list(self._held.values()):
            if now - held[1] < seconds or self.beside >= MAX_BESIDE:
                break  # the others began later
            if id(held[0]) in self._held and not self._leave_slot(held[0]):
                self._without_owner[id(held[0])] = self._held.pop(id(held[0]))  # need not be looked at again
        if not self.slow:
            return
        for slow in list(self.slow.values()):
            if not slow.beside and not slow.line and now - slow.used_at >= FORGET_SECONDS:
                self._recover(slow)
        self._give_turns()

    def expect_late(self) -> None:
        """Somebody waits for room: look when the oldest work becomes late."""
        if self._alarm is None and self._held:
            began = next(iter(self._held.values()))[1]
            wait = began + self.late_seconds() - self._clock.monotonic()
            least = LEAST_SECONDS if self.beside >= MAX_BESIDE else 0.01
            self._alarm = self._clock.call_later(max(wait, least), self._look_again)

    def _look_again(self) -> None:
        self._alarm = None
        self.look()
        if not self.room.has_room():
            self.expect_late()

    def capacity_grew(self) -> None:
        """There are more places than before: those in line begin."""
        self._admit()

    # --- is it the owner, or the server? ------------------------------------------------------------------------------

    def have_others_finished(self) -> bool:
        """Whether work of owners that are not slow is on time: then slow owners have themselves to blame."""
        since = self._clock.monotonic() - self._on_time_at
        return self._on_time_in_row >= PROOFS and since <= SHARED_SECONDS

    def is_server_slow(self, work: Any) -> bool:
        """Of work that goes on beside the places: whether how long it takes says something of the server."""
        piece = self._beside.get(id(work))
        return piece is not None and not piece.has_paused and not self.have_others_finished()

    def is_crowded(self) -> bool:
        """Whether as much goes on beside the places as there are places."""
        return self.beside >= self.room.count()

    def is_slow_with_more(self, owner: Hashable) -> bool:
        """Whether more work of this owner goes beside the places: it is slow, or has as much on trial as it may, and is
        slow for that.
        """
        if owner in self.slow:
            return True
        if not self.slow or self._trials[owner] < max(1, self.room.count() // TRIAL_SHARE):
            return False
        now = self._clock.monotonic()
        if now - self._cleared.get(owner, float("-inf")) <= FORGET_SECONDS:
            return False
        self._slow_from_now(owner).is_on_trial = True
        return True

    def _end_trial(self, work: Any) -> None:
        owner = self._on_trial.pop(id(work), None)
        if owner is not None:
            self._trials[owner] -= 1
            if not self._trials[owner]:
                del self._trials[owner]

    def _note_end(self, work: Any, seconds: float, now: float) -> None:
        """Work that held its place has ended, while some owner is slow."""
        self._end_trial(work)
        owner = self._owner_of(work)
        slow = self.slow.get(owner)
        if owner is None or (slow is not None and not slow.is_on_trial):
            return
        self._cleared.pop(owner, None)
        if seconds > self.late_seconds():
            self._on_time_in_row = 0
            return
        self._cleared[owner] = now
        if len(self._cleared) > MAX_OWNERS:
            del self._cleared[next(iter(self._cleared))]
        self._on_time_in_row += 1
        self._on_time_at = now
        if slow is not None:
            self._recover(slow)
        if self._on_time_in_row == PROOFS:
            self._give_turns()

    # --- slow owners --------------------------------------------------------------------------------------------------

    def statistics(self) -> tuple[SlowOwner, ...]:
        """The slow owners that have work now."""
        now = self._clock.monotonic()
        oldest: dict[Hashable, float] = {}
        for piece in self._beside.values():
            owner = piece.slow.owner
            oldest[owner] = max(oldest.get(owner, 0.0), now - piece.began)
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
        return bool(self._lines) if slow is None else bool(slow.line)

    def _slow_from_now(self, owner: Hashable) -> _Slow:
        slow = self.slow.get(owner)
        if slow is None:
            if len(self.slow) >= MAX_OWNERS:
                idle = next((one for one in self.slow.values() if not one.beside and not one.line), None)
                if idle is not None:
                    self._recover(idle)
            slow = self.slow[owner] = _Slow(owner)
        slow.used_at = self._clock.monotonic()
        return slow

    def _begin_in_background(self, work: Any, slow: _Slow) -> bool:
        now = self._clock.monotonic()
        if slow.beside >= self._turns or now < slow.resume_at:
            return False
        if not self._has_turn(slow, now):
            self._in_need.setdefault(slow.owner, slow)
            return False
        if not slow.beside:
            self._probe_at = max(self._probe_at, now + PROBE_SECONDS)
        slow.beside += 1
        slow.used_at = now
        self._beside[id(work)] = _BackgroundWork(slow, now)
        self.beside += 1
        return True

    def _has_turn(self, slow: _Slow, now: float) -> bool:
        """Whether the others leave a turn. An owner that has none must not wait until all that hangs is answered: it
        may only have been slow for a moment.
        """
        most = MAX_BESIDE // 2
        if not self.have_others_finished():
            most = min(most, self.room.count())
        if slow.beside:
            return self.beside < most
        return self.beside < (2 * most if not slow.on_time and now < self._probe_at else MAX_BESIDE)

    def _give_turns(self) -> None:
        """Turns have become free: those that were refused one begin, who has waited longest first."""
        if not self._in_need:
            return
        now = self._clock.monotonic()
        for slow in list(self._in_need.values()):
            if self._has_turn(slow, now):
                del self._in_need[slow.owner]
                self._next_turn(slow)

    def _next_turn(self, slow: _Slow) -> None:
        """Who waits for a turn of this owner begins, as far as there are any."""
        if self.slow.get(slow.owner) is not slow:
            return
        while slow.line:
            work, turn = slow.line[0]
            if not turn.done():
                if not self._begin_in_background(work, slow):
                    return
                turn.set_result(None)
            slow.line.popleft()
        if slow.beside < self._turns:
            self.on_turn(slow.owner)

    def _recover(self, slow: _Slow) -> None:
        """The owner is not slow any more. What goes on beside the places ends there."""
        del self.slow[slow.owner]
        self._in_need.pop(slow.owner, None)
        if not self.slow:
            self._on_trial.clear()
            self._trials.clear()
            self._cleared.clear()
        if slow.line:
            self._lines.setdefault(slow.owner, deque()).extend(slow.line)
            slow.line.clear()
        self._admit()
        self.on_turn(slow.owner)

    def _admit(self) -> None:
        """Those in line begin, as far as there is room. Whose owner is slow by now takes none."""
        while self._lines:
            owner, line = next(iter(self._lines.items()))
            work, turn = line[0]
            slow = self.slow.get(owner)
            if slow is not None:
                del self._lines[owner]
                slow.line.extend(line)
                self._next_turn(slow)
                continue
            if not turn.done():
                if self.begin_now(work):
                    turn.set_result(None)
                elif owner in self.slow:
                    continue  # it would have had too much on trial
                else:
                    self.expect_late()
                    return
                del self._lines[owner]
                self._lines[owner] = line  # the others' turn
            line.popleft()
            if not line:
                del self._lines[owner]
