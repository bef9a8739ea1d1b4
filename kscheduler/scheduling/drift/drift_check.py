"""The periodic check of cache and queue against the stores, in small slices.

Every minute everything is checked once, for two milliseconds at a time with a pause between, so that 100,000 pods take
a few seconds while decisions go on. A difference is checked again five seconds later. Only if it is still the same is
it counted, logged with both sides and repaired: handlers are synchronous, so a real difference lasts. If an object is
still wrong after it was repaired, that is an error that only a developer can correct.

A binding that the watch does not confirm is no matter of the stores: the API server is asked, and a pod that it has not
bound is queued again. The watch shows a binding within milliseconds, so after `CONFIRM_SECONDS` each such pod is read
once: somebody who answers 201 for the API server and applies nothing is found early, and a watch that is late costs a
few reads. What is left after `UNCONFIRMED_SECONDS` is a difference: if the API server does not say, or says that the
pod is bound and the watch does not show that at the next check either, it counts as not repaired.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping
from functools import partial
from typing import Final
from urllib.parse import quote

import msgspec

from kscheduler.aio.clock import Clock, finishes_within
from kscheduler.aio.tasks import BackgroundService, Slicer
from kscheduler.api.codec import Decoder
from kscheduler.api.core import Pod
from kscheduler.api.kinds import NODES, PODS, Kind
from kscheduler.client.outage_cause import Cause
from kscheduler.client.rest import APIClient
from kscheduler.informers import InformerFactory
from kscheduler.informers.audit import AUDIT_SECONDS, StoreAudit, StoreAudits
from kscheduler.scheduling.drift.cache_comparer import Comparer, Drift, DriftRepair, Sides, Subject
from kscheduler.scheduling.drift.dump import NO_OTHER_WAITS, Dump, WaitsBesideQueue
from kscheduler.scheduling.handlers.event_handlers import NodeHandler, PodHandler
from kscheduler.scheduling.observers import NO_OBSERVERS, Observers
from kscheduler.state.cache import Cache
from kscheduler.state.queue.scheduling_queue import SchedulingQueue
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught
from kscheduler.telemetry.logs.storms import Throttle

_log = get_logger(__name__)

CHECK_SECONDS: Final = 60.0
SECOND_LOOK_SECONDS: Final = 5.0
SLICE_SECONDS: Final = 0.002
# The pause between two slices: during a check, nine tenths of the time are left for decisions.
REST_SECONDS: Final = 0.02
# The API server is asked once about a pod that the watch has not shown on its node so long after its Binding.
CONFIRM_SECONDS: Final = 10.0
# The pause between two looks for such pods.
LOOK_SECONDS: Final = 5.0
# In a look: of a watch that is late there may be thousands.
MAX_READS: Final = 16
NOT_APPLIED_LINES_SECONDS: Final = 60.0
_ADVICE: Final = (
    "something answers for the API server without asking it: look at proxies and load balancers in between; the pod "
    "has its Event, and no node: it is tried again"
)
# The most differences of one check that are logged; all are counted.
MAX_LINES: Final = 20


class DriftStatistics(msgspec.Struct, frozen=True):
    """Counts since the start."""

    checks: int
    drift: Mapping[tuple[str, str], int]
    """Differences by (kind, what)."""
    unmended: int
    """Differences that were still there after they were repaired."""


class DriftCheck:
    """Checks, checks again, and repairs."""

    def __init__(
        self, comparer: Comparer, mender: DriftRepair, clock: Clock, *, period_seconds: float = CHECK_SECONDS
    ) -> None:
        """With a period of 0, checks only run on request."""
        self._comparer = comparer
        self._mender = mender
        self._clock = clock
        self._period = period_seconds
        self._requested = asyncio.Event()
        self._checks = self._unmended = 0
        self._drift: Counter[tuple[str, str]] = Counter()
        self._bound_unseen: set[str] = set()
        """UIDs of pods that the API server has bound, as the last check has heard, and the watch has not shown."""
        self._queried_about: set[str] = set()
        """UIDs of pods that were read after `CONFIRM_SECONDS`, and that the watch has not shown since."""
        self._not_applied_lines = Throttle(NOT_APPLIED_LINES_SECONDS)

    def statistics(self) -> DriftStatistics:
        return DriftStatistics(self._checks, dict(self._drift), self._unmended)

    def ask(self) -> None:
        """Request a check: now, or once more after a running check."""
        self._requested.set()

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            if self._period > 0:
                await finishes_within(self._requested.wait(), self._period, self._clock)
            else:
                await self._requested.wait()
            self._requested.clear()
            await self.check()

    async def keep_confirming(self) -> None:
        """Look for bindings that were answered and not applied, until cancelled."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            await self.confirm()

    async def confirm(self) -> None:
        """Ask the API server about bindings that the watch has not shown, about each once; see `CONFIRM_SECONDS`."""
        uids = self._comparer.unconfirmed(CONFIRM_SECONDS)
        self._queried_about.intersection_update(uids)
        for uid in [uid for uid in uids if uid not in self._queried_about][:MAX_READS]:
            found = self._comparer.look_at_unconfirmed(uid, CONFIRM_SECONDS)
            if found is None:
                continue
            is_unbound = await self._mender.is_unbound(found[0])
            if is_unbound is None:
                return  # it would not answer for the others; the next look asks again
            self._queried_about.add(uid)
            current = self._comparer.look_at_unconfirmed(uid, CONFIRM_SECONDS)
            if is_unbound and current is not None:  # else the watch has brought it meanwhile
                self._not_applied(*current)

    def _not_applied(self, drift: Drift, node_name: str) -> None:
        self._drift[drift.kind, drift.what.value] += 1
        self._mender.requeue(drift)
        if self._not_applied_lines.admits(self._clock.monotonic()):
            others = self._not_applied_lines.take_left_out()
            _log.error(
                "binding_not_applied",
                pod=drift.name,
                uid=drift.uid,
                node=node_name,
                cause=str(Cause.PROXY),
                advice=_ADVICE,
                **({"times_since": others} if others else {}),
            )

    async def check(self) -> list[Drift]:
        """Run one check. Returns the differences that were found twice and have been repaired."""
        suspects = await self._suspects()
        drifts: list[Drift] = []
        if suspects:
            await self._clock.sleep(SECOND_LOOK_SECONDS)
            drifts = await self._mend(suspects)
        self._checks += 1
        if len(drifts) > MAX_LINES:
            _log.error("cache_drift_not_all_told", differences=len(drifts), told=MAX_LINES)
        return drifts

    async def _suspects(self) -> dict[Subject, Drift]:
        suspects: dict[Subject, Drift] = {}
        slicer = Slicer(SLICE_SECONDS)
        for found in self._comparer.look_at_all():
            if found is not None:
                suspects[found[0]] = found[1]
            if slicer.used_up():
                await self._clock.sleep(REST_SECONDS)
                slicer.begin()
        return suspects

    async def _mend(self, suspects: Mapping[Subject, Drift]) -> list[Drift]:
        """Check the suspects again, and repair in the same step those that are still wrong in the same way."""
        drifts: list[Drift] = []
        unconfirmed: list[tuple[Subject, Drift]] = []
        slicer = Slicer(SLICE_SECONDS)
        for subject, before in suspects.items():
            drift = self._comparer.look(subject)
            if drift is not None and (drift.what, drift.uid) == (before.what, before.uid):
                drifts.append(drift)
                self._mend_one(subject, drift, logs=len(drifts) <= MAX_LINES)
                if not drift.is_mendable:
                    unconfirmed.append((subject, drift))
            if slicer.used_up():
                await self._clock.sleep(REST_SECONDS)
                slicer.begin()
        await self._settle(unconfirmed)
        return drifts

    async def _settle(self, unconfirmed: list[tuple[Subject, Drift]]) -> None:
        """Ask the API server about bindings that the watch has not confirmed."""
        still_unseen: set[str] = set()
        is_answering = True
        for number, (subject, drift) in enumerate(unconfirmed):
            is_unbound = await self._mender.is_unbound(drift) if is_answering else None
            is_answering = is_unbound is not None  # it would not answer for the others, or as slowly
            current = self._comparer.look(subject)
            if current is None or (current.what, current.uid) != (drift.what, drift.uid):
                continue  # the watch has brought it meanwhile, or a successor
            logs = number < MAX_LINES
            if is_unbound:
                self._mender.requeue(current)
                if logs:
                    _log_drift("cache_drift_requeued", current)
                continue
            if is_unbound is False:
                still_unseen.add(drift.uid)
                if drift.uid not in self._bound_unseen:
                    continue  # the watch is late; the store is compared with the API server meanwhile
            self._unmended += 1
            if logs:
                _log_drift("cache_drift_stays", current)
        self._bound_unseen = still_unseen

    def _mend_one(self, subject: Subject, drift: Drift, *, logs: bool) -> None:
        self._drift[drift.kind, drift.what.value] += 1
        if logs:
            _log_drift("cache_drift", drift)
        try:
            self._mender.mend(drift)
        except BaseException:  # noqa: BLE001  an event handler: one object's failure, and the check must go on
            count_caught(Boundary.EVENT_HANDLER)
            _log.exception("cache_drift_not_mended", kind=drift.kind, object=drift.name, what=drift.what.value)
        left = self._comparer.look(subject)
        if left is not None and left.what is drift.what and drift.is_mendable:
            self._unmended += 1
            if logs:
                _log_drift("cache_drift_stays", left)


