"""What explanations say of nodes that DynamicResources has rejected."""

from typing import Any

import msgspec

from kscheduler.api.codec import convert
from kscheduler.api.devices import ResourceClaim
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail
from tests.builders import make_pod
from tests.plugins.dynamic_resources.stage import (
    DRIVER,
    Stage,
    Tree,
    allocation,
    claim,
    device_class,
    devices_of,
    exactly,
    taint_rule,
    user,
)


def reported(stage: Stage, details: list[Detail]) -> dict[str, list[str]]:
    """By text, the nodes that it is about."""
    return {each.text: [stage.cache.nodes.name_of(row) for row in each.rows.tolist()] for each in details}


def test_which_claim_wants_what_and_what_there_is() -> None:
    stage = Stage(
        *(device_class(), claim("c0", exactly("r", 2)), claim("c1")),
        *(devices_of("n0", "a", "b"), claim("other", allocated=allocation("n0", "b"))),
    )
    pod = user("c0", "c1")
    stage.judge(pod)
    details = stage.details(pod)
    assert reported(stage, details) == {
        "claim c0 (r: 2 of class gpu) cannot be served: the node reaches 2 devices of class gpu, 1 in use, 1 free": [
            "n0"
        ],
        "claim c0 (r: 2 of class gpu) cannot be served: the node reaches no devices": ["n1"],
        "claim c1 (r: 1 of class gpu) cannot be served: the node reaches no devices": ["n1"],
    }
    assert details[0].kind == "devicesLacking"
    facts = dict(details[0].facts)
    (of_request,) = facts.pop("obstacles")["requests"]
    assert {name: of_request[name] for name in ("ofClass", "matching", "inUse", "free", "isShort")} == {
        "ofClass": 2,
        "matching": 2,
        "inUse": 1,
        "free": 1,
        "isShort": True,
    }
    assert facts == {
        "claim": "c0",
        "requests": [{"request": "r", "class": "gpu", "count": "2"}],
        "reached": 2,
        "inUse": 1,
    }


def test_claims_that_only_together_do_not_fit() -> None:
    stage = Stage(device_class(), claim(), claim("c1"), devices_of("n0", "a"), nodes=1)
    pod = user("c0", "c1")
    stage.judge(pod)
    (detail,) = stage.details(pod)
    assert (detail.kind, detail.facts) == ("claimsCompete", {"claims": ["c0", "c1"]})


def test_that_nobody_is_preempted_for_devices_is_said_where_less_important_pods_have_them() -> None:
    low = make_pod("low", node="n0", priority=5)
    held = claim("other", allocated=allocation("n0", "a"), users=[low.metadata.uid])
    stage = Stage(device_class(), claim(), devices_of("n0", "a"), held, nodes=1)
    stage.cache.add_pod(low)
    for priority, is_said in ((9, True), (5, False), (0, False)):
        pod = user("c0", priority=priority)
        stage.judge(pod)
        found = [each for each in stage.details(pod) if each.kind == "heldByLessImportant"]
        assert bool(found) is is_said
        if is_said:
            assert reported(stage, found) == {
                "1 pod of a lower priority uses devices through claims here: "
                "preemption does not evict these, in kube-scheduler or here": ["n0"]
            }


def test_where_the_devices_of_a_claim_are() -> None:
    stage = Stage(claim(allocated=allocation("n1", "a")))
    stage.judge(user("c0"))
    assert reported(stage, stage.details(user("c0"))[:1]) == {
        f"claim c0 has {DRIVER}/n1/a, reached only from nodes with metadata.name=n1": ["n0"]
    }


def test_devices_that_failed() -> None:
    conditions = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}
    broken = {"type": "Broken", "status": "True", "reason": "Fan", "message": 'no "air"'}
    report = {"devices": [{"driver": DRIVER, "pool": "n0", "device": "a", "conditions": [broken]}]}
    stage = Stage(claim(allocated=allocation("n0", "a", **conditions), status=report), nodes=1)
    stage.judge(user("c0"))
    assert reported(stage, stage.details(user("c0"))) == {
        'device binding failed: claim=c0, reason=Fan, message="no \\"air\\""': ["n0"]
    }


