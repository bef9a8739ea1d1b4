"""The plugins that the queue asks, called: who may come in, who is let in later, which event helps whom.

None of these raises: each answers in the plugin's place where it fails. (The order of the queue is `sort_order`.)
"""

from collections.abc import Callable, Collection
from time import perf_counter

from kscheduler.api.meta import KubeObject
from kscheduler.framework.events import HintFunction, QueueingHint
from kscheduler.framework.plugin import PreEnqueuePlugin
from kscheduler.framework.plugin_listener import NOBODY, SLOW_CALL_SECONDS, PluginListener
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.standing_gate import StandingGate
from kscheduler.framework.status import Status
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import MAY_LET_IN, PRE_ENQUEUE, QUEUEING_HINT

ObserveHint = Callable[[str, str, str, float], None]
"""Told of each hint: plugin, event label, answer (`Queue`, `QueueSkip`, `Error`), seconds."""


def unobserved(plugin: str, event: str, answer: str, seconds: float) -> None:
    """Nobody measures."""


def call_pre_enqueue(plugin: PreEnqueuePlugin, listener: PluginListener, pod: PodInfo) -> Status:
    """Success lets the pod in; where the plugin fails, an Error that names it keeps it out."""
    try:
        return PRE_ENQUEUE.ask_and_tell(plugin.name, listener, pod, plugin.pre_enqueue, pod)
    except PluginFailure as failure:
        return failure.status


def call_may_let_in(gate: StandingGate, listener: PluginListener) -> Collection[str] | None:
    """Keys of the pods that the gate may let in now; `None` where it fails: all are asked about."""
    try:
        return MAY_LET_IN.ask_and_tell(gate.name, listener, None, gate.may_let_in)
    except PluginFailure:
        return None


class HintCalls:
    """Asks the hints that plugins have registered. Implements `state.queue.hints.AskHint`."""

    def __init__(self, observe: ObserveHint, listener: PluginListener = NOBODY) -> None:
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
        """Whether the event may help the pod; a registration without a hint, and a hint that fails, say so."""
        if hint is None:
            self._observe(plugin, event, QueueingHint.QUEUE.value, 0.0)
            return True
        began = perf_counter()
        try:
            answer = QUEUEING_HINT.ask(plugin, hint, pod, old, new)
            said = answer.value
        except PluginFailure as failure:
            answer, said = QueueingHint.QUEUE, "Error"
            failure.tell(self._listener, pod)
        seconds = perf_counter() - began
        self._observe(plugin, event, said, seconds)
        if seconds > SLOW_CALL_SECONDS:
            self._listener.slow(plugin, QUEUEING_HINT.label, pod, seconds)
        return answer is QueueingHint.QUEUE
