"""A plugin that nobody uses any more is closed once, in bounded time, whatever it does."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

import pytest
import structlog

from kscheduler.aio.clock import VirtualClock
from kscheduler.assembly import Assembly, Ports
from kscheduler.config.loader import default_configuration
from kscheduler.framework.plugin import Plugin
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.attempt.retired_plugins import CLOSE_SECONDS, RetiredPlugins
from kscheduler.scheduling.profile import Profile


class Closing(Plugin):
    """Counts how often it is closed."""

    def __init__(self, name: str = "Closing") -> None:
        self.name = name
        self.closed = 0

    def close(self) -> Awaitable[None] | None:
        self.closed += 1
        return None


class ClosingInTime(Closing):
    """Has something to wait for."""

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.closed += 1


class ClosingNever(Closing):
    """Waits forever."""

    async def close(self) -> None:
        self.closed += 1
        await asyncio.get_running_loop().create_future()


class ClosingDeaf(Closing):
    """Does not even hear that it is cancelled."""

    async def close(self) -> None:
        self.closed += 1
        while self.closed < 3:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                self.closed += 1


class ClosingBadly(Closing):
    """Raises, and not only an `Exception`."""

    def close(self) -> None:
        self.closed += 1
        raise SystemExit(3)


class World:
    """Profiles in force and in use, set by hand."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.assembly = Assembly(default_configuration("red"), registry(), Ports(), self.clock)
        self.in_force: list[Profile] = []
        self.in_use: list[Profile] = []
        self.retired = RetiredPlugins(lambda: self.in_force, lambda: self.in_use, self.clock)

    def profile(self, *plugins: Plugin) -> Profile:
        (default,) = self.assembly.profiles.values()
        return replace(default, instances=(*default.instances, *plugins))

    async def settle(self, seconds: float = 0.1) -> None:
        await self.clock.advance(0.0)  # what was begun sleeps now
        await self.clock.advance(seconds)


@pytest.mark.parametrize("kind", [Closing, ClosingInTime, ClosingNever, ClosingBadly])
async def test_a_replaced_plugin_is_closed_once(kind: type[Closing]) -> None:
    world, plugin = World(), kind()
    world.retired.retire([world.profile(plugin)])
    await world.settle(CLOSE_SECONDS + 1)
    await world.retired.stop()
    assert plugin.closed == 1


async def test_it_is_not_closed_while_an_attempt_has_its_profile() -> None:
    world, plugin = World(), Closing()
    old = world.profile(plugin)
    world.in_use = [old, old]
    world.retired.retire([old])
    world.in_use = [old]
    world.retired.look()
    await world.settle()
    assert (plugin.closed, len(world.retired)) == (0, 1)
    world.in_use = []
    world.retired.look()
    await world.settle()
    assert (plugin.closed, len(world.retired)) == (1, 0)


async def test_a_plugin_that_several_profiles_share_is_closed_with_the_last() -> None:
    world, plugin = World(), Closing()
    red, green = world.profile(plugin), world.profile(plugin)
    world.in_use = [green]
    world.retired.retire([red, green])
    await world.settle()
    assert plugin.closed == 0
    world.in_use = []
    world.retired.look()
    await world.settle()
    assert plugin.closed == 1


async def test_a_plugin_that_its_factory_returns_again_stays_open() -> None:
    world, plugin = World(), Closing()
    world.in_force = [world.profile(plugin)]
    world.retired.retire([world.profile(plugin)])
    await world.settle()
    assert (plugin.closed, len(world.retired)) == (0, 0)
    await world.retired.stop()
    assert plugin.closed == 1


async def test_at_the_end_all_are_closed_those_in_force_and_those_still_in_use() -> None:
    world = World()
    plugins = [Closing("A"), Closing("B"), ClosingInTime("C")]
    world.in_use = [world.profile(plugins[1])]
    world.retired.retire(world.in_use)
    world.in_force = [world.profile(plugins[0], plugins[2])]
    await world.retired.stop()
    assert [plugin.closed for plugin in plugins] == [1, 1, 1]


@pytest.mark.parametrize("kind", [ClosingNever, ClosingDeaf])
async def test_a_plugin_that_hangs_costs_a_line_and_the_others_and_the_end_nothing(kind: type[Closing]) -> None:
    world, hangs, other = World(), kind("Hangs"), Closing("Other")
    world.in_force = [world.profile(hangs, other)]
    with structlog.testing.capture_logs() as lines:
        stopping = asyncio.ensure_future(world.retired.stop())
        await world.settle()
        assert (other.closed, stopping.done()) == (1, False)
        await world.clock.advance(CLOSE_SECONDS + 2)
        assert stopping.done()
    reported = [(line["event"], line["plugin"]) for line in lines]
    assert reported == [("plugin_not_closed", "Hangs")] or kind is ClosingDeaf


async def test_a_plugin_that_raises_costs_a_line_that_names_it() -> None:
    world = World()
    bad, good = ClosingBadly("Bad"), Closing("Good")
    world.retired.retire([world.profile(bad, good)])
    with structlog.testing.capture_logs() as lines:
        await world.settle()
    assert (bad.closed, good.closed) == (1, 1)
    (line,) = lines
    assert (line["event"], line["plugin"], line["extension_point"]) == ("plugin_failed", "Bad", "Close")
