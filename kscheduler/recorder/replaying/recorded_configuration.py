"""The configuration as a recording holds it, and the way back to profiles that decide."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from kscheduler import __version__
from kscheduler.api.kinds import Kind
from kscheduler.assembly import configured_kinds
from kscheduler.assembly.configured import ConfigurationReader, Configured
from kscheduler.assembly.plugin_loading import PluginOrigin
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.loader import LoadedConfig, dump
from kscheduler.config.types import KubeSchedulerProfile, PluginEntry, Plugins, PluginSet
from kscheduler.recorder.redaction import REDACTED


class RecordedConfiguration(msgspec.Struct, frozen=True):
    """What decided, as it was recorded."""

    configuration: str
    """YAML, complete."""
    gates: Mapping[str, bool]
    stages: Mapping[str, bool]
    kubernetes: str
    """The version whose rules were followed."""
    plugins: Sequence[PluginOrigin]
    has_classes: bool
    version: str
    """Of kscheduler."""
    is_redacted: bool = False
    """Names are pseudonyms, and messages are their numbers."""

    @property
    def feature_gates(self) -> FeatureGates:
        """The gates in force, with the version that they are of."""
        return FeatureGates(dict(self.gates), (), dict(self.stages), self.kubernetes)


def described(config: LoadedConfig, origins: Sequence[PluginOrigin], *, has_classes: bool) -> Mapping[str, Any]:
    """What is written of a configuration. Takes milliseconds: called in a thread."""
    return {
        "configuration": dump(config.configuration),
        "gates": dict(config.gates.chosen),
        "stages": dict(config.gates.all_of_a_stage),
        "kubernetes": config.gates.version,
        "plugins": [(origin.name, origin.origin, origin.digest) for origin in origins],
        "has_classes": has_classes,
        "version": __version__,
    }


def read_description(tree: Mapping[str, Any]) -> RecordedConfiguration:
    """Raises `KeyError` or `TypeError` for what no recorder has written."""
    return RecordedConfiguration(
        tree["configuration"],
        tree["gates"],
        tree["stages"],
        tree["kubernetes"],
        tuple(PluginOrigin(*each) for each in tree["plugins"]),
        tree["has_classes"],
        tree["version"],
        bool(tree.get(REDACTED)),
    )


def followed_kinds(kinds: Sequence[Kind], config: LoadedConfig) -> list[Kind]:
    """The kinds of a recording, in the same order, each in the version that the configuration follows.

    A recording names resources without a version; handlers are registered by kind, and so by version.
    """
    followed = {kind.resource: kind for kind in configured_kinds(config)}
    return [followed.get(kind.resource, kind) for kind in kinds]


def configured_as(recorded: RecordedConfiguration, plugins: Sequence[str] = ()) -> Configured:
    """Read the configuration again, with plugins from where they were loaded, and those of `--plugin`.

    Raises `ConfigError` where it cannot be built here, such as for a plugin file that is not there.
    """
    given = plugins or tuple(dict.fromkeys(_sources(recorded)))
    return ConfigurationReader(recorded.feature_gates, given).read_bytes(
        recorded.configuration.encode(), "the recorded configuration"
    )


def configured_instead(
    recorded: RecordedConfiguration, given: Sequence[str], directories: Sequence[str] = ()
) -> Configured:
    """The same with those of its plugins that `--plugin` brings: a copy in place of a file that is not as it was.

    Raises `ConfigError`, as `configured_as`.
    """
    gates = recorded.feature_gates
    _, others = _brought(recorded, gates, given)
    return ConfigurationReader(gates, (*given, *others), directories).read_bytes(
        recorded.configuration.encode(), "the recorded configuration"
    )


def not_as_recorded(problem: object) -> str:
    """What is wrong where what has decided cannot be built here: files of today are to blame, and no recording."""
    way = "put back its files as they were, or give copies of them with --plugin FILE"
    return f"the recorded configuration cannot be built here, though the recording is whole: {way}\n{problem}"


def configured_with(
    recorded: RecordedConfiguration, gates: FeatureGates, given: Sequence[str], directories: Sequence[str] = ()
) -> Configured:
    """The recorded configuration and its profiles, each with the plugins of `--plugin` behind its own.

    A plugin that is recorded already takes the place of the recorded one, where its profiles enable it; the others are
    enabled with weight 1. Raises `ConfigError`, as `configured_as`.
    """
    brought, others = _brought(recorded, gates, given)
    configured = ConfigurationReader(gates, (*given, *others), directories).read_bytes(
        recorded.configuration.encode(), "the recorded configuration with --plugin"
    )
    names = [origin.name for origin in configured.unused if origin.name in brought]
    configuration = configured.config.configuration
    profiles = tuple(_with_plugins(profile, names) for profile in configuration.profiles)
    configuration = msgspec.structs.replace(configuration, profiles=profiles)
    return replace(configured, config=replace(configured.config, configuration=configuration))


def _brought(recorded: RecordedConfiguration, gates: FeatureGates, given: Sequence[str]) -> tuple[set[str], list[str]]:
    """The names of the plugins of `--plugin`, and the recorded places of all others.

    A name may come from one place only, so the recorded places that have such a name are left out.
    """
    brought = {origin.name for origin in ConfigurationReader(gates, given).default().origins}
    replaced = {origin.origin.partition(" ")[2] for origin in recorded.plugins if origin.name in brought}
    places = dict.fromkeys(_sources(recorded))
    return brought, [place for place in places if place not in replaced and place not in given]


def _with_plugins(profile: KubeSchedulerProfile, names: Sequence[str]) -> KubeSchedulerProfile:
    """The profile with these plugins at each point that they implement."""
    everywhere = profile.plugins.multi_point
    sets: dict[str, PluginSet] = {
        field: _without_star(getattr(profile.plugins, field), everywhere.enabled)
        for field in profile.plugins.__struct_fields__
    }
    enabled = (*everywhere.enabled, *map(PluginEntry, names))
    sets["multi_point"] = PluginSet(enabled, everywhere.disabled)
    return msgspec.structs.replace(profile, plugins=Plugins(**sets))


def _without_star(of_point: PluginSet, everywhere: Sequence[PluginEntry]) -> PluginSet:
    """A `*` among what a point disables would keep the new plugins out, too: it becomes the names that it means."""
    if not any(entry.name == "*" for entry in of_point.disabled):
        return of_point
    return PluginSet(of_point.enabled, tuple(PluginEntry(entry.name) for entry in everywhere))


def _sources(recorded: RecordedConfiguration) -> Iterator[str]:
    """What `--plugin` would be given. What the configuration itself names is loaded by it."""
    named = "\n" + recorded.configuration
    for origin in recorded.plugins:
        kind, _, name = origin.origin.partition(" ")
        if kind in ("file", "module") and f" {name}\n" not in named:
            yield name


def changed_plugins(recorded: RecordedConfiguration, now: Sequence[PluginOrigin]) -> Iterator[str]:
    """A sentence for each plugin that is not what it was."""
    found = {origin.name: origin for origin in now}
    for origin in recorded.plugins:
        here = found.get(origin.name)
        if here is None:
            yield f"plugin {origin.name} ({origin.origin}) is not loaded here"
        elif here.digest != origin.digest:
            digests = f"{here.digest[:12]}, not {origin.digest[:12]}"
            yield f"plugin {origin.name} has changed since: {here.origin} has the digest {digests}"
