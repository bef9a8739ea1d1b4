"""Where the allocator of Kubernetes 1.38 decides otherwise than that of 1.37, number by number."""

from typing import Any

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.devices.allocator import Allocator
from kscheduler.devices.ids import AllocatedState
from kscheduler.devices.limits import constraints
from kscheduler.devices.selection import Selections
from kscheduler.devices.slices import SliceIndex
from kscheduler.devices.wanted import AllocationError, AllocatorFeatures
from tests.devices.building import (
    DRIVER,
    GATES,
    OTHER,
    Json,
    answer,
    chosen,
    claim,
    color,
    device,
    piece,
    wants,
    wants_all,
)
from tests.devices.predicates import KnownPredicates
from tests.devices.problems import Explanation

WHERE = "claim ns/c, request r"


def both(*arguments: object, **given: object) -> tuple[Explanation, Explanation]:
    """What 1.37 and 1.38 answer."""
    before, after = (answer(*arguments, version=version, **given) for version in ("1.37", "1.38"))  # type: ignore[arg-type]
    return before, after


def shareable(name: str, **capacity: str) -> Json:
    amounts = {each.replace("__", "/").replace("_", "."): {"value": value} for each, value in capacity.items()}
    return device(name, allowMultipleAllocations=True, capacity=amounts)


def share(name: str = "d", **consumed: str) -> Json:
    result = {"driver": DRIVER, "pool": "p", "device": name, "shareID": "one"}
    return result | {
        "consumedCapacity": {each.replace("__", "/").replace("_", "."): consumed[each] for each in consumed}
    }


def taken(got: Explanation) -> Json:
    """What the first device of the first claim takes."""
    assert got.results is not None, got
    found: Json = got.results[0]["devices"]["results"][0]["consumedCapacity"]
    return found


# DR1: two spellings of an attribute.


def test_an_attribute_that_is_spelled_in_both_ways_is_the_qualified_one() -> None:
    devices = [
        device("d0", attributes={"color": {"string": "red"}, f"{DRIVER}/color": {"string": "blue"}}),
        color("d1", "red"),
        color("d2", "blue"),
    ]
    claims = [claim(wants("r", 2), constraints=[{"matchAttribute": f"{DRIVER}/color"}])]
    for got in both(claims, piece("s", *devices)):
        assert chosen(got) == [["r=d0", "r=d2"]]


# DR2: values that cannot be read, and lists without their gate.


@pytest.mark.parametrize("kind", ["matchAttribute", "distinctAttribute"])
@pytest.mark.parametrize("value", [{"version": "1.2"}, {"strings": ["red"]}, {"strings": []}], ids=str)
def test_a_constraint_on_a_value_that_cannot_be_read_is_an_error(kind: str, value: Json) -> None:
    claims = [claim(wants("r", 2), constraints=[{kind: f"{DRIVER}/color"}])]
    before, after = both(claims, piece("s", color("d0", "red"), color("d1", value)))
    is_version = "version" in value
    assert chosen(before) == ([["r=d0", "r=d1"]] if kind == "distinctAttribute" and is_version else None)
    assert after.error == f"{WHERE}: device {DRIVER}/p/d1: unsupported attribute value for {DRIVER}/color"
    assert not after.is_for_node


def test_a_constraint_on_lists_needs_their_gate() -> None:
    claims = [claim(wants("r", 2), constraints=[{"matchAttribute": f"{DRIVER}/color"}])]
    devices = piece("s", color("d0", {"versions": ["1.0.0+a", "2.0.0"]}), color("d1", {"version": "1.0.0+b"}))
    before, after = both(claims, devices, more=["DRAListTypeAttributes"])
    assert chosen(before) is None
    assert chosen(after) == [["r=d0", "r=d1"]]
    broken = piece("s", color("d0", {"versions": ["1.0.0", "x"]}), color("d1", {"version": "1.0.0"}))
    before, after = both(claims, broken, more=["DRAListTypeAttributes"])
    assert chosen(before) == [["r=d0", "r=d1"]]
    assert after.error == f"{WHERE}: device {DRIVER}/p/d0: unsupported attribute value for {DRIVER}/color"


def test_the_error_comes_where_there_are_too_few_devices_anyhow() -> None:
    claims = [claim(wants("r", 3), constraints=[{"distinctAttribute": f"{DRIVER}/color"}])]
    before, after = both(claims, piece("s", color("d0", "red"), color("d1", {"version": "1.2"})))
    assert chosen(before) is None
    assert "unsupported attribute value" in after.error


def test_a_device_that_no_constraint_is_about_may_have_any_value() -> None:
    constraint = {"matchAttribute": f"{DRIVER}/color", "requests": ["other"]}
    claims = [claim(wants("r"), wants("other"), constraints=[constraint])]
    slices = (piece("s", color("d0", {"version": "1.2"}), color("d1", "red")),)
    for got in both(claims, *slices):
        assert chosen(got) == [["r=d0", "other=d1"]]


