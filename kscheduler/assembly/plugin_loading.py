"""All plugins that a configuration and a command line name, as a registry.

A configuration is often a ConfigMap, and whoever may edit it may not thereby run code: files that it names must lie
below a directory of `--plugin-directory`, which only whoever starts the process can give. A file of the command line
(`--plugin`) may lie anywhere. Modules and distributions are part of what is installed. Distributions are asked last and
by name only: a package that no profile names is never imported.
"""

import importlib
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from kscheduler.assembly.declared_plugins import NoPluginsError, declared_plugins, factory_of
from kscheduler.assembly.hanging_imports import BeingLoaded
from kscheduler.assembly.plugin_files import PluginFile, UnusablePluginError, content_of, digest_of, run_file
from kscheduler.config.errors import Problem
from kscheduler.config.loader import ArgsKind
from kscheduler.config.plugin_args import ARGS_KINDS
from kscheduler.config.reading.decode import Walk
from kscheduler.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile, Plugins, PluginSource
from kscheduler.framework.registry import PluginFactory, Registry

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# Entry points of this group are plugins; the entry point's name is the plugin's.
GROUP: Final = "kscheduler.plugins"
# Where a configuration names a file that it may not have loaded.
ADVICE: Final = "the process must be started with --plugin-directory={folder}"


class PluginOrigin(msgspec.Struct, frozen=True):
    """Where a plugin was loaded from."""

    name: str
    origin: str
    """`file PATH`, `module NAME`, or `distribution NAME VERSION`."""
    digest: str = ""
    """Of a file, as `sha256sum` prints it."""


@dataclass(slots=True)
class LoadedFiles:
    """Files that were run before, so that an unchanged one is not run again. One for the life of a process."""

    by_path: dict[str, PluginFile] = field(default_factory=dict)
    last_paths: list[str] = field(default_factory=list)
    loading: list[BeingLoaded] = field(default_factory=list)
    rereads: bool = True
    """Whether a file that was run before is looked at again. The other fields are shared by both kinds of reading."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of the last reading, also those that could not be used."""
        return tuple(self.last_paths)

    @property
    def being_loaded(self) -> BeingLoaded | None:
        """The latest place that is being loaded, in whatever thread."""
        return self.loading[-1] if self.loading else None

    @contextmanager
    def noting(self, origin: str) -> Iterator[None]:
        """While a place is loaded: so that a caller that waits can say for what."""
        noted = BeingLoaded(origin, threading.get_ident(), time.monotonic())
        self.loading.append(noted)
        try:
            yield
        finally:
            self.loading.remove(noted)

    def note_paths(self, paths: Sequence[str]) -> None:
        """A reading has ended, well or not."""
        self.last_paths[:] = paths

    def plugin_file(self, path: str, sha256: str = "") -> PluginFile:
        """The file's plugins. Raises `UnusablePluginError`."""
        if not self.rereads and path in self.by_path:
            return self.by_path[path]
        data = content_of(path)
        digest = digest_of(data)
        if sha256 and digest != sha256.lower():
            raise UnusablePluginError(f"{path} has the digest {digest}, where {sha256} is expected")
        known = self.by_path.get(path)
        if known is None or known.digest != digest:
            known = self.by_path[path] = run_file(path, data)
        return known


