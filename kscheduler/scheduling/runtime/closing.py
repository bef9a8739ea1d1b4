"""Closing plugins: the last call of a plugin's code."""

import inspect

from kscheduler.framework.plugin import ClosablePlugin
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import CLOSE


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
