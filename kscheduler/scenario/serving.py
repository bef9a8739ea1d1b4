"""The profiles that are served, according to the command line; running schedulers are not asked.

Where the command line does not say who schedules, each pod is answered under its own scheduler's name, by the default
plugins: on most clusters that is `default-scheduler`, and a first question needs no flag.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import msgspec

from kscheduler.answers import whose_rules
from kscheduler.api.quantity import QuantityError
from kscheduler.api.well_known import DEFAULT_SCHEDULER_NAME
from kscheduler.assembly import group_apis
from kscheduler.assembly.configured import Configured
from kscheduler.config.loader import LoadedConfig, default_configuration
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.registry import Registry
from kscheduler.scenario.decide import cluster_cache, profiles_at, scenario_ports
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scheduling.profiles import Profiles
from kscheduler.state.cache import Cache

# The source of objects that were read from an API server.
LIVE: Final = "cluster"
# Scheduler names that get a profile of their own: anyone who creates a pod may write a new one.
MAX_FOLLOWED: Final = 32


@dataclass(frozen=True, slots=True)
class Serving:
    """A configuration and its source."""

    config: LoadedConfig
    source: str
    """The source, for the text: a file, a flag, the default."""
    registry: Registry | None = None
    """The plugins by name; `None`: the in-tree ones."""
    is_presumed: bool = False
    """Whether nobody has said who schedules."""
    why_version: str = ""
    """Why the rules are those of that version of kube-scheduler, as `whose_rules` takes it."""
    is_other_version: bool = False
    """Whether that is another version than the API server's, or the API server has not told its own."""
    followed: tuple[str, ...] = ()
    """Scheduler names that pods have and nobody has spoken of: each has a profile like the first."""

    @property
    def rules(self) -> str:
        """By whose rules is decided, and why, for the text."""
        return whose_rules(self.config.gates.version, self.why_version)

    @property
    def names(self) -> tuple[str, ...]:
        """The scheduler names of its profiles."""
        return tuple(profile.scheduler_name for profile in self.config.configuration.profiles)

    def following(self, scheduler_names: Iterable[str]) -> "Serving":
        """If nobody has said who schedules: with a profile like the first for each of these names, in their order."""
        if not self.is_presumed:
            return self
        new = [name for name in dict.fromkeys(scheduler_names) if name not in self.names]
        new = new[: MAX_FOLLOWED - len(self.followed)]
        if not new:
            return self
        configuration = self.config.configuration
        first = configuration.profiles[0]
        more = (msgspec.structs.replace(first, scheduler_name=name) for name in new)
        profiles = (*configuration.profiles, *more)
        config = replace(self.config, configuration=msgspec.structs.replace(configuration, profiles=profiles))
        return replace(self, config=config, followed=(*self.followed, *new))

    def presumptions(self, where: str) -> list[str]:
        """For the reader of an answer about many pods: whose plugins are presumed.

        `where`: the objects' source. Of a file the default plugins are what a reader expects of `default-scheduler`; in
        a live cluster it may have a configuration.
        """
        reported = [name for name in self.followed if name and (where == LIVE or name != DEFAULT_SCHEDULER_NAME)]
        if not reported:
            return []
        names = ", ".join(reported)
        return [f"pods of scheduler {names} are decided about by the default plugins unless --config says more"]

    def for_pod(self, scheduler_name: str) -> LoadedConfig:
        """The configuration for a name; for an unknown name the default plugins, without anybody's extenders."""
        if scheduler_name in self.names:
            return self.config
        return default_configuration(scheduler_name, self.config.gates)


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
    return Serving(config, source, registry, is_presumed=True)


# A cluster as the profiles see it that are asked about all of its pods or nodes.


class ServedCluster(NamedTuple):
    """The state cache, and the profiles over it."""

    cache: Cache
    profiles: Profiles


def served_cluster(objects: ClusterObjects, served: Serving, where: str) -> ServedCluster:
    """Fill a cache from the objects, and build the profiles. Raises `ScenarioError`, which names `where`.

    Pods that wait for the node in their status are nominated there: others leave room for them.
    """
    cache = cluster_cache(objects, None, served.config.gates, where, group_apis(served.config), served.names)
    profiles = profiles_at(where, cache, served.config, served.registry, scenario_ports(objects))
    for pod in objects.pods:
        waits = not pod.spec.node_name and not pod.is_terminal and pod.spec.scheduler_name in profiles
        if waits and pod.status.nominated_node_name:
            try:
                cache.nominator.add(PodInfo(pod))
            except QuantityError:
                continue  # the reader of the objects has told of it
    return ServedCluster(cache, profiles)
