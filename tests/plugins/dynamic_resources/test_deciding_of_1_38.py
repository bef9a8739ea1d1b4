"""What DynamicResources says differently since 1.38: about pools that are not whole, and amounts below nothing."""

from typing import Any

import pytest

from kscheduler.devices.wanted import BadPoolError
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Code, Fault, StatusError
from kscheduler.plugins.dynamic_resources.search import INVALID_POOLS, MAX_BAD_POOLS, BadPools
from tests.plugins.dynamic_resources.stage import DRIVER, Stage, allocation, claim, device_class, devices_of, user

BEFORE, SINCE = "1.37", "1.38"
ALL_DEVICES = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}


def unfinished(node: str, **more: Any) -> Any:
    """The first of two slices of a node's pool."""
    return devices_of(node, "a", pool={"name": node, "generation": 1, "resourceSliceCount": 2}, **more)


# --- DR6: all devices of a pool that is not whole ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "state"), [(unfinished("n0"), "being updated"), (devices_of("n0", "a", "a"), "invalid")]
)
def test_all_devices_where_a_pool_is_not_whole(bad: Any, state: str) -> None:
    objects = device_class(), claim("c0", ALL_DEVICES), bad, devices_of("n1", "b")
    told = f"claim default/c0, request r: asks for all devices, but resource pool {DRIVER}/n0 is currently {state}"
    with pytest.raises(StatusError, match=told):
        Stage(*objects, version=BEFORE).judge(user("c0"))
    stage = Stage(*objects, version=SINCE)
    assert stage.judge(user("c0")) == {"n0": told, "n1": "b"}
    nodes = stage.cache.nodes
    codes = stage.plugin.filter(stage.cycle, PodInfo(user("c0")), nodes, nodes.rows())
    assert codes is not None
    assert stage.plugin.status(stage.cycle, int(codes[0])).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_an_answer_that_is_kept_names_the_claim_of_the_pod_that_asks() -> None:
    stage = Stage(device_class(), unfinished("n0"), nodes=1, version=SINCE)
    for name in ("c0", "c1"):
        stage.put(claim(name, ALL_DEVICES))
        assert stage.judge(user(name))["n0"].startswith(f"claim default/{name}, request r: asks for all devices")


def test_the_second_claim_is_named_where_it_asks_for_all() -> None:
    stage = Stage(device_class(), claim("c0"), claim("c1", ALL_DEVICES), unfinished("n0"), nodes=1, version=SINCE)
    assert stage.judge(user("c0", "c1"))["n0"].startswith("claim default/c1, ")


def test_the_details_tell_why_the_pool_is_not_whole() -> None:
    stage = Stage(device_class(), claim("c0", ALL_DEVICES), unfinished("n0"), nodes=1, version=SINCE)
    stage.judge(user("c0"))
    (detail,) = stage.details(user("c0"))
    assert (detail.kind, detail.text.split(":")[0]) == ("poolInvalid", f"pool n0 of driver {DRIVER} is being updated")


def test_very_many_texts_about_pools_become_one() -> None:
    pools = BadPools()
    codes = {pools.code_of(BadPoolError("c", 0, f"p{number}")) for number in range(MAX_BAD_POOLS)}
    assert len(codes) == MAX_BAD_POOLS
    assert pools.code_of(BadPoolError("d", 0, "p7")) in codes
    assert pools.code_of(BadPoolError("c", 0, "one more")) == INVALID_POOLS
    assert pools.problem(INVALID_POOLS) is None


# --- DR7: amounts below nothing ---------------------------------------------------------------------------------------


def holding(name: str, amount: str) -> Any:
    """A claim that takes an amount of a device of the node that nobody asks about."""
    taken = allocation("n1", "s", shareID=f"share-{name}", consumedCapacity={"memory": amount, "other": "1"})
    return claim(name, allocated=taken)


def test_an_amount_below_nothing_that_some_claim_has() -> None:
    objects = device_class(), claim("c0"), devices_of("n0", "a"), holding("bad", "-1024")
    assert Stage(*objects, version=BEFORE).judge(user("c0"))["n0"] == "a"
    stage = Stage(*objects, version=SINCE)
    status = stage.begin(user("c0"))
    told = f'claim default/bad, device {DRIVER}/n1/s: consumed capacity "memory" must not be negative, got -1024'
    assert (status.code, status.message) == (Code.ERROR, f"gather allocation state: {told}")
    assert (status.fault, status.plugin) == (Fault.CLAIM, "DynamicResources")
    stage.put(holding("also-bad", "-1Ki"))
    also_told = told.replace("default/bad", "default/also-bad").replace("-1024", "-1Ki")
    assert stage.begin(user("c0")).message == (
        f"gather allocation state: {also_told} (and 1 more claims with invalid consumed capacity)"
    )
    for gone in (holding("bad", "-1024"), holding("also-bad", "-1Ki")):
        stage.cache.devices.claims.delete(gone)
    assert stage.judge(user("c0"))["n0"] == "a"


def test_a_pod_whose_claims_have_devices_does_not_care() -> None:
    stage = Stage(claim("c0", allocated=allocation("n0", "a")), holding("bad", "-1"), version=SINCE)
    assert stage.judge(user("c0"))["n0"] == ""


def test_without_consumable_capacity_nobody_looks_at_amounts() -> None:
    stage = Stage(device_class(), claim("c0"), devices_of("n0", "a"), holding("bad", "-1"), version=SINCE)
    stage.plugin = stage.without(features=frozenset(stage.handle.features) - {"DRAConsumableCapacity"})
    assert stage.judge(user("c0"))["n0"] == "a"
