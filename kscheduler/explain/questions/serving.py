"""The profiles that are served, according to the command line; running schedulers are not asked."""

from dataclasses import dataclass, replace

import msgspec

from kscheduler.config.loader import LoadedConfig
from kscheduler.framework.registry import Registry
from kscheduler.loading import Configured


@dataclass(frozen=True, slots=True)
class Serving:
    """A configuration and its source."""

    config: LoadedConfig
    source: str
    """The source, for the text: a file, a flag, the default."""
    registry: Registry | None = None
    """The plugins by name; `None`: the in-tree ones."""

    @property
    def names(self) -> tuple[str, ...]:
        """The scheduler names of its profiles."""
        return tuple(profile.scheduler_name for profile in self.config.configuration.profiles)

    def for_pod(self, scheduler_name: str) -> LoadedConfig:
        """The configuration for a name; for an unknown name the first profile is renamed."""
        if scheduler_name in self.names:
            return self.config
        configuration = self.config.configuration
        first, *others = configuration.profiles
        renamed = msgspec.structs.replace(first, scheduler_name=scheduler_name)
        pretended = msgspec.structs.replace(configuration, profiles=(renamed, *others))
        return replace(self.config, configuration=pretended)


def serving(configured: Configured, scheduler_name: str = "") -> Serving:
    """The configuration of a file, or the default plugins under a name, or what `kscheduler run` serves by default."""
    config, registry = configured.config, configured.registry
    if config.where:
        return Serving(config, f"profiles of {config.where}", registry)
    if scheduler_name:
        return Serving(config, "--scheduler-name", registry)
    source = (
        "what `kscheduler run` serves unless told otherwise; say what yours serves with --config or --scheduler-name"
    )
    return Serving(config, source, registry)
