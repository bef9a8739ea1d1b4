"""A profile: one scheduler name and the plugins that decide for it, by extension point."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Final

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
from kscheduler.framework.plugin_answers import checked, words_of
from kscheduler.framework.plugin_listener import NOBODY, SLOW_CALL_SECONDS, PluginListener
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Fault, Status, error
from kscheduler.scheduling.plugin_failure import PluginFailure
from kscheduler.state.hints import Registrations


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

    def run_pre_enqueue(self, pod: PodInfo, first: str = "") -> Status:
        """Whether the pod may enter the queue; the first objection decides. Plugin `first` is asked before all others.

        It is the one that gates the pod: asking it again first is what upstream does, and mostly the end of it.
        """
        plugins: Sequence[PreEnqueuePlugin] = self.pre_enqueue
        if first and plugins and plugins[0].name != first:
            plugins = sorted(plugins, key=lambda one: one.name != first)
        ended = perf_counter()
        for plugin in plugins:
            try:
                status = plugin.pre_enqueue(pod)
                if status is not SUCCESS:
                    checked(status, Status)
            except BaseException as failure:  # noqa: BLE001  a plugin call
                status = error(f'running PreEnqueue plugin "{plugin.name}": {words_of(failure)}', fault=Fault.BUG)
                self.listener.failed(plugin.name, "PreEnqueue", pod, failure, _KEPT_OUT)
            began, ended = ended, perf_counter()
            if ended - began > SLOW_CALL_SECONDS:
                self.listener.slow(plugin.name, "PreEnqueue", pod, ended - began)
            if not status.is_success:
                return status.by(plugin.name)
        return SUCCESS

    def registrations(self) -> Registrations:
        """Which events may change whose mind. Raises `PluginFailure` where a plugin cannot say."""
        return {plugin.name: _events_of(plugin) for plugin in self.instances}


_KEPT_OUT: Final = "the pod is kept out of the queue and asked about again within 30 s"
_NODE_ADD_BIT = ActionType.ADD
_TAINT_EVENT = ClusterEventWithHint(ClusterEvent(Resource.NODE, ActionType.UPDATE_NODE_TAINT))
_EVERY_EVENT = tuple(
    ClusterEventWithHint(ClusterEvent(resource, ActionType.ALL))
    for resource in Resource
    if resource not in (Resource.WILDCARD, Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD)
)
"""What a plugin that rejects pods and registers nothing is presumed to wait for."""

_REJECTING = ("pre_enqueue", "pre_filter", "filter", "reserve", "permit")


def _events_of(plugin: Plugin) -> Sequence[ClusterEventWithHint]:
    if not any(hasattr(plugin, method) for method in _REJECTING):
        return ()
    if not hasattr(plugin, "events_to_register"):
        return _EVERY_EVENT
    extensions: EnqueueExtensions = plugin
    try:
        answer = checked(extensions.events_to_register(), Iterable)  # type: ignore[type-abstract]
        events = tuple(checked(one, ClusterEventWithHint) for one in answer)
    except BaseException as failure:
        point = "events_to_register"
        raise PluginFailure(
            f'running {point} of plugin "{plugin.name}": {words_of(failure)}', plugin.name, point
        ) from failure
    return _with_taint_event(events)


def _with_taint_event(registered: tuple[ClusterEventWithHint, ...]) -> tuple[ClusterEventWithHint, ...]:
    """Whoever waits for nodes is told of changed taints too (upstream's work-around for #109437, see Q8)."""
    of_nodes = [one.event.action for one in registered if one.event.resource is Resource.NODE]
    waits_for_nodes = any(_NODE_ADD_BIT in action for action in of_nodes)
    hears_of_taints = any(ActionType.UPDATE_NODE_TAINT in action for action in of_nodes)
    return (*registered, _TAINT_EVENT) if waits_for_nodes and not hears_of_taints else registered
