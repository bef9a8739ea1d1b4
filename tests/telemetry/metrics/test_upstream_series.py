"""Every series of kube-scheduler is served, or is told as one that is not: the whole lists of all versions.

The end-to-end suite compares the lists with Kubernetes' source, so that a series which a patch release adds is seen.
"""

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from kscheduler.service.metrics.process import VERSION_INFO, process_families
from tests.e2e.parity.metrics_page import full_name
from tests.telemetry.metrics.series_stories import STORIES
from tests.telemetry.metrics.test_series import KUBE_SCHEDULER

ROOT = Path(__file__).parents[3]
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
SINCE_1_38 = frozenset({"store_schedule_results_total"})
# By version, in pkg/scheduler/metrics: names without a subsystem.
SERIES = {
    "1.36": SINCE_1_36 | ONLY_1_36,
    "1.37": SINCE_1_36 | SINCE_1_37,
    "1.38": SINCE_1_36 | SINCE_1_37 | SINCE_1_38,
}

PAGE_OF_ALL = (
    "aggregator_discovery_aggregation_count_total",
    "apiserver_audit_event_total",
    "apiserver_audit_requests_rejected_total",
    "apiserver_delegated_authn_request_duration_seconds",
    "apiserver_delegated_authn_request_total",
    "apiserver_delegated_authz_request_duration_seconds",
    "apiserver_delegated_authz_request_total",
    "apiserver_envelope_encryption_dek_cache_fill_percent",
    "apiserver_storage_data_key_generation_duration_seconds",
    "apiserver_storage_data_key_generation_failures_total",
    "apiserver_storage_envelope_transformation_cache_misses_total",
    "apiserver_validation_declarative_validation_mismatch_total",
    "apiserver_validation_declarative_validation_panic_total",
    "apiserver_validation_duplicate_validation_error_total",
    "apiserver_webhooks_x509_insecure_sha1_total",
    "apiserver_webhooks_x509_missing_san_total",
    "authentication_attempts",
    "authentication_duration_seconds",
    "authentication_token_cache_active_fetch_count",
    "authentication_token_cache_fetch_total",
    "authentication_token_cache_request_duration_seconds",
    "authentication_token_cache_request_total",
    "authenticated_user_requests",
    "authorization_attempts_total",
    "authorization_duration_seconds",
    "cardinality_enforcement_unexpected_categorizations_total",
    "disabled_metrics_total",
    "go_gc_duration_seconds",
    "go_goroutines",
    "go_info",
    "go_memstats_alloc_bytes",
    "go_sched_latencies_seconds",
    "go_threads",
    "hidden_metrics_total",
    "kubernetes_build_info",
    "kubernetes_feature_enabled",
    "leader_election_master_status",
    "leader_election_slowpath_total",
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_network_receive_bytes_total",
    "process_network_transmit_bytes_total",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
    "process_virtual_memory_max_bytes",
    "registered_metrics_total",
    "rest_client_exec_plugin_certificate_rotation_age",
    "rest_client_exec_plugin_ttl_seconds",
    "rest_client_rate_limiter_duration_seconds",
    "rest_client_request_duration_seconds",
    "rest_client_request_size_bytes",
    "rest_client_requests_total",
    "rest_client_response_size_bytes",
    "rest_client_transport_cache_entries",
    "rest_client_transport_cert_rotation_gc_calls_total",
    "rest_client_transport_create_calls_total",
    "scheduler_batch_attempts_total",
    "scheduler_batch_cache_flushed_total",
    "scheduler_get_node_hint_duration_seconds",
    "scheduler_store_schedule_results_duration_seconds",
    "workqueue_adds_total",
    "workqueue_depth",
)
SINCE_1_37_ON_THE_PAGE = (
    "informer_processing_latency_seconds",
    "informer_queued_items",
    "informer_store_resource_version",
    "scheduler_pre_queueing_hint_evaluations_total",
)
# What the binaries of 1.36.3, 1.37.1 and 1.38.0-beta.0 served besides; of Go's own series an example each.
PAGE = {
    "1.36": (
        *PAGE_OF_ALL,
        "aggregator_discovery_nopeer_requests_total",
        "aggregator_discovery_peer_aggregated_cache_hits_total",
        "aggregator_discovery_peer_aggregated_cache_misses_total",
        "apiserver_client_certificate_expiration_seconds",
        "scheduler_resourceclaim_creates_total",
    ),
    "1.37": (*PAGE_OF_ALL, *SINCE_1_37_ON_THE_PAGE),
    "1.38": (*PAGE_OF_ALL, *SINCE_1_37_ON_THE_PAGE, "scheduler_store_schedule_results_total"),
}


def listed() -> list[str]:
    """The names and patterns of docs/operations.md that are told as not served."""
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    table = text.split("| not served | why |")[1].split("\n\n")[0]
    cells = [line.split(" | ")[0].partition(" but ")[0] for line in table.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`([\w*]+)`", cell)]


def is_listed(name: str) -> bool:
    """Whether a series is told as one that is not served."""
    return name not in OURS and any(fnmatchcase(name, pattern) for pattern in listed())


OURS = frozenset(
    {name for story in STORIES.values() for name in story.moves}
    | set(KUBE_SCHEDULER)
    | {full_name(family) for family in process_families()}
    | {"version_info", "process_start_time_seconds"}
)


@pytest.mark.parametrize("version", SERIES)
def test_every_series_of_kube_scheduler_is_served_or_reported_as_one_that_is_not(version: str) -> None:
    ours = {name.removeprefix("scheduler_").removeprefix("dynamic_resource_allocation_") for name in OURS}
    assert sorted(name for name in SERIES[version] - ours if not is_listed(f"scheduler_{name}")) == []
    assert VERSION_INFO.name == "version_info"


@pytest.mark.parametrize("version", PAGE)
def test_so_is_every_series_that_its_libraries_add(version: str) -> None:
    assert [name for name in PAGE[version] if name not in OURS and not is_listed(name)] == []


def test_what_is_reported_as_not_served_is_kube_schedulers_and_is_not_there() -> None:
    theirs = {f"scheduler_{name}" for names in SERIES.values() for name in names} | {
        name for page in PAGE.values() for name in page
    }
    unknown = [pattern for pattern in listed() if not any(fnmatchcase(name, pattern) for name in theirs)]
    assert unknown == []
    assert [name for name in listed() if name in OURS] == []
