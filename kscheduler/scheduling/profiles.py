"""From the configuration to profiles that can decide: plugins built, expanded to their points, checked."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import starmap
from operator import attrgetter
from time import perf_counter
from typing import Any, Final, cast

import msgspec

from kscheduler.api.releases import Behaviours
from kscheduler.config.errors import ConfigError, Problem, config_error
from kscheduler.config.expansion import (
    PLACEMENT_FEASIBLE,
    POD_GROUP_POST_FILTER,
    Expanded,
    entry_problems,
    expand,
    plugins_needed,
    queue_sort_problems,
)
from kscheduler.config.extenders import EXTENDER, deciding
from kscheduler.config.in_tree_plugins import IN_TREE_PLUGINS, IN_TREE_POINTS
from kscheduler.config.types import HASH, KubeSchedulerConfiguration, KubeSchedulerProfile
from kscheduler.framework.cluster.lister import KeptListers
from kscheduler.framework.handle import Handle
from kscheduler.framework.plugin import Plugin, Point
from kscheduler.framework.plugin_contract import contract_problems, misspellings
from kscheduler.framework.plugin_listener import NO_LISTENER, PluginListener
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.registry import Registry
from kscheduler.framework.standing_gate import ObjectGate, StandingGate
from kscheduler.framework.status import SUCCESS, Code, Status, error
from kscheduler.framework.traits import PluginTraits, is_in_tree, traits_of
from kscheduler.scheduling.profile import Profile, WeightedPlacementScore, WeightedScore
from kscheduler.scheduling.registered_events import EVERY_EVENT
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.lifecycle_calls import call_factory
from kscheduler.scheduling.runtime.points import PRE_ENQUEUE, is_right_answer
from kscheduler.scheduling.runtime.queue_calls import (
    HintCalls,
    ObserveHint,
    call_changed_gating_objects,
    call_gating_objects,
    call_may_let_in,
    unobserved,
)
from kscheduler.scheduling.runtime.sort_keys import sort_keys_of
from kscheduler.scheduling.supervision.supervised import SupervisedPlugin, unsupervised
from kscheduler.scheduling.supervision.supervisor import (
    DEFAULT_BUDGET_SECONDS,
    UNOBSERVED_CIRCUITS,
    CircuitObserver,
    OnFailure,
    PluginLimits,
    Supervisor,
)
from kscheduler.state.queue.admission import OnIncoming
from kscheduler.state.queue.backoff import BackoffPolicy
from kscheduler.state.queue.gated_pods import Gate, HintsAlike, MayLetIn, ObjectGateCalls, no_hints_alike
from kscheduler.state.queue.hints import HintTable, Registrations
from kscheduler.state.queue.scheduling_queue import ClassOf, QueuePolicy, no_class
from kscheduler.state.queue.sub_queues import SortKey

_POINT_OF = {point.key: point for point in Point}

# Extension points that only pod groups have, as configurations spell them, with the trait of who takes part.
_POINTS_OF_GROUPS: Final[Mapping[str, Callable[[PluginTraits], bool]]] = {
    POD_GROUP_POST_FILTER: attrgetter("makes_room_for_groups"),
    "placementGenerate": attrgetter("generates_placements"),
    "placementScore": attrgetter("scores_placements"),
    PLACEMENT_FEASIBLE: attrgetter("judges_groups"),
}

DEFAULT_SORT, DEFAULT_BIND = "PrioritySort", "DefaultBinder"
# The plugin ranks nodes while a group preempts, if a profile has it at both points.
_PREEMPTION: Final = "DefaultPreemption"
_POINTS_OF_RANKS: Final = (POD_GROUP_POST_FILTER, Point.RESERVE.key)

# By scheduler name.
Profiles = Mapping[str, Profile]
# From an extension point, a status code and a scheduler name to what takes the seconds of each pod.
SecondsOfPoint = Callable[[str, str, str], Callable[[float], None]]


def unmeasured(point: str, status: str, profile: str) -> Callable[[float], None]:
    """Measure nothing."""
    del point, status, profile
    return lambda _seconds: None


def build_profiles(
    configuration: KubeSchedulerConfiguration,
    registry: Registry,
    handle: Handle,
    listener: PluginListener = NO_LISTENER,
    circuits: CircuitObserver = UNOBSERVED_CIRCUITS,
) -> Profiles:
    """Build every profile. Raises `ConfigError` with all that is wrong with the first profile that cannot be built.

    `listener` receives reports about plugins that fail or are slow after that, `circuits` what follows from it.
    """
    extenders = deciding(configuration.extenders)
    profiles: dict[str, Profile] = {}
    expanded: dict[str, Expanded] = {}
    for settings in configuration.profiles:
        profile, expanded[settings.scheduler_name] = _build(settings, registry, handle, listener, circuits)
        percentage = _percentage_of_nodes(settings, configuration)
        profiles[profile.name] = replace(
            profile,
            percentage_of_nodes_to_score=percentage,
            percentage_of_placements_to_score=_percentage_of_placements(settings, configuration),
            tie_rule=settings.tie_rule or HASH,
            extenders=extenders,
        )
    problems = queue_sort_problems(expanded)
    if problems:
        raise ConfigError(problems)
    return profiles


def misspelt(profiles: Iterable[Profile]) -> dict[tuple[str, str], None]:
    """What is misspelt in the plugins that are not in-tree: the plugin's name and a sentence, each pair once.

    A name that nothing calls has no effect, and no error either: it is told wherever a plugin is loaded.
    """
    plugins = (plugin for profile in profiles for plugin in profile.instances)
    return {(plugin.name, text): None for plugin in plugins for text in misspellings(unsupervised(plugin))}


def for_single_pods_only(profiles: Iterable[Profile]) -> Iterator[tuple[str, str, str]]:
    """PostFilter plugins that look for no room for pod groups: profile, plugin, and why.

    From 1.37 on groups have an extension point of their own for that. kube-scheduler 1.38 logs the same at its start.
    """
    for profile in profiles:
        if not profile.behaviours.has_pod_group_post_filter:
            continue
        for_groups = {plugin.name for plugin in profile.pod_group_post_filter}
        for plugin in profile.post_filter:
            if plugin.name not in for_groups:
                has_method = traits_of(unsupervised(plugin)).makes_room_for_groups
                reason = "it is not enabled at podGroupPostFilter" if has_method else "it has no pod_group_post_filter"
                yield profile.name, plugin.name, reason


def queue_policy(
    profiles: Profiles,
    configuration: KubeSchedulerConfiguration,
    on_incoming: OnIncoming,
    class_of: ClassOf = no_class,
    observe_hint: ObserveHint = unobserved,
    hints_alike: HintsAlike = no_hints_alike,
    seconds_of_point: SecondsOfPoint = unmeasured,
    now: Callable[[], float] = perf_counter,
) -> QueuePolicy:
    """What the one queue needs of all profiles; without `class_of` each pod is judged by itself.

    PreEnqueue is measured by `seconds_of_point`, in seconds of `now`. Until 1.37 a pod that is rejected is counted
    under Success too: kube-scheduler labels it so.
    """
    backoff = BackoffPolicy(configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds)
    of_extenders: Registrations = {EXTENDER: EVERY_EVENT} if configuration.extenders else {}
    registrations = {name: {**_registrations(profile), **of_extenders} for name, profile in profiles.items()}
    listener = _ListenerByPod(profiles)
    hints = HintTable(registrations, HintCalls(observe_hint, listener))
    first = next(iter(profiles.values()))
    by_status = first.behaviours.gates_are_measured_by_status
    observe_of: dict[tuple[str, Code], Callable[[float], None]] = {}

    def pre_enqueue(pod: PodInfo, gate: str) -> Status:
        name = pod.pod.spec.scheduler_name
        profile = profiles.get(name)
        if profile is None:
            return error(f"no profile is named {name}")
        began = now()
        status = profile.run_pre_enqueue(pod, gate)
        counted = status if by_status else SUCCESS
        observe = observe_of.get((name, counted.code))
        if observe is None:
            observe = observe_of[name, counted.code] = seconds_of_point(PRE_ENQUEUE.label, counted.code.label, name)
        observe(now() - began)
        return status

    policy = QueuePolicy(_order_of(profiles, listener), pre_enqueue, hints, backoff, on_incoming, class_of)
    return msgspec.structs.replace(
        policy,
        standing_gates=_standing_gates(profiles),
        object_gates=_object_gates(profiles),
        hints_alike=hints_alike,
        gated_pods_wait_for_the_flush=first.behaviours.gated_pods_wait_for_the_flush,
        groups_stop_at_the_first_gate=first.behaviours.groups_stop_at_the_first_gate,
        stopped=frozenset(name for name, profile in profiles.items() if profile.failing is not None),
        parked_by={name: plugin for name, profile in profiles.items() if (plugin := profile.parking_plugin)},
        on_trial=frozenset(name for name, profile in profiles.items() if profile.on_trial),
    )


def _standing_gates(profiles: Profiles) -> Mapping[Gate, MayLetIn]:
    return {
        (profile.name, plugin.name): partial(call_may_let_in, cast("StandingGate", plugin), profile.listener)
        for profile in profiles.values()
        for plugin in profile.pre_enqueue
        if profile.traits[plugin.name].is_standing_gate
    }


def _object_gates(profiles: Profiles) -> Mapping[Gate, ObjectGateCalls]:
    return {
        (profile.name, plugin.name): ObjectGateCalls(
            partial(call_gating_objects, cast("ObjectGate", plugin), profile.listener),
            partial(call_changed_gating_objects, cast("ObjectGate", plugin), profile.listener),
        )
        for profile in profiles.values()
        for plugin in profile.pre_enqueue
        if profile.traits[plugin.name].is_object_gate
    }


def _order_of(profiles: Profiles, listener: PluginListener) -> SortKey:
    """The order of the queue: all profiles name the same plugin, except where one has quarantined it."""
    in_tree = (profile for profile in profiles.values() if profile.traits[profile.queue_sort.name].is_in_tree)
    profile = next(in_tree, None) or next(iter(profiles.values()))
    plugin = profile.queue_sort
    return sort_keys_of(plugin, profile.traits[plugin.name], listener)


class _ListenerByPod:
    """Passes a report to the listener of the pod's profile: the queue is one, strikes are counted per profile."""

    def __init__(self, profiles: Profiles) -> None:
        self._listeners = {name: profile.listener for name, profile in profiles.items()}
        self._first = next(iter(self._listeners.values()))

    def failed(self, plugin: str, point: str, pod: PodInfo | None, failure: BaseException, then: str = "") -> None:
        self._of(pod).failed(plugin, point, pod, failure, then)

    def slow(self, plugin: str, point: str, pod: PodInfo | None, seconds: float, nodes: int = 0) -> None:
        self._of(pod).slow(plugin, point, pod, seconds, nodes)

    def _of(self, pod: PodInfo | None) -> PluginListener:
        return self._first if pod is None else self._listeners.get(pod.pod.spec.scheduler_name, self._first)


