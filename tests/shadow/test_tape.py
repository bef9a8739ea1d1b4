"""Changes are played in the order of their writes, however they arrive."""

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.kinds import NODES, PODS
from kscheduler.shadow import tape as tapes
from kscheduler.shadow.tape import Tape
from tests.builders import make_node, make_pod


def test_a_change_waits_until_what_was_written_before_it_has_arrived() -> None:
    tape = Tape(2.0)
    tape.add(PODS, None, make_pod("late"), "12", now=100.0)
    assert tape.next_in(101.0) == 1.0
    tape.add(NODES, None, make_node("early"), "11", now=101.5)
    assert tape.next_in(102.0) == 1.5, "what was written first is played first, and has not waited long enough"
    assert tape.next_in(103.5) == 0.0
    assert [tape.pop().version, tape.pop().version] == [11, 12]
    assert tape.next_in(104.0) is None


@given(st.permutations(range(1, 40)), st.data())
def test_any_arrival_is_played_in_the_order_of_the_writes(versions: list[int], data: st.DataObject) -> None:
    tape = Tape(1.0)
    for version in versions:
        tape.add(PODS, None, make_pod(f"p{version}"), str(version), now=data.draw(st.floats(0, 1)))
    assert [change.version for change in tape.ahead(100)] == sorted(versions)
    assert [tape.pop().version for _ in versions] == sorted(versions)
    assert not len(tape)


def test_a_deletion_that_only_a_list_shows_counts_as_the_newest() -> None:
    tape = Tape(1.0)
    tape.add(PODS, None, make_pod("a"), "30", now=0.0)
    tape.add(PODS, make_pod("b"), None, "", now=0.1)
    tape.add(PODS, None, make_pod("c"), "31", now=0.2)
    assert [change.number for change in tape.ahead(10)] == [1, 2, 3]


def test_a_full_tape_is_played_without_waiting() -> None:
    tape = Tape(60.0)
    for number in range(tapes.MOST_CHANGES + 1):
        tape.add(PODS, None, None, str(number), now=0.0)
    assert tape.next_in(0.0) == 0.0
    tape.pop()
    assert tape.next_in(0.0) == 60.0


def test_played_changes_are_let_go() -> None:
    tape = Tape(0.0)
    for number in range(50_000):
        tape.add(PODS, None, None, str(number), now=0.0)
        if number >= 10:
            tape.pop()
    assert len(tape) == 10
    assert len(tape._changes) < 10_000
