"""The reflector's rules, without I/O."""

import random

import pytest

from kscheduler.client.errors import APIError, APIStatus, NetworkError, NotSentError, StalledError, _WireDetails
from kscheduler.informers.progress import NextStep, Progress, RequestKind
from kscheduler.informers.reflector import INACTIVITY_SECONDS


def refusal(code: int, reason: str = "", message: str = "", retry_after: float | None = None) -> APIError:
    details = _WireDetails(retry_after_seconds=retry_after)
    return APIError(APIStatus(code=code, reason=reason, message=message, details=details))


def fresh(*, watch_list: bool = False, consistent: bool = True, selector: str = "") -> Progress:
    return Progress(random.Random(1), field_selector=selector, consistent=consistent, watch_list=watch_list)


def watching(version: str = "10") -> Progress:
    progress = fresh()
    progress.listed(version)
    return progress


def test_the_first_list_is_consistent_and_paged() -> None:
    request = fresh(selector="a!=b").next_request()
    assert (request.want, request.params) == (RequestKind.LIST, {"fieldSelector": "a!=b", "limit": "500"})


def test_the_first_list_takes_any_version_where_the_user_wants_it() -> None:
    assert fresh(consistent=False).next_request().params == {"resourceVersion": "0", "limit": "500"}


def test_a_continued_page_carries_the_token_and_no_version() -> None:
    assert fresh(consistent=False).page_params("tok") == {"limit": "500", "continue": "tok"}


def test_a_watch_begins_at_the_lists_version_with_bookmarks_and_a_random_timeout() -> None:
    seconds = set()
    for seed in range(20):
        progress = Progress(random.Random(seed), watch_list=False)
        progress.listed("10")
        request = progress.next_request()
        assert request.want is RequestKind.WATCH
        seconds.add(int(request.params.pop("timeoutSeconds")))
        assert request.params == {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "10"}
    assert len(seconds) > 5
    assert all(300 <= one <= 600 for one in seconds)


def seconds_of_next_watch(progress: Progress) -> int:
    request = progress.next_request()
    assert request.want is RequestKind.WATCH, "no list"
    return int(request.params["timeoutSeconds"])


def test_after_a_silent_watch_each_one_ends_before_it_counts_as_silent_until_something_happens() -> None:
    """That it ends in order shows that it was alive; a bookmark comes with it, if there is a newer version."""
    progress = fresh()
    progress.listed("10")
    assert seconds_of_next_watch(progress) >= 300
    assert not progress.watch_broke(StalledError("silent"), 45.0).back_off
    for version in ("20", "30"):
        seconds = seconds_of_next_watch(progress)
        assert seconds + 5 <= INACTIVITY_SECONDS
        progress.saw("BOOKMARK", version)
        assert progress.watch_ended(float(seconds)) == NextStep("quiet")
    assert progress.next_request().params["resourceVersion"] == "30"
    progress.saw("ADDED", "31")
    assert seconds_of_next_watch(progress) >= 300
    assert progress.watch_ended(300.0) == NextStep("ended")


def test_a_quiet_watch_that_ends_long_before_its_time_was_ended_by_somebody_else() -> None:
    progress = fresh()
    progress.listed("10")
    progress.watch_broke(StalledError("silent"), 45.0)
    seconds_of_next_watch(progress)
    assert progress.watch_ended(5.0) == NextStep("ended")


def test_a_watch_that_was_not_answered_is_no_quiet_one() -> None:
    progress = fresh()
    progress.listed("10")
    assert progress.watch_broke(StalledError("no answer"), 30.0, was_open=False).back_off
    assert seconds_of_next_watch(progress) >= 300


def test_a_watch_list_has_time_for_its_initial_events_after_a_quiet_watch() -> None:
    progress = fresh(watch_list=True)
    progress.listed("10")
    progress.watch_broke(StalledError("silent"), 45.0)
    progress.list_again("drift")
    assert int(progress.next_request().params["timeoutSeconds"]) >= 300


def test_a_watch_list_asks_for_initial_events_not_older_than_what_was_seen() -> None:
    params = fresh(watch_list=True).next_request().params
    assert params.pop("timeoutSeconds")
    assert params == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "resourceVersion": "",
    }


