"""A warning that comes a thousand times a second is written some times and counted otherwise."""

import io
import json
from typing import Any

from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.pipeline import configure
from kscheduler.telemetry.logs.storms import AT_ONCE, MAX_KINDS, PER_SECOND, TRACEBACK_COSTS, Storms, report_suppressed


class Now:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def admitted(storms: Storms, times: int, **fields: Any) -> int:
    return sum(storms.admits("t", {"msg": "m", **fields}) for _ in range(times))


def test_of_a_storm_the_first_are_written_and_then_a_few_a_second() -> None:
    now = Now()
    storms = Storms(now)
    assert admitted(storms, 1000) == AT_ONCE
    now.seconds = 2.0
    assert admitted(storms, 1000) == 2 * PER_SECOND
    now.seconds = 1000.0
    assert admitted(storms, 1000) == AT_ONCE, "after a rest everything is as before"


def test_how_many_were_left_out_is_reported_by_the_next_line_and_without_one() -> None:
    now = Now()
    storms = Storms(now)
    admitted(storms, 150)
    assert storms.take_suppressed() == [("t", "m", 50)]
    admitted(storms, 10)
    assert storms.take_suppressed() == [], "at most every ten seconds of each kind"
    now.seconds = 5.0
    event: dict[str, Any] = {"msg": "m"}
    assert storms.admits("t", event)
    assert event["suppressed"] == 10
    now.seconds = 20.0
    assert storms.take_suppressed() == []


def test_one_kind_does_not_silence_another() -> None:
    storms = Storms(Now())
    admitted(storms, 1000)
    assert storms.admits("t", {"msg": "something else"})
    assert storms.admits("another", {"msg": "m"})


def test_a_noisy_plugin_does_not_silence_another_or_its_own_other_points() -> None:
    storms = Storms(Now())
    about = {"msg": "plugin_failed", "extension_point": "Filter", "exc_info": True}
    for _ in range(1000):
        storms.admits("t", {**about, "plugin": "Noisy"})
    assert storms.admits("t", {**about, "plugin": "Quiet"})
    assert storms.admits("t", {**about, "plugin": "Noisy", "extension_point": "PostBind"})
    assert not storms.admits("t", {**about, "plugin": "Noisy"})
    assert storms.take_suppressed() == [("t", "plugin_failed (Noisy at Filter)", 991)]


def test_a_traceback_counts_as_ten_lines() -> None:
    assert admitted(Storms(Now()), 1000, exc_info=True) == AT_ONCE / TRACEBACK_COSTS


def test_messages_of_libraries_take_bounded_memory() -> None:
    now = Now()
    storms = Storms(now)
    for number in range(5 * MAX_KINDS):
        now.seconds += 0.001
        storms.admits("t", {"msg": f"took {number} ms"})
    assert len(storms._kinds) <= MAX_KINDS


def test_lines_of_a_story_are_never_left_out_and_warnings_are() -> None:
    stream = io.StringIO()
    configure(stream=stream, json=True, verbosity=2)
    log = get_logger("t")
    for _ in range(300):
        log.info("pod_bound", v=2)
        log.warning("again")
    report_suppressed(lambda _, message, lines: log.info("left_out", of=message, lines=lines))
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    counts = {name: sum(line["msg"] == name for line in lines) for name in ("pod_bound", "again")}
    assert counts["pod_bound"] == 300
    assert AT_ONCE <= counts["again"] <= AT_ONCE + 50
    assert (lines[-1]["msg"], lines[-1]["of"], lines[-1]["lines"]) == ("left_out", "again", 300 - counts["again"])
