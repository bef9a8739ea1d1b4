"""The configuration as a recording holds it, and the way back to profiles that decide."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kscheduler import __version__
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.loader import LoadedConfig, dump
from kscheduler.loading import ConfigurationReader, Configured, PluginOrigin
from kscheduler.recorder.redaction.redacting import REDACTED


@dataclass(frozen=True, slots=True)
class Described:
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


def read_description(tree: Mapping[str, Any]) -> Described:
    """Raises `KeyError` or `TypeError` for what no recorder has written."""
    return Described(
        tree["configuration"],
        tree["gates"],
        tree["stages"],
        tree["kubernetes"],
        tuple(PluginOrigin(*each) for each in tree["plugins"]),
        tree["has_classes"],
        tree["version"],
        bool(tree.get(REDACTED)),
    )


def configured_as(recorded: Described, plugins: Sequence[str] = ()) -> Configured:
    """Read the configuration again, with plugins from where they were loaded, and those of `--plugin`.

    Raises `ConfigError` where it cannot be built here, such as for a plugin file that is not there.
    """
    given = plugins or tuple(dict.fromkeys(_sources(recorded)))
    return ConfigurationReader(recorded.feature_gates, given).read_bytes(
        recorded.configuration.encode(), "the recorded configuration"
    )


def _sources(recorded: Described) -> Iterator[str]:
    """What `--plugin` would be given. What the configuration itself names is loaded by it."""
    named = "\n" + recorded.configuration
    for origin in recorded.plugins:
        kind, _, name = origin.origin.partition(" ")
        if kind in ("file", "module") and f" {name}\n" not in named:
            yield name


def changed_plugins(recorded: Described, now: Sequence[PluginOrigin]) -> Iterator[str]:
    """A sentence for each plugin that is not what it was."""
    found = {origin.name: origin for origin in now}
    for origin in recorded.plugins:
        here = found.get(origin.name)
        if here is None:
            yield f"plugin {origin.name} ({origin.origin}) is not loaded here"
        elif here.digest != origin.digest:
            digests = f"{here.digest[:12]}, not {origin.digest[:12]}"
            yield f"plugin {origin.name} has changed since: {here.origin} has the digest {digests}"
