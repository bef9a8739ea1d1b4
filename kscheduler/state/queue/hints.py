"""Which events may let a parked pod through.

Each profile's plugins have registered events, some with a hint that looks at the objects. For a pod only the hints of
the plugins that rejected it are called; the others cannot help it. The hints of a profile are looked up once per kind
of event, so an event that none of a pod's rejecting plugins registered costs a single comparison of sets.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Final, Protocol

import msgspec

from kscheduler.api.core import Pod, PodStatus
from kscheduler.api.meta import KubeObject
from kscheduler.api.quantity import QuantityError
from kscheduler.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    HintFunction,
    QueueingHint,
    Resource,
)
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import Resizing, accounted_requests

# The differences between two versions of a waiting pod as cluster events: an event per changed property.


def pod_update_events(old: Pod, new: Pod, resource: Resource = Resource.UNSCHEDULABLE_POD) -> list[ClusterEvent]:
    """An event per changed property; a plain update if none of them changed."""
    changed = [action for action, differs in _EXTRACTORS if differs(old, new)]
    return [_event(resource, action) for action in changed or [ActionType.UPDATE_OTHER]]


# Cached: events are values, and there are only a dozen.
_event = lru_cache(ClusterEvent)


def is_equal_for_plugins(old: Pod, new: Pod) -> bool:
    """Whether no plugin can tell two versions of a pod apart: they differ only in the scheduler's own condition."""
    before, after = old.metadata, new.metadata
    return (
        before.labels == after.labels
        and before.annotations == after.annotations
        and before.owner_references == after.owner_references
        and before.deletion_timestamp == after.deletion_timestamp
        and old.spec == new.spec
        and _without_our_condition(old.status) == _without_our_condition(new.status)
    )


def is_own_write(old: Pod, new: Pod) -> bool:
    """Whether only the scheduler's own condition and nomination differ: such an update must not wake any pod."""
    node = new.status.nominated_node_name
    if old.status.nominated_node_name != node:
        status = msgspec.structs.replace(old.status, nominated_node_name=node)
        old = msgspec.structs.replace(old, status=status)
    return is_equal_for_plugins(old, new)


def _without_our_condition(status: PodStatus) -> PodStatus:
    others = tuple(condition for condition in status.conditions if condition.type != "PodScheduled")
    return msgspec.structs.replace(status, conditions=others)


def _labels_differ(old: Pod, new: Pod) -> bool:
    return old.metadata.labels != new.metadata.labels


def _is_scaled_down(old: Pod, new: Pod) -> bool:
    if _have_equal_requests(old, new):
        return False
    try:
        return any(_shrinks(old, new, resizing) for resizing in (Resizing.BY_CONTAINER, Resizing.BY_POD))
    except QuantityError:  # the cycle reports it; the pod is tried again when its owner corrects it
        return False


def _have_equal_requests(old: Pod, new: Pod) -> bool:
    """Whether nothing that requests are added up of differs; to compare costs less than to add up."""
    before, after = old.status, new.status
    reports = (before.container_statuses, before.init_container_statuses, after.container_statuses)
    if old.spec is new.spec and before is after:
        return True
    has_reports = any(reports) or bool(after.init_container_statuses) or after.resources is not None
    return old.spec == new.spec and not has_reports and before.resources is None


def _is_scaled_up(old: Pod, new: Pod) -> bool:
    """By the rule of 1.37, the only version with this event."""
    return _is_scaled_down(new, old)


def _shrinks(old: Pod, new: Pod, resizing: Resizing) -> bool:
    before, after = accounted_requests(old, resizing), accounted_requests(new, resizing)
    return before is not after and any(after.get(name, 0) < amount for name, amount in before.items())


def _gates_are_gone(old: Pod, new: Pod) -> bool:
    return bool(old.spec.scheduling_gates) and not new.spec.scheduling_gates


def _tolerations_differ(old: Pod, new: Pod) -> bool:
    return len(old.spec.tolerations) != len(new.spec.tolerations)


def _generated_claims_differ(old: Pod, new: Pod) -> bool:
    return old.status.resource_claim_statuses != new.status.resource_claim_statuses


_EXTRACTORS = (
    (ActionType.UPDATE_POD_LABEL, _labels_differ),
    (ActionType.UPDATE_POD_SCALE_DOWN, _is_scaled_down),
    (ActionType.UPDATE_POD_SCALE_UP, _is_scaled_up),
    (ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, _gates_are_gone),
    (ActionType.UPDATE_POD_TOLERATION, _tolerations_differ),
    (ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM, _generated_claims_differ),
)


# Plugin name to the events that may change its verdict.
Registrations = Mapping[str, Sequence[ClusterEventWithHint]]
# Plugin name to its hints for an event; `None` is no hint, which always means Queue.
_Hints = Mapping[str, Sequence[HintFunction | None]]
# Whether an event may help a pod: plugin, event label, what the plugin registered (`None`: it always may), the pod, the
# object as it was and as it is. Never raises; `scheduling.runtime` has the one that times and guards hints.
CallHint = Callable[[str, str, HintFunction | None, PodInfo, KubeObject | None, KubeObject | None], bool]

_HEARS_NOTHING: Final[_Hints] = {}
# The number of sets of rejecting plugins whose events are cached.
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
        rejectors = waiting.unschedulable_plugins | waiting.pending_plugins
        profile = waiting.pod.pod.spec.scheduler_name
        if not rejectors or event.resource is Resource.WILDCARD or profile not in self._registrations:
            return QueueingStrategy.AFTER_BACKOFF
        hints = self._hints_for(profile, event)
        if rejectors.isdisjoint(hints):
            return QueueingStrategy.SKIP
        if waiting.pod.is_costly:  # a hint compares the object with all that the pod asks for: it is not asked
            return QueueingStrategy.AFTER_BACKOFF
        for plugin in _pending_first(rejectors, waiting.pending_plugins):
            registered = hints.get(plugin, ())
            if any(self._ask(plugin, event.label, hint, waiting.pod, old, new) for hint in registered):
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
