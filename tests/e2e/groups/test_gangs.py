"""Gangs all the way, of each API that has them: all members of a gang get a node, or nobody does."""

from typing import Any

import pytest

from tests.e2e.groups.gang_capacity import GangRoom
from tests.e2e.scenario import Scenario

NO_CPU = "0/2 nodes are available: 2 Insufficient cpu."


@pytest.fixture(autouse=True)
def _nodes(scenario: Scenario) -> None:
    """Room for two members each."""
    for number in range(2):
        scenario.add_node(f"node-{number}")


def test_a_gang_that_fits_is_placed_whole(scenario: Scenario, gangs: GangRoom) -> None:
    gangs.start()
    gangs.add_gang("train", 4)
    gangs.wait_whole("train")
    for number in range(4):
        scenario.wait("it is told", lambda number=number: scenario.events(f"train-{number}", "Scheduled"))  # type: ignore[misc]
        assert scenario.events(f"train-{number}", "FailedScheduling") == []
    if gangs.api.is_kubernetes:
        found = gangs.condition("train")
        assert (found["status"], found["reason"], found.get("message", "")) == ("True", "Scheduled", "")


def test_a_gang_that_does_not_fit_holds_nothing_until_it_does(scenario: Scenario, gangs: GangRoom) -> None:
    gangs.start()
    gangs.add_gang("train", 5)
    why = gangs.minimum_missed(5, 4)
    gangs.wait_reported("train", why)
    for number in range(5):
        scenario.wait_rejected(f"train-{number}", "")
    texts = [
        event["message"] for number in range(5) for event in scenario.events(f"train-{number}", "FailedScheduling")
    ]
    assert any(text.startswith(NO_CPU) for text in texts)
    assert any(gangs.reason_of_members("train", why) in text for text in texts)
    # the room that it has not got is there for others
    scenario.add_pod("single", cpu="4")
    scenario.wait_bound("single")
    assert gangs.bound("train") == []
    for number in range(2):
        scenario.add_node(f"more-{number}")
    gangs.wait_whole("train")


def test_members_wait_for_their_group_and_for_each_other(scenario: Scenario, gangs: GangRoom) -> None:
    gangs.start(wait_started=True)
    scenario.add_node("for-signs", cpu="1")
    on_it: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "for-signs"}}
    for number in range(2):
        gangs.add_member("train", f"train-{number}")
    scenario.add_pod("first-sign", **on_it)
    scenario.wait_bound("first-sign")
    gangs.add_group("train", 3)
    scenario.add_pod("second-sign", **on_it)
    scenario.wait_bound("second-sign")
    assert gangs.bound("train") == []
    gangs.add_member("train", "train-2")
    gangs.wait_whole("train")


def test_two_gangs_do_not_share_room_that_is_enough_for_one(scenario: Scenario, gangs: GangRoom) -> None:
    for name in ("left", "right"):
        gangs.add_group(name, 4)
    for number in range(4):
        for name in ("left", "right"):
            gangs.add_member(name, f"{name}-{number}")
    gangs.start()
    scenario.wait("one of them is whole", lambda: len(scenario.pending()) == 4)
    (placed,) = {name for name in ("left", "right") if gangs.bound(name)}
    waits = {"left": "right", "right": "left"}[placed]
    gangs.wait_reported(waits, gangs.minimum_missed(4))
    for number in range(4):
        gangs.delete_member(f"{placed}-{number}")
    gangs.forget(placed)
    gangs.wait_whole(waits)


def test_members_beyond_the_minimum_come_as_there_is_room(scenario: Scenario, gangs: GangRoom) -> None:
    gangs.add_gang("train", 6, 3)
    gangs.start()
    gangs.wait_whole("train", 4)
    left = [name for name in scenario.pending() if name.startswith("train-")]
    assert len(left) == 2
    scenario.wait_rejected(left[0], NO_CPU)
    scenario.add_node("more")
    gangs.wait_whole("train", 6)


def test_members_that_are_made_anew_join_those_that_stayed(scenario: Scenario, gangs: GangRoom) -> None:
    gangs.add_gang("train", 4)
    gangs.start()
    gangs.wait_whole("train")
    for number in range(2):
        gangs.delete_member(f"train-{number}")
        gangs.add_member("train", f"train-{number}")
    gangs.wait_whole("train")


def test_a_basic_group_takes_what_it_gets(scenario: Scenario, own_gangs: GangRoom) -> None:
    own_gangs.add_group("loose", None)
    for number in range(5):
        own_gangs.add_member("loose", f"loose-{number}")
    own_gangs.start()
    own_gangs.wait_whole("loose", 4)
    (waiting,) = scenario.pending()
    scenario.wait_rejected(waiting, NO_CPU)


def test_a_lower_minimum_lets_a_gang_in(scenario: Scenario, own_gangs: GangRoom) -> None:
    own_gangs.add_gang("train", 5)
    own_gangs.start()
    own_gangs.wait_reported("train", own_gangs.minimum_missed(5))
    own_gangs.change_minimum("train", 4)
    own_gangs.wait_whole("train", 4)
    (waiting,) = scenario.pending()
    scenario.wait_rejected(waiting, NO_CPU)


def test_members_of_another_priority_are_reported_so(scenario: Scenario, own_gangs: GangRoom, priorities: None) -> None:
    own_gangs.add_group("train", 2)
    own_gangs.add_member("train", "train-0")
    own_gangs.add_member("train", "train-1", priorityClassName="gangs-high")
    own_gangs.start()
    problem, reason = own_gangs.contradiction(100, 0)
    own_gangs.wait_reported("train", problem)
    assert own_gangs.condition("train")["reason"] == reason
    scenario.wait_rejected("train-0", problem, reason="SchedulerError")
    scenario.delete_pod("train-1")
    own_gangs.add_member("train", "train-1")
    own_gangs.wait_whole("train")


def test_a_gang_with_priority_comes_first(scenario: Scenario, own_gangs: GangRoom, priorities: None) -> None:
    own_gangs.add_gang("common", 3)
    own_gangs.add_group("urgent", 3, priorityClassName="gangs-high")
    for number in range(3):
        own_gangs.add_member("urgent", f"urgent-{number}", priorityClassName="gangs-high")
    own_gangs.start()
    own_gangs.wait_whole("urgent")
    own_gangs.wait_reported("common", own_gangs.minimum_missed(3, 1))
