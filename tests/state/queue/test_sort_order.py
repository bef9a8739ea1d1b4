"""A QueueSort plugin that fails loses no pod, spoils only the order of its own pods, and causes no busy loop."""

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import precondition, rule
from msgspec.structs import replace

from kscheduler.framework.plugin_listener import SLOW_CALL_SECONDS
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.scheduling.runtime import guard
from kscheduler.scheduling.runtime.sort_keys import SortOrder
from kscheduler.state.queue.heap import KeyedHeap
from kscheduler.state.queue.scheduling_queue import SchedulingQueue
from tests.builders import make_pod
from tests.state.queue.hostile_keys import MOODS, Complaints, HostileSort
from tests.state.queue.model import policy
from tests.state.queue.test_queue_against_model import QueueMachine

SOUND = {"number", "text", "tuple"}
UNSOUND = sorted(MOODS.keys() - SOUND - {"tires out"})


def hostile_queue(plugin: HostileSort, complaints: Complaints) -> SchedulingQueue:
    """A queue that goes by the plugin."""
    return SchedulingQueue(replace(policy([]), sort_key=SortOrder(plugin, complaints)))


class HostileQueueMachine(QueueMachine):
    """The same life of a queue, while the plugin gives another kind of key from one call to the next.

    Everything holds that holds of the queue, but in which order pods are popped: no pod is lost or in two sub-queues,
    and each pod that is counted as ready can be popped.
    """

    def __init__(self) -> None:
        super().__init__()
        self.plugin = HostileSort()
        self.queue = SchedulingQueue(replace(policy(self.arrivals), sort_key=SortOrder(self.plugin, Complaints())))

    @rule(mood=st.sampled_from(sorted(MOODS)))
    def the_plugin_changes_its_mood(self, mood: str) -> None:
        self.plugin.mood = mood

    @precondition(lambda self: self.has_ready())
    @rule()
    def pop(self) -> None:
        ready = {name for name, entry in self.waiting.items() if entry.place == "active"}
        early = {name for name, entry in self.waiting.items() if entry.place == "backoff"}
        assert self.queue.has_ready()
        queued = self.queue.pop_nowait(self.now)
        assert queued is not None
        assert queued.pod.name in (ready or early)
        entry = self.waiting.pop(queued.pod.name)
        if not ready:
            assert all(entry.expiry <= self.waiting[name].expiry for name in early if name in self.waiting)
        entry.first_attempt = entry.first_attempt or self.now
        entry.attempts += 1
        entry.missed = []
        self.in_flight[queued.pod.uid] = (queued, entry)


TestHostileQueue = HostileQueueMachine.TestCase
TestHostileQueue.settings = settings(stateful_step_count=60)


@pytest.mark.parametrize("mood", UNSOUND)
def test_a_pod_with_an_unsound_key_goes_behind_the_others_by_priority_and_time(mood: str) -> None:
    plugin, complaints = HostileSort(mood), Complaints()
    queue = hostile_queue(plugin, complaints)
    for name, priority in (("bad-low", 0), ("bad-high", 5), ("bad-late", 5)):
        queue.add(PodInfo(make_pod(name, priority=priority)), 10.0 + len(name))
    plugin.mood = "number"
    queue.add(PodInfo(make_pod("good")), 20.0)
    popped = [queue.pop_nowait(21.0) for _ in range(5)]
    assert [queued.pod.name for queued in popped if queued is not None] == ["good", "bad-high", "bad-late", "bad-low"]
    assert not queue.has_ready()
    assert len(complaints.failures) == 3
    plugin_name, point, pod, _, then = complaints.failures[0]
    assert (plugin_name, point, pod) == ("Hostile", "QueueSort", "default/bad-low")
    assert "behind all others" in then


def test_of_two_keys_that_do_not_compare_the_later_is_unsound() -> None:
    plugin, complaints = HostileSort("number"), Complaints()
    queue = hostile_queue(plugin, complaints)
    queue.add(PodInfo(make_pod("number")), 1.0)
    plugin.mood = "text"
    queue.add(PodInfo(make_pod("text", priority=9)), 2.0)
    plugin.mood = "number"
    queue.add(PodInfo(make_pod("numbers")), 3.0)
    assert [queue.pop_nowait(4.0).pod.name for _ in range(3)] == ["numbers", "number", "text"]  # type: ignore[union-attr]
    ((_, _, pod, failure, _),) = complaints.failures
    assert pod == "default/text"
    assert failure.startswith("TypeError")


def test_equal_keys_keep_the_order_of_arrival() -> None:
    order = SortOrder(HostileSort("number"), Complaints())
    heap: KeyedHeap[QueuedPodInfo] = KeyedHeap(order)
    for name in "cabd":
        heap.push(name, QueuedPodInfo(PodInfo(make_pod(name))))
    assert [heap.pop().pod.name for _ in range(4)] == ["c", "a", "b", "d"]  # type: ignore[union-attr]


def test_a_slow_key_is_reported_with_plugin_pod_and_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([1.0, 1.0 + SLOW_CALL_SECONDS / 2, 2.0, 4.5])
    monkeypatch.setattr(guard, "perf_counter", lambda: next(readings))
    complaints = Complaints()
    order = SortOrder(HostileSort(), complaints)
    order(QueuedPodInfo(PodInfo(make_pod("quick"))))
    order(QueuedPodInfo(PodInfo(make_pod("slow"))))
    assert complaints.slow_calls == [("Hostile", "QueueSort", "default/slow", 2.5, 0)]


# --- the heap by itself


class _Fragile:
    """An item whose order raises on demand."""

    is_broken = False

    def __init__(self, number: int) -> None:
        self.number = number

    def __lt__(self, other: "_Fragile") -> bool:
        if _Fragile.is_broken:
            raise ZeroDivisionError
        return self.number < other.number


@pytest.mark.parametrize("replaces", [False, True])
def test_a_comparison_that_raises_in_a_push_changes_nothing(monkeypatch: pytest.MonkeyPatch, replaces: bool) -> None:
    heap: KeyedHeap[_Fragile] = KeyedHeap(lambda item: item)
    items = {str(number): _Fragile(number) for number in (5, 3, 4, 1)}
    for key, item in items.items():
        heap.push(key, item)
    monkeypatch.setattr(_Fragile, "is_broken", True)
    with pytest.raises(ZeroDivisionError):
        heap.push("3" if replaces else "new", _Fragile(0))
    monkeypatch.setattr(_Fragile, "is_broken", False)
    assert dict(zip(heap.keys(), heap, strict=True)) == items
    assert [heap.pop().number for _ in range(4)] == [1, 3, 4, 5]  # type: ignore[union-attr]
    assert heap.pop() is None


def test_a_comparison_that_raises_in_a_pop_loses_nobody_and_leaves_no_ghost(monkeypatch: pytest.MonkeyPatch) -> None:
    heap: KeyedHeap[_Fragile] = KeyedHeap(lambda item: item)
    for number in (9, 8, 7, 6, 5, 4):
        heap.push(str(number), _Fragile(number))
    monkeypatch.setattr(_Fragile, "is_broken", True)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            heap.pop()
    assert len(heap) == 6
    monkeypatch.setattr(_Fragile, "is_broken", False)
    popped = [heap.pop() for _ in range(6)]
    assert {item.number for item in popped if item is not None} == {4, 5, 6, 7, 8, 9}
    assert heap.pop() is None
    assert len(heap) == 0
