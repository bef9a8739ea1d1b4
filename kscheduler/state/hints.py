"""Which events may let a parked pod through.

Each profile's plugins have registered events, some with a hint that looks at the objects. A pod is asked about an event
only through the plugins that turned it down; a plugin it never met cannot help it. What an event means to a profile is
looked up once per kind of event, so an event that none of a pod's rejectors registered costs one comparison of sets.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from time import perf_counter
from typing import Final, Protocol

from kscheduler.api.meta import KubeObject
from kscheduler.framework.events import ClusterEvent, ClusterEventWithHint, HintFunction, QueueingHint, Resource
from kscheduler.framework.plugin_answers import checked
from kscheduler.framework.plugin_listener import NOBODY, SLOW_CALL_SECONDS, PluginListener
from kscheduler.framework.pod_info import PodInfo

Registrations = Mapping[str, Sequence[ClusterEventWithHint]]
"""Plugin name to the events that may change its verdict."""
_Hints = Mapping[str, Sequence[HintFunction | None]]
"""Plugin name to what it asks about one event; `None` asks nothing and always says Queue."""
ObserveHint = Callable[[str, str, str, float], None]
"""Told of each hint: plugin, event label, answer (`Queue`, `QueueSkip`, `Error`), seconds."""

_POINT: Final = "QueueingHint"
_HEARS_NOTHING: Final[_Hints] = {}
_MOST_REGISTERED: Final = 1000
"""Sets of plugins whose events are remembered: those of pods that were turned down."""


class QueueingStrategy(Enum):
    """Where an event sends a parked pod."""

    SKIP = "skip"
    AFTER_BACKOFF = "after backoff"
    IMMEDIATELY = "immediately"


class Waiting(Protocol):
    """A pod that was turned down, or one that stands for its class."""

    @property
    def pod(self) -> PodInfo:
        """The pod."""
        ...

    @property
    def unschedulable_plugins(self) -> frozenset[str]:
        """Who turned it down."""
        ...

    @property
    def pending_plugins(self) -> frozenset[str]:
        """Those that wait for something outside the cluster."""
        ...


def unobserved(plugin: str, event: str, answer: str, seconds: float) -> None:
    """Nobody measures."""


class HintTable:
    """The registrations of all profiles, by scheduler name."""

    def __init__(
        self,
        registrations: Mapping[str, Registrations],
        observe: ObserveHint = unobserved,
        listener: PluginListener = NOBODY,
    ) -> None:
        self._registrations = registrations
        self._observe = observe
        self._listener = listener
        self._interesting: dict[ClusterEvent, bool] = {}
        self._hints: dict[tuple[str, ClusterEvent], _Hints] = {}
        self._registered: dict[tuple[str, frozenset[str]], tuple[str, ...]] = {}

    def interests_anyone(self, event: ClusterEvent) -> bool:
        """Whether any plugin of any profile registered the event."""
        known = self._interesting.get(event)
        if known is None:
            is_wildcard = event.resource is Resource.WILDCARD
            known = is_wildcard or any(self._hints_for(name, event) for name in self._registrations)
            self._interesting[event] = known
        return known

    def hears(self, profile: str, plugin: str, event: ClusterEvent) -> bool:
        """Whether the plugin registered the event; the wildcard is an event of everybody who registered any."""
        return plugin in self._hints_for(profile, event)

    def concerns(self, profile: str, rejectors: frozenset[str], event: ClusterEvent) -> bool:
        """Whether the event may mean anything to pods that these plugins turned down; if not, `strategy` says SKIP."""
        if not rejectors or event.resource is Resource.WILDCARD or profile not in self._registrations:
            return True
        return not rejectors.isdisjoint(self._hints_for(profile, event))

    def registered(self, profile: str, plugins: frozenset[str]) -> tuple[str, ...]:
        """Labels of the events that these plugins registered, in order; worked out once per set of plugins."""
        known = self._registered.get((profile, plugins))
        if known is None:
            if len(self._registered) >= _MOST_REGISTERED:
                self._registered.clear()
            of_profile = self._registrations.get(profile, {})
            labels = {one.event.label for plugin in plugins for one in of_profile.get(plugin, ())}
            known = self._registered[profile, plugins] = tuple(sorted(labels))
        return known

    def strategy(
        self, waiting: Waiting, event: ClusterEvent, old: KubeObject | None, new: KubeObject | None
    ) -> QueueingStrategy:
        """What the event means for the pod: the hints of the plugins that turned it down."""
        rejectors = waiting.unschedulable_plugins | waiting.pending_plugins
        profile = waiting.pod.pod.spec.scheduler_name
        if not rejectors or event.resource is Resource.WILDCARD or profile not in self._registrations:
            return QueueingStrategy.AFTER_BACKOFF
        hints = self._hints_for(profile, event)
        if rejectors.isdisjoint(hints):
            return QueueingStrategy.SKIP
        for plugin in _pending_first(rejectors, waiting.pending_plugins):
            if any(self._says_queue(plugin, hint, event, waiting.pod, old, new) for hint in hints.get(plugin, ())):
                if plugin in waiting.pending_plugins:
                    return QueueingStrategy.IMMEDIATELY
                return QueueingStrategy.AFTER_BACKOFF
        return QueueingStrategy.SKIP

    def _hints_for(self, profile: str, event: ClusterEvent) -> _Hints:
        known = self._hints.get((profile, event))
        if known is None:
            registered = self._registrations.get(profile, {})
            known = self._hints[profile, event] = _matching(registered, event)
        return known

    def _says_queue(
        self,
        plugin: str,
        hint: HintFunction | None,
        event: ClusterEvent,
        pod: PodInfo,
        old: KubeObject | None,
        new: KubeObject | None,
    ) -> bool:
        if hint is None:
            self._observe(plugin, event.label, QueueingHint.QUEUE.value, 0.0)
            return True
        began = perf_counter()
        try:
            answer = checked(hint(pod, old, new), QueueingHint)
            said = answer.value
        except BaseException as failure:  # noqa: BLE001  a plugin call: a hint that fails must not strand the pod, so it queues (as upstream)
            answer, said = QueueingHint.QUEUE, "Error"
            self._listener.failed(plugin, _POINT, pod, failure)
        seconds = perf_counter() - began
        self._observe(plugin, event.label, said, seconds)
        if seconds > SLOW_CALL_SECONDS:
            self._listener.slow(plugin, _POINT, pod, seconds)
        return answer is QueueingHint.QUEUE


def _matching(registered: Registrations, event: ClusterEvent) -> _Hints:
    found: dict[str, Sequence[HintFunction | None]] = {}
    for plugin, extensions in registered.items():
        asks = [one.hint for one in extensions if one.event.matches(event)]
        if asks:
            found[plugin] = asks
    return found or _HEARS_NOTHING


def _pending_first(rejectors: Collection[str], pending: frozenset[str]) -> Collection[str]:
    """A pending plugin's Queue outdoes the others', so it is asked first."""
    return rejectors if not pending else (*pending, *(plugin for plugin in rejectors if plugin not in pending))
