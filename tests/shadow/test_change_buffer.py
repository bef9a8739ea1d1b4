"""Changes are played in the order of their writes, however they arrive."""

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.kinds import NODES, PODS
from kscheduler.shadow import change_buffer as tapes
from kscheduler.shadow.change_buffer import ChangeBuffer
from tests.builders import make_node, make_pod


def test_a_change_waits_until_what_was_written_before_it_has_arrived() -> None:
    change_buffer = ChangeBuffer(2.0)
    change_buffer.add(PODS, None, make_pod("late"), "12", now=100.0)
    assert change_buffer.next_in(101.0) == 1.0
    change_buffer.add(NODES, None, make_node("early"), "11", now=101.5)
    assert change_buffer.next_in(102.0) == 1.5, "what was written first is played first, and has not waited long enough"
    assert change_buffer.next_in(103.5) == 0.0
    assert [change_buffer.pop().version, change_buffer.pop().version] == [11, 12]
    assert change_buffer.next_in(104.0) is None


@given(st.permutations(range(1, 40)), st.data())
def test_any_arrival_is_played_in_the_order_of_the_writes(versions: list[int], data: st.DataObject) -> None:
    change_buffer = ChangeBuffer(1.0)
    for version in versions:
        change_buffer.add(PODS, None, make_pod(f"p{version}"), str(version), now=data.draw(st.floats(0, 1)))
    assert [change.version for change in change_buffer.ahead(100)] == sorted(versions)
    assert [change_buffer.pop().version for _ in versions] == sorted(versions)
    assert not len(change_buffer)


def test_a_deletion_that_only_a_list_shows_counts_as_the_newest() -> None:
    change_buffer = ChangeBuffer(1.0)
    change_buffer.add(PODS, None, make_pod("a"), "30", now=0.0)
    change_buffer.add(PODS, make_pod("b"), None, "", now=0.1)
    change_buffer.add(PODS, None, make_pod("c"), "31", now=0.2)
    assert [change.number for change in change_buffer.ahead(10)] == [1, 2, 3]


def test_a_full_tape_is_played_without_waiting() -> None:
    change_buffer = ChangeBuffer(60.0)
    for number in range(tapes.MAX_CHANGES + 1):
        change_buffer.add(PODS, None, None, str(number), now=0.0)
    assert change_buffer.next_in(0.0) == 0.0
    change_buffer.pop()
    assert change_buffer.next_in(0.0) == 60.0


def test_played_changes_are_let_go() -> None:
    change_buffer = ChangeBuffer(0.0)
    for number in range(50_000):
        change_buffer.add(PODS, None, None, str(number), now=0.0)
        if number >= 10:
            change_buffer.pop()
    assert len(change_buffer) == 10
    assert len(change_buffer._changes) < 10_000
