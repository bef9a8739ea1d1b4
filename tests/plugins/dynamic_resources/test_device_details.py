"""What explanations say of nodes that DynamicResources has rejected."""

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail
from tests.builders import make_pod
from tests.plugins.dynamic_resources.stage import (
    DRIVER,
    Stage,
    allocation,
    claim,
    device_class,
    devices_of,
    exactly,
    user,
)


def told(stage: Stage, details: list[Detail]) -> dict[str, list[str]]:
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
    assert told(stage, details) == {
        "claim c0 (r: 2 of class gpu) cannot be served; the node reaches 2 devices, 1 of them in use": ["n0"],
        "claim c0 (r: 2 of class gpu) cannot be served; the node reaches no devices": ["n1"],
        "claim c1 (r: 1 of class gpu) cannot be served; the node reaches no devices": ["n1"],
    }
    assert details[0].kind == "devicesLacking"
    assert details[0].facts == {
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


def test_where_the_devices_of_a_claim_are() -> None:
    stage = Stage(claim(allocated=allocation("n1", "a")))
    stage.judge(user("c0"))
    assert told(stage, stage.details(user("c0"))[:1]) == {
        f"claim c0 has {DRIVER}/n1/a, reached only from nodes with metadata.name=n1": ["n0"]
    }


def test_devices_that_failed() -> None:
    conditions = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}
    broken = {"type": "Broken", "status": "True", "reason": "Fan", "message": 'no "air"'}
    report = {"devices": [{"driver": DRIVER, "pool": "n0", "device": "a", "conditions": [broken]}]}
    stage = Stage(claim(allocated=allocation("n0", "a", **conditions), status=report), nodes=1)
    stage.judge(user("c0"))
    assert told(stage, stage.details(user("c0"))) == {
        'device binding failed: claim=c0, reason=Fan, message="no \\"air\\""': ["n0"]
    }


def test_a_pool_that_contradicts_itself() -> None:
    stage = Stage(device_class(), claim(), devices_of("n0", "a", "a"), nodes=1)
    stage.judge(user("c0"))
    assert [each.kind for each in stage.details(user("c0"))] == ["poolInvalid"]


def test_extended_resources_are_told_like_a_claim() -> None:
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
