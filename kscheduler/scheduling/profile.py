"""A profile: one scheduler name and the plugins that decide for it, by extension point."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import msgspec

from kscheduler.api.releases import BEHAVIOURS, VERSION, Behaviours
from kscheduler.config.types import HASH, Extender
from kscheduler.devices.counting import NodeDevices
from kscheduler.framework.cluster.devices import DeviceCounter
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.plugin import (
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    PlacementFeasiblePlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    Plugin,
    PodGroupPostFilterPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)
from kscheduler.framework.plugin_listener import NO_LISTENER, PluginListener
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status
from kscheduler.framework.traits import PluginTraits, traits_of
from kscheduler.scheduling.registered_events import registered_events
from kscheduler.scheduling.runtime.queue_calls import call_pre_enqueue
from kscheduler.scheduling.supervision.supervised import unsupervised
from kscheduler.scheduling.supervision.supervisor import Quarantine, Supervisor
from kscheduler.state.queue.hints import Registrations


class WeightedScore(msgspec.Struct, frozen=True):
    """A score plugin and the weight of its points."""

    plugin: ScorePlugin
    weight: int


class WeightedPlacementScore(msgspec.Struct, frozen=True):
    """A plugin that scores placements of pod groups, and the weight of its points."""

    plugin: PlacementScorePlugin
    weight: int


@runtime_checkable
class ResourceFilter(Protocol):
    """A plugin that rejects nodes with too little of what a pod requests."""

    def ignores_resource(self, name: str) -> bool:
        """Whether it leaves this resource to others."""
        ...


@dataclass(frozen=True, slots=True)
class Profile:
    """Plugins in the order they run."""

    name: str
    """Pods whose `spec.schedulerName` is this."""
    enabled: frozenset[str]
    """All plugins that the configuration enables, built or not."""
    queue_sort: QueueSortPlugin
    percentage_of_nodes_to_score: int = 0
    """Stop the search once this percentage of the nodes has been found to fit; 0: judge all nodes."""
    tie_rule: str = HASH
    """How one of several nodes with the most points is chosen: `HASH` or `FIRST_IN_ORDER`."""
    pre_enqueue: tuple[PreEnqueuePlugin, ...] = ()
    pre_filter: tuple[PreFilterPlugin, ...] = ()
    filter: tuple[FilterPlugin, ...] = ()
    post_filter: tuple[PostFilterPlugin, ...] = ()
    pre_score: tuple[PreScorePlugin, ...] = ()
    score: tuple[WeightedScore, ...] = ()
    reserve: tuple[ReservePlugin, ...] = ()
    permit: tuple[PermitPlugin, ...] = ()
    pre_bind: tuple[PreBindPlugin, ...] = ()
    bind: tuple[BindPlugin, ...] = ()
    post_bind: tuple[PostBindPlugin, ...] = ()
    pod_group_post_filter: tuple[PodGroupPostFilterPlugin, ...] = ()
    tries_placements: bool = False
    """Whether pod groups are tried in placements (gate TopologyAwareWorkloadScheduling)."""
    placement_generate: tuple[PlacementGeneratePlugin, ...] = ()
    """Up to 1.37 at most one."""
    placement_score: tuple[WeightedPlacementScore, ...] = ()
    placement_feasible: tuple[PlacementFeasiblePlugin, ...] = ()
    percentage_of_placements_to_score: int = 0
    """How many of the placements must fit before the search ends; 0 adapts to the nodes in them."""
    ranks_nodes: bool = False
    """Whether members of a group that preempts go where the victims are worth the least."""
    instances: tuple[Plugin, ...] = ()
    """Every plugin, each once."""
    behaviours: Behaviours = BEHAVIOURS[VERSION]
    """Of the version of Kubernetes that is followed."""
    extenders: tuple[Extender, ...] = ()
    """The extenders that may change a decision; who decides for real asks them (`Ports.extenders`)."""
    listener: PluginListener = NO_LISTENER
    """Receives reports about plugins that fail or are slow."""
    supervisor: Supervisor | None = None
    """Counts the strikes of the plugins that are not in-tree; `None`: there are no such plugins."""
    default_sort: QueueSortPlugin | None = None
    """Orders the queue where the profile's own QueueSort plugin is quarantined."""
    default_bind: BindPlugin | None = None
    """Binds where the profile's only Bind plugin is quarantined."""
    quarantines: tuple[Quarantine, ...] = ()
    """The plugins that are called no more; they are at no extension point of this profile."""
    failing: Quarantine | None = None
    """The quarantine because of which no pod of the profile is scheduled."""
    on_trial: tuple[str, ...] = ()
    """The plugins whose circuit is half-open and for which no pod was scheduled before."""
    whole: "Profile | None" = field(default=None, repr=False, compare=False)
    """Where plugins are quarantined: the profile with them, as it will be again."""
    traits: Mapping[str, PluginTraits] = field(init=False, repr=False, compare=False)
    """The traits of each plugin, by name. They are derived from the plugins, also in a copy with other plugins."""
    gates_of_plain_pods: tuple[PreEnqueuePlugin, ...] = field(init=False, repr=False, compare=False)
    """Those of `pre_enqueue` that also judge pods without scheduling gates and resource claims."""
    keep_any_out: tuple[Callable[[], bool], ...] | None = field(init=False, repr=False, compare=False)
    """Of each of these, what tells whether it may keep any pod out; `None`: not all of them tell."""
    resource_filter: ResourceFilter | None = field(init=False, repr=False, compare=False)
    """The plugin of Filter that compares what pods request with what nodes have free."""
    acts_with: frozenset[type] | None = field(init=False, repr=False, compare=False)
    """The types of values in the cycle state of which one must be there for a plugin to act in Reserve or PreBind;
    `None`: some plugin acts for any pod."""

    def __post_init__(self) -> None:
        traits = {name: traits_of(unsupervised(plugin)) for name, plugin in self._by_name().items()}
        object.__setattr__(self, "traits", traits)
        plain = tuple(plugin for plugin in self.pre_enqueue if not traits[plugin.name].lets_in_plain_pods)
        object.__setattr__(self, "gates_of_plain_pods", plain)
        tell = all(traits[plugin.name].tells_if_it_keeps_any_out for plugin in plain)
        gates: Sequence[Any] = plain
        object.__setattr__(self, "keep_any_out", tuple(plugin.keeps_any_out for plugin in gates) if tell else None)
        comparing = next((plugin for plugin in self.filter if isinstance(plugin, ResourceFilter)), None)
        object.__setattr__(self, "resource_filter", comparing)
        acting: Sequence[Any] = (*self.reserve, *self.pre_bind)
        kinds = [traits[plugin.name].idle_without for plugin in acting]
        object.__setattr__(self, "acts_with", frozenset().union(*kinds) if all(kinds) else None)

    def _by_name(self) -> dict[str, Any]:
        """All plugins; in a profile made by hand, some may be at an extension point but not among the instances."""
        points: Sequence[Sequence[Any]] = (
            *(self.instances, (self.queue_sort,), self.pre_enqueue, self.pre_filter, self.filter, self.post_filter),
            *(self.pre_score, [weighted.plugin for weighted in self.score], self.reserve, self.permit),
            *(self.pre_bind, self.bind, self.post_bind),
        )
        return {plugin.name: plugin for plugins in points for plugin in plugins}

    @property
    def parking_plugin(self) -> str:
        """The quarantined plugin for which pods are parked, also while it is tried again; empty: there is none."""
        if self.failing is not None:
            return self.failing.plugin
        return self.on_trial[0] if self.on_trial else ""

    def run_pre_enqueue(self, pod: PodInfo, first: str = "") -> Status:
        """Whether the pod may enter the queue; the first rejection decides. Plugin `first` is called before all others.

        It is the plugin that gates the pod. Upstream calls it first, too: mostly it still rejects, and no other plugin
        has to be called.
        """
        spec = pod.pod.spec
        is_plain = not (spec.scheduling_gates or spec.resource_claims)
        if is_plain and self.keep_any_out is not None:
            for keeps_any_out in self.keep_any_out:
                if keeps_any_out():
                    break
            else:
                return SUCCESS
        plugins: Sequence[PreEnqueuePlugin] = self.gates_of_plain_pods if is_plain else self.pre_enqueue
        if first and plugins and plugins[0].name != first:
            plugins = sorted(plugins, key=lambda plugin: plugin.name != first)
        for plugin in plugins:
            status = call_pre_enqueue(plugin, self.listener, pod)
            if not status.is_success:
                return status.by(plugin.name)
        return SUCCESS

    def registrations(self) -> Registrations:
        """By plugin, the events after which its verdict may change. Raises `PluginFailure`."""
        return {
            plugin.name: registered_events(plugin, self.traits[plugin.name], self.behaviours)
            for plugin in self.instances
        }


