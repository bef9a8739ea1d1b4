"""One API server, told in few lines: when it goes, each minute, when it is back; and whether the scheduler is ready."""

import pytest

from kscheduler.client.errors import APIError, APIStatus
from kscheduler.client.outage_cause import Cause
from kscheduler.client.reachability import PROMPT_LINES, APIServerReachability, LogLine

HOST = "10.0.0.1:6443"


def refusal(code: int, *, is_status: bool = True) -> APIError:
    return APIError(APIStatus(kind="Status" if is_status else "", code=code, message="<html>bad gateway</html>"))


@pytest.fixture
def api_server() -> APIServerReachability:
    return APIServerReachability(HOST, 0.0)


def messages_at(
    api_server: APIServerReachability, until: float, since: float = 0.0, step: float = 1.0
) -> list[tuple[float, str]]:
    """What is logged by whom asks each second, with the moment."""
    lines: list[tuple[float, str]] = []
    now = since
    while now <= until:
        lines += [(now, line.message) for line in api_server.lines(now)]
        now += step
    return lines


def test_an_outage_of_135_seconds_is_four_lines(api_server: APIServerReachability) -> None:
    api_server.succeeded(0.0)
    lines: list[tuple[float, LogLine]] = []
    for second in range(1, 140):
        for _ in range(17):  # reflectors
            if 5 <= second < 140 - 5:
                api_server.failed(ConnectionRefusedError(111, "Connect call failed"), second)
        if second == 135 + 5 - 1:
            api_server.succeeded(second)
        lines += [(second, line) for line in api_server.lines(second)]
    assert [(second, line.message) for second, line in lines] == [
        (7, "api_server_unreachable"),
        (67, "api_server_still_unreachable"),
        (127, "api_server_still_unreachable"),
        (139, "api_server_reachable_again"),
    ]
    began, minute, _, back = (line for _, line in lines)
    assert began.level == "error"
    assert began.fields["server"] == HOST
    assert "Connect call failed" in str(began.fields["err"])
    assert "kube-apiserver" in str(began.fields["advice"])
    assert minute.fields["seconds"] == 62
    assert (back.level, back.fields) == ("info", {"server": HOST, "seconds": 134})


def test_a_failure_that_is_soon_followed_by_a_success_is_not_worth_a_line(api_server: APIServerReachability) -> None:
    api_server.failed(ConnectionResetError("reset"), 1.0)
    api_server.succeeded(2.5)
    assert messages_at(api_server, 100.0) == []
    assert not any(api_server.statistics(3.0).outages.values())


def test_a_second_outage_is_reported_as_soon_as_the_first(api_server: APIServerReachability) -> None:
    lines: list[tuple[int, str]] = []
    for second in range(100):
        if 10 <= second < 52 or second >= 53:
            api_server.failed(ConnectionRefusedError("refused"), second)
        else:
            api_server.succeeded(second)
        lines += [(second, line.message) for line in api_server.lines(second)]
    assert lines == [
        (12, "api_server_unreachable"),
        (52, "api_server_reachable_again"),
        (55, "api_server_unreachable"),
    ]


def test_an_api_server_that_comes_and_goes_speaks_twice_a_minute_after_the_first_times(
    api_server: APIServerReachability,
) -> None:
    lines: list[LogLine] = []
    for second in range(600):
        if second % 6 < 4:
            api_server.failed(ConnectionRefusedError("refused"), second)
        else:
            api_server.succeeded(second)
        lines += api_server.lines(second)
    assert len(lines) <= 2 * (10 + PROMPT_LINES)
    begun = [line for line in lines if line.message == "api_server_unreachable"]
    untold = sum(int(str(line.fields.get("times_since", 0))) for line in begun)
    assert untold > 5 * len(begun), "the others are counted in the next line"
    assert api_server.statistics(600.0).outages["refused"] == 100, "and in the metric all of them"


