"""Which changes of claims and pods may help a pod that DynamicResources has rejected, in both versions."""

from typing import Any

import pytest

from kscheduler.api.core import Pod
from kscheduler.api.meta import KubeObject
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.framework.events import ActionType, ClusterEvent, QueueingHint, Resource
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.node_resources_fit import NodeResourcesFit
from tests.builders import make_pod
from tests.plugins.dynamic_resources.stage import Stage, allocation, claim, device_class, devices_of, user

ADD, UPDATE, DELETE = ActionType.ADD, ActionType.UPDATE, ActionType.DELETE
CLAIM, POD = Resource.RESOURCE_CLAIM, Resource.UNSCHEDULABLE_POD
GENERATED = ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
FREE, TAKEN = claim(), claim(allocated=allocation("n0", "d0"))
OTHER_FREE, OTHER_TAKEN = claim("c1"), claim("c1", allocated=allocation("n0", "d1"))
TEMPLATED = make_pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpus"}])


def generated(name: str) -> Pod:
    """The pod, with the name of its claim in its status."""
    statuses = [{"name": "gpu", "resourceClaimName": name}]
    return make_pod(
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpus"}],
        status={"resourceClaimStatuses": statuses},
    )


def queried(stage: Stage, event: ClusterEvent, pod: Pod, old: KubeObject | None, new: KubeObject | None) -> bool:
    """Whether one of the hints for the event says Queue."""
    hints = [each.hint for each in stage.plugin.events_to_register() if each.event.matches(event)]
    info = PodInfo(pod)
    return any(hint is None or hint(info, old, new) is QueueingHint.QUEUE for hint in hints)


@pytest.mark.parametrize("version", BEHAVIOURS)
@pytest.mark.parametrize(
    ("action", "old", "new", "helps"),
    [
        pytest.param(ADD, None, FREE, True, id="own-claim-is-new"),
        pytest.param(ADD, None, OTHER_FREE, False, id="another-claim-is-new"),
        pytest.param(UPDATE, FREE, TAKEN, True, id="own-claim-is-allocated"),
        pytest.param(UPDATE, TAKEN, FREE, True, id="own-claim-gives-its-devices-back"),
        pytest.param(UPDATE, OTHER_TAKEN, OTHER_FREE, True, id="any-claim-gives-its-devices-back"),
        pytest.param(UPDATE, OTHER_FREE, OTHER_TAKEN, False, id="another-claim-is-allocated"),
        pytest.param(UPDATE, FREE, claim(metadata={"labels": {"a": "b"}}), False, id="own-claim-with-the-same-status"),
        pytest.param(DELETE, OTHER_TAKEN, None, True, id="an-allocated-claim-is-gone"),
        pytest.param(DELETE, OTHER_FREE, None, False, id="a-claim-without-devices-is-gone"),
    ],
)
def test_a_change_of_a_claim(
    version: str, action: ActionType, old: KubeObject | None, new: KubeObject | None, helps: bool
) -> None:
    stage = Stage(new if new is not None and new.key == "default/c0" else FREE, version=version)
    assert queried(stage, ClusterEvent(CLAIM, action), user("c0"), old, new) is helps


def test_no_claim_helps_a_pod_of_which_another_claim_is_missing() -> None:
    stage = Stage(FREE)
    assert not queried(stage, ClusterEvent(CLAIM, UPDATE), user("c0", "missing"), OTHER_TAKEN, OTHER_FREE)


STARTS = [user("missing"), user("c0", "missing"), user("missing", "c0"), TEMPLATED, generated("c9"), generated("c1")]


@pytest.mark.parametrize("pod", STARTS, ids=str)
@pytest.mark.parametrize(
    ("action", "old", "new"),
    [
        *[(ADD, None, FREE), (UPDATE, FREE, TAKEN), (UPDATE, TAKEN, FREE), (UPDATE, OTHER_TAKEN, OTHER_FREE)],
        *[(DELETE, OTHER_TAKEN, None), (DELETE, OTHER_FREE, None)],
    ],
)
def test_while_a_claim_is_missing_an_event_says_the_same_to_all(
    pod: Pod, action: ActionType, old: KubeObject | None, new: KubeObject | None
) -> None:
    """The queue asks one of the pods that wait, and counts the others (`ObjectGate`)."""
    stage = Stage(FREE, OTHER_FREE)
    assert stage.plugin.gating_objects(PodInfo(pod)) is not None
    event, another = ClusterEvent(CLAIM, action), user("nowhere", name="another")
    assert queried(stage, event, pod, old, new) is queried(stage, event, another, old, new)