class PluginLoading:
    """One reading of a configuration: implements `config.loader.LoadPlugins`, and keeps what was found."""

    def __init__(
        self,
        base: Registry,
        files: LoadedFiles,
        command_line: Sequence[str] = (),
        directories: Sequence[str] = (),
        advice: str = ADVICE,
    ) -> None:
        """`base`: plugins that need no source. `command_line`: values of `--plugin`; `directories`: of
        `--plugin-directory`. `advice`: as for `ConfigurationReader`.
        """
        self.registry = base.copy()
        self.origins: list[PluginOrigin] = []
        self.paths: list[str] = []
        """The files, also those that could not be used."""
        self.from_command_line: list[str] = []
        """Names of the plugins of `--plugin`."""
        self.is_complete = True
        """Whether each place that was named could be loaded: otherwise there may be plugins that are not known."""
        self._files = files
        self._command_line = command_line
        self._directories = directories
        self._advice = advice

    def __call__(self, configuration: KubeSchedulerConfiguration, walk: Walk, where: str) -> ArgsKind:
        """Load what configuration and command line name; mistakes are noted in the walk."""
        walk.problems.extend(Problem("", text) for text in self.load_command_line())
        for index, source in enumerate(configuration.plugin_sources):
            path = f"pluginSources[{index}]"
            walk.problems.extend(Problem(path + field, text) for field, text in self._load_source(source, where))
        for name, path in _named(configuration.profiles):
            if name not in self.registry and name not in ARGS_KINDS:
                found = [Problem(path, text) for text in self._load_entry_point(name)]
                self.is_complete = self.is_complete and not found
                walk.problems.extend(found)
        return self.registry.args_kind

    def load_command_line(self) -> list[str]:
        """Load the plugins of `--plugin`. Returns the mistakes."""
        mistakes: list[str] = []
        for given in self._command_line:
            known = len(self.origins)
            try:
                if _is_path(given):
                    self._load_file(given, "")
                else:
                    self._load_module(given)
            except UnusablePluginError as failure:
                self.is_complete = False
                mistakes.append(f"--plugin: {failure}")
            self.from_command_line.extend(origin.name for origin in self.origins[known:])
        return mistakes

    def _load_source(self, source: PluginSource, where: str) -> Iterator[tuple[str, str]]:
        """Load an entry of `pluginSources`. Yields mistakes, each with the field below the entry."""
        if bool(source.file) == bool(source.module):
            yield "", "name either a file or a module"
            return
        if source.module and source.sha256:
            yield ".sha256", "goes with a file: a module is what the interpreter has installed"
            return
        try:
            if source.module:
                self._load_module(source.module)
            else:
                self._load_file(self._allowed(source.file, where), source.sha256)
        except UnusablePluginError as failure:
            yield (".module" if source.module else ".file"), str(failure)

    def _allowed(self, given: str, where: str) -> str:
        """The path of a file that a configuration names. Raises `UnusablePluginError` if it may not lie there."""
        beside = Path(where).parent if where and Path(where).is_file() else Path()
        path = beside / given
        real = path.resolve()
        if not any(real.is_relative_to(Path(each).resolve()) for each in self._directories):
            self.paths.append(str(path))
            advice = self._advice.replace("{folder}", str(path.parent)).replace("{path}", str(path))
            raise UnusablePluginError(f"{path} may not be loaded on the word of a configuration alone; {advice}")
        return str(path)

    def _load_file(self, path: str, sha256: str) -> None:
        self.paths.append(path)
        with self._files.noting(f"file {path}"):
            found = self._files.plugin_file(path, sha256)
        self._register(found.plugins, f"file {path}", found.digest)

    def _load_module(self, name: str) -> None:
        if name.partition(".")[0] in sys.stdlib_module_names or "__main__" in name.split("."):
            # Importing it would run it, and some are programs.
            raise UnusablePluginError(f"module {name} has no plugins: it is Python's own, or a program")
        try:
            with self._files.noting(f"module {name}"):
                module = importlib.import_module(name)
        except BaseException as failure:
            if isinstance(failure, KeyboardInterrupt):
                raise
            raise UnusablePluginError(
                f"module {name} cannot be imported: {type(failure).__name__}: {failure}"
            ) from None
        try:
            plugins = declared_plugins(module)
        except (NoPluginsError, TypeError) as failure:
            raise UnusablePluginError(f"module {name}: {failure}") from None
        self._register(plugins, f"module {name}")

    def _load_entry_point(self, name: str) -> Iterator[str]:
        """Load the plugin of a distribution, if one is installed. Yields mistakes."""
        from importlib.metadata import entry_points  # brings a mail parser: only where a package is asked for

        found = tuple(entry_points(group=GROUP, name=name))
        if len(found) > 1:
            yield f"plugin {name} is in several distributions: {', '.join(map(_distribution, found))}"
            return
        for entry in found:
            try:
                with self._files.noting(f"distribution {_distribution(entry)}"):
                    factory = factory_of(entry.load())
            except BaseException as failure:
                if isinstance(failure, KeyboardInterrupt):
                    raise
                yield f"plugin {name} of {_distribution(entry)} cannot be loaded: {type(failure).__name__}: {failure}"
                return
            if factory is None:
                yield f"plugin {name} of {_distribution(entry)}: {entry.value} is neither a plugin nor a factory"
                return
            self._register({name: factory}, f"distribution {_distribution(entry)}")

    def _register(self, plugins: Mapping[str, PluginFactory], origin: str, digest: str = "") -> None:
        for name, factory in plugins.items():
            if name in self.registry:
                holder = next((known.origin for known in self.origins if known.name == name), "kscheduler itself")
                raise UnusablePluginError(f"{origin}: a plugin named {name} exists already ({holder})")
            self.registry.register(name, factory)
            self.origins.append(PluginOrigin(name, origin, digest))


def _is_path(given: str) -> bool:
    return given.endswith(".py") or "/" in given


def _distribution(entry: "EntryPoint") -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "an unknown distribution"


def _named(profiles: Sequence[KubeSchedulerProfile]) -> Iterator[tuple[str, str]]:
    """Each plugin that a profile enables, once, and where."""
    seen = set[str]()
    for index, profile in enumerate(profiles):
        points = zip(Plugins.__struct_fields__, Plugins.__struct_encode_fields__, strict=True)
        for field_name, spelled in points:
            for number, entry in enumerate(getattr(profile.plugins, field_name).enabled):
                if entry.name and entry.name not in seen:
                    seen.add(entry.name)
                    yield entry.name, f"profiles[{index}].plugins.{spelled}.enabled[{number}].name"
