"""One line, then silence for a fixed time; what was left out is counted once."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.telemetry.logs.storms import RecurringTrouble, Throttle


def test_the_first_line_is_written_and_the_next_when_the_quiet_time_is_over() -> None:
    throttle = Throttle(60.0)
    assert [throttle.admits(now) for now in (0.0, 0.0, 59.9, 60.0, 60.1, 120.0)] == [
        True,
        False,
        False,
        True,
        False,
        True,
    ]


def test_what_was_left_out_is_reported_once() -> None:
    throttle = Throttle(60.0)
    assert (throttle.admits(5.0), throttle.take_left_out()) == (True, 0)
    assert not any(throttle.admits(now) for now in (6.0, 7.0, 64.9))
    assert (throttle.admits(65.0), throttle.take_left_out(), throttle.take_left_out()) == (True, 3, 0)


def test_whoever_only_asks_changes_nothing() -> None:
    throttle = Throttle(60.0)
    assert not throttle.is_quiet(0.0)
    assert throttle.admits(0.0)
    assert (throttle.is_quiet(59.0), throttle.is_quiet(60.0), throttle.take_left_out()) == (True, False, 0)


@given(st.lists(st.floats(0, 50), max_size=60))
def test_each_line_is_written_or_counted_and_two_are_never_closer_than_the_quiet_time(pauses: list[float]) -> None:
    throttle, now, written, counted = Throttle(60.0), 0.0, [], 0
    for pause in pauses:
        now += pause
        if throttle.admits(now):
            written.append(now)
            counted += throttle.take_left_out()
    counted += throttle.take_left_out()
    assert len(written) + counted == len(pauses)
    assert all(later - earlier >= 60.0 - 1e-9 for earlier, later in pairwise(written))


def test_a_trouble_that_comes_and_goes_is_reported_once_a_minute_with_its_end_and_how_often_it_was_there() -> None:
    trouble = RecurringTrouble(60.0)
    reported: list[tuple[int, object]] = []
    for second in range(180):
        if second % 10 < 5:
            if trouble.is_due(float(second)):
                reported.append((second, trouble.take_untold()))
        elif second % 10 == 5 and trouble.ends():
            reported.append((second, "over"))
    assert reported == [
        (0, {}),
        (5, "over"),
        (60, {"times_since": 5}),
        (65, "over"),
        (120, {"times_since": 5}),
        (125, "over"),
    ]


def test_what_has_become_worse_is_reported_at_once() -> None:
    trouble = RecurringTrouble(60.0)
    assert trouble.is_due(0.0)
    assert trouble.ends()
    assert not trouble.is_due(5.0)
    assert trouble.is_due(6.0, at_once=True)
    assert trouble.ends()


def test_what_does_not_last_is_not_reported() -> None:
    trouble = RecurringTrouble(60.0, grace_seconds=5.0)
    assert [trouble.is_due(second) for second in (0.0, 2.0, 4.9)] == [False] * 3
    assert not trouble.ends()
    assert not trouble.is_there
    assert [trouble.is_due(second) for second in (6.0, 8.0, 11.0, 13.0, 71.0)] == [False, False, True, False, True]
    assert trouble.ends()
