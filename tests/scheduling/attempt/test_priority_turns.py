"""Turns go to the most important who waits, and none is lost."""

import asyncio

from kscheduler.scheduling.attempt.priority_turns import PriorityTurns
from tests.scheduling.eviction.stage import turns


class Line:
    """Pods in a line for one turn, each at its gate."""

    def __init__(self, count: int = 1) -> None:
        self.turns = PriorityTurns(count)
        self.gates: dict[str, asyncio.Event] = {}
        self.begun: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def join(self, name: str, priority: int = 0) -> None:
        self.gates[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._go(name, priority))
        await turns()

    async def end(self, name: str) -> None:
        self.gates[name].set()
        await turns()

    async def _go(self, name: str, priority: int) -> None:
        async with self.turns.turn(priority):
            self.begun.append(name)
            await self.gates[name].wait()


async def test_the_most_important_goes_next_and_among_equals_who_came_first() -> None:
    line = Line()
    for name, priority in (("first", 0), ("low", 1), ("high", 9), ("low-too", 1)):
        await line.join(name, priority)
    assert (line.begun, line.turns.waiting) == (["first"], 3)
    for name in ("first", "high", "low", "low-too"):
        await line.end(name)
    assert line.begun == ["first", "high", "low", "low-too"]
    await line.join("later")
    assert line.begun[-1] == "later"
    await line.end("later")


async def test_so_many_at_a_time() -> None:
    line = Line(2)
    for name in "abc":
        await line.join(name)
    assert line.begun == ["a", "b"]
    await line.end("b")
    assert line.begun == ["a", "b", "c"]
    for name in "ac":
        await line.end(name)


async def test_who_gives_up_waiting_keeps_nobody_waiting() -> None:
    line = Line()
    for name in "abc":
        await line.join(name)
    line.tasks["b"].cancel()
    await turns()
    assert line.turns.waiting == 1
    await line.end("a")
    assert line.begun == ["a", "c"]
    await line.end("c")


async def test_a_turn_that_was_given_to_who_is_cancelled_in_the_same_instant_goes_on() -> None:
    line = Line()
    async with line.turns.turn(0):
        for name in "bc":
            await line.join(name)
    line.tasks["b"].cancel()  # it has been given the turn, and has not run since
    await turns()
    assert line.begun == ["c"]
    await line.end("c")
    await line.join("d")
    assert line.begun == ["c", "d"]
    await line.end("d")
