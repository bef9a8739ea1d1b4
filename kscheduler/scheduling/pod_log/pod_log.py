"""`PodLog`: a method for each thing that can happen to a pod; most are handlers of events.

Each method checks the verbosity itself; details, which are on the hot path, are told only if it is high. Memory is
bounded: victims are remembered until they are gone, classes until their line is written.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kscheduler.api.core import Pod
from kscheduler.bounded import RecentlyUsed
from kscheduler.framework import events
from kscheduler.framework.cluster.preemption import Preemption, PreemptionSearch
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import Fault
from kscheduler.scheduling.attempt_events import (
    AttemptBegun,
    BindingInDoubt,
    BindingNotSent,
    BindingSettled,
    ClassRejected,
    GroupAttempted,
    PodAdded,
    PodAssumed,
    PodBound,
    PodGone,
    PodJudged,
    PodLetGo,
    PodNominated,
    PodRequeued,
    PodSkipped,
    PodWaitEnded,
    PodWaits,
    PreemptionEnded,
    VictimEvictionBegun,
    VictimNotEvicted,
    VictimSpared,
    VictimStopped,
)
from kscheduler.scheduling.failure import Failure
from kscheduler.scheduling.observers import hears
from kscheduler.scheduling.pod_log.lines import LINES, MOVES, OUTCOMES, STEPS, WAKING, RejectedPodsBatch, lines_of
from kscheduler.scheduling.pod_log.recent_attempts import RecentAttempts
from kscheduler.scheduling.pod_log.repeated_errors import FoundPod, RepeatedErrors
from kscheduler.state.queue.equivalence_groups import Element, EquivalenceGroup
from kscheduler.state.queue.queued_group import QueuedPodGroup
from kscheduler.state.queue.sub_queues import BACKOFF, GATED, UNSCHEDULABLE
from kscheduler.telemetry.logs import get_logger, verbose

_log = get_logger("kscheduler.pods")
_group_log = get_logger("kscheduler.scheduling.attempt.group_attempt")

# The most victims of each kind: those being deleted, and those that were stopped in memory.
MAX_REMEMBERED: Final = 10_000
SHOWN_VICTIMS: Final = 20
# Reasons that are told of a pod: a plugin's text may be another one each time.
MAX_GATES_REPORTED: Final = 8
_SCHEDULING_GATES: Final = "SchedulingGates"
# Labels of moves that no event in the cluster has caused.
_OWN_MOVES: Final = frozenset(
    {events.UNSCHEDULABLE_POD_ADD.label, events.SCHEDULE_ATTEMPT_FAILURE, events.BACKOFF_COMPLETE}
)

# From a profile and plugin names to the events that those plugins have registered.
AwaitedEvents = Callable[[str, frozenset[str]], Sequence[str]]


def _no_awaited_events(_profile: str, _plugins: frozenset[str]) -> Sequence[str]:
    return ()


class PodLog:
    """Writes the log lines about the pods of one scheduler."""

    def __init__(self, *, has_errors: bool = True) -> None:
        """`has_errors`: whether failed attempts are logged as errors; not where those of the past are played again."""
        self._has_errors = has_errors
        self.recent = RecentAttempts()
        """What happened last, kept whatever is logged."""
        self._together = RejectedPodsBatch()
        self._repeated = RepeatedErrors()
        self._victims: RecentlyUsed[str, tuple[str, str, float]] = RecentlyUsed(MAX_REMEMBERED)
        """Victims that are being deleted, by UID: node, preemptor, and since when."""
        self._stopped: RecentlyUsed[str, bool] = RecentlyUsed(MAX_REMEMBERED)
        """UIDs of victims that were stopped in memory, so the failure of their attempt is expected."""

    # --- coming and going ---------------------------------------------------------------------------------------------

    @hears(PodAdded)
    def added(self, event: PodAdded) -> None:
        """The watch shows a pod that wants a node."""
        if verbose(STEPS):
            pod = event.pod
            fields = {"priority": pod.spec.priority, "profile": pod.spec.scheduler_name}
            self._log_line("pod_added", pod.key, pod.metadata.uid, **fields, nominated=pod.status.nominated_node_name)

    @hears(PodGone)
    def gone(self, event: PodGone) -> None:
        """A pod is gone; if it is a victim, its room is free now."""
        pod = event.pod
        if event.is_pending and verbose(STEPS):
            self._log_line("pod_deleted", pod.key, pod.metadata.uid, reason=_how(pod))
        victim = self._victims.pop(pod.metadata.uid, None)
        if victim is not None and verbose(OUTCOMES):
            node, preemptor, since = victim
            fields = {"node": node, "preemptor": preemptor, "how": _how(pod), "seconds": _seconds(event.now - since)}
            self._log_line("victim_gone", pod.key, pod.metadata.uid, **fields)

    # --- in the queue -------------------------------------------------------------------------------------------------

    def moved(self, element: Element | QueuedPodGroup, queue: str, event: str, now: float) -> None:
        """A pod, an equivalence group, or a pod group was moved to a queue because of an event."""
        pod, pods = element.pod, len(element) if isinstance(element, EquivalenceGroup | QueuedPodGroup) else None
        if queue == GATED:
            if verbose(WAKING):
                self._log_line("pod_gated", pod.key, pod.uid, plugin=element.gating_plugin, cluster_event=event)
            return
        is_own = event in _OWN_MOVES or queue == UNSCHEDULABLE
        if verbose(MOVES if is_own else WAKING):
            wait = _seconds(max(0.0, element.backoff_expiration - now)) if queue == BACKOFF else None
            name = "pod_queued" if is_own else "pod_woken"
            self._log_line(name, pod.key, pod.uid, cluster_event=event, queue=queue, pods=pods, next_try_seconds=wait)

    def kept_out(self, queued: QueuedPodInfo, message: str, reason: str) -> None:
        """PreEnqueue keeps the pod out of the queue, so no attempt will say why; told once for each reason.

        A pod with scheduling gates waits for its creator, and its condition says so.
        """
        if not verbose(OUTCOMES) or queued.gating_plugin == _SCHEDULING_GATES or reason in queued.reported_gates:
            return
        if len(queued.reported_gates) < MAX_GATES_REPORTED:
            queued.reported_gates |= {reason}
            fields = {"plugin": queued.gating_plugin, "message": message}
            self._log_line("pod_kept_out", queued.key, queued.pod.uid, **fields)

    # --- an attempt ---------------------------------------------------------------------------------------------------

    @hears(AttemptBegun)
    def attempt(self, event: AttemptBegun) -> None:
        """An attempt begins."""
        if verbose(STEPS):
            queued = event.queued
            profile = queued.pod.pod.spec.scheduler_name
            self._log_line("pod_attempt", queued.key, queued.pod.uid, attempts=queued.attempts, profile=profile)

    @hears(PodSkipped)
    def skipped(self, event: PodSkipped) -> None:
        """The pod is not tried, or not any more: for example, it is being deleted, or has a node."""
        if verbose(STEPS):
            self._log_line("pod_skipped", event.queued.key, event.queued.pod.uid, reason=event.reason)

    @hears(PodJudged)
    def judged(self, event: PodJudged) -> None:
        """A cycle has run: which plugin rejected which nodes, and the points."""
        if verbose(MOVES):
            record = event.record
            for name, fields in lines_of(record):
                self._log_line(name, record.pod.key, record.pod.uid, **fields)

    @hears(PodAssumed)
    def assumed(self, event: PodAssumed) -> None:
        """A node is chosen, and the pod counts there in the cache."""
        if verbose(STEPS):
            record = event.record
            fields = {"node": record.node_name, "feasibleNodes": len(record.feasible)}
            self._log_line("pod_assumed", record.pod.key, record.pod.uid, **fields)

    @hears(PodWaits)
    def waiting(self, event: PodWaits) -> None:
        """The pod has a node, and waits in Permit or PreBind before it is bound."""
        if verbose(OUTCOMES):
            fields = {"node": event.node_name, "point": event.point, "plugins": sorted(event.plugins)}
            timeout = event.timeout_seconds
            self._log_line("pod_waiting", event.pod.key, event.pod.uid, **fields, timeout_seconds=timeout)

    @hears(PodWaitEnded)
    def wait_over(self, event: PodWaitEnded) -> None:
        """The wait in Permit or PreBind is over."""
        if verbose(WAKING):
            fields = {"node": event.node_name, "point": event.point, "status": event.status}
            self._log_line("pod_wait_over", event.pod.key, event.pod.uid, **fields, seconds=_seconds(event.seconds))

    @hears(PodBound)
    def bound(self, event: PodBound) -> None:
        """The API server has accepted the Binding."""
        if not verbose(OUTCOMES):
            return
        queued, record, now = event.queued, event.record, event.now
        first = queued.initial_attempt_timestamp
        was_nominated = record.pod.pod.status.nominated_node_name == record.node_name
        self._log_line(
            "pod_bound",
            queued.key,
            queued.pod.uid,
            node=record.node_name,
            score=record.best_score,
            evaluatedNodes=record.num_evaluated_nodes,
            feasibleNodes=len(record.feasible),
            nodes=record.num_all_nodes,
            attempts=queued.attempts,
            seconds=_seconds(now - first) if first is not None else None,
            nominated=True if was_nominated else None,
        )

    # --- failed attempts ----------------------------------------------------------------------------------------------

    @hears(PodRequeued)
    def requeued(self, event: PodRequeued) -> None:
        """An attempt failed, and the pod waits in the queue."""
        queued, failure, now = event.queued, event.failure, event.now
        if not (failure.is_error or verbose(OUTCOMES)):
            return
        found = event.queue.find(queued.key)
        if failure.like not in ("", queued.key):
            self.with_class(queued, failure, found, now, event.queue.awaited_events)
        else:
            self.not_scheduled(queued, failure, found, now, event.queue.awaited_events, is_news=event.is_news)

    def not_scheduled(
        self,
        queued: QueuedPodInfo,
        verdict: Failure,
        found: tuple[str, QueuedPodInfo] | None,
        now: float,
        awaited_events: AwaitedEvents = _no_awaited_events,
        *,
        is_news: bool = True,
    ) -> None:
        """An attempt failed; the pod waits where `found` says. `is_news`: the last attempt did not fail like this."""
        was_stopped = self._stopped.pop(queued.pod.uid, False)
        is_expected = was_stopped or verdict.fault in (Fault.GONE, Fault.ON_TRIAL)
        if verdict.fault is Fault.QUARANTINED:  # an error of the plugin: each pod of the profile has it
            is_news = is_news and not self._repeated.is_reported(queued, verdict.message, now)
        if verdict.is_error and not is_expected:
            self._repeated.failed(queued, verdict.message, verdict.extender, now, is_reported=is_news)
        if verdict.is_error and is_news and not is_expected:
            self._failed(queued, verdict.message, verdict.extender, _where(*found, now) if found is not None else {})
        elif verbose(OUTCOMES):
            self._rejected(queued, verdict, found, now, OUTCOMES, awaited_events)

    def repeat_errors(self, now: float, find: Callable[[str], FoundPod | None]) -> None:
        """Write of each error that lasts, once a minute, that it does; cheap if there are none.

        `now`: wall-clock seconds. `find`: where a pod waits, by its key.
        """
        for due in self._repeated.due(now, find):
            fields = _where(due.queue, due.queued, now) | {"failing_seconds": round(due.seconds)}
            if due.times:
                fields["times_since"] = due.times
            self._failed(due.queued, due.queued.last_error, due.extender, fields)

    def _failed(self, queued: QueuedPodInfo, err: str, extender: str, fields: Mapping[str, Any]) -> None:
        if not self._has_errors:
            return
        by = {"extender": extender} if extender else {}
        shown = {"attempts": queued.attempts, **fields, **by}
        _log.error("attempt_failed", pod=queued.key, uid=queued.pod.uid, err=err, **shown)

    def with_class(
        self,
        queued: QueuedPodInfo,
        verdict: Failure,
        found: tuple[str, QueuedPodInfo] | None,
        now: float,
        awaited_events: AwaitedEvents = _no_awaited_events,
    ) -> None:
        """The pod was rejected without a cycle, with the verdict for another pod of its class."""
        if verbose(OUTCOMES):
            self.class_rejected(ClassRejected(verdict.like, (queued.key,), verdict, verdict.like))
        if verbose(STEPS):
            self._rejected(queued, verdict, found, now, STEPS, awaited_events)

    @hears(ClassRejected)
    def class_rejected(self, event: ClassRejected) -> None:
        """Parked pods share a new verdict."""
        if verbose(OUTCOMES):
            verdict = event.failure
            self._together.add(event.name, event.keys, verdict.message, verdict.plugins | verdict.pending, event.like)
            if self._together.is_full:
                self.flush()

    @hears(PodLetGo)
    def let_go(self, event: PodLetGo) -> None:
        """An attempt failed because the pod must not be scheduled any more; that is not an error."""
        queued = event.queued
        self._stopped.pop(queued.pod.uid, None)
        if verbose(OUTCOMES):
            reason = _why_let_go(queued.pod, event.current)
            fields = {"reason": reason, "message": event.failure.message, "attempts": queued.attempts}
            self._log_line("pod_let_go", queued.key, queued.pod.uid, **fields)

    def _rejected(
        self,
        queued: QueuedPodInfo,
        verdict: Failure,
        found: tuple[str, QueuedPodInfo] | None,
        now: float,
        level: int,
        awaited_events: AwaitedEvents,
    ) -> None:
        plugins = verdict.plugins | verdict.pending
        fields: dict[str, Any] = {"message": verdict.message, "plugins": sorted(plugins), "attempts": queued.attempts}
        if found is not None:
            fields |= _where(*found, now)
            if found[0] == UNSCHEDULABLE:
                profile = queued.pod.pod.spec.scheduler_name
                fields["waits_for"] = list(awaited_events(profile, plugins))
        if verdict.like != queued.key:
            fields["like"] = verdict.like
        fields["extender"] = verdict.extender
        self._write(level, "pod_not_scheduled", queued.key, queued.pod.uid, fields)

    @hears(GroupAttempted)
    def group_tried(self, event: GroupAttempted) -> None:
        """A pod group was tried, whatever came of it; its members have lines of their own."""
        if verbose(OUTCOMES):
            counts = {"placed": event.placed, "pods": event.pods, "attempts": event.attempts}
            _group_log.info("pod_group_tried", group=event.name, message=event.message, **counts)

    # --- preemption ---------------------------------------------------------------------------------------------------

    @hears(PodNominated)
    def nominated(self, event: PodNominated) -> None:
        """PostFilter has chosen a node for the pod, and the victims there."""
        if not verbose(OUTCOMES):
            return
        record = event.record
        search = record.state.find(PreemptionSearch)
        fields: dict[str, Any] = {"node": record.nominated_node_name}
        if search is not None:
            victims = [victim.key for victim in search.chosen.victims]
            fields |= {"victims": victims[:SHOWN_VICTIMS], "numVictims": len(victims)}
            fields["broken_budgets"] = search.chosen.broken_budgets
        self._log_line("pod_nominated", record.pod.key, record.pod.uid, **fields)

    @hears(VictimStopped)
    def stopped(self, event: VictimStopped) -> None:
        """A victim was stopped before it was bound: that its attempt fails is expected."""
        self._stopped[event.victim.uid] = True
        self._preempted(event.victim, event.preemption, "called back before it was bound")

    @hears(VictimEvictionBegun)
    def preempted(self, event: VictimEvictionBegun) -> None:
        """A victim is being deleted: its end will be logged as that of a victim."""
        preemption = event.preemption
        self._victims[event.victim.uid] = preemption.node_name, preemption.text, event.now
        self._preempted(event.victim, preemption, "deletion requested")

    def _preempted(self, victim: PodInfo, preemption: Preemption, how: str) -> None:
        if verbose(OUTCOMES):
            fields = {"node": preemption.node_name, "preemptor": preemption.text, "preemptor_uid": preemption.uid}
            self._log_line("pod_preempted", victim.key, victim.uid, **fields, how=how, plugin=preemption.plugin)

    @hears(VictimNotEvicted)
    def not_preempted(self, event: VictimNotEvicted) -> None:
        """The deletion failed, or the victim was gone already: this preemption does not cause its end."""
        self._victims.pop(event.victim.uid, None)

    @hears(VictimSpared)
    def spared(self, event: VictimSpared) -> None:
        """A victim may stay: its room is not needed any more."""
        if verbose(OUTCOMES):
            victim, preemption = event.victim, event.preemption
            reason = "the preemptor was outbid" if event.is_outbid else "the preemptor does not want the node any more"
            fields = {"node": preemption.node_name, "preemptor": preemption.text, "reason": reason}
            self._log_line("victim_spared", victim.key, victim.uid, **fields)

    @hears(PreemptionEnded)
    def preemption_finished(self, event: PreemptionEnded) -> None:
        """All requests of a preemption have succeeded, or some have failed."""
        if verbose(OUTCOMES):
            preemption, result = event.preemption, "success" if event.succeeded else "error"
            fields = {"node": preemption.node_name, "result": result, "seconds": _seconds(event.seconds)}
            self._log_line("preemption_finished", preemption.text, preemption.uid, **fields)

    # --- binding ------------------------------------------------------------------------------------------------------

    @hears(BindingInDoubt)
    def bind_in_doubt(self, event: BindingInDoubt) -> None:
        """The response to a Binding does not show whether it was applied, or is a conflict."""
        self._of_bind("bind_in_doubt", event)

    @hears(BindingNotSent)
    def bind_not_sent(self, event: BindingNotSent) -> None:
        """The API server could not be reached."""
        self._of_bind("bind_not_sent", event, WAKING)

    @hears(BindingSettled)
    def bind_settled(self, event: BindingSettled) -> None:
        """Reading the pod has shown the outcome of the Binding."""
        self._of_bind("bind_settled", event, outcome=event.outcome)

    def _of_bind(
        self,
        name: str,
        event: BindingInDoubt | BindingNotSent | BindingSettled,
        level: int = OUTCOMES,
        **fields: object,
    ) -> None:
        if verbose(level):
            pod = event.pod
            self._log_line(name, pod.key, pod.metadata.uid, node=event.node_name, **fields, err=event.err)

    # --- writing ------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write the lines of classes that were rejected since the last call; cheap if there are none."""
        for fields in self._together.take():
            _log.info("class_not_scheduled", v=OUTCOMES, **fields)

    def _log_line(self, name: str, key: str, uid: str, **fields: object) -> None:
        self._write(LINES[name].level, name, key, uid, fields)

    def _write(self, level: int, name: str, key: str, uid: str, fields: dict[str, object]) -> None:
        present = {field: value for field, value in fields.items() if value is not None and value not in _NOTHING}
        _log.info(name, v=level, pod=key, uid=uid, **present)


# Values of fields that are left out; 0 and false are written.
_NOTHING: Final[tuple[object, ...]] = ("", [])


def _where(queue: str, queued: QueuedPodInfo, now: float) -> dict[str, Any]:
    """The fields for the queue in which a pod waits, and for how long at least."""
    if queue != BACKOFF:
        return {"queue": queue}
    return {"queue": queue, "next_try_seconds": _seconds(max(0.0, queued.backoff_expiration - now))}


def _seconds(seconds: float) -> float:
    return round(max(0.0, seconds), 3)


def _how(pod: Pod) -> str:
    return pod.status.phase if pod.is_terminal else "deleted"


def _why_let_go(pod: PodInfo, current: Pod | None) -> str:
    if current is None:
        return "it was deleted"
    if current.metadata.uid != pod.uid:
        return "it was made again under its name"
    if current.spec.node_name:
        return f"it is on node {current.spec.node_name}"
    return "it has ended" if current.is_terminal else "no profile has its name any more"