def _registrations(profile: Profile) -> Registrations:
    """The events that the profile's plugins register. Raises `ConfigError` if a plugin fails."""
    try:
        return profile.registrations()
    except PluginFailure as failure:
        raise config_error("plugins", str(failure), f"profile {profile.name}") from failure


def _build(
    settings: KubeSchedulerProfile,
    registry: Registry,
    handle: Handle,
    listener: PluginListener,
    circuits: CircuitObserver,
) -> tuple[Profile, Expanded]:
    built = _build_plugins(settings, registry, handle)
    upstream_points = IN_TREE_POINTS[handle.behaviours.version]
    traits = {name: traits_of(plugin) for name, plugin in built.items()}
    supervisor = _supervisor_of(settings, built, listener, circuits, handle)
    if supervisor is not None:
        stand_ins: dict[str, Any] = {
            name: SupervisedPlugin(
                built[name],
                limits.budget_seconds,
                supervisor,
                supervisor.circuits[name],
                partial(is_right_answer, traits[name].normalizes),
            )
            for name, limits in supervisor.limits.items()
        }
        built = {name: stand_ins.get(name, plugin) for name, plugin in built.items()}

    def is_implemented(name: str, point: Point) -> bool:
        return name in built and point in traits[name].points

    def has_point_of_groups(name: str, point: str) -> bool:
        return name in built and _POINTS_OF_GROUPS[point](traits[name])

    def takes_part(name: str, point: str) -> bool:
        """Whether the plugin has this point. Of in-tree plugins upstream decides: what only upstream's does at a point
        may be configured, and what only ours does there in another version may not.
        """
        if name in built and name in upstream_points:
            return point in upstream_points[name]
        if point in _POINTS_OF_GROUPS:
            return has_point_of_groups(name, point)
        return point in _POINT_OF and is_implemented(name, _POINT_OF[point])

    several = handle.behaviours.merges_placements
    expanded = expand(settings.plugins, takes_part, settings.scheduler_name, registry.names(), several)

    def at(point: Point) -> tuple[Any, ...]:
        return tuple(built[entry.name] for entry in expanded[point.key] if is_implemented(entry.name, point))

    def of_groups(point: str) -> list[tuple[Any, int]]:
        entries = [entry for entry in expanded[point] if has_point_of_groups(entry.name, point)]
        return [(built[entry.name], entry.weight) for entry in entries]

    judges: tuple[Any, ...] = tuple(plugin for name, plugin in built.items() if traits[name].judges_groups)
    if handle.behaviours.has_placement_feasible:
        judges = tuple(plugin for plugin, _ in of_groups(PLACEMENT_FEASIBLE))
    weights = {enabled.name: enabled.weight for enabled in expanded[Point.SCORE.key]}
    profile = Profile(
        name=settings.scheduler_name,
        enabled=frozenset(plugins_needed(settings.plugins)),
        queue_sort=at(Point.QUEUE_SORT)[0],
        pre_enqueue=at(Point.PRE_ENQUEUE),
        pre_filter=at(Point.PRE_FILTER),
        filter=at(Point.FILTER),
        post_filter=at(Point.POST_FILTER),
        pre_score=at(Point.PRE_SCORE),
        score=tuple(WeightedScore(plugin, weights[plugin.name]) for plugin in at(Point.SCORE)),
        reserve=at(Point.RESERVE),
        permit=at(Point.PERMIT),
        pre_bind=at(Point.PRE_BIND),
        bind=at(Point.BIND),
        post_bind=at(Point.POST_BIND),
        pod_group_post_filter=tuple(plugin for plugin, _ in of_groups(POD_GROUP_POST_FILTER)),
        tries_placements="TopologyAwareWorkloadScheduling" in handle.features,
        placement_generate=tuple(plugin for plugin, _ in of_groups("placementGenerate")),
        placement_score=tuple(starmap(WeightedPlacementScore, of_groups("placementScore"))),
        placement_feasible=judges,
        ranks_nodes=handle.behaviours.ranks_nodes_by_victims
        and all(_PREEMPTION in {entry.name for entry in expanded[point]} for point in _POINTS_OF_RANKS),
        instances=tuple(built.values()),
        behaviours=handle.behaviours,
        listener=listener if supervisor is None else supervisor,
        supervisor=supervisor,
    )
    return (profile if supervisor is None else _with_substitutes(profile, registry, handle)), expanded


