"""A plugin is built, refreshed and closed: the calls that belong to no attempt."""

import inspect
import sys
from collections.abc import Sequence
from typing import Any, Final

from kscheduler.framework.events import ClusterEventWithHint
from kscheduler.framework.handle import Handle
from kscheduler.framework.plugin import ClosablePlugin, EnqueueExtensions, Plugin, RefreshError, RefreshPlugin
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.framework.registry import Registry
from kscheduler.scheduling.runtime.guard import OUTSIDE, PluginFailure
from kscheduler.scheduling.runtime.points import CLOSE, EVENTS_TO_REGISTER, FACTORY, REFRESH

# Building plugins: calls of the factory and of `events_to_register`, both of which run a user's code.
#
# A plugin that fails here stops the start of the service: not starting is better than deciding without one of the
# rules.


def call_factory(registry: Registry, name: str, args: Any, handle: Handle) -> Plugin:
    """Build the plugin of this name. Raises `PluginFailure`, caused by a `ValueError` if the arguments are wrong."""
    return FACTORY.call(name, registry.build, name, args, handle)


def call_events_to_register(name: str, plugin: EnqueueExtensions) -> Sequence[ClusterEventWithHint]:
    """The events after which the plugin's verdict may be different. Raises `PluginFailure`."""
    return EVENTS_TO_REGISTER.call(name, plugin.events_to_register)


# Closing plugins: the last call of a plugin's code.


async def call_close(plugin: ClosablePlugin, listener: PluginListener) -> None:
    """Close the plugin. A failure is reported, and changes nothing."""
    try:
        await CLOSE.run(plugin.name, listener, None, _closed, plugin)
    except PluginFailure:
        return


async def _closed(plugin: ClosablePlugin) -> object:
    """Plain or awaited, in one coroutine, so that its steps are timed."""
    answer: object = plugin.close()
    return await answer if inspect.isawaitable(answer) else answer


# Refreshing plugins' own data: the call of a plugin's code, guarded, and whose fault a failure is.

# What HTTP libraries raise that is no `OSError`.
_OF_LIBRARIES: Final = (("aiohttp", "ClientError"), ("httpx", "HTTPError"))


async def call_refresh(plugin: RefreshPlugin, listener: PluginListener) -> None:
    """Refresh once. Raises `PluginFailure`, whose cause is what the plugin raised."""
    await REFRESH.run(plugin.name, listener, None, plugin.refresh)


def is_of_source(failure: BaseException) -> bool:
    """Whether a refresh failed because its source is away or refuses, and not by a bug of the plugin.

    Such a failure says by itself what is wrong: a traceback would only hide that.
    """
    # What was never imported has raised nothing.
    found = (getattr(sys.modules.get(module), name, None) for module, name in _OF_LIBRARIES)
    return isinstance(failure, (*OUTSIDE, RefreshError, *(kind for kind in found if kind is not None)))