def test_a_pool_that_contradicts_itself() -> None:
    stage = Stage(device_class(), claim(), devices_of("n0", "a", "a"), nodes=1)
    stage.judge(user("c0"))
    (detail,) = stage.details(user("c0"))
    pool = f"pool n0 of driver {DRIVER} (generation 1)"
    assert (detail.kind, detail.text) == ("poolInvalid", f"{pool} contradicts itself: device a is there twice")


def test_the_counter_set_that_an_invalid_pool_lacks() -> None:
    device = {"name": "a", "consumesCounters": [{"counterSet": "s", "counters": {"m": {"value": "1"}}}]}
    stage = Stage(device_class(), claim(), devices_of("n0", device), nodes=1)
    stage.judge(user("c0"))
    (detail,) = stage.details(user("c0"))
    assert detail.text.endswith("device a uses counter set s, which does not exist")
    assert detail.facts["pools"][0]["pool"] == "n0"


# --- the reason, the most specific first ------------------------------------------------------------------------------


def gpu(name: str, **attributes: Any) -> Tree:
    kinds = {str: "string", int: "int", bool: "bool"}
    return {"name": name, "attributes": {key: {kinds[type(value)]: value} for key, value in attributes.items()}}


def selecting(*expressions: str) -> Tree:
    return {"selectors": [{"cel": {"expression": each}} for each in expressions]}


def constrained(count: int, **constraint: str) -> ResourceClaim:
    own = claim("c0", exactly("r", count))
    tree = msgspec.to_builtins(own)
    tree["spec"]["devices"]["constraints"] = [constraint]
    return convert(tree, ResourceClaim)


GPUS = devices_of("n0", gpu("a", model="x", numa=0), gpu("b", model="x", numa=0), gpu("c", model="y", numa=1))
MODEL = f'device.attributes["{DRIVER}"].model'


def why(*objects: Any) -> str:
    """What is told of node `n0` behind the colon."""
    stage = Stage(device_class(), *objects, nodes=1)
    stage.judge(user("c0"))
    (detail,) = stage.details(user("c0"))
    return detail.text.partition(" cannot be served: ")[2]


def test_the_selector_that_matches_nothing_and_the_values_there_are() -> None:
    wanted = exactly("r", **selecting('device.driver != ""', f'{MODEL} == "z"'))
    assert why(GPUS, claim("c0", wanted)) == (
        f'selector {MODEL} == "z" matches none of the 3 devices of class gpu ({DRIVER}/model is "x", "y")'
    )


def test_an_attribute_that_no_device_has_and_those_that_there_are() -> None:
    wanted = exactly("r", **selecting(f'has({MODEL}l) && {MODEL}l == "x"'))
    assert why(GPUS, claim("c0", wanted)).endswith(f"(none has {DRIVER}/modell, but {DRIVER}/model, {DRIVER}/numa)")


def test_of_many_values_five_are_reported() -> None:
    many = devices_of("n0", *(gpu(f"d{number}", model=f"m{number}") for number in range(8)))
    reported = why(many, claim("c0", exactly("r", **selecting(f'{MODEL} == "z"'))))
    assert reported.endswith(f'({DRIVER}/model is "m0", "m1", "m2", "m3", "m4" and 3 more in the cluster)')


def test_of_an_attribute_with_many_values_all_nodes_are_reported_the_same() -> None:
    slices = [devices_of(f"n{node}", *(gpu(f"d{at}", model=f"{node}-{at}") for at in range(4))) for node in range(2)]
    wanted = claim("c0", exactly("r", **selecting(f'{MODEL} == "z"')))
    stage = Stage(device_class(), *slices, wanted)
    stage.judge(user("c0"))
    (detail,) = stage.details(user("c0"))
    assert detail.text.endswith(f'({DRIVER}/model is "0-0", "0-1", "0-2", "0-3", "1-0" and 3 more in the cluster)')


def test_selectors_that_only_together_match_nothing() -> None:
    wanted = exactly("r", **selecting(f'{MODEL} == "x"', f'{MODEL} == "y"'))
    assert why(GPUS, claim("c0", wanted)) == (
        f'none of the 3 devices of class gpu passes all of {MODEL} == "x", {MODEL} == "y" ({DRIVER}/model is "x", "y")'
    )


