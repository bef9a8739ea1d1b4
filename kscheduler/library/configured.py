"""Who schedules: a configuration as a path, a text, a dict or nothing, and plugins as files, modules or functions."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

from kscheduler.api.releases import BEHAVIOURS, VERSION, listed
from kscheduler.assembly.configured import ConfigurationReader, Configured, enabling
from kscheduler.assembly.declared_plugins import factory_of
from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.types import OWN_SCHEDULER_NAME
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.registry import PluginFactory, Registry
from kscheduler.library.cluster_error import ClusterError
from kscheduler.plugins import in_tree
from kscheduler.scenario.serving import Serving, serving

# A path, the text of a KubeSchedulerConfiguration, the same as a dict; `None`: the default plugins.
Configuration = str | PathLike[str] | Mapping[str, Any] | None
# A file or module with plugins, a function under `@plugin`, a class with a `name`, or the name of a policy.
GivenPlugin = str | PathLike[str] | type[Plugin] | PluginFactory

_WHERE: Final = "configuration"
_PLUGIN_FILES: Final = (
    "a configuration that is a file may name those in its folder; in place of `pluginSources`, "
    'plugins=["{path}"] takes any'
)


@dataclass(frozen=True, slots=True)
class Schedulers:
    """What a caller has said of who schedules."""

    configuration: Configuration = None
    plugins: Sequence[GivenPlugin] = ()
    version: str = ""
    """Of kube-scheduler, by whose rules is decided; empty: the first that takes the configuration."""
    feature_gates: Mapping[str, bool] = field(default_factory=dict)

    def serving(self) -> Serving:
        """The profiles. Raises `ConfigError`, `ClusterError`."""
        _check_types(self.version, self.feature_gates)
        if self.version and self.version not in BEHAVIOURS:
            raise ClusterError(f"version: {self.version!r} is none of those that are followed: {listed(BEHAVIOURS)}")
        if self.version:
            return self.read_as(self.version)
        with suppress(ConfigError):
            return self.read_as(VERSION)
        for version in BEHAVIOURS:
            with suppress(ConfigError):
                return self.read_as(version)
        return self.read_as(VERSION)  # none takes it: this one says why

    def read_as(self, version: str) -> Serving:
        """The profiles as a version of kube-scheduler has them. Raises `ConfigError`, `ClusterError`."""
        registry = in_tree.registry()
        paths, names = list[str](), list[str]()
        for given in self.plugins:
            if isinstance(given, str) and given in registry:
                names.append(given)
            elif isinstance(given, str | PathLike):
                _refuse_misspelt(given, registry)
                paths.append(fspath(given))
            else:
                names.append(_registered(given, registry))
        chosen = ",".join(f"{name}={str(value).lower()}" for name, value in self.feature_gates.items())
        gates = parse_feature_gates(chosen, "feature_gates", version)
        reader = ConfigurationReader(
            gates, paths, self._plugin_directories(), base=registry, enables_plugins=True, advice=_PLUGIN_FILES
        )
        configured = self._read(reader)
        return serving(replace(configured, config=enabling(configured.config, names)))

    def _plugin_directories(self) -> tuple[str, ...]:
        """Where files of `pluginSources` may lie: beside a configuration that is a file, whose folder is the user's."""
        given: Any = self.configuration
        is_file = isinstance(given, PathLike) or (isinstance(given, str) and not is_text(given))
        return (str(Path(fspath(given)).parent),) if is_file else ()

    def _read(self, reader: ConfigurationReader) -> Configured:
        given: Any = self.configuration
        match given:
            case None:
                return reader.default(OWN_SCHEDULER_NAME)
            case str(text) if is_text(text):
                return reader.read_bytes(text.encode(), _WHERE)
            case str() | PathLike() as path:
                return reader.read_file(fspath(path))
            case Mapping() as tree:
                try:
                    return reader.read_bytes(json.dumps(dict(tree)).encode(), _WHERE)
                except TypeError as problem:
                    raise ClusterError(f"{_WHERE}: {problem}") from None
            case _:
                raise ClusterError(f"{_WHERE}: a path, a text or a dict was expected, not {type(given).__name__}")


def _check_types(version: Any, feature_gates: Any) -> None:
    """Raises `ClusterError`: both are often written as they are not: 1.37, a list of gates."""
    if version and not isinstance(version, str):
        raise ClusterError(f"version: a text such as '1.37' was expected, not {version!r:.80}")
    if not isinstance(feature_gates, Mapping):
        expected = "a dict such as {'GenericWorkload': True} was expected"
        raise ClusterError(f"feature_gates: {expected}, not {feature_gates!r:.80}")


def given_plugins(given: Any) -> tuple[GivenPlugin, ...]:
    """The plugins, of which one may be given without a list."""
    if given is None:
        return ()
    return tuple(given) if isinstance(given, Iterable) and not isinstance(given, str | type) else (given,)


def _refuse_misspelt(given: str | PathLike[str], registry: Registry) -> None:
    """Raises `ClusterError` for what is no module and nearly the name of a plugin."""
    name = fspath(given)
    if name.isidentifier() and (near := get_close_matches(name, registry.names(), n=1)) and find_spec(name) is None:
        raise ClusterError(f"plugins: there is no plugin {name}, and no module; did you mean {near[0]}?")


def is_text(given: str) -> bool:
    """Whether a string is YAML or JSON, and no name of a file."""
    return "\n" in given or given.lstrip().startswith(("{", "[")) or ": " in given


def _registered(given: Any, registry: Registry) -> str:
    factory = factory_of(given)
    name = getattr(factory, "name", None)
    if factory is None or not isinstance(name, str):
        raise ClusterError(
            f"plugins: {given!r:.80} is no plugin: give a function under @plugin, a class with a `name`, or a file"
        )
    registry.register(name, factory)
    return name
