"""The guard around every call of a plugin: exceptions are caught here and nowhere else, and answers are checked here.

A `PluginCall` is one kind of call (`points` has the table). It can call a plugin's method in three ways:

    call               in a cycle: the cycle's stopwatch times it, and the end of the cycle reports a failure
    call_and_report    anywhere else: the call is timed, and a failure is reported at once
    run                as `call_and_report`, for a coroutine: its steps are timed, its waits are not

All three raise `PluginFailure` and nothing else (but for `DecisionEndedError`, which ends the whole decision and is no
plugin's failure), whatever the plugin does: raise any exception (also `SystemExit` and a
cancelled future), or return a value of the wrong type. What happens to the pod then is the call's `FailureOutcome`.
"""

from collections.abc import Callable, Coroutine
from enum import Enum
from functools import partial
from time import perf_counter
from typing import Any, Final, Generic, TypeVar

from kscheduler.aio.tasks import is_own_cancellation
from kscheduler.client.errors import ClientError
from kscheduler.framework.decision_time import DecisionEndedError
from kscheduler.framework.plugin_listener import SLOW_CALL_SECONDS, PluginListener
from kscheduler.framework.plugin_results import NotCalledError, with_place, words_of
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Fault, Status, StatusError, error
from kscheduler.scheduling.runtime.timing import CallTimer, Steps

A = TypeVar("A")
# From a plugin's answer and the arguments of the call to the answer that is used. Raises if the answer is wrong.
Check = Callable[[Any, tuple[Any, ...]], A]

# What a plugin that sends requests may raise because the server is down: not a bug. (A timeout is an OSError.)
OUTSIDE: Final = (ClientError, OSError)
_NOTHING: Final = object()


class FailureOutcome(Enum):
    """What becomes of a pod when a plugin fails. No other pod is affected.

    `then` ends the text of the pod's Event in the cases where no failed attempt reports the failure.
    """

    ATTEMPT_FAILS = "the attempt ends with an Error that names the plugin, what others have reserved is given back"
    """The pod is tried again with backoff. In a dry run, the Error is what the caller of the dry run gets."""
    NO_POINTS = (
        "nodes get no points from the plugin, and the others place the pod; of an in-tree plugin, the attempt ends"
    )
    """See `partial_results`: which nodes, and why none of them where the failure is about the pod."""
    STAYS_REJECTED = "no room is made for the pod; its message names the plugin"
    KEPT_OUT = "the pod is gated", "the pod is gated and asked about again within 30 s"
    SORTED_BEHIND = "its key is of no use", "the pod is sorted behind all others, by priority and time"
    QUEUED = "the pod is queued, as if the hint had said so"
    WITHOUT_CLASS = "the pod shares no verdict with any other"
    QUERIED_ONE_BY_ONE = "all pods that the gate has rejected are asked about"
    BOUND = "the pod is bound", "the pod is bound all the same"
    OTHERS_GIVE_BACK = "the next plugin is asked to give back", "what it has set aside for the pod may stay so"
    SAID_INSTEAD = "the text says that the plugin gives no reason"
    DATA_STAY = "the data that it has fetched before stay in use"
    GONE = "the plugin is no longer used, whatever it has kept"
    NO_START = "the configuration is refused with the plugin's name"

    def __init__(self, meaning: str, then: str = "") -> None:
        self.meaning = meaning
        self.then = then


class PluginFailure(Exception):  # noqa: N818  the field's word: a plugin failed
    """A plugin raised, returned a wrong value, or returned an Error. The text is kube-scheduler's."""

    def __init__(self, call: "PluginCall[Any]", plugin: str, text: str, answered: Fault = Fault.PASSING) -> None:
        """`answered`: whose fault an Error is that the plugin returned."""
        super().__init__(text)
        self._call = call
        self._answered = answered
        self.plugin = plugin

    @property
    def point(self) -> str:
        """What the plugin was called for, as metrics name it."""
        return self._call.label

    @property
    def status(self) -> Status:
        """The Error that ends the attempt. It counts as a bug if the plugin raised, not if it returned an Error."""
        cause = self.__cause__
        if isinstance(cause, NotCalledError):
            return error(str(self), fault=Fault.HELD_BACK if cause.is_hold else Fault.ON_TRIAL)
        return error(str(self), fault=self._answered if cause is None else self._call.fault)

    def report(self, listener: PluginListener, pod: PodInfo | None) -> None:
        """Report what the plugin raised. An Error that it returned is a regular answer and is not reported."""
        if self.__cause__ is not None:
            listener.failed(self.plugin, self.point, pod, self.__cause__, self._call.outcome.then)

    def end(self, timer: CallTimer, listener: PluginListener, pod: PodInfo) -> Status:
        """Measure and report a failure that ends a cycle; returns the cycle's Error."""
        timer.call_ended(self.point, self.plugin, 0)
        self.report(listener, pod)
        return self.status


