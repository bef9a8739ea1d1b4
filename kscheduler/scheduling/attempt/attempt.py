"""One attempt to place one pod: decide, reserve, bind, or say why not.

`decide` is synchronous: between the pop and the reservation nothing else runs, so N workers decide one after the other.
The later steps talk to the API server.

    decide          cycle -> assume -> Reserve -> Permit
                         '-> no node: begin the preemption that PostFilter chose, then requeue
                    a pod that concerns extenders is not evaluated yet: it gets a turn, or waits in line
    prepare         for a pod that must wait, in a task of its own:
      (ask extenders, then decide: only for a pod that concerns them, see `extenders`)
      (search for devices, then decide: only where that takes long, see `long_searches`)
      announce        write the node to the pod's status, where a cluster autoscaler can see it
      await_permit    wait for the plugins that answered Wait
      pre_bind        let plugins prepare volumes and the like
    bind_outside    an extender binds, in a task of its own -> PostBind
    bind            Bind -> PostBind

If a step after assume fails: Unreserve in reverse order, forget the pod in the cache, requeue it.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from kscheduler.client.errors import APIError, ClientError
from kscheduler.framework import events
from kscheduler.framework.binding_annotations import BindingAnnotations
from kscheduler.framework.nodes.search_budget import SearchTimeBudget
from kscheduler.framework.pods.pod_info import PodInfo, placed
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.pods_to_activate import PodsToActivate
from kscheduler.framework.status import SUCCESS, Code, Fault, Status, error
from kscheduler.scheduling.attempt import binding_cycle
from kscheduler.scheduling.attempt.context import Attempt, AttemptContext
from kscheduler.scheduling.attempt.evaluators import Evaluators
from kscheduler.scheduling.attempt.extenders import ExtenderConsultation
from kscheduler.scheduling.attempt.group_attempt import GroupAttempts, GroupConsultation
from kscheduler.scheduling.attempt.long_searches import LongSearchRunner, search_budget_for
from kscheduler.scheduling.attempt.pre_bind import NOTHING_TO_DO, PreBindPlan, plan_of, run_pre_bind
from kscheduler.scheduling.attempt.skipping import PodSkipping
from kscheduler.scheduling.attempt_events import (
    STEP_BEGAN,
    AttemptBegun,
    AttemptCompleted,
    AttemptFailed,
    CostlyCycle,
    PermitReleased,
    PodAssumed,
    PodBound,
    PodDecidedLater,
    PodJudged,
    PodLeftQueue,
    PodNominated,
    PodWaitEnded,
    PodWaits,
    PreemptionChosen,
    ReservationReleased,
    StepBegan,
    UndecidedGivenUp,
)
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.cycle.reserve import annotate, run_reserve, run_unreserve
from kscheduler.scheduling.cycle.sampling import NodeSampler
from kscheduler.scheduling.eviction.evictions import NominationWriter
from kscheduler.scheduling.extenders.extender_results import Extenders
from kscheduler.scheduling.failure import Failure, failure_of_bug, failure_of_record, failure_of_status
from kscheduler.scheduling.in_time import TimedCycles
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.pod_log.lines import MOVES, STEPS
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.resize_attempts import ResizeAttempts
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
from kscheduler.state.queue.queued_group import QueuedPodGroup
from kscheduler.telemetry.logs import get_logger, verbose
from kscheduler.telemetry.series import Histogram

_log = get_logger(__name__)


class _IdlePoints:
    """Takes the time of extension points of a profile where no plugin was called, which is none."""

    def __init__(self, observations: Observations, profile: str) -> None:
        of = observations.extension_points
        self.after_reserve = of[RESERVE.label, SUCCESS.code.label, profile].observe
        self.after_permit = of[PERMIT.label, SUCCESS.code.label, profile].observe
        self.after_pre_flight = of[PRE_BIND_PRE_FLIGHT.label, NOTHING_TO_DO.code.label, profile].observe
        self.after_pre_bind = of[PRE_BIND.label, SUCCESS.code.label, profile].observe
        self.after_post_bind = of[POST_BIND.label, SUCCESS.code.label, profile].observe


class _IdlePointsByProfile(dict[str, _IdlePoints]):
    """Made at their first use. Each pod needs four of them, and finding one is no call."""

    def __init__(self, observations: Observations) -> None:
        super().__init__()
        self._observations = observations

    def __missing__(self, profile: str) -> _IdlePoints:
        idle = self[profile] = _IdlePoints(self._observations, profile)
        return idle


class Scheduler:
    """Decides and binds. Keeps what is known of classes, and where the next search for nodes starts; its only tasks are
    those of `awaited`.
    """

    def __init__(self, context: AttemptContext, evaluators: Evaluators) -> None:
        self._context = context
        self._tell = context.observers.tell
        self._is_recorded = context.observers.is_heard(StepBegan)
        """Whether anybody wants to hear of the steps of each pod."""
        self._now = context.clock.monotonic
        self._evaluators = evaluators
        self._histograms: dict[tuple[str, Code, str], Histogram] = {}
        """By extension point, code and profile: each pod needs six of them."""
        self._idle_points = _IdlePointsByProfile(context.observations)
        self._cycle_timed = context.observations.algorithm_seconds.observe
        cache, queue, pod_of, clock = context.cache, context.queue, context.pod_of, context.clock
        observers = context.observers
        self._skipping = skipping = PodSkipping(
            cache, queue, pod_of, lambda: self._evaluators.profiles, observers, clock
        )
        self._cycles = cycles = TimedCycles(clock, cache, self._costly_tried)
        self._resizing = ResizeAttempts(
            cycles, cache, context.failures, observers, clock, context.evictions, skipping.end
        )
        self._consultation = ExtenderConsultation(
            cache, queue, pod_of, cycles, skipping, lambda: self._evaluators, observers, clock, context.wake_worker
        )
        self._long_searches = LongSearchRunner(skipping, self._judge_again, observers, clock)
        self.lines = self._consultation.lines
        """Pods that wait until extenders can be asked about them."""
        self._groups = GroupAttempts(
            cache,
            queue,
            context.waiting,
            cycles,
            skipping,
            lambda: self._evaluators,
            self,
            context.evictions,
            context.claims,
            context.group_reports,
            observers,
            clock,
        )
        self.awaited = binding_cycle.AwaitedSteps(context.clock)
        """Coroutines of plugins that no worker waits for."""

    def apply(self, evaluators: Evaluators) -> None:
        """Judge by other profiles from now on. An attempt that has begun keeps its profile to its end."""
        self._evaluators = evaluators
        # The series of profiles that are gone are dropped: one that comes back must not count in the old ones.
        self._histograms.clear()
        self._idle_points.clear()
        self.lines.call_all()

    @property
    def extenders(self) -> Extenders | None:
        """The extenders in force; `None`: there are none, or nobody asks them."""
        return self._evaluators.extenders

    @property
    def samplers(self) -> Mapping[str, NodeSampler]:
        """Where the next search of each profile starts."""
        return self._evaluators.samplers

    @property
    def engines(self) -> Mapping[str, ClassEngine]:
        """The class engines, by profile; empty if classes are not kept."""
        return self._evaluators.engines

    def _costly_tried(self, seconds: float) -> None:
        self._tell(CostlyCycle(seconds))
        self._context.queue.costly_tried(seconds)

    # --- deciding: never awaits ---------------------------------------------------------------------------------------

    def decide_called(self, queued: QueuedPodInfo) -> Attempt | None:
        """As `decide`, about a pod that stood in line and was called (`ExtenderWaitQueues.take_called`)."""
        try:
            return self.decide(queued) if self._consultation.resume(queued) else None
        finally:
            self.lines.decided(queued)

    def let_go(self, queued: QueuedPodInfo) -> bool:
        """End the attempt of a pod that stood in line and is gone, or needs no node any more; whether it was so."""
        return self._skipping.lets_go(queued)

    def decide_group(self, group: QueuedPodGroup) -> list[Attempt] | GroupConsultation:
        """Find nodes for a group's members and reserve them. The attempts of those that have one now; maybe none.

        Or what extenders must be asked before that: `ask_about_group`, and then `decide_consulted_group`.
        """
        return self._groups.decide(group)

    async def ask_about_group(self, consultation: GroupConsultation) -> None:
        """Ask extenders about a group's members. Never raises for their sake."""
        await self._groups.ask(consultation)

    def decide_consulted_group(self, consultation: GroupConsultation) -> list[Attempt] | GroupConsultation:
        """As `decide_group`, when extenders have answered."""
        return self._groups.decide_consulted(consultation)

    def give_up_group(self, group: QueuedPodGroup, failure: BaseException) -> None:
        """An exception ended the decision about a group: nothing is reserved, and it is tried again later."""
        self._groups.give_up(group, failure)

    def decide(self, queued: QueuedPodInfo) -> Attempt | None:
        """Find a node for the pod and reserve it. `None`: the attempt is over, and everything about it is done."""
        # In order: skip the pod, reject it with its class, run the cycle, handle "no node", reserve the chosen node.
        # Each early return has handled the pod completely: the queue no longer counts it as in flight.
        context, evaluators = self._context, self._evaluators
        started = self._now()
        profile = evaluators.profiles.get(queued.pod.pod.spec.scheduler_name)
        if profile is None:
            self._skipping.end(queued, "no profile has its name")
            return None
        if context.resizes.are_judged and context.resizes.concerns(queued.pod.pod):
            self._resizing.judge(queued, profile, started)
            return None
        if self._skipping.skips(queued):
            return None
        extenders = evaluators.extenders
        if extenders is not None and extenders.first_answers(queued.pod) is not None:
            return self._consultation.begin(Attempt.undecided(queued, profile, started, extenders))
        # the safety net asks again
        known = evaluators.infeasible.verdict(queued.pod) if not queued.was_flushed else None
        if known is not None:
            context.failures.handle(queued, known, context.clock.time())
            return None
        stopwatch = evaluators.stopwatches[profile.name]
        stopwatch.start(queued.pod, started)
        if verbose(STEPS):
            self._tell(AttemptBegun(queued))
        search_budget = search_budget_for(queued.pod, context.cache, context.clock)
        record = self._judge(queued, profile, stopwatch, search_budget)
        attempt = Attempt(queued, profile, record, started, evaluators.extenders)
        if search_budget is not None and search_budget.rest is not None:
            attempt.leave(search_budget.rest)
            return attempt
        return attempt if self.take(attempt) else None

    def take(self, attempt: Attempt) -> bool:
        """Act on the record: reserve the node; or begin the preemption and requeue. Returns whether there is a node."""
        context, record, queued = self._context, attempt.record, attempt.queued
        profile, started = attempt.profile, attempt.started
        tells_details = verbose(STEPS)
        ended = self._now()
        self._cycle_timed(ended - started)
        if tells_details and verbose(MOVES):
            self._tell(PodJudged(record))
        if not record.status.is_success:
            if record.preemption is not None:  # before requeueing: PreEnqueue checks whether the pod must wait
                self._tell(PreemptionChosen(record.preemption))
                context.evictions.begin(record.preemption)
            if record.deallocation is not None and context.claims is not None:
                context.claims.free(record.deallocation)
            if record.nominated_node_name:
                self._tell(PodNominated(record))
            self.fail(queued, self._failure_of(attempt), profile, started)
            return False
        try:
            status = self._set_aside(attempt, ended)
        except BaseException:
            self.release(attempt)  # a bug of kscheduler: what plugins have reserved must be released
            record.node_name = ""
            raise
        if not status.is_success:
            self.fail(queued, failure_of_status(status), profile, started)
            return False
        if PodsToActivate in record.state.values:
            self._activate(attempt)
        if tells_details:
            self._tell(PodAssumed(record))
        return True

    def _take_later(self, attempt: Attempt) -> bool:
        self._tell(STEP_BEGAN)
        has_node = self.take(attempt)
        self._tell(PodDecidedLater(attempt, has_node))
        return has_node

    def _failure_of(self, attempt: Attempt) -> Failure:
        """Why there is no node. It holds for the pod's whole class, unless PostFilter made room for this pod, or
        extenders were asked: what they say is covered by no signature.
        """
        record = attempt.record
        failure = failure_of_record(record)
        is_helped = record.post_filter is not None and record.post_filter.is_success
        if attempt.is_consulted:
            return replace(failure, extender=", ".join(attempt.objectors))
        if is_helped:
            return failure
        return self._evaluators.infeasible.learned(record.pod, failure)

    def _judge_again(self, attempt: Attempt, search_budget: SearchTimeBudget | None) -> SchedulingRecord:
        """Run the cycle after a long search. A profile that has gone meanwhile still decides, unmeasured."""
        profile, evaluators = attempt.profile, self._evaluators
        if evaluators.profiles.get(profile.name) is not profile:
            return self._cycles.schedule(attempt.queued, profile, search_budget=search_budget)
        stopwatch = evaluators.stopwatches[profile.name]
        stopwatch.start(attempt.queued.pod)
        return self._judge(attempt.queued, profile, stopwatch, search_budget)

    def _judge(
        self,
        queued: QueuedPodInfo,
        profile: Profile,
        stopwatch: ObservedStopwatch,
        search_budget: SearchTimeBudget | None,
    ) -> SchedulingRecord:
        """Run the cycle. For a pod that the safety net brought back, classes are not used: they may have missed a
        change.
        """
        evaluators = self._evaluators
        sampler, engine = evaluators.samplers[profile.name], evaluators.engines.get(profile.name)
        if not queued.was_flushed:
            return self._cycles.schedule(queued, profile, stopwatch, sampler, engine, search_budget=search_budget)
        record = self._cycles.schedule(queued, profile, stopwatch, sampler, search_budget=search_budget)
        if record.status.is_success and engine is not None and not queued.is_costly:
            engine.forget_all()
        return record

    def _activate(self, attempt: Attempt) -> None:
        """Activate the pods that plugins have named in the cycle state."""
        pods = attempt.record.state.read(PodsToActivate)
        self._context.queue.activate(pods.take(), self._context.clock.time())

    def _set_aside(self, attempt: Attempt, began: float) -> Status:
        """Assume, Reserve, Permit; all are undone if one of them does not succeed. `began`: now, monotonic."""
        pod, profile, record = attempt.queued.pod, attempt.profile, attempt.record
        self._context.cache.assume_pod(pod, record.node_name)
        idle, status = self._idle_points[profile.name], SUCCESS
        if profile.acts_with is not None and profile.acts_with.isdisjoint(record.state.values):
            idle.after_reserve(0.0)
        else:
            status = run_reserve(profile, record.state, pod, record.node_name)
            if BindingAnnotations in record.state.values:
                annotate(self._context.cache, record.state, pod)
            began = self._measure(attempt, RESERVE.label, status.code, began)
        if not profile.permit:
            if status.is_success:
                idle.after_permit(0.0)
        elif status.is_success:
            status = binding_cycle.run_permit(attempt, self._context.waiting, self._context.clock)
            self._measure(attempt, PERMIT.label, status.code if attempt.held is None else Code.WAIT, began)
        if not status.is_success:
            self.release(attempt)
        return status

    def _measure(self, attempt: Attempt, point: str, code: Code, began: float) -> float:
        """Count the seconds of an extension point that began at `began`. Returns its end. Both are monotonic."""
        now = self._now()
        key = point, code, attempt.profile.name
        histogram = self._histograms.get(key)
        if histogram is None:
            labels = point, code.label, attempt.profile.name
            histogram = self._histograms[key] = self._context.observations.extension_points[labels]
        histogram.observe(now - began)
        return now

    # --- waiting ------------------------------------------------------------------------------------------------------

    def must_wait(self, attempt: Attempt) -> bool:
        """Whether the pod must wait for Permit or PreBind before it is bound; it does not wait in a worker."""
        return not attempt.record.node_name or attempt.held is not None or bool(self._plan(attempt).groups)

    async def prepare(self, attempt: Attempt) -> bool:
        """Do everything that a pod waits for. Returns whether to bind it; if not, the attempt is over."""
        if not attempt.node_name:
            beside = self._consultation if attempt.is_consulted else self._long_searches
            if not (await beside.decide(attempt) and self._take_later(attempt)):
                return False
            if not self.must_wait(attempt):
                return True
        try:
            failure = self._plan(attempt).failure
            if not failure.is_success:
                self.release_and_requeue(attempt, failure)
                return False
            if self._context.announcer is not None:
                await self._announce(attempt, self._context.announcer)
            return await self.await_permit(attempt) and await self.pre_bind(attempt)
        finally:
            self._end_permit(attempt)

    async def _announce(self, attempt: Attempt, announcer: NominationWriter) -> None:
        """Write the node. The pod is bound even if that fails."""
        pod = attempt.queued.pod
        announcer.withdraw(pod.uid)
        try:
            await announcer.patch_pod_status(pod.pod, None, attempt.node_name)
        except ClientError as failure:
            if isinstance(failure, APIError) and failure.is_not_found:
                return  # the pod was deleted: the next step will find that out
            _log.warning("pod_not_announced", pod=pod.key, node=attempt.node_name, err=str(failure))

    async def await_permit(self, attempt: Attempt) -> bool:
        """Wait for Permit. Returns whether to bind the pod; if not, the attempt is over."""
        held = attempt.held
        if held is None:
            return True
        began, timeout = self._now(), max(held.timeouts.values(), default=0.0)
        self._tell(PodWaits(held.pod, held.node_name, PERMIT.label, held.pending_plugins, timeout))
        try:
            with self.awaited.permits_at_work(attempt, held):
                verdict = await binding_cycle.verdict_of(held, self._context.clock)
        finally:
            self._end_permit(attempt)
        self._tell(PodWaitEnded(held.pod, held.node_name, PERMIT.label, verdict.code.label, self._now() - began))
        if not verdict.is_success:
            self.release_and_requeue(attempt, verdict)
        return verdict.is_success

    def _end_permit(self, attempt: Attempt) -> None:
        if attempt.held is not None:
            self._tell(PermitReleased(attempt.queued.pod.uid))
        self._context.waiting.release(attempt.queued.pod.uid)

    async def pre_bind(self, attempt: Attempt) -> bool:
        """Run PreBind, unless it has run. Returns whether to bind the pod; if not, the attempt is over."""
        if attempt.is_pre_bound:
            return True
        pod, plan = attempt.queued.pod, attempt.plan
        if plan is None:
            plan = self._plan(attempt)
        self.leave_queue(pod.uid)
        self._context.failures.withdraw(pod.uid)
        await self._context.failures.settled(pod.uid)
        if plan is NOTHING_TO_DO:
            self._idle_points[attempt.profile.name].after_pre_bind(0.0)
            attempt.is_pre_bound = True
            return True
        began, status = self._now(), plan.failure
        if plan.groups:
            if self._context.in_pre_bind is not None:
                attempt.entry = self._context.in_pre_bind.add(pod.uid)
            plugins = [plugin.name for group in plan.groups for plugin in group]
            self._tell(PodWaits(pod, attempt.node_name, PRE_BIND.label, plugins))
            state, node_name, listener = attempt.record.state, attempt.node_name, attempt.profile.listener
            attempt.is_in_pre_bind = True
            try:
                status = await run_pre_bind(plan, state, pod, node_name, attempt.entry, listener)
            finally:
                attempt.is_in_pre_bind = False
            self._tell(PodWaitEnded(pod, node_name, PRE_BIND.label, status.code.label, self._now() - began))
        self._measure(attempt, PRE_BIND.label, status.code, began)
        attempt.is_pre_bound = status.is_success
        if not status.is_success:
            self.release_and_requeue(attempt, status)
        return status.is_success

    def leave_queue(self, uid: str) -> None:
        """The pod is on its way to its node: no event concerns the queue's part of it any longer."""
        self._context.queue.done(uid)
        if self._is_recorded:
            self._tell(PodLeftQueue(uid))

    def _plan(self, attempt: Attempt) -> PreBindPlan:
        if attempt.plan is None:
            profile, state, pod = attempt.profile, attempt.record.state, attempt.queued.pod
            if profile.acts_with is not None and profile.acts_with.isdisjoint(state.values):
                attempt.plan = NOTHING_TO_DO
                self._idle_points[profile.name].after_pre_flight(0.0)
                return attempt.plan
            began = self._now()
            attempt.plan = plan_of(profile.pre_bind, state, pod, attempt.node_name, profile.listener)
            self._measure(attempt, PRE_BIND_PRE_FLIGHT.label, attempt.plan.code, began)
        return attempt.plan

    # --- binding ------------------------------------------------------------------------------------------------------

    async def bind(self, attempt: Attempt) -> None:
        """Run PreBind (if it has not run), Bind, PostBind. After a failure: release the node, requeue the pod."""
        if await self._may_bind(attempt):
            began = self._now()
            self._end_bind(attempt, await binding_cycle.run_bind(attempt), began)

    def is_bound_outside(self, attempt: Attempt) -> bool:
        """Whether an extender binds the pod. It may take seconds, so no worker waits for it: see `bind_outside`."""
        extenders = attempt.extenders
        if extenders is None or attempt.was_given_to_binder:
            return False
        return bool(extenders.binder_of(attempt.queued.pod.pod))

    async def bind_outside(self, attempt: Attempt) -> bool:
        """As `bind`, by an extender. Returns whether the plugins must bind the pod; if not, the attempt is over.

        `is_bound_outside` must have said that there is one.
        """
        attempt.was_given_to_binder = True
        extenders = attempt.extenders
        if extenders is None or not await self._may_bind(attempt):
            return False
        began, pod = self._now(), attempt.queued.pod.pod
        status = await extenders.bind(pod, attempt.node_name)
        if status is not None:
            attempt.objectors = () if status.is_success else (extenders.binder_of(pod),)
            self._end_bind(attempt, status, began)
        return status is None

    async def _may_bind(self, attempt: Attempt) -> bool:
        """Run PreBind, and rule out that the pod is called back. If that fails, the attempt is over."""
        if not await self.pre_bind(attempt):
            return False
        if attempt.entry is not None and not attempt.entry.mark_pre_bound():
            self.release_and_requeue(attempt, error(attempt.entry.cause))
            return False
        if attempt.entry is not None:
            self._leave_pre_bind(attempt)
        return True

    def _end_bind(self, attempt: Attempt, status: Status, began: float) -> None:
        ended = self._measure(attempt, BIND.label, status.code, began)
        attempt.is_bound = status.is_success
        if status.is_success:
            self.bound(attempt, ended)
        else:
            self.release_and_requeue(attempt, Status(Code.ERROR, status.reasons, status.plugin, status.fault))

    def _leave_pre_bind(self, attempt: Attempt) -> None:
        if attempt.entry is not None and self._context.in_pre_bind is not None:
            self._context.in_pre_bind.remove(attempt.queued.pod.uid)

    def bound(self, attempt: Attempt, ended: float | None = None) -> None:
        """The API server has accepted the Binding, at `ended` in monotonic seconds; `None`: now."""
        queued, profile = attempt.queued, attempt.profile
        if self._is_recorded:
            self._tell(STEP_BEGAN)
        now = self._context.clock.time()
        self._context.cache.finish_binding(queued.pod.uid, now)
        seconds = (self._now() if ended is None else ended) - attempt.started
        self._tell(PodBound(queued, attempt.record, profile.name, seconds, now))
        if profile.post_bind:
            began = self._now()
            binding_cycle.run_post_bind(attempt, self.awaited)
            self._measure(attempt, POST_BIND.label, Code.SUCCESS, began)
        else:
            self._idle_points[profile.name].after_post_bind(0.0)
        if PodsToActivate in attempt.record.state.values:
            self._activate(attempt)
        if self._is_recorded:
            self._tell(AttemptCompleted(queued))

    # --- failing ------------------------------------------------------------------------------------------------------

    def give_up(self, queued: QueuedPodInfo, failure: BaseException) -> None:
        """An exception ended the decision: release what was reserved, and try the pod again later."""
        self._forget(queued.pod)
        bug = failure_of_bug(failure)
        if bug.message != queued.last_error:
            _log.error("decision_failed", pod=queued.key, uid=queued.pod.uid, exc_info=failure)
            queued.last_error = bug.message  # it has been logged with its traceback
        self._context.failures.handle(queued, bug, self._context.clock.time())

    def abandon(self, attempt: Attempt, failure: BaseException) -> None:
        """An exception ended the attempt's task: release the node and try again later, unless the pod is bound.

        The caller must have logged the exception with its traceback.
        """
        if attempt.is_bound:
            return
        if not attempt.node_name:  # extenders were being asked, or a search went on: nothing is reserved yet
            attempt.queued.last_error = failure_of_bug(failure).message
            self._tell(STEP_BEGAN)
            self.give_up(attempt.queued, failure)
            self._tell(UndecidedGivenUp(attempt.queued, failure))
            return
        bug = error(f"{type(failure).__name__}: {failure}", fault=Fault.BUG)
        attempt.queued.last_error = bug.message
        self.release_and_requeue(attempt, bug)

    def release_and_requeue(self, attempt: Attempt, status: Status) -> None:
        """Release the node, requeue the pod, and wake the pods that the free room may help."""
        context, pod = self._context, attempt.queued.pod
        self._tell(STEP_BEGAN)
        self.release(attempt)
        failure = replace(failure_of_status(status), extender=", ".join(attempt.objectors))
        self.fail(attempt.queued, failure, attempt.profile, attempt.started)
        not_woken = pod.uid if status.is_rejected else ""  # the room of a rejected pod must not wake the pod itself
        gone = placed(pod.pod, attempt.node_name)  # with its node: a hint sees no free room in a pod without one
        context.queue.move_all(events.ASSIGNED_POD_DELETE, gone, None, context.clock.time(), not_woken)
        self._tell(ReservationReleased(attempt.queued, status))

    def release(self, attempt: Attempt) -> None:
        """Undo what was reserved and assumed for the pod."""
        began = self._now()
        self._leave_pre_bind(attempt)
        run_unreserve(attempt.profile, attempt.record.state, attempt.queued.pod, attempt.node_name)
        self._measure(attempt, UNRESERVE.label, Code.SUCCESS, began)
        self._forget(attempt.queued.pod)

    def _forget(self, pod: PodInfo) -> None:
        self._context.cache.forget_pod(pod.uid)
        self._context.evictions.released_node(pod)  # a preemptor may wait for this room

    def fail(self, queued: QueuedPodInfo, failure: Failure, profile: Profile, started: float) -> None:
        """The attempt found no node: requeue the pod and report why. `started`: monotonic seconds."""
        self._tell(AttemptFailed(failure, profile.name, self._now() - started))
        self._context.failures.handle(queued, failure, self._context.clock.time())
