"""The options that a shadow is started with."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.config.errors import config_error
from kscheduler.config.loader import LoadedConfig
from kscheduler.framework.registry import Registry
from kscheduler.plugins import in_tree
from kscheduler.server.serving import HTTPServing
from kscheduler.shadow.comparison import KUBE_SCHEDULER, FollowedScheduler
from kscheduler.shadow.report import ShadowReport

Report = Callable[[ShadowReport], None]


def _say_nothing(_text: str) -> None:
    """In a test, nobody reads."""


@dataclass(frozen=True, slots=True)
class ShadowOptions:
    """The configuration that is tried, and what it is tried on."""

    config: LoadedConfig
    """Has a profile for each name that is followed: see `following`."""
    followed: FollowedScheduler = KUBE_SCHEDULER
    settle_seconds: float = 2.0
    grace_seconds: float = 30.0
    seconds: float | None = None
    """After so long the shadow ends by itself; `None`: at a signal."""
    report: Report | None = None
    """Called at the end and at SIGUSR1; `None`: the report is only served."""
    say: Callable[[str], None] = _say_nothing
    """Gives the user who started it a line: where the report is, and what was probably not meant."""
    serving: HTTPServing = field(default_factory=HTTPServing.plain_on_loopback)
    """Plain ports only: a login would ask the API server by creating reviews."""
    registry: Registry = field(default_factory=in_tree.registry)
    clock: Clock = field(default=REAL_CLOCK)

    @property
    def names(self) -> frozenset[str]:
        """The scheduler names that are followed."""
        return frozenset(profile.scheduler_name for profile in self.config.configuration.profiles)


def following(config: LoadedConfig, names: tuple[str, ...]) -> LoadedConfig:
    """The configuration with a profile for each of these names, and no others; without names, as it is.

    A name that has a profile keeps it. A configuration of one profile decides for every name. Raises `ConfigError`.
    """
    if not names:
        return config
    by_name = {profile.scheduler_name: profile for profile in config.configuration.profiles}
    only = next(iter(by_name.values())) if len(by_name) == 1 else None
    profiles = []
    for name in dict.fromkeys(names):
        profile = by_name.get(name, only)
        if profile is None:
            known = ", ".join(sorted(by_name))
            raise config_error("", f"{name}: no profile has this name, and there are several: {known}", FLAG)
        profiles.append(msgspec.structs.replace(profile, scheduler_name=name))
    configuration = msgspec.structs.replace(config.configuration, profiles=tuple(profiles))
    return replace(config, configuration=configuration)


FLAG = "--follow-scheduler"
