"""Resources that fail while others do not: one line per reason that names them all, once a minute."""

import pytest

from kscheduler.informers.resource_troubles import ResourceTroubles

FORBIDDEN = 'forbidden: 403 Forbidden: pods is forbidden: User "x" cannot list resource "pods"'


def messages(troubles: ResourceTroubles, problems: dict[str, str], now: float, *, away: bool = False) -> list[str]:
    return [line.message for line in troubles.lines(problems, {}, now, is_all_in_trouble=away, is_outage=away)]


def test_all_resources_that_fail_for_one_reason_are_one_line() -> None:
    troubles, problems = ResourceTroubles(), {"pods": FORBIDDEN, "nodes": FORBIDDEN, "csinodes": "server error: 500"}
    assert messages(troubles, problems, 0.0) == []
    forbidden, broken = troubles.lines(problems, {}, 2.0, is_all_in_trouble=False)
    assert (forbidden.level, forbidden.message) == ("error", "list_or_watch_fails")
    assert forbidden.fields["resources"] == ["nodes", "pods"]
    assert 'User "x" cannot list' in str(forbidden.fields["err"])
    assert "RBAC must grant verbs list and watch" in str(forbidden.fields["advice"])
    assert broken.fields["resources"] == ["csinodes"]
    assert "APIService" in str(broken.fields["advice"])


def test_a_line_is_repeated_once_a_minute_and_the_end_is_reported() -> None:
    troubles, problems = ResourceTroubles(), {"pods": FORBIDDEN}
    lines_by_second = {second: messages(troubles, problems if second < 130 else {}, second) for second in range(140)}
    assert {second: lines for second, lines in lines_by_second.items() if lines} == {
        2: ["list_or_watch_fails"],
        62: ["list_or_watch_fails"],
        122: ["list_or_watch_fails"],
        130: ["list_or_watch_works_again"],
    }


def test_what_is_soon_over_is_not_worth_a_line() -> None:
    troubles = ResourceTroubles()
    assert messages(troubles, {"pods": "server error: 500"}, 0.0) == []
    assert messages(troubles, {}, 1.0) == []


@pytest.mark.parametrize("reason", ["refused: connection refused", "server error: 502"])
def test_while_everything_fails_no_single_resource_is_named(reason: str) -> None:
    troubles = ResourceTroubles()
    problems = {"pods": reason, "nodes": reason}
    assert [line for second in range(200) for line in messages(troubles, problems, second, away=True)] == []
    assert messages(troubles, {}, 200.0) == [], "nor its end"


def test_what_is_left_of_an_outage_is_named_only_when_it_outlasts_the_back_off() -> None:
    troubles, problems = ResourceTroubles(), {"pods": "broken: cut", "nodes": "broken: cut"}
    for second in range(100):
        assert messages(troubles, problems, second, away=True) == []
    for second in range(100, 130):
        assert messages(troubles, problems, second) == [], "the reflectors wait for their next try"
    del problems["nodes"]
    assert [line for second in range(130, 180) for line in messages(troubles, problems, second)] == [
        "list_or_watch_fails"
    ]


def test_a_resource_that_fails_now_and_then_is_named_once_a_minute() -> None:
    troubles = ResourceTroubles()
    lines = [
        line
        for second in range(300)
        for line in messages(troubles, {"pods": FORBIDDEN} if second % 6 < 5 else {}, second)
    ]
    assert lines.count("list_or_watch_fails") <= 5


def test_a_resource_that_fails_and_works_in_turn_is_reported_once_a_minute_with_a_count() -> None:
    troubles = ResourceTroubles()
    lines = [
        line
        for second in range(300)
        for line in troubles.lines(
            {"pods": "broken: cut"} if second % 10 < 5 else {}, {}, second, is_all_in_trouble=False
        )
    ]
    assert len(lines) == 10
    assert {line.message for line in lines} == {"list_or_watch_fails", "list_or_watch_works_again"}
    assert [line.fields.get("times_since") for line in lines[::2]] == [None, 5, 5, 5, 5]
