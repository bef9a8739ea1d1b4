"""Slices with the taints of rules: which devices a rule selects, and which changes are worth an event."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.codec import convert
from kscheduler.api.devices import DeviceTaintRule, ResourceSlice
from kscheduler.state.devices.tainted_slices import TaintedSlices

Tree = dict[str, Any]


def published(name: str = "s0", driver: str = "gpu", pool: str = "p0", *devices: str) -> ResourceSlice:
    own = [{"name": device, "taints": [{"key": "own", "effect": "None"}]} for device in devices or ("d0", "d1")]
    return convert(
        {"metadata": {"name": name}, "spec": {"driver": driver, "pool": {"name": pool}, "devices": own}}, ResourceSlice
    )


def rule(name: str, selector: Tree | None, key: str = "") -> DeviceTaintRule:
    taint = {"key": key or name, "effect": "NoSchedule"}
    return convert({"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}}, DeviceTaintRule)


def taints(slices: TaintedSlices) -> dict[str, list[str]]:
    """By `slice/device`, the keys of its taints."""
    return {
        f"{each.metadata.name}/{device.name}": [taint.key for taint in device.taints]
        for each in slices.all()
        for device in each.spec.devices
    }


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        pytest.param(None, [], id="without-a-selector-none"),
        pytest.param({}, ["s0/d0", "s0/d1", "s1/d0", "s1/d1"], id="empty-selector-all"),
        pytest.param({"driver": "gpu"}, ["s0/d0", "s0/d1"], id="driver"),
        pytest.param({"pool": "p1"}, ["s1/d0", "s1/d1"], id="pool"),
        pytest.param({"device": "d1"}, ["s0/d1", "s1/d1"], id="device-of-any-driver"),
        pytest.param({"driver": "gpu", "pool": "p0", "device": "d0"}, ["s0/d0"], id="all-three"),
        pytest.param({"driver": "gpu", "pool": "p1"}, [], id="all-that-are-set-must-be-equal"),
    ],
)
def test_a_rule_taints_the_devices_that_it_selects(selector: Tree | None, selected: list[str]) -> None:
    slices = TaintedSlices()
    slices.put(published())
    slices.put(published("s1", "nic", "p1"))
    slices.put_rule(rule("bad", selector))
    assert [name for name, keys in taints(slices).items() if keys == ["own", "bad"]] == selected
    assert [name for name, keys in taints(slices).items() if keys == ["own"]] == sorted(
        {"s0/d0", "s0/d1", "s1/d0", "s1/d1"} - {*selected}
    )


def test_slices_are_the_same_object_until_something_changes() -> None:
    slices = TaintedSlices()
    slices.put(published())
    first = slices.all()
    assert slices.all() is first
    assert not slices.put_rule(rule("elsewhere", {"driver": "other"}))
    assert slices.all() is first, "a rule that selects nothing changes nothing"
    assert slices.put_rule(rule("bad", {"driver": "gpu"}))
    assert slices.all() is not first


def test_a_rule_reports_which_slices_have_other_taints_now() -> None:
    slices = TaintedSlices()
    slices.put(published())
    slices.put(published("s1", "nic"))
    ((before, now),) = slices.put_rule(rule("bad", {"driver": "gpu"}))
    assert (before.metadata.name, now.metadata.name) == ("s0", "s0")
    assert not slices.put_rule(rule("bad", {"driver": "gpu"})), "the same taints again"
    assert [now.metadata.name for _, now in slices.put_rule(rule("bad", {"driver": "nic"}))] == ["s0", "s1"]
    assert [now.metadata.name for _, now in slices.remove_rule("bad")] == ["s1"]
    assert not slices.remove_rule("bad")
    assert set(map(tuple, taints(slices).values())) == {("own",)}


names = st.sampled_from(["a", "b", "c"])
parts = st.none() | st.sampled_from(["gpu", "nic", "p0", "p1", "d0", "d1"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("slice"), names, st.sampled_from(["gpu", "nic"]), st.sampled_from(["p0", "p1"])),
        st.tuples(st.just("no slice"), names, st.just(""), st.just("")),
        st.tuples(st.just("rule"), names, parts, parts),
        st.tuples(st.just("no rule"), names, st.just(""), st.just("")),
    )
)


@given(steps)
def test_whatever_the_order_the_taints_are_those_of_slices_and_rules(steps: list[tuple[str, str, Any, Any]]) -> None:
    slices, stored, rules = TaintedSlices(), dict[str, ResourceSlice](), dict[str, DeviceTaintRule]()
    for what, name, first, second in steps:
        match what:
            case "slice":
                stored[name] = published(name, first, second)
                slices.put(stored[name])
            case "no slice":
                stored.pop(name, None)
                slices.remove(name)
            case "rule":
                rules[name] = rule(name, {"driver": first, "device": second})
                slices.put_rule(rules[name])
            case _:
                rules.pop(name, None)
                slices.remove_rule(name)
    anew = TaintedSlices()
    for known in rules.values():
        anew.put_rule(known)
    for each in stored.values():
        anew.put(each)
    assert taints(slices) == taints(anew)


def test_rules_do_not_count_before_they_do() -> None:
    """The gate follows the version of the API server, which is known later than the first rules."""
    slices = TaintedSlices()
    slices.follow(rules_count=False)
    slices.put(published())
    before = slices.all()
    assert not slices.put_rule(rule("bad", {"device": "d0"})), "nobody need hear of it"
    assert slices.all() is before
    slices.follow(rules_count=True)
    assert taints(slices) == {"s0/d0": ["own", "bad"], "s0/d1": ["own"]}
    slices.follow(rules_count=False)
    assert taints(slices) == {"s0/d0": ["own"], "s0/d1": ["own"]}
