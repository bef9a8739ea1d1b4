"""Calls of plugins by the queue: PreEnqueue, standing and object gates, queueing hints; `sign`, and QueueSort.

If a plugin fails, these functions answer in its place; they never raise. Only an in-tree `sign` or `sort_key` is
called without the guard.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import count
from time import perf_counter
from typing import Any, TypeVar

from kscheduler.api.meta import KubeObject
from kscheduler.framework.events import HintFunction, QueueingHint
from kscheduler.framework.plugin import PreEnqueuePlugin, QueueSortPlugin, Signature
from kscheduler.framework.plugin_listener import NO_LISTENER, SLOW_CALL_SECONDS, PluginListener
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo, priority_order
from kscheduler.framework.standing_gate import ObjectGate, StandingGate
from kscheduler.framework.status import Status
from kscheduler.framework.traits import PluginTraits
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import (
    GATING_OBJECTS,
    MAY_LET_IN,
    PRE_ENQUEUE,
    QUEUE_SORT,
    QUEUE_SORT_COMPARES,
    QUEUEING_HINT,
    SIGN,
    SIGNATURES,
)

# Calls of `sign`: which parts of a pod a plugin reads.
#
# If a plugin cannot sign a pod, the pod is judged by itself, and no decision is wrong. Without a report its author
# would never notice, so a failure of a user's `sign` is reported here. In-tree plugins are called without the guard:
# they fail only on pods that cannot be read, and that is reported elsewhere. Comparing signatures also runs code of
# plugins (`__eq__` and `__hash__` of their values), so it happens inside `or_without_class`.

T = TypeVar("T")

# From a pod to one plugin's signature. Raises whatever the plugin raises, so call it inside `or_without_class`.
Signer = Callable[[PodInfo], Signature]


def signer_of(plugin: Any, traits: PluginTraits, listener: PluginListener) -> Signer:
    """The function that signs pods for this plugin; it reports failures of plugins that are not in-tree."""
    sign: Signer = plugin.sign if traits.is_in_tree else partial(_signed, plugin, listener)
    return sign


def _signed(plugin: Any, listener: PluginListener, pod: PodInfo) -> Signature:
    return SIGN.call_and_report(plugin.name, listener, pod, plugin.sign, pod)


def or_without_class(by_signatures: Callable[..., T], *arguments: Any) -> T | None:
    """The result of `by_signatures`, which calls signers and compares their signatures; `None` if a plugin fails."""
    try:
        found: T = SIGNATURES.call("", by_signatures, *arguments)
    except PluginFailure:
        return None
    return found


def signatures_of(signers: Sequence[Signer], pod: PodInfo) -> tuple[Signature, ...]:
    """The signature of each signer, in their order. Call it inside `or_without_class`."""
    return tuple([sign(pod) for sign in signers])


# Called after each hint with plugin, event label, answer (`Queue`, `QueueSkip`, `Error`) and seconds.
ObserveHint = Callable[[str, str, str, float], None]


def unobserved(plugin: str, event: str, answer: str, seconds: float) -> None:
    """Measure nothing."""


def call_pre_enqueue(plugin: PreEnqueuePlugin, listener: PluginListener, pod: PodInfo) -> Status:
    """Success lets the pod into the queue. After a failure: an Error that names the plugin and keeps the pod out."""
    try:
        return PRE_ENQUEUE.call_and_report(plugin.name, listener, pod, plugin.pre_enqueue, pod)
    except PluginFailure as failure:
        return failure.status


def call_may_let_in(gate: StandingGate, listener: PluginListener) -> Collection[str] | None:
    """Keys of the pods that the gate may let in now; `None` after a failure: every gated pod must be asked about."""
    try:
        return MAY_LET_IN.call_and_report(gate.name, listener, None, gate.may_let_in)
    except PluginFailure:
        return None


def call_gating_objects(gate: ObjectGate, listener: PluginListener, pod: PodInfo) -> Collection[str] | None:
    """What the pod waits for; `None`, also after a failure: the gate must be asked about it."""
    try:
        return GATING_OBJECTS.call_and_report(gate.name, listener, pod, gate.gating_objects, pod)
    except PluginFailure:
        return None


def call_changed_gating_objects(gate: ObjectGate, listener: PluginListener) -> Collection[str] | None:
    """The objects that have changed since the last call; `None`, also after a failure: perhaps all."""
    try:
        return GATING_OBJECTS.call_and_report(gate.name, listener, None, gate.changed_gating_objects)
    except PluginFailure:
        return None


class HintCalls:
    """Calls the hints that plugins have registered. Implements `state.queue.hints.CallHint`."""

    def __init__(self, observe: ObserveHint, listener: PluginListener = NO_LISTENER) -> None:
        self._observe = observe
        self._listener = listener

    def __call__(
        self,
        plugin: str,
        event: str,
        hint: HintFunction | None,
        pod: PodInfo,
        old: KubeObject | None,
        new: KubeObject | None,
    ) -> bool:
        """Whether the event may help the pod; True for a registration without a hint, and for a hint that fails."""
        if hint is None:
            self._observe(plugin, event, QueueingHint.QUEUE.value, 0.0)
            return True
        began = perf_counter()
        try:
            answer = QUEUEING_HINT.call(plugin, hint, pod, old, new)
            label = answer.value
        except PluginFailure as failure:
            answer, label = QueueingHint.QUEUE, "Error"
            failure.report(self._listener, pod)
        seconds = perf_counter() - began
        self._observe(plugin, event, label, seconds)
        if seconds > SLOW_CALL_SECONDS:
            self._listener.slow(plugin, QUEUEING_HINT.label, pod, seconds)
        return answer is QueueingHint.QUEUE


# The order of a QueueSort plugin, made safe: keys that never raise and can always be compared.
#
# The problem: `sort_key` is a user's code, called whenever a pod enters a queue, and its keys are compared in the
# middle of a heap operation. A key that raises, or that cannot be compared with the others, must not lose a pod. The
# idea: each key is wrapped, and a key that fails affects its own pod only: **that pod sorts behind all pods with a
# sound key, and among pods with unsound keys in the order of PrioritySort**. Why behind: in front, a bad annotation
# would be a way to jump the queue; and if the order of all pods changed, one bad pod would switch the policy off for
# everybody.
#
#     a                      b                    which pod goes first
#     sound                  sound                as the keys say; equal keys by arrival
#     sound                  unsound              a
#     unsound                unsound              higher priority, then longer waiting, then arrival
#     sound, but comparing raises                 the later of the two is unsound from then on
#
# A key is unsound if making it raises, if it cannot be compared with itself (`None`, a coroutine), or if it is or holds
# a NaN, which is neither before nor after anything. Limit: keys that contradict themselves (a < b, b < c, c < a) give
# some order, and no pod is lost. The keys of the in-tree plugin PrioritySort need none of this and are not wrapped.


def sort_keys_of(
    plugin: QueueSortPlugin, traits: PluginTraits, listener: PluginListener
) -> Callable[[QueuedPodInfo], Any]:
    """From a queued pod to its key; PrioritySort's is not wrapped, because it can neither fail nor be slow."""
    return plugin.sort_key if traits.is_in_tree else SortOrder(plugin, listener)