def _supervisor_of(
    settings: KubeSchedulerProfile,
    built: Mapping[str, Plugin],
    listener: PluginListener,
    circuits: CircuitObserver,
    handle: Handle,
) -> Supervisor | None:
    """The supervisor of the plugins that are not in-tree; `None` if there are none. Raises `ConfigError`."""
    limits: dict[str, PluginLimits] = {}
    entries = {entry.name: entry for entry in settings.plugin_config}
    for name, plugin in built.items():
        entry = entries.get(name)
        budget, on_failure = (None, None) if entry is None else (entry.time_budget, entry.on_failure)
        if not is_in_tree(plugin):
            seconds = DEFAULT_BUDGET_SECONDS if budget is None else budget.seconds
            limits[name] = PluginLimits(seconds, OnFailure(on_failure or OnFailure.FAIL))
        elif budget is not None or on_failure is not None:
            text = f'plugin "{name}" is in-tree: timeBudget and onFailure are for other plugins'
            raise config_error("pluginConfig", text, f"profile {settings.scheduler_name}")
    clock = handle.clock
    if not limits:
        return None
    return Supervisor(settings.scheduler_name, limits, listener, clock.time, clock.monotonic, circuits)


def _with_substitutes(profile: Profile, registry: Registry, handle: Handle) -> Profile:
    """The profile with the plugins that take over where its QueueSort or its only Bind plugin is quarantined.

    They are built now, when a failure is still a refused configuration.
    """
    if not is_in_tree(unsupervised(profile.queue_sort)) and DEFAULT_SORT in registry:
        profile = replace(profile, default_sort=cast("Any", call_factory(registry, DEFAULT_SORT, None, handle)))
    if not any(is_in_tree(unsupervised(plugin)) for plugin in profile.bind) and DEFAULT_BIND in registry:
        profile = replace(profile, default_bind=cast("Any", call_factory(registry, DEFAULT_BIND, None, handle)))
    return profile


