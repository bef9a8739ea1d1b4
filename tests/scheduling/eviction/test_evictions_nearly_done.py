"""Evictions tell who need be asked again: nobody whose answer is known."""

import asyncio

from tests.scheduling.eviction.stage import FORBIDDEN, Stage, turns


async def test_only_preemptors_whose_last_victims_turn_has_come_need_be_queried() -> None:
    """All others are told to wait without a look at their victims, so that a thousand of them cost nothing."""
    stage = Stage()
    stage.writes.gates = {"a": asyncio.Event(), "b": asyncio.Event()}
    stage.evictions.begin(stage.preemption("a", "b"))
    await turns()
    assert stage.must_wait()
    stage.terminating("a")
    assert (stage.must_wait(), stage.evictions.nearly_done()) == (True, ())
    stage.writes.gates["a"].set()
    await turns()
    assert (stage.must_wait(), stage.evictions.nearly_done()) == (True, ())
    stage.terminating("b")
    assert stage.evictions.nearly_done() == ("default/big",)
    assert not stage.must_wait()
    stage.writes.gates["b"].set()
    await turns()
    assert stage.evictions.nearly_done() == ()


async def test_a_preemptor_that_is_shut_out_again_need_not_be_queried() -> None:
    stage = Stage()
    stage.writes.gates = {name: asyncio.Event() for name in "abc"}
    stage.evictions.begin(stage.preemption("a"))
    await turns()
    stage.terminating("a")
    assert stage.evictions.nearly_done() == ("default/big",)
    stage.evictions.begin(stage.preemption("b", "c"))
    await turns()
    assert (stage.must_wait(), stage.evictions.nearly_done()) == (True, ())
    stage.writes.gates["a"].set()
    await turns()
    assert (stage.must_wait(), stage.evictions.nearly_done()) == (True, ()), "what is over opens nothing that is not"


async def test_a_preemptor_in_its_pause_may_be_let_in_before() -> None:
    stage = Stage()
    stage.writes.failures["v"] = FORBIDDEN
    for _ in range(2):
        stage.evictions.begin(stage.preemption("v"))
        assert stage.must_wait()
        await turns()
    assert stage.activated == ["big"], "after the first failure at once"
    assert (stage.must_wait(), stage.evictions.nearly_done()) == (False, ("default/big",))
    await stage.clock.advance(2.0)
    assert stage.activated == ["big", "big"]
    assert stage.evictions.nearly_done() == ()
