"""One attempt to place one pod: decide, set aside, bind, or say why not.

`decide` is synchronous: from the pop to the reservation nothing else happens, so N workers are one decision-maker.
What follows talks to the API server: `bind`, for a pod that Permit holds after `await_permit`.

    decide          cycle -> assume -> Reserve -> Permit  (Unreserve in reverse and forget, if any of them says no)
    await_permit    the verdict of the plugins that asked to wait                                      (likewise)
    pre_bind        what the plugins have to prepare: volumes    (likewise, if any of them fails)
    bind            Bind -> PostBind                             (likewise)
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from kscheduler.aio.clock import Clock
from kscheduler.framework import events
from kscheduler.framework.plugin import PermitPlugin, PreBindPlugin
from kscheduler.framework.queued_pod import QueuedPodInfo
from kscheduler.framework.status import SUCCESS, Code, Status, error
from kscheduler.logs import get_logger, verbose
from kscheduler.scheduling.cycle import schedule
from kscheduler.scheduling.failures import (
    SCHEDULER_ERROR,
    Failure,
    FailureHandler,
    failure_of_record,
    failure_of_status,
)
from kscheduler.scheduling.observations import AttemptResult, Observations
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.profiles import Profiles
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.reports import Reporter
from kscheduler.scheduling.sampling import NodeSampler
from kscheduler.scheduling.stopwatch import ObservedStopwatch
from kscheduler.state.cache import Cache
from kscheduler.state.queue import SchedulingQueue
from kscheduler.state.waiting_pods import HeldPod, WaitingPodTable

_log = get_logger(__name__)

MAX_PERMIT_SECONDS: Final = 15 * 60.0
LEVEL_DECISIONS: Final = 3
"""Verbosity from which every decision is logged."""


@dataclass(slots=True)
class Attempt:
    """A pod that has a node and is not bound yet."""

    queued: QueuedPodInfo
    profile: Profile
    record: SchedulingRecord
    started: float
    """Monotonic seconds."""
    held: HeldPod | None = None
    pre_binding: tuple[PreBindPlugin, ...] | None = None
    """Plugins whose PreBind has something to do; `None` until they were asked."""
    pre_flight: Status = SUCCESS
    """What went wrong when they were asked."""
    is_pre_bound: bool = False
    is_bound: bool = False
    """The API server has it so: from here on nothing may give the node back."""

    @property
    def node_name(self) -> str:
        """The node it is meant for."""
        return self.record.node_name


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an attempt works on."""

    cache: Cache
    queue: SchedulingQueue
    waiting: WaitingPodTable
    profiles: Profiles
    failures: FailureHandler
    reporter: Reporter
    observations: Observations
    clock: Clock


