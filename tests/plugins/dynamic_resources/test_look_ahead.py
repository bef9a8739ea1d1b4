"""A search that takes longer than the cycle's patience goes on beside it, step by step, and the next cycle finds it."""

from collections.abc import Iterator
from itertools import count

import pytest

from kscheduler.api.devices import Device
from kscheduler.devices.ids import AllocatedState, DeviceID
from kscheduler.framework.decision_time import DECISION_TIME, DecisionEndedError
from kscheduler.framework.nodes.search_budget import UnfinishedSearch
from kscheduler.framework.status import StatusError
from kscheduler.plugins.dynamic_resources.long_evaluations import PatientSelector
from kscheduler.plugins.dynamic_resources.search import LookAhead
from tests.builders import Tree
from tests.plugins.dynamic_resources.stage import (
    DRIVER,
    Stage,
    TickingClock,
    claim,
    device_class,
    devices_of,
    exactly,
    user,
)
from tests.plugins.dynamic_resources.test_deciding import with_constraint
from tests.plugins.dynamic_resources.test_node_result_cache import left_by

NODES = 30


def steps_of(search: UnfinishedSearch) -> int:
    """How often it was interrupted before it was done."""
    return next(step for step in count() if search.run(0))


def stage_of_many(**more: object) -> Stage:
    """No two nodes have the same devices."""
    slices = [
        devices_of(f"n{number}", *[f"{one}{number}" for one in "abc"[: 1 + number % 3]]) for number in range(NODES)
    ]
    return Stage(device_class(), *slices, nodes=NODES, **more)  # type: ignore[arg-type]


def left(stage: Stage, *claims: str) -> UnfinishedSearch:
    search = left_by(stage, user(*claims))
    assert search is not None
    return search


def test_each_step_is_short_and_afterwards_the_cycle_needs_no_patience() -> None:
    stage = stage_of_many()
    stage.put(claim("c0", exactly(count=2)))
    assert steps_of(left(stage, "c0")) >= 2 * NODES
    assert left_by(stage, user("c0")) is None
    assert stage.judge(user("c0")) == Stage.judge(_fresh(stage), user("c0"))


def _fresh(stage: Stage) -> Stage:
    stage.plugin = stage.without()
    return stage


def test_one_node_that_changed_is_all_that_is_left() -> None:
    stage = stage_of_many()
    stage.put(claim())
    everywhere = steps_of(left(stage, "c0"))
    stage.put(devices_of("n7", "other"))
    assert 0 < steps_of(left(stage, "c0")) < everywhere / 2
    assert stage.judge(user("c0"))["n7"] == "other"


def test_a_node_that_changes_while_it_is_searched_is_searched_again() -> None:
    stage = Stage(device_class(), devices_of("n0", "a", "b"), claim("c0"), nodes=1)
    search = left(stage, "c0")
    assert not search.run(0)
    assert not search.run(0)
    stage.put(devices_of("n0", "c"))
    steps_of(search)
    assert left_by(stage, user("c0")) is None, "the answer is kept"
    assert stage.judge(user("c0")) == {"n0": "c"}


def test_nodes_and_claims_may_go_meanwhile() -> None:
    stage = stage_of_many()
    stage.put(claim())
    search = left(stage, "c0")
    search.run(0)
    for number in range(10):
        stage.cache.remove_node(f"n{number}")
    steps_of(search)
    assert len(stage.judge(user("c0"))) == NODES - 10


def test_an_error_is_left_to_the_cycle() -> None:
    broken = device_class("gpu", selectors=[{"cel": {"expression": "device.attributes['x'].y > 0"}}])
    stage = Stage(broken, devices_of("n0", "a"), claim("c0"), nodes=1)
    steps_of(left(stage, "c0"))
    with pytest.raises(StatusError, match="CEL runtime error"):
        stage.judge(user("c0"))


def test_shares_of_devices_are_found_for_the_pod_that_was_searched_for() -> None:
    shared = {"name": "a", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "8Gi"}}}
    stage = Stage(device_class(), claim("c0"), claim("c1"), devices_of("n0", shared), nodes=1)
    steps_of(left(stage, "c0"))
    assert left_by(stage, user("c0")) is None
    assert left_by(stage, user("c1")) is not None, "its shares are others"


ALL_DEVICES = {"deviceClassName": "gpu", "allocationMode": "All"}


