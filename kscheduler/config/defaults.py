"""What a file leaves out: the default plugins, how a profile's sets merge with them, and defaults by other settings.

A plugin set at an extension point is merged as follows: `disabled` removes defaults (`*` removes all), an `enabled`
entry that names a default replaces it in place, all other entries follow in their order. The defaults are in
`multiPoint` only; `expansion` works out what they mean for each point.
"""

from collections.abc import Iterable
from typing import Final, TypeVar

from msgspec.structs import replace

from kscheduler.api.well_known import DEFAULT_SCHEDULER_NAME
from kscheduler.config.durations import seconds
from kscheduler.config.feature_gates import PLACEMENTS, FeatureGates
from kscheduler.config.in_tree_plugins import DEFAULT_PLUGINS, IN_TREE_POINTS
from kscheduler.config.plugin_args import (
    ARGS_KINDS,
    DEFAULT_RESOURCES,
    LEAST_ALLOCATED,
    DynamicResourcesArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ResourceSpec,
    ScoringStrategy,
    Settings,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from kscheduler.config.types import (
    ClientConnectionConfiguration,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    PluginConfig,
    PluginEntry,
    Plugins,
    PluginSet,
)

_Filled = TypeVar("_Filled", bound=Settings)

PREEMPTION: Final = "DefaultPreemption"
_SCORE_BY_FREE_CAPACITY = (UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0))


def default_plugins(gates: FeatureGates, *, has_gangs: bool = False) -> Plugins:
    """The default plugin sets under these gates. `has_gangs`: pod groups of other APIs are followed."""
    needed = frozenset({"GangScheduling"}) if has_gangs else frozenset[str]()
    enabled = (
        plugin
        for plugin in DEFAULT_PLUGINS[gates.version]
        if not plugin.gate or gates.enabled(plugin.gate) or plugin.name in needed
    )
    everywhere = PluginSet(tuple(PluginEntry(plugin.name, plugin.weight or None) for plugin in enabled))
    return Plugins(multi_point=everywhere, reserve=PluginSet(disabled=() if has_gangs else _without_reserve(gates)))


def _without_reserve(gates: FeatureGates) -> tuple[PluginEntry, ...]:
    """DefaultPreemption reserves, in versions in which it can, for pod groups only."""
    reserves = "reserve" in IN_TREE_POINTS[gates.version][PREEMPTION]
    return (PluginEntry(PREEMPTION),) if reserves and not gates.enabled("GenericWorkload") else ()


def merge_plugins(defaults: Plugins, given: Plugins) -> Plugins:
    """A profile's plugin sets over the defaults, point by point."""
    names = Plugins.__struct_fields__
    return Plugins(**{name: merge_plugin_set(getattr(defaults, name), getattr(given, name)) for name in names})


def merge_plugin_set(defaults: PluginSet, given: PluginSet) -> PluginSet:
    """The set of an extension point merged with its default. A name enabled twice stays twice: `expansion` rejects it.

    Example: defaults A, B, C; enabled D, B with weight 5; disabled C: the result is A, B with weight 5, D.
    """
    disabled = tuple(PluginEntry(plugin.name) for plugin in (*given.disabled, *defaults.disabled))
    without = {plugin.name for plugin in disabled}
    last = {plugin.name: index for index, plugin in enumerate(given.enabled)}
    kept = () if "*" in without else tuple(plugin for plugin in defaults.enabled if plugin.name not in without)
    replaced = {last[plugin.name] for plugin in kept if plugin.name in last}
    in_place = tuple(given.enabled[last[plugin.name]] if plugin.name in last else plugin for plugin in kept)
    appended = tuple(plugin for index, plugin in enumerate(given.enabled) if index not in replaced)
    return PluginSet((*in_place, *appended), disabled)


