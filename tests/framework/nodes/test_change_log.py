"""The log of changed rows tells each reader what is behind its position, or that it has come too late."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.framework.nodes.change_log import ChangeLog


def since(log: ChangeLog, position: int) -> list[int] | None:
    rows = log.since(position)
    return None if rows is None else rows.tolist()


def test_rows_come_back_once_each_and_in_order() -> None:
    log = ChangeLog()
    for row in (7, 3, 7, 5):
        log.append(row)
    assert since(log, 0) == [3, 5, 7]
    assert since(log, 2) == [5, 7]
    assert since(log, 4) == []


@given(st.lists(st.integers(0, 5)), st.integers(1, 20), st.data())
def test_a_log_of_any_length_says_the_truth_or_that_it_has_forgotten(
    rows: list[int], longest: int, data: st.DataObject
) -> None:
    log = ChangeLog(longest)
    for at, row in enumerate(rows):
        log.append(row)
        position = data.draw(st.integers(0, at + 1))
        changed = since(log, position)
        assert changed in (None, sorted(set(rows[position : at + 1])))
        assert changed is not None or at + 1 - position >= longest // 2
    assert log.position == len(rows)


@pytest.mark.parametrize("longest", [1, 2, 3])
def test_the_last_change_is_never_forgotten(longest: int) -> None:
    log = ChangeLog(longest)
    for row in range(10):
        log.append(row)
        assert since(log, row) == [row]
