"""The leaders, however points move: exactly the passing rows with the most, each once, with its hash."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.scheduling.classes.leaders import Leaders
from tests.effort import example_count

ROWS = 8
HASHES = np.arange(100, 100 + ROWS, dtype=np.uint64)

points = st.lists(st.integers(0, 2), min_size=ROWS, max_size=ROWS)
moves = st.lists(st.tuples(st.integers(0, ROWS - 1), st.none() | st.integers(0, 3)), max_size=30)


def reported(leaders: Leaders) -> dict[int, int]:
    rows = leaders.rows.tolist()
    assert len(rows) == len(set(rows))
    return dict(zip(rows, leaders.hashes.tolist(), strict=True))


def best(points_of: dict[int, int]) -> dict[int, int]:
    most = max(points_of.values())
    return {row: 100 + row for row, its in points_of.items() if its == most}


@settings(max_examples=example_count(300), deadline=None)
@given(points, moves)
def test_they_are_those_with_the_most_points_after_every_move_or_nothing_is_known(
    first: list[int], moved: list[tuple[int, int | None]]
) -> None:
    leaders, points_of = Leaders(), dict(enumerate(first))
    leaders.settle(np.arange(ROWS), np.array(first, dtype=np.int64), HASHES)
    assert reported(leaders) == best(points_of)
    for row, its in moved:
        leaders.move(row, its, HASHES)
        points_of.pop(row, None)
        if its is not None:
            points_of[row] = its
        if leaders.count:
            assert reported(leaders) == best(points_of)


def test_while_only_leaders_fall_behind_nothing_is_looked_for_anew() -> None:
    leaders = Leaders()
    leaders.settle(np.arange(ROWS), np.full(ROWS, 7, dtype=np.int64), HASHES)
    for row in range(ROWS - 1):
        leaders.move(row, 6, HASHES)
        assert leaders.count
        assert len(leaders.rows) == ROWS - 1 - row
    leaders.move(ROWS - 1, None, HASHES)
    assert not leaders.count


def test_whoever_comes_up_to_the_leaders_is_one_of_them_and_whoever_passes_them_leads_alone() -> None:
    leaders = Leaders()
    leaders.settle(np.array([2, 5]), np.array([1, 4], dtype=np.int64), HASHES)
    leaders.move(2, 4, HASHES)
    leaders.move(3, 4, HASHES)
    assert reported(leaders) == {5: 105, 2: 102, 3: 103}
    leaders.move(6, 5, HASHES)
    assert reported(leaders) == {6: 106}
    leaders.move(3, 5, HASHES)
    assert reported(leaders) == {6: 106, 3: 103}
