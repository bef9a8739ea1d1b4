"""The scheduling queue: which pod is tried next, and what the others wait for.

    add ------> active -----pop_next-----> in flight ----done----> (bound)
                 ^  ^                       |     |
                 |  |               failed  |     |  rejected, and no event since helps
                 |  |                       v     v
                 |  +--backoff over-- backoff   unschedulable
                 |                        ^           |
                 +---- not backing off ---+-----------+  an event that a rejecting plugin has registered

    A pod that PreEnqueue rejects is *gated*: parked beside the unschedulable pods until its plugin lets it in.

The words and rules are kube-scheduler's. Events that arrive while a pod is in flight are kept and evaluated when it
returns, so that no wake-up is lost. An idle scheduler takes pods out of backoff early, but never pods that failed with
an error. Every 30 s, pods that have been parked for 5 minutes are tried again: a safety net, which is never needed if
all hints are correct.

Pods that all plugins treat alike wait and move as one element (see `equivalence_groups`). If `QueuePolicy.class_of`
says that no pod is like another, every element is a pod, and the queue behaves as kube-scheduler's.
"""

import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.meta import KubeObject
from kscheduler.framework import events
from kscheduler.framework.cluster.pod_groups import GroupKey
from kscheduler.framework.events import ClusterEvent, Resource
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.state.queue.admission import ClassOf, QueueAdmission, QueuePolicy, no_class
from kscheduler.state.queue.backoff import is_backing_off
from kscheduler.state.queue.equivalence_groups import Element, EquivalenceGroup
from kscheduler.state.queue.gated_pods import GatedPods
from kscheduler.state.queue.group_queue import INCOMPLETE, PENDING, GroupQueue, IncompleteGroup
from kscheduler.state.queue.hints import QueueingStrategy
from kscheduler.state.queue.in_flight import InFlight, SeenEvent
from kscheduler.state.queue.pod_updates import is_equal_for_plugins, is_own_write, pod_update_events
from kscheduler.state.queue.queue_snapshot import (
    QueueSnapshot,
    WaitingElement,
    elements_in,
    facts_of,
    put_back,
    queued_from,
)
from kscheduler.state.queue.queued_group import GroupOutcome, QueuedPodGroup
from kscheduler.state.queue.sub_queues import ACTIVE, BACKOFF, GATED, UNSCHEDULABLE, SubQueues

__all__ = [
    "ACTIVE",
    "BACKOFF",
    "GATED",
    "INCOMPLETE",
    "PENDING",
    "UNSCHEDULABLE",
    "ClassOf",
    "QueueApplyResult",
    "QueuePolicy",
    "QueueStatistics",
    "SchedulingQueue",
    "no_class",
]


MAX_IN_UNSCHEDULABLE_SECONDS = 300.0
FLUSH_UNSCHEDULABLE_SECONDS = 30.0


class QueueStatistics(msgspec.Struct, frozen=True):
    """The number of pods per place."""

    active: int
    backoff: int
    unschedulable: int
    gated: int
    in_flight: int
    in_flight_events: Mapping[str, int]
    """By event label."""
    incomplete: int | None = None
    """Members of groups that nobody has seen; `None`: pod groups are off."""
    pending: int | None = None
    """Members that came while their group was being tried; likewise."""
    groups: Mapping[str, tuple[int, int, int]] = {}
    """By place how many groups wait there as a whole, how many groups of groups, and how many members they have; empty
    where groups are off."""


class QueueApplyResult(msgspec.Struct, frozen=True):
    """What another policy did to the waiting pods."""

    kept: int
    let_go: tuple[Pod, ...]
    """Those that no profile wants any more."""


def _sub_queues_of(policy: QueuePolicy) -> SubQueues:
    return SubQueues(policy.sort_key, GatedPods(policy.standing_gates, policy.hints_alike, policy.object_gates))


def _groups_of(policy: QueuePolicy, sub_queues: SubQueues, admission: QueueAdmission) -> GroupQueue | None:
    return None if policy.groups is None else GroupQueue(policy.groups, policy, sub_queues, admission)