def _is_of_another_version(plugin: str, behaviours: Behaviours) -> bool:
    return plugin in IN_TREE_PLUGINS and plugin not in IN_TREE_POINTS[behaviours.version]


def _percentage_of_nodes(settings: KubeSchedulerProfile, configuration: KubeSchedulerConfiguration) -> int:
    own = settings.percentage_of_nodes_to_score
    return configuration.percentage_of_nodes_to_score if own is None else own


def _percentage_of_placements(settings: KubeSchedulerProfile, configuration: KubeSchedulerConfiguration) -> int:
    own = settings.percentage_of_placements_to_score
    return (configuration.percentage_of_placements_to_score if own is None else own) or 0


def _build_plugins(settings: KubeSchedulerProfile, registry: Registry, handle: Handle) -> dict[str, Plugin]:
    args = {entry.name: entry.args for entry in settings.plugin_config}
    built: dict[str, Plugin] = {}
    problems: list[Problem] = []
    cause: BaseException | None = None
    for name in plugins_needed(settings.plugins):
        if name not in registry or _is_of_another_version(name, handle.behaviours):
            continue  # expansion says where it is named
        own = msgspec.structs.replace(
            handle,
            nodes_changed=partial(handle.nodes_changed, plugin=name),
            lister=KeptListers(handle.lister),
        )
        try:
            plugin = call_factory(registry, name, args.get(name), own)
        except PluginFailure as failure:
            # the user must see which plugin failed, and where
            is_about_arguments = isinstance(failure.__cause__, ValueError)
            problems.append(Problem("pluginConfig" if is_about_arguments else "plugins", str(failure)))
            cause = cause or failure.__cause__
            continue
        if not is_in_tree(plugin):
            problems += [Problem("plugins", f'plugin "{name}": {text}') for text in contract_problems(plugin, name)]
        built[name] = plugin
    if problems:
        # What a plugin implements is only known of those that were built: of the others just the names are judged.
        may_implement = partial(registry.may_implement, handle.behaviours.version)
        problems += entry_problems(settings.plugins, may_implement, registry.names())
        raise ConfigError(problems, f"profile {settings.scheduler_name}") from cause
    return built
