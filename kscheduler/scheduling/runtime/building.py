"""Plugins, built: the factory is a user's code too, and so is what a plugin registers before the first pod comes.

A plugin that fails here ends the start: it is better not to begin than to decide without one of its rules.
"""

from collections.abc import Sequence
from typing import Any

from kscheduler.framework.events import ClusterEventWithHint
from kscheduler.framework.handle import Handle
from kscheduler.framework.plugin import EnqueueExtensions, Plugin
from kscheduler.framework.registry import Registry
from kscheduler.scheduling.runtime.points import EVENTS_TO_REGISTER, FACTORY


def call_factory(registry: Registry, name: str, args: Any, handle: Handle) -> Plugin:
    """A plugin of this name. Raises `PluginFailure`; its cause is a `ValueError` where the arguments are wrong."""
    return FACTORY.ask(name, registry.build, name, args, handle)


def call_events_to_register(name: str, plugin: EnqueueExtensions) -> Sequence[ClusterEventWithHint]:
    """The events that may change the plugin's verdict. Raises `PluginFailure`."""
    return EVENTS_TO_REGISTER.ask(name, plugin.events_to_register)