class Scheduler:
    """Decides and binds. Owns no task, and no state but where the next search for nodes begins."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._watches = {
            name: ObservedStopwatch(name, around.observations, around.clock.monotonic) for name in around.profiles
        }
        self._samplers = {name: NodeSampler() for name in around.profiles}

    # --- deciding: never awaits ---------------------------------------------------------------------------------------

    def decide(self, queued: QueuedPodInfo) -> Attempt | None:
        """Find the pod a node and set it aside. `None`: the attempt is over, and has been dealt with."""
        around = self._around
        started = around.clock.monotonic()
        profile = around.profiles.get(queued.pod.pod.spec.scheduler_name)
        if profile is None or self._is_to_be_skipped(queued):
            around.queue.done(queued.pod.uid)
            return None
        watch = self._watches[profile.name]
        watch.start()
        record = schedule(profile, queued.pod, around.cache, watch, self._samplers[profile.name])
        around.observations.algorithm(around.clock.monotonic() - started)
        if not record.status.is_success:
            self._fail(queued, failure_of_record(record), profile, started)
            return None
        attempt = Attempt(queued, profile, record, started)
        status = self._set_aside(attempt)
        if not status.is_success:
            self._fail(queued, failure_of_status(status), profile, started)
            return None
        return attempt

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
        status = self._reserve(attempt)
        if status.is_success:
            status = self._permit(attempt)
        if not status.is_success:
            self._give_back(attempt)
        return status

    def _reserve(self, attempt: Attempt) -> Status:
        for plugin in attempt.profile.reserve:
            try:
                status = plugin.reserve(attempt.record.state, attempt.queued.pod, attempt.node_name)
            except Exception as failure:  # noqa: BLE001  a plugin call
                status = error(str(failure))
            if not status.is_success:
                return _no_of("Reserve", plugin.name, status)
        return SUCCESS

    def _permit(self, attempt: Attempt) -> Status:
        timeouts: dict[str, float] = {}
        for plugin in attempt.profile.permit:
            status = self._ask_permit(plugin, attempt, timeouts)
            if status.code is not Code.WAIT and not status.is_success:
                return _no_of("Permit", plugin.name, status)
        if timeouts:
            now = self._around.clock.monotonic()
            deadlines = {plugin: now + seconds for plugin, seconds in timeouts.items()}
            attempt.held = HeldPod(attempt.queued.pod, attempt.node_name, deadlines, timeouts)
            self._around.waiting.hold(attempt.held)
        return SUCCESS

    def _ask_permit(self, plugin: PermitPlugin, attempt: Attempt, timeouts: dict[str, float]) -> Status:
        try:
            result = plugin.permit(attempt.record.state, attempt.queued.pod, attempt.node_name)
        except Exception as failure:  # noqa: BLE001  a plugin call
            return error(str(failure))
        if result.status.code is Code.WAIT:
            timeouts[plugin.name] = min(result.timeout_seconds, MAX_PERMIT_SECONDS)
        return result.status

    # --- binding ------------------------------------------------------------------------------------------------------

    async def await_permit(self, attempt: Attempt) -> bool:
        """Whether Permit lets the pod go on to be bound; if not, the attempt is over, and has been dealt with."""
        held = attempt.held
        if held is None:
            return True
        began = self._around.clock.monotonic()
        try:
            verdict = await self._verdict(held)
        finally:
            self._around.waiting.release(held.pod.uid)
        self._around.observations.permit_wait(verdict.code.label, self._around.clock.monotonic() - began)
        if not verdict.is_success:
            self._abandon(attempt, verdict)
        return verdict.is_success

    async def _verdict(self, held: HeldPod) -> Status:
        decided = asyncio.Event()
        held.on_verdict(decided.set)
        while held.verdict is None:
            left = held.next_deadline() - self._around.clock.monotonic()
            sleeper = asyncio.ensure_future(self._around.clock.sleep(max(0.0, left)))
            waiter = asyncio.ensure_future(decided.wait())
            try:
                await asyncio.wait({sleeper, waiter}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                sleeper.cancel()
                waiter.cancel()
            if held.verdict is None:
                held.expire(self._around.clock.monotonic())
        return held.verdict

    def must_wait(self, attempt: Attempt) -> bool:
        """Whether the pod has to wait before it is bound, for Permit or for PreBind: not in a worker, then."""
        return attempt.held is not None or bool(self._pre_binding(attempt))

    async def pre_bind(self, attempt: Attempt) -> bool:
        """PreBind, once. Whether the pod goes on to be bound; if not, the attempt is over, and has been dealt with."""
        if attempt.is_pre_bound:
            return True
        self._around.queue.done(attempt.queued.pod.uid)
        self._around.failures.withdraw(attempt.queued.pod.uid)
        status = await self._pre_bind(attempt)
        attempt.is_pre_bound = status.is_success
        if not status.is_success:
            self._abandon(attempt, status)
        return status.is_success

    async def bind(self, attempt: Attempt) -> None:
        """PreBind (if it has not run), Bind, PostBind; on a failure the node is given back and the pod requeued."""
        if not await self.pre_bind(attempt):
            return
        status = await self._run_bind(attempt)
        attempt.is_bound = status.is_success
        if status.is_success:
            self._bound(attempt)
        else:
            self._abandon(attempt, Status(Code.ERROR, status.reasons, status.plugin))

    def _pre_binding(self, attempt: Attempt) -> tuple[PreBindPlugin, ...]:
        if attempt.pre_binding is None:
            attempt.pre_binding = tuple(one for one in attempt.profile.pre_bind if self._has_work(one, attempt))
        return attempt.pre_binding

    def _has_work(self, plugin: PreBindPlugin, attempt: Attempt) -> bool:
        try:
            flight = plugin.pre_bind_pre_flight(attempt.record.state, attempt.queued.pod, attempt.node_name)
        except Exception as failure:  # noqa: BLE001  a plugin call
            flight = error(str(failure))
        if not (flight.is_success or flight.is_skip) and attempt.pre_flight.is_success:
            attempt.pre_flight = _failed_pre_bind(plugin, flight)
        return not flight.is_skip

    async def _pre_bind(self, attempt: Attempt) -> Status:
        state, pod, node = attempt.record.state, attempt.queued.pod, attempt.node_name
        plugins = self._pre_binding(attempt)
        if not attempt.pre_flight.is_success:
            return attempt.pre_flight
        for plugin in plugins:
            try:
                status = await plugin.pre_bind(state, pod, node)
            except Exception as failure:  # noqa: BLE001  a plugin call
                status = error(str(failure))
            if not status.is_success:
                return _failed_pre_bind(plugin, status)
        return SUCCESS

    async def _run_bind(self, attempt: Attempt) -> Status:
        for plugin in attempt.profile.bind:
            try:
                status = await plugin.bind(attempt.record.state, attempt.queued.pod, attempt.node_name)
            except Exception as failure:  # noqa: BLE001  a plugin call
                status = error(str(failure))
            if status.is_success:
                return SUCCESS
            if not status.is_skip:
                return error(f'running Bind plugin "{plugin.name}": {status.message}', plugin=plugin.name)
        return error("no Bind plugin took the pod")

    def _bound(self, attempt: Attempt) -> None:
        around, queued = self._around, attempt.queued
        seconds = around.clock.monotonic() - attempt.started
        around.observations.attempt(AttemptResult.SCHEDULED, attempt.profile.name, seconds)
        around.observations.pod_scheduled(queued.attempts)
        first = queued.initial_attempt_timestamp
        if first is not None:
            around.observations.sli(queued.attempts, around.clock.time() - first)
        if queued.was_flushed:
            around.observations.scheduled_after_flush()
        around.reporter.scheduled(queued.pod.pod, attempt.node_name)
        if verbose(LEVEL_DECISIONS):
            _log.info("pod_bound", pod=queued.key, node=attempt.node_name, attempts=queued.attempts)
        for plugin in attempt.profile.post_bind:
            try:
                plugin.post_bind(attempt.record.state, queued.pod, attempt.node_name)
            except Exception:  # noqa: BLE001  a plugin call; the pod is bound whatever it says
                _log.exception("plugin_failed", plugin=plugin.name, point="PostBind", pod=queued.key)

    # --- failing ------------------------------------------------------------------------------------------------------

    def give_up(self, queued: QueuedPodInfo, failure: Exception) -> None:
        """A bug ended the decision: whatever was set aside is given back, and the pod is tried again later."""
        self._around.cache.forget_pod(queued.pod.uid)
        message = f"{type(failure).__name__}: {failure}"
        self._around.failures.handle(queued, Failure(message, SCHEDULER_ERROR), self._around.clock.time())

    def abandon(self, attempt: Attempt, failure: BaseException) -> None:
        """A bug ended the attempt's task: give the node back and try again later, unless the pod is bound already."""
        if attempt.is_bound:
            return
        self._abandon(attempt, error(f"{type(failure).__name__}: {failure}"))

    def _abandon(self, attempt: Attempt, status: Status) -> None:
        """Give the node back, tell the queue that there is room, and requeue the pod."""
        around, pod = self._around, attempt.queued.pod
        self._give_back(attempt)
        self._fail(attempt.queued, failure_of_status(status), attempt.profile, attempt.started)
        spared = pod.uid if status.is_rejected else ""  # a pod that was turned down is no reason to try it again
        around.queue.move_all(events.ASSIGNED_POD_DELETE, pod.pod, None, around.clock.time(), spared)

    def _give_back(self, attempt: Attempt) -> None:
        pod = attempt.queued.pod
        for plugin in reversed(attempt.profile.reserve):
            try:
                plugin.unreserve(attempt.record.state, pod, attempt.node_name)
            except Exception:  # noqa: BLE001  a plugin call; the others must still give back
                _log.exception("plugin_failed", plugin=plugin.name, point="Unreserve", pod=pod.key)
        self._around.cache.forget_pod(pod.uid)

    def _fail(self, queued: QueuedPodInfo, failure: Failure, profile: Profile, started: float) -> None:
        around = self._around
        is_error = failure.reason == SCHEDULER_ERROR
        result = AttemptResult.ERROR if is_error else AttemptResult.UNSCHEDULABLE
        around.observations.attempt(result, profile.name, around.clock.monotonic() - started)
        if is_error:
            _log.error("attempt_failed", pod=queued.key, err=failure.message)
        elif verbose(LEVEL_DECISIONS):
            _log.info("pod_not_scheduled", pod=queued.key, message=failure.message)
        around.failures.handle(queued, failure, around.clock.time())


def _failed_pre_bind(plugin: PreBindPlugin, status: Status) -> Status:
    return error(f'running PreBind plugin "{plugin.name}": {status.message}', plugin=plugin.name)


def _no_of(point: str, plugin: str, status: Status) -> Status:
    """A plugin's rejection as it is, anything else as an error that names point and plugin."""
    if status.is_rejected:
        return status.by(plugin)
    return error(f'running {point} plugin "{plugin}": {status.message}', plugin=plugin)