@pytest.mark.parametrize("event", ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"])
def test_every_event_moves_the_version_in_order_of_arrival(event: str) -> None:
    progress = watching("10")
    progress.next_request()
    progress.saw(event, "7")
    assert progress.next_request().params["resourceVersion"] == "7"


def test_a_watch_from_any_version_adopts_none_before_the_first_event_that_is_not_added() -> None:
    progress = watching("0")
    progress.next_request()
    progress.saw("ADDED", "12")
    progress.saw("ADDED", "9")
    assert progress.resource_version == "0"
    progress.saw("BOOKMARK", "15")
    progress.saw("ADDED", "16")
    assert progress.resource_version == "16"


def test_a_normal_end_is_followed_by_the_next_watch_at_once() -> None:
    progress = watching()
    progress.next_request()
    assert not progress.watch_ended(300.0).back_off
    progress.saw("ADDED", "11")
    assert not progress.watch_ended(0.2).back_off
    assert progress.next_request().want is RequestKind.WATCH


def test_a_very_short_watch_waits_so_that_the_loop_never_runs_hot() -> None:
    progress = watching()
    progress.next_request()
    verdict = progress.watch_ended(0.2)
    assert (verdict.reason, verdict.back_off) == ("very short watch", True)
    assert progress.next_request().want is RequestKind.WATCH


@pytest.mark.parametrize(
    "error", [pytest.param(StalledError("70 s"), id="silent"), pytest.param(NetworkError("cut"), id="cut")]
)
def test_a_dead_connection_is_resumed_at_the_same_version_without_a_list(error: NetworkError) -> None:
    progress = watching("10")
    assert not progress.watch_broke(error, 70.0).back_off
    request = progress.next_request()
    assert (request.want, request.params["resourceVersion"]) == (RequestKind.WATCH, "10")


def test_a_watch_that_was_never_answered_backs_off_however_long_it_took() -> None:
    verdict = watching("10").watch_broke(StalledError("30 s"), 30.0, was_open=False)
    assert (verdict.reason, verdict.back_off) == ("stalled", True)


def test_a_refused_connection_backs_off_and_keeps_the_version() -> None:
    progress = watching("10")
    verdict = progress.watch_broke(NotSentError("refused"), 0.0)
    assert (verdict.reason, verdict.back_off) == ("refused", True)
    assert progress.next_request().params["resourceVersion"] == "10"
    assert progress.next_request().want is RequestKind.WATCH


def test_a_throttled_watch_backs_off_as_long_as_the_server_asks_without_a_list() -> None:
    progress = watching("10")
    verdict = progress.watch_refused(refusal(429, retry_after=5.0), 0.0)
    assert (verdict.back_off, verdict.at_least_seconds) == (True, 5.0)
    assert progress.next_request().want is RequestKind.WATCH


def test_expired_history_lists_again_at_the_last_version_never_back_in_time() -> None:
    progress = watching("10")
    assert progress.watch_refused(refusal(410, "Expired"), 0.0).reason == "expired"
    request = progress.next_request()
    assert (request.want, request.params) == (RequestKind.LIST, {"resourceVersion": "10"})
    assert progress.list_reason == "expired"


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(refusal(410, "Expired"), id="410"),
        pytest.param(refusal(504, "Timeout", "Too large resource version: 12, current: 3"), id="too large"),
    ],
)
def test_a_list_at_a_version_that_is_unavailable_becomes_consistent_at_once(error: APIError) -> None:
    progress = watching("10")
    progress.watch_refused(refusal(410), 0.0)
    assert not progress.list_failed(error).back_off
    assert progress.next_request().params == {"limit": "500"}
    assert progress.list_failed(error).back_off


def test_an_expired_page_token_falls_back_to_one_full_list() -> None:
    progress = fresh()
    assert not progress.page_failed(refusal(410, "Expired")).back_off
    assert progress.next_request().params == {}
    progress.listed("5")
    progress.start_over()
    assert progress.next_request().params == {"limit": "500"}


def test_internal_errors_are_watched_again_for_a_minute_and_then_listed() -> None:
    progress = watching("10")
    progress.watch_refused(refusal(500, "InternalError"), 100.0)
    progress.watch_refused(refusal(500, "InternalError"), 159.0)
    assert progress.next_request().want is RequestKind.WATCH
    progress.watch_refused(refusal(500, "InternalError"), 161.0)
    assert progress.next_request().want is RequestKind.LIST


@pytest.mark.parametrize("code", [400, 404, 405, 410, 501])
def test_a_refusal_that_may_be_about_the_version_lists_again_after_the_delay(code: int) -> None:
    progress = watching("10")
    verdict = progress.watch_refused(refusal(code), 0.0)
    assert (verdict.back_off, verdict.lists_again) == (True, True)
    assert progress.next_request().want is RequestKind.LIST


@pytest.mark.parametrize("code", [401, 403, 429, 502, 503, 504])
def test_a_refusal_that_says_nothing_of_the_version_is_followed_by_the_same_watch_and_no_list(code: int) -> None:
    """However long it lasts: all kinds of all replicas would list at the same moment when it is over."""
    progress = watching("10")
    for minutes in range(10):
        verdict = progress.watch_refused(refusal(code), 60.0 * minutes)
        assert (verdict.back_off, verdict.lists_again) == (True, False)
        request = progress.next_request()
        assert (request.want, request.params["resourceVersion"]) == (RequestKind.WATCH, "10")


def test_a_version_of_the_future_is_listed_though_its_refusal_is_a_504() -> None:
    """An etcd that was restored from a backup."""
    progress = watching("10")
    assert progress.watch_refused(refusal(504, "Timeout", "Too large resource version: 10, current: 3"), 0.0).back_off
    assert progress.next_request().want is RequestKind.LIST


@pytest.mark.parametrize("code", [400, 422])
def test_a_server_without_watch_list_is_listed_from_then_on(code: int) -> None:
    progress = fresh(watch_list=True)
    assert not progress.watch_list_failed(refusal(code)).back_off
    assert progress.next_request().want is RequestKind.LIST
    progress.listed("3")
    progress.watch_refused(refusal(410), 0.0)
    assert progress.next_request().want is RequestKind.LIST


def test_a_broken_watch_list_is_replaced_by_one_list() -> None:
    progress = fresh(watch_list=True)
    progress.watch_list_failed(NetworkError("cut"))
    assert progress.next_request().want is RequestKind.LIST
    progress.listed("3")
    progress.watch_refused(refusal(410), 0.0)
    assert progress.next_request().want is RequestKind.WATCH_LIST


def test_a_refused_watch_list_keeps_querying_for_the_same() -> None:
    progress = fresh(watch_list=True)
    assert progress.watch_list_failed(NotSentError("refused")).back_off
    assert progress.next_request().want is RequestKind.WATCH_LIST
