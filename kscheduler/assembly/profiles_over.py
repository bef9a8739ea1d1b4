"""Profiles over a cache: everything that a decision needs, live in the service, over copied state in what-if.

Plugins use the outside world through their Handle only. It is built here, so a plugin finds the same in both places;
ports that what-if does not connect have no effect.
"""

import dataclasses
from collections.abc import Iterable
from functools import partial

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.assembly.ports import Ports
from kscheduler.config.feature_gates import DEFAULT_GATES, FeatureGates
from kscheduler.config.loader import LoadedConfig
from kscheduler.framework.cluster.claim_writing import ClaimWriter
from kscheduler.framework.cluster.preemption import NO_EVICTIONS, Evictions
from kscheduler.framework.handle import Handle, NodesChanged, WaitingPods
from kscheduler.framework.plugin_listener import NO_LISTENER, PluginListener
from kscheduler.framework.registry import Registry
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
