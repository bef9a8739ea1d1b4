"""A stand-in for a plugin that is not in-tree: it calls the plugin within its time budget.

It has the methods that the plugin has, and no others, so that a profile takes it for the plugin; what follows from the
plugin's class (`framework.traits`) is read from the plugin itself: `unsupervised`. A profile has stand-ins of its own,
because budget and strikes are settings of the profile.

What becomes of a call that runs over its budget:

    it was interrupted          it fails with `TimeBudgetError`, also if it caught the error and answered: the answer of
                                an interrupted computation may be half of one
    C code returned too late    its answer is used (it is complete, and a pod may be bound already); the overrun is
                                reported and counts as a failure

While the plugin's circuit is watched, each call asks first whether it may be made (`NotCalledError`), and each right
answer is told to the circuit; otherwise one in ten seconds is.

Each step of a coroutine has the budget, the waits between them have none. Not supervised, because no method of the
plugin is called: comparing sort keys and signatures whose classes have an `__lt__`, `__eq__` or `__hash__` of their
own. Not supervised either: the factory and `events_to_register` (at the start and at a reload), and `close`.
"""

from collections.abc import Callable, Collection, Coroutine, Sequence
from time import perf_counter
from typing import Any, Final, Protocol

import numpy as np
from msgspec.structs import replace

from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.framework.events import ClusterEventWithHint
from kscheduler.framework.nodes.moved_pods import MovedPods
from kscheduler.framework.plugin import Plugin, Point
from kscheduler.framework.plugin_results import NotCalledError
from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import StatusError
from kscheduler.framework.traits import traits_of
from kscheduler.scheduling.supervision.alarm import ALARM, TimeBudgetError, shown_seconds
from kscheduler.scheduling.supervision.circuit_breaker import REPORTED_EACH_SECONDS, CircuitBreaker
from kscheduler.scheduling.supervision.holds import NO_NAMESPACE, Caller

HINT: Final = "QueueingHint"
_MAX_NAMED: Final = 10
# Methods that always answer with a coroutine; `permit` and `post_bind` may.
AWAITED: Final = frozenset(("pre_bind", "bind", "refresh"))
# The methods that run within the budget, with their names in metrics and texts.
LABELS: Final = {point.method: point.label for point in Point} | {
    "add_pod": "AddPod",
    "remove_pod": "RemovePod",
    "move_pods": "AddPod",
    "normalize": "NormalizeScore",
    "unreserve": "Unreserve",
    "pre_bind_pre_flight": "PreBindPreFlight",
    "may_let_in": "MayLetIn",
    "gating_objects": "GatingObjects",
    "changed_gating_objects": "GatingObjects",
    "sign": "Sign",
    "status": "Status",
    "details": "Details",
    "refresh": "Refresh",
    "pod_group_post_filter": "PodGroupPostFilter",
    "generate_placements": "PlacementGenerate",
    "score_placements": "PlacementScore",
    "placement_feasible": "PlacementFeasible",
}


# Whether an answer is one that is used, by the call's name, the answer and the arguments.
IsRight = Callable[[str, Any, tuple[Any, ...]], bool]


def any_is_right(label: str, answer: Any, arguments: tuple[Any, ...]) -> bool:
    """Take any answer for a right one."""
    del label, answer, arguments
    return True


class Overruns(Protocol):
    """Hears of calls that took too long and were not interrupted, and of right answers after failures."""

    def answered(self, plugin: str, point: str, pod: PodInfo | None) -> None:
        """A plugin has given a right answer; not every one is told."""
        ...

    def overran(self, plugin: str, point: str, pod: PodInfo | None, failure: TimeBudgetError) -> None:
        """A call answered after its budget; the answer is used."""
        ...