@pytest.mark.parametrize("wanted", [exactly(count=20), {"name": "r", "exactly": ALL_DEVICES}], ids=["some", "all"])
def test_between_two_steps_one_selector_is_queried_about_one_device(
    wanted: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    selectors = [{"cel": {"expression": f"device.driver != '{number}'"}} for number in range(5)]
    stage = Stage(device_class("gpu", selectors=selectors), claim("c0", wanted), nodes=1)
    stage.put(devices_of("n0", *(f"d{number}" for number in range(30))))
    search, queried = left(stage, "c0"), list[int]()
    evaluate = PatientSelector.matches

    def counted(selector: PatientSelector, driver: str, device: Device) -> bool:
        queried.append(1)
        return evaluate(selector, driver, device)

    monkeypatch.setattr(PatientSelector, "matches", counted)
    most = 0
    while not search.run(0):
        most = max(most, len(queried))
        queried.clear()
    assert most == 1


def test_a_cycle_without_patience_ends_with_its_decision() -> None:
    """The timer of decisions cannot end a search where it stands, since the state is asked in it."""
    stage = stage_of_many()
    stage.put(claim("c0", exactly(count=2)))
    DECISION_TIME.is_up = True
    try:
        with pytest.raises(DecisionEndedError):
            stage.judge(user("c0"))
    finally:
        DECISION_TIME.is_up = False
    assert set(stage.judge(user("c0")).values()) != {""}, "nothing is left half done"


def test_extended_resources_too() -> None:
    stage = stage_of_many()
    stage.put(device_class("gpus", extendedResourceName="example.com/gpu"))
    pod = user(requests={"example.com/gpu": "2"})
    search = left_by(stage, pod)
    assert search is not None
    assert steps_of(search) >= 2 * NODES
    assert left_by(stage, pod) is None
    assert sum(bool(verdict) for verdict in stage.judge(pod).values()) == NODES


def test_a_node_that_takes_too_long_is_an_error_of_the_next_cycle_only() -> None:
    """It would take forever: forty devices of which twenty-five must be alike, and only twenty are."""
    stage = Stage(device_class(), filter_seconds=50.0, nodes=1)
    stage.plugin = stage.without(clock=TickingClock())
    devices = [{"name": f"d{number}", "attributes": {"half": {"int": number % 2}}} for number in range(40)]
    stage.put(devices_of("n0", *devices))
    stage.put(with_constraint(claim("c0", exactly("r", 25)), {"requests": ["r"], "matchAttribute": f"{DRIVER}/half"}))
    search = left(stage, "c0")
    stage.put(claim("another"))  # the search goes on in the state in which it began
    assert steps_of(search) > 5
    with pytest.raises(StatusError, match=r"^node n0: timed out trying to allocate devices$"):
        stage.judge(user("c0"))
    assert left_by(stage, user("c0")) is not None, "later it is tried anew"


class OnlyAsked(frozenset[DeviceID]):
    """Devices that may be asked for one by one: to walk over those of all nodes would cost as much as they are."""

    def __iter__(self) -> Iterator[DeviceID]:
        raise AssertionError


def test_a_search_that_is_interrupted_copies_what_is_taken_of_its_node_only() -> None:
    a, b, elsewhere = (DeviceID(DRIVER, "pool", name) for name in ("a", "b", "elsewhere"))
    shares, amounts = {a: ["s"], elsewhere: ["t"]}, {a: {"memory": 1}, elsewhere: {"memory": 2}}
    state = AllocatedState(OnlyAsked({b, elsewhere}), shares, amounts)
    copied = state.copy_of([a, b])
    shares[a].append("later")
    amounts[a]["memory"] = 3
    assert copied == AllocatedState(frozenset({b}), {a: ("s",)}, {a: {"memory": 1}})


def test_what_is_left_of_a_search_is_worked_out_when_it_goes_on() -> None:
    """Of a hundred pods that ask at once one searches, and the others find it done."""
    stage = stage_of_many()
    stage.put(claim())
    asked: list[str] = []
    rows = stage.cache.nodes.rows()
    search = LookAhead(stage.cache.nodes, rows, lambda info: asked.append(info.name))
    assert not asked
    stage.cache.remove_node("n0")
    assert search.run(60)
    assert asked == [f"n{number}" for number in range(1, NODES)]
