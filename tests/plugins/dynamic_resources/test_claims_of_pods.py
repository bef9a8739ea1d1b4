"""Which claims a pod has, and every text for a pod that must wait for them, before the queue and in PreFilter."""

import pytest

from kscheduler.api.core import Pod
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Code
from tests.builders import make_pod
from tests.plugins.dynamic_resources.stage import (
    Stage,
    Tree,
    allocation,
    claim,
    device_class,
    devices_of,
    exactly,
    first_available,
    user,
)

UU = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
TEMPLATE: Tree = {"name": "gpu", "resourceClaimTemplateName": "gpus"}
OWNED: Tree = {"ownerReferences": [{"kind": "Pod", "name": "pod", "uid": "uid-of-pod", "controller": True}]}
GOING: Tree = {"deletionTimestamp": "2026-11-23T00:00:00Z"}


def templated(made: str | None = "") -> Pod:
    """A pod whose claim is made from a template; `made`: its name in the pod's status (`None`: no claim is needed)."""
    statuses = [] if made == "" else [{"name": "gpu", "resourceClaimName": made}]
    return make_pod(resourceClaims=[TEMPLATE], status={"resourceClaimStatuses": statuses})


@pytest.mark.parametrize(
    ("pod", "stored", "text"),
    [
        pytest.param(
            make_pod(resourceClaims=[{"name": "gpu"}]),
            claim(),
            'pod "default/pod", spec.resourceClaim "gpu": none of the supported fields are set',
            id="neither-name-nor-template",
        ),
        pytest.param(
            templated(), claim(), 'pod "default/pod": ResourceClaim not created yet', id="not-in-the-status-yet"
        ),
        pytest.param(
            user("missing"), claim(), 'could not find ResourceClaim "default/missing"', id="claim-does-not-exist"
        ),
        pytest.param(
            templated("c1"), claim(), 'could not find ResourceClaim "default/c1"', id="generated-claim-does-not-exist"
        ),
        pytest.param(user("c0"), claim(metadata=GOING), 'resourceclaim "c0" is being deleted', id="being-deleted"),
        pytest.param(
            templated("c0"),
            claim(),
            "ResourceClaim default/c0 was not created for Pod default/pod (Pod is not owner)",
            id="generated-claim-of-nobody",
        ),
        pytest.param(
            templated("c0"),
            claim(metadata={"ownerReferences": [{"kind": "Pod", "uid": "uid-of-pod"}]}),
            "ResourceClaim default/c0 was not created for Pod default/pod (Pod is not owner)",
            id="owner-but-not-controller",
        ),
    ],
)
def test_a_pod_waits_for_its_claims(pod: Pod, stored: object, text: str) -> None:
    stage = Stage(stored, device_class())
    gated = stage.plugin.pre_enqueue(PodInfo(pod))
    assert (gated.code, gated.reasons) == (UU, (text,))
    status = stage.begin(pod)
    assert (status.code, status.reasons) == (UU, (text,)), "the claim may go between the queue and the cycle"
    result = stage.post_filter(pod)
    assert not result.status.reasons, "there is nothing to be freed"


@pytest.mark.parametrize(
    ("pod", "stored"),
    [
        pytest.param(user("c0"), claim(), id="by-name-of-any-owner"),
        pytest.param(templated("c0"), claim(metadata=OWNED), id="made-from-a-template-for-the-pod"),
        pytest.param(templated(None), claim(), id="no-claim-is-needed"),
        pytest.param(make_pod(), claim(), id="without-claims"),
    ],
)
def test_a_pod_with_its_claims_may_enter_the_queue(pod: Pod, stored: object) -> None:
    assert Stage(stored).plugin.pre_enqueue(PodInfo(pod)).is_success


@pytest.mark.parametrize("pod", [make_pod(), templated(None)], ids=["without-claims", "no-claim-is-needed"])
def test_without_claims_there_is_nothing_to_judge(pod: Pod) -> None:
    stage = Stage(claim())
    assert stage.begin(pod).is_skip
    assert set(stage.points(pod).values()) == {0}
    assert stage.reserve(pod, "n0").is_success
    stage.unreserve(pod, "n0")


@pytest.mark.parametrize(
    ("requests", "code", "text"),
    [
        pytest.param([exactly(device_class="")], Code.ERROR, "request r: unsupported request type", id="no-class"),
        pytest.param(
            [exactly(), exactly("s", device_class="tpu")],
            UU,
            "request s: device class tpu does not exist",
            id="class-missing",
        ),
        pytest.param(
            [first_available("r", "gpu", "tpu")],
            UU,
            "request r/tpu: device class tpu does not exist",
            id="class-of-an-alternative-missing",
        ),
        pytest.param(
            [{"name": "r"}], UU, "resource claim default/c0, request r: unknown request type", id="unknown-type"
        ),
    ],
)
def test_requests_that_no_node_can_serve(requests: list[Tree], code: Code, text: str) -> None:
    stage = Stage(claim("c0", *requests), device_class())
    status = stage.begin(user("c0"))
    assert (status.code, status.reasons) == (code, (text,))


def test_the_first_problem_is_reported_in_the_order_of_the_claims() -> None:
    stage = Stage(claim("c0", exactly(device_class="b")), claim("c1", exactly(device_class="a")))
    assert stage.begin(user("c1", "c0")).message == "request r: device class a does not exist"


def test_requests_of_an_allocated_claim_are_not_looked_at() -> None:
    stage = Stage(claim("c0", exactly(device_class="gone"), allocated=allocation("n0", "d0")))
    assert stage.judge(user("c0")) == {"n0": "", "n1": "resourceclaim not available on the node"}


def test_a_claim_that_is_being_allocated_makes_others_wait() -> None:
    stage = Stage(claim(), device_class(), devices_of("n0", "d0"))
    first, second = user("c0", name="first"), user("c0", name="second")
    assert stage.judge(first)["n0"] == "d0"
    assert stage.reserve(first, "n0").is_success
    status = stage.begin(second)
    assert (status.code, status.message) == (UU, "resource claim default/c0 is in the process of being allocated")


def test_without_the_state_of_devices_a_pod_with_claims_is_an_error() -> None:
    stage = Stage(claim())
    plugin = stage.without(devices=None)
    assert plugin.pre_enqueue(PodInfo(user("c0"))).is_success
    status = plugin.pre_filter(stage.cycle, PodInfo(user("c0")), stage.cache.nodes).status
    assert (status.code, status.message) == (Code.ERROR, "devices and claims to them are not available here")
    assert plugin.pre_filter(stage.cycle, PodInfo(make_pod()), stage.cache.nodes).status.is_skip
