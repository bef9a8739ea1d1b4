"""A trial leaves nothing behind, whatever was taken out and put back: neither in columns nor in the order of pods."""

from typing import Any

import numpy as np
import pytest

from kscheduler.scenario.decide_group import decide_group
from kscheduler.scenario.scenario import GroupScenario
from kscheduler.scheduling.groups.group_cycle import GroupInputs, GroupResult
from kscheduler.scheduling.groups.group_preemption import run_group_post_filter
from tests.vectors.test_recorded_group_preemption import LINES

COLUMNS = ("allocatable", "requested", "nonzero_requested", "pod_count", "is_live")


def state_of(inputs: GroupInputs) -> dict[str, Any]:
    """Everything that a decision reads of the nodes and of the pods on them."""
    cache = inputs.cache
    rows = cache.nodes.rows()
    infos = [cache.nodes.info(row) for row in rows.tolist()]
    return {
        "columns": {name: getattr(cache.nodes, name)[..., rows].tolist() for name in COLUMNS},
        "pods": {info.name: list(info.pods) for info in infos},
        "sums": {info.name: {key: amount for key, amount in info.requested.items() if amount} for info in infos},
        "ports": sorted(cache.nodes.ports.conflicting_rows([("TCP", 80, "0.0.0.0")])),  # an address of pods
        "sizes": cache.statistics(),
        "scheduled": {
            group.key.name: sorted(cache.pod_groups.scheduled_uids(group.key)) for group in cache.pod_groups.groups()
        },
        "affinity": [
            np.asarray(group.holders)[rows].tolist()
            for pod in inputs.members
            for group in cache.counters.required_anti_affinity(pod)
        ],
    }


@pytest.mark.parametrize("scenario", [scenario for scenario, _ in LINES[::3]], ids=lambda scenario: scenario.id)
def test_everything_is_as_before(scenario: GroupScenario, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    def watched(inputs: GroupInputs, result: GroupResult, place: Any) -> str:
        nonlocal compared
        before = state_of(inputs)
        searched = run_group_post_filter(inputs, result, place)
        assert state_of(inputs) == before
        compared += 1
        return searched

    monkeypatch.setattr("kscheduler.scenario.decide_group.run_group_post_filter", watched)
    decision = decide_group(scenario)
    assert compared or decision.status is None or not decision.status.is_rejected
