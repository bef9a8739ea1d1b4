"""The heap with keys against a sorted dictionary."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kscheduler.state.queue.heap import KeyedHeap

KEYS = st.sampled_from([f"key-{number}" for number in range(12)])


class KeyedHeapMachine(RuleBasedStateMachine):
    """Pushes, replacements, removals by key and pops, enough of them to compact."""

    def __init__(self) -> None:
        super().__init__()
        self.heap: KeyedHeap[tuple[int, str]] = KeyedHeap(lambda item: item[0])
        self.model: dict[str, tuple[int, str]] = {}

    @rule(key=KEYS, order=st.integers(0, 9))
    def push(self, key: str, order: int) -> None:
        self.heap.push(key, (order, key))
        self.model[key] = (order, key)

    @rule(orders=st.lists(st.integers(0, 9), min_size=40, max_size=80), key=KEYS)
    def replace_often(self, orders: list[int], key: str) -> None:
        for order in orders:
            self.push(key, order)

    @rule(key=KEYS)
    def remove(self, key: str) -> None:
        assert self.heap.remove(key) == self.model.pop(key, None)

    @rule()
    def pop(self) -> None:
        item = self.heap.pop()
        if item is None:
            assert not self.model
            return
        assert item[0] == min(order for order, _ in self.model.values())
        assert self.model.pop(item[1]) == item

    @invariant()
    def the_heap_holds_what_the_model_holds(self) -> None:
        assert len(self.heap) == len(self.model)
        assert sorted(self.heap) == sorted(self.model.values())
        for key in ("key-0", "key-5", "absent"):
            assert self.heap.get(key) == self.model.get(key)
            assert (key in self.heap) is (key in self.model)
        head = self.heap.peek()
        assert (head[0] if head else None) == min((order for order, _ in self.model.values()), default=None)


TestKeyedHeap = KeyedHeapMachine.TestCase


def test_equals_come_out_in_the_order_they_went_in() -> None:
    heap: KeyedHeap[str] = KeyedHeap(lambda _: 0)
    for name in "cab":
        heap.push(name, name)
    assert [heap.pop(), heap.pop(), heap.pop(), heap.pop()] == ["c", "a", "b", None]


@pytest.mark.parametrize("count", [1, 10, 1000])
def test_dead_entries_do_not_pile_up(count: int) -> None:
    heap: KeyedHeap[int] = KeyedHeap(lambda item: -item)
    for number in range(count * 200):
        heap.push(str(number % count), number)
    # It is looked at each 64th entry whether more than 64 of them are dead and not fewer than those alive.
    assert len(heap._line) + len(heap._heap) <= 2 * count + 2 * 64 + 1
    assert [heap.pop() for _ in range(count)] == list(range(count * 200 - 1, count * 199 - 1, -1))
