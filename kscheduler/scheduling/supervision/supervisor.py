"""What the failures of a profile's plugins mean: the circuit of each, and what is told when its state changes.

A failure is a call that raised, overran its time budget or answered with what is no answer (a NaN, a wrong shape,
points out of range), at any extension point. No failures are: an Error that a plugin *returns*, an answer for some of
the nodes only (`PartialAnswerError`), a request of a coroutine that failed because a server is away, a call that was
not made. What failures lead to is in `circuit`; a plugin whose circuit is not closed is *quarantined*.

The supervisor only counts and announces. A profile under another configuration has another supervisor, so a reload
begins with closed circuits.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import count
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from kscheduler.api.meta import rfc3339
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.framework.plugin_results import NotCalledError, PartialAnswerError, kind_and_text, with_place
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import StatusError
from kscheduler.scheduling.supervision.alarm import TimeBudgetError, overrun_of
from kscheduler.scheduling.supervision.circuit_breaker import CircuitBreaker, CircuitState
from kscheduler.scheduling.supervision.holds import NO_NAMESPACE, Caller, ReportedHold

DEFAULT_BUDGET_SECONDS: Final = 0.2
_LONGEST_CAUSE: Final = 300


class OnFailure(StrEnum):
    """What becomes of a profile whose plugin is quarantined; values of `onFailure`."""

    FAIL = "Fail"
    """Its pods are not scheduled: the plugin may be the rule that keeps them off the wrong nodes."""
    IGNORE = "Ignore"
    """It goes on without the plugin."""
    FALLBACK = "Fallback"
    """It goes on with its in-tree plugins only."""


_CONSEQUENCE: Final = {
    OnFailure.FAIL: "pods of the profile are not scheduled",
    OnFailure.IGNORE: "pods of the profile are scheduled without it",
    OnFailure.FALLBACK: "pods of the profile are scheduled by its in-tree plugins only",
}


class PluginLimits(msgspec.Struct, frozen=True):
    """The settings of one plugin in one profile."""

    budget_seconds: float = DEFAULT_BUDGET_SECONDS
    on_failure: OnFailure = OnFailure.FAIL


class Quarantine(msgspec.Struct, frozen=True):
    """A plugin whose circuit is open or half-open, and why."""

    profile: str
    plugin: str
    on_failure: OnFailure
    since: float
    """When the circuit opened first, without having closed since: wall-clock seconds."""
    extension_point: str
    """Where the plugin failed."""
    cause: str
    """The last failure before the circuit opened."""
    failed_for: str = ""
    """For whom it had failed by then, in words."""
    state: CircuitState = CircuitState.OPEN
    tried_again_at: float = 0.0
    """Of an open circuit: wall-clock seconds. A pod for which the plugin has not failed may bring it forward."""
    brought_forward_by: str = ""
    """The pod that has brought it forward; empty: nobody has."""
    failed_trials: int = 0
    """How many trials have failed since then."""
    last_failure: str = ""
    """The failure of the last one."""

    @property
    def consequence(self) -> str:
        """What it means for pods."""
        return _CONSEQUENCE[self.on_failure]

    @property
    def message(self) -> str:
        """What people read in conditions and Events: the same for as long as the plugin is quarantined."""
        return (
            f'plugin "{self.plugin}" of profile "{self.profile}" is quarantined since {rfc3339(self.since)}: it failed '
            f"{self.failed_for}, last at {self.extension_point} ({self.cause}); "
            f"{self.consequence} (onFailure: {self.on_failure}). It is tried again by itself within 5 min, "
            "sooner with a pod for which it has not failed; a reload does so at once"
        )

    @property
    def failed_again(self) -> str:
        """What people read when a trial has failed."""
        return (
            f'plugin "{self.plugin}" of profile "{self.profile}", quarantined since {rfc3339(self.since)}, was tried '
            f"again with this pod and failed at {self.extension_point} ({self.last_failure}). Further trials that fail "
            "get no Event"
        )

    @property
    def over(self) -> str:
        """What people read when it is over."""
        return (
            f'plugin "{self.plugin}" of profile "{self.profile}" answers again: its quarantine since '
            f"{rfc3339(self.since)} is over"
        )

    @property
    def note(self) -> str:
        """The line in `/readyz?verbose`: the message, and where the circuit is."""
        if self.state is CircuitState.HALF_OPEN:
            return f"{self.message}; half-open: the next call decides"
        return f"{self.message}; open: tried again at {rfc3339(self.tried_again_at)}"


class CircuitObserver(Protocol):
    """Hears of a supervisor's circuits, in the middle of a decision: it must only take note."""

    def circuit_changed(self, supervisor: "Supervisor", quarantine: Quarantine, pod: PodInfo | None) -> None:
        """A circuit has changed its state. `pod`: for whom the call was made that has decided."""
        ...

    def trial_due(self, supervisor: "Supervisor", plugin: str, seconds: float) -> None:
        """A plugin is worth a trial in so many seconds."""
        ...

    def held_back(self, supervisor: "Supervisor", plugin: str, held: ReportedHold) -> None:
        """A hold begins."""
        ...


