"""One attempt to place one pod: decide, set aside, bind, or say why not.

`decide` is synchronous: from the pop to the reservation nothing else happens, so N workers are one decision-maker.
What follows talks to the API server: `bind`, for a pod that Permit holds after `await_permit`.

    decide          cycle -> assume -> Reserve -> Permit  (Unreserve in reverse and forget, if any of them says no)
                         '-> no node: begin the preemption that PostFilter wants, then requeue
    prepare         for a pod that has to wait, in a task of its own:                                  (likewise)
      announce        its status names the node, for whoever adds and removes nodes
      await_permit    the verdict of the plugins that asked to wait
      pre_bind        what the plugins have to prepare: volumes
    bind            Bind -> PostBind                                                                   (likewise)
"""

from collections.abc import Mapping

from kscheduler.client.errors import APIError, ClientError
from kscheduler.framework import events
from kscheduler.framework.activation import PodsToActivate
from kscheduler.framework.pods.pod_info import PodInfo, placed
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import SUCCESS, Code, Fault, Status, error
from kscheduler.logs import get_logger, verbose
from kscheduler.scheduling.attempt import permit, pre_binding
from kscheduler.scheduling.attempt.pre_binding import PreBindPlan
from kscheduler.scheduling.attempt.surroundings import Attempt, Surroundings
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.cycle.sampling import NodeSampler
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.failures.failures import (
    Failure,
    failure_of_bug,
    failure_of_record,
    failure_of_status,
)
from kscheduler.scheduling.observations import AttemptResult, Histogram
from kscheduler.scheduling.pod_log.lines import MOVES, OUTCOMES, STEPS
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.runtime.attempt_calls import call_bind, call_post_bind, call_reserve, call_unreserve
from kscheduler.scheduling.runtime.points import (
    BIND,
    PERMIT,
    POST_BIND,
    PRE_BIND,
    PRE_BIND_PRE_FLIGHT,
    RESERVE,
    UNRESERVE,
)
from kscheduler.scheduling.stopwatch import ObservedStopwatch
from kscheduler.state.holding.waiting_pods import HeldPod

_log = get_logger(__name__)


