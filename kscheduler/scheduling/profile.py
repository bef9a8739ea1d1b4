"""A profile: one scheduler name and the plugins that decide for it, by extension point."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from kscheduler.config.types import Extender
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, Resource
from kscheduler.framework.plugin import (
    BindPlugin,
    EnqueueExtensions,
    FilterPlugin,
    PermitPlugin,
    Plugin,
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
from kscheduler.framework.plugin_listener import NOBODY, PluginListener
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status
from kscheduler.framework.traits import PluginTraits, traits_of
from kscheduler.scheduling.runtime.building import call_events_to_register
from kscheduler.scheduling.runtime.queue_calls import call_pre_enqueue
from kscheduler.state.queue.hints import Registrations


@dataclass(frozen=True, slots=True)
class WeightedScore:
    """A score plugin and what its points count."""

    plugin: ScorePlugin
    weight: int


@dataclass(frozen=True, slots=True)
class Profile:
    """Plugins in the order they run."""

    name: str
    """Pods whose `spec.schedulerName` is this."""
    enabled: frozenset[str]
    """All plugins that the configuration asks for, built or not."""
    queue_sort: QueueSortPlugin
    percentage_of_nodes_to_score: int = 0
    """Stop looking once so many of a hundred nodes fit; 0 looks at all."""
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
    instances: tuple[Plugin, ...] = ()
    """Every plugin, each once."""
    extenders: tuple[Extender, ...] = ()
    """Those without which no decision is right; nobody calls them yet."""
    listener: PluginListener = NOBODY
    """Hears of plugins that fail or are slow."""
    traits: Mapping[str, PluginTraits] = field(init=False, repr=False, compare=False)
    """What each plugin is, by name. It follows from the plugins: a profile that is made of another one has its own."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "traits", {name: traits_of(plugin) for name, plugin in self._by_name().items()})

    def _by_name(self) -> dict[str, Any]:
        """All plugins; where a profile was made by hand, some may be at a point and not among the instances."""
        points: Sequence[Sequence[Any]] = (
            *(self.instances, (self.queue_sort,), self.pre_enqueue, self.pre_filter, self.filter, self.post_filter),
            *(self.pre_score, [weighted.plugin for weighted in self.score], self.reserve, self.permit),
            *(self.pre_bind, self.bind, self.post_bind),
        )
        return {plugin.name: plugin for plugins in points for plugin in plugins}

    def run_pre_enqueue(self, pod: PodInfo, first: str = "") -> Status:
        """Whether the pod may enter the queue; the first objection decides. Plugin `first` is asked before all others.

        It is the one that gates the pod: asking it again first is what upstream does, and mostly the end of it.
        """
        plugins: Sequence[PreEnqueuePlugin] = self.pre_enqueue
        if first and plugins and plugins[0].name != first:
            plugins = sorted(plugins, key=lambda one: one.name != first)
        for plugin in plugins:
            status = call_pre_enqueue(plugin, self.listener, pod)
            if not status.is_success:
                return status.by(plugin.name)
        return SUCCESS

    def registrations(self) -> Registrations:
        """Which events may change whose mind. Raises `PluginFailure` where a plugin cannot say."""
        return {plugin.name: _events_of(plugin, self.traits[plugin.name]) for plugin in self.instances}


_NODE_ADD_BIT = ActionType.ADD
_TAINT_EVENT = ClusterEventWithHint(ClusterEvent(Resource.NODE, ActionType.UPDATE_NODE_TAINT))
_EVERY_EVENT = tuple(
    ClusterEventWithHint(ClusterEvent(resource, ActionType.ALL))
    for resource in Resource
    if resource not in (Resource.WILDCARD, Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD)
)
"""What a plugin that rejects pods and registers nothing is presumed to wait for."""


def _events_of(plugin: Plugin, traits: PluginTraits) -> Sequence[ClusterEventWithHint]:
    if not traits.rejects:
        return ()
    if not traits.registers_events:
        return _EVERY_EVENT
    return _with_taint_event(call_events_to_register(plugin.name, cast("EnqueueExtensions", plugin)))


def _with_taint_event(registered: Sequence[ClusterEventWithHint]) -> Sequence[ClusterEventWithHint]:
    """Whoever waits for nodes is told of changed taints too (upstream's work-around for #109437, see Q8)."""
    of_nodes = [one.event.action for one in registered if one.event.resource is Resource.NODE]
    waits_for_nodes = any(_NODE_ADD_BIT in action for action in of_nodes)
    hears_of_taints = any(ActionType.UPDATE_NODE_TAINT in action for action in of_nodes)
    return (*registered, _TAINT_EVENT) if waits_for_nodes and not hears_of_taints else registered