def allocator_of(index: SliceIndex, features: AllocatorFeatures, one: Json) -> Allocator:
    kind = convert({"metadata": {"name": "class"}, "spec": {}}, DeviceClass)
    claims, selections = [convert(one, ResourceClaim)], Selections(KnownPredicates(), features)
    return Allocator(features, claims, AllocatedState(frozenset()), lambda _: kind, index, selections)


@pytest.mark.parametrize(
    ("version", "count", "requests", "read"),
    [
        ("1.36", 2, [], 4),
        ("1.37", 2, [], 4),
        ("1.38", 2, [], 4 + 10),
        ("1.38", 2, ["other"], 0),
        ("1.38", 1, [], 2),
    ],
)
def test_values_of_all_devices_are_read_once_and_only_where_they_matter(
    monkeypatch: pytest.MonkeyPatch, version: str, count: int, requests: list[str], read: int
) -> None:
    calls = []

    def counting(*arguments: Any) -> constraints.Values | None:
        calls.append(arguments)
        return values_of(*arguments)

    values_of = constraints.values_of
    monkeypatch.setattr(constraints, "values_of", counting)
    features = AllocatorFeatures.of(GATES, BEHAVIOURS[version])
    devices = [color(f"d{number}", {"version": "1.0.0"}) for number in range(10)]
    index = SliceIndex([convert(piece("s", *devices, allNodes=True), ResourceSlice)], features)
    constraint = {"matchAttribute": f"{DRIVER}/color", "requests": requests}
    for node in ("n0", "n1"):
        assert allocator_of(index, features, claim(wants("r", count), constraints=[constraint])).allocate(node, {})
    assert len(calls) == read


def test_values_are_read_again_once_the_slice_is_another() -> None:
    features = AllocatorFeatures.of(GATES, BEHAVIOURS["1.38"])
    one, index = claim(wants("r", 3), constraints=[{"matchAttribute": f"{DRIVER}/color"}]), None
    for value, fails in (("1.0.0", False), ("1", True), ("1.0.0", False)):
        slices = [convert(piece("s", color("d0", {"version": value}), color("d1")), ResourceSlice)]
        index = SliceIndex(slices, features, index)
        allocator = allocator_of(index, features, one)
        if fails:
            with pytest.raises(AllocationError, match="unsupported attribute value"):
                allocator.allocate("n", {})
        else:
            assert allocator.allocate("n", {}) is None


def test_values_are_read_in_parts_and_known_of_few_attributes() -> None:
    features = AllocatorFeatures.of(GATES, BEHAVIOURS["1.38"])
    index = SliceIndex([convert(piece("s", *(color(f"d{number}") for number in range(100))), ResourceSlice)], features)

    def parts(attribute: str) -> int:
        one = claim(wants("r", 2), constraints=[{"matchAttribute": f"{DRIVER}/{attribute}"}])
        return sum(1 for _ in allocator_of(index, features, one).allocate_in_parts("n", {}))

    assert parts("color") == parts("color") + 100
    for number in range(40):
        parts(f"other-{number}")
    [pool] = index.pools("n", {})
    assert 0 < len(pool.has_unreadable) <= 16


# DR3: versions.


def test_builds_of_a_version_do_not_count() -> None:
    devices = piece("s", color("d0", {"version": "1.0.0+a"}), color("d1", {"version": "1.0.0+b"}))
    same = [claim(wants("r", 2), constraints=[{"matchAttribute": f"{DRIVER}/color"}])]
    other = [claim(wants("r", 2), constraints=[{"distinctAttribute": f"{DRIVER}/color"}])]
    assert [chosen(got) for got in both(same, devices)] == [None, [["r=d0", "r=d1"]]]
    assert [chosen(got) for got in both(other, devices)] == [[["r=d0", "r=d1"]], None]


def test_pre_releases_of_a_version_count() -> None:
    devices = piece("s", color("d0", {"version": "1.0.0-a+x"}), color("d1", {"version": "1.0.0-b+x"}))
    claims = [claim(wants("r", 2), constraints=[{"distinctAttribute": f"{DRIVER}/color"}])]
    for got in both(claims, devices):
        assert chosen(got) == [["r=d0", "r=d1"]]


# DR4: names of capacities.


@pytest.mark.parametrize("published", ["memory", f"{DRIVER}/memory"])
@pytest.mark.parametrize("asked", ["memory", f"{DRIVER}/memory"])
def test_a_request_may_spell_a_capacity_in_either_way(published: str, asked: str) -> None:
    devices = piece("s", device("d", allowMultipleAllocations=True, capacity={published: {"value": "8"}}))
    claims = [claim(wants("r", capacity={"requests": {asked: "3"}}))]
    before, after = both(claims, devices)
    assert taken(after) == {published: "3"}
    assert chosen(before) == ([["r=d"]] if published == asked else None)


def test_a_capacity_of_another_domain_is_another_one() -> None:
    devices = piece("s", shareable("d", memory="8"))
    claims = [claim(wants("r", capacity={"requests": {f"{OTHER}/memory": "3"}}))]
    for got in both(claims, devices):
        assert chosen(got) is None


