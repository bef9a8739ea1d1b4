"""Plugins that nobody uses any more are closed, each once.

A changed configuration builds all plugins again. An attempt that has begun keeps the plugins that decided it, and may
wait at Permit for fifteen minutes; so a replaced plugin is looked at again whenever an attempt ends, and closed once
no profile in force and no attempt has it. At an orderly end all are closed, after the last attempt.

Closing has a few seconds, in the background. A plugin that raises, or needs longer, costs a line of the log.
Limit: a plain
`close` that never returns holds the event loop, as any plain method of a plugin does.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from kscheduler.aio.clock import Clock, finishes_within
from kscheduler.aio.tasks import TaskSet
from kscheduler.framework.plugin import ClosablePlugin
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.scheduling.profile import Profile, with_whole
from kscheduler.scheduling.runtime.lifecycle_calls import call_close
from kscheduler.scheduling.supervision.supervised import unsupervised
from kscheduler.telemetry.logs import get_logger

_log = get_logger(__name__)

# How long a plugin may take to close.
CLOSE_SECONDS: Final = 5.0
_STOP_SECONDS: Final = CLOSE_SECONDS + 1.0


class RetiredPlugins:
    """Plugins to be closed. Owns the tasks that close them."""

    def __init__(
        self, in_force: Callable[[], Iterable[Profile]], in_use: Callable[[], Iterable[Profile]], clock: Clock
    ) -> None:
        """`in_force`: the profiles that decide now. `in_use`: those of the attempts under way; may repeat itself."""
        self._in_force = in_force
        self._in_use = in_use
        self._clock = clock
        self._retired: dict[int, tuple[ClosablePlugin, PluginListener]] = {}
        """By identity: a factory may have given one plugin to several profiles."""
        self._closing = TaskSet("closing", clock)

    def __len__(self) -> int:
        return len(self._retired)

    def retire(self, profiles: Iterable[Profile]) -> None:
        """Close the plugins of profiles that are in force no more, as soon as no attempt has them."""
        self._retired.update(_closable(profiles))
        self.look()

    def look(self) -> None:
        """Close those that nobody has any more. Called after each attempt while there are any."""
        if not self._retired:
            return
        for number in _closable(self._in_force()):
            self._retired.pop(number, None)  # its factory has returned it again
        in_use = _closable(self._in_use())
        for number in [number for number in self._retired if number not in in_use]:
            self._begin(*self._retired.pop(number))

    async def run(self) -> None:
        """Until cancelled: what is to be done is done when attempts end."""
        await asyncio.get_running_loop().create_future()

    async def stop(self) -> None:
        """Close all plugins: the service ends. Returns after a bounded time."""
        self._retired.update(_closable(self._in_force()))
        while self._retired:
            self._begin(*self._retired.popitem()[1])
        await self._closing.drain(PLUGIN_TIME.at_most(_STOP_SECONDS))

    def _begin(self, plugin: ClosablePlugin, listener: PluginListener) -> None:
        self._closing.spawn(plugin.name, self._close(plugin, listener))

    async def _close(self, plugin: ClosablePlugin, listener: PluginListener) -> None:
        if not await finishes_within(call_close(plugin, listener), PLUGIN_TIME.at_most(CLOSE_SECONDS), self._clock):
            _log.warning("plugin_not_closed", plugin=plugin.name, seconds=CLOSE_SECONDS)


def _closable(profiles: Iterable[Profile]) -> dict[int, tuple[ClosablePlugin, PluginListener]]:
    """The plugins with a `close`, by identity, each with the listener of its profile."""
    plugins: Iterable[tuple[Any, Profile]] = (
        (unsupervised(plugin), profile) for profile in with_whole(profiles) for plugin in profile.instances
    )
    return {
        id(plugin): (cast("ClosablePlugin", plugin), profile.listener)
        for plugin, profile in plugins
        if profile.traits[plugin.name].is_closable
    }
