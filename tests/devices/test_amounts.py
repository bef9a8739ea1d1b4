"""The allocator by groups of rules: counters, capacities, and claims that cannot be understood."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.devices.building import (
    ALL,
    DRIVER,
    OTHER,
    Json,
    answer,
    chosen,
    claim,
    device,
    first_of,
    piece,
    wants,
    wants_all,
)
from tests.devices.problems import Explanation

# --- counters ---------------------------------------------------------------------------------------------------------


def uses(name: str, amount: str, *groups: str, **fields: Any) -> Json:
    use: Json = {"counterSet": "c", "counters": {"memory": {"value": amount}}}
    return device(name, consumesCounters=[use | ({"compatibilityGroups": list(groups)} if groups else {})], **fields)


def counters(amount: str, **fields: Any) -> Json:
    sets = [{"name": "c", "counters": {"memory": {"value": amount}}}]
    return piece("zz", count=2, sharedCounters=sets, **fields)


@ALL
def test_devices_share_counters(version: str) -> None:
    parts = piece("s", uses("d0", "3"), uses("d1", "2"), uses("d2", "1"), count=2)
    two = [claim(wants("r", 2))]
    assert chosen(answer(two, parts, counters("4"), version=version)) == [["r=d0", "r=d2"]]
    assert chosen(answer(two, parts, counters("4"), version=version, taken=["d0"])) is None
    off = answer(two, parts, counters("4"), version=version, without=["DRAPartitionableDevices"])
    assert chosen(off) is None


@ALL
def test_a_device_that_counts_what_is_not_there_makes_its_pool_invalid(version: str) -> None:
    lost = {"counterSet": "c", "counters": {"cores": {"value": "1"}}}
    got = answer(
        [claim(wants())], piece("s", device("d", consumesCounters=[lost]), count=2), counters("4"), version=version
    )
    assert got.is_for_node


def test_pools_of_two_drivers_with_one_name_share_counters_in_136_only() -> None:
    slices = (
        piece("s0", uses("d0", "3"), count=2),
        counters("4"),
        piece("s1", uses("d1", "3"), count=2, driver=OTHER),
        counters("4", driver=OTHER) | {"metadata": {"name": "zy"}},
    )
    two = [claim(wants("r", 2))]
    assert chosen(answer(two, *slices)) == [["r=d0", "r=d1"]]
    assert chosen(answer(two, *slices, version="1.36")) is None


@pytest.mark.parametrize(
    ("groups", "taken", "expected"),
    [
        pytest.param((("half",), ("half", "third"), ()), [], [["r=d0", "r=d1"]], id="in common"),
        pytest.param((("half",), ("third",), ()), [], None, id="nothing in common"),
        pytest.param(((), ("third",), ()), [], [["r=d0", "r=d2"]], id="without groups"),
        pytest.param((("half",), ("half", "third"), ("third",)), ["d0"], None, id="with what is allocated"),
    ],
)
def test_devices_of_one_counter_set_have_a_group_in_common(
    groups: Sequence[tuple[str, ...]], taken: list[str], expected: list[list[str]] | None
) -> None:
    parts = piece("s", *(uses(f"d{number}", "1", *names) for number, names in enumerate(groups)), count=2)
    two = [claim(wants("r", 2))]
    on = answer(two, parts, counters("9"), more=["DRADeviceCompatibilityGroups"], taken=taken)
    assert chosen(on) == expected
    # Without the gate their slices are not seen, and the pool is never complete.
    assert chosen(answer(two, parts, counters("9"), taken=taken)) is None


# --- capacity ---------------------------------------------------------------------------------------------------------


def shared(name: str = "d", value: str = "10", /, **policy: Any) -> Json:
    capacity: Json = {"value": value} | ({"requestPolicy": policy} if policy else {})
    return device(name, allowMultipleAllocations=True, capacity={"memory": capacity})


def asks(name: str, amount: str | None = None) -> Json:
    return wants(name) if amount is None else wants(name, capacity={"requests": {"memory": amount}})


def consumed(got: Explanation) -> list[str] | None:
    assert not got.error
    if got.results is None:
        return None
    return [each["consumedCapacity"]["memory"] for one in got.results for each in one["devices"]["results"]]


@ALL
def test_requests_share_a_device_until_its_capacity_is_used_up(version: str) -> None:
    slices = piece("s", shared())
    assert consumed(answer([claim(asks("r0", "4"), asks("r1", "6"))], slices, version=version)) == ["4", "6"]
    assert consumed(answer([claim(asks("r0", "4"), asks("r1", "7"))], slices, version=version)) is None
    share = {"driver": DRIVER, "pool": "p", "device": "d", "shareID": "x", "consumedCapacity": {"memory": "5"}}
    assert consumed(answer([claim(asks("r0", "5"))], slices, version=version, taken=[share])) == ["5"]
    assert consumed(answer([claim(asks("r0", "5001m"))], slices, version=version, taken=[share])) is None


@pytest.mark.parametrize(
    ("amount", "policy", "expected"),
    [
        pytest.param(None, {}, "10", id="nothing asked: all"),
        pytest.param(None, {"default": "3"}, "3", id="nothing asked: the default"),
        pytest.param("1", {"default": "3", "validRange": {"min": "2"}}, "2", id="up to the least"),
        pytest.param("5", {"default": "2", "validRange": {"min": "2", "step": "2"}}, "6", id="up to a step"),
        pytest.param("7", {"default": "2", "validRange": {"min": "2", "max": "6"}}, None, id="over the most"),
        pytest.param("3", {"default": "2", "validValues": ["2", "4"]}, "4", id="up to a valid value"),
        pytest.param("5", {"default": "2", "validValues": ["2", "4"]}, None, id="no valid value"),
        pytest.param("600m", {"default": "500m", "validRange": {"min": "500m", "step": "250m"}}, "750m", id="milli"),
    ],
)
def test_a_request_is_rounded_by_the_policy_of_the_device(
    amount: str | None, policy: Json, expected: str | None
) -> None:
    got = answer([claim(asks("r", amount))], piece("s", shared(**policy)))
    assert consumed(got) == (None if expected is None else [expected])


def test_milli_amounts_are_whole_numbers_without_the_gate_and_in_136() -> None:
    policy = {"default": "500m", "validRange": {"min": "500m", "step": "250m"}}
    slices = piece("s", shared(**policy))
    claims = [claim(asks("r", "600m"))]
    assert consumed(answer(claims, slices, without=["DRAFractionalCapacityRange"])) == ["1"]
    assert consumed(answer(claims, slices, version="1.36")) == ["1"]


@pytest.mark.parametrize(
    ("amount", "policy", "why"),
    [
        pytest.param("-1", {}, "capacity value is negative", id="negative"),
        pytest.param(
            "600500u",
            {"default": "500m", "validRange": {"min": "500m", "step": "250m"}},
            "capacity request cannot be represented in the device's range arithmetic: "
            "request 600500u is not a representable milli value",
            id="finer than milli",
        ),
        pytest.param(
            "9223372036854775807",
            {"default": "2", "validRange": {"min": "2", "step": "2"}},
            "capacity request cannot be represented in the device's range arithmetic: "
            "request 9223372036854775807 is not a representable milli value",
            id="too large",
        ),
    ],
)
def test_amounts_that_cannot_be_computed_with_are_errors(amount: str, policy: Json, why: str) -> None:
    got = answer([claim(asks("r", amount))], piece("s", shared(**policy)))
    assert got.error == f'claim ns/c, request r: checking capacity for device {DRIVER}/p/d: capacity "memory": {why}'


@ALL
def test_a_capacity_that_no_device_has_is_not_found(version: str) -> None:
    claims = [claim(wants(capacity={"requests": {"cores": "1"}}))]
    assert chosen(answer(claims, piece("s", shared()), version=version)) is None


def test_all_means_devices_that_are_large_enough_but_in_136_those_with_so_much_left() -> None:
    share = {"driver": DRIVER, "pool": "p", "device": "d0", "shareID": "x", "consumedCapacity": {"memory": "8"}}
    slices = piece("s", shared("d0"), shared("d1"))
    claims = [claim(wants_all(capacity={"requests": {"memory": "5"}}))]
    assert chosen(answer(claims, slices, taken=[share])) is None
    assert chosen(answer(claims, slices, taken=[share], version="1.36")) == [["r=d1"]]


@ALL
def test_a_shared_device_costs_counters_once(version: str) -> None:
    parts = piece("s", uses("d", "3", allowMultipleAllocations=True), count=2)
    claims = [claim(wants("r0"), wants("r1"))]
    assert chosen(answer(claims, parts, counters("3"), version=version)) == [["r0=d", "r1=d"]]


# --- what is wrong with a claim ---------------------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize(
    ("request_", "without", "why"),
    [
        pytest.param(
            wants(deviceClassName="none"),
            [],
            'request r: could not retrieve device class none: deviceclass.resource.k8s.io "none" not found',
            id="class",
        ),
        pytest.param(
            wants(deviceClassName=""),
            [],
            "request r: missing device class name (unsupported request type?)",
            id="empty",
        ),
        pytest.param(wants(allocationMode="Some"), [], "request r: unsupported count mode Some", id="mode"),
        pytest.param(
            wants(selectors=[{}]),
            [],
            "request r, selector #0: CEL expression empty (unsupported selector type?)",
            id="selector",
        ),
        pytest.param(
            first_of("r", wants("s")),
            ["DRAPrioritizedList"],
            "request r: has subrequests, but the DRAPrioritizedList feature is disabled",
            id="alternatives",
        ),
        pytest.param(
            first_of("r", asks("s", "1")),
            ["DRAConsumableCapacity"],
            "subrequest s: has capacity requests, but the DRAConsumableCapacity feature is disabled",
            id="capacity",
        ),
    ],
)
def test_a_claim_that_cannot_be_understood_is_an_error(
    request_: Json, without: list[str], why: str, version: str
) -> None:
    got = answer([claim(request_)], piece("s", device("d")), version=version, without=without)
    assert got.error == f"claim ns/c, {why}"


def test_an_error_of_a_selector_names_its_place() -> None:
    wrong = [{"cel": {"expression": 'device.attributes["a.example.com"].size > 0'}}]
    claims = [claim(wants(selectors=wrong))]
    text = "claim ns/c: selector #0{}: CEL runtime error: no such key: size"
    assert answer(claims, piece("s", device("d"))).error == text.format(f" on device {DRIVER}/p/d")
    assert answer(claims, piece("s", device("d")), version="1.36").error == text.format("")
    of_class = answer([claim(wants())], piece("s", device("d")), class_spec={"selectors": wrong})
    assert of_class.error.startswith("class class: selector #0 on device")
    # Nobody is asked about devices behind the one that is taken.
    sized = device("c", attributes={"size": {"int": 1}})
    assert chosen(answer(claims, piece("s", sized, device("d")))) == [["r=c"]]


def test_an_expression_that_does_not_compile_is_an_error() -> None:
    claims = [claim(wants(selectors=[{"cel": {"expression": "nonsense"}}]))]
    got = answer(claims, piece("s", device("d")))
    assert got.error == "claim ns/c: selector #0: CEL compile error: undeclared reference to 'nonsense'"
