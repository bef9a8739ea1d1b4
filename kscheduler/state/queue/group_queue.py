"""Pod groups in the scheduling queue.

    add -- the group is unknown ------------> incomplete --- the group appears ---+
     |                                                                            |
     |<---------------------------------------------------------------------------+
     +---- the group is being tried --------> pending ------ the attempt ends ----+
     |                                                                            v
     +---------------------------------------------------------> the group's element: active, backoff, or gated

The root is one element of the queue (`QueuedPodGroup`), in the same heaps as pods. A member that PreEnqueue keeps out
keeps the whole group out (gated). A rejected group is never parked: it is tried again when its backoff is over. The
longest backoff grows with the square root of the number of members. It keeps its place in the order: groups that came
later may pass it, but it is tried before them.

Of a tree of groups the root is the element, with the members of all its leaves. A member is incomplete until the watch
has shown every group up to the root; one that goes makes the members below it incomplete, and the others stay.

Pods that are in no group never come here. What is different from kube-scheduler: a member that has failed after the
decision (Permit, PreBind, Bind) waits for its own backoff before its group is tried again, and a group of which all
members have come back for that of the group; so what is refused forever is no endless loop. A rejected group keeps its
place, and its backoff ends when room becomes free: else small groups, whose backoff is short, would take the room that
large ones wait for.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from heapq import nsmallest
from typing import Any, Final, NamedTuple

from kscheduler.api.core import Pod
from kscheduler.api.meta import KubeObject
from kscheduler.framework import events
from kscheduler.framework.cluster.pod_groups import GroupKey, PodGroupView, has_quorum, why_incomplete
from kscheduler.framework.events import ActionType, ClusterEvent, Resource
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.state.queue.admission import QueueAdmission, QueuePolicy
from kscheduler.state.queue.backoff import expiration_without_hope, is_backing_off
from kscheduler.state.queue.hints import QueueingStrategy
from kscheduler.state.queue.queue_snapshot import OF_POD_GROUP, GroupsSnapshot, WaitingGroup, of_pod_group
from kscheduler.state.queue.queued_group import GroupOutcome, QueuedPodGroup
from kscheduler.state.queue.sub_queues import ACTIVE, BACKOFF, GATED, SubQueues

# Members of groups that the watch has not shown.
INCOMPLETE: Final = "incomplete"
# Members that came, or came back, while their group is being tried.
PENDING: Final = "pending"
# The PreEnqueue plugin whose verdict only the group itself and its members can change.
OWN_GATE: Final = "GangScheduling"
# So many rejected groups are tried in a second at most, with so many members; the others wait for the end of their
# backoff.
_MOST_WOKEN: Final = 64
_MOST_MEMBERS_WOKEN: Final = 128
# A group that is woken in vain time after time is woken each 16 s, where a first backoff takes one.
_MOST_DOUBLINGS: Final = 4
# Groups behind it wait for it as long as it is woken after 1, 2 and 4 s.
_MOST_HELD_UP: Final = 2
# What makes room: a pod that leaves a node, a node that comes or changes in what decides.
_ROOM: Final = (
    events.ASSIGNED_POD_DELETE,
    events.NODE_ADD,
    ClusterEvent(
        Resource.NODE,
        ActionType.UPDATE_NODE_ALLOCATABLE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT,
    ),
)


class IncompleteGroup(NamedTuple):
    """A group whose members cannot be tried."""

    key: GroupKey
    pods: int
    why: str


class GroupQueue:
    """All waiting members of groups, in exactly one of: incomplete, pending, their group's element."""

    def __init__(
        self, view: PodGroupView, policy: QueuePolicy, sub_queues: SubQueues, admission: QueueAdmission
    ) -> None:
        self._view = view
        self._policy = policy
        self._sub_queues = sub_queues
        self._admission = admission
        self._elements: dict[GroupKey, QueuedPodGroup] = {}
        """By root."""
        self._gated: dict[GroupKey, QueuedPodGroup] = {}
        """Of the elements those that are in no heap."""
        self._incomplete: dict[GroupKey, dict[str, QueuedPodInfo]] = {}
        self._pending: dict[GroupKey, dict[str, QueuedPodInfo]] = {}
        """Both by the group that the pods name. All pending ones are of a tree that is being tried."""
        self._group_of: dict[str, GroupKey] = {}
        """By key of the pod: everyone who waits here, with the group that it names."""
        self._rejected: dict[GroupKey, Any] = {}
        """Elements in backoff that found no room, with their places in the order; some may have left backoff since."""
        self._has_room = False
        """Room has become free since rejected groups were tried."""
        self._last_arrival = 0.0
        self._tried: dict[GroupKey, frozenset[str]] = {}
        """By root that is being tried, its members' keys; several where extenders are asked about groups."""

    # --- looking ------------------------------------------------------------------------------------------------------

    def key_of(self, pod: Pod) -> GroupKey | None:
        """The group that the pod waits with; `None`: none of ours, or the pod has a node, where it waits for room."""
        return None if pod.spec.node_name else self._view.key_of(pod)

    def holds(self, key: str) -> bool:
        """Whether the pod waits here."""
        return key in self._group_of

    def keys(self) -> Collection[str]:
        """The keys of all members, as a live view."""
        return self._group_of.keys()

    def find(self, key: str) -> tuple[str, QueuedPodInfo] | None:
        """The place of a pod and its record; `None` if it does not wait here."""
        group = self._group_of.get(key)
        if group is None:
            return None
        element = self._element_of(group)
        if element is not None and key in element.members:
            return element.place, element.members[key]
        for place, pods in ((PENDING, self._pending), (INCOMPLETE, self._incomplete)):
            if key in pods.get(group, ()):
                return place, pods[group][key]
        return None

    def is_in_attempt(self, key: str) -> bool:
        """Whether the pod is a member of a group that is being tried: it needs no activation."""
        return any(key in members for members in self._tried.values())

    def element(self, key: GroupKey) -> QueuedPodGroup | None:
        """The waiting element of a group that is a root."""
        return self._elements.get(key)

    def waiting_with(self, key: str) -> QueuedPodGroup | None:
        """The waiting element that the pod of this key is in."""
        element = self._element_of(self._group_of.get(key, _NO_GROUP))
        return element if element is not None and key in element.members else None

    def _element_of(self, group: GroupKey) -> QueuedPodGroup | None:
        root = self._view.root_of(group)
        return None if root is None else self._elements.get(root)

    def parked(self) -> Iterator[QueuedPodInfo]:
        """Members that wait for an event."""
        for element in self._gated.values():
            yield from element.members.values()
        for pods in (*self._incomplete.values(), *self._pending.values()):
            yield from pods.values()

    def sizes(self) -> dict[str, int]:
        """Pods by place: those of heaps beyond one per element, which the heaps count themselves."""
        sizes = {ACTIVE: 0, BACKOFF: 0, GATED: 0}
        for element in self._elements.values():
            sizes[element.place] += len(element) - (element.place != GATED)
        for place, pods in ((PENDING, self._pending), (INCOMPLETE, self._incomplete)):
            sizes[place] = sum(map(len, pods.values()))
        return sizes

    def elements(self) -> dict[str, tuple[int, int, int]]:
        """By place of heaps and gate: how many groups, how many groups of groups, how many members of both."""
        counts = dict.fromkeys((ACTIVE, BACKOFF, GATED), (0, 0, 0))
        for element in self._elements.values():
            groups, composites, members = counts[element.place]
            is_composite = element.key.is_composite
            counts[element.place] = groups + (not is_composite), composites + is_composite, members + len(element)
        return counts

    def why_incomplete(self, group: GroupKey) -> str:
        """Why pods of this group cannot be tried; empty: its tree is whole."""
        return why_incomplete(self._view.definition, group, self._view.absence, self._view.levels)

    def why_gated(self, queued: QueuedPodInfo) -> str:
        """Why a member is kept out with its group: how many are missing now, or which member waits for what.

        Empty: its own gate's answer is all there is to say, or it is no member.
        """
        group = self._group_of.get(queued.key)
        if group is None:
            return ""
        if queued.gating_plugin == OWN_GATE:
            return self._too_few(group)
        element = self._element_of(group)
        if queued.gating_plugin or element is None:
            return ""
        other = next((member for member in element.members.values() if member.gating_plugin), None)
        if other is None:
            return ""
        why = self.why_gated(other) or ", ".join(other.gate_reasons)
        return f"its pod group waits for member {other.key}: {why}"

    def _too_few(self, group: GroupKey) -> str:
        """How many members of a gang are there; empty for a tree, whose gate tells more, and if none is missing."""
        definition = self._view.definition(group)
        if definition is None or definition.parent is not None or definition.min_count is None:
            return ""
        count, least = self._view.count_all(group), definition.min_count
        return f"{count} of {least} members of pod group {group.name} are there" if count < least else ""

    def _report_kept_out(self, queued: QueuedPodInfo) -> None:
        """Tell it once per member and plugin: the number of missing members changes with each that comes."""
        if queued.gating_plugin:
            message = self.why_gated(queued) or ", ".join(queued.gate_reasons)
            self._admission.report_gated(queued, message, queued.gating_plugin)

    def incomplete(self) -> Iterator[IncompleteGroup]:
        """The groups with members that wait because their tree is not whole."""
        for key, pods in self._incomplete.items():
            yield IncompleteGroup(key, len(pods), self.why_incomplete(key))

    @property
    def version(self) -> int:
        """As long as it is the same, no group and no member has come, changed or gone."""
        return self._view.version

    def awaits_events(self) -> bool:
        """Whether any group waits for an event: it is gated, or was rejected and waits for room."""
        return bool(self._gated or self._rejected)

    # --- members ------------------------------------------------------------------------------------------------------

    def add(self, queued: QueuedPodInfo, label: str, now: float) -> None:
        """A member has come, or has come back: it joins its group, wherever that is."""
        group = self._view.key_of(queued.pod.pod)
        if group is None:
            raise ValueError(f"pod {queued.key} is in no group")
        self._group_of[queued.key] = group
        root = self._view.root_of(group)
        definition = None if root is None else self._view.definition(root)
        element = None if root is None else self._elements.get(root)
        if definition is None:
            self._incomplete.setdefault(group, {})[queued.key] = queued
        elif element is not None:
            self._join(element, queued, label, now)
        elif root in self._tried:
            self._pending.setdefault(group, {})[queued.key] = queued
        else:
            first = queued.initial_attempt_timestamp
            element = QueuedPodGroup(definition, timestamp=queued.timestamp, initial_attempt_timestamp=first)
            element.members[queued.key] = queued
            if (
                label == events.SCHEDULE_ATTEMPT_FAILURE
            ):  # after the group's attempt: its binding, or what is before that
                element.backoff_expiration = queued.backoff_expiration
            self._place(element, QueueingStrategy.AFTER_BACKOFF, label, now)

    def _join(self, element: QueuedPodGroup, queued: QueuedPodInfo, label: str, now: float) -> None:
        place = element.place
        gated = next((member for member in element.members.values() if member.gating_plugin), None)
        element.members[queued.key] = queued
        if label == events.SCHEDULE_ATTEMPT_FAILURE:
            element.backoff_expiration = max(element.backoff_expiration, queued.backoff_expiration)
            place = BACKOFF
        if gated is not None and not self._admission.admits(gated):
            # Whatever the newcomer is, the group stays out: asking every member each time would be quadratic.
            if not self._policy.groups_stop_at_the_first_gate:
                self._admission.admits(queued)
                self._report_kept_out(queued)
            return
        self._take_out(element)
        self._place_again(element, place, label, now)

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take a pod out; the rest of its group stays in the same kind of place."""
        group = self._group_of.pop(key, None)
        if group is None:
            return None
        element = self._element_of(group)
        if element is None or key not in element.members:
            for pods in (self._pending, self._incomplete):
                if key in pods.get(group, ()):
                    queued = pods[group].pop(key)
                    if not pods[group]:
                        del pods[group]
                    return queued
            return None
        place = element.place
        self._take_out(element)
        queued = element.members.pop(key)
        if element.members:
            self._place_again(element, place, events.UNSCHEDULABLE_POD_ADD.label, queued.timestamp)
        return queued

    def _place_again(self, element: QueuedPodGroup, place: str, label: str, now: float) -> None:
        """Into the same kind of place; who is gated, or was in backoff, is looked at again."""
        strategy = QueueingStrategy.IMMEDIATELY if place == ACTIVE else QueueingStrategy.AFTER_BACKOFF
        self._place(element, strategy, label, now)

    def update(self, old: Pod, pod: PodInfo, changes: list[ClusterEvent], now: float) -> None:
        """A new version of a pod that waits here; it may let its group in."""
        found = self.find(pod.key)
        if found is None:
            return
        place, queued = found
        queued.pod = pod
        if place == BACKOFF and queued.forgive(old, pod.pod):
            queued.backoff_expiration = self._policy.backoff.expiration(queued)
        if place != GATED:
            return
        for event in changes:
            strategy = self._policy.hints.strategy(queued, event, old, pod.pod)
            if strategy is not QueueingStrategy.SKIP:
                element = self._element_of(self._group_of[pod.key])
                if element is not None:
                    self._move(element, strategy, event.label, now)
                return

    def activate(self, key: str, now: float) -> None:
        """Try the group of this pod as soon as possible."""
        element = self._element_of(self._group_of.get(key, _NO_GROUP))
        if element is None or element.place == ACTIVE:
            return
        label, place = events.FORCE_ACTIVATE.label, element.place
        if place == BACKOFF:  # PreEnqueue has let it in already
            self._take_out(element)
            self._put(element, ACTIVE, label, now)
        else:
            self._move(element, QueueingStrategy.IMMEDIATELY, label, now)

    def retry(self, keys: Collection[str], now: float) -> None:
        """Let PreEnqueue judge the groups of these pods again, each once, where they are gated."""
        groups = {self._group_of[key] for key in keys if key in self._group_of}
        elements = {element.key: element for group in groups if (element := self._element_of(group)) is not None}
        for element in elements.values():
            if element.place == GATED:
                self._move(element, QueueingStrategy.AFTER_BACKOFF, events.FORCE_ACTIVATE.label, now)

    # --- groups -------------------------------------------------------------------------------------------------------

    def group_appeared(self, group: GroupKey, now: float) -> None:
        """The watch shows the group: members of its tree are complete once all groups above them are there."""
        root = self._view.root_of(group)
        if root is None:
            return
        element = self._elements.get(root)
        for leaf in self._view.leaves(root):
            for queued in self._incomplete.pop(leaf, {}).values():
                self.add(queued, events.UNSCHEDULABLE_POD_ADD.label, now)
        # A group whose members all have a node brings nobody, but it may be the one that its tree has waited for.
        if element is not None and element.gating_plugin == OWN_GATE and self._elements.get(root) is element:
            self._move(element, QueueingStrategy.AFTER_BACKOFF, "PodGroupAdd", now)

    def group_changed(self, group: GroupKey, now: float) -> None:
        """The group asks for something else: its gate may open. As upstream, its place in a heap stays."""
        element, definition = self._element_of(group), self._view.definition(group)
        if element is None or definition is None:
            return
        if element.key == group:
            element.definition = definition
        if element.place == GATED:
            self._move(element, QueueingStrategy.AFTER_BACKOFF, "PodGroupUpdate", now)

    def group_gone(self, root: GroupKey, now: float) -> None:
        """A group of this tree was deleted: the members below it wait for another one of its name.

        `root`: of the tree as it was, with the group.
        """
        element = self._elements.get(root)
        if element is not None:
            place, lost = element.place, self._lost(element.members)
            if lost:
                self._take_out(element)
                for queued in lost:
                    del element.members[queued.key]
                if element.members:
                    self._place_again(element, place, events.UNSCHEDULABLE_POD_UPDATE.label, now)
        for pods in list(self._pending.values()):
            self._lost(pods)
        self._pending = {group: pods for group, pods in self._pending.items() if self._view.root_of(group) is not None}

    def topology_changed(self) -> None:
        """What the levels of the topology are has changed: rejected groups may fit, as if room had become free."""
        self._has_room = self._has_room or bool(self._rejected)

    def _lost(self, pods: Mapping[str, QueuedPodInfo]) -> list[QueuedPodInfo]:
        """Those whose tree is not whole any more; they are incomplete from now on."""
        lost = [queued for key, queued in pods.items() if self._view.root_of(self._group_of[key]) is None]
        for queued in lost:
            self._incomplete.setdefault(self._group_of[queued.key], {})[queued.key] = queued
        return lost

    def finish_first(self) -> None:
        """Scheduling begins: what an earlier scheduler has left of a gang comes before all others of its priority.

        Its room is still free then. A pod that took it would leave a part of a gang without room for the rest.
        """
        for element in self._elements.values():
            has_begun = self._view.count_scheduled(element.key) > 0
            is_over = has_quorum(self._view, element.definition, self._view.count_scheduled)
            if element.place == ACTIVE and has_begun and not is_over:
                self._sub_queues.take_out(element)
                element.timestamp = 0.0
                self._sub_queues.put(element, ACTIVE)

    # --- attempts -----------------------------------------------------------------------------------------------------

    def popped(self, element: QueuedPodGroup) -> None:
        """The group left its heap to be tried; until `attempted` its members are pending."""
        del self._elements[element.key]
        if self._rejected:
            self._rejected.pop(element.key, None)
        self._tried[element.key] = frozenset(element.members)
        for key in element.members:
            del self._group_of[key]

    def attempted(self, tried: QueuedPodGroup, outcome: GroupOutcome, now: float) -> None:
        """The attempt has ended: members that are pending go back as one element."""
        self._tried.pop(tried.key, None)
        over = [group for group in self._pending if self._view.root_of(group) not in self._tried]
        pending = {key: queued for group in over for key, queued in self._pending.pop(group).items()}
        for queued in self._lost(pending):
            del pending[queued.key]
        for key in [key for key in pending if self._view.root_of(self._group_of[key]) != tried.key]:
            self.add(pending.pop(key), events.UNSCHEDULABLE_POD_UPDATE.label, now)  # its group has another parent now
        definition = self._view.definition(tried.key)
        if not pending or definition is None:
            return
        element = QueuedPodGroup(
            definition,
            dict(pending),
            timestamp=tried.timestamp,
            attempts=tried.attempts,
            unschedulable_count=tried.unschedulable_count,
            consecutive_errors_count=tried.consecutive_errors_count,
            initial_attempt_timestamp=tried.initial_attempt_timestamp,
            arrived=tried.arrived,
            woken_at=tried.woken_at,
            wakes=tried.wakes,
        )
        if outcome is GroupOutcome.SUCCESS and pending.keys() >= tried.members.keys():
            outcome = GroupOutcome.REJECTED  # all have come back, so trying the rest at once would be without end
        if outcome is GroupOutcome.SUCCESS:
            element.consecutive_errors_count = element.unschedulable_count = 0
        elif outcome is GroupOutcome.REJECTED:
            element.unschedulable_count, element.consecutive_errors_count = element.unschedulable_count + 1, 0
        else:
            element.consecutive_errors_count += 1
        if outcome is not GroupOutcome.SUCCESS or pending.keys().isdisjoint(tried.members):
            element.timestamp = now
        is_over = outcome is GroupOutcome.SUCCESS
        element.backoff_expiration = 0.0 if is_over else self._policy.backoff.expiration(element, len(element))
        if outcome is GroupOutcome.REJECTED:
            self._rejected[element.key] = self._sub_queues.order_of(element)
            if len(self._rejected) > 2 * len(self._elements) + _MOST_WOKEN:  # most have left
                self._keep_rejected()
        if outcome is GroupOutcome.ERROR and element.pod.pod.spec.scheduler_name in self._policy.stopped:
            element.backoff_expiration = expiration_without_hope(now)
        self._place(element, QueueingStrategy.AFTER_BACKOFF, events.SCHEDULE_ATTEMPT_FAILURE, now)

    # --- events -------------------------------------------------------------------------------------------------------

    def hear(self, event: ClusterEvent, old: KubeObject | None, new: KubeObject | None, now: float) -> None:
        """Ask the gated groups that the event may let in.

        What only the group's own gate keeps out hears of its own members alone: in a filling cluster every arriving pod
        would otherwise ask every waiting gang.
        """
        if self._rejected and any(makes_room.matches(event) for makes_room in _ROOM):
            self._has_room = True
        keys = (self._view.key_of(each) for each in (old, new) if isinstance(each, Pod))
        own = {self._view.root_of(key) for key in keys if key is not None}
        for element in list(self._gated.values()):
            if element.gating_plugin == OWN_GATE and element.key not in own:
                continue
            strategy = self._strategy(element, event, old, new)
            if strategy is not QueueingStrategy.SKIP:
                self._move(element, strategy, event.label, now)

    def _strategy(
        self, element: QueuedPodGroup, event: ClusterEvent, old: KubeObject | None, new: KubeObject | None
    ) -> QueueingStrategy:
        """The best that the gates of any member say."""
        hints, best = self._policy.hints, QueueingStrategy.SKIP
        for member in element.members.values():
            profile = member.pod.pod.spec.scheduler_name
            if member.gating_plugin and hints.is_registered(profile, member.gating_plugin, event):
                strategy = hints.strategy(member, event, old, new)
                if strategy is QueueingStrategy.IMMEDIATELY:
                    return strategy
                best = best if strategy is QueueingStrategy.SKIP else strategy
        return best

    def end_backoffs(self, now: float) -> None:
        """Once a second: if room has become free, the rejected groups that came first are tried, and those behind them.

        None is tried sooner after its last attempt than after its first one, and one for which the room is not enough
        time after time is woken more rarely. Those behind it wait for it at first.
        """
        if not self._has_room:
            return
        self._has_room, members, first_backoff = False, 0, self._policy.backoff.initial_seconds
        self._keep_rejected()
        for key in nsmallest(_MOST_WOKEN, self._rejected, self._rejected.__getitem__):
            element = self._elements[key]
            wakes_at = max(element.timestamp + first_backoff, element.woken_at + first_backoff * 2**element.wakes)
            if wakes_at > now:
                self._has_room = True
                if element.wakes > _MOST_HELD_UP:
                    continue
                break
            members += len(element)
            if members > max(_MOST_MEMBERS_WOKEN, len(element)):
                break
            del self._rejected[key]
            is_long_ago = element.woken_at + first_backoff * 2 ** (_MOST_DOUBLINGS + 1) < now
            element.wakes = 0 if is_long_ago else min(element.wakes + 1, _MOST_DOUBLINGS)
            element.woken_at = now
            self._sub_queues.take_out(element)
            element.backoff_expiration = 0.0
            self._sub_queues.put(element, BACKOFF)

    def _keep_rejected(self) -> None:
        elements = self._elements
        self._rejected = {
            key: order for key, order in self._rejected.items() if key in elements and elements[key].place == BACKOFF
        }

    def flush(self, longest_seconds: float, now: float) -> None:
        """The safety net: groups that have been gated for so long are asked about again."""
        for element in list(self._gated.values()):
            if now - max(element.timestamp, element.flushed_at) > longest_seconds:
                element.flushed_at = now
                self._move(element, QueueingStrategy.AFTER_BACKOFF, events.UNSCHEDULABLE_TIMEOUT.label, now)
                element.was_flushed = element.place != GATED

    # --- the whole ----------------------------------------------------------------------------------------------------

    def give_up(self) -> Iterator[tuple[str, QueuedPodInfo]]:
        """Every pod, alone, with the place where it was. This object ends here, and its elements leave the heaps."""
        for element in list(self._elements.values()):
            place = element.place
            self._take_out(element)
            yield from ((place, queued) for queued in element.members.values())
        for place, pods in ((PENDING, self._pending), (INCOMPLETE, self._incomplete)):
            yield from ((place, queued) for members in pods.values() for queued in members.values())

    def snapshot(self) -> GroupsSnapshot:
        """The groups that wait as one."""
        waiting = tuple(
            WaitingGroup(
                element.place,
                tuple(member.pod.uid for member in element.members.values()),
                of_pod_group(element),
                element.place == BACKOFF and element.key in self._rejected,
            )
            for element in self._elements.values()
        )
        return GroupsSnapshot(waiting, self._has_room, self._last_arrival)

    def restore(self, snapshot: GroupsSnapshot, members: Mapping[str, QueuedPodInfo]) -> Iterator[str]:
        """Put groups back into an empty queue; `members`: by UID. Yields the UIDs of those that are placed with it."""
        self._has_room, self._last_arrival = snapshot.has_room, snapshot.last_arrival
        for each in snapshot.waiting:
            named = {uid: self._view.key_of(members[uid].pod.pod) for uid in each.uids if uid in members}
            roots = {None if group is None else self._view.root_of(group) for group in named.values()}
            root = roots.pop() if len(roots) == 1 else None
            definition = None if root is None else self._view.definition(root)
            if definition is None:
                continue  # their members are placed one by one
            element = QueuedPodGroup(definition, {members[uid].key: members[uid] for uid in named})
            for name, value in zip(OF_POD_GROUP, each.facts, strict=True):
                setattr(element, name, value)
            for uid, group in named.items():
                if group is not None:
                    self._group_of[members[uid].key] = group
            element.place = each.place
            self._elements[element.key] = element
            if each.place == GATED:
                self._gated[element.key] = element
            else:
                self._sub_queues.put(element, each.place)
            if each.is_rejected:
                self._rejected[element.key] = self._sub_queues.order_of(element)
            yield from named

    @property
    def is_any_tried(self) -> bool:
        """Whether a group is being tried."""
        return bool(self._tried)

    # --- placing ------------------------------------------------------------------------------------------------------

    def _move(self, element: QueuedPodGroup, strategy: QueueingStrategy, label: str, now: float) -> None:
        self._take_out(element)
        self._place(element, strategy, label, now)

    def _take_out(self, element: QueuedPodGroup) -> None:
        if self._gated.pop(element.key, None) is None:
            self._sub_queues.take_out(element)
        del self._elements[element.key]

    def _place(self, element: QueuedPodGroup, strategy: QueueingStrategy, label: str, now: float) -> None:
        """Into backoff or the active heap, or behind a gate. The element must be in no place."""
        gating = ""
        for member in element.members.values():
            if not self._admission.admits(member):
                gating = member.gating_plugin
                self._report_kept_out(member)
                if self._policy.groups_stop_at_the_first_gate:
                    break
        element.gating_plugin = gating
        if gating:
            element.was_flushed = False
            self._put(element, GATED, label, now)
        elif strategy is QueueingStrategy.AFTER_BACKOFF and is_backing_off(element, now):
            self._put(element, BACKOFF, label, now)
        else:
            self._put(element, ACTIVE, label, now)

    def _put(self, element: QueuedPodGroup, place: str, label: str, now: float) -> None:
        self._elements[element.key] = element
        if place == ACTIVE:
            if not element.arrived:
                # Groups of one moment keep their order: the clock may stand still, or have gone back.
                last = self._last_arrival
                element.arrived = self._last_arrival = now if now > last else math.nextafter(last, math.inf)
            element.initial_attempt_timestamp = element.initial_attempt_timestamp or now
            for member in element.members.values():
                member.initial_attempt_timestamp = member.initial_attempt_timestamp or now
        element.place = place
        if place == GATED:
            self._gated[element.key] = element
        self._admission.enter_group(element, place, label, now)


_NO_GROUP: Final = GroupKey("", "", "")