class SortOrder:
    """Makes the wrapped keys of one plugin."""

    def __init__(self, plugin: QueueSortPlugin, listener: PluginListener) -> None:
        self._plugin = plugin
        self._listener = listener
        self._serial = count()

    def __call__(self, queued: QueuedPodInfo, /) -> "OrderKey":
        """The pod's key. Never raises."""
        plugin, serial = self._plugin, next(self._serial)
        try:
            key = QUEUE_SORT.call_and_report(plugin.name, self._listener, queued.pod, plugin.sort_key, queued)
        except PluginFailure:
            return OrderKey(self, None, serial, queued, is_sound=False)
        return OrderKey(self, key, serial, queued)

    def is_before(self, key: Any, other_key: Any) -> bool:
        """Whether the plugin's `key` is smaller than `other_key`. Raises `PluginFailure` without reporting it."""
        return QUEUE_SORT_COMPARES.call(self._plugin.name, _is_smaller, key, other_key)

    def report(self, failure: PluginFailure, queued: QueuedPodInfo) -> None:
        """Report that the pod's key cannot be compared."""
        failure.report(self._listener, queued.pod)


def _is_smaller(key: Any, other_key: Any) -> bool:
    return bool(key < other_key)


class OrderKey:
    """A pod's wrapped key. `<` never raises."""

    __slots__ = ("_in_priority_order", "_is_sound", "_key", "_order", "_queued", "_serial")

    def __init__(
        self, order: SortOrder, key: Any, serial: int, queued: QueuedPodInfo, *, is_sound: bool = True
    ) -> None:
        self._order = order
        self._key = key
        self._serial = serial
        self._queued = queued
        self._in_priority_order = priority_order(queued)
        """Fixed at this moment: the pod's timestamp may change while an old entry of it is still in a heap."""
        self._is_sound = is_sound

    def __lt__(self, other: "OrderKey") -> bool:
        if self._is_sound and other._is_sound:
            try:
                return self._is_before(other)
            except PluginFailure as failure:
                # The later of the two becomes unsound: the earlier key has been compared with others before.
                late = self if self._serial > other._serial else other
                late._is_sound, late._key = False, None
                self._order.report(failure, late._queued)
        if self._is_sound is not other._is_sound:
            return self._is_sound
        return (self._in_priority_order, self._serial) < (other._in_priority_order, other._serial)

    def _is_before(self, other: "OrderKey") -> bool:
        """By the plugin's keys; equal keys by arrival. Raises `PluginFailure`."""
        if self._order.is_before(self._key, other._key):
            return True
        return not self._order.is_before(other._key, self._key) and self._serial < other._serial
