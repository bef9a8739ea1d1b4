"""Refreshing plugins' own data: the call of a plugin's code, guarded, and whose fault a failure is."""

import sys
from typing import Final

from kscheduler.framework.plugin import RefreshError, RefreshPlugin
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.scheduling.runtime.guard import OUTSIDE
from kscheduler.scheduling.runtime.points import REFRESH

_OF_LIBRARIES: Final = (("aiohttp", "ClientError"), ("httpx", "HTTPError"))
"""What HTTP libraries raise that is no `OSError`."""


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
