"""The sub-queues of waiting pods: four heaps, the pool, or behind a gate; alone or in an equivalence group.

This is the queue's data without its rules: elements are put into sub-queues, found and removed, and the rejections by
each plugin are counted. A pod is in exactly one place.

Active pods that cost much to decide about (`is_costly`) have a heap of their own: each of them may hold the event
loop for some hundredths of a second, so they go behind all others, one at a time and for a share of the time
(`CostlyPodBudget`). Among themselves, and among the others, the order is the QueueSort plugin's.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterator
from itertools import chain
from typing import Any, Final, Protocol

from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.state.queue.equivalence_groups import Element, EquivalenceGroup, EquivalenceGroups
from kscheduler.state.queue.gated_pods import GatedPods
from kscheduler.state.queue.heap import KeyedHeap
from kscheduler.state.queue.parked import Parked
from kscheduler.state.queue.queued_group import QueuedPodGroup

ACTIVE: Final = "active"
BACKOFF: Final = "backoff"
UNSCHEDULABLE: Final = "unschedulable"
# Names of the sub-queues, as in metrics.
GATED: Final = "gated"


# What is in the heaps. A group that is kept out is no business of the sub-queues (`group_queue`).
Ready = Element | QueuedPodGroup


class CostlyPodBudget:
    """When a pod that costs much may be tried.

    Trying them uses up a credit of seconds, which grows by a share of the time that passes. While there is credit, such
    a pod is next once nobody else is ready; and once a second before the others, so that a queue that is never empty
    does not keep them forever.
    """

    SHARE: Final = 0.05
    MAX_SECONDS: Final = 0.1

    def __init__(self) -> None:
        self._credit = self.MAX_SECONDS
        self._goes_first = False

    @property
    def has_credit(self) -> bool:
        """Whether such a pod may be tried now."""
        return self._credit > 0

    def goes_first(self) -> bool:
        """Whether one is tried before the others this time. Asking without credit has no effect."""
        if not (self._goes_first and self.has_credit):
            return False
        self._goes_first = False
        return True

    def tried(self, seconds: float) -> None:
        """One of them was decided about, which took so long."""
        self._credit -= seconds

    def snapshot(self) -> tuple[float, bool]:
        """The credit, and whether one goes before the others this time."""
        return self._credit, self._goes_first

    def restore(self, credit: float, goes_first: bool) -> None:
        """Go on from a snapshot."""
        self._credit, self._goes_first = credit, goes_first

    def second_passed(self) -> None:
        """One more second has passed."""
        self._credit = min(self.MAX_SECONDS, self._credit + self.SHARE)
        self._goes_first = True


class SortKey(Protocol):
    """The QueueSort plugin's order."""

    def __call__(self, queued: QueuedPodInfo, /) -> Any:
        """Compared with `<`: the smallest goes first."""
        ...


