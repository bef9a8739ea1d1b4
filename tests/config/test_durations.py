"""Durations are read and written as Go does."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.config.durations import Duration, DurationError, format_duration, parse_duration, seconds


@pytest.mark.parametrize(
    ("text", "nanoseconds", "printed"),
    [
        ("15s", 15_000_000_000, "15s"),
        ("1m30s", 90_000_000_000, "1m30s"),
        ("600s", 600_000_000_000, "10m0s"),
        ("1.5h", 5_400_000_000_000, "1h30m0s"),
        ("-2m", -120_000_000_000, "-2m0s"),
        ("+250ms", 250_000_000, "250ms"),
        ("1.5us", 1_500, "1.5µs"),
        ("7ns", 7, "7ns"),
        (".5s", 500_000_000, "500ms"),
        ("2.s", 2_000_000_000, "2s"),
        ("0", 0, "0s"),
        ("1h1ns", 3_600_000_000_001, "1h0m0.000000001s"),
    ],
)
def test_a_duration_is_read_and_printed_as_go_does(text: str, nanoseconds: int, printed: str) -> None:
    duration = parse_duration(text)
    assert duration == nanoseconds
    assert str(duration) == printed


@pytest.mark.parametrize("text", ["", "15", "s", "15 s", "1d", "-", "1.2.3s", ".s", "300000h1s1", "1e3s", "9" * 300])
def test_what_go_refuses_is_refused(text: str) -> None:
    with pytest.raises(DurationError):
        parse_duration(text)


def test_longer_than_an_int64_of_nanoseconds_is_refused() -> None:
    with pytest.raises(DurationError, match="292 years"):
        parse_duration("3000000h")


def test_a_missing_unit_is_answered_with_advice() -> None:
    with pytest.raises(DurationError, match='write "15s" for seconds'):
        parse_duration("15")


def test_seconds_go_both_ways() -> None:
    assert seconds(1.5) == Duration(1_500_000_000)
    assert seconds(1.5).seconds == 1.5


@settings(deadline=None)
@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_every_duration_survives_being_printed_and_read(nanoseconds: int) -> None:
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds


@settings(deadline=None)
@given(st.text(alphabet="0123456789.+-hmsuµn ", max_size=30))
def test_no_text_raises_anything_but_duration_error(text: str) -> None:
    with suppress(DurationError):
        parse_duration(text)
