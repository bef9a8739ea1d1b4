"""What a parked pod waits for, in words."""

import pytest

from kscheduler.explain.awaited_events import awaited_changes, awaited_in_words
from kscheduler.explain.in_service import InService, service_lines
from kscheduler.framework.events import PLUGIN_DATA_UPDATE, ActionType, ClusterEvent, Resource


def label(resource: Resource | str, action: ActionType) -> str:
    return ClusterEvent(resource, action).label


A = ActionType
CASES = [
    ([(Resource.NODE, A.ADD | A.UPDATE_NODE_LABEL)], ["a node is added or changes its labels"]),
    (
        [(Resource.NODE, A.ADD | A.UPDATE_NODE_ALLOCATABLE), (Resource.NODE, A.UPDATE_NODE_TAINT)],
        ["a node is added or changes its room or taints"],
    ),
    ([(Resource.NODE, A.UPDATE)], ["a node changes"]),
    ([(Resource.NODE, A.ALL)], ["a node is added, goes or changes"]),
    ([(Resource.POD, A.DELETE | A.UPDATE_POD_SCALE_DOWN)], ["a pod leaves its node or asks for less"]),
    (
        [(Resource.ASSIGNED_POD, A.ADD), (Resource.UNSCHEDULABLE_POD, A.UPDATE_POD_TOLERATION)],
        ["a pod gets a node or changes its tolerations"],
    ),
    ([(Resource.ASSIGNED_POD, A.DELETE | A.UPDATE_POD_SCALE_DOWN)], ["a pod leaves its node or asks for less"]),
    (
        [
            (Resource.DEVICE_CLASS, A.ADD | A.UPDATE_NODE_LABEL | A.UPDATE_OTHER),
            (Resource.RESOURCE_SLICE, A.ADD | A.UPDATE),
            (Resource.CSI_NODE, A.ADD),
            (Resource.POD, A.DELETE),
        ],
        ["a pod leaves its node", "a CSINode is added", "a DeviceClass or ResourceSlice is added or changes"],
    ),
    ([("widgets.v1.example.com", A.DELETE)], ["a widgets.v1.example.com goes"]),
    ([(Resource.WILDCARD, A.ALL)], ["anything changes"]),
]


@pytest.mark.parametrize(("events", "words"), CASES)
def test_events_of_one_kind_are_reported_together(events: list[tuple[Resource | str, A]], words: list[str]) -> None:
    assert awaited_in_words(label(*event) for event in events) == words


def test_each_sentence_has_the_labels_that_metrics_count_it_by() -> None:
    events = [
        (Resource.ASSIGNED_POD, A.DELETE | A.UPDATE_POD_SCALE_DOWN),
        (Resource.NODE, A.ADD | A.UPDATE_NODE_TAINT),
        (Resource.RESOURCE_SLICE, A.ADD),
        (Resource.RESOURCE_CLAIM, A.ADD),
        (Resource.DEVICE_CLASS, A.UPDATE_NODE_LABEL | A.UPDATE_NODE_TAINT),
        (Resource.NODE, A.ADD),
        (Resource.WILDCARD, A.ALL),
    ]
    assert awaited_changes(label(*event) for event in events) == [
        ("a node is added or changes its taints", ("NodeAdd", "NodeUpdateNodeTaint")),
        ("a pod leaves its node or asks for less", ("AssignedPodDelete", "AssignedPodUpdatePodScaleDown")),
        ("a DeviceClass changes", ("resource.k8s.io/DeviceClassUpdate",)),
        (
            "a ResourceClaim or ResourceSlice is added",
            ("resource.k8s.io/ResourceClaimAdd", "resource.k8s.io/ResourceSliceAdd"),
        ),
        ("anything changes", ("*All",)),
    ]


def test_events_of_all_pods_have_the_labels_of_assigned_pods_and_of_others() -> None:
    (change,) = awaited_changes([label(Resource.POD, A.DELETE | A.UPDATE_POD_LABEL)])
    assert change.words == "a pod leaves its node or changes its labels"
    assert change.labels == ("AssignedPodDelete", "AssignedPodUpdatePodLabel", "UnschedulablePodUpdatePodLabel")


def test_data_of_a_plugins_own_have_words_of_their_own() -> None:
    assert awaited_in_words([PLUGIN_DATA_UPDATE.label]) == ["a plugin's data change"]


def test_a_parked_pod_says_what_brings_it_back_and_no_label() -> None:
    labels = (label(Resource.NODE, A.ADD | A.UPDATE_NODE_TAINT), label(Resource.POD, A.DELETE))
    parked = InService(0.0, "unschedulable", leads=True, attempts=2, since=0.0, awaits=labels)
    (line,) = service_lines(parked)
    assert line == (
        "parked since 1970-01-01T00:00:00Z after 2 attempts; it is tried again when a node is added or changes its "
        "taints, or when a pod leaves its node"
    )
    assert parked.answer.awaits_events == labels
    (line,) = service_lines(InService(0.0, "unschedulable", leads=True, attempts=1, since=0.0))
    assert line.endswith("after 1 attempt; no event wakes it: it is tried again after some minutes")


def test_an_error_that_stands_elsewhere_in_the_answer_is_not_repeated() -> None:
    failed = InService(0.0, "backoff", leads=True, attempts=1, backoff_until=0.0, last_error="no")
    assert [line for line in service_lines(failed) if "ended in an error: no" in line]
    assert not [line for line in service_lines(failed, {"no"}) if "error" in line]