def test_a_request_that_spells_a_capacity_in_both_ways_is_an_error() -> None:
    claims = [claim(wants("r", capacity={"requests": {"memory": "3", f"{DRIVER}/memory": "2"}}))]
    before, after = both(claims, piece("s", shareable("d", memory="8")))
    assert chosen(before) is None
    assert after.error == (
        f"{WHERE}: checking capacity for device {DRIVER}/p/d: "
        f'capacity "memory" requested both as "{DRIVER}/memory" and as "memory"'
    )


def test_a_device_that_spells_a_capacity_in_both_ways_has_the_qualified_one() -> None:
    capacity = {"memory": {"value": "8"}, f"{DRIVER}/memory": {"value": "4"}}
    devices = piece("s", device("d", allowMultipleAllocations=True, capacity=capacity))
    before, after = both([claim(wants("r", capacity={"requests": {"memory": "3"}}))], devices)
    assert taken(before) == {"memory": "3", f"{DRIVER}/memory": "4"}
    assert taken(after) == {f"{DRIVER}/memory": "3"}
    _, after = both([claim(wants("r", capacity={"requests": {"memory": "5"}}))], devices)
    assert chosen(after) is None


@pytest.mark.parametrize("spelled", ["memory", f"{DRIVER}/memory"])
def test_both_spellings_of_what_is_consumed_are_one_entry(spelled: str) -> None:
    devices = piece("s", shareable("d", memory="8"))
    result = {"driver": DRIVER, "pool": "p", "device": "d", "shareID": "one", "consumedCapacity": {spelled: "6"}}
    before, after = both([claim(wants("r", capacity={"requests": {"memory": "3"}}))], devices, taken=[result])
    assert chosen(after) is None
    assert chosen(before) == (None if spelled == "memory" else [["r=d"]])


# DR5: exclusive after shared.


@pytest.mark.parametrize("consumed", [{}, {"memory": "1"}], ids=["a share", "a share with capacity"])
def test_a_device_with_shares_is_not_given_away_as_a_whole(consumed: dict[str, str]) -> None:
    devices = piece("s", device("d", capacity={"memory": {"value": "8"}}), device("e"))
    claims = [claim(wants("r"))]
    before, after = both(claims, devices, taken=[share("d", **consumed)])
    wants_none = [claim(wants("r", capacity={"requests": {"memory": "3"}}))]
    assert chosen(before) == ([["r=d"]] if not consumed else [["r=e"]])
    assert chosen(after) == [["r=e"]]
    before, after = both(wants_none, devices, taken=[share("d", **consumed)])
    assert chosen(before) == [["r=d"]]
    assert chosen(after) is None


def test_administrators_get_a_device_with_shares() -> None:
    claims = [claim(wants("r", adminAccess=True))]
    for got in both(claims, piece("s", device("d")), taken=[share("d")]):
        assert chosen(got) == [["r=d"]]


def test_all_devices_are_not_had_with_one_that_has_shares() -> None:
    before, after = both([claim(wants_all())], piece("s", device("d"), device("e")), taken=[share("d")])
    assert chosen(before) == [["r=d", "r=e"]]
    assert chosen(after) is None


# DR6: all devices of a pool that is not whole.


def test_all_devices_of_a_bad_pool_reject_the_node_alone() -> None:
    text = f"{WHERE}: asks for all devices, but resource pool {DRIVER}/p is currently"
    before, after = both([claim(wants_all())], piece("s", device("d"), count=2))
    assert before == Explanation(error=f"{text} being updated")
    assert after == Explanation(error=f"{text} being updated", is_for_node=True)
    before, after = both([claim(wants_all())], piece("s", device("d"), device("d")))
    assert before == Explanation(error=f"{text} invalid")
    assert after == Explanation(error=f"{text} invalid", is_for_node=True)


# DR7: negative requests.


@pytest.mark.parametrize(("amount", "said"), [("-1", "-1"), ("-0.5", "-500m"), ("-1024Ki", "-1Mi")])
def test_a_negative_request_is_an_error_also_where_a_policy_rounds_it_up(amount: str, said: str) -> None:
    policy = {"default": "2", "validRange": {"min": "1"}}
    rounded = device("d", allowMultipleAllocations=True, capacity={"memory": {"value": "8", "requestPolicy": policy}})
    claims = [claim(wants("r", capacity={"requests": {"memory": amount}}))]
    before, after = both(claims, piece("s", rounded))
    assert taken(before) == {"memory": "1"}
    at = f"{WHERE}: checking capacity for device {DRIVER}/p/d: capacity"
    assert after.error == f'{at} "{DRIVER}/memory": capacity value is negative: request {said}'
    before, after = both(claims, piece("s", shareable("d", memory="8")))
    assert before.error == f'{at} "memory": capacity value is negative'
    assert after.error == f'{at} "{DRIVER}/memory": capacity value is negative: request {said}'