class SubQueues:
    """All waiting pods."""

    def __init__(self, sort_key: SortKey, gated: GatedPods | None = None) -> None:
        self._sort_key = sort_key
        self._active: KeyedHeap[Ready] = KeyedHeap(self.order_of)
        self._costly: KeyedHeap[Ready] = KeyedHeap(self.order_of)
        """Active, too."""
        self._costly_keys = self._costly.keys()
        self.costly_turns = CostlyPodBudget()
        self._backoff: KeyedHeap[Ready] = KeyedHeap(
            lambda element: (element.backoff_expiration, self.order_of(element))
        )
        self._error_backoff: KeyedHeap[Ready] = KeyedHeap(lambda element: element.backoff_expiration)
        heaps = self._active, self._costly, self._backoff, self._error_backoff
        self._heaps = tuple((heap, heap.keys()) for heap in heaps)
        """The heaps with their keys: checking that a pod is in none must be cheap, and is done twice per pod."""
        self.parked = Parked()
        self.gated = gated if gated is not None else GatedPods()
        self.waiting = self.parked.keys(), self.gated.gates()
        """Empty if no pod waits for an event: each event and each pod asks for that."""
        self.equivalence_groups = EquivalenceGroups(sort_key)
        self.rejections: Counter[tuple[str, str]] = Counter()
        """The number of waiting pods rejected by each (plugin, profile)."""

    def order_of(self, element: Ready) -> Any:
        """What elements are popped by."""
        if isinstance(element, QueuedPodInfo):
            return self._sort_key(element)
        return self._sort_key(element.best if isinstance(element, EquivalenceGroup) else element.representative)

    # --- looking --------------------------------------------------------------------------------------------------

    def sizes(self) -> dict[str, int]:
        """Pods by place."""
        elements = {
            ACTIVE: len(self._active) + len(self._costly),
            BACKOFF: len(self._backoff) + len(self._error_backoff),
            UNSCHEDULABLE: len(self.parked),
        }
        sizes = {place: count + self.equivalence_groups.surplus(place) for place, count in elements.items()}
        return {**sizes, GATED: len(self.gated)}

    def has_ready(self) -> bool:
        """Whether `pop` would return a pod."""
        return bool(len(self._active) or len(self._backoff) or (self._costly_keys and self.costly_turns.has_credit))

    def has_parked(self) -> bool:
        """Whether any pod waits for an event, gated pods included."""
        parked, gates = self.waiting
        return bool(parked or gates)

    def parked_pods(self) -> Iterator[QueuedPodInfo]:
        """Pods that wait for an event, gated pods included."""
        elements = (element if isinstance(element, EquivalenceGroup) else (element,) for element in self.parked)
        return chain(chain.from_iterable(elements), self.gated)

    def waiting_keys(self) -> Iterator[str]:
        """The keys of all pods in any place, groups aside. Consume it before anything changes."""
        heaps = (element for heap, _ in self._heaps for element in heap if not isinstance(element, QueuedPodGroup))
        for element in chain(heaps, self.parked):
            if isinstance(element, EquivalenceGroup):
                yield from element.keys()
            else:
                yield element.key
        yield from (queued.key for queued in self.gated)

    def is_parked(self, key: str) -> bool:
        """Whether a pod outside of equivalence groups waits for an event."""
        return key in self.parked or key in self.gated

    def in_order(self) -> Iterator[tuple[str, Collection[Ready]]]:
        """The elements of each place as they would be popped or asked; backoff after an error stands by itself."""
        yield ACTIVE, self._active.in_order()
        yield ACTIVE, self._costly.in_order()
        yield BACKOFF, self._backoff.in_order()
        yield BACKOFF, self._error_backoff.in_order()
        yield UNSCHEDULABLE, tuple(self.parked)
        yield GATED, tuple(self.gated)

    def find(self, key: str) -> tuple[str, QueuedPodInfo] | None:
        """The place of a pod and its record; `None` if it is in no place."""
        equivalence_group = self.equivalence_groups.of_pod(key)
        if equivalence_group is not None:
            return equivalence_group.place, equivalence_group.get(key)
        for place, heap in self._by_place():
            queued = heap.get(key)
            if queued is not None and isinstance(queued, QueuedPodInfo):
                return place, queued
        parked = self.parked.get(key)
        if parked is not None and isinstance(parked, QueuedPodInfo):
            return UNSCHEDULABLE, parked
        gated = self.gated.get(key)
        return None if gated is None else (GATED, gated)

    # --- putting in -----------------------------------------------------------------------------------------------

    def put(self, element: Ready, place: str) -> None:
        """Put an element into a place. A parked pod is unparked first; an equivalence group or a group must be in no
        place.
        """
        key: Any = element.key
        parked, gates = self.waiting
        if isinstance(element, EquivalenceGroup | QueuedPodGroup):
            element.place = place
        elif parked or gates:
            self.unpark(key)
        if place == UNSCHEDULABLE and not isinstance(element, QueuedPodGroup):
            self.parked.put(element)
        elif place == GATED and isinstance(element, QueuedPodInfo):
            self.gated.put(element)
        else:
            self._heap(element, place).push(key, element)

    def _heap(self, element: Ready, place: str) -> KeyedHeap[Ready]:
        # An idle scheduler takes pods out of backoff early, but neither after an error nor costly ones.
        if element.is_costly:
            return self._costly if place == ACTIVE else self._error_backoff
        if place == ACTIVE:
            return self._active
        return self._backoff if element.unschedulable_plugins or element.pending_plugins else self._error_backoff

    def _by_place(self) -> tuple[tuple[str, KeyedHeap[Ready]], ...]:
        return (
            (ACTIVE, self._active),
            (ACTIVE, self._costly),
            (BACKOFF, self._backoff),
            (BACKOFF, self._error_backoff),
        )

    # --- taking out -----------------------------------------------------------------------------------------------

    def pop(self) -> tuple[str, QueuedPodInfo | QueuedPodGroup] | None:
        """The next active pod, else the next pod in backoff (but not after an error); of an equivalence group the next
        member.

        A group comes as a whole.
        """
        if self._costly_keys and self._is_costly_next():
            costly = self._costly.pop()
            if costly is not None and not isinstance(costly, EquivalenceGroup):
                return ACTIVE, costly
        for place, heap in ((ACTIVE, self._active), (BACKOFF, self._backoff)):
            element = heap.pop()
            if isinstance(element, EquivalenceGroup):
                queued = self.equivalence_groups.leave(element, element.best.key)
                if element:
                    heap.push(element.key, element)
                return place, queued
            if element is not None:
                return place, element
        return None

    def _is_costly_next(self) -> bool:
        return self.costly_turns.goes_first() or (not len(self._active) and self.costly_turns.has_credit)

    def heads_of_backoff(self) -> Iterator[Ready]:
        """The element of each backoff heap whose wait ends first."""
        heads = (heap.peek() for heap in (self._backoff, self._error_backoff))
        return (head for head in heads if head is not None)

    def take_out(self, element: Ready) -> None:
        """Remove an element from its place; an equivalence group or a group as a whole."""
        if isinstance(element, QueuedPodInfo):
            self.remove(element.key)
        elif isinstance(element, QueuedPodGroup):
            for heap, _ in self._heaps:  # its members may have changed, and with them which heap it would be put into
                heap.remove(element.key)
        elif element.place == UNSCHEDULABLE:
            self.parked.pop(element.key)
        else:
            self._heap(element, element.place).remove(element.key)

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Remove a pod from its place, wherever it is."""
        groups = self.equivalence_groups.by_pod
        if key in groups:
            return self._leave(groups[key], key)
        for heap, keys in self._heaps:
            if key in keys:
                queued = heap.remove(key)
                if isinstance(queued, QueuedPodInfo):
                    return queued
        parked, gates = self.waiting
        return self.unpark(key) if parked or gates else None

    def unpark(self, key: str) -> QueuedPodInfo | None:
        """Remove a pod outside of equivalence groups from the pool, or from behind its gate."""
        parked, gates = self.waiting
        if key in parked and isinstance(queued := self.parked.pop(key), QueuedPodInfo):
            return queued
        return self.gated.remove(key) if gates else None

    def give_up(self) -> Iterator[tuple[str, QueuedPodInfo]]:
        """Every pod, alone, with the place where it was; in each place in the order of arrival. These sub-queues end
        here.

        Groups must have left before (`GroupQueue.give_up`). Members leave their equivalence groups: code that
        reports to the members of an equivalence group must see that they are gone.
        """
        elements: list[tuple[str, Element]] = [
            (place, element)
            for place, heap in self._by_place()
            for element in heap
            if not isinstance(element, QueuedPodGroup)
        ]
        elements += [(UNSCHEDULABLE, element) for element in self.parked]
        elements += [(GATED, queued) for queued in self.gated]
        for place, element in elements:
            if isinstance(element, EquivalenceGroup):
                yield from ((place, self.equivalence_groups.leave(element, key)) for key in list(element.keys()))
            else:
                yield place, element

    def go_alone(self, queued: QueuedPodInfo) -> None:
        """Remove a pod from its equivalence group, if it is in one; it stays in the same place."""
        equivalence_group = self.equivalence_groups.of_pod(queued.key)
        if equivalence_group is not None:
            place = equivalence_group.place
            self._leave(equivalence_group, queued.key)
            self.put(queued, place)

    def join_class(self, name: Hashable, queued: QueuedPodInfo) -> EquivalenceGroup:
        """Park a pod that was just rejected together with all waiting pods of its class, wherever they are."""
        profile = queued.pod.pod.spec.scheduler_name
        before = self.equivalence_groups.of_class(name)
        if before is not None:
            self.take_out(before)
            self.count(before.rejectors, profile, -len(before))
        equivalence_group = self.equivalence_groups.join(name, queued)
        self.put(equivalence_group, UNSCHEDULABLE)
        self.count(equivalence_group.rejectors, profile, len(equivalence_group))
        return equivalence_group

    def _leave(self, equivalence_group: EquivalenceGroup, key: str) -> QueuedPodInfo:
        self.take_out(equivalence_group)
        member = self.equivalence_groups.leave(equivalence_group, key)
        if equivalence_group:
            self.put(equivalence_group, equivalence_group.place)
        return member

    # --- counting -------------------------------------------------------------------------------------------------

    def count_rejections(self, queued: QueuedPodInfo, change: int) -> None:
        """Add a pod (1) to the counts of its rejecting plugins, or remove it (-1)."""
        plugins = queued.unschedulable_plugins | queued.pending_plugins
        if plugins:
            self.count(plugins, queued.pod.pod.spec.scheduler_name, change)

    def count(self, plugins: Collection[str], profile: str, change: int) -> None:
        """Change the number of pods rejected by these plugins."""
        for plugin in plugins:
            self.rejections[plugin, profile] += change
            if self.rejections[plugin, profile] <= 0:
                del self.rejections[plugin, profile]
