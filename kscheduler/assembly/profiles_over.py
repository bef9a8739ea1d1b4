"""Profiles over a cache: everything that a decision needs, live in the service, over copied state in what-if.

Plugins use the outside world through their Handle only. It is built here, so a plugin finds the same in both places;
ports that what-if does not connect have no effect.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

import msgspec

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.assembly.ports import Ports
from kscheduler.config.errors import ConfigError, Problem
from kscheduler.config.expansion import with_entry
from kscheduler.config.feature_gates import DEFAULT_GATES, FeatureGates
from kscheduler.config.loader import LoadedConfig
from kscheduler.config.reading.lines import with_lines
from kscheduler.framework.cluster.claim_writing import ClaimWriter
from kscheduler.framework.cluster.preemption import NO_EVICTIONS, Evictions
from kscheduler.framework.handle import Handle, NodesChanged, WaitingPods
from kscheduler.framework.plugin_listener import NO_LISTENER, PluginListener
from kscheduler.framework.registry import Registry
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.extenders.addresses import unusable_extenders
from kscheduler.scheduling.profiles import Profiles, build_profiles
from kscheduler.scheduling.supervision.supervisor import UNOBSERVED_CIRCUITS, CircuitObserver
from kscheduler.state.cache import Cache
from kscheduler.state.waiting_pods import WaitingPodTable


def profiles_over(
    cache: Cache,
    config: LoadedConfig,
    registry: Registry,
    ports: Ports | None = None,
    *,
    evictions: Evictions = NO_EVICTIONS,
) -> Profiles:
    """Every profile of the configuration, over a cache where no pod waits for Permit and, by default, none is evicted.

    Raises `ConfigError` with all problems of the first profile that cannot be built.
    """
    handle = handle_over(cache, ports or Ports(), gates=config.gates, evictions=evictions)
    return built_profiles(config, registry, handle)


def built_profiles(
    config: LoadedConfig,
    registry: Registry,
    handle: Handle,
    listener: PluginListener = NO_LISTENER,
    circuits: CircuitObserver = UNOBSERVED_CIRCUITS,
) -> Profiles:
    """The profiles of a configuration over a handle; `listener` gets the reports of failing and slow plugins.

    Raises `ConfigError`.
    """
    return build_profiles(config.configuration, registry, handle, listener, circuits)


def that_only_decide(
    config: LoadedConfig,
    registry: Registry,
    handle: Handle,
    listener: PluginListener = NO_LISTENER,
    circuits: CircuitObserver = UNOBSERVED_CIRCUITS,
) -> Profiles:
    """The same without the points that write to the world outside: PreBind and PostBind. Raises `ConfigError`."""
    built = built_profiles(config, registry, handle, listener, circuits)
    return {name: dataclasses.replace(profile, pre_bind=(), post_bind=()) for name, profile in built.items()}


def handle_over(
    cache: Cache,
    ports: Ports,
    *,
    gates: FeatureGates = DEFAULT_GATES,
    clock: Clock = REAL_CLOCK,
    waiting: WaitingPods | None = None,
    evictions: Evictions = NO_EVICTIONS,
    claim_writer: ClaimWriter | None = None,
    nodes_changed: NodesChanged | None = None,
) -> Handle:
    """The Handle for plugins. By default no pod waits for Permit, none is evicted, and nothing is kept."""
    return Handle(
        cache,
        ports.binder,
        WaitingPodTable() if waiting is None else waiting,
        counters=cache.counters,
        nominator=cache.nominator,
        volumes=cache.volumes,
        volume_writer=ports.volume_writer,
        claim_writer=claim_writer,
        devices=cache.devices,
        clock=clock,
        workloads=ports.workloads,
        budgets=ports.budgets,
        evictions=evictions,
        features=gates.enabled_names(),
        behaviours=gates.behaviours,
        observe_volumes=ports.observations.volume_scheduling,
        lister=ports.lister,
        client=ports.client,
        pod_groups=cache.pod_groups,
        nodes_changed=partial(_touch, cache) if nodes_changed is None else nodes_changed,
    )


def _touch(cache: Cache, names: Iterable[str], *, plugin: str = "") -> None:
    del plugin
    cache.touch(names)


# Whether profiles can be built: some mistakes show only when the plugins are built, which needs no cluster.

_FIELD: Final = re.compile(r"((?:plugins|pluginConfig)[\w.\[\]]*): ")


def unusable(loaded: LoadedConfig, plugins: Registry | None = None, *, runs_here: bool = True) -> ConfigError | None:
    """What is wrong with a configuration that could be read: plugins or extenders that cannot be used.

    `runs_here`: whether the files of extenders must be on this machine.
    """
    of_extenders = unusable_extenders(loaded.configuration.extenders, runs_here=runs_here)
    problems = (*profile_problems(loaded, plugins), *of_extenders)
    return ConfigError(with_lines(problems, loaded.data), loaded.where) if problems else None


def profile_problems(loaded: LoadedConfig, plugins: Registry | None = None) -> tuple[Problem, ...]:
    """The problems of each profile separately, or else of all together; empty means that they can be built."""
    known = registry() if plugins is None else plugins
    profiles = loaded.configuration.profiles
    of_each = [problem for profile in profiles for problem in _problems(loaded, known, profile.scheduler_name)]
    return tuple(of_each or _problems(loaded, known))


def _problems(loaded: LoadedConfig, plugins: Registry, only: str = "") -> Iterator[Problem]:
    configuration = loaded.configuration
    if only:
        profiles = tuple(profile for profile in configuration.profiles if profile.scheduler_name == only)
        configuration = msgspec.structs.replace(configuration, profiles=profiles)
    try:
        profiles_over(Cache(), dataclasses.replace(loaded, configuration=configuration), plugins)
    except ConfigError as error:
        for problem in error.problems:
            where = f"{error.where}: " if error.where else ""
            yield placed(Problem("", f"{where}{problem}"), loaded)


def placed(problem: Problem, loaded: LoadedConfig) -> Problem:
    """The problem with the path that its text begins with: `profile NAME: plugins.score: ...`."""
    for index, profile in enumerate(loaded.configuration.profiles):
        start = f"profile {profile.scheduler_name}: "
        if problem.message.startswith(start):
            rest = problem.message.removeprefix(start)
            field = _FIELD.match(rest)
            if field is None:
                return dataclasses.replace(problem, path=f"profiles[{index}]", message=rest)
            of_file = loaded.as_given.profiles  # none where the file has none
            found = Problem(field[1], rest[field.end() :])
            found = with_entry(found, of_file[index].plugins) if index < len(of_file) else found
            return dataclasses.replace(found, path=f"profiles[{index}].{found.path}")
    return problem
