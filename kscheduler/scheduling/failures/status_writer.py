"""Writing conditions and nominations to pods, a few at a time, with less urgency than binds.

A cluster event may reject ten thousand pods at once, and the condition of each must be patched. Binds must not wait for
that. So patches are queued (`pending_patches` says which comes next) and sent with a few requests at a time; only one
at a time while the binds use all that the server can handle.

    result of a request          what follows
    success                      later patches are compared with the answer, until the watch has caught up
    404, or another UID          nothing: the pod is gone
    409, 5xx, no answer          try again from the newest version, with growing pauses, up to `MAX_TRIES` times
    429                          try again, and nothing else of this namespace before; to several namespaces, or of
                                 the server's priority and fairness: send all patches at a lower rate for a while
    not sent, not authorized     try again, and send nothing else meanwhile: no patch is lost while the server is down
    any other refusal            drop the patch

A request that hangs holds none of the few places (`aio.shared_slots`): its namespace's patches go beside them from
then on, a few at a time, and the others are set aside; those of other namespaces are sent as before. Dropped patches
are counted and logged. Limit: patches that are pending when the process is killed are lost; the next attempt of the pod
writes its condition again.
"""

import asyncio
from collections.abc import Callable, Collection, Hashable
from typing import Final, Protocol

import msgspec

from kscheduler.aio.clock import REAL_CLOCK, Clock, finishes_within
from kscheduler.aio.rate_limiters import Backoff
from kscheduler.aio.shared_slots import FixedCapacity, SeveralOwners, SharedSlots
from kscheduler.aio.tasks import TaskSet
from kscheduler.api.codec import UndecodableError
from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.bounded import RecentlyUsed, RecentlyUsedByWeight, weight_of
from kscheduler.client.errors import APIError, ClientError, CredentialsError, NotSentError
from kscheduler.scheduling.failures.pending_patches import PendingPatches, PodPatch
from kscheduler.scheduling.reports import EventSink
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught
from kscheduler.telemetry.logs.storms import Throttle

_log = get_logger(__name__)

# Requests in flight at the same time.
WORKERS: Final = 4
# With pauses of 0.1, 0.2, 0.4 ... 30 s: about two minutes.
MAX_TRIES: Final = 12
_LONGEST_PAUSE_SECONDS: Final = 30.0
# Answers that the watch does not show yet; if there are more, requests may be repeated, but memory is bounded.
_REMEMBERED_ANSWERS: Final = 256
# Of large pods among them.
_ANSWERS_BYTES: Final = 2 * 2**20
_SECONDS_BETWEEN_WARNINGS: Final = 10.0


class StatusPatcher(Protocol):
    """The part of `client.pod_writes.PodStatusPatcher` that this needs."""

    async def patch_status(self, pod: Pod, condition: Condition | None, nominated_node_name: str | None) -> Pod:
        """Send what differs from `pod`. Returns the server's version, or `pod` itself if nothing differs."""
        ...


class StatusStatistics(msgspec.Struct, frozen=True):
    """Counts since the start, except `pending`, `classes` and `sending`, which are current."""

    pending: int
    """Pods with an unsent patch; members of classes are not counted before their turn."""
    classes: int
    sending: int
    sent: int
    unchanged: int
    """Patches that the pod showed already."""
    retried: int
    dropped: int


