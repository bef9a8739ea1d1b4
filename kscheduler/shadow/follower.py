"""Follows a cluster: plays what the watches bring on the view, and judges each decision of the other just before.

Follower.begin     the first lists are there; from now on changes go through the change buffer
Follower.run       plays changes when they are ripe, in the order of their writes
_play              a binding or a nomination is judged on the view before it; then the change is applied, as it is
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from kscheduler.aio.clock import Clock
from kscheduler.aio.tasks import Slicer, WakeupEvent
from kscheduler.api.core import Pod
from kscheduler.api.kinds import PERSISTENT_VOLUME_CLAIMS, PODS, Kind
from kscheduler.api.meta import KubeObject
from kscheduler.api.storage import PersistentVolumeClaim
from kscheduler.assembly import Assembly
from kscheduler.config.loader import LoadedConfig
from kscheduler.framework.cluster.client import ClusterClient
from kscheduler.framework.cluster.lister import ListerOf
from kscheduler.framework.registry import Registry
from kscheduler.in_memory.cluster import InMemoryCluster
from kscheduler.informers.informer import Informer
from kscheduler.shadow.change_buffer import BufferedChange, ChangeBuffer
from kscheduler.shadow.comparison import Comparison, DifferenceKind, FollowedScheduler
from kscheduler.shadow.left_pending import PendingReview
from kscheduler.shadow.order_search import SearchEconomy
from kscheduler.shadow.placements import Placements
from kscheduler.shadow.played_moves import PlayedMoves, was_rejected
from kscheduler.shadow.shadow_evaluator import Compare, ShadowEvaluator
from kscheduler.shadow.sums import Sums
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught

_log = get_logger(__name__)

# How often pending pods are looked at.
LOOK_SECONDS: Final = 10.0
# Where so many changes wait, differences are counted without a search for their order, until fewer do.
SEARCHES_STOP_AT: Final = 20_000
PREEMPTED: Final = "PreemptionByScheduler"


@dataclass(frozen=True, slots=True)
class ShadowSettings:
    """What is followed, and how patiently."""

    names: frozenset[str]
    """The scheduler names whose pods are judged; each has a profile."""
    followed: FollowedScheduler
    settle_seconds: float = 2.0
    """How long changes wait, so that what was decided before and written after is known when they are judged."""
    grace_seconds: float = 30.0
    """How long the other may leave a pod pending that we would place, before that counts."""


def no_report(_comparison: Comparison) -> None:
    """Nobody listens."""


class Follower:
    """The view, and everything that is said of it. Holds no port that writes."""

    def __init__(
        self,
        config: LoadedConfig,
        registry: Registry,
        settings: ShadowSettings,
        compare: Compare,
        clock: Clock,
        *,
        lister: ListerOf | None = None,
        client: ClusterClient | None = None,
    ) -> None:
        """`lister` and `client`: for plugins of users; the client must not write. Raises `ConfigError`."""
        self.settings = settings
        self._clock = clock
        self._wakeup = WakeupEvent(clock)
        self._cluster = InMemoryCluster()
        given: dict[str, Any] = {} if lister is None else {"lister": lister}
        ports = self._cluster.reading_ports(client=client, **given)
        self.assembly = Assembly(config, registry, ports, clock, on_quarantine=self._quarantine_soon)
        self.assembly.listen_to(self._cluster.listeners)
        self.change_buffer = ChangeBuffer(settings.settle_seconds)
        self.sums = Sums(settings.followed)
        self.placements = Placements()
        self.pending = PendingReview(settings.grace_seconds)
        self.on_comparison: Callable[[Comparison], None] = no_report
        """Called with each comparison."""
        self.begun = asyncio.Event()
        """Set once all first lists are there."""
        self._evaluator = ShadowEvaluator(self.assembly, settings.followed, compare, self._claim)
        self._played = PlayedMoves(self.assembly, settings.settle_seconds, self._is_followed)
        self._seen: int | None = None
        """Up to which version the other had seen changes at the last decision that told it."""
        self._economy = SearchEconomy()
        self._is_quarantine_due = False
        self._looked_at = clock.monotonic()

    # --- what the watches bring ---------------------------------------------------------------------------------------

    def listen_to(self, informers: Mapping[Kind, Informer[Any]] | Any, kinds: Collection[Kind]) -> None:
        """Hear of each change of these kinds."""
        for kind in kinds:
            informers[kind].add_handler(_Listening(kind, informers[kind], self))

    def take(self, kind: Kind, old: KubeObject | None, new: KubeObject | None, version: str) -> None:
        """A change has arrived."""
        now = self._clock.monotonic()
        if not self.begun.is_set():
            self._apply(BufferedChange(0, 0, kind, old, new, now))
            return
        self.change_buffer.add(kind, old, new, version, now)
        self._wakeup.notify()

    def begin(self) -> None:
        """All first lists are there."""
        self.begun.set()

    async def run(self) -> None:
        """Play until cancelled."""
        while True:
            seconds = await self.play_ripe()
            if seconds is None:
                await self._wakeup.wait(LOOK_SECONDS)
            else:
                await self._clock.sleep(min(seconds, LOOK_SECONDS))

    async def play_ripe(self) -> float | None:
        """Play what is ripe; returns in how many seconds the next will be, `None` if there is none."""
        slicer = Slicer()
        while True:
            now = self._clock.monotonic()
            if now >= self._looked_at + LOOK_SECONDS:
                self.look_at_pending()
            seconds = self.change_buffer.next_in(now)
            if seconds is None or seconds > 0:
                return seconds
            self._play(self.change_buffer.pop())
            if slicer.used_up():
                await slicer.turn()

    def behind_seconds(self) -> float:
        """How far the shadow is behind what it could have judged already."""
        return self.change_buffer.behind_seconds(self._clock.monotonic())

    # --- playing ------------------------------------------------------------------------------------------------------

    def _play(self, change: BufferedChange) -> None:
        try:
            if change.kind is PODS:
                self._look_at_pod(change, cast("Pod | None", change.old), cast("Pod | None", change.new))
            move = self._played.move_of(change)
            self._apply(change)
            self._played.keep(move)
        except Exception:  # noqa: BLE001  a boundary (`logs.caught`): one object costs one comparison
            count_caught(Boundary.EVENT_HANDLER)
            found = change.new or change.old
            _log.exception("shadow_change_failed", resource=change.kind.resource, object=found.key if found else "")
        if self._is_quarantine_due:
            self._quarantine()

    def _apply(self, change: BufferedChange) -> None:
        """Apply it as the service would have when it came."""
        if change.new is not None:
            self._cluster.put(change.kind, change.new, initial=not self.begun.is_set())
        elif change.old is not None:
            there = self._cluster.store(change.kind).get(change.old.key)
            if there is not None and there.metadata.uid == change.old.metadata.uid:  # else another one took its place
                self._cluster.remove(change.kind, change.old.key)

    def _claim(self, key: str) -> PersistentVolumeClaim | None:
        found: PersistentVolumeClaim | None = self._cluster.store(PERSISTENT_VOLUME_CLAIMS).get(key)
        return found

    def _is_followed(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self.settings.names

    # --- judging ------------------------------------------------------------------------------------------------------

    def _look_at_pod(self, change: BufferedChange, old: Pod | None, new: Pod | None) -> None:
        if new is None or new.is_terminal:
            self._forget(old or new)
            return
        if old is not None and _is_preempted(new) and not _is_preempted(old):
            self.sums.their_evictions += 1
        if not self._is_followed(new):
            return
        if old is None:
            self._arrived(new, change.version)
        elif not old.spec.node_name and new.spec.node_name:
            self._bound(change, old, new)
        elif not new.spec.node_name:
            self._still_waits(old, new)

    def _arrived(self, pod: Pod, version: int) -> None:
        if pod.spec.node_name:
            self.sums.not_evaluated += 1
            return
        self._played.arrived(pod, version)

    def _forget(self, pod: Pod | None) -> None:
        if pod is not None:
            self._played.forget(pod.metadata.uid)
            self.placements.remove(pod.metadata.uid)

    def _still_waits(self, old: Pod, new: Pod) -> None:
        if was_rejected(new):
            self._played.lost_rank(new.metadata.uid)
        node = new.status.nominated_node_name
        if node and node != old.status.nominated_node_name:
            self._nominated(old, node)

    def _bound(self, change: BufferedChange, old: Pod, new: Pod) -> None:
        clues = None
        if len(self.change_buffer) <= SEARCHES_STOP_AT:
            clues = self._played.clues_of(change, old, self.change_buffer, self._seen, self._economy.most_tries())
        comparison = self._evaluator.judge(old, new.spec.node_name, clues)
        if clues is not None and comparison.kind not in (DifferenceKind.SAME, DifferenceKind.UNKNOWN_RULE):
            self._economy.ended(found=comparison.order is not None)
        if comparison.order is not None:
            self._seen = change.version if comparison.order.seen is None else comparison.order.seen - 1
        self.sums.add(comparison)
        if comparison.kind is not DifferenceKind.UNKNOWN_RULE:
            is_theirs = comparison.kind is DifferenceKind.ORDER or (
                # Any of the best would do for the other: ours is one of them, which node it is says nothing.
                comparison.kind is DifferenceKind.TIE and self.sums.followed.ties_by_chance
            )
            ours = new.spec.node_name if is_theirs else comparison.ours
            self.placements.add(new.metadata.uid, new.spec.node_name, ours)
        self.on_comparison(comparison)

    def _nominated(self, old: Pod, node: str) -> None:
        """The other makes room for a pod: would we, and where?"""
        record = self._evaluator.would_go(old)
        preemption = record.preemption if record is not None else None
        if record is not None and record.node_name:
            self.sums.nominations["placed at once"] += 1
        elif preemption is None:
            self.sums.nominations["no node"] += 1
        else:
            self.sums.nominations["same node" if preemption.node_name == node else "another node"] += 1
            self.sums.our_evictions += len(preemption.victims)

    def look_at_pending(self) -> None:
        """See whether the other leaves pods pending that we would place."""
        self._looked_at = self._clock.monotonic()

        def would_go(pod: Pod) -> str:
            record = self._evaluator.would_go(pod)
            return record.node_name if record is not None else ""

        waiting = (pod for pod in self._cluster.pods() if self._is_followed(pod))
        self.pending.look(waiting, would_go, self._looked_at)

    # --- plugins ------------------------------------------------------------------------------------------------------

    def _quarantine_soon(self) -> None:
        self._is_quarantine_due = True

    def _quarantine(self) -> None:
        self._is_quarantine_due = False
        compiled = self.assembly.draft_quarantines()
        if compiled is not None:
            self.assembly.apply(compiled, self._cluster.listed)


@dataclass(frozen=True, slots=True)
class _Listening:
    """Gives what one informer says to the follower. Implements `informers.Handler`."""

    kind: Kind
    informer: Informer[Any]
    follower: Follower

    def on_add(self, obj: KubeObject, initial: bool) -> None:
        del initial
        self.follower.take(self.kind, None, obj, obj.metadata.resource_version)

    def on_update(self, old: KubeObject, new: KubeObject) -> None:
        self.follower.take(self.kind, old, new, new.metadata.resource_version)

    def on_delete(self, obj: KubeObject) -> None:
        self.follower.take(self.kind, obj, None, self.informer.deleted_at)


def _is_preempted(pod: Pod) -> bool:
    return any(
        condition.type == "DisruptionTarget" and condition.status == "True" and condition.reason == PREEMPTED
        for condition in pod.status.conditions
    )
