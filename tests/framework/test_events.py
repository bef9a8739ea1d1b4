"""Cluster events: which registration hears which event, and what metrics call them."""

import pytest

from kscheduler.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    EVERYTHING,
    NODE_ADD,
    UNSCHEDULABLE_POD_ADD,
    UNSCHEDULABLE_TIMEOUT,
    ActionType,
    ClusterEvent,
    Resource,
)

LABELS_AND_TAINTS = ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT


@pytest.mark.parametrize(
    ("event", "label"),
    [
        (ASSIGNED_POD_ADD, "AssignedPodAdd"),
        (ASSIGNED_POD_DELETE, "AssignedPodDelete"),
        (UNSCHEDULABLE_POD_ADD, "UnschedulablePodAdd"),
        (NODE_ADD, "NodeAdd"),
        (ClusterEvent(Resource.NODE, ActionType.UPDATE_NODE_TAINT), "NodeUpdateNodeTaint"),
        (ClusterEvent(Resource.NODE, LABELS_AND_TAINTS), "NodeUpdateNodeLabel|UpdateNodeTaint"),
        (ClusterEvent(Resource.UNSCHEDULABLE_POD, ActionType.UPDATE_OTHER), "UnschedulablePodUpdate"),
        (ClusterEvent(Resource.CSI_NODE, ActionType.UPDATE), "storage.k8s.io/CSINodeUpdate"),
        (UNSCHEDULABLE_TIMEOUT, "UnschedulableTimeout"),
        (EVERYTHING, "Wildcard"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_labels_are_those_of_kube_scheduler(event: ClusterEvent, label: str) -> None:
    assert event.label == label


def on(resource: Resource, action: ActionType) -> ClusterEvent:
    """An event without a name of its own."""
    return ClusterEvent(resource, action)


@pytest.mark.parametrize(
    ("registered", "incoming", "is_registered"),
    [
        (on(Resource.POD, ActionType.DELETE), ASSIGNED_POD_DELETE, True),
        (on(Resource.POD, ActionType.ADD), UNSCHEDULABLE_POD_ADD, True),
        (on(Resource.ASSIGNED_POD, ActionType.ADD), UNSCHEDULABLE_POD_ADD, False),
        (on(Resource.ASSIGNED_POD, ActionType.ADD), on(Resource.POD, ActionType.ADD), False),
        (on(Resource.POD, ActionType.ADD), ASSIGNED_POD_DELETE, False),
        (on(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL), on(Resource.NODE, LABELS_AND_TAINTS), True),
        (on(Resource.NODE, ActionType.UPDATE_NODE_ALLOCATABLE), on(Resource.NODE, LABELS_AND_TAINTS), False),
        (on(Resource.NODE, ActionType.UPDATE), on(Resource.NODE, ActionType.UPDATE_NODE_CONDITION), True),
        (on(Resource.NODE, ActionType.UPDATE), NODE_ADD, False),
        (on(Resource.NODE, ActionType.ALL), on(Resource.CSI_NODE, ActionType.ADD), False),
        (on(Resource.WILDCARD, ActionType.ALL), NODE_ADD, True),
        (on(Resource.NODE, ActionType.ADD), UNSCHEDULABLE_TIMEOUT, True),
    ],
)
def test_resources_must_be_equal_and_actions_overlap(
    registered: ClusterEvent, incoming: ClusterEvent, is_registered: bool
) -> None:
    assert registered.matches(incoming) is is_registered


def test_update_has_every_update_bit_and_no_other() -> None:
    bits = [bit for bit in ActionType if bit.bit_count() == 1 and bit.name and bit.name.startswith("UPDATE_")]
    whole = ActionType(0)
    for bit in bits:
        whole |= bit
    assert whole == ActionType.UPDATE
    assert ActionType.ALL == ActionType.UPDATE | ActionType.ADD | ActionType.DELETE
