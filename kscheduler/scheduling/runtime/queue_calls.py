"""Calls of plugins by the queue: PreEnqueue, standing and object gates, queueing hints.

None of these functions raises: if a plugin fails, they answer in its place.
"""

from collections.abc import Callable, Collection
from time import perf_counter
from typing import Final

from kscheduler.api.meta import KubeObject
from kscheduler.framework.events import HintFunction, QueueingHint
from kscheduler.framework.plugin import PreEnqueuePlugin
from kscheduler.framework.plugin_listener import NO_LISTENER, SLOW_CALL_SECONDS, PluginListener
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.standing_gate import ObjectGate, StandingGate
from kscheduler.framework.status import Status
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import (
    GATING_OBJECTS,
    MAY_LET_IN,
    PRE_ENQUEUE,
    QUEUEING_HINT,
)

# Called after each hint with plugin, event label, answer (`Queue`, `QueueSkip`, `Error`) and seconds.
ObserveHint = Callable[[str, str, str, float], None]

# Read once: each waiting pod may cost a call for each event, and Enum's own `value` is slow (Python code).
_QUEUE: Final = QueueingHint.QUEUE.value
_SKIP: Final = QueueingHint.SKIP.value


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
            self._observe(plugin, event, _QUEUE, 0.0)
            return True
        began = perf_counter()
        try:
            answer = QUEUEING_HINT.call(plugin, hint, pod, old, new)
            label = _SKIP if answer is QueueingHint.SKIP else _QUEUE
        except PluginFailure as failure:
            answer, label = QueueingHint.QUEUE, "Error"
            failure.report(self._listener, pod)
        seconds = perf_counter() - began
        self._observe(plugin, event, label, seconds)
        if seconds > SLOW_CALL_SECONDS:
            self._listener.slow(plugin, QUEUEING_HINT.label, pod, seconds)
        return answer is QueueingHint.QUEUE
