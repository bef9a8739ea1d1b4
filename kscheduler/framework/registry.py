"""The registry of plugins: factories by name."""

from collections.abc import Callable, Mapping
from typing import Any

from kscheduler.config.in_tree_plugins import IN_TREE_PLUGINS, IN_TREE_POINTS
from kscheduler.framework.handle import Handle
from kscheduler.framework.plugin import Plugin

# `factory(args, handle)`: builds a plugin for one profile. Raises `ValueError` for arguments it cannot take.
PluginFactory = Callable[[Any, Handle], Plugin]


class DuplicatePluginError(ValueError):
    """Two plugins have the same name."""


class Registry:
    """Factories by plugin name."""

    def __init__(self, factories: Mapping[str, PluginFactory] | None = None) -> None:
        self._factories: dict[str, PluginFactory] = dict(factories or {})

    def __contains__(self, name: str) -> bool:
        return name in self._factories

    def names(self) -> tuple[str, ...]:
        """All names, in order of registration."""
        return tuple(self._factories)

    def may_implement(self, version: str, name: str, point: str) -> bool:
        """Whether the plugin exists in this version of Kubernetes and may have the point, before it is built.

        What a plugin that is not in-tree implements shows only then: until then it may have each point.
        """
        if name in IN_TREE_PLUGINS:
            return name in self and point in IN_TREE_POINTS[version].get(name, ())
        return name in self

    def register(self, name: str, factory: PluginFactory) -> None:
        """Add a plugin. Raises `DuplicatePluginError` for a taken name, `TypeError` if `factory` is not callable."""
        if name in self._factories:
            holder = self._factories[name]
            raise DuplicatePluginError(f"a plugin named {name} already exists ({holder!r}); give yours another name")
        if not callable(factory):
            raise TypeError(f"plugin {name}: {factory!r} is no factory; register a callable that takes (args, handle)")
        self._factories[name] = factory

    def args_kind(self, name: str) -> Any:
        """The struct type of a plugin's arguments, if its factory declares one (`args_kind`); else `None`."""
        return getattr(self._factories.get(name), "args_kind", None)

    def copy(self) -> "Registry":
        """Another registry of the same plugins."""
        return Registry(self._factories)

    def build(self, name: str, args: Any, handle: Handle) -> Plugin:
        """Build a plugin. Raises `KeyError` for an unknown name, `ValueError` for bad arguments."""
        return self._factories[name](args, handle)