def with_whole(profiles: Iterable[Profile]) -> Iterator[Profile]:
    """The profiles, and of those with quarantined plugins the profiles that have them: they are kept and refreshed."""
    for profile in profiles:
        yield profile
        if profile.whole is not None:
            yield profile.whole


def ignores_resource(profiles: Mapping[str, Profile], scheduler_name: str, resource: str) -> bool:
    """Whether the profile of these pods leaves a resource out where it compares what nodes have free.

    `profiles`: by name. Nothing is known of a profile without such a comparison, nor of other schedulers: they do not.
    """
    profile = profiles.get(scheduler_name)
    comparing = None if profile is None else profile.resource_filter
    return comparing is not None and comparing.ignores_resource(resource)


def device_counter(profiles: Iterable[Profile]) -> DeviceCounter | None:
    """The plugin that knows the devices of nodes, of the first profile that has one: all profiles see the same."""
    plugins = (plugin for profile in profiles for plugin in profile.instances)
    return next((plugin for plugin in plugins if isinstance(plugin, DeviceCounter)), None)


def devices_on(profiles: Iterable[Profile], info: NodeInfo) -> NodeDevices:
    """The devices that a node reaches, by class."""
    counter = device_counter(profiles)
    return NodeDevices() if counter is None else counter.devices_on([info]).get(info.name, NodeDevices())
