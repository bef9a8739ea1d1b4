"""Building plugins: calls of the factory and of `events_to_register`, both of which run a user's code.

A plugin that fails here stops the start of the service: not starting is better than deciding without one of the rules.
"""

from collections.abc import Sequence
from typing import Any

from kscheduler.framework.events import ClusterEventWithHint
from kscheduler.framework.handle import Handle
from kscheduler.framework.plugin import EnqueueExtensions, Plugin
from kscheduler.framework.registry import Registry
from kscheduler.scheduling.runtime.points import EVENTS_TO_REGISTER, FACTORY


def call_factory(registry: Registry, name: str, args: Any, handle: Handle) -> Plugin:
    """Build the plugin of this name. Raises `PluginFailure`, caused by a `ValueError` if the arguments are wrong."""
    return FACTORY.call(name, registry.build, name, args, handle)


def call_events_to_register(name: str, plugin: EnqueueExtensions) -> Sequence[ClusterEventWithHint]:
    """The events after which the plugin's verdict may be different. Raises `PluginFailure`."""
    return EVENTS_TO_REGISTER.call(name, plugin.events_to_register)
