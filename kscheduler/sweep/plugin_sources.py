"""Plugins of a policy as parts of its runs: each counts by its source, and a file goes along to other machines.

    `plugins` of the sweep file          files and modules
    `pluginSources` of a configuration   likewise; a file must lie in the folder of the configuration, or below it
    names that a profile enables         of packages that declare plugins (the entry points `kscheduler.plugins`)

A module stays where it is installed: a worker must have the same one, which its digest says. What a plugin reads when
it is called, and what a module imports from other packages, is no part of its source.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from kscheduler.assembly.plugin_loading import GROUP
from kscheduler.plugins import in_tree
from kscheduler.sweep.run_spec import PolicyPlugin, digest_of

Tree = dict[str, Any]

_SOURCES: Final = "pluginSources"


def plugin_source(given: str, folder: Path) -> PolicyPlugin:
    """A value of `plugins`: a file, from the folder of the sweep file, or a module. Raises `OSError`."""
    path = folder / given
    if given.endswith(".py") or path.is_file():
        return PolicyPlugin(str(path.resolve()), digest_of([path]), path.read_text(encoding="utf-8"))
    return PolicyPlugin(given, module_digest(given))


def without_sources(tree: Tree, folder: Path) -> tuple[Tree, tuple[PolicyPlugin, ...]]:
    """A checked configuration without its `pluginSources`, and these as plugins. Raises `OSError`."""
    given = [entry.get("file") or entry["module"] for entry in tree.get(_SOURCES) or []]
    found = tuple(plugin_source(each, folder) for each in given)
    return {name: value for name, value in tree.items() if name != _SOURCES}, found


def installed_plugins(tree: Tree) -> tuple[PolicyPlugin, ...]:
    """The packages that declare a plugin which the profile of a configuration names."""
    built_in = in_tree.registry()
    named = {name for name in _names(tree["profiles"][0].get("plugins") or {}) if name not in built_in}
    modules = {module for name in named for module in _modules_declaring(name)}
    return tuple(PolicyPlugin(module, module_digest(module)) for module in sorted(modules))


def changed_module(plugins: Sequence[PolicyPlugin]) -> str:
    """The name of the first module that is not as it was; empty: all are."""
    return next((each.path for each in plugins if not each.text and module_digest(each.path) != each.digest), "")


def restored(plugins: Sequence[PolicyPlugin], folder: Path) -> Iterator[str]:
    """The paths and modules to load; a file that is not there with its content is written into the folder."""
    for number, each in enumerate(plugins):
        path = Path(each.path)
        if not each.text or (path.is_file() and digest_of([path]) == each.digest):
            yield each.path
        else:
            own = folder / str(number)
            own.mkdir()
            (own / path.name).write_text(each.text, encoding="utf-8")
            yield str(own / path.name)


def module_digest(name: str) -> str:
    """Of the source of a module, or of the whole package that it is in; its name where nobody finds it.

    A module may import any other of its package, so these count, too.
    """
    root = _spec(name)
    for parent in _parents(name):
        above = _spec(parent)
        # A namespace package has no source: others may add to it.
        root = above if above is not None and above.origin else root
    if root is None or not root.origin or not Path(root.origin).is_file():
        return name
    files = {Path(root.origin)}
    for folder in root.submodule_search_locations or ():
        files |= set(Path(folder).rglob("*.py"))
    return digest_of(sorted(files))


def _parents(name: str) -> Iterator[str]:
    """`a.b` and `a` of `a.b.c`."""
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def _spec(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name)
    except Exception:  # noqa: BLE001  it runs the packages around the module; loading the plugin says what is wrong
        return None


@cache
def _modules_declaring(plugin: str) -> tuple[str, ...]:
    return tuple(entry.module for entry in entry_points(group=GROUP, name=plugin))


def _names(plugins: Mapping[str, Any]) -> Iterator[str]:
    for points in plugins.values():
        for entry in (points or {}).get("enabled") or []:
            yield str(entry.get("name"))
