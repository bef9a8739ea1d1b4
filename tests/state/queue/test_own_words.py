"""What the scheduler writes to a pod comes back by the watch, and must not wake it."""

from typing import Any

import pytest

from kscheduler.state.queue.pod_updates import is_own_write, pod_update_events
from tests.builders import make_pod

REJECTED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}


@pytest.mark.parametrize(
    ("fields", "is_ours"),
    [
        ({"status": {"conditions": [REJECTED]}}, True),
        ({"status": {"nominatedNodeName": "n1"}}, True),
        ({"status": {"conditions": [REJECTED], "nominatedNodeName": "n1"}}, True),
        ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, False),
        ({"labels": {"a": "b"}, "status": {"conditions": [REJECTED]}}, False),
        ({"metadata": {"annotations": {"a": "b"}}}, False),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, False),
        ({"priority": 3}, False),
    ],
    ids=["condition", "nomination", "both", "another condition", "labels too", "annotations", "deletion", "spec"],
)
def test_only_our_condition_and_nomination_are_ours(fields: dict[str, Any], is_ours: bool) -> None:
    assert is_own_write(make_pod("p"), make_pod("p", **fields)) is is_ours
    assert is_own_write(make_pod("p", **fields), make_pod("p")) is is_ours


def test_a_pod_whose_requests_cannot_be_read_changes_without_harm() -> None:
    """Our own condition comes back for it too, and its handler must not fail."""
    broken = make_pod("p", requests={"cpu": "a lot"})
    reported = make_pod("p", requests={"cpu": "a lot"}, status={"conditions": [REJECTED]})
    assert is_own_write(broken, reported)
    assert [event.label for event in pod_update_events(broken, reported)] == ["UnschedulablePodUpdate"]
