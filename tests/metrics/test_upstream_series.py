"""Every series of kube-scheduler is served, or is told as one that is not: the whole lists of both versions.

The end-to-end suite compares the lists with Kubernetes' source, so that a series which a patch release adds is seen.
"""

from pathlib import Path

import pytest

from kscheduler.metrics.process import VERSION_INFO
from tests.metrics.series_stories import STORIES
from tests.metrics.test_series import KUBE_SCHEDULER

ROOT = Path(__file__).parents[2]
SINCE_1_36 = frozenset(
    [
        "async_api_call_execution_duration_seconds",
        "async_api_call_execution_total",
        "batch_attempts_total",
        "batch_cache_flushed_total",
        "cache_size",
        "dra_bindingconditions_allocations_total",
        "dra_bindingconditions_wait_duration_seconds",
        "event_handling_duration_seconds",
        "framework_extension_point_duration_seconds",
        "get_node_hint_duration_seconds",
        "goroutines",
        "inflight_events",
        "pending_async_api_calls",
        "pending_pods",
        "permit_wait_duration_seconds",
        "plugin_evaluation_total",
        "plugin_execution_duration_seconds",
        "pod_scheduled_after_flush_total",
        "pod_scheduling_attempts",
        "pod_scheduling_sli_duration_seconds",
        "podgroup_schedule_attempts_total",
        "podgroup_scheduling_algorithm_duration_seconds",
        "podgroup_scheduling_attempt_duration_seconds",
        "preemption_attempts_total",
        "preemption_goroutines_duration_seconds",
        "preemption_goroutines_execution_total",
        "preemption_victims",
        "queue_incoming_pods_total",
        "queueing_hint_execution_duration_seconds",
        "schedule_attempts_total",
        "scheduling_algorithm_duration_seconds",
        "scheduling_attempt_duration_seconds",
        "store_schedule_results_duration_seconds",
        "unschedulable_pods",
    ]
)
ONLY_1_36 = frozenset({"resourceclaim_creates_total"})
SINCE_1_37 = frozenset(
    [
        "batch_rescore_attempts_total",
        "batch_rescore_duration_seconds",
        "generated_placements_total",
        "placement_evaluation_duration_seconds",
        "placement_evaluations_total",
        "pre_queueing_hint_evaluations_total",
        "preemption_evaluation_duration_seconds",
        "preemption_execution_duration_seconds",
        "preemption_pdb_violations_total",
        "preemption_workload_disruptions",
        "queue_incoming_entities_total",
        "queued_entities",
        "workload_preemption_attempts_total",
        "workload_preemption_victims",
    ]
)
SERIES = {"1.36": SINCE_1_36 | ONLY_1_36, "1.37": SINCE_1_36 | SINCE_1_37}
"""By version, in pkg/scheduler/metrics: names without a subsystem."""

NOT_SERVED = {
    **dict.fromkeys(
        (
            "batch_attempts_total",
            "batch_cache_flushed_total",
            "batch_rescore_attempts_total",
            "batch_rescore_duration_seconds",
            "get_node_hint_duration_seconds",
            "store_schedule_results_duration_seconds",
        ),
        "opportunistic batching: equal pods are judged once, by their class",
    ),
    "pre_queueing_hint_evaluations_total": "hints are not narrowed before they are asked",
    "resourceclaim_creates_total": "served under its name of 1.37 in both versions",
}


@pytest.mark.parametrize("version", SERIES)
def test_every_series_of_kube_scheduler_is_served_or_told_as_one_that_is_not(version: str) -> None:
    told = {name for story in STORIES.values() for name in story.moves} | set(KUBE_SCHEDULER)
    ours = {name.removeprefix("scheduler_").removeprefix("dynamic_resource_allocation_") for name in told}
    assert sorted(SERIES[version] - ours - set(NOT_SERVED)) == []
    assert VERSION_INFO.name == "version_info"


@pytest.mark.parametrize("name", NOT_SERVED)
def test_what_is_not_served_stands_among_the_differences(name: str) -> None:
    text = (ROOT / "docs" / "differences.md").read_text()
    assert name in text or ("scheduler_batch_*" in text and name.startswith("batch_"))
