"""Which events may let a parked pod through.

Each profile's plugins have registered events, some with a hint that looks at the objects. For a pod only the hints of
the plugins that rejected it are called; the others cannot help it. The hints of a profile are looked up once per kind
of event, so an event that none of a pod's rejecting plugins registered costs a single comparison of sets.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import Final, Protocol

from kscheduler.api.meta import KubeObject
from kscheduler.framework.events import (
    ClusterEvent,
    ClusterEventWithHint,
    HintFunction,
    QueueingHint,
    Resource,
)
from kscheduler.framework.hint_index import HintIndex, IndexedEvent
from kscheduler.framework.pods.pod_info import PodInfo

# Plugin name to the events that may change its verdict.
Registrations = Mapping[str, Sequence[ClusterEventWithHint]]
# Plugin name to its hints for an event; `None` is no hint, which always means Queue.
_Hints = Mapping[str, Sequence[HintFunction | None]]
# The hints that an event calls for a pod, in order: plugin, whether the pod waits for what it has outside the cluster,
# and the hint.
_Steps = Sequence[tuple[str, bool, HintFunction | None]]
# Whether an event may help a pod: plugin, event label, what the plugin registered (`None`: it always may), the pod, the
# object as it was and as it is. Never raises; `scheduling.runtime` has the one that times and guards hints.
CallHint = Callable[[str, str, HintFunction | None, PodInfo, KubeObject | None, KubeObject | None], bool]

_HEARS_NOTHING: Final[_Hints] = {}
# The number of sets of rejecting plugins whose events, or indexes, are cached.
_MAX_REGISTERED: Final = 1000


class QueueingStrategy(Enum):
    """Where an event sends a parked pod."""

    SKIP = "skip"
    AFTER_BACKOFF = "after backoff"
    IMMEDIATELY = "immediately"


class Waiting(Protocol):
    """A rejected pod, or an equivalence group."""

    @property
    def pod(self) -> PodInfo: ...

    @property
    def unschedulable_plugins(self) -> frozenset[str]:
        """The plugins that rejected it."""
        ...

    @property
    def pending_plugins(self) -> frozenset[str]:
        """The plugins that wait for something outside the cluster."""
        ...


def call_hint(
    plugin: str, event: str, hint: HintFunction | None, pod: PodInfo, old: KubeObject | None, new: KubeObject | None
) -> bool:
    """Call a hint without guard and timing: for hints that are known not to fail."""
    del plugin, event
    return hint is None or hint(pod, old, new) is QueueingHint.QUEUE


class HintTable:
    """The registrations of all profiles, by scheduler name."""

    def __init__(
        self,
        registrations: Mapping[str, Registrations],
        ask: CallHint = call_hint,
    ) -> None:
        self._registrations = registrations
        self._ask = ask
        self._interesting: dict[ClusterEvent, bool] = {}
        self._hints: dict[tuple[str, ClusterEvent], _Hints] = {}
        self._registered: dict[tuple[str, frozenset[str]], tuple[str, ...]] = {}
        self._indexes: dict[tuple[str, frozenset[str], ClusterEvent], tuple[HintIndex, ...] | None] = {}

    def interests_anyone(self, event: ClusterEvent) -> bool:
        """Whether any plugin of any profile registered the event."""
        known = self._interesting.get(event)
        if known is None:
            is_wildcard = event.resource is Resource.WILDCARD
            known = is_wildcard or any(self._hints_for(name, event) for name in self._registrations)
            self._interesting[event] = known
        return known

    def is_registered(self, profile: str, plugin: str, event: ClusterEvent) -> bool:
        """Whether the plugin registered the event; the wildcard matches every plugin that registered any."""
        return plugin in self._hints_for(profile, event)

    def concerns(self, profile: str, rejectors: frozenset[str], event: ClusterEvent) -> bool:
        """Whether the event may help pods that these plugins rejected; if not, `strategy` returns SKIP."""
        if not rejectors or event.resource is Resource.WILDCARD or profile not in self._registrations:
            return True
        return not rejectors.isdisjoint(self._hints_for(profile, event))

    def indexes(self, profile: str, rejectors: frozenset[str], event: ClusterEvent) -> tuple[HintIndex, ...] | None:
        """The indexes that together find all pods, rejected by these plugins, that the event may help; cached.

        `None`: each pod's hints are to be called, because one of them has no index.
        """
        if not rejectors or event.resource is Resource.WILDCARD or profile not in self._registrations:
            return None
        key = profile, rejectors, event
        if key not in self._indexes:
            if len(self._indexes) >= _MAX_REGISTERED:
                self._indexes.clear()
            of_profile = self._registrations[profile]
            entries = [each for plugin in rejectors for each in of_profile.get(plugin, ()) if each.event.matches(event)]
            found = [each.index if isinstance(each, IndexedEvent) else None for each in entries]
            self._indexes[key] = None if None in found else tuple([each for each in found if each is not None])
        return self._indexes[key]

    def registered(self, profile: str, plugins: frozenset[str]) -> tuple[str, ...]:
        """Labels, sorted, of the events that these plugins registered; cached per set of plugins."""
        known = self._registered.get((profile, plugins))
        if known is None:
            if len(self._registered) >= _MAX_REGISTERED:
                self._registered.clear()
            of_profile = self._registrations.get(profile, {})
            labels = {entry.event.label for plugin in plugins for entry in of_profile.get(plugin, ())}
            known = self._registered[profile, plugins] = tuple(sorted(labels))
        return known

    def strategy(
        self, waiting: Waiting, event: ClusterEvent, old: KubeObject | None, new: KubeObject | None
    ) -> QueueingStrategy:
        """Where the event sends the pod, by the hints of the plugins that rejected it."""
        pod = waiting.pod
        return self._strategy(pod, self._steps_for(waiting, pod, event), event.label, old, new)

    def strategies(
        self, event: ClusterEvent, old: KubeObject | None, new: KubeObject | None
    ) -> Callable[[Waiting], QueueingStrategy]:
        """`strategy` for one event and many pods: which hints are called is looked up once for each set of plugins."""
        label, steps_for, found = event.label, self._steps_for, self._strategy
        known: dict[tuple[str, frozenset[str], frozenset[str]], _Steps | None] = {}

        def of(waiting: Waiting) -> QueueingStrategy:
            pod = waiting.pod
            key = pod.pod.spec.scheduler_name, waiting.unschedulable_plugins, waiting.pending_plugins
            if key not in known:
                known[key] = steps_for(waiting, pod, event)
            return found(pod, known[key], label, old, new)

        return of

    def _steps_for(self, waiting: Waiting, pod: PodInfo, event: ClusterEvent) -> _Steps | None:
        """The hints to call for a pod that these plugins rejected; `None`: none is called, the pod is moved."""
        rejectors = waiting.unschedulable_plugins | waiting.pending_plugins
        profile = pod.pod.spec.scheduler_name
        if not rejectors or event.resource is Resource.WILDCARD or profile not in self._registrations:
            return None
        hints, pending = self._hints_for(profile, event), waiting.pending_plugins
        if rejectors.isdisjoint(hints):
            return ()
        return tuple(
            [
                (plugin, plugin in pending, hint)
                for plugin in _pending_first(rejectors, pending)
                for hint in hints.get(plugin, ())
            ]
        )

    def _strategy(
        self, pod: PodInfo, steps: _Steps | None, label: str, old: KubeObject | None, new: KubeObject | None
    ) -> QueueingStrategy:
        if not steps:
            return QueueingStrategy.AFTER_BACKOFF if steps is None else QueueingStrategy.SKIP
        ask = self._ask
        if pod.is_costly:  # a hint compares the object with all that the pod asks for: it is not asked
            return QueueingStrategy.AFTER_BACKOFF
        for plugin, is_pending, hint in steps:
            if ask(plugin, label, hint, pod, old, new):
                return QueueingStrategy.IMMEDIATELY if is_pending else QueueingStrategy.AFTER_BACKOFF
        return QueueingStrategy.SKIP

    def _hints_for(self, profile: str, event: ClusterEvent) -> _Hints:
        known = self._hints.get((profile, event))
        if known is None:
            registered = self._registrations.get(profile, {})
            known = self._hints[profile, event] = _matching(registered, event)
        return known


def _matching(registered: Registrations, event: ClusterEvent) -> _Hints:
    found: dict[str, Sequence[HintFunction | None]] = {}
    for plugin, extensions in registered.items():
        hints = [extension.hint for extension in extensions if extension.event.matches(event)]
        if hints:
            found[plugin] = hints
    return found or _HEARS_NOTHING


def _pending_first(rejectors: Collection[str], pending: frozenset[str]) -> Collection[str]:
    """The plugins, pending ones first, because their Queue takes precedence over the others'."""
    return rejectors if not pending else (*pending, *(plugin for plugin in rejectors if plugin not in pending))
