"""The queue as it is at one moment, as plain values, and the way back.

A snapshot holds each waiting pod with what its attempts have left behind, in the order in which it would be popped or
asked, and the events that pods in flight have yet to judge. Restoring puts everything into sub-queues of the same
order; classes of pods are worked out again. Limit: members of a pod group that is being tried, and groups in older
recordings, are placed as if they had just come.
"""

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, Final

import msgspec

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.state.queue.admission import ClassOf
from kscheduler.state.queue.equivalence_groups import EquivalenceGroup
from kscheduler.state.queue.in_flight import SeenEvent
from kscheduler.state.queue.sub_queues import SubQueues

# What is kept of a waiting pod besides its object, in the order of `QueuedPodInfo`. What is new comes last, because
# older recordings lack it.
FACTS: Final = (
    "timestamp",
    "attempts",
    "unschedulable_count",
    "consecutive_errors_count",
    "refusals",
    "bugs",
    "last_error",
    "initial_attempt_timestamp",
    "backoff_expiration",
    "unschedulable_plugins",
    "pending_plugins",
    "gating_plugin",
    "gate_failed",
    "was_flushed",
    "flushed_at",
    "overruns",
    "held_until",
)
facts_of = attrgetter(*FACTS)
OF_GROUP: Final = ("timestamp", "backoff_expiration", "unschedulable_plugins", "pending_plugins", "was_flushed")
OF_POD_GROUP: Final = (
    "timestamp",
    "attempts",
    "unschedulable_count",
    "consecutive_errors_count",
    "initial_attempt_timestamp",
    "arrived",
    "woken_at",
    "wakes",
    "backoff_expiration",
    "gating_plugin",
    "was_flushed",
    "flushed_at",
)
of_pod_group = attrgetter(*OF_POD_GROUP)
_common_of = attrgetter(*OF_GROUP)

Facts = tuple[Any, ...]


class WaitingElement(msgspec.Struct, frozen=True):
    """A pod, or pods that wait as one."""

    place: str
    common: Facts | None
    """What the members of an equivalence group have in common; `None`: a single pod."""
    members: tuple[tuple[PodInfo, Facts], ...]


class WaitingGroup(msgspec.Struct, frozen=True):
    """A pod group that waits as one; its members are among the elements, too."""

    place: str
    uids: tuple[str, ...]
    """Of its members, in the order in which they came."""
    facts: Facts
    """In the order of `OF_POD_GROUP`."""
    is_rejected: bool
    """It waits for room."""


class GroupsSnapshot(msgspec.Struct, frozen=True):
    """What is known of pod groups besides their members."""

    waiting: tuple[WaitingGroup, ...]
    has_room: bool
    last_arrival: float


class QueueSnapshot(msgspec.Struct, frozen=True):
    """All of it."""

    elements: tuple[WaitingElement, ...]
    in_flight: tuple[SeenEvent | str, ...]
    """UIDs of pods in flight and the events since each was popped."""
    resting: tuple[str, ...]
    keys: tuple[tuple[str, str], ...]
    """UID and key of all pods in flight."""
    has_failed_gates: bool
    has_groups: bool
    costly_turns: tuple[float, bool] | None = None
    """Of pods that cost much; `None`: nothing is known of them."""
    groups: GroupsSnapshot | None = None
    """`None`: nothing is known of them, or there are none."""
    is_group_tried: bool = False


def elements_in(sub_queues: SubQueues) -> Iterator[WaitingElement]:
    """The waiting pods; of each place in its order."""
    for place, elements in sub_queues.in_order():
        for element in elements:
            if isinstance(element, EquivalenceGroup):
                yield WaitingElement(place, _common_of(element), tuple(map(_member, element.in_order())))
            elif isinstance(element, QueuedPodInfo):
                yield WaitingElement(place, None, (_member(element),))
            else:
                yield from (WaitingElement(place, None, (_member(member),)) for member in element.members.values())


def _member(queued: QueuedPodInfo) -> tuple[PodInfo, Facts]:
    return queued.pod, facts_of(queued)


def queued_from(pod: PodInfo, facts: Iterable[Any]) -> QueuedPodInfo:
    """The way back from `facts_of`."""
    return QueuedPodInfo(pod, *facts)


def put_back(sub_queues: SubQueues, elements: Iterable[WaitingElement], class_of: ClassOf) -> None:
    """Fill empty sub-queues."""
    for element in elements:
        members = [queued_from(pod, facts) for pod, facts in element.members]
        name = class_of(members[0].pod) if element.common is not None else None
        if name is None or element.common is None:
            for queued in members:
                sub_queues.put(queued, element.place)
                sub_queues.count_rejections(queued, 1)
            continue
        for queued in members:
            equivalence_group = sub_queues.equivalence_groups.join(name, queued)
        for field, value in zip(OF_GROUP, element.common, strict=True):
            setattr(equivalence_group, field, value)
        sub_queues.put(equivalence_group, element.place)
        sub_queues.count(equivalence_group.rejectors, members[0].pod.pod.spec.scheduler_name, len(equivalence_group))
