"""The guard around every call of a plugin: what it raises is caught here and nowhere else, what it answers is checked.

A `PluginCall` is one thing that plugins are called for (`points` has the table). It calls a method in three ways:

    ask             in a cycle: the stopwatch of the cycle times it, and whoever ends the cycle reports the failure
    ask_and_tell    anywhere else: timed, and a failure is reported at once
    run             the same for a coroutine: its steps are timed, not its waits

All three raise `PluginFailure` and nothing else, whatever the plugin does: raise (a `sys.exit()` and a cancelled future
too), or answer with a value that its point has no use for. What follows for the pod is the call's `Fate`.
"""

from collections.abc import Callable, Coroutine
from enum import Enum
from functools import partial
from time import perf_counter
from typing import Any, Final, Generic, TypeVar

from kscheduler.aio.tasks import ends_this_task
from kscheduler.client.errors import ClientError
from kscheduler.framework.plugin_answers import words_of
from kscheduler.framework.plugin_listener import SLOW_CALL_SECONDS, PluginListener
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Fault, Status, error
from kscheduler.scheduling.runtime.steps import Steps
from kscheduler.scheduling.runtime.timing import CallTimer

A = TypeVar("A")
Check = Callable[[Any, tuple[Any, ...]], A]
"""The answer as it is to be used, given what was asked. Raises whatever tells that it is no answer."""

OUTSIDE: Final = (ClientError, OSError)
"""What a plugin that writes may raise because the other end is down: no bug. (A timeout is an OSError.)"""
_NOTHING: Final = object()


class Fate(Enum):
    """What becomes of a pod when a plugin fails; nothing else ever stops for it.

    `then` completes the Event of a pod of which no failed attempt tells.
    """

    ATTEMPT_FAILS = "the attempt ends with an Error that names the plugin, what others have reserved is given back"
    """The pod is tried again with back-off. In a dry run the Error is the answer to whoever has asked for it."""
    STAYS_TURNED_DOWN = "no room is made for the pod; its message names the plugin"
    KEPT_OUT = "the pod is gated", "the pod is kept out of the queue and asked about again within 30 s"
    SORTED_BEHIND = "its key is of no use", "the pod is sorted behind all others, by priority and time"
    QUEUED = "the pod is queued, as if the hint had said so"
    JUDGED_ALONE = "the pod shares no verdict with any other"
    ASKED_ONE_BY_ONE = "all pods that the gate has turned away are asked about"
    BOUND = "the pod is bound", "the pod is bound all the same"
    OTHERS_GIVE_BACK = "the next plugin is asked to give back", "what it has set aside for the pod may stay so"
    SAID_INSTEAD = "the text says that the plugin cannot tell"
    NO_START = "the configuration is refused with the plugin's name"

    def __init__(self, meaning: str, then: str = "") -> None:
        self.meaning = meaning
        self.then = then


class PluginFailure(Exception):  # noqa: N818  the field's word: a plugin failed
    """A plugin raised, answered with a value that is no answer, or with an Error. The text is kube-scheduler's."""

    def __init__(self, call: "PluginCall[Any]", plugin: str, text: str) -> None:
        super().__init__(text)
        self._call = call
        self.plugin = plugin

    @property
    def point(self) -> str:
        """What the plugin was called for, as metrics name it."""
        return self._call.label

    @property
    def status(self) -> Status:
        """The Error that ends the attempt: a bug where the plugin raised, not where it answered so."""
        return error(str(self), fault=Fault.PASSING if self.__cause__ is None else self._call.fault)

    def tell(self, listener: PluginListener, pod: PodInfo | None) -> None:
        """Report what the plugin raised; an Error that it answered with is its right."""
        if self.__cause__ is not None:
            listener.failed(self.plugin, self.point, pod, self.__cause__, self._call.fate.then)

    def end(self, timer: CallTimer, listener: PluginListener, pod: PodInfo) -> Status:
        """The Error that a failure in a cycle comes to, once its time is taken and it is reported."""
        timer.asked(self.point, self.plugin)
        self.tell(listener, pod)
        return self.status


class PluginCall(Generic[A]):
    """One thing that plugins are called for."""

    __slots__ = ("_check", "_text", "_usual", "_words", "fate", "fault", "label")

    def __init__(
        self,
        label: str,
        check: Check[A],
        fate: Fate,
        *,
        usual: Any = _NOTHING,
        text: str = 'running {point} plugin "{plugin}": {words}',
        words: Callable[[BaseException], str] = words_of,
        fault: Fault = Fault.BUG,
    ) -> None:
        """`label`: as metrics, log lines and texts name it. `usual`: the answer that needs no look, for nearly all.

        `text`: kube-scheduler's. `words`: what of the exception stands in it. `fault`: whose an exception is.
        """
        self.label = label
        self.fate = fate
        self.fault = fault
        self._check = check
        self._usual = usual
        self._text = text
        self._words = words

    def ask(self, plugin: str, method: Callable[..., Any], *arguments: Any) -> A:
        """The answer. Raises `PluginFailure`, which nobody has reported."""
        try:
            answer = method(*arguments)
            if answer is self._usual:
                return answer  # type: ignore[no-any-return]
            return self._check(answer, arguments)
        except BaseException as failure:
            raise self._failure(plugin, failure) from failure

    def ask_and_tell(
        self, plugin: str, listener: PluginListener, pod: PodInfo | None, method: Callable[..., Any], *arguments: Any
    ) -> A:
        """The answer. Raises `PluginFailure`, which has been reported, as has been a call that took too long."""
        began = perf_counter()
        try:  # as `ask`, which would cost as much again
            answer = method(*arguments)
            if answer is self._usual:
                return answer  # type: ignore[no-any-return]
            return self._check(answer, arguments)
        except BaseException as failure:
            listener.failed(plugin, self.label, pod, failure, self.fate.then)
            raise self._failure(plugin, failure) from failure
        finally:
            seconds = perf_counter() - began
            if seconds > SLOW_CALL_SECONDS:
                listener.slow(plugin, self.label, pod, seconds)

    async def run(
        self,
        plugin: str,
        listener: PluginListener,
        pod: PodInfo,
        method: Callable[..., Coroutine[Any, Any, Any]],
        *arguments: Any,
        is_timed: bool = True,
    ) -> A:
        """What the coroutine returns. Raises `PluginFailure`, reported, and what ends the task that awaits this.

        A cancellation is the plugin's failure unless this task itself is cancelled: a future that it awaited was.
        """
        try:
            work: Any = method(*arguments)
            if is_timed:
                work = Steps(work, partial(listener.slow, plugin, self.label, pod), perf_counter)
            answer = await work
            if answer is self._usual:
                return answer  # type: ignore[no-any-return]
            return self._check(answer, arguments)
        except BaseException as failure:
            if ends_this_task(failure):
                raise
            if not isinstance(failure, OUTSIDE):
                listener.failed(plugin, self.label, pod, failure, self.fate.then)
            raise self._failure(plugin, failure) from failure

    def failed(self, plugin: str, words: str) -> PluginFailure:
        """The failure of a plugin that has answered with an Error: its text, nobody's bug."""
        return PluginFailure(self, plugin, self.text_of(plugin, words))

    def text_of(self, plugin: str, words: str) -> str:
        """What a pod is told of a plugin that fails with these words."""
        return self._text.format(point=self.label, plugin=plugin, words=words)

    def _failure(self, plugin: str, failure: BaseException) -> PluginFailure:
        return self.failed(plugin, self._words(failure))
