"""The exposition has kube-scheduler's series: names, types, labels and buckets, as its 1.36 inventory declares them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from kscheduler.api.releases import BEHAVIOURS
from kscheduler.client.events.work_queue import WorkQueueCounts
from kscheduler.client.reachability import ReachabilityStatistics
from kscheduler.client.rest_statistics import RESTCounters
from kscheduler.informers.view_age import ViewAgeStatistics
from kscheduler.scheduling.attempt_events import BindingSettled, PodWaitEnded
from kscheduler.scheduling.failures.status_writer import StatusStatistics
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.observers import Observers
from kscheduler.service.metrics.api_client import event_source, informer_source, reachability_source, rest_client_source
from kscheduler.service.metrics.background_writes import status_source, work_queue_source
from kscheduler.service.metrics.followed_version import FollowedVersionStatistics, followed_version_source
from kscheduler.service.metrics.loop_lag import LoopLag
from kscheduler.service.metrics.process import build_info_source, feature_source, process_families, program_samples
from kscheduler.service.metrics.scheduler import Gauges, scheduler_source
from kscheduler.service.monitors.free_room import (
    CLASS_DEVICES,
    NODE_RESOURCES,
    UNUSABLE_DEVICES,
    UNUSABLE_RESOURCES,
)
from kscheduler.telemetry.exposition import Exposition, TextFormat
from kscheduler.telemetry.samples import gauge
from tests.builders import pod_info
from tests.told import CONFLICT, pod_bound, preemption_begun

# (type, labels, bucket bounds as Go prints them)
Declared = tuple[str, set[str], str]

_ATTEMPT = "0.001 0.002 0.004 0.008 0.016 0.032 0.064 0.128 0.256 0.512 1.024 2.048 4.096 8.192 16.384"
_POINT = "0.0001 0.0002 0.0004 0.0008 0.0016 0.0032 0.0064 0.0128 0.0256 0.0512 0.1024 0.2048"
_SLI = (
    "0.01 0.02 0.04 0.08 0.16 0.32 0.64 1.28 2.56 5.12 10.24 20.48 40.96 81.92 163.84 327.68 655.36 1310.72 2621.44 "
    "5242.88"
)
_PLUGIN = (
    "1e-05 1.5000000000000002e-05 2.2500000000000005e-05 3.375000000000001e-05 5.062500000000001e-05 "
    "7.593750000000002e-05 0.00011390625000000003 0.00017085937500000006 0.0002562890625000001 "
    "0.00038443359375000017 0.0005766503906250003 0.0008649755859375004 0.0012974633789062506 "
    "0.0019461950683593758 0.0029192926025390638 0.004378938903808595 0.006568408355712893 0.009852612533569338 "
    "0.014778918800354007 0.02216837820053101"
)

_SIZE = "64 256 512 1024 4096 16384 65536 262144 1.048576e+06 4.194304e+06 1.6777216e+07"

_WORK = "1e-08 1e-07 1e-06 9.999999999999999e-06 9.999999999999999e-05 0.001 0.01 0.1 1 10"

KUBE_SCHEDULER: dict[str, Declared] = {
    "scheduler_schedule_attempts_total": ("counter", {"result", "profile"}, ""),
    "scheduler_scheduling_attempt_duration_seconds": ("histogram", {"result", "profile"}, _ATTEMPT),
    "scheduler_scheduling_algorithm_duration_seconds": ("histogram", set(), _ATTEMPT),
    "scheduler_pod_scheduling_attempts": ("histogram", set(), "1 2 4 8 16"),
    "scheduler_pod_scheduling_sli_duration_seconds": ("histogram", {"attempts"}, _SLI),
    "scheduler_permit_wait_duration_seconds": ("histogram", {"result"}, _ATTEMPT),
    "scheduler_preemption_attempts_total": ("counter", set(), ""),
    "scheduler_preemption_victims": ("histogram", set(), "1 2 4 8 16 32 64"),
    "scheduler_framework_extension_point_duration_seconds": (
        "histogram",
        {"extension_point", "status", "profile"},
        _POINT,
    ),
    "scheduler_plugin_execution_duration_seconds": ("histogram", {"plugin", "extension_point", "status"}, _PLUGIN),
    "scheduler_plugin_evaluation_total": ("counter", {"plugin", "extension_point", "profile"}, ""),
    "scheduler_queue_incoming_pods_total": ("counter", {"queue", "event"}, ""),
    "scheduler_queue_incoming_entities_total": ("counter", {"queue", "event", "type"}, ""),
    "scheduler_queued_entities": ("gauge", {"queue", "type"}, ""),
    "scheduler_event_handling_duration_seconds": ("histogram", {"event"}, _POINT),
    "scheduler_queueing_hint_execution_duration_seconds": ("histogram", {"plugin", "event", "hint"}, _PLUGIN),
    "scheduler_pod_scheduled_after_flush_total": ("counter", set(), ""),
    "scheduler_pending_pods": ("gauge", {"queue"}, ""),
    "scheduler_cache_size": ("gauge", {"type"}, ""),
    "scheduler_unschedulable_pods": ("gauge", {"plugin", "profile"}, ""),
    "scheduler_inflight_events": ("gauge", {"event"}, ""),
    "scheduler_goroutines": ("gauge", {"operation"}, ""),
    "rest_client_requests_total": ("counter", {"code", "method", "host"}, ""),
    "rest_client_request_duration_seconds": (
        "histogram",
        {"verb", "host"},
        "0.005 0.025 0.1 0.25 0.5 1 2 4 8 15 30 60",
    ),
    "rest_client_rate_limiter_duration_seconds": (
        "histogram",
        {"verb", "host"},
        "0.005 0.025 0.1 0.25 0.5 1 2 4 8 15 30 60",
    ),
    "rest_client_request_size_bytes": ("histogram", {"verb", "host"}, _SIZE),
    "rest_client_response_size_bytes": ("histogram", {"verb", "host"}, _SIZE),
    "scheduler_async_api_call_execution_total": ("counter", {"call_type", "result"}, ""),
    "scheduler_async_api_call_execution_duration_seconds": ("histogram", {"call_type", "result"}, _ATTEMPT),
    "scheduler_pending_async_api_calls": ("gauge", {"call_type"}, ""),
    "scheduler_volume_scheduling_stage_error_total": ("counter", {"operation"}, ""),
    "scheduler_volume_scheduling_duration_seconds": ("histogram", {"operation"}, _ATTEMPT),
    "workqueue_adds_total": ("counter", {"name"}, ""),
    "workqueue_depth": ("gauge", {"name"}, ""),
    "workqueue_longest_running_processor_seconds": ("gauge", {"name"}, ""),
    "workqueue_queue_duration_seconds": ("histogram", {"name"}, _WORK),
    "workqueue_retries_total": ("counter", {"name"}, ""),
    "workqueue_unfinished_work_seconds": ("gauge", {"name"}, ""),
    "workqueue_work_duration_seconds": ("histogram", {"name"}, _WORK),
    "kubernetes_feature_enabled": ("gauge", {"name", "stage"}, ""),
    "kubernetes_build_info": (
        "gauge",
        {
            "major",
            "minor",
            "git_version",
            "git_commit",
            "git_tree_state",
            "build_date",
            "go_version",
            "compiler",
            "platform",
        },
        "",
    ),
    "version_info": ("gauge", {"component", "binary", "emulation", "min_compat"}, ""),
    "go_goroutines": ("gauge", set(), ""),
    "process_cpu_seconds_total": ("counter", set(), ""),
    "process_resident_memory_bytes": ("gauge", set(), ""),
    "process_start_time_seconds": ("gauge", set(), ""),
}

OURS: dict[str, Declared] = {
    "kscheduler_bind_conflicts_total": ("counter", set(), ""),
    "kscheduler_claim_errors_total": ("counter", set(), ""),
    "kscheduler_decisions_over_budget_total": ("counter", set(), ""),
    "kscheduler_pod_group_errors_total": ("counter", set(), ""),
    "kscheduler_gated_pods": ("gauge", {"plugin"}, ""),
    "kscheduler_pod_group_members": ("gauge", {"queue"}, ""),
    "kscheduler_device_pools": ("gauge", {"driver", "state"}, ""),
    "kscheduler_devices": ("gauge", {"driver", "state"}, ""),
    "kscheduler_extended_resources": ("gauge", {"resource", "state"}, ""),
    "kscheduler_node_resources": ("gauge", {"resource", "unit", "state"}, ""),
    "kscheduler_class_devices": ("gauge", {"device_class", "driver", "pool", "state"}, ""),
    "kscheduler_unusable_resources": ("gauge", {"resource", "unit", "reason"}, ""),
    "kscheduler_unusable_devices": ("gauge", {"device_class", "driver", "pool", "reason"}, ""),
    "kscheduler_binds_settled_total": ("counter", {"outcome"}, ""),
    "kscheduler_unexpected_errors_total": ("counter", {"boundary"}, ""),
    "kscheduler_plugin_failures_total": ("counter", {"plugin", "extension_point"}, ""),
    "kscheduler_slow_plugin_calls_total": ("counter", {"plugin", "extension_point"}, ""),
    "kscheduler_watch_last_event_age_seconds": ("gauge", {"resource"}, ""),
    "kscheduler_watch_restarts_total": ("counter", {"resource", "reason"}, ""),
    "kscheduler_relists_total": ("counter", {"resource", "reason"}, ""),
    "kscheduler_undecodable_objects": ("gauge", {"resource"}, ""),
    "kscheduler_watch_down_seconds": ("gauge", {"resource", "reason"}, ""),
    "kscheduler_watch_retry_seconds": ("gauge", {"resource"}, ""),
    "kscheduler_objects_reread_total": ("counter", {"resource", "outcome"}, ""),
    "kscheduler_watch_events_out_of_order_total": ("counter", {"resource"}, ""),
    "kscheduler_events_dropped_total": ("counter", set(), ""),
    "kscheduler_scheduled_events_omitted_total": ("counter", set(), ""),
    "kscheduler_status_patches_pending": ("gauge", set(), ""),
    "kscheduler_status_classes_pending": ("gauge", set(), ""),
    "kscheduler_status_patches_total": ("counter", {"outcome"}, ""),
    "kscheduler_api_server_unreachable_seconds": ("gauge", {"host"}, ""),
    "kscheduler_api_server_unauthorized_seconds": ("gauge", {"host"}, ""),
    "kscheduler_api_server_outages_total": ("counter", {"host", "cause"}, ""),
    "kscheduler_asyncio_tasks": ("gauge", set(), ""),
    "kscheduler_build_info": ("gauge", {"version", "python_version", "platform"}, ""),
    "kscheduler_loop_lag_worst_seconds": ("gauge", set(), ""),
    "kscheduler_kubernetes_version_info": ("gauge", {"server", "decides_as"}, ""),
    "kscheduler_kubernetes_version_followed": ("gauge", set(), ""),
}

FREE_ROOM = (NODE_RESOURCES, CLASS_DEVICES, UNUSABLE_RESOURCES, UNUSABLE_DEVICES)

WITHOUT_LABELS_FROM_THE_START = {
    name for name, (_, labels, _) in KUBE_SCHEDULER.items() if not labels and name.startswith("scheduler_")
}


@dataclass(frozen=True)
class InformerReport:
    resource: str = "pods"
    synced: bool = True
    objects: int = 7
    last_event_age_seconds: float | None = 1.5
    restarts: dict[str, int] = field(default_factory=lambda: {"eof": 2})
    relists: dict[str, int] = field(default_factory=lambda: {"gone": 1})
    undecodable: dict[str, str] = field(default_factory=lambda: {"default/odd": "not a number"})
    reread: dict[str, int] = field(default_factory=lambda: {"read": 1, "gone": 0})
    out_of_order: int = 2
    handler_errors: int = 0
    problem: str = "stalled: no answer in time"
    resting: bool = False
    view: ViewAgeStatistics = field(default_factory=lambda: ViewAgeStatistics(75.0, 12.0))


@dataclass(frozen=True)
class EventReport:
    queued: int = 0
    sent: int = 10
    patched: int = 3
    dropped: int = 1
    failed: int = 0


def everything_happened_once(observations: Observations) -> None:
    tell = Observers(observations).tell
    tell(pod_bound(was_flushed=True))
    observations.algorithm_seconds.observe(0.002)
    tell(PodWaitEnded(pod_info(), "node", "Permit", "Success", 0.5))
    observations.preemption_attempt()
    tell(preemption_begun(3, to_go=3))
    observations.extension_point("Filter", "Success", "default-scheduler", 0.0002)
    observations.plugin_execution("NodeName", "Filter", "Success", 0.00002)
    observations.plugin_evaluations["NodeName", "Filter", "default-scheduler"] += 1
    observations.follow(BEHAVIOURS["1.37"])
    observations.queue_incoming_many("active", "UnschedulablePodAdd", 1, 1)
    observations.queue_incoming_many("backoff", "NodeAdd", 40, 0)
    observations.event_handling("NodeAdd", 0.0004)
    observations.queueing_hint("NodeName", "NodeAdd", "Queue", 0.00001)
    tell(CONFLICT)
    tell(BindingSettled(CONFLICT.pod, "node", "bound", "409"))
    observations.async_api_call("pod_binding", "success", 0.003)
    observations.volume_scheduling("bind", 1.5, is_ok=False)
    observations.plugin_failed("Mine", "Filter")
    observations.plugin_was_slow("Mine", "Filter")


def full_exposition(observations: Observations) -> Exposition:
    gauges = Gauges(
        pending_pods=lambda: {"active": 3, "backoff": 0, "unschedulable": 2, "gated": 1},
        queued_entities=lambda: {("active", "pod"): 3},
        cache_size=lambda: {"nodes": 5, "pods": 9, "assumed_pods": 1},
        unschedulable_pods=lambda: {("NodeAffinity", "default-scheduler"): 2},
        inflight_events=lambda: {"PodPopped": 4},
        goroutines=lambda: {"binding": 2},
        pending_api_calls=lambda: {"pod_status_patch": 3},
        gated_pods=lambda: {"DynamicResources": 1},
        group_members=lambda: {"backoff": 4},
        device_pools=lambda: {("gpu.example.com", "incomplete"): 1},
        devices=lambda: {("gpu.example.com", "free"): 1},
        extended_resources=lambda: {("nvidia.com/gpu", "requested"): 1},
    )
    watches, writes = RESTCounters(), RESTCounters()
    watches.count(200, "GET", 0.02)
    writes.count_waited("POST", 0.01)
    writes.count(201, "POST", 0.004, 300, 900)
    writes.count(0, "POST", 29.0)
    writes.count(200, "GET", 0.3)
    sources = [
        scheduler_source(observations, gauges),
        rest_client_source("10.0.0.1:443", [watches.statistics, writes.statistics]),
        informer_source(lambda: [InformerReport()]),
        event_source(EventReport, lambda: 12),
        status_source(lambda: StatusStatistics(3, 1, 2, 40, 7, 2, 1)),
        lambda: [gauge(series, {series.labels: 1}) for series in FREE_ROOM],
        LoopLag().samples,
        build_info_source("0.1.0", lambda: "1.36"),
        followed_version_source(lambda: FollowedVersionStatistics("1.38", "1.37", is_followed=False)),
        feature_source(lambda: {("SchedulerQueueingHints", ""): True}),
        program_samples,
        work_queue_source(lambda: WorkQueueCounts("events").statistics(3, 10.0)),
        reachability_source("10.0.0.1:443", lambda: ReachabilityStatistics(0.0, 0.0, {"refused": 1})),
    ]
    return Exposition(sources, on_thread=[process_families])


async def families_of(exposition: Exposition) -> dict[str, Metric]:
    try:
        text = (await exposition.render()).body.decode()
    finally:
        exposition.close()
    return {
        f"{metric.name}_total" if metric.type == "counter" else metric.name: metric
        for metric in text_string_to_metric_families(text)
    }


def _labels(metric: Metric) -> set[str]:
    return {label for sample in metric.samples for label in sample.labels} - {"le"}


def _bounds(metric: Metric) -> str:
    bounds = [sample.labels["le"] for sample in metric.samples if "le" in sample.labels]
    return " ".join(dict.fromkeys(bound for bound in bounds if bound != "+Inf"))


def _declared(metric: Metric) -> Declared:
    return metric.type, _labels(metric), _bounds(metric)


@pytest.fixture
async def families() -> dict[str, Metric]:
    observations = Observations()
    everything_happened_once(observations)
    return await families_of(full_exposition(observations))


@pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in KUBE_SCHEDULER | OURS])
async def test_a_series_has_its_declared_type_labels_and_buckets(families: dict[str, Metric], name: str) -> None:
    assert _declared(families[name]) == (KUBE_SCHEDULER | OURS)[name]


async def test_no_scheduler_series_is_exposed_that_kube_scheduler_does_not_have(families: dict[str, Metric]) -> None:
    exposed = {name for name in families if name.startswith(("scheduler_", "rest_client_"))}
    assert exposed <= KUBE_SCHEDULER.keys()


async def test_every_series_reports_what_it_is(families: dict[str, Metric]) -> None:
    assert [name for name, metric in families.items() if not metric.documentation] == []


async def test_before_anything_happened_only_the_series_without_labels_stand_at_zero() -> None:
    exposition = Exposition([scheduler_source(Observations(), Gauges())])
    families = await families_of(exposition)
    exposed = {name for name in families if name.startswith("scheduler_")}
    assert exposed == WITHOUT_LABELS_FROM_THE_START
    assert all(sample.value == 0 for name in exposed for sample in families[name].samples)


def _value(metrics: Iterable[Metric], name: str, **labels: str) -> float:
    (value,) = [
        sample.value
        for metric in metrics
        for sample in metric.samples
        if sample.name == name and sample.labels.items() >= labels.items()
    ]
    return value


async def test_the_requests_of_all_clients_are_added_up(families: dict[str, Metric]) -> None:
    name = "rest_client_request_duration_seconds"
    assert _value(families.values(), f"{name}_count", verb="GET") == 2
    assert _value(families.values(), f"{name}_sum", verb="GET") == pytest.approx(0.32)
    assert _value(families.values(), "rest_client_requests_total", code="<error>", method="POST") == 1


async def test_the_values_are_those_that_were_observed(families: dict[str, Metric]) -> None:
    metrics = families.values()
    assert _value(metrics, "scheduler_pending_pods", queue="unschedulable") == 2
    assert _value(metrics, "scheduler_queue_incoming_pods_total", queue="backoff") == 40
    assert _value(metrics, "scheduler_preemption_victims_bucket", le="2") == 0
    assert _value(metrics, "scheduler_preemption_victims_bucket", le="4") == 1
    assert _value(metrics, "kscheduler_undecodable_objects", resource="pods") == 1
    assert _value(metrics, "kscheduler_watch_down_seconds", resource="pods", reason="stalled") == 75.0
    assert _value(metrics, "kscheduler_watch_retry_seconds", resource="pods") == 12.0


async def test_openmetrics_says_the_same_with_canonical_bounds() -> None:
    observations = Observations()
    everything_happened_once(observations)
    exposition = full_exposition(observations)
    exposed = await exposition.render(TextFormat.OPENMETRICS)
    exposition.close()
    metrics = list(parse_openmetrics(exposed.body.decode()))  # type: ignore[no-untyped-call]  # untyped there
    assert exposed.content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert _value(metrics, "scheduler_pod_scheduling_attempts_bucket", le="16.0") == 1
    assert _value(metrics, "scheduler_schedule_attempts_total", result="scheduled") == 1


async def test_an_informer_whose_watch_has_brought_nothing_yet_has_no_age() -> None:
    exposition = Exposition([informer_source(lambda: [InformerReport(last_event_age_seconds=None)])])
    assert "kscheduler_watch_last_event_age_seconds" not in await families_of(exposition)


@pytest.mark.parametrize(
    ("server", "host"),
    [
        pytest.param("https://10.96.0.1:443", "10.96.0.1:443", id="url"),
        pytest.param("https://[::1]:6443/prefix", "[::1]:6443", id="ipv6-with-path"),
        pytest.param("https://user:secret@api.example:6443", "api.example:6443", id="password"),
        pytest.param("127.0.0.1:8001", "127.0.0.1:8001", id="host-and-port"),
    ],
)
async def test_the_host_label_is_host_and_port(server: str, host: str) -> None:
    counters = RESTCounters()
    counters.count(200, "GET", 0.01)
    families = await families_of(Exposition([rest_client_source(server, [counters.statistics])]))
    assert {sample.labels["host"] for sample in families["rest_client_requests_total"].samples} == {host}
