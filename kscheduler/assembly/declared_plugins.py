"""Which plugins a module declares: functions under `@plugin`, and classes that derive from `Plugin` and have a `name`.

Only what the module itself defines counts: a policy that imports `NodeResourcesFit` to look at it does not declare
it. A class without a `name` of its own is a part of another one; a name that begins with an underscore says so, too.
"""

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from kscheduler.assembly.class_factory import ClassFactory
from kscheduler.framework.per_node import DECLARED
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.registry import PluginFactory
from kscheduler.framework.traits import points_of

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
        nearly = "; ".join(_nearly_plugins(module))
        raise NoPluginsError(f"it declares no plugin: {nearly}" if nearly else _NOTHING)
    return found


def factory_of(found: Any) -> PluginFactory | None:
    """The factory that an entry point leads to: a class, a function under `@plugin`, or a factory; else `None`."""
    if isinstance(found, type) and issubclass(found, Plugin) and isinstance(getattr(found, "name", None), str):
        return ClassFactory(found)
    return found if callable(found) and not isinstance(found, type) else None


def _nearly_plugins(module: ModuleType) -> Iterator[str]:
    """The module's own classes that lack a name or the base class to be plugins, each with what it lacks."""
    for kind in dict.fromkeys(value for value in vars(module).values() if isinstance(value, type)):
        if kind.__module__ != module.__name__ or kind.__name__.startswith("_"):
            continue
        derives, is_named = issubclass(kind, Plugin), isinstance(vars(kind).get("name"), str)
        if not derives and not points_of(kind):
            continue
        lacks = [] if is_named else [f'has no `name`, as in `name = "{kind.__name__}"`']
        lacks += [] if derives else ["does not derive from `kscheduler.framework.plugin.Plugin`"]
        yield f"class {kind.__name__}{_place_of(kind)} {' and '.join(lacks)}"


def _place_of(kind: type) -> str:
    """` (FILE:LINE)` where the class begins; empty where its source cannot be read."""
    try:
        return f" ({Path(inspect.getsourcefile(kind) or '').name}:{inspect.getsourcelines(kind)[1]})"
    except (OSError, TypeError):
        return ""


def _classes(module: ModuleType) -> list[type[Plugin]]:
    classes = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Plugin)]
    own = (kind for kind in classes if kind.__module__ == module.__name__ and not kind.__name__.startswith("_"))
    return [kind for kind in dict.fromkeys(own) if isinstance(vars(kind).get("name"), str)]
