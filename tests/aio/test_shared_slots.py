"""Places that are held while work is on time: what hangs for one owner holds up no other."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from statistics import quantiles

import pytest

from kscheduler.aio import VirtualClock
from kscheduler.aio.shared_slots import (
    FORGET_SECONDS,
    MAX_BESIDE,
    MAX_SECONDS,
    TURNS,
    FixedCapacity,
    SeveralOwners,
    SharedSlots,
)


class Work:
    def __init__(self, owner: str, seconds: float = 0.01) -> None:
        self.owner = owner
        self.seconds = seconds


class Played:
    """A clock, places, and pieces of work that take their time."""

    def __init__(self, work_slots: int = 8, turns: int = TURNS) -> None:
        self.clock = VirtualClock()
        self.room = FixedCapacity(work_slots)
        self.work_slots = SharedSlots(self.room, self.clock, lambda work: work.owner or None, turns=turns)
        self.waited: dict[str, list[float]] = {}
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.order: list[Work] = []
        self.tasks: list[asyncio.Task[None]] = []

    def start(self, *works: Work) -> None:
        self.tasks.extend(asyncio.create_task(self._run(work)) for work in works)

    async def _run(self, work: Work) -> None:
        came = self.clock.monotonic()
        await self.work_slots.begin(work)
        self.order.append(work)
        self.running[work.owner] += 1
        self.most[work.owner] = max(self.most[work.owner], self.running[work.owner])
        try:
            await self.clock.sleep(work.seconds)
        finally:
            self.running[work.owner] -= 1
            self.work_slots.end(work)
        self.waited.setdefault(work.owner, []).append(self.clock.monotonic() - came)

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(0.0)  # what was started asks for its place
        await self.clock.advance(seconds)

    async def all_done(self, seconds: float) -> None:
        await self.advance(seconds)
        assert all(task.done() for task in self.tasks)
        assert self.work_slots.beside == 0
        assert self.room.has_room()

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def sound_beside(hostile: int, hang: float) -> list[float]:
    """How long each of 500 sound pieces took, ten a second, beside so many that hang."""
    played = Played()
    for number in range(500):
        if number == 20:
            played.start(*(Work("hostile", hang) for _ in range(hostile)))
        played.start(Work(f"sound-{number % 3}"))
        await played.advance(0.1)
    waited = [seconds for owner, each in played.waited.items() if owner != "hostile" for seconds in each]
    assert len(waited) == 500
    await played.close()
    return waited


@pytest.mark.parametrize("hang", [10.0, 1e9], ids=["ten seconds", "for ever"])
async def test_the_99th_percentile_of_others_at_most_doubles_beside_a_thousand_that_hang(hang: float) -> None:
    alone, beside = await sound_beside(0, hang), await sound_beside(1000, hang)
    assert quantiles(beside, n=100)[98] <= 2 * quantiles(alone, n=100)[98]
    assert max(beside) <= MAX_SECONDS + 0.1


async def test_a_slow_owner_has_its_turns_and_its_work_begins_in_the_order_in_which_it_came() -> None:
    played = Played(work_slots=4, turns=3)
    works = [Work("slow", 10.0) for _ in range(12)]
    played.start(*works)
    await played.all_done(60.0)
    assert played.order == works
    assert played.most["slow"] <= 4 + 3, "those that had places when they were found to be late, and its turns"


async def test_work_that_says_it_will_take_long_gives_its_place_back() -> None:
    played = Played(work_slots=1)
    waits, other = Work("patient"), Work("other")
    assert played.work_slots.begin_now(waits)
    assert not played.work_slots.begin_now(other)
    assert played.work_slots.give_back(waits)
    assert not played.work_slots.give_back(waits), "once is enough"
    assert played.work_slots.begin_now(other)
    assert played.work_slots.end(other)
    assert not played.work_slots.end(waits)


async def test_an_owner_that_is_on_time_again_takes_places_as_the_others_do() -> None:
    played = Played(work_slots=2, turns=4)
    played.start(*(Work("slow", 5.0) for _ in range(3)), Work("other"))
    await played.advance(6.0)
    assert played.work_slots.is_slow("slow")
    played.start(*(Work("slow") for _ in range(20)))
    await played.all_done(10.0)
    assert not played.work_slots.is_slow("slow")


async def test_a_slow_owner_without_work_is_forgotten() -> None:
    played = Played(work_slots=1)
    played.start(Work("slow", 2.0), Work("other"))
    await played.advance(3.0)
    assert played.work_slots.is_slow("slow")
    await played.advance(FORGET_SECONDS)
    played.work_slots.look()
    assert not played.work_slots.slow


async def test_who_waits_for_a_place_gets_one_in_turn_with_the_other_owners() -> None:
    """A thousand quick pieces of one owner are not before the first of another."""
    played = Played(work_slots=2)
    played.start(*(Work("busy", 0.02) for _ in range(1000)))
    await played.advance(0.1)
    played.start(Work("other", 0.02))
    await played.advance(0.1)
    assert played.waited["other"][0] <= 0.05
    await played.close()


async def test_an_owner_with_most_of_the_work_cannot_raise_what_is_late_for_others() -> None:
    played = Played(work_slots=64)
    for _ in range(20):
        played.start(*(Work("busy", 0.2) for _ in range(60)), Work("sound", 0.01))
        await played.advance(0.3)
    assert played.work_slots.late_seconds() <= 0.25
    await played.all_done(1.0)


async def test_while_nobody_else_is_on_time_slow_owners_together_have_as_many_turns_as_there_are_places() -> None:
    played = Played(work_slots=8)
    for number in range(400):
        played.start(*(Work(f"tenant-{number % 4}", 2.0) for _ in range(2)))
        await played.advance(0.05)
    assert played.running.total() <= 2 * 8 + 4
    assert not played.work_slots.have_others_finished()
    await played.advance(300.0)
    assert all(task.done() for task in played.tasks)


async def test_a_ninth_owner_that_is_slow_has_its_turns_beside_eight_that_hang() -> None:
    played = Played(work_slots=16)
    played.start(*(Work(f"hangs-{number}", 1e9) for number in range(12) for _ in range(60)))
    for _ in range(40):
        played.start(Work("sound"))
        await played.advance(0.1)
    begun = played.clock.monotonic()
    played.start(*(Work("ninth", 2.0) for _ in range(3)))
    played.start(*(Work("ninth", 0.01) for _ in range(30)))
    await played.advance(20.0)
    assert len(played.waited["ninth"]) == 33, begun
    await played.close()


async def test_more_places_let_those_in_line_begin() -> None:
    played = Played(work_slots=1)
    played.start(Work("", 100.0), Work("a", 1.0))
    await played.advance(1.0)
    played.room.work_slots = 2
    played.work_slots.capacity_grew()
    await played.advance(1.0)
    assert "a" in played.waited
    await played.close()


@pytest.mark.parametrize(
    ("met", "expected"),
    [
        pytest.param([("a", 0.0), ("a", 1.0)], False, id="one owner"),
        pytest.param([("a", 0.0), ("b", 5.0)], True, id="two within five seconds"),
        pytest.param([("a", 0.0), ("b", 5.1)], False, id="two, later"),
    ],
)
def test_what_two_owners_meet_within_five_seconds_may_be_the_servers(
    met: list[tuple[str, float]], expected: bool
) -> None:
    several = SeveralOwners()
    assert [several.meet(owner, at) for owner, at in met][-1] is expected


async def test_work_without_an_owner_is_never_late() -> None:
    played = Played(work_slots=1)
    played.start(Work("", 30.0), Work("other"))
    looks = 0

    def counted(look: Callable[[], None] = played.work_slots.look) -> None:
        nonlocal looks
        looks += 1
        look()

    played.work_slots.look = counted  # type: ignore[method-assign]
    await played.advance(29.0)
    assert played.order[-1].owner == ""
    assert looks <= 2, "nobody looks again and again at what cannot be late"
    await played.all_done(5.0)


async def test_of_all_owners_together_only_so_many_go_beside_the_places() -> None:
    played = Played(work_slots=8)
    played.start(*(Work(f"tenant-{number}", 1e9) for number in range(MAX_BESIDE + 100)))
    await played.advance(600.0)
    assert played.work_slots.beside == MAX_BESIDE
    assert played.running.total() == MAX_BESIDE + 8
    await played.close()


async def test_an_owner_that_is_to_wait_begins_nothing_before_its_time() -> None:
    played = Played(work_slots=4)
    played.work_slots.hold_back("refused", 5.0)
    played.start(Work("refused"), Work("other"))
    await played.advance(4.9)
    assert (played.order[0].owner, len(played.order)) == ("other", 1)
    await played.all_done(0.5)


async def test_who_is_cancelled_in_line_takes_nobodys_turn() -> None:
    played = Played(work_slots=1, turns=1)
    played.start(*(Work("slow", 3.0) for _ in range(6)), *(Work("other", 0.1) for _ in range(6)))
    await played.advance(1.5)
    for task in played.tasks[2:4] + played.tasks[8:10]:
        task.cancel()
    await played.advance(60.0)
    assert sum(task.cancelled() for task in played.tasks) == 2, "those in line; the others had ended by then"
    assert all(task.done() for task in played.tasks)
    assert (played.work_slots.beside, played.room.has_room()) == (0, True)


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_hangs_each_piece_ends_once_and_all_places_come_back(seed: int) -> None:
    chance = random.Random(seed)
    played = Played(work_slots=3, turns=2)
    for _ in range(200):
        owner = chance.choice(["a", "b", "c", ""])
        played.start(Work(owner, chance.choice([0.01, 0.01, 0.3, 5.0])))
        if chance.random() < 0.2:
            chance.choice(played.tasks).cancel()
        await played.advance(chance.random() * 0.2)
    await played.advance(5000.0)
    assert all(task.done() for task in played.tasks)
    assert (played.work_slots.beside, played.room.has_room()) == (0, True)