def apply_defaults(
    configuration: KubeSchedulerConfiguration, gates: FeatureGates, given: Iterable[str] = ()
) -> KubeSchedulerConfiguration:
    """Fill in the defaults that depend on other fields or gates. `given`: paths of the fields that the user set."""
    profiles = configuration.profiles or (KubeSchedulerProfile(),)
    # An empty name that the user wrote is a mistake that validation reports, not a missing name.
    if len(profiles) == 1 and not profiles[0].scheduler_name and "profiles[0].schedulerName" not in set(given):
        profiles = (replace(profiles[0], scheduler_name=DEFAULT_SCHEDULER_NAME),)
    contention = configuration.enable_contention_profiling
    placements = configuration.percentage_of_placements_to_score
    if placements is None and gates.behaviours.has_percentage_of_placements and gates.enabled(PLACEMENTS):
        placements = 0
    return replace(
        configuration,
        profiles=tuple(_profile(profile, gates, has_gangs=bool(configuration.pod_group_apis)) for profile in profiles),
        leader_election=_leader_election(configuration.leader_election),
        client_connection=_client_connection(configuration.client_connection),
        extenders=tuple(
            replace(extender, http_timeout=extender.http_timeout or seconds(5)) for extender in configuration.extenders
        ),
        enable_contention_profiling=contention if contention is not None else configuration.enable_profiling,
        percentage_of_placements_to_score=placements,
    )


def _leader_election(election: LeaderElectionConfiguration) -> LeaderElectionConfiguration:
    """Empty and zero mean "default" here, whether the user wrote them or not."""
    return _filled(election, LeaderElectionConfiguration(), except_for="leader_elect")


def _client_connection(connection: ClientConnectionConfiguration) -> ClientConnectionConfiguration:
    return _filled(connection, ClientConnectionConfiguration())


def _filled(settings: _Filled, defaults: _Filled, except_for: str = "") -> _Filled:
    names = (name for name in settings.__struct_fields__ if name != except_for and not getattr(settings, name))
    return replace(settings, **{name: getattr(defaults, name) for name in names})


def _profile(profile: KubeSchedulerProfile, gates: FeatureGates, *, has_gangs: bool) -> KubeSchedulerProfile:
    plugins = merge_plugins(default_plugins(gates, has_gangs=has_gangs), profile.plugins)
    configured = tuple(replace(entry, args=default_args(entry.args, gates)) for entry in profile.plugin_config)
    names = {entry.name for entry in configured}
    missing = sorted(_enabled_anywhere(plugins) & ARGS_KINDS.keys() - names)
    added = tuple(PluginConfig(name, default_args(ARGS_KINDS[name](), gates)) for name in missing)
    return replace(profile, plugins=plugins, plugin_config=configured + added)


def _enabled_anywhere(plugins: Plugins) -> set[str]:
    sets: Iterable[PluginSet] = (getattr(plugins, name) for name in Plugins.__struct_fields__)
    return {plugin.name for plugin_set in sets for plugin in plugin_set.enabled}


def default_args(args: object, gates: FeatureGates) -> object:
    """A plugin's arguments with missing values filled in; those of plugins that are not in-tree stay as they are."""
    match args:
        case NodeResourcesFitArgs():
            return replace(args, scoring_strategy=_scoring_strategy(args.scoring_strategy))
        case NodeResourcesBalancedAllocationArgs():
            return replace(args, resources=_resources(args.resources))
        case VolumeBindingArgs() if not args.shape and gates.enabled("StorageCapacityScoring"):
            return replace(args, shape=_SCORE_BY_FREE_CAPACITY)
        case DynamicResourcesArgs():
            return _dynamic_resources_args(args, gates)
    return args


def _scoring_strategy(strategy: ScoringStrategy | None) -> ScoringStrategy:
    if strategy is None:
        return ScoringStrategy(LEAST_ALLOCATED, DEFAULT_RESOURCES)
    return replace(strategy, resources=_resources(strategy.resources))


def _resources(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    return tuple(replace(resource, weight=resource.weight or 1) for resource in resources) or DEFAULT_RESOURCES


def _dynamic_resources_args(args: DynamicResourcesArgs, gates: FeatureGates) -> DynamicResourcesArgs:
    if args.filter_timeout is None and gates.enabled("DRASchedulerFilterTimeout"):
        args = replace(args, filter_timeout=seconds(10))
    if args.binding_timeout is None and binding_conditions_enabled(gates):
        args = replace(args, binding_timeout=seconds(600))
    return args


def binding_conditions_enabled(gates: FeatureGates) -> bool:
    """Whether pods may wait until their devices are ready before they are bound."""
    return gates.enabled("DRADeviceBindingConditions") and gates.enabled("DRAResourceClaimDeviceStatus")