class Scheduler:
    """Decides and binds. Owns no task, and no state but where the next search for nodes begins."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._now = around.clock.monotonic
        self._watches = {
            name: ObservedStopwatch(name, around.observations, around.clock.monotonic, profile.listener)
            for name, profile in around.profiles.items()
        }
        self._engines = {
            name: ClassEngine(profile, around.cache, engines=len(around.profiles), tells_all=verbose(MOVES))
            for name, profile in around.profiles.items()
            if around.keeps_classes
        }
        self._samplers = {name: NodeSampler() for name in around.profiles}
        self._binders = {
            name: [(plugin, not profile.traits[plugin.name].is_in_tree) for plugin in profile.bind]
            for name, profile in around.profiles.items()
        }
        """By profile, with whether each step of a plugin's is timed: in-tree ones only wait."""
        self._histograms: dict[tuple[str, Code, str], Histogram] = {}
        """Of extension points, by what they are asked for with: six for each pod."""

    @property
    def engines(self) -> Mapping[str, ClassEngine]:
        """What is kept of classes of pods, by profile."""
        return self._engines

    # --- deciding: never awaits ---------------------------------------------------------------------------------------

    def decide(self, queued: QueuedPodInfo) -> Attempt | None:
        """Find the pod a node and set it aside. `None`: the attempt is over, and has been dealt with."""
        around = self._around
        started = self._now()
        profile = around.profiles.get(queued.pod.pod.spec.scheduler_name)
        if profile is None or self._is_to_be_skipped(queued):
            around.queue.done(queued.pod.uid)
            around.log.skipped(queued)
            return None
        known = around.infeasible.verdict(queued.pod) if not queued.was_flushed else None  # the safety net asks again
        if known is not None:
            around.failures.handle(queued, known, around.clock.time())
            return None
        watch = self._watches[profile.name]
        watch.start(queued.pod)
        tells_steps = verbose(STEPS)  # every step of the way, or nobody puts together what nobody reads
        if tells_steps:
            around.log.attempt(queued)
        record = self._judge(queued, profile, watch)
        around.observations.algorithm(self._now() - started)
        if tells_steps and verbose(MOVES):
            around.log.judged(record)
        if not record.status.is_success:
            if record.preemption is not None:  # before the pod is requeued: PreEnqueue asks whether it must wait
                around.evictions.begin(record.preemption)
            around.log.nominated(record)
            self._fail(queued, self._why_nowhere(record), profile, started)
            return None
        attempt = Attempt(queued, profile, record, started)
        try:
            status = self._set_aside(attempt)
        except BaseException:
            self._give_back(attempt)  # a bug of ours: what plugins have reserved must not stay so
            raise
        if not status.is_success:
            self._fail(queued, failure_of_status(status), profile, started)
            return None
        self._activate(attempt)
        if tells_steps:
            around.log.assumed(record)
        return attempt

    def _why_nowhere(self, record: SchedulingRecord) -> Failure:
        """Why there is no node: for all pods of its class, unless PostFilter has done something for this one."""
        failure = failure_of_record(record)
        is_helped = record.post_filter is not None and record.post_filter.is_success
        return failure if is_helped else self._around.infeasible.learned(record.pod, failure)

    def _judge(self, queued: QueuedPodInfo, profile: Profile, watch: ObservedStopwatch) -> SchedulingRecord:
        """Run the cycle. The safety net is for changes that nobody noticed: it does not believe what is known."""
        cache, sampler, engine = self._around.cache, self._samplers[profile.name], self._engines.get(profile.name)
        if not queued.was_flushed:
            return schedule(profile, queued.pod, cache, watch, sampler, engine)
        record = schedule(profile, queued.pod, cache, watch, sampler)
        if record.status.is_success and engine is not None:
            engine.forget_all()
        return record

    def _activate(self, attempt: Attempt) -> None:
        """Try the pods that plugins have named for it."""
        pods = attempt.record.state.find(PodsToActivate)
        if pods is not None:
            self._around.queue.activate(pods.take(), self._around.clock.time())

    def _is_to_be_skipped(self, queued: QueuedPodInfo) -> bool:
        pod = queued.pod.pod
        if pod.metadata.deletion_timestamp is not None:
            self._around.reporter.skipped_deleting(pod)
            return True
        return bool(self._around.cache.node_of(queued.pod.uid))

    def _set_aside(self, attempt: Attempt) -> Status:
        """Assume, Reserve, Permit; all undone if one of them says no."""
        pod = attempt.queued.pod
        self._around.cache.assume_pod(pod, attempt.node_name)
        began = self._now()
        status = self._reserve(attempt)
        began = self._measure(attempt, RESERVE.label, status.code, began)
        if status.is_success:
            status = self._permit(attempt)
            self._measure(attempt, PERMIT.label, status.code if attempt.held is None else Code.WAIT, began)
        if not status.is_success:
            self._give_back(attempt)
        return status

    def _measure(self, attempt: Attempt, point: str, code: Code, began: float) -> float:
        """Count what an extension point took since `began`; the moment at which it ended, monotonic."""
        now = self._now()
        key = point, code, attempt.profile.name
        histogram = self._histograms.get(key)
        if histogram is None:
            labels = point, code.label, attempt.profile.name
            histogram = self._histograms[key] = self._around.observations.extension_points[labels]
        histogram.observe(now - began)
        return now

    def _reserve(self, attempt: Attempt) -> Status:
        profile, state, pod = attempt.profile, attempt.record.state, attempt.queued.pod
        for plugin in profile.reserve:
            status = call_reserve(plugin, profile.listener, state, pod, attempt.node_name)
            if not status.is_success:
                return status
        return SUCCESS

    def _permit(self, attempt: Attempt) -> Status:
        pod = attempt.queued.pod
        profile, state = attempt.profile, attempt.record.state
        status, timeouts = permit.ask(profile.permit, state, pod, attempt.node_name, profile.listener)
        if timeouts:
            now = self._now()
            deadlines = {plugin: now + seconds for plugin, seconds in timeouts.items()}
            attempt.held = HeldPod(pod, attempt.node_name, deadlines, timeouts)
            self._around.waiting.hold(attempt.held)
        return status

    # --- waiting ------------------------------------------------------------------------------------------------------

    def must_wait(self, attempt: Attempt) -> bool:
        """Whether the pod has to wait before it is bound, for Permit or for PreBind: not in a worker, then."""
        return attempt.held is not None or bool(self._plan(attempt).groups)

    async def prepare(self, attempt: Attempt) -> bool:
        """All that a pod waits for. Whether it goes on to be bound; if not, the attempt is over, and dealt with."""
        try:
            failure = self._plan(attempt).failure
            if not failure.is_success:
                self._abandon(attempt, failure)
                return False
            await self._announce(attempt)
            return await self.await_permit(attempt) and await self.pre_bind(attempt)
        finally:
            self._around.waiting.release(attempt.queued.pod.uid)

    async def _announce(self, attempt: Attempt) -> None:
        """Name the node in the pod's status. A failure is no reason not to bind."""
        announcer, pod = self._around.announcer, attempt.queued.pod
        if announcer is None:
            return
        self._around.failures.withdraw(pod.uid)
        try:
            await announcer.patch_pod_status(pod.pod, None, attempt.node_name)
        except ClientError as failure:
            if isinstance(failure, APIError) and failure.is_not_found:
                return  # it was deleted: what comes next will find that out
            _log.warning("pod_not_announced", pod=pod.key, node=attempt.node_name, err=str(failure))

    async def await_permit(self, attempt: Attempt) -> bool:
        """Whether Permit lets the pod go on to be bound; if not, the attempt is over, and has been dealt with."""
        held = attempt.held
        if held is None:
            return True
        began, log = self._now(), self._around.log
        log.waiting(
            held.pod, held.node_name, PERMIT.label, held.pending_plugins, max(held.timeouts.values(), default=0.0)
        )
        try:
            verdict = await permit.verdict_of(held, self._around.clock)
        finally:
            self._around.waiting.release(held.pod.uid)
        self._around.observations.permit_wait(verdict.code.label, self._now() - began)
        log.wait_over(held.pod, held.node_name, PERMIT.label, verdict.code.label, self._now() - began)
        if not verdict.is_success:
            self._abandon(attempt, verdict)
        return verdict.is_success

    async def pre_bind(self, attempt: Attempt) -> bool:
        """PreBind, once. Whether the pod goes on to be bound; if not, the attempt is over, and has been dealt with."""
        if attempt.is_pre_bound:
            return True
        pod, plan = attempt.queued.pod, self._plan(attempt)
        self._around.queue.done(pod.uid)
        self._around.failures.withdraw(pod.uid)
        await self._around.failures.settled(pod.uid)
        began, status = self._now(), plan.failure
        if plan.groups:
            if self._around.in_pre_bind is not None:
                attempt.entry = self._around.in_pre_bind.add(pod.uid)
            log, plugins = self._around.log, [plugin.name for group in plan.groups for plugin in group]
            log.waiting(pod, attempt.node_name, PRE_BIND.label, plugins)
            state, node_name, listener = attempt.record.state, attempt.node_name, attempt.profile.listener
            status = await pre_binding.run(plan, state, pod, node_name, attempt.entry, listener)
            log.wait_over(pod, attempt.node_name, PRE_BIND.label, status.code.label, self._now() - began)
        self._measure(attempt, PRE_BIND.label, status.code, began)
        attempt.is_pre_bound = status.is_success
        if not status.is_success:
            self._abandon(attempt, status)
        return status.is_success

    def _plan(self, attempt: Attempt) -> PreBindPlan:
        if attempt.plan is None:
            profile, began = attempt.profile, self._now()
            state, pod = attempt.record.state, attempt.queued.pod
            attempt.plan = pre_binding.plan_of(profile.pre_bind, state, pod, attempt.node_name, profile.listener)
            self._measure(attempt, PRE_BIND_PRE_FLIGHT.label, attempt.plan.code, began)
        return attempt.plan

    # --- binding ------------------------------------------------------------------------------------------------------

    async def bind(self, attempt: Attempt) -> None:
        """PreBind (if it has not run), Bind, PostBind; on a failure the node is given back and the pod requeued."""
        if not await self.pre_bind(attempt):
            return
        if attempt.entry is not None and not attempt.entry.mark_pre_bound():
            self._abandon(attempt, error(attempt.entry.cause))
            return
        self._leave_pre_bind(attempt)
        began = self._now()
        status = await self._run_bind(attempt)
        self._measure(attempt, BIND.label, status.code, began)
        attempt.is_bound = status.is_success
        if status.is_success:
            self._bound(attempt)
        else:
            self._abandon(attempt, Status(Code.ERROR, status.reasons, status.plugin, status.fault))

    def _leave_pre_bind(self, attempt: Attempt) -> None:
        if attempt.entry is not None and self._around.in_pre_bind is not None:
            self._around.in_pre_bind.remove(attempt.queued.pod.uid)

    async def _run_bind(self, attempt: Attempt) -> Status:
        state, pod, listener = attempt.record.state, attempt.queued.pod, attempt.profile.listener
        for plugin, is_timed in self._binders[attempt.profile.name]:
            status = await call_bind(plugin, listener, state, pod, attempt.node_name, is_timed=is_timed)
            if not status.is_skip:
                return status
        return error("no Bind plugin took the pod")

    def _bound(self, attempt: Attempt) -> None:
        around, queued = self._around, attempt.queued
        around.cache.finish_binding(queued.pod.uid, around.clock.time())
        seconds = self._now() - attempt.started
        around.observations.attempt(AttemptResult.SCHEDULED, attempt.profile.name, seconds)
        around.observations.pod_scheduled(queued.attempts)
        first = queued.initial_attempt_timestamp
        if first is not None:
            around.observations.sli(queued.attempts, around.clock.time() - first)
        if queued.was_flushed:
            around.observations.scheduled_after_flush()
        around.reporter.scheduled(queued.pod.pod, attempt.node_name)
        if verbose(OUTCOMES):
            around.log.bound(queued, attempt.record, around.clock.time())
        self._post_bind(attempt)
        self._activate(attempt)

    def _post_bind(self, attempt: Attempt) -> None:
        began = self._now()
        profile, state, pod = attempt.profile, attempt.record.state, attempt.queued.pod
        for plugin in profile.post_bind:
            call_post_bind(plugin, profile.listener, state, pod, attempt.node_name)
        self._measure(attempt, POST_BIND.label, Code.SUCCESS, began)

    # --- failing ------------------------------------------------------------------------------------------------------

    def give_up(self, queued: QueuedPodInfo, failure: BaseException) -> None:
        """A bug ended the decision: whatever was set aside is given back, and the pod is tried again later."""
        self._forget(queued.pod)
        bug = failure_of_bug(failure)
        if bug.message != queued.last_error:
            _log.error("decision_failed", pod=queued.key, uid=queued.pod.uid, exc_info=failure)
            queued.last_error = bug.message  # it has been told, traceback and all
        self._around.failures.handle(queued, bug, self._around.clock.time())

    def abandon(self, attempt: Attempt, failure: BaseException) -> None:
        """A bug ended the attempt's task: give the node back and try again later, unless the pod is bound already.

        Whoever caught it has logged it, traceback and all.
        """
        if attempt.is_bound:
            return
        bug = error(f"{type(failure).__name__}: {failure}", fault=Fault.BUG)
        attempt.queued.last_error = bug.message
        self._abandon(attempt, bug)

    def _abandon(self, attempt: Attempt, status: Status) -> None:
        """Give the node back, tell the queue that there is room, and requeue the pod."""
        around, pod = self._around, attempt.queued.pod
        self._give_back(attempt)
        self._fail(attempt.queued, failure_of_status(status), attempt.profile, attempt.started)
        spared = pod.uid if status.is_rejected else ""  # a pod that was turned down is no reason to try it again
        gone = placed(pod.pod, attempt.node_name)  # as it counted: a hint sees no room in a pod that was nowhere
        around.queue.move_all(events.ASSIGNED_POD_DELETE, gone, None, around.clock.time(), spared)

    def _give_back(self, attempt: Attempt) -> None:
        profile, state, pod = attempt.profile, attempt.record.state, attempt.queued.pod
        began = self._now()
        self._leave_pre_bind(attempt)
        for plugin in reversed(profile.reserve):
            call_unreserve(plugin, profile.listener, state, pod, attempt.node_name)
        self._measure(attempt, UNRESERVE.label, Code.SUCCESS, began)
        self._forget(pod)

    def _forget(self, pod: PodInfo) -> None:
        self._around.cache.forget_pod(pod.uid)
        self._around.evictions.gave_node_back(pod)  # a preemptor may wait for its room

    def _fail(self, queued: QueuedPodInfo, failure: Failure, profile: Profile, started: float) -> None:
        around = self._around
        result = AttemptResult.ERROR if failure.is_error else AttemptResult.UNSCHEDULABLE
        around.observations.attempt(result, profile.name, self._now() - started)
        around.failures.handle(queued, failure, around.clock.time())