class StatusWriter:
    """Reports failures. Implements `failure_handler.FailureSink`."""

    def __init__(
        self,
        patcher: StatusPatcher,
        recorder: EventSink,
        pod_of: Callable[[str], Pod | None],
        *,
        clock: Clock = REAL_CLOCK,
        is_busy: Callable[[], bool] = lambda: False,
        on_call: Callable[[str, float], None] = lambda _result, _seconds: None,
    ) -> None:
        """`pod_of`: by key, the pod as the watch last showed it. `is_busy`: whether binds use the server to capacity.

        `on_call` is called after each request with `success` or `error`, and its seconds.
        """
        self._patcher = patcher
        self._recorder = recorder
        self._pod_of = pod_of
        self._clock = clock
        self._is_busy = is_busy
        self._on_call = on_call
        self._patches = PendingPatches(self._newest, clock.monotonic())
        self._answers: RecentlyUsed[str, Pod] = RecentlyUsedByWeight(
            _REMEMBERED_ANSWERS, _ANSWERS_BYTES, lambda _, answer: weight_of(answer)
        )
        self._room = FixedCapacity(WORKERS)
        self.work_slots = SharedSlots(
            self._room, clock, _namespace_of, on_capacity=self._on_capacity, on_turn=self._send_aside, turns=WORKERS
        )
        self._refused = SeveralOwners()
        """429s to several namespaces are the server's, unless the patches of others are accepted."""
        self._requests = TaskSet("status", clock)
        self._changed = asyncio.Event()
        self._answered = asyncio.Event()
        self._outage = Backoff(0.1, cap_seconds=5.0, clock=clock)
        self._resume_at, self._has_paused = float("-inf"), False
        self._is_running = False
        self._warnings = Throttle(_SECONDS_BETWEEN_WARNINGS)
        self._sent = self._retried = self._dropped = 0

    def statistics(self) -> StatusStatistics:
        """A snapshot of the counts."""
        patches = self._patches
        counts = self._sent, patches.unchanged, self._retried, self._dropped
        return StatusStatistics(len(patches), patches.classes, patches.sending, *counts)

    def waiting(self, namespace: Hashable) -> int:
        """How many patches of this namespace wait for its turn."""
        return self._patches.count_aside(namespace)

    # --- reporting ----------------------------------------------------------------------------------------------------

    def report(self, pod: Pod, condition: Condition, note: str, nominated_node_name: str | None = None) -> None:
        """Record the Event and queue the patch."""
        self._recorder.record(
            pod,
            type="Warning",
            reason="FailedScheduling",
            action="Scheduling",
            note=note,
            reporting_controller=pod.spec.scheduler_name,
        )
        self._patches.put(PodPatch(pod.key, pod.metadata.uid, condition, nominated_node_name))
        self._changed.set()

    def report_class(self, name: Hashable, members: Collection[str], condition: Condition) -> None:
        """Parked pods share a new condition: each is patched in its turn, without an Event."""
        self._patches.put_class(name, members, condition)
        self._changed.set()

    def withdraw(self, uid: str) -> None:
        """Drop any unsent patch for this pod: it is about to be bound."""
        self._patches.withdraw(uid)

    async def settled(self, uid: str) -> None:
        """Wait until no request for this pod is in flight, so that none can overtake the next one."""
        while uid in self._patches.in_flight:
            self._answered.clear()
            await self._answered.wait()

    async def patch_pod_status(self, pod: Pod, condition: Condition | None, nominated_node_name: str) -> bool:
        """Patch now, ahead of pending patches. Returns whether the pod had to be changed. Raises `ClientError`."""
        await self.settled(pod.metadata.uid)
        patch = PodPatch(pod.key, pod.metadata.uid, condition, nominated_node_name)
        self._patches.begin(patch)
        try:
            newest = self._newest(pod.key)
            known = newest if newest is not None and newest.metadata.uid == patch.uid else pod
            answer = await self._sent_to_server(known, condition, nominated_node_name)
        except UndecodableError:
            return True
        finally:
            self._done(patch)
        self._remember(answer)
        return answer is not known

    # --- sending ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send until cancelled."""
        self._is_running = True
        try:
            while True:
                await self._wait(self._send_what_may_go())
        finally:
            self._is_running = False
            await self._requests.cancel_all()

    async def flush(self, timeout_seconds: float) -> bool:
        """Wait until all news has been sent, up to the timeout. Returns whether it was. `run` must be running."""
        return await finishes_within(self._until_sent(), timeout_seconds, self._clock)

    async def _until_sent(self) -> None:
        while self._patches.has_news:
            self._answered.clear()
            await self._answered.wait()

    async def _wait(self, seconds: float | None) -> None:
        """Wait until the seconds have passed (`None`: forever) or something has changed."""
        self._changed.clear()
        if seconds is None:
            await self._changed.wait()
        elif seconds > 0:
            await finishes_within(self._changed.wait(), seconds, self._clock)
        else:
            await asyncio.sleep(0)

    def _send_what_may_go(self) -> float | None:
        """Start requests up to the limit. Returns the seconds until the next one; `None`: until something changes."""
        now = self._clock.monotonic()
        if now < self._resume_at:
            return self._resume_at - now
        if self._has_paused:
            self._has_paused = False
            for namespace in self._patches.set_aside_for:
                self._send_aside(namespace)
        self._room.work_slots = 1 if self._is_busy() else WORKERS
        while self._room.has_room():
            patch = self._patches.take(now)
            if patch is None:
                return self._patches.delay(now)
            if self.work_slots.begin_now(patch):
                self._requests.spawn(patch.key, self._send(patch), self._on_bug)
            else:
                self._patches.set_aside(patch, _namespace_of(patch))
        self.work_slots.expect_late()
        return None

    def _send_aside(self, namespace: Hashable) -> None:
        """A namespace whose patches hang may have a turn for those that were set aside, or is well again."""
        if not self.work_slots.is_slow(namespace):
            self._patches.rejoin(namespace)
            self._changed.set()
            return
        while self._is_running and self._clock.monotonic() >= self._resume_at:
            patch = self._patches.first_aside(namespace)
            if patch is None or not self.work_slots.begin_now(patch):
                return
            self._patches.take_aside(patch)
            self._requests.spawn(patch.key, self._send(patch), self._on_bug)

    async def _send(self, patch: PodPatch) -> None:
        is_done = True
        try:
            is_done = patch.is_withdrawn or await self._is_done(patch)
        finally:
            self.work_slots.end(patch)
            if is_done:
                self._done(patch)
            else:
                self._wake()

    def _done(self, patch: PodPatch) -> None:
        self._patches.sent(patch)
        self._wake()

    def _wake(self) -> None:
        self._answered.set()
        self._changed.set()

    def _on_capacity(self, _patch: PodPatch) -> None:
        """What hangs has given its place back."""
        self._changed.set()

    async def _is_done(self, patch: PodPatch) -> bool:
        """Send the patch. Returns whether it is done; if not, it has been put back."""
        pod = self._newest(patch.key)
        if pod is None or pod.metadata.uid != patch.uid:
            return True
        try:
            answer = await self._sent_to_server(pod, patch.condition, patch.nominated_node_name)
        except UndecodableError:
            self._sent += 1  # the server has applied it; a pod that cannot be decoded is handled by the watch
        except ClientError as failure:
            return not self._put_back(patch, failure)
        else:
            self._sent += answer is not pod
            self._remember(answer)
            self._outage.reset()
        return True

    async def _sent_to_server(self, pod: Pod, condition: Condition | None, nominated_node_name: str | None) -> Pod:
        """The patcher's answer. Each request is counted; a patch that needs none is not."""
        began = self._clock.monotonic()
        try:
            answer = await self._patcher.patch_status(pod, condition, nominated_node_name)
        except ClientError:
            self._on_call("error", self._clock.monotonic() - began)
            raise
        except UndecodableError:
            self._on_call("success", self._clock.monotonic() - began)
            raise
        if answer is not pod:
            self._on_call("success", self._clock.monotonic() - began)
        return answer

    def _on_bug(self, name: str, failure: BaseException) -> None:
        self._dropped += 1
        count_caught(Boundary.POD_TASK)
        _log.error("status_patch_failed", pod=name, exc_info=failure)

    # --- failures -----------------------------------------------------------------------------------------------------

    def _put_back(self, patch: PodPatch, failure: ClientError) -> bool:
        """Put the patch back if trying again can help. Returns whether it was put back."""
        # The branches are the rows of the table in the module's docstring.
        now = self._clock.monotonic()
        if isinstance(failure, APIError) and failure.is_not_found:
            return False
        if _is_outage(failure):
            self._resume_at, self._has_paused = now + self._outage.next(), True
            self._patches.put_back(patch, now)
        elif isinstance(failure, APIError) and failure.is_too_many_requests:
            self._slow_down(patch, failure, now)
        elif _may_pass(failure) and patch.tries + 1 < MAX_TRIES:
            patch.tries += 1
            self._patches.put_back(patch, now + min(0.05 * 2**patch.tries, _LONGEST_PAUSE_SECONDS))
        else:
            self._drop(patch, failure, now)
            return False
        self._retried += 1
        return True

    def _slow_down(self, patch: PodPatch, refusal: APIError, now: float) -> None:
        """A 429. One of a webhook or a quota is meant for this namespace; the server's own, and several's, for all."""
        seconds = refusal.retry_after_seconds or 1.0  # `client.errors` has bounded it
        namespace = _namespace_of(patch)
        are_several = self._refused.meet(namespace, now)
        if refusal.is_overload or (are_several and not self.work_slots.have_others_finished()):
            self._patches.slow_down(now)
        self.work_slots.hold_back(namespace, seconds)
        self._patches.put_back(patch, now + seconds)

    def _drop(self, patch: PodPatch, failure: ClientError, now: float) -> None:
        self._dropped += 1
        if self._warnings.admits(now):
            _log.warning("pod_status_not_patched", pod=patch.key, err=str(failure), dropped=self._dropped)

    # --- the newest version -------------------------------------------------------------------------------------------

    def _newest(self, key: str) -> Pod | None:
        """The pod as the watch or an answer showed it, whichever is newer."""
        seen, answer = self._pod_of(key), self._answers.get(key)
        if answer is None:
            return seen
        if seen is not None and seen.metadata.uid == answer.metadata.uid and _version(seen) < _version(answer):
            return answer
        del self._answers[key]
        return seen

    def _remember(self, answer: Pod) -> None:
        self._answers[answer.key] = answer


def _is_outage(failure: ClientError) -> bool:
    """Whether the server cannot be reached or refuses our credentials: any other patch would fail, too."""
    return isinstance(failure, NotSentError | CredentialsError) or (
        isinstance(failure, APIError) and failure.is_unauthorized
    )


def _may_pass(failure: ClientError) -> bool:
    return not isinstance(failure, APIError) or failure.is_conflict or failure.is_server_error or failure.is_timeout


def _version(pod: Pod) -> int:
    """The resourceVersion as a number; 0 if the server does not use numbers: then the watch's version is used."""
    text = pod.metadata.resource_version
    return int(text) if text.isdecimal() else 0


def _namespace_of(patch: PodPatch) -> str:
    return patch.key.partition("/")[0]