@pytest.mark.parametrize("what_lives", ["an answer", "a watch"])
def test_unready_after_30_seconds_without_anything_and_ready_with_the_first_sign(
    api_server: APIServerReachability, what_lives: str
) -> None:
    sign = api_server.succeeded if what_lives == "an answer" else api_server.heard
    sign(10.0)
    api_server.failed(TimeoutError(), 11.0, "GET /readyz: no connection to 10.0.0.1:6443 within 10 s")
    assert api_server.problem(39.9) is None
    problem = api_server.problem(40.0)
    assert problem is not None
    assert HOST in problem
    assert "for 30 s" in problem
    assert "no connection to" in problem
    sign(41.0)
    assert api_server.problem(41.0) is None


def test_silence_alone_makes_unready_too_and_is_queried_about_before(api_server: APIServerReachability) -> None:
    assert api_server.probe_interval(9.0) is None
    assert api_server.probe_interval(10.0) == 10.0
    assert api_server.problem(31.0) is not None


def test_while_it_is_away_somebody_asks_each_second(api_server: APIServerReachability) -> None:
    api_server.failed(ConnectionRefusedError("refused"), 1.0)
    assert api_server.probe_interval(1.0) == 1.0
    api_server.succeeded(2.0)
    assert api_server.probe_interval(2.0) is None


@pytest.mark.parametrize("code", [400, 403, 404, 409, 410, 422])
def test_a_refusal_by_an_api_server_that_looked_at_it_is_a_sign_of_life(
    api_server: APIServerReachability, code: int
) -> None:
    api_server.refused(refusal(code), 40.0)
    assert api_server.problem(41.0) is None


def test_refused_credentials_are_a_trouble_of_their_own_that_old_watches_do_not_end(
    api_server: APIServerReachability,
) -> None:
    lines: list[tuple[float, str]] = []
    for second in range(100):
        api_server.heard(second)
        if second < 95:
            api_server.refused(refusal(401), second)
        else:
            api_server.succeeded(second)
        if second == 30:
            assert "has not accepted our credentials for 30 s" in str(api_server.problem(second))
        lines += [(second, line.message) for line in api_server.lines(second)]
    assert lines == [
        (2, "credentials_refused"),
        (62, "credentials_still_refused"),
        (95, "credentials_accepted_again"),
    ]
    assert api_server.problem(99.0) is None
    assert api_server.statistics(99.0).outages["unauthorized"] == 1


def test_an_expired_token_that_is_renewed_at_once_is_no_news(api_server: APIServerReachability) -> None:
    api_server.refused(refusal(401), 1.0)
    api_server.succeeded(1.1)
    assert messages_at(api_server, 70.0) == []


def test_everything_answered_with_429_is_no_outage_but_makes_unready(api_server: APIServerReachability) -> None:
    for second in range(130):
        api_server.refused(refusal(429), second)
        assert [line.message for line in api_server.lines(second)] == (
            ["api_server_throttles"] if second in (19, 79) else []
        )
    problem = api_server.problem(130.0)
    assert problem is not None
    assert str(refusal(429)) in problem
    assert api_server.statistics(130.0).unreachable_seconds == 0
    api_server.heard(131.0)
    silence = api_server.problem(200.0)
    assert silence is not None
    assert "nothing has been heard from it" in silence, "the refusals are older than the last sign of life"


@pytest.mark.parametrize("code", [401, 429])
def test_a_refusal_ends_an_outage_though_it_is_no_success(api_server: APIServerReachability, code: int) -> None:
    api_server.failed(ConnectionRefusedError("refused"), 10.0)
    assert [line.message for line in api_server.lines(15.0)] == ["api_server_unreachable"]
    api_server.refused(refusal(code), 20.0)
    (back,) = api_server.lines(20.0)
    assert (back.message, back.fields["seconds"]) == ("api_server_reachable_again", 10)
    assert api_server.statistics(25.0).unreachable_seconds == 0
    problem = api_server.problem(60.0)
    assert problem is not None, "nothing has succeeded"
    assert str(refusal(code)) in problem


def test_a_few_429_are_no_storm(api_server: APIServerReachability) -> None:
    for minute in range(10):
        for _ in range(10):
            api_server.refused(refusal(429), minute * 60.0 + 1)
        api_server.succeeded(minute * 60.0 + 2)
        assert api_server.lines(minute * 60.0 + 3) == []


def test_an_api_server_that_fails_at_everything_is_as_good_as_away(api_server: APIServerReachability) -> None:
    api_server.refused(refusal(500), 1.0)
    (line,) = api_server.lines(4.0)
    assert (line.message, line.fields["cause"]) == ("api_server_unreachable", "server_error")
    assert "etcd" in str(line.fields["advice"])