class _Unobserved:
    """Without an assembly nothing is exchanged: explain and what-if decide a pod once."""

    def circuit_changed(self, supervisor: "Supervisor", quarantine: Quarantine, pod: PodInfo | None) -> None:
        pass

    def trial_due(self, supervisor: "Supervisor", plugin: str, seconds: float) -> None:
        pass

    def held_back(self, supervisor: "Supervisor", plugin: str, held: ReportedHold) -> None:
        pass


UNOBSERVED_CIRCUITS: Final = _Unobserved()


class Supervisor:
    """The circuits of one profile's plugins. Implements `PluginListener`, and passes every report on."""

    def __init__(
        self,
        profile: str,
        limits: Mapping[str, PluginLimits],
        listener: PluginListener,
        now: Callable[[], float],
        monotonic: Callable[[], float],
        observer: CircuitObserver = UNOBSERVED_CIRCUITS,
    ) -> None:
        """`limits`: by plugin, of those that are not in-tree. `now`: wall-clock seconds; `monotonic`: for waits."""
        self.profile = profile
        self.limits = limits
        self.circuits = {plugin: CircuitBreaker(monotonic, now) for plugin in limits}
        self.quarantines: dict[str, Quarantine] = {}
        """By plugin, those whose circuit is not closed."""
        self._listener = listener
        self._observer = observer
        self._now = now
        self._numbers = count()
        self._is_silent = False

    def circuits_of(self, plugins: Iterable[str]) -> list[CircuitBreaker]:
        """The circuits of those of the plugins that are under supervision."""
        return [self.circuits[plugin] for plugin in plugins if plugin in self.circuits]

    def mute_reports(self) -> None:
        """Count nothing and pass nothing on any more: in a copy of the process, whose decisions nobody carries out."""
        self._is_silent = True

    def strikes(self, plugin: str) -> int:
        """For how many pods the plugin has failed since its last right answer."""
        return self.circuits[plugin].strikes()

    def failed(self, plugin: str, point: str, pod: PodInfo | None, failure: BaseException, then: str = "") -> None:
        """Pass the report on, and judge the failure."""
        if self._is_silent or _is(failure, NotCalledError):
            return
        self._listener.failed(plugin, point, pod, failure, then)
        breaker = self.circuits.get(plugin)
        if breaker is None:
            return
        overrun = overrun_of(failure)
        caller = _caller(pod, overrun, self._numbers)
        # Time is lost to everybody, however many nodes have got an answer.
        late = _late(overrun, caller)
        if late is not None:
            name = late.uid if pod is None else pod.key
            held = breaker.overran(late, point, name, cause_of(failure))
            if held is not None:
                self._observer.held_back(self, plugin, held)
        if isinstance(failure, StatusError) or (
            isinstance(failure, PartialAnswerError) and failure.has_partial_results
        ):
            self.answered(plugin, point, pod)
            return
        if caller is None:
            return
        if breaker.failed(_STREAK_OF.get(point, point), caller):
            self._opened(plugin, point, breaker, pod, failure)

    def overran(self, plugin: str, point: str, pod: PodInfo | None, failure: TimeBudgetError) -> None:
        """A call answered after its budget."""
        self.failed(plugin, point, pod, failure)

    def answered(self, plugin: str, point: str, pod: PodInfo | None) -> None:
        """A plugin has given a right answer."""
        if self._is_silent or not self.circuits[plugin].answered(_STREAK_OF.get(point, point)):
            return
        self._change(replace(self.quarantines[plugin], state=CircuitState.CLOSED), pod)

    def slow(self, plugin: str, point: str, pod: PodInfo | None, seconds: float, nodes: int = 0) -> None:
        """Pass the report on."""
        if self._is_silent:
            return
        self._listener.slow(plugin, point, pod, seconds, nodes)

    # --- plugins that are held back -----------------------------------------------------------------------------------

    def seconds_held(self, pod: PodInfo) -> float:
        """For how long some plugin is not called for this pod; 0: all are."""
        caller = Caller(pod.namespace, pod.uid)
        return max((breaker.holds.seconds_left(caller) for breaker in self.circuits.values()), default=0.0)

    def pod_changed(self, namespace: str, uid: str, *, is_gone: bool) -> bool:
        """A pod was edited, or is gone. Returns whether that has ended a hold of its namespace."""
        caller = Caller(namespace, uid)
        ended = [breaker.holds.changed(caller, is_gone=is_gone) for breaker in self.circuits.values() if breaker.holds]
        return any(ended)

    def holds(self) -> Iterator[tuple[str, ReportedHold]]:
        """The holds in force, each with its plugin."""
        for plugin, breaker in self.circuits.items():
            for held in breaker.holds.in_force():
                yield plugin, held

    # --- an open circuit ----------------------------------------------------------------------------------------------

    def asks_for(self, plugin: str, pod: PodInfo) -> None:
        """A pod comes that the quarantine stops: if it is one that has not failed, it is worth a trial."""
        breaker = self.circuits.get(plugin)
        if breaker is None or self._is_silent:
            return
        before = breaker.tried_again_at
        seconds = breaker.asks_for(pod.namespace, pod.uid)
        if seconds is None:
            return
        known = self.quarantines.get(plugin)
        if known is not None and breaker.tried_again_at < before:
            self.quarantines[plugin] = replace(known, tried_again_at=self._now() + seconds, brought_forward_by=pod.key)
        self._observer.trial_due(self, plugin, seconds)

    def half_open_what_is_due(self) -> bool:
        """Let the plugins be called again whose backoff is over. Returns whether there were any."""
        due = [plugin for plugin, breaker in self.circuits.items() if breaker.is_due()]
        for plugin in due:
            self.circuits[plugin].half_open()
            self._change(replace(self.quarantines[plugin], state=CircuitState.HALF_OPEN), None)
        return bool(due)

    def _opened(
        self, plugin: str, point: str, breaker: CircuitBreaker, pod: PodInfo | None, failure: BaseException
    ) -> None:
        now, known = self._now(), self.quarantines.get(plugin)
        at = now + breaker.seconds_to_trial()
        if known is not None:
            opened = replace(
                known,
                state=CircuitState.OPEN,
                tried_again_at=at,
                brought_forward_by="",
                failed_trials=known.failed_trials + 1,
                last_failure=cause_of(failure),
            )
        else:
            policy = self.limits[plugin].on_failure
            opened = Quarantine(
                self.profile, plugin, policy, now, point, cause_of(failure), breaker.opened_for, tried_again_at=at
            )
        self._change(opened, pod)

    def _change(self, quarantine: Quarantine, pod: PodInfo | None) -> None:
        if quarantine.state is CircuitState.CLOSED:
            del self.quarantines[quarantine.plugin]
        else:
            self.quarantines[quarantine.plugin] = quarantine
        self._observer.circuit_changed(self, quarantine, pod)


