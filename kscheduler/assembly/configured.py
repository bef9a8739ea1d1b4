"""A configuration, complete and valid, with the plugins that it names.

    ConfigurationReader  --file, bytes or nothing-->  Configured  -->  Assembly, explain, config check

A reader belongs to a command line. It may be asked again while the service runs: files that have not changed are not
run again, so that an unchanged configuration is found to be unchanged.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec

from kscheduler.assembly.hanging_imports import hangs_reported
from kscheduler.assembly.plugin_loading import ADVICE, LoadedFiles, PluginLoading, PluginOrigin
from kscheduler.config.errors import ConfigError, Problem
from kscheduler.config.expansion import entry_problems, with_entry
from kscheduler.config.feature_gates import DEFAULT_GATES, FeatureGates
from kscheduler.config.loader import (
    LoadedConfig,
    UnusableConfigError,
    default_configuration,
    load_bytes,
    load_file,
)
from kscheduler.config.types import OWN_SCHEDULER_NAME, KubeSchedulerProfile, PluginEntry
from kscheduler.framework.registry import Registry
from kscheduler.plugins import in_tree


@dataclass(frozen=True, slots=True)
class Configured:
    """What a configuration and a command line come to."""

    config: LoadedConfig
    registry: Registry = field(default_factory=in_tree.registry, compare=False)
    """The in-tree plugins, and those that were loaded."""
    origins: tuple[PluginOrigin, ...] = ()
    """Where the loaded ones came from."""

    @property
    def unused(self) -> tuple[PluginOrigin, ...]:
        """Loaded plugins that no profile enables: they have no effect."""
        profiles = self.config.configuration.profiles
        enabled = {
            entry.name
            for profile in profiles
            for name in profile.plugins.__struct_fields__
            for entry in getattr(profile.plugins, name).enabled
        }
        return tuple(origin for origin in self.origins if origin.name not in enabled)


class ConfigurationReader:
    """Reads configurations under the flags of one command line."""

    def __init__(
        self,
        gates: FeatureGates = DEFAULT_GATES,
        plugins: Sequence[str] = (),
        directories: Sequence[str] = (),
        base: Registry | None = None,
        *,
        enables_plugins: bool = False,
        advice: str = ADVICE,
    ) -> None:
        """`plugins`: values of `--plugin`; `directories`: of `--plugin-directory`; `base`: by default in-tree.

        `enables_plugins`: whether each profile of a file enables the plugins of `--plugin`, as the default one does.
        `advice`: what to do where a file of `pluginSources` is in none of the directories; `{folder}` and `{path}` are
        where it is.
        """
        self._advice = advice
        self._enables_plugins = enables_plugins
        self._gates = gates
        self._plugins = tuple(plugins)
        self._directories = tuple(directories)
        self._base = in_tree.registry() if base is None else base
        self._files = LoadedFiles()

    def follow(self, gates: FeatureGates) -> None:
        """Read under these gates, and the version of Kubernetes that they are of, from now on."""
        self._gates = gates

    @property
    def paths(self) -> tuple[str, ...]:
        """The plugin files of the last reading, also those that could not be used."""
        return self._files.paths

    @property
    def being_loaded(self) -> str:
        """What plugins are loaded from at this moment: `file PATH`, `module NAME`; empty: from nowhere."""
        loads = self._files.being_loaded
        return "" if loads is None else loads.origin

    @property
    def stands_at(self) -> str:
        """`FILE:LINE` where that import stands; empty if there is none."""
        loads = self._files.being_loaded
        return "" if loads is None else loads.stands_at

    def telling_of_hangs(self) -> AbstractContextManager[None]:
        """For a start: while this reads, an import that hangs is logged."""
        return hangs_reported(lambda: self._files.being_loaded)

    def under(self, gates: FeatureGates, *, rereads: bool = True) -> "ConfigurationReader":
        """A reader of the same files under other gates; this one goes on under its own.

        Without `rereads`, plugin files that were read before stay as they were then.
        """
        other = copy(self)
        other._gates = gates
        other._files = replace(self._files, rereads=rereads)
        return other

    def read_file(self, path: str) -> Configured:
        """The configuration of a file; `-` is standard input. Raises `ConfigError`."""
        loading = self._loading()
        try:
            return self._of_file(load_file(path, self._gates, loading), loading)
        except UnusableConfigError as failure:
            raise failure.with_further(_entry_problems(failure, loading)) from None
        finally:
            self._files.note_paths(loading.paths)

    def read_bytes(self, data: bytes, where: str) -> Configured:
        """The configuration of a file's content. Raises `ConfigError`."""
        loading = self._loading()
        try:
            return self._of_file(load_bytes(data, where, self._gates, loading), loading)
        except UnusableConfigError as failure:
            raise failure.with_further(_entry_problems(failure, loading)) from None
        finally:
            self._files.note_paths(loading.paths)

    def default(self, scheduler_name: str = OWN_SCHEDULER_NAME) -> Configured:
        """The configuration without a file: its one profile enables all plugins of `--plugin`. Raises `ConfigError`."""
        loading = self._loading()
        mistakes = loading.load_command_line()
        self._files.note_paths(loading.paths)
        if mistakes:
            raise ConfigError([Problem("", text) for text in mistakes])
        loaded = default_configuration(scheduler_name, self._gates)
        return _configured(enabling(loaded, loading.from_command_line), loading)

    def _of_file(self, loaded: LoadedConfig, loading: PluginLoading) -> Configured:
        names = loading.from_command_line if self._enables_plugins else ()
        return _configured(enabling(loaded, names), loading)

    def _loading(self) -> PluginLoading:
        return PluginLoading(self._base, self._files, self._plugins, self._directories, self._advice)


def _entry_problems(failure: UnusableConfigError, loading: PluginLoading) -> Iterator[Problem]:
    """Plugins that do not exist, in a file that has other mistakes: no plugin is built of such a file.

    While a place that plugins are loaded from has a mistake, any name may be of a plugin of that place.
    """
    if not loading.is_complete or any(problem.path.startswith("pluginSources") for problem in failure.problems):
        return
    readable, registry = failure.readable, loading.registry
    may_implement = partial(registry.may_implement, readable.gates.behaviours.version)
    for index, profile in enumerate(readable.configuration.profiles):
        given = readable.as_given.profiles[index].plugins if readable.as_given.profiles else profile.plugins
        for problem in entry_problems(profile.plugins, may_implement, registry.names()):
            path = f"profiles[{index}].{with_entry(problem, given).path}"
            if not failure.is_in_doubt(f"{path}.name"):
                yield replace(problem, path=path)


def _configured(loaded: LoadedConfig, loading: PluginLoading) -> Configured:
    return Configured(loaded, loading.registry, tuple(loading.origins))


def enabling(loaded: LoadedConfig, names: Sequence[str]) -> LoadedConfig:
    """A configuration with these plugins behind the others of each profile, at each point that they implement."""
    if not names:
        return loaded
    configuration = loaded.configuration
    profiles = tuple(_profile_enabling(profile, names) for profile in configuration.profiles)
    return replace(loaded, configuration=msgspec.structs.replace(configuration, profiles=profiles))


def _profile_enabling(profile: KubeSchedulerProfile, names: Sequence[str]) -> KubeSchedulerProfile:
    before = profile.plugins.multi_point
    new = (PluginEntry(name) for name in names if name not in {entry.name for entry in before.enabled})
    multi_point = msgspec.structs.replace(before, enabled=(*before.enabled, *new))
    return msgspec.structs.replace(profile, plugins=msgspec.structs.replace(profile.plugins, multi_point=multi_point))
