"""Data of plugins' own: fetched at once and then periodically, whatever the source or the plugin does."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import structlog

from kscheduler.aio.clock import VirtualClock
from kscheduler.aio.tasks import BackgroundService, end_others, running
from kscheduler.assembly import Assembly, Ports
from kscheduler.config.loader import default_configuration
from kscheduler.framework.plugin import REFRESH_SECONDS, Plugin, RefreshError
from kscheduler.framework.plugin_contract import contract_problems
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.background.refreshed_plugins import QUIET_SECONDS, RefreshedPlugins
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.supervision.alarm import TimeBudgetError


class Fetching(Plugin):
    """Counts its refreshes; fails as often as it is told."""

    name = "Fetching"
    refresh_interval = 10.0

    def __init__(self, *failures: BaseException) -> None:
        self.fetched = 0
        self.failures = list(failures)

    async def refresh(self) -> None:
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
        self.fetched += 1


class FetchingForever(Fetching):
    """Its source accepts the connection, and then says nothing."""

    async def refresh(self) -> None:
        self.fetched += 1
        await asyncio.get_running_loop().create_future()


class Heard:
    """A listener that notes what it hears."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []

    def failed(self, plugin: str, point: str, pod: Any, failure: BaseException, then: str = "") -> None:
        self.failures.append(failure)

    def slow(self, plugin: str, point: str, pod: Any, seconds: float, nodes: int = 0) -> None:
        pass


class World:
    """Profiles in force, set by hand, and a clock."""

    def __init__(self, *plugins: Plugin) -> None:
        self.clock = VirtualClock()
        self.heard = Heard()
        assembly = Assembly(default_configuration("red"), registry(), Ports(), self.clock)
        (self._default,) = assembly.profiles.values()
        self.in_force: list[Profile] = [self.profile(*plugins)]
        self.in_use_at_ends: list[int] = []
        self.refreshed = RefreshedPlugins(lambda: self.in_force, self.clock, on_end=self._note_end)

    def _note_end(self) -> None:
        self.in_use_at_ends.append(len(list(self.refreshed.profiles_in_use())))

    def profile(self, *plugins: Plugin) -> Profile:
        instances = (*self._default.instances, *plugins)
        return replace(self._default, instances=instances, listener=self.heard)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[list[Any]]:
        with structlog.testing.capture_logs() as lines:
            async with running(BackgroundService("data", self.refreshed.run)):
                await self.clock.advance(0.0)
                yield lines


def events(lines: Iterable[Any]) -> list[str]:
    return [line["event"] for line in lines]


async def test_at_once_then_at_its_interval_within_a_tenth() -> None:
    plugin = Fetching()
    world = World(plugin)
    async with world.running() as lines:
        assert plugin.fetched == 1
        await world.clock.advance(8.9)
        assert plugin.fetched == 1
        await world.clock.advance(2.2)
        assert plugin.fetched == 2
        assert await world.refreshed.wait_for_first(1.0) == []
        assert world.refreshed.results() == {("Fetching", "red", "success"): 2.0}
        assert not list(world.refreshed.notes())
    assert not lines


async def test_an_outage_is_reported_once_a_minute_and_when_it_is_over_and_is_no_strike() -> None:
    plugin = Fetching(*(ConnectionRefusedError("nobody listens") for _ in range(8)))
    world = World(plugin)
    async with world.running() as lines:
        assert await world.refreshed.wait_for_first(1.0) == ["Fetching of red"]
        assert world.refreshed.ages() == {("Fetching", "red"): float("inf")}
        note = 'data of plugin "Fetching" of profile "red": none yet: ConnectionRefusedError: nobody listens'
        assert list(world.refreshed.notes()) == [note]
        await world.clock.advance(QUIET_SECONDS + 11.0)
        reported = [line for line in lines if line["event"] == "plugin_not_refreshed"]
        assert [line.get("times_since", 0) for line in reported] == [0, reported[-1]["times_since"]]
        assert reported[-1]["times_since"] >= 4
        assert "exc_info" not in reported[0]
        await world.clock.advance(60.0)
        assert plugin.fetched
        assert events(lines)[-1] == "plugin_refreshed"
        assert not list(world.refreshed.notes())
        assert world.refreshed.ages()["Fetching", "red"] < 11.0
    assert not world.heard.failures


async def test_another_cause_of_an_outage_is_reported_at_once() -> None:
    plugin = Fetching(*(ConnectionRefusedError("nobody listens") for _ in range(2)), RefreshError("nonsense"))
    world = World(plugin)
    async with world.running() as lines:
        await world.clock.advance(23.0)
        assert [(line["err"], line.get("times_since", 0)) for line in lines] == [
            ("ConnectionRefusedError: nobody listens", 0),
            ("nonsense", 1),
        ]


async def test_what_was_fetched_before_grows_old() -> None:
    plugin = Fetching()
    world = World(plugin)
    async with world.running() as lines:
        plugin.failures = [RefreshError("the answer names no nodes")] * 3
        await world.clock.advance(33.5)
        reported = [line for line in lines if line["event"] == "plugin_not_refreshed"]
        assert reported[0]["err"] == "the answer names no nodes"
        assert 9.0 <= reported[0]["data_age_seconds"] <= 11.0
        (note,) = world.refreshed.notes()
        assert "s old: the answer names no nodes" in note