def test_a_pod_waits_for_its_first_claim_that_is_missing() -> None:
    stage = Stage(FREE)
    awaited = {pod: stage.plugin.gating_objects(PodInfo(user(*pod))) for pod in [("c0",), ("c0", "c1"), ("c1", "c2")]}
    assert awaited == {("c0",): None, ("c0", "c1"): ["default/c1"], ("c1", "c2"): ["default/c1"]}
    assert stage.plugin.gating_objects(PodInfo(TEMPLATED)) == [], "it waits for its own change"
    assert stage.plugin.gating_objects(PodInfo(generated("c9"))) == ["default/c9"]


@pytest.mark.parametrize(
    ("new", "helps"),
    [
        pytest.param(generated("c0"), True, id="its-claims-exist"),
        pytest.param(generated("c9"), False, id="the-claim-is-not-seen-yet"),
        pytest.param(TEMPLATED, False, id="no-claim-is-made-yet"),
    ],
)
def test_the_controller_has_named_the_pods_claims(new: Pod, helps: bool) -> None:
    owner = {"ownerReferences": [{"kind": "Pod", "uid": "uid-of-pod", "controller": True}]}
    stage = Stage(claim(metadata=owner))
    assert queried(stage, ClusterEvent(POD, GENERATED), TEMPLATED, TEMPLATED, new) is helps


@pytest.mark.parametrize(
    ("gone", "helps"),
    [
        pytest.param(user("c7", name="gone"), True, id="with-claims"),
        pytest.param(make_pod("gone"), False, id="without-claims"),
    ],
)
def test_the_end_of_a_pod_may_free_what_was_reserved_and_not_written(gone: Pod, helps: bool) -> None:
    event = ClusterEvent(Resource.ASSIGNED_POD, DELETE)
    assert queried(Stage(FREE), event, user("c0"), gone, None) is helps


@pytest.mark.parametrize(
    "event",
    [
        ClusterEvent(Resource.NODE, ADD),
        ClusterEvent(Resource.NODE, ActionType.UPDATE_NODE_LABEL),
        ClusterEvent(Resource.NODE, ActionType.UPDATE_NODE_ALLOCATABLE),
        ClusterEvent(Resource.DEVICE_CLASS, ADD),
        ClusterEvent(Resource.DEVICE_CLASS, UPDATE),
        ClusterEvent(Resource.RESOURCE_SLICE, ADD),
        ClusterEvent(Resource.RESOURCE_SLICE, UPDATE),
        ClusterEvent(Resource.RESOURCE_SLICE, DELETE),
    ],
    ids=lambda event: event.label,
)
def test_nodes_classes_and_slices_may_always_help(event: ClusterEvent) -> None:
    assert queried(Stage(FREE), event, user("c0"), None, devices_of("n0", "d0"))


@pytest.mark.parametrize(
    "event",
    [
        ClusterEvent(Resource.NODE, ActionType.UPDATE_NODE_CONDITION),
        ClusterEvent(Resource.DEVICE_CLASS, DELETE),
        ClusterEvent(Resource.ASSIGNED_POD, ADD),
    ],
    ids=lambda event: event.label,
)
def test_other_events_are_not_registered(event: ClusterEvent) -> None:
    assert not queried(Stage(FREE), event, user("c0"), None, None)


def test_a_class_may_stand_for_a_resource_of_a_pod() -> None:
    """NodeResourcesFit has rejected such a pod, and waits for classes: only with the gate, which is on."""

    def hint(pod: Pod, old: Any, new: Any) -> bool:
        plugin = NodeResourcesFit(None, Stage().handle)
        (registered,) = (each for each in plugin.events_to_register() if each.event.resource is Resource.DEVICE_CLASS)
        assert registered.hint is not None
        return registered.hint(PodInfo(pod), old, new) is QueueingHint.QUEUE

    named = device_class(extendedResourceName="example.com/gpu")
    wants = make_pod(requests={"example.com/gpu": "1"})
    assert hint(wants, None, named)
    assert hint(wants, device_class(), named)
    assert not hint(wants, named, named), "it stood for it before"
    assert not hint(wants, None, device_class())
    assert hint(make_pod(requests={"deviceclass.resource.kubernetes.io/gpu": "1"}), None, device_class())
    assert FeatureGates(version="1.36").enabled("DRAExtendedResource")