class BudgetedCall:
    """A plugin's method, or what it has registered as a hint, within its budget."""

    __slots__ = (
        *("_budget_seconds", "_caller", "_breaker", "_is_right", "_label", "_method", "_overruns", "_plugin"),
        "_reports_at",
    )

    def __init__(
        self,
        plugin: str,
        label: str,
        method: Callable[..., Any],
        budget_seconds: float,
        overruns: Overruns,
        breaker: CircuitBreaker | None = None,
        is_right: IsRight | None = any_is_right,
        caller: Caller | None = None,
    ) -> None:
        """`is_right`: `None` if what the method returns is no answer yet. `caller`: by default, from the arguments."""
        self._plugin = plugin
        self._breaker = breaker or CircuitBreaker(perf_counter)
        self._is_right = is_right
        self._caller = caller
        self._label = label
        self._method = method
        self._budget_seconds = budget_seconds
        self._overruns = overruns
        self._reports_at = 0.0
        """When a right answer is told next, though nobody watches."""

    def __call__(self, *arguments: Any) -> Any:
        """The method's answer. Raises what the method raises, `TimeBudgetError` or `NotCalledError`."""
        if self._breaker.is_watched:
            self._ask(arguments)
        call = ALARM.begin(self._budget_seconds)
        try:
            answer = self._method(*arguments)
        except TimeBudgetError as ended:
            ended.nodes = ended.nodes or _nodes_among(arguments)
            ended.caller = self._caller or caller_among(arguments)
            raise
        except StatusError:  # an Error that is given as the answer
            if self.is_reported():
                self._note_right(arguments)
            raise
        finally:
            seconds = ALARM.end(call)
        if call.is_late(seconds):
            self._judge(seconds, arguments, was_interrupted=call.interrupts > 0)
        elif self._is_right is not None and self.is_reported() and self._is_right(self._label, answer, arguments):
            self._note_right(arguments)
        return answer

    def _ask(self, arguments: tuple[Any, ...]) -> None:
        """Raises `NotCalledError`. Steps of a coroutine that has begun go on."""
        caller = None if self._caller is not None else caller_among(arguments)
        refusal = self._breaker.refusal(self._plugin, caller, self._label)
        if refusal and caller is not None:
            raise NotCalledError(refusal, is_hold=self._breaker.holds.of(caller, self._label) is not None)

    def is_reported(self) -> bool:
        """Whether the circuit is to be told of a right answer: of each while it is watched, else now and then."""
        if self._breaker.is_watched:
            return True
        now = self._breaker.now()
        if now < self._reports_at:
            return False
        self._reports_at = now + REPORTED_EACH_SECONDS
        return True

    def _note_right(self, arguments: tuple[Any, ...]) -> None:
        self._overruns.answered(self._plugin, self._label, _pod_among(arguments))

    def _judge(self, seconds: float, arguments: tuple[Any, ...], *, was_interrupted: bool) -> None:
        budget = shown_seconds(self._budget_seconds)
        if was_interrupted:
            text = f"it went on after it was interrupted at its time budget of {budget}; its answer is not used"
            raise TimeBudgetError(text, self._caller or caller_among(arguments))
        nodes = _nodes_among(arguments)
        work = f" for {nodes} nodes" if nodes else ""
        text = f"it took {seconds:.3f} s{work}, its time budget is {budget}; its answer was used"
        failure = TimeBudgetError(text, self._caller or caller_among(arguments))
        self._overruns.overran(self._plugin, self._label, _pod_among(arguments), failure)


ALARM.is_called_from(BudgetedCall.__call__.__code__)


class BudgetedSteps:
    """A plugin's coroutine, as `runtime.timing` drives it: each of its steps runs within the budget."""

    def __init__(
        self,
        work: Coroutine[Any, Any, Any],
        budgeted: Callable[[Callable[..., Any]], BudgetedCall],
        on_answer: Callable[[Any], None],
    ) -> None:
        """`on_answer` is called with what the coroutine returns."""
        self._close = work.close
        self._send = budgeted(work.send)
        self._throw = budgeted(work.throw)
        self._on_answer = on_answer

    def send(self, value: Any) -> Any:
        """Run the next step."""
        try:
            return self._send(value)
        except StopIteration as end:
            self._on_answer(end.value)
            raise

    def throw(self, *failure: Any) -> Any:
        """Run the next step, which begins with an exception."""
        try:
            return self._throw(*failure)
        except StopIteration as end:
            self._on_answer(end.value)
            raise

    def close(self) -> None:
        """End the coroutine."""
        self._close()


