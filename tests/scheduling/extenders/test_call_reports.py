"""An outage of an extender is two lines of the log, and each call a number."""

import structlog

from kscheduler.aio.clock import VirtualClock
from kscheduler.scheduling.extenders.call_reports import QUIET_SECONDS, RECOVERY_SECONDS, CallReports, CallResult
from kscheduler.scheduling.observations import Observations


def test_an_outage_begins_and_ends_once() -> None:
    now = 100.0
    reports = CallReports("http://x", lambda: now)
    with structlog.testing.capture_logs() as lines:
        reports.answered()
        for _ in range(3):
            reports.was_unavailable("filter", "default/p", "refused")
            now += 1.0
            reports.answered()  # every other call: it is one outage
        assert list(reports.notes()) == ["extender http://x has failed 3 times in 3 s, last 1 s ago: refused"]
        now += RECOVERY_SECONDS
        reports.answered()
        reports.answered()
    assert not list(reports.notes())
    lines = [line for line in lines if line["log_level"] != "debug"]
    assert [line["event"] for line in lines] == ["extender_failing", "extender_recovered"]
    assert lines[0] == {
        "event": "extender_failing",
        "log_level": "warning",
        "extender": "http://x",
        "verb": "filter",
        "pod": "default/p",
        "err": "refused",
        "then": "its pods are tried again later",
    }
    assert (lines[1]["failures"], lines[1]["seconds"]) == (3, 8.0)


def test_an_outage_that_lasts_is_reported_each_minute_with_a_count() -> None:
    now = 0.0
    reports = CallReports("http://x", lambda: now, is_ignorable=True)
    with structlog.testing.capture_logs() as lines:
        for second in range(3601):
            now = float(second)
            reports.was_unavailable("filter", "default/p", "refused")
    warned = [line for line in lines if line["event"] == "extender_failing"]
    assert len(warned) == 61
    assert (warned[-1]["times_since"], warned[-1]["failing_seconds"]) == (59, 3600)


def test_one_failure_is_reported_as_one_and_how_long_ago_it_was() -> None:
    now = 100.0
    reports = CallReports("http://x", lambda: now)
    with structlog.testing.capture_logs():
        reports.was_unavailable("filter", "default/p", "refused")
    now += 40.0
    assert list(reports.notes()) == ["extender http://x has failed once, last 40 s ago: refused"]


def test_scores_out_of_range_are_reported_of_once() -> None:
    reports = CallReports("http://x", VirtualClock().monotonic)
    with structlog.testing.capture_logs() as lines:
        reports.scored_outside("node-1", 11)
        reports.scored_outside("node-2", -1)
        CallReports("http://x", VirtualClock().monotonic, logs=False).scored_outside("node-1", 11)
    (line,) = lines
    assert (line["event"], line["node"], line["score"]) == ("extender_scores_out_of_range", "node-1", 11)


def test_what_an_outage_means_is_said() -> None:
    with structlog.testing.capture_logs() as lines:
        CallReports("x", VirtualClock().monotonic, is_ignorable=True).was_unavailable("filter", "p", "e")
        CallReports("x", VirtualClock().monotonic).was_unavailable("prioritize", "p", "e")
    warnings = [line["then"] for line in lines if line["log_level"] == "warning"]
    assert warnings == [
        "its pods are decided without it",
        "it gives no points",
    ]


def test_answers_that_were_skipped_are_reported_once_a_minute_with_how_many() -> None:
    now = 100.0
    reports = CallReports("http://x", lambda: now, is_ignorable=True)
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            reports.passed_over("preempt", "default/p", "no")
        reports.passed_over("filter", "default/p", "no")
        now += QUIET_SECONDS
        reports.passed_over("preempt", "default/q", "never")
    assert [(line["verb"], line["pod"], line.get("times_since")) for line in lines] == [
        ("preempt", "default/p", None),
        ("filter", "default/p", None),
        ("preempt", "default/q", 2),
    ]
    assert {line["event"] for line in lines} == {"extender_passed_over"}


def test_a_command_logs_nothing() -> None:
    with structlog.testing.capture_logs() as lines:
        CallReports("x", VirtualClock().monotonic, logs=False).was_unavailable("filter", "p", "e")
        CallReports("x", VirtualClock().monotonic, logs=False, is_ignorable=True).passed_over("filter", "p", "e")
    assert lines == []


def test_calls_are_counted_by_extender_verb_and_result() -> None:
    seconds = Observations().extender_seconds
    now = 0.0
    reports = CallReports("http://x", lambda: now, seconds)
    now = 0.25
    reports.ended("filter", CallResult.TIMEOUT, 0.0)
    assert {labels: (found.count, found.total) for labels, found in seconds.items()} == {
        ("http://x", "filter", "timeout"): (1, 0.25)
    }