def test_a_proxy_that_answers_for_it_is_reported_apart(api_server: APIServerReachability) -> None:
    api_server.refused(refusal(502, is_status=False), 1.0)
    (line,) = api_server.lines(4.0)
    assert line.fields["cause"] == "proxy"
    assert "load balancer" in str(line.fields["advice"])


def test_what_metrics_are_reported(api_server: APIServerReachability) -> None:
    api_server.failed(ConnectionRefusedError("refused"), 10.0)
    assert api_server.statistics(11.0).unreachable_seconds == 0, "in doubt"
    api_server.lines(15.0)
    assert api_server.statistics(15.0).unreachable_seconds == 5.0
    outages = api_server.statistics(15.0).outages
    assert {cause: n for cause, n in outages.items() if n} == {"refused": 1}
    assert set(outages) == set(Cause) - {"throttled"}, "all of them from the start, so that a rate sees the first one"
    api_server.succeeded(16.0)
    assert api_server.statistics(16.0).unreachable_seconds == 0


def test_an_outage_begins_with_the_request_that_failed_and_not_with_its_end(api_server: APIServerReachability) -> None:
    api_server.heard(10.0)
    api_server.failed(TimeoutError("no answer in time"), 25.0, sent_at=20.0)
    assert not api_server.is_outage(26.0), "it is in doubt for two seconds after the notice, however long that took"
    assert api_server.statistics(27.0).unreachable_seconds == 7.0
    api_server.failed(TimeoutError("no answer in time"), 42.0, sent_at=12.0)
    assert api_server.statistics(42.0).unreachable_seconds == 30.0, "a request with a longer timeout was sent before"
    api_server.lines(42.0)
    api_server.succeeded(60.0)
    assert [line.fields["seconds"] for line in api_server.lines(60.0)] == [48]


def test_an_outage_begins_after_the_last_sign_of_life(api_server: APIServerReachability) -> None:
    """A request that hangs at a webhook has nothing to do with it."""
    api_server.heard(20.0)
    api_server.failed(TimeoutError("no answer in time"), 31.0, sent_at=1.0)
    assert not api_server.is_outage(32.0)
    assert api_server.statistics(33.0).unreachable_seconds == 13.0
    api_server.succeeded(34.0)
    api_server.refused(refusal(401), 40.0)
    api_server.failed(TimeoutError("no answer in time"), 45.0, sent_at=38.0)
    assert api_server.statistics(47.0).unreachable_seconds == 7.0


def test_a_request_that_its_sender_gave_up_is_no_failure_and_dates_the_outage(
    api_server: APIServerReachability,
) -> None:
    """A lease is renewed every two seconds; each renewal is given up before any other request fails."""
    api_server.given_up(sent_at=1.0, now=6.0)
    api_server.given_up(sent_at=6.0, now=11.0)
    assert not api_server.is_in_trouble(11.0)
    api_server.failed(TimeoutError("no answer in time"), 15.0, sent_at=10.0)
    assert api_server.statistics(17.0).unreachable_seconds == 16.0
    api_server.succeeded(18.0)
    api_server.failed(TimeoutError("no answer in time"), 35.0, sent_at=30.0)
    assert api_server.statistics(37.0).unreachable_seconds == 7.0, "of the outage before it says nothing"


def test_of_the_requests_given_up_the_one_sent_first_dates_the_outage(api_server: APIServerReachability) -> None:
    api_server.given_up(sent_at=6.0, now=9.0)
    api_server.given_up(sent_at=4.0, now=14.0)
    api_server.failed(TimeoutError("no answer in time"), 15.0, sent_at=10.0)
    assert api_server.statistics(17.0).unreachable_seconds == 13.0


def test_a_request_that_was_cancelled_at_once_says_nothing_about_the_api_server(
    api_server: APIServerReachability,
) -> None:
    api_server.given_up(sent_at=1.0, now=2.9)
    api_server.failed(ConnectionRefusedError("refused"), 60.0, sent_at=60.0)
    assert api_server.statistics(62.0).unreachable_seconds == 2.0