def _log_drift(event: str, drift: Drift) -> None:
    _log.error(
        event,
        kind=drift.kind,
        object=drift.name,
        uid=drift.uid,
        what=drift.what.value,
        stored=drift.stored,
        cached=drift.cached,
    )


# Assembling the checks and the dump: their background services, their statistics, and what SIGUSR2 requests.

RELIST_REASON: Final = "drift"
READ_SECONDS: Final = 5.0
_pods: Final[Decoder[Pod]] = Decoder(Pod)


class Periods(msgspec.Struct, frozen=True):
    """The periods of the checks in seconds; 0: only on request."""

    cache_check: float = CHECK_SECONDS
    """Cache and queue against the stores: CPU only, about one percent of a core at 100,000 pods."""
    store_audit: float = AUDIT_SECONDS
    """Stores against the API server: a LIST of metadata, of pods and of nodes."""


class DriftDetection:
    """Both checks and the dump."""

    def __init__(
        self,
        informers: InformerFactory,
        cache: Cache,
        queue: SchedulingQueue,
        profiles: Collection[str],
        handlers: tuple[PodHandler, NodeHandler],
        client: APIClient,
        clock: Clock,
        periods: Periods,
        observers: Observers = NO_OBSERVERS,
        waits: WaitsBesideQueue = NO_OTHER_WAITS,
    ) -> None:
        """`handlers`: the informers' handlers, through which objects are replayed. `waits`: for the dump."""
        pods, nodes = informers.informer(PODS), informers.informer(NODES)

        def audit_of(kind: Kind) -> StoreAudit:
            return StoreAudit(client, informers.informer(kind), lambda: informers.relist(kind, RELIST_REASON), clock)

        self.audits = StoreAudits((audit_of(NODES), audit_of(PODS)), clock, period_seconds=periods.store_audit)
        sides = Sides(pods.store, nodes.store, cache, queue, profiles)
        mender = DriftRepair(sides, *handlers, clock, self.audits.ask, observers, partial(_read_pod, client))
        self.check = DriftCheck(Comparer(sides, clock), mender, clock, period_seconds=periods.cache_check)
        self.dump = Dump(cache, queue, pods.store, self.check.ask, waits)

    def services(self) -> tuple[BackgroundService, ...]:
        """The background services, which run in parallel with the workers."""
        return (
            BackgroundService("cache-check", self.check.run),
            BackgroundService("binding-confirmation", self.check.keep_confirming),
            BackgroundService("store-audit", self.audits.run),
            BackgroundService("dump", self.dump.run),
        )


async def _read_pod(client: APIClient, namespace: str, name: str) -> Pod:
    path = PODS.object_path(quote(name, safe=""), quote(namespace, safe=""))
    return _pods.decode(await client.get(path, retries=0, timeout_seconds=READ_SECONDS))