class SchedulingQueue:
    """Pods that need a node. Keys are `namespace/name`; `now` is always in wall-clock seconds."""

    def __init__(self, policy: QueuePolicy) -> None:
        self._policy = policy
        self._sub_queues = _sub_queues_of(policy)
        self._admission = QueueAdmission(policy, self._sub_queues)
        self._groups = _groups_of(policy, self._sub_queues, self._admission)
        self._in_flight = InFlight()

    def statistics(self) -> QueueStatistics:
        """Sizes, for metrics."""
        sizes = self._sub_queues.sizes()
        for place, count in self._groups.sizes().items() if self._groups is not None else ():
            sizes[place] = sizes.get(place, 0) + count
        return QueueStatistics(
            active=sizes[ACTIVE],
            backoff=sizes[BACKOFF],
            unschedulable=sizes[UNSCHEDULABLE],
            gated=sizes[GATED],
            in_flight=len(self._in_flight),
            in_flight_events=dict(self._in_flight.events),
            incomplete=sizes.get(INCOMPLETE),
            pending=sizes.get(PENDING),
            groups={} if self._groups is None else self._groups.elements(),
        )

    def rejections(self) -> dict[tuple[str, str], int]:
        """The number of waiting pods rejected by each (plugin, profile): `scheduler_unschedulable_pods`."""
        return dict(self._sub_queues.rejections)

    def gated_by_plugin(self) -> dict[str, int]:
        """By plugin how many single pods it keeps out; members of groups are kept out with their group."""
        return self._sub_queues.gated.by_plugin()

    def parked(self) -> Iterator[QueuedPodInfo]:
        """Pods that wait for an event, gated ones included."""
        return self._sub_queues.parked_pods() if self._groups is None else self._with_members_of_groups()

    def _with_members_of_groups(self) -> Iterator[QueuedPodInfo]:
        yield from self._sub_queues.parked_pods()
        if self._groups is not None:
            yield from self._groups.parked()

    def waiting_keys(self) -> list[str]:
        """The keys of all pods that wait here, members of groups included: a copy."""
        return [*self._sub_queues.waiting_keys(), *(self._groups.keys() if self._groups is not None else ())]

    def awaited_events(self, profile: str, plugins: frozenset[str]) -> tuple[str, ...]:
        """Labels, sorted, of the events that may change these plugins' verdicts: what a parked pod waits for."""
        return self._policy.hints.registered(profile, plugins)

    def find(self, key: str) -> tuple[str, QueuedPodInfo] | None:
        """The place of a pod and its record; `None` if it does not wait here."""
        if self._groups is not None and self._groups.holds(key):
            return self._groups.find(key)
        return self._sub_queues.find(key)

    def group_of(self, pod: Pod) -> GroupKey | None:
        """The group that a pod is in; `None`: it is by itself, or groups are off."""
        return None if self._groups is None else self._groups.key_of(pod)

    def waiting_group(self, key: str) -> QueuedPodGroup | None:
        """The group that the pod of this key waits with as one; `None`: it waits alone, or its group is not whole."""
        return None if self._groups is None else self._groups.waiting_with(key)

    def why_incomplete(self, pod: Pod) -> str:
        """What a pod's group lacks to be tried; empty: nothing, or the pod is in none."""
        group = self.group_of(pod)
        return "" if self._groups is None or group is None else self._groups.why_incomplete(group)

    def why_gated(self, queued: QueuedPodInfo) -> str:
        """What keeps out a pod that is gated here; empty: nobody has said why."""
        of_group = self._groups.why_gated(queued) if self._groups is not None else ""
        return of_group or ", ".join(queued.gate_reasons)

    def incomplete_groups(self) -> Iterator[IncompleteGroup]:
        """The groups with members that wait because their tree is not whole."""
        return iter(()) if self._groups is None else self._groups.incomplete()

    def groups_version(self) -> int:
        """As long as it is the same, no group and no member has come, changed or gone."""
        return 0 if self._groups is None else self._groups.version

    # --- recordings ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> QueueSnapshot:
        """All that waits and is in flight. Linear; about a microsecond for each waiting pod."""
        elements = tuple(elements_in(self._sub_queues))
        if self._groups is not None:
            elements += tuple(
                WaitingElement(GATED, None, ((queued.pod, facts_of(queued)),)) for queued in self._groups.parked()
            )
        return QueueSnapshot(
            elements,
            *self._in_flight.snapshot(),
            has_failed_gates=self._admission.has_failed_gates,
            has_groups=self._groups is not None,
            costly_turns=self._sub_queues.costly_turns.snapshot(),
            groups=None if self._groups is None else self._groups.snapshot(),
            is_group_tried=self._groups is not None and self._groups.is_any_tried,
        )

    def restore(self, snapshot: QueueSnapshot, now: float) -> None:
        """Take over a snapshot; the queue must be empty. Members of a group that it does not hold come one by one."""
        alone = [each for each in snapshot.elements if not self._is_of_group(each)]
        put_back(self._sub_queues, alone, self._policy.class_of)
        of_groups = [queued_from(*each.members[0]) for each in snapshot.elements if self._is_of_group(each)]
        placed = set[str]()
        if self._groups is not None and snapshot.groups is not None:
            placed.update(self._groups.restore(snapshot.groups, {queued.pod.uid: queued for queued in of_groups}))
        for queued in of_groups:
            if queued.pod.uid not in placed:
                self._arrive(queued, events.UNSCHEDULABLE_POD_ADD.label, now, is_new=False)
        self._in_flight.restore(snapshot.in_flight, snapshot.resting, snapshot.keys)
        self._admission.has_failed_gates = snapshot.has_failed_gates
        if snapshot.costly_turns is not None:
            self._sub_queues.costly_turns.restore(*snapshot.costly_turns)

    def _is_of_group(self, element: WaitingElement) -> bool:
        return self._groups is not None and self._groups.key_of(element.members[0][0].pod) is not None

    # --- watch events -------------------------------------------------------------------------------------------------

    def add(self, pod: PodInfo, now: float) -> None:
        """Add a new pod without a node."""
        queued = QueuedPodInfo(pod, now)
        self.delete(queued.key)
        self._arrive(queued, events.UNSCHEDULABLE_POD_ADD.label, now)

    def _arrive(self, queued: QueuedPodInfo, label: str, now: float, *, is_new: bool = True) -> None:
        """A pod that waits nowhere yet: alone, or with its group."""
        if is_new and queued.pod.pod.status.conditions:
            queued.recall()
        if self._groups is not None and self._groups.key_of(queued.pod.pod) is not None:
            self._groups.add(queued, label, now)
        else:
            self._admission.admit(ACTIVE, queued, label, now)

    def update(self, old: Pod, pod: PodInfo, now: float) -> None:
        """Update a pod that needs a node; an equal resource version (after a relist) is no change."""
        version = pod.pod.metadata.resource_version
        has_changed = not version or version != old.metadata.resource_version
        changes = pod_update_events(old, pod.pod) if has_changed and not is_own_write(old, pod.pod) else []
        if pod.uid in self._in_flight:
            for event in changes:
                self._in_flight.record(SeenEvent(event, old, pod.pod, only=pod.uid))
            return
        if self._groups is not None and self._groups.holds(pod.key):
            if self._groups.key_of(old) == self._groups.key_of(pod.pod):
                self._groups.update(old, pod, changes, now)
            else:
                self.add(pod, now)
            return
        found = self.find(pod.key)
        if found is not None:
            self._renew(*found, pod)
            self._react(*found, changes, old, now)
        elif has_changed:
            self._arrive(QueuedPodInfo(pod, now), events.UNSCHEDULABLE_POD_UPDATE.label, now)

    def delete(self, key: str) -> None:
        """Remove a pod that is gone or has been given a node by another scheduler."""
        queued = self._sub_queues.remove(key)
        if queued is None and self._groups is not None and self._groups.holds(key):
            queued = self._groups.remove(key)
        if queued is not None:
            self._sub_queues.count_rejections(queued, -1)

    def move_all(
        self,
        event: ClusterEvent,
        old: KubeObject | None,
        new: KubeObject | None,
        now: float,
        spared: str = "",
        pre_check: Callable[[PodInfo], bool] | None = None,
    ) -> None:
        """Move the pods that a cluster event may help, except the pod with UID `spared`.

        `pre_check` may exclude more parked pods; it may read only what all pods of a class have in common.
        """
        groups_await = self._groups is not None and self._groups.awaits_events()
        parked, gates = self._sub_queues.waiting
        if not (parked or gates or self._in_flight.marker or groups_await):
            return
        if not self._policy.hints.interests_anyone(event):
            return
        # Elements of which at least one rejecting plugin registered the event.
        waiting = self._sub_queues.parked.concerned(self._policy.hints, event, old, new) if parked else []
        if gates:
            waiting += self._gated_that_may_enter(event, old, new, spared, pre_check)
        strategy_of = self._policy.hints.strategies(event, old, new) if waiting else None
        for element in waiting:
            if spared and not isinstance(element, EquivalenceGroup) and element.pod.uid == spared:
                continue
            if strategy_of is not None and (pre_check is None or pre_check(element.pod)):
                self._move(element, strategy_of(element), event, now)
        if self._groups is not None and groups_await:
            self._groups.hear(event, old, new, now)
        if self._in_flight.marker:
            self._in_flight.record(SeenEvent(event, old, new))

    # --- pod groups ---------------------------------------------------------------------------------------------------

    def group_appeared(self, group: GroupKey, now: float) -> None:
        """The watch shows a group: its members need not wait for it any longer."""
        if self._groups is not None:
            self._groups.group_appeared(group, now)

    def group_changed(self, group: GroupKey, now: float) -> None:
        """A group asks for something else."""
        if self._groups is not None:
            self._groups.group_changed(group, now)

    def group_gone(self, root: GroupKey, now: float) -> None:
        """A group was deleted. `root`: of its tree as it was; of a group without a parent, itself."""
        if self._groups is not None:
            self._groups.group_gone(root, now)

    def topology_changed(self) -> None:
        """The domains that groups may go to are others: rejected ones are tried again."""
        if self._groups is not None:
            self._groups.topology_changed()

    def begin_scheduling(self) -> None:
        """The cluster's state is known, and nobody was tried yet: gangs that are there in part come first."""
        if self._groups is not None:
            self._groups.finish_first()

    def group_attempted(self, tried: QueuedPodGroup, outcome: GroupOutcome, now: float) -> None:
        """End an attempt to place a group. Members that have no node must have been requeued, or be done, before."""
        if self._groups is not None:
            self._groups.attempted(tried, outcome, now)

    # --- the other ways to be moved -----------------------------------------------------------------------------------

    def activate(self, keys: Collection[str], now: float) -> None:
        """Move these pods to the active queue, whatever they wait for; a pod in flight returns as soon as it may."""
        for key in keys:
            if self._groups is not None and self._groups.is_in_attempt(key):
                continue
            found = self.find(key)
            uid = self._in_flight.uid_of(key)
            if found is None and uid:
                self._in_flight.record(SeenEvent(events.FORCE_ACTIVATE, None, None, only=uid))
            elif self._groups is not None and self._groups.holds(key):
                self._groups.activate(key, now)
            elif found is not None and found[0] != ACTIVE:
                self._activate(*found, now)

    def end_hold(self, namespace: str, now: float) -> None:
        """A plugin is called again for the pods of a namespace: those that wait for nothing else are tried at once.

        Linear in the number of waiting pods: a hold ends early a few times in ten minutes.
        """
        prefix = f"{namespace}/"
        for key in [key for key in self._sub_queues.waiting_keys() if key.startswith(prefix)]:
            found = self.find(key)
            if found is not None and found[0] == BACKOFF and found[1].held_until:
                self._activate(*found, now)

    def retry(self, keys: Collection[str], now: float) -> None:
        """Let PreEnqueue judge the groups of these pods again; one that is let in waits until its backoff is over."""
        if self._groups is not None:
            self._groups.retry(keys, now)

    def apply(self, policy: QueuePolicy, serves: Callable[[Pod], bool], now: float) -> QueueApplyResult:
        """Follow another policy from now on, in one step: other profiles, another order, another backoff.

        Every pod is placed again. Those that `serves` does not want leave the queue. The others are asked at the new
        gates, and nobody stays parked, but for a quarantined plugin: what rejected them may be gone. A pod that is
        being tried comes back as after any event that may help it. Linear in the number of waiting pods.
        """
        taken = list(self._groups.give_up()) if self._groups is not None else []
        taken += self._sub_queues.give_up()
        label = events.CONFIGURATION_RELOAD.label
        self._policy, self._sub_queues = policy, _sub_queues_of(policy)
        self._admission = QueueAdmission(policy, self._sub_queues)
        self._groups = _groups_of(policy, self._sub_queues, self._admission)
        let_go: list[Pod] = []
        kept_parked = self._kept_parked(taken)
        for place, queued in taken:
            if not serves(queued.pod.pod):
                let_go.append(queued.pod.pod)
                continue
            self._forget_judgement(queued)
            self._sub_queues.count_rejections(queued, 1)
            if self._groups is not None and self._groups.key_of(queued.pod.pod) is not None:
                self._groups.add(queued, label, now)
                continue
            strategy = QueueingStrategy.IMMEDIATELY if place == ACTIVE else QueueingStrategy.AFTER_BACKOFF
            if queued.key in kept_parked:
                strategy = QueueingStrategy.SKIP
            self._admission.place(queued, strategy, label, now)
        if len(self._in_flight):
            self._in_flight.record(SeenEvent(events.CONFIGURATION_RELOAD, None, None))
        return QueueApplyResult(kept=len(taken) - len(let_go), let_go=tuple(let_go))

    def _kept_parked(self, taken: Sequence[tuple[str, QueuedPodInfo]]) -> Collection[str]:
        """The keys of the pods that a quarantined plugin keeps parked. Without them, each trial would move them all.

        While a plugin is tried again, one pod of each namespace is moved: the one with the fewest attempts, so that
        they take turns.
        """
        policy = self._policy
        if not policy.parked_by:
            return ()
        parked: dict[str, QueuedPodInfo] = {}
        tried: dict[tuple[str, str], QueuedPodInfo] = {}
        for place, queued in taken:
            name = queued.pod.pod.spec.scheduler_name
            if place == UNSCHEDULABLE and policy.parked_by.get(name) in queued.unschedulable_plugins:
                parked[queued.key] = queued
                before = tried.get((name, queued.pod.namespace))
                if name in policy.on_trial and (before is None or queued.attempts < before.attempts):
                    tried[name, queued.pod.namespace] = queued
        for queued in tried.values():
            del parked[queued.key]
        return parked

    def _forget_judgement(self, queued: QueuedPodInfo) -> None:
        """Drop what followed from the policy before: the pod's class, its gate, the end of its backoff.

        Failures in a row are forgiven: what raised or was quarantined may be repaired.
        """
        queued.pod.signature = None
        queued.refusals = queued.bugs = queued.overruns = 0
        queued.held_until = 0.0
        queued.unschedulable_plugins -= {queued.gating_plugin}
        queued.gating_plugin, queued.gate_failed, queued.was_flushed = "", False, False
        queued.backoff_expiration = self._policy.backoff.expiration(queued)

    # --- for workers --------------------------------------------------------------------------------------------------

    def pop_next(self, now: float) -> QueuedPodInfo | QueuedPodGroup | None:
        """The next pod or group to try, or `None`. A pod, also of a group, is in flight until `done` or `requeue`.

        After the attempt with a group, `group_attempted` must be called.
        """
        while (popped := self._sub_queues.pop()) is not None:
            place, element = popped
            if place == BACKOFF:
                pods = len(element) if isinstance(element, QueuedPodGroup) else 1
                self._policy.on_incoming(ACTIVE, events.POP_FROM_BACKOFF, pods, pods)
            if isinstance(element, QueuedPodInfo):
                if self._begin(element, now):
                    return element
            elif self._groups is not None:
                self._groups.popped(element)
                element.attempts += 1
                element.members = {key: member for key, member in element.members.items() if self._begin(member, now)}
                if element.members:
                    return element
                self._groups.attempted(element, GroupOutcome.SUCCESS, now)
        return None

    def _begin(self, queued: QueuedPodInfo, now: float) -> bool:
        """The pod is in flight from now on; false if it is so already, by an attempt before."""
        if queued.unschedulable_plugins or queued.pending_plugins:
            self._sub_queues.count_rejections(queued, -1)
        if queued.pod.uid in self._in_flight.marker:
            return False
        queued.attempts += 1
        queued.initial_attempt_timestamp = queued.initial_attempt_timestamp or now
        self._in_flight.begin(queued.pod.uid, queued.key)
        return True

    def pop_nowait(self, now: float) -> QueuedPodInfo | None:
        """As `pop_next`, where pod groups are off. Raises `TypeError` if a group comes."""
        popped = self.pop_next(now)
        if isinstance(popped, QueuedPodGroup):
            raise TypeError(f"a pod group is next ({popped.key.text}): `pop_next` is for those who try groups")
        return popped

    def has_ready(self) -> bool:
        """Whether `pop_next` would return something."""
        return self._sub_queues.has_ready()

    def costly_tried(self, seconds: float) -> None:
        """The decision about a pod or group that costs much took so long: the next one waits for it."""
        self._sub_queues.costly_turns.tried(seconds)

    def done(self, uid: str) -> None:
        """End an attempt that found a node, or whose pod need not be scheduled any more."""
        self._in_flight.done(uid)

    def rest(self, uid: str) -> None:
        """The pod stays in flight, but is not judged before `resume`: until then no events are kept for it."""
        self._in_flight.rest(uid)

    def resume(self, queued: QueuedPodInfo) -> None:
        """A pod that rested is judged now."""
        self._in_flight.begin(queued.pod.uid, queued.key)

    def is_in_flight(self, uid: str) -> bool:
        """Whether the pod is being tried."""
        return uid in self._in_flight

    def requeue(
        self, queued: QueuedPodInfo, now: float, *, holds_for: Hashable | None = None
    ) -> EquivalenceGroup | None:
        """End a failed attempt. `queued` has the plugins that rejected the pod; without any it was an error.

        `holds_for`: the verdict holds for all pods of this class in the current state of the cluster. Unless the pod
        has changed its class meanwhile, all of them are parked with it, and their equivalence group is returned.
        """
        try:
            return self._requeue(queued, now, holds_for) if self.find(queued.key) is None else None
        finally:
            self._in_flight.done(queued.pod.uid)

    def flush_backoff(self, now: float) -> None:
        """Once a second: move the pods whose backoff is over to the active queue. PreEnqueue has admitted them before.

        Pods that cost much get a part of the second. When room has become free, the backoff of rejected groups ends.
        """
        self._sub_queues.costly_turns.second_passed()
        if self._groups is not None:
            self._groups.end_backoffs(now)
        while ripe := [head for head in self._sub_queues.heads_of_backoff() if not is_backing_off(head, now)]:
            for element in ripe:
                self._sub_queues.take_out(element)
                if isinstance(element, QueuedPodGroup):
                    self._admission.enter_group(element, ACTIVE, events.BACKOFF_COMPLETE, now)
                else:
                    self._admission.enter(ACTIVE, element, events.BACKOFF_COMPLETE, now)

    def flush_unschedulable(self, now: float) -> None:
        """The safety net: pods that have been parked for 5 minutes are tried again."""
        event = events.UNSCHEDULABLE_TIMEOUT
        self._retry_failed_gates(event.label, now)
        waiting = (*self._sub_queues.parked, *self._gated_registered_for(event))
        stopped = self._policy.stopped
        for element in waiting:
            is_due = now - element.timestamp > MAX_IN_UNSCHEDULABLE_SECONDS
            if stopped and element.pod.pod.spec.scheduler_name in stopped:
                continue  # no attempt can succeed, and all of them would come at once, before the pods of others
            if is_due and isinstance(element, QueuedPodInfo) and self._policy.gated_pods_wait_for_the_flush:
                is_due = now - element.flushed_at > MAX_IN_UNSCHEDULABLE_SECONDS
                element.flushed_at = now if is_due else element.flushed_at
            if is_due:
                self._move(element, self._policy.hints.strategy(element, event, None, None), event, now)
                element.was_flushed = not element.gating_plugin  # a pod that is still gated was not rescued
        if self._groups is not None:
            self._groups.flush(MAX_IN_UNSCHEDULABLE_SECONDS, now)

    def _retry_failed_gates(self, label: str, now: float) -> None:
        if not self._admission.has_failed_gates:
            return
        self._admission.has_failed_gates = False  # set again by the next failure
        for queued in [gated for gated in self._sub_queues.gated if gated.gate_failed]:
            self._admission.place(queued, QueueingStrategy.AFTER_BACKOFF, label, now)

    # --- an attempt has failed ----------------------------------------------------------------------------------------

    def _requeue(self, queued: QueuedPodInfo, now: float, holds_for: Hashable | None) -> EquivalenceGroup | None:
        is_rejected = bool(queued.unschedulable_plugins or queued.pending_plugins)
        if is_rejected:
            queued.unschedulable_count += 1
            queued.consecutive_errors_count = 0
        elif not queued.held_until:
            queued.consecutive_errors_count += 1
        queued.timestamp = now
        queued.was_flushed = False
        queued.backoff_expiration = math.floor(queued.held_until) or self._policy.backoff.expiration(queued)
        if self._groups is not None and self._groups.key_of(queued.pod.pod) is not None:
            self._sub_queues.count_rejections(queued, 1)
            self._groups.add(queued, events.SCHEDULE_ATTEMPT_FAILURE, now)
            return None
        strategy = self._strategy_of_missed_events(queued) if is_rejected else QueueingStrategy.AFTER_BACKOFF
        is_shared = holds_for is not None and strategy is QueueingStrategy.SKIP
        if is_shared and self._policy.class_of(queued.pod) == holds_for:
            self._policy.on_incoming(UNSCHEDULABLE, events.SCHEDULE_ATTEMPT_FAILURE, 1, 0)
            return self._sub_queues.join_class(holds_for, queued)
        self._sub_queues.count_rejections(queued, 1)
        self._admission.place(queued, strategy, events.SCHEDULE_ATTEMPT_FAILURE, now)
        return None

    def _strategy_of_missed_events(self, queued: QueuedPodInfo) -> QueueingStrategy:
        if queued.pod.uid not in self._in_flight:  # its events were not kept, so it may have missed any
            return QueueingStrategy.AFTER_BACKOFF
        answer = QueueingStrategy.SKIP
        for seen in self._in_flight.since(queued.pod.uid):
            strategy = self._policy.hints.strategy(queued, seen.event, seen.old, seen.new)
            if strategy is QueueingStrategy.IMMEDIATELY:
                return strategy
            if strategy is QueueingStrategy.AFTER_BACKOFF:
                answer = strategy
                if not queued.pending_plugins:
                    return answer
        return answer

    # --- an event has arrived -----------------------------------------------------------------------------------------

    def _gated_registered_for(self, event: ClusterEvent) -> list[QueuedPodInfo]:
        """Gated pods whose gating plugin registered the event; the others cost nothing."""
        is_registered = self._policy.hints.is_registered
        return self._without_failed_gates(
            self._sub_queues.gated.behind(lambda profile, plugin: is_registered(profile, plugin, event))
        )

    def _without_failed_gates(self, gated: list[QueuedPodInfo]) -> list[QueuedPodInfo]:
        """The pods whose PreEnqueue has not failed; the failed ones wait until `flush_unschedulable`.

        It is unknown what such a pod waits for, and in a busy cluster events come every second. Its own update counts.
        """
        return [queued for queued in gated if not queued.gate_failed] if self._admission.has_failed_gates else gated

    def _gated_that_may_enter(
        self,
        event: ClusterEvent,
        old: KubeObject | None,
        new: KubeObject | None,
        spared: str,
        pre_check: Callable[[PodInfo], bool] | None,
    ) -> list[QueuedPodInfo]:
        """The gated pods that hear the event, without those that a standing gate would reject again.

        If hints let such pods go, they would leave the pool and come back. So they are not touched, and only counted
        as arrivals. The hints are called for a single pod of each group.
        """
        is_registered = self._policy.hints.is_registered
        found, kept_out = self._sub_queues.gated.registered_for(
            lambda profile, plugin: is_registered(profile, plugin, event),
            spared,
            by_nomination=event.resource is Resource.NODE,
        )
        for representative, pods in kept_out:
            if pre_check is not None and not pre_check(representative.pod):
                continue
            if self._policy.hints.strategy(representative, event, old, new) is not QueueingStrategy.SKIP:
                self._policy.on_incoming(UNSCHEDULABLE, event.label, pods, pods)
        for queued in self._sub_queues.gated.wait_for_others():
            self._admission.recheck_gate(queued)
        return self._without_failed_gates(found)

    def _move(self, element: Element, strategy: QueueingStrategy, event: ClusterEvent, now: float) -> None:
        if strategy is not QueueingStrategy.SKIP:
            self._sub_queues.take_out(element)
            self._admission.place(element, strategy, event.label, now)

    def _renew(self, place: str, queued: QueuedPodInfo, pod: PodInfo) -> None:
        """Take over the newest version of a pod; a pod whose class has changed leaves its equivalence group."""
        before = queued.pod.pod
        if is_equal_for_plugins(before, pod.pod):
            pod.signature = queued.pod.signature
        queued.pod = pod
        equivalence_group = self._sub_queues.equivalence_groups.of_pod(queued.key)
        if equivalence_group is not None and self._policy.class_of(pod) != equivalence_group.key:
            self._sub_queues.go_alone(queued)
        elif equivalence_group is None and place in (ACTIVE, BACKOFF):
            self._sub_queues.remove(queued.key)
            self._sub_queues.put(queued, place)  # its order may have changed, or what it costs
        elif equivalence_group is None and place == UNSCHEDULABLE:
            self._sub_queues.parked.renew(queued)  # it may wait for something else now
        elif place == GATED and not is_own_write(before, pod.pod):
            self._sub_queues.gated.renew(queued)

    def _react(
        self, place: str, queued: QueuedPodInfo, changes: Collection[ClusterEvent], old: Pod, now: float
    ) -> None:
        """Wake a pod, or shorten its backoff, after its own update."""
        new = queued.pod.pod
        was_held = queued.held_until > 0
        if place == BACKOFF and queued.forgive(old, new):
            self._sub_queues.remove(queued.key)
            queued.backoff_expiration = self._policy.backoff.expiration(queued)
            # A pod that has waited for a plugin, and for nothing of its own, has no backoff to sit out.
            strategy = QueueingStrategy.IMMEDIATELY if was_held else QueueingStrategy.AFTER_BACKOFF
            self._admission.place(queued, strategy, events.UNSCHEDULABLE_POD_UPDATE.label, now)
        if place not in (UNSCHEDULABLE, GATED):
            return
        for event in changes:
            strategy = self._policy.hints.strategy(queued, event, old, new)
            if strategy is not QueueingStrategy.SKIP:
                self._sub_queues.go_alone(queued)
                self._admission.place(queued, strategy, event.label, now)
                if not self._sub_queues.is_parked(queued.key):
                    return

    def _activate(self, place: str, queued: QueuedPodInfo, now: float) -> None:
        self._sub_queues.go_alone(queued)
        if place == BACKOFF:
            self._sub_queues.remove(queued.key)
            self._admission.enter(ACTIVE, queued, events.FORCE_ACTIVATE.label, now)
        else:
            self._admission.admit(ACTIVE, queued, events.FORCE_ACTIVATE.label, now)
