"""Which plugins a module declares: functions under `@plugin`, and classes that derive from `Plugin` and have a `name`.

Only what the module itself defines counts: a policy that imports `NodeResourcesFit` to look at it does not declare it.
A class without a `name` of its own is a part of another one; a name that begins with an underscore says so, too.
"""

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from kscheduler.framework.per_node import DECLARED
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.registry import PluginFactory
from kscheduler.loading.class_factory import ClassFactory

_NOTHING: Final = (
    'it declares no plugin: neither a function `filter` or `score` under @plugin("Name"), nor a class that derives '
    "from `kscheduler.framework.plugin.Plugin` and has a `name`"
)


_CURE: Final = (
    "give each a name of its own (a profile can enable both), or make one plugin of them: a class that derives from "
    "`kscheduler.framework.plugin.Plugin` with both methods"
)


class NoPluginsError(ValueError):
    """A module declares no plugin, or two of one name."""


def declared_plugins(module: ModuleType) -> Mapping[str, PluginFactory]:
    """Factories by plugin name.

    Raises `NoPluginsError`, and `WrongConstructorError` for a class that cannot be built.
    """
    found: dict[str, PluginFactory] = {}
    for factory in (*vars(module).get(DECLARED, ()), *map(ClassFactory, _classes(module))):
        if factory.name in found:
            both = f"{found[factory.name]!r}, {factory!r}"
            raise NoPluginsError(f"it declares two plugins named {factory.name}: {both}; {_CURE}")
        found[factory.name] = factory
    if not found:
        raise NoPluginsError(_NOTHING)
    return found


def factory_of(found: Any) -> PluginFactory | None:
    """The factory that an entry point leads to: a class, a function under `@plugin`, or a factory; else `None`."""
    if isinstance(found, type) and issubclass(found, Plugin) and isinstance(getattr(found, "name", None), str):
        return ClassFactory(found)
    return found if callable(found) and not isinstance(found, type) else None


def _classes(module: ModuleType) -> list[type[Plugin]]:
    classes = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Plugin)]
    own = (kind for kind in classes if kind.__module__ == module.__name__ and not kind.__name__.startswith("_"))
    return [kind for kind in dict.fromkeys(own) if isinstance(vars(kind).get("name"), str)]
