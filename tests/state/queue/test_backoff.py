"""Backoff: 1, 2, 4, 8, 10, 10 ... seconds, down to whole seconds, and the last second still waits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.state.queue.backoff import BackoffPolicy, is_backing_off
from tests.builders import queued_pod

POLICY = BackoffPolicy()


@pytest.mark.parametrize(
    ("rejections", "errors", "seconds"),
    [
        (0, 0, 0),
        (1, 0, 1),
        (2, 0, 2),
        (3, 0, 4),
        (4, 0, 8),
        (5, 0, 10),
        (6, 0, 10),
        (10**6, 0, 10),
        (5, 1, 1),
        (0, 3, 4),
        (1, 10**9, 10),
    ],
)
def test_errors_in_a_row_count_before_rejections(rejections: int, errors: int, seconds: float) -> None:
    queued = queued_pod()
    queued.unschedulable_count, queued.consecutive_errors_count = rejections, errors
    assert POLICY.duration(queued) == seconds


@given(st.floats(0, 4e9), st.integers(1, 200), st.floats(0.1, 100), st.floats(0.1, 1000))
def test_the_wait_ends_on_a_whole_second_within_the_last(
    timestamp: float, count: int, initial: float, most: float
) -> None:
    queued = queued_pod()
    queued.timestamp, queued.unschedulable_count = timestamp, count
    policy = BackoffPolicy(initial, most)
    expiry = policy.expiration(queued)
    assert expiry == int(expiry)
    assert 0 <= timestamp + policy.duration(queued) - expiry < 1
    assert policy.duration(queued) <= most


@pytest.mark.parametrize(("now", "waits"), [(1009.99, True), (1010.0, True), (1010.999, True), (1011.0, False)])
def test_the_second_of_the_end_still_counts_as_waiting(now: float, waits: bool) -> None:
    queued = queued_pod()
    queued.backoff_expiration = 1010.0
    assert is_backing_off(queued, now) is waits


def test_a_maximum_of_zero_disables_the_wait() -> None:
    queued = queued_pod()
    queued.timestamp, queued.unschedulable_count = 1000.5, 3
    queued.backoff_expiration = BackoffPolicy(1.0, 0.0).expiration(queued)
    assert queued.backoff_expiration == 0
    assert not is_backing_off(queued, 0.0)