# `move_pods` is both, and its right answers have one name.
_STREAK_OF: Final = {"RemovePod": "AddPod"}


def _caller(pod: PodInfo | None, overrun: TimeBudgetError | None, numbers: Iterator[int]) -> Caller | None:
    """Whose failure it is; `None`: nobody's. What is about no pod counts where it holds up everybody."""
    if pod is not None:
        return Caller(pod.namespace, pod.uid)
    if overrun is None:
        return None
    caller = overrun.caller
    return (
        caller
        if caller is not None and caller.namespace != NO_NAMESPACE
        else Caller(NO_NAMESPACE, f"call {next(numbers)}")
    )


def _late(overrun: TimeBudgetError | None, caller: Caller | None) -> Caller | None:
    """Who has used up the time; `None`: nobody has. The call knows better who it was about: perhaps two pods."""
    if overrun is None:
        return None
    known = overrun.caller
    return known if known is not None and known.namespace != NO_NAMESPACE else caller


def _is(failure: BaseException, kind: type[BaseException]) -> bool:
    return isinstance(failure, kind) or isinstance(failure.__cause__, kind)


def cause_of(failure: BaseException) -> str:
    """The failure in one line of bounded length: a plugin may put anything into its exceptions."""
    text = " ".join(kind_and_text(failure).split())
    return with_place(text if len(text) <= _LONGEST_CAUSE else f"{text[:_LONGEST_CAUSE]}...", failure)