class SupervisedPlugin:
    """The stand-in. Its methods are made once, when the profile is built."""

    def __init__(
        self,
        plugin: Plugin,
        budget_seconds: float,
        overruns: Overruns,
        breaker: CircuitBreaker | None = None,
        is_right: IsRight = any_is_right,
    ) -> None:
        """`circuit`: the plugin's in this profile; by default, one that nobody looks at."""
        self.plugin = plugin
        self.name = plugin.name
        self._breaker = breaker or CircuitBreaker(perf_counter)
        self._is_right = is_right
        self._budget_seconds = PLUGIN_TIME.at_most(budget_seconds)
        self._overruns = overruns
        self._events: Sequence[ClusterEventWithHint] | None = None
        traits = traits_of(plugin)
        may_answer = {"permit": traits.awaits_permit, "post_bind": traits.awaits_post_bind}
        awaited = AWAITED.union(method for method, is_awaited in may_answer.items() if is_awaited)
        for method, label in LABELS.items():
            function = getattr(plugin, method, None)
            if callable(function):
                made = self._steps_of(label, function) if method in awaited else self._budgeted(label, function)
                setattr(self, method, made)
        if traits.registers_events:
            self._register: Callable[[], Any] = plugin.events_to_register  # type: ignore[attr-defined]
            self.events_to_register = self._events_to_register

    def __getattr__(self, name: str) -> Any:
        """Everything else is the plugin's own."""
        if name == "plugin":  # not there yet: a copy is being made
            raise AttributeError(name)
        return getattr(self.plugin, name)

    def __repr__(self) -> str:
        return f"supervised {self.plugin!r}"

    def _budgeted(self, label: str, function: Callable[..., Any]) -> BudgetedCall:
        budget, overruns = self._budget_seconds, self._overruns
        return BudgetedCall(self.name, label, function, budget, overruns, self._breaker, self._is_right)

    def _steps_of(self, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """From the arguments to a supervised coroutine; a wrong answer stays as it is, and is refused by the guard."""
        budget, overruns, breaker = self._budget_seconds, self._overruns, self._breaker
        begin = BudgetedCall(self.name, label, function, budget, overruns, breaker, None)

        def steps(*arguments: Any) -> Any:
            work = begin(*arguments)
            if getattr(work, "send", None) is None:
                return work
            caller = caller_among(arguments) or Caller(NO_NAMESPACE, label)

            def budgeted(step: Callable[..., Any]) -> BudgetedCall:
                return BudgetedCall(self.name, label, step, budget, overruns, breaker, None, caller)

            def on_answer(answer: Any) -> None:
                if begin.is_reported() and self._is_right(label, answer, arguments):
                    overruns.answered(self.name, label, _pod_among(arguments))

            return BudgetedSteps(work, budgeted, on_answer)

        return steps

    def _events_to_register(self) -> Any:
        """The plugin's events, each hint within the budget; asked for once, so that a quarantine of another plugin
        does not depend on this one.
        """
        if self._events is None:
            registered = self._register()  # within the guard of who asks for the events
            if not isinstance(registered, list | tuple):
                return registered  # refused by the guard
            self._events = tuple(self._with_budget(entry) for entry in registered)
        return self._events

    def _with_budget(self, entry: Any) -> Any:
        if not isinstance(entry, ClusterEventWithHint) or entry.hint is None or not callable(entry.hint):
            return entry
        return replace(entry, hint=self._budgeted(HINT, entry.hint))


def unsupervised(plugin: Any) -> Any:
    """The plugin that a stand-in stands for; any other plugin is returned as it is."""
    return plugin.plugin if isinstance(plugin, SupervisedPlugin) else plugin


def _nodes_among(arguments: tuple[Any, ...]) -> int:
    """How many nodes the plugin was asked about, 0 if about none: the rows are the last argument."""
    rows = arguments[-1] if arguments else None
    return len(rows) if isinstance(rows, np.ndarray) else 0


def caller_among(arguments: tuple[Any, ...]) -> Caller | None:
    """Who the call is made for; `None`: nobody."""
    pod = _pod_among(arguments)
    if pod is not None:
        return _caller_of(pod, arguments)
    for argument in arguments:
        group = getattr(argument, "group", argument)  # of a `GroupTrial`
        if isinstance(group, GroupDefinition):
            return Caller(group.key.namespace, group.key.text)
    return None


def _caller_of(pod: PodInfo, arguments: tuple[Any, ...]) -> Caller:
    """The pod; of a call about other pods, too, all of them: the namespaces `a beside b`.

    Which of them makes `add_pod` slow cannot be told, so the plugin is held back from them together and from nobody
    alone: a pod of `b` that is expected on a node must not cost the pods of `a` the plugin everywhere else, nor one of
    `a` its neighbours.
    """
    others = {one.uid: one.namespace for one in arguments if isinstance(one, PodInfo) and one is not pod}
    others |= {kind.uid: kind.namespace for one in arguments if isinstance(one, MovedPods) for kind in one.kinds}
    if not others:
        return Caller(pod.namespace, pod.uid)
    namespaces = set(others.values()) - {pod.namespace}
    return Caller(_beside(pod.namespace, namespaces), _beside(pod.uid, others.keys() - {pod.uid}))


def _beside(one: str, others: Collection[str]) -> str:
    named = sorted(others)[:_MAX_NAMED]
    return f"{one} beside {', '.join(named)}{', ...' if len(others) > len(named) else ''}" if others else one


def _pod_among(arguments: tuple[Any, ...]) -> PodInfo | None:
    for argument in arguments:
        if isinstance(argument, PodInfo):
            return argument
        if isinstance(argument, QueuedPodInfo):
            return argument.pod
    return None
