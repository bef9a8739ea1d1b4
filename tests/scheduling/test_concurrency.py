"""How many requests are on the wire: creeps up, creeps down, halves on 429."""

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.scheduling.attempt.concurrency import AdaptiveLimit


def full(limit: AdaptiveLimit) -> None:
    """Take every place."""
    while limit.has_room():
        limit.begin()


def test_places_are_taken_and_given_back() -> None:
    limit = AdaptiveLimit(2, 8)
    full(limit)
    assert (limit.statistics().in_use, limit.has_room()) == (2, False)
    limit.end()
    assert limit.has_room()


def test_brisk_answers_with_all_places_taken_grow_it_by_about_one_per_round() -> None:
    limit = AdaptiveLimit(4, 100)
    for _ in range(5):
        full(limit)
        limit.answered(0.01)
    assert limit.statistics().limit == 5


def test_idle_places_do_not_grow_it() -> None:
    limit = AdaptiveLimit(4, 100)
    limit.begin()
    for _ in range(100):
        limit.answered(0.01)
    assert limit.statistics().limit == 4


def test_slow_answers_shrink_it_to_one_at_least() -> None:
    limit = AdaptiveLimit(8, 100)
    limit.answered(0.001)
    for _ in range(200):
        limit.answered(10.0)
    assert limit.statistics().limit == 1


def test_a_new_normal_is_accepted_in_time() -> None:
    """The floor forgets a faster past; else one lucky answer would keep the limit down for ever."""
    limit = AdaptiveLimit(4, 8)
    limit.answered(0.001)
    for _ in range(5_000):
        full(limit)
        limit.answered(0.01)
    assert limit.statistics().limit == 8


def test_a_burst_of_refusals_is_one_cut() -> None:
    limit = AdaptiveLimit(16, 64)
    limit.refused()
    assert limit.statistics().limit == 8
    for _ in range(6):
        limit.refused()
    assert limit.statistics().limit == 8
    for _ in range(8):
        limit.answered(0.01)
    limit.refused()
    assert limit.statistics().limit == 4


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e6))), st.integers(1, 64), st.integers(1, 64))
def test_it_stays_between_one_and_the_most(answers: list[float | None], start: int, most: int) -> None:
    limit = AdaptiveLimit(start, most)
    for seconds in answers:
        full(limit)
        if seconds is None:
            limit.refused()
        else:
            limit.answered(seconds)
        limit.end()
        assert 1 <= limit.statistics().limit <= max(start, most)