class PluginCall(Generic[A]):
    """One kind of call: its name, the check of its answer, and what follows a failure."""

    __slots__ = ("_check", "_text", "_usual", "_words", "fault", "label", "outcome")

    def __init__(
        self,
        label: str,
        check: Check[A],
        outcome: FailureOutcome,
        *,
        usual: Any = _NOTHING,
        text: str = 'running {point} plugin "{plugin}": {words}',
        words: Callable[[BaseException], str] = words_of,
        fault: Fault = Fault.BUG,
    ) -> None:
        """`label`: the name in metrics, log lines and texts. `usual`: the most frequent answer, which skips the check.

        `text`: kube-scheduler's error text. `words`: from an exception to its part of that text. `fault`: whose fault
        an exception is.
        """
        self.label = label
        self.outcome = outcome
        self.fault = fault
        self._check = check
        self._usual = usual
        self._text = text
        self._words = words

    def call(self, plugin: str, method: Callable[..., Any], *arguments: Any) -> A:
        """The checked answer. Raises `PluginFailure`; the caller must report it."""
        try:
            answer = method(*arguments)
            if answer is self._usual:
                return answer  # type: ignore[no-any-return]
            return self._check(answer, arguments)
        except StatusError as answer:
            raise self.failed(plugin, str(answer), answer.fault) from None
        except DecisionEndedError:
            raise
        except BaseException as failure:
            raise self._failure(plugin, failure) from failure

    def call_and_report(
        self, plugin: str, listener: PluginListener, pod: PodInfo | None, method: Callable[..., Any], *arguments: Any
    ) -> A:
        """The checked answer. Raises `PluginFailure` after reporting it; a slow call is reported as well."""
        began = perf_counter()
        try:  # the body of `call`, repeated: calling it would double the cost
            answer = method(*arguments)
            if answer is self._usual:
                return answer  # type: ignore[no-any-return]
            return self._check(answer, arguments)
        except DecisionEndedError:
            raise
        except BaseException as failure:
            listener.failed(plugin, self.label, pod, failure, self.outcome.then)
            raise self._failure(plugin, failure) from failure
        finally:
            seconds = perf_counter() - began
            if seconds > SLOW_CALL_SECONDS:
                listener.slow(plugin, self.label, pod, seconds)

    async def run(
        self,
        plugin: str,
        listener: PluginListener,
        pod: PodInfo | None,
        method: Callable[..., Coroutine[Any, Any, Any]],
        *arguments: Any,
        is_timed: bool = True,
    ) -> A:
        """The checked result of the coroutine. Raises `PluginFailure` after reporting it.

        If the task that awaits this is cancelled, the cancellation is passed on. Any other `CancelledError` is the
        plugin's failure: a future that the plugin awaited was cancelled.
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
            if is_own_cancellation(failure):
                raise
            if not isinstance(failure, OUTSIDE):
                listener.failed(plugin, self.label, pod, failure, self.outcome.then)
            raise self._failure(plugin, failure) from failure

    def takes(self, answer: Any, arguments: tuple[Any, ...]) -> bool:
        """Whether the answer passes the check."""
        try:
            self.call("", lambda *_: answer, *arguments)
        except PluginFailure:
            return False
        return True

    def failed(self, plugin: str, words: str, fault: Fault = Fault.PASSING) -> PluginFailure:
        """The failure of a plugin that returned an Error with these words."""
        return PluginFailure(self, plugin, self.text_of(plugin, words), fault)

    def text_of(self, plugin: str, words: str) -> str:
        """The error text in the pod's condition for a plugin that failed with these words."""
        return self._text.format(point=self.label, plugin=plugin, words=words)

    def _failure(self, plugin: str, failure: BaseException) -> PluginFailure:
        return self.failed(plugin, with_place(self._words(failure), failure))