async def test_a_bug_is_reported_with_its_traceback_and_an_answer_that_breaks_off_without() -> None:
    plugin = Fetching(KeyError("items"))
    world = World(plugin)
    async with world.running() as lines:
        assert isinstance(lines[0]["exc_info"], KeyError)
        plugin.failures = [aiohttp.ServerDisconnectedError()]
        await world.clock.advance(200.0)
        again = Fetching(aiohttp.ServerDisconnectedError())
        world.in_force = [world.profile(again)]
        world.refreshed.look()
        await world.clock.advance(0.0)
        assert lines[-1]["event"] == "plugin_not_refreshed"
        assert "exc_info" not in lines[-1]
    assert not world.heard.failures, "a source that sends nonsense is no strike"


async def test_a_refresh_that_holds_the_loop_is_a_strike() -> None:
    world = World(Fetching(TimeBudgetError("interrupted")))
    async with world.running():
        await world.clock.advance(0.0)
    assert [type(failure) for failure in world.heard.failures] == [TimeBudgetError]


async def test_a_source_that_never_answers_is_given_up_and_queried_again() -> None:
    plugin = FetchingForever()
    world = World(plugin)
    async with world.running() as lines:
        await world.clock.advance(REFRESH_SECONDS)
        assert lines[0]["err"] == "it took longer than 30 s"
        await world.clock.advance(11.0)
        assert plugin.fetched == 2


class UnspeakableError(Exception):
    """One whose text cannot be made."""

    def __str__(self) -> str:
        raise ValueError("a bug in a bug")


class FetchingOddly(Fetching):
    """Cancels its own task, then changes its interval, then raises what cannot be said."""

    async def refresh(self) -> None:
        self.fetched += 1
        if self.fetched == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
        elif self.fetched == 2:
            self.refresh_interval = "soon"  # type: ignore[assignment]
        elif self.fetched == 3:
            raise UnspeakableError


async def test_whatever_a_plugin_does_to_its_refresh_another_follows() -> None:
    plugin = FetchingOddly()
    world = World(plugin)
    async with world.running() as lines:
        await world.clock.advance(45.0)
        assert plugin.fetched >= 4
        assert [line["err"] for line in lines if line["event"] == "plugin_not_refreshed"] == [
            "its task was cancelled",
            "UnspeakableError: (its text cannot be made: ValueError)",
        ]
        assert not list(world.refreshed.notes())


class FetchingDeaf(Fetching):
    """Does not even hear that it is cancelled, until it may."""

    may_end = False

    async def refresh(self) -> None:
        while not self.may_end:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                self.fetched += 1


async def test_one_that_ignores_its_cancellation_is_reported_and_keeps_nobody_from_ending() -> None:
    plugin = FetchingDeaf()
    world = World(plugin)
    async with world.running() as lines:
        await world.clock.advance(REFRESH_SECONDS)
        assert [line["err"] for line in lines] == ["it took longer than 30 s"]
        assert list(world.refreshed.notes()) == [
            'data of plugin "Fetching" of profile "red": none yet: it took longer than 30 s'
        ]
        await world.clock.advance(100.0)
        assert plugin.fetched == 1, "the next begins after its end"
        ending = asyncio.ensure_future(world.clock.run_to_next())
    await ending
    plugin.may_end = True
    assert await end_others(5.0) == []


class FetchingSulkily(FetchingForever):
    """Answers its cancellation with an error of its own, as clients of outside services do."""

    async def refresh(self) -> None:
        try:
            await super().refresh()
        except asyncio.CancelledError:
            raise RefreshError("broken off") from None


async def test_what_a_plugin_answers_to_its_cancellation_is_nobodys_concern() -> None:
    """Else asyncio reports a task whose exception was never retrieved, with a traceback, at each reload."""
    world, reported = World(FetchingSulkily()), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    async with world.running():
        await world.clock.advance(0.0)
        world.in_force = [world.profile()]
        world.refreshed.look()
        await world.clock.advance(0.0)
        assert not list(world.refreshed.profiles_in_use())
    gc.collect()
    assert reported == []


async def test_a_replaced_plugin_ends_before_it_is_closed_and_a_kept_one_goes_on() -> None:
    kept, replaced, new = Fetching(), FetchingForever(), Fetching()
    world = World(kept, replaced)
    async with world.running():
        world.in_force = [world.profile(kept, new)]
        world.refreshed.look()
        assert [profile.name for profile in world.refreshed.profiles_in_use()] == ["red"]
        await world.clock.advance(0.0)
        assert world.in_use_at_ends == [0]
        assert (kept.fetched, new.fetched) == (1, 1)
        await world.clock.advance(100.0)
        assert replaced.fetched == 1
        assert kept.fetched >= 9
    before = kept.fetched
    await world.clock.advance(100.0)
    assert kept.fetched == before


def test_a_plugin_with_refresh_says_how_often() -> None:
    class Judging(Fetching):
        def score(self, cycle: Any, pod: Any, nodes: Any, rows: Any) -> Any: ...

    class Hasty(Judging):
        refresh_interval = 0.0

    class Silent(Plugin):
        name = "Fetching"

        score = Judging.score

        async def refresh(self) -> None:
            pass

    class Plain(Judging):
        def refresh(self) -> None:  # type: ignore[override]
            pass

    assert contract_problems(Judging(), "Fetching") == []
    for plugin, reported in ((Hasty(), "`refresh_interval` is 0.0"), (Silent(), "`refresh_interval` is None")):
        (problem,) = contract_problems(plugin, "Fetching")
        assert reported in problem
    (problem,) = contract_problems(Plain(), "Fetching")
    assert problem == "`refresh` is a plain method: declare it with `async def`"
