"""However long a server asks us to wait, in whatever words, we wait from nothing to half a minute."""

import pytest

from kscheduler.client.errors import APIError, status_of
from kscheduler.client.retry_after import LONGEST_RETRY_AFTER_SECONDS, UNREADABLE_SECONDS, bounded, retry_after_of

DATE = "Sat, 28 Nov 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        pytest.param("7", 7.0, id="seconds"),
        pytest.param(" 7 ", 7.0, id="with spaces"),
        pytest.param("0", 0.0, id="at once"),
        pytest.param("1.5", 1.5, id="a fraction"),
        pytest.param("3600", LONGEST_RETRY_AFTER_SECONDS, id="an hour"),
        pytest.param("9" * 40, LONGEST_RETRY_AFTER_SECONDS, id="40 digits"),
        pytest.param("9" * 4000, LONGEST_RETRY_AFTER_SECONDS, id="4,000 digits"),
        pytest.param("1e400", LONGEST_RETRY_AFTER_SECONDS, id="beyond a float"),
        pytest.param("inf", LONGEST_RETRY_AFTER_SECONDS, id="infinite"),
        pytest.param("nan", UNREADABLE_SECONDS, id="not a number"),
        pytest.param("-5", UNREADABLE_SECONDS, id="negative"),
        pytest.param("-" + "9" * 400, UNREADABLE_SECONDS, id="very negative"),
        pytest.param("", UNREADABLE_SECONDS, id="empty"),
        pytest.param("soon", UNREADABLE_SECONDS, id="a word"),
        pytest.param("1, 2", UNREADABLE_SECONDS, id="two headers"),
        pytest.param("\u0967\u0968", 12.0, id="other digits"),
        pytest.param("Sat, 28 Nov 2026 12:00:20 GMT", 20.0, id="a date"),
        pytest.param("Sat, 28 Nov 2099 12:00:20 GMT", LONGEST_RETRY_AFTER_SECONDS, id="a late date"),
        pytest.param("Sat, 28 Nov 1999 12:00:20 GMT", UNREADABLE_SECONDS, id="a date that is over"),
        pytest.param("Sat, 99 Nov 2026 99:00:20 GMT", UNREADABLE_SECONDS, id="no date"),
    ],
)
def test_a_header_is_read_and_bounded(header: str, seconds: float) -> None:
    assert retry_after_of({"retry-after": header, "date": DATE}) == seconds


def test_without_a_header_nothing_is_queried() -> None:
    assert retry_after_of({"date": DATE}) is None


def test_a_date_beside_no_date_is_read_by_our_own_clock() -> None:
    assert retry_after_of({"retry-after": "Sat, 28 Nov 1999 12:00:20 GMT"}) == UNREADABLE_SECONDS


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        pytest.param(b'{"kind":"Status","details":{"retryAfterSeconds":5}}', 5.0, id="seconds"),
        pytest.param(b'{"kind":"Status","details":{"retryAfterSeconds":86400}}', 30.0, id="a day"),
        pytest.param(b'{"kind":"Status","details":{"retryAfterSeconds":-1}}', 1.0, id="negative"),
        pytest.param(b'{"kind":"Status","details":{"retryAfterSeconds":1e400}}', None, id="beyond a float"),
        pytest.param(b'{"kind":"Status","details":{"retryAfterSeconds":"7"}}', None, id="text"),
        pytest.param(b'{"kind":"Status","details":[]}', None, id="other details"),
    ],
)
def test_a_body_is_bounded_and_its_odd_details_do_not_cost_the_rest(body: bytes, seconds: float | None) -> None:
    refusal = APIError(status_of(429, body))
    assert (refusal.code, refusal.is_status, refusal.retry_after_seconds) == (429, True, seconds)


def test_a_bound_holds_for_whoever_makes_a_refusal() -> None:
    assert bounded(float("nan")) == UNREADABLE_SECONDS
    assert APIError(status_of(429, b"{}"), retry_after_seconds=86_400.0).retry_after_seconds == 30.0