def test_how_many_match_and_are_taken() -> None:
    wanted = exactly("r", 2, **selecting(f'{MODEL} == "x"'))
    taken = claim("other", allocated=allocation("n0", "a"))
    assert why(GPUS, taken, claim("c0", wanted)) == "2 of 3 devices of class gpu match, 1 in use, 1 free"


def test_a_taint_and_the_rule_that_sets_it() -> None:
    device = {"name": "d", "taints": [{"key": "own", "value": "v", "effect": "NoExecute"}]}
    there = devices_of("n0", "a", device)
    assert why(there, claim(), taint_rule("bad", pool="n0", device="a"), taint_rule("other", pool="n1")) == (
        "the node reaches 2 devices of class gpu, 2 tainted (bad:NoSchedule by DeviceTaintRule bad, own=v:NoExecute), "
        "0 free"
    )


def test_a_constraint_that_too_few_devices_meet_together() -> None:
    numa = f"{DRIVER}/numa"
    assert why(GPUS, constrained(3, matchAttribute=numa)) == (
        f"the constraint wants 3 devices with the same {numa}; at most 2 free ones share a value (0)"
    )
    assert why(GPUS, constrained(3, distinctAttribute=numa)) == (
        f"the constraint wants 3 devices with different {numa}; the free ones have 2 values of it"
    )
    assert why(GPUS, constrained(2, matchAttribute="no/such")) == (
        "the constraint wants 2 devices with the same no/such, which no free device has"
    )


def test_a_pool_that_its_driver_is_updating() -> None:
    pool = {"name": "n0", "generation": 3, "resourceSliceCount": 2}
    assert why(devices_of("n0", "a", pool=pool), claim()) == (
        f"pool n0 of driver {DRIVER} is being updated: its driver has published 1 of 2 slices of generation 3, "
        "and until it has published all, none counts; the node reaches no devices"
    )


def test_devices_of_other_classes_do_not_count() -> None:
    other = device_class("fpga", **selecting('device.driver == "fpga.example.com"'))
    wanted = claim("c0", exactly("r", 1, "fpga"))
    assert why(GPUS, other, wanted) == "none of 3 devices that the node reaches is of class fpga"


def test_nodes_without_devices_are_reported_last() -> None:
    classes = device_class(), device_class("fpga", **selecting('device.driver == "fpga.example.com"'))
    fpga = devices_of(
        "n0", "f", driver="fpga.example.com", pool={"name": "f", "generation": 1, "resourceSliceCount": 1}
    )
    stage = Stage(*classes, GPUS, devices_of("n1", "x"), claim("c0", exactly("r", 4)), nodes=4)
    stage.judge(user("c0"))
    assert [len(each.rows) for each in stage.details(user("c0"))] == [1, 1, 2]
    fpga = msgspec.structs.replace(fpga, metadata=msgspec.structs.replace(fpga.metadata, name="fpga"))
    others = [devices_of(f"n{number}", "x") for number in (1, 2)]
    stage = Stage(*classes, fpga, *others, claim("c0", exactly("r", 2, "fpga")), nodes=3)
    stage.judge(user("c0"))
    assert [len(each.rows) for each in stage.details(user("c0"))] == [1, 2]


def test_capacities_and_counters() -> None:
    capacity = {"name": "a", "capacity": {"memory": {"value": "10Gi"}}, "allowMultipleAllocations": True}
    queried = exactly("r", capacity={"requests": {"memory": "20Gi"}})
    assert why(devices_of("n0", capacity), claim("c0", queried)) == (
        "the node reaches 1 device of class gpu, 1 too small, 0 free"
    )


def test_extended_resources_are_reported_like_a_claim() -> None:
    stage = Stage(device_class(extendedResourceName="example.com/gpu"), nodes=1)
    pod = make_pod(requests={"example.com/gpu": "2"})
    stage.judge(pod)
    (detail,) = stage.details(pod)
    assert detail.text.startswith("claim <extended-resources> (container-0-request-0: 2 of class gpu)")


def test_where_no_node_was_looked_at_the_message_says_all() -> None:
    stage = Stage()
    pod, nodes = user("missing"), stage.cache.nodes
    stage.begin(pod)
    assert not list(stage.plugin.details(stage.cycle, PodInfo(pod), nodes, nodes.rows()[:0]))
