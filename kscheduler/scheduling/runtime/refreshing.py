"""Refreshing plugins' own data: the call of a plugin's code, guarded."""

from kscheduler.framework.plugin import RefreshPlugin
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.scheduling.runtime.points import REFRESH


async def call_refresh(plugin: RefreshPlugin, listener: PluginListener) -> None:
    """Refresh once. Raises `PluginFailure`, whose cause is what the plugin raised."""
    await REFRESH.run(plugin.name, listener, None, plugin.refresh)
