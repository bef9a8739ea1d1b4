"""When a search for victims has enough candidates, against a walk over the ring one node at a time."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kscheduler.plugins.default_preemption.choice import Candidates, Shortlist


def candidates(broken_by_row: dict[int, int]) -> Candidates:
    """Rows with the budgets that each would break."""
    rows = np.array(sorted(broken_by_row), dtype=np.intp)
    broken = np.array([broken_by_row[row] for row in rows.tolist()], dtype=np.int64)
    zeros = np.zeros(len(rows), dtype=np.int64)
    return Candidates(rows, broken, zeros, zeros, zeros, zeros.astype(np.float64), zeros.astype(np.intp), lambda _: [])


def walked(ring: Sequence[int], broken_by_row: dict[int, int], wanted: int) -> set[int]:
    """The rows that a walk keeps: all that break nothing, as many as are wanted of the others, until it is enough."""
    clean: list[int] = []
    breaking: list[int] = []
    for row in ring:
        if clean and len(clean) + len(breaking) >= wanted:
            break
        if broken_by_row.get(row) == 0:
            clean.append(row)
        elif row in broken_by_row and len(breaking) < wanted:
            breaking.append(row)
    return {*clean, *breaking}


ONE_BY_ONE, ALL_AT_ONCE = [1] * 14, [14] * 14


@example(broken=[0, 0, 0, 0, 0, 0], wanted=4, offset=0, sizes=ONE_BY_ONE, parts=1)
@example(broken=[0, 0, 0, 0, 0, 0], wanted=4, offset=2, sizes=[3] * 14, parts=2)
@example(broken=[1, 1, 1, 0, 1, 0], wanted=2, offset=0, sizes=ALL_AT_ONCE, parts=1)
@example(broken=[1, 0], wanted=1, offset=0, sizes=ALL_AT_ONCE, parts=1)
@given(
    broken=st.lists(st.sampled_from([None, 0, 0, 1, 2]), min_size=1, max_size=14),
    wanted=st.integers(0, 6),
    offset=st.integers(0, 13),
    sizes=st.lists(st.integers(1, 6), min_size=14, max_size=14),
    parts=st.integers(1, 3),
)
def test_the_batches_keep_what_a_walk_over_the_ring_keeps(
    broken: list[int | None], wanted: int, offset: int, sizes: list[int], parts: int
) -> None:
    by_row = {row: each for row, each in enumerate(broken) if each is not None}
    ring = [(offset + step) % len(broken) for step in range(len(broken))]
    shortlist, kept, at = Shortlist(wanted), set[int](), 0
    for size in sizes:
        batch = ring[at : at + size]
        if shortlist.is_full or not batch:
            break
        found = [
            candidates({row: by_row[row] for row in part.tolist() if row in by_row})
            for part in np.array_split(np.array(sorted(batch)), parts)
        ]
        for one in shortlist.take(np.array(batch, dtype=np.intp), [one for one in found if len(one)]):
            kept.update(one.rows.tolist())
        at += size
    assert kept == walked(ring, by_row, wanted)


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        pytest.param(1.0, 16, id="all were candidates: no more than are wanted"),
        pytest.param(0.5, 34, id="every second one: twice as many, and a sixteenth more"),
        pytest.param(0.01, 68, id="few: four times as many at most"),
    ],
)
def test_a_search_begins_with_the_share_of_the_last_one(share: float, expected: int) -> None:
    assert Shortlist(16, share).likely_enough(0) == expected


def test_a_first_search_takes_every_node_for_a_candidate() -> None:
    assert Shortlist(16).likely_enough(0) == 16


def test_a_search_goes_on_by_its_own_share() -> None:
    shortlist = Shortlist(16)
    shortlist.take(np.arange(8), [candidates({0: 0, 1: 1, 2: 0, 3: 1})])
    assert shortlist.missing == 12
    assert shortlist.likely_enough(8) == 27, "half of them did: 24, and an eighth more"


def test_a_search_that_has_found_nobody_tries_as_many_again() -> None:
    shortlist = Shortlist(16)
    assert shortlist.take(np.arange(8), []) == []
    assert shortlist.likely_enough(8) == 8


def test_a_search_that_lacks_only_one_without_broken_budgets_tries_as_many_again() -> None:
    shortlist = Shortlist(2)
    shortlist.take(np.arange(8), [candidates({0: 1, 1: 1})])
    assert (shortlist.missing, shortlist.is_full) == (0, False)
    assert shortlist.likely_enough(8) == 8
