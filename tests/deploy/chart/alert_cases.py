"""For each alert a story in which it fires, alone, and the nearest one in which it does not.

Series are written as promtool wants them: `0x30` is 0 for 31 minutes, `0+5x30` grows by 5 a minute, `_` is a missed
scrape. Two replicas are up, `a` leads, in every story that does not say otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

UP: Final = {'up{job="kscheduler", instance="a"}': "1x900", 'up{job="kscheduler", instance="b"}': "1x900"}
LEADS: Final = {
    'leader_election_master_status{job="kscheduler", instance="a", name="kscheduler"}': "1x900",
    'leader_election_master_status{job="kscheduler", instance="b", name="kscheduler"}': "0x900",
}
NORMAL: Final = UP | LEADS

Series = Mapping[str, str]


def of_a(name: str, labels: str = "") -> str:
    """A series of replica `a`."""
    return f'{name}{{job="kscheduler", instance="a"{", " + labels if labels else ""}}}'


def of_b(name: str, labels: str = "") -> str:
    """A series of replica `b`."""
    return of_a(name, labels).replace('instance="a"', 'instance="b"')


@dataclass(frozen=True)
class AlertCase:
    """`labels` are those of the alert that fires after `fires`; none does after `quiet`. `normal` is there in both."""

    alert: str
    at: str
    fires: Series
    quiet: Series
    labels: Mapping[str, str] = field(default_factory=dict)
    normal: Series = field(default_factory=lambda: NORMAL)


def growing(name: str, labels: str, fires: str, quiet: str) -> dict[str, dict[str, str]]:
    """The same counter, once growing too much and once not."""
    return {"fires": {of_a(name, labels): fires}, "quiet": {of_a(name, labels): quiet}}


GPUS: Final = 'resource="nvidia.com/gpu", unit=""'
CLASS: Final = 'device_class="gpu", driver="gpu.example.com", pool="(nodes)"'
KINDS: Final = ("pods", "nodes", "csidrivers")


def outage(name: str, reason: str, seconds: str) -> Series:
    """How long the API server has not served the replica, and with it no watch: nothing more is worth an alert."""
    watches: dict[str, str] = {}
    for kind in KINDS:
        watches[of_a("kscheduler_watch_down_seconds", f'resource="{kind}", reason="{reason}"')] = seconds
        watches[of_a("kscheduler_watch_last_event_age_seconds", f'resource="{kind}"')] = seconds
    return {of_a(name, 'host="10.0.0.1:443"'): seconds, **watches}


def extender_calls(**results: str) -> Series:
    """Calls to one extender, by how they ended."""
    name = "kscheduler_extender_call_duration_seconds_count"
    labels = 'extender="http://gpu", verb="filter"'
    return {of_a(name, f'{labels}, result="{result}"'): values for result, values in results.items()}


def sli(slow: str) -> Series:
    """600 pods a minute bound at their first attempt, all but a share of them within 1.28 s."""
    name = "scheduler_pod_scheduling_sli_duration_seconds"
    return {
        of_a(f"{name}_count", 'attempts="1"'): "0+600x900",
        of_a(f"{name}_bucket", 'attempts="1", le="1.28"'): slow,
    }


INSTANCE: Final = {"job": "kscheduler", "instance": "a"}
JOB: Final = {"job": "kscheduler"}
LEASE: Final = {"job": "kscheduler", "name": "kscheduler"}
ATTEMPTS: Final = "scheduler_schedule_attempts_total"
CLAIM_ERRORS: Final = "kscheduler_claim_errors_total"
OVER_BUDGET: Final = "kscheduler_decisions_over_budget_total"
GROUP_ERRORS: Final = "kscheduler_pod_group_errors_total"
QUERIES: Final = "kscheduler_questions_total"
BINDS: Final = "scheduler_async_api_call_execution_total"

CASES: Final = (
    AlertCase(
        "KschedulerDown",
        "15m",
        fires={of_a("up"): "1 1 0x30", of_b("up"): "1 1 _x30"},
        quiet={of_a("up"): "1x30", of_b("up"): "1 1 1 0 0 0 1x30"},
        normal={},
    ),
    AlertCase(
        "KschedulerReplicaDown",
        "15m",
        fires={of_a("up"): "0x30", of_b("up"): "1x30"},
        quiet={of_a("up"): "0x8 1x30", of_b("up"): "1x30"},
        labels=INSTANCE,
        normal={},
    ),
    AlertCase(
        "KschedulerNotSynced",
        "10m",
        fires={of_a("kscheduler_informer_synced", 'resource="pods"'): "0x30"},
        quiet={of_a("kscheduler_informer_synced", 'resource="pods"'): "0x3 1x30"},
        labels=INSTANCE | {"resource": "pods"},
    ),
    AlertCase(
        "KschedulerNoLeader",
        "10m",
        fires=dict.fromkeys(LEADS, "0x30"),
        # one scrape between two leaders shows none
        quiet=dict(zip(LEADS, ("1 1 1 1 0 0 0 0x30", "0 0 0 0 0 1 1 1x30"), strict=True)),
        labels=LEASE,
        normal=UP,
    ),
    AlertCase(
        "KschedulerTwoLeaders",
        "10m",
        fires=dict.fromkeys(LEADS, "1x30"),
        quiet=dict(zip(LEADS, ("1 1 1 1 1 0x30", "0 0 0 0 1 1x30"), strict=True)),
        labels=LEASE,
        normal=UP,
    ),
    AlertCase(
        "KschedulerLeaderChangesOften",
        "40m",
        fires=dict(zip(LEADS, ("1 0 0 1 1 " * 12, "0 1 1 0 0 " * 12), strict=True)),
        quiet=dict(zip(LEADS, ("1x20 0x40", "0x20 1x40"), strict=True)),
        labels=LEASE,
        normal=UP,
    ),
    AlertCase(
        "KschedulerStuck",
        "20m",
        fires={of_a("scheduler_pending_pods", 'queue="active"'): "7x40", of_a(ATTEMPTS, 'result="scheduled"'): "90x40"},
        # the one that stands by holds the same pods and tries none
        quiet={
            of_a("scheduler_pending_pods", 'queue="active"'): "0x40",
            of_b("scheduler_pending_pods", 'queue="active"'): "7x40",
            of_a(ATTEMPTS, 'result="scheduled"'): "90x40",
        },
        labels=JOB,
    ),
    AlertCase(
        "KschedulerPendingPodsGrow",
        "45m",
        fires={
            of_a("scheduler_pending_pods", 'queue="active"'): "0+20x60",
            of_a(ATTEMPTS, 'result="scheduled"'): "0+600x60",
        },
        quiet={
            of_a("scheduler_pending_pods", 'queue="active"'): "900-10x60",
            of_a(ATTEMPTS, 'result="scheduled"'): "0+600x60",
        },
        labels=JOB,
    ),
    AlertCase(
        "KschedulerUnschedulablePods",
        "90m",
        fires={of_a("scheduler_pending_pods", 'queue="unschedulable"'): "3x120"},
        quiet={
            of_a("scheduler_pending_pods", 'queue="unschedulable"'): "3x50 0 3x50",
            of_b("scheduler_pending_pods", 'queue="unschedulable"'): "3x120",
        },
        labels=JOB,
    ),
    AlertCase(
        "KschedulerIncompletePodGroups",
        "20m",
        fires={of_a("scheduler_pending_pods", 'queue="incomplete"'): "2x60"},
        quiet={
            of_a("scheduler_pending_pods", 'queue="incomplete"'): "2x10 0 2x50",
            of_b("scheduler_pending_pods", 'queue="incomplete"'): "2x60",
        },
        labels=JOB,
    ),
    AlertCase(
        "KschedulerPodGroupsWait",
        "90m",
        fires={
            of_a("kscheduler_pod_group_members", 'queue="backoff"'): "4x30 0 4x90",
            of_a("kscheduler_pod_group_members", 'queue="gated"'): "0x120",
        },
        quiet={
            of_a("kscheduler_pod_group_members", 'queue="backoff"'): "4x30 0x10 4x80",
            of_a("kscheduler_pod_group_members", 'queue="active"'): "4x120",
            of_b("kscheduler_pod_group_members", 'queue="backoff"'): "4x120",
        },
        labels=JOB,
    ),
    AlertCase(
        "KschedulerClaimsMissing",
        "20m",
        fires={of_a("kscheduler_gated_pods", 'plugin="DynamicResources"'): "2x60"},
        quiet={
            of_a("kscheduler_gated_pods", 'plugin="DynamicResources"'): "2x10 0 2x50",
            of_a("kscheduler_gated_pods", 'plugin="SchedulingGates"'): "2x60",
            of_b("kscheduler_gated_pods", 'plugin="DynamicResources"'): "2x60",
        },
        labels=JOB,
    ),
    AlertCase(
        "KschedulerDevicePoolsIncomplete",
        "20m",
        fires={of_a("kscheduler_device_pools", 'driver="gpu.example.com", state="incomplete"'): "1x60"},
        quiet={
            # a driver that starts again publishes its slices one by one
            of_a("kscheduler_device_pools", 'driver="gpu.example.com", state="incomplete"'): "0x3 1x10 0x50",
            of_a("kscheduler_device_pools", 'driver="gpu.example.com", state="complete"'): "8x60",
        },
        labels=JOB | {"driver": "gpu.example.com"},
    ),
    AlertCase(
        "KschedulerFreeDevicesUnusable",
        "130m",
        fires={
            of_a("scheduler_pending_pods", 'queue="unschedulable"'): " ".join(["3x20 0x5"] * 8),
            of_a("kscheduler_node_resources", f'{GPUS}, state="allocatable"'): "128x200",
            of_a("kscheduler_unusable_resources", f'{GPUS}, reason="cpu"'): "30x200",
            of_a("kscheduler_unusable_resources", f'{GPUS}, reason="nvidia.com/gpu"'): "10x200",
        },
        quiet={
            of_a("scheduler_pending_pods", 'queue="unschedulable"'): " ".join(["3x20 0x5"] * 8),
            of_a("kscheduler_node_resources", f'{GPUS}, state="allocatable"'): "128x200",
            of_a("kscheduler_unusable_resources", f'{GPUS}, reason="cpu"'): "30x200",
            of_a("kscheduler_unusable_resources", f'{GPUS}, reason="cordoned"'): "80x200",
            of_a("kscheduler_node_resources", 'resource="cpu", unit="cores", state="allocatable"'): "100x200",
            of_a("kscheduler_unusable_resources", 'resource="cpu", unit="cores", reason="cpu"'): "90x200",
            of_a("kscheduler_class_devices", f'{CLASS}, state="free"'): "30x200",
            of_a("kscheduler_class_devices", f'{CLASS}, state="taken"'): "90x200",
            of_a("kscheduler_unusable_devices", f'{CLASS}, reason="cpu"'): "30x200",
        },
        labels=JOB | {"resource": "nvidia.com/gpu"},
    ),
    AlertCase(
        "KschedulerPodsRescuedByFlush",
        "70m",
        labels=INSTANCE,
        **growing("scheduler_pod_scheduled_after_flush_total", "", "0x40 1x60", "1x100"),
    ),
    AlertCase(
        "KschedulerClaimErrors",
        "60m",
        # the only pod of a quiet cluster, in error by its claim: KschedulerSchedulingErrors is quiet
        fires={
            of_a(ATTEMPTS, 'result="error"'): "0+6x90",
            of_a(CLAIM_ERRORS): "0+6x90",
            of_a(OVER_BUDGET): "0x90",
            of_a(GROUP_ERRORS): "0x90",
        },
        quiet={
            of_a(ATTEMPTS, 'result="error"'): "0+6x15 90x75",
            of_a(CLAIM_ERRORS): "0+6x15 90x75",
            of_a(OVER_BUDGET): "0x90",
            of_a(GROUP_ERRORS): "0x90",
        },
        labels=JOB,
    ),
    AlertCase(
        "KschedulerPodGroupErrors",
        "60m",
        # a tenant's group with a wrong annotation is all that is tried: KschedulerSchedulingErrors is quiet
        fires={
            of_a(ATTEMPTS, 'result="error"'): "0+6x90",
            of_a(CLAIM_ERRORS): "0x90",
            of_a(GROUP_ERRORS): "0+6x90",
            of_a(OVER_BUDGET): "0x90",
        },
        quiet={
            of_a(ATTEMPTS, 'result="error"'): "0+6x15 90x75",
            of_a(CLAIM_ERRORS): "0x90",
            of_a(GROUP_ERRORS): "0+6x15 90x75",
            of_a(OVER_BUDGET): "0x90",
        },
        labels=JOB,
    ),
    AlertCase(
        "KschedulerPodsTooCostly",
        "60m",
        # a tenant's giant is the only pod that is tried: KschedulerSchedulingErrors is quiet
        fires={
            of_a(ATTEMPTS, 'result="error"'): "0+6x90",
            of_a(CLAIM_ERRORS): "0x90",
            of_a(OVER_BUDGET): "0+6x90",
            of_a(GROUP_ERRORS): "0x90",
        },
        quiet={
            of_a(ATTEMPTS, 'result="error"'): "0+6x15 90x75",
            of_a(CLAIM_ERRORS): "0x90",
            of_a(OVER_BUDGET): "0+6x15 90x75",
            of_a(GROUP_ERRORS): "0x90",
        },
        labels=JOB,
    ),
    AlertCase(
        "KschedulerSchedulingErrors",
        "30m",
        fires={
            of_a(ATTEMPTS, 'result="scheduled"'): "0+80x60",
            of_a(ATTEMPTS, 'result="unschedulable"'): "0+10x60",
            of_a(ATTEMPTS, 'result="error"'): "0+10x60",
            of_a(CLAIM_ERRORS): "0+3x60",
            of_a(OVER_BUDGET): "0+1x60",
            of_a(GROUP_ERRORS): "0x60",
        },
        quiet={
            of_a(CLAIM_ERRORS): "0x60",
            of_a(OVER_BUDGET): "0x60",
            of_a(GROUP_ERRORS): "0x60",
            of_a(ATTEMPTS, 'result="scheduled"'): "0+80x60",
            of_a(ATTEMPTS, 'result="unschedulable"'): "0+900x60",
            of_a(ATTEMPTS, 'result="error"'): "0+10x60",
        },
        labels=JOB | {"result": "error"},
    ),
    AlertCase(
        "KschedulerSlow",
        "395m",
        # well for hours, and a quarter too slow for one
        fires=sli("0+600x330 198000+450x90"),
        quiet=sli("0+594x900"),
        labels=JOB,
    ),
    AlertCase(
        "KschedulerSlowForHours",
        "450m",
        fires=sli("0+550x900"),
        # bad until two hours ago, and well since
        quiet=sli("0+550x300 165000+600x600"),
        labels=JOB,
    ),
    AlertCase(
        "KschedulerBindsFail",
        "30m",
        fires={
            of_a(BINDS, 'call_type="pod_binding", result="success"'): "0+90x60",
            of_a(BINDS, 'call_type="pod_binding", result="error"'): "0+10x60",
        },
        quiet={
            of_a(BINDS, 'call_type="pod_binding", result="success"'): "0+90x60",
            of_a(BINDS, 'call_type="pod_status_patch", result="error"'): "0+10x60",
        },
        labels=JOB | {"result": "error"},
    ),
    AlertCase(
        "KschedulerWritesHang",
        "30m",
        fires={of_a("kscheduler_hanging_writes", 'namespace="n", write="create pods/binding"'): "0x5 7x60"},
        quiet={of_a("kscheduler_hanging_writes", 'namespace="n", write="create pods/binding"'): "0x20 7x4 0x60"},
        labels=INSTANCE | {"namespace": "n", "write": "create pods/binding"},
    ),
    AlertCase(
        "KschedulerBindConflicts",
        "30m",
        labels=INSTANCE,
        **growing("kscheduler_bind_conflicts_total", "", "0+2x60", "0x20 3x60"),
    ),
    AlertCase(
        "KschedulerBindConflicts",
        "30m",
        labels=INSTANCE,
        **growing("kscheduler_pods_bound_by_others_total", "", "0+2x60", "0x20 3x60"),
    ),
    AlertCase(
        "KschedulerNodesOverfilled",
        "30m",
        labels=JOB | {"resource": "cpu", "cause": "another_scheduler"},
        **growing(
            "kscheduler_overfilled_nodes", 'resource="cpu", cause="another_scheduler"', "0x10 2x60", "0x10 2x5 0x60"
        ),
    ),
    AlertCase(
        "KschedulerSchedulersCollide",
        "70m",
        labels=JOB,
        **growing(
            "kscheduler_node_overfills_total",
            'resource="cpu", cause="another_scheduler"',
            "0+1x80",
            "0x20 1x20 2x20 3x60",
        ),
    ),
    AlertCase(
        "KschedulerPreemptionFails",
        "30m",
        labels=JOB,
        **growing("scheduler_preemption_goroutines_execution_total", 'result="error"', "0+1x60", "0x20 2x60"),
    ),
    AlertCase(
        "KschedulerAPIServerUnreachable",
        "30m",
        labels=INSTANCE,
        fires=outage("kscheduler_api_server_unreachable_seconds", "refused", "0x15 30+60x60"),
        quiet=outage("kscheduler_api_server_unreachable_seconds", "refused", "0x29 45 0x60"),
    ),
    AlertCase(
        "KschedulerCredentialsRefused",
        "30m",
        labels=INSTANCE,
        fires=outage("kscheduler_api_server_unauthorized_seconds", "unauthorized", "0x15 30+60x60"),
        quiet=outage("kscheduler_api_server_unauthorized_seconds", "unauthorized", "0x29 45 0x60"),
    ),
    AlertCase(
        "KschedulerThrottled",
        "30m",
        labels=INSTANCE,
        **growing("kscheduler_rest_client_throttled_total", 'host="10.0.0.1:443"', "0+20x60", "0+2x60"),
    ),
    AlertCase(
        "KschedulerWatchSilent",
        "20m",
        labels=INSTANCE | {"resource": "pods"},
        **growing("kscheduler_watch_last_event_age_seconds", 'resource="pods"', "10x10 70+60x60", "60x15 200 10x60"),
    ),
    AlertCase(
        "KschedulerWatchDown",
        "20m",
        labels=INSTANCE,
        # one alert of all kinds
        fires={
            of_a("kscheduler_watch_down_seconds", f'resource="{kind}", reason="too many requests"'): "0+15x60"
            for kind in KINDS
        },
        # the outage is over, and the watches are opened within 36 s
        quiet={
            of_a("kscheduler_api_server_unreachable_seconds", 'host="10.0.0.1:443"'): "0x9 60+60x9 0x60",
            **{
                of_a("kscheduler_watch_down_seconds", f'resource="{kind}", reason="refused"'): "0x9 60+60x10 0x60"
                for kind in KINDS
            },
        },
    ),
    AlertCase(
        "KschedulerWatchesRestart",
        "40m",
        labels=INSTANCE | {"resource": "pods"},
        **growing(
            "kscheduler_watch_restarts_total", 'resource="pods", reason="broken"', "0+2x60", "0 0 0 0 0 1 1 1 1 1 2x60"
        ),
    ),
    AlertCase(
        "KschedulerUnreadableObjects",
        "30m",
        labels=INSTANCE | {"resource": "nodes"},
        **growing("kscheduler_undecodable_objects", 'resource="nodes"', "1x60", "1x10 0x60"),
    ),
    AlertCase(
        "KschedulerEventsDropped",
        "30m",
        labels=INSTANCE,
        **growing("kscheduler_events_dropped_total", "", "0x20 4x60", "4x60"),
    ),
    AlertCase(
        "KschedulerStatusesBehind",
        "30m",
        labels=INSTANCE,
        **growing("kscheduler_status_patches_pending", "", "2000x60", "2000x12 100x60"),
    ),
    AlertCase(
        "KschedulerCacheDrift",
        "70m",
        labels=INSTANCE | {"kind": "pod", "what": "missing"},
        # it appears with its first count
        **growing("kscheduler_cache_drift_objects_total", 'kind="pod", what="missing"', "_x40 1x60", "1x100"),
    ),
    AlertCase(
        "KschedulerCacheDriftStays",
        "70m",
        labels=INSTANCE,
        **growing("kscheduler_cache_drift_unmended_total", "", "0x40 1x60", "1x100"),
    ),
    AlertCase(
        "KschedulerStoreDrift",
        "70m",
        labels=INSTANCE | {"resource": "pods", "what": "missing"},
        **growing("kscheduler_store_drift_objects_total", 'resource="pods", what="missing"', "_x40 2x60", "2x100"),
    ),
    AlertCase(
        "KschedulerPluginFails",
        "30m",
        labels=JOB | {"plugin": "PreferCheap", "extension_point": "Score"},
        **growing(
            "kscheduler_plugin_failures_total", 'plugin="PreferCheap", extension_point="Score"', "_x20 1x60", "1x60"
        ),
    ),
    AlertCase(
        "KschedulerPluginQuarantined",
        "20m",
        labels=JOB | {"plugin": "PreferCheap", "profile": "mine", "on_failure": "Ignore"},
        **growing(
            "kscheduler_plugin_quarantined",
            'plugin="PreferCheap", profile="mine", on_failure="Ignore"',
            "0x10 1x60",
            "1x10 0x60",
        ),
    ),
    AlertCase(
        "KschedulerPluginDataOld",
        "40m",
        labels=INSTANCE | {"plugin": "LoadAware", "profile": "mine"},
        **growing("kscheduler_plugin_data_age_seconds", 'plugin="LoadAware", profile="mine"', "0+60x60", "0x10 30x60"),
    ),
    AlertCase(
        "KschedulerPluginSlow",
        "40m",
        labels=JOB | {"plugin": "PreferCheap", "extension_point": "Score"},
        **growing(
            "kscheduler_slow_plugin_calls_total", 'plugin="PreferCheap", extension_point="Score"', "0+1x60", "0x30 5x60"
        ),
    ),
    AlertCase(
        "KschedulerExtenderFails",
        "40m",
        labels=JOB | {"extender": "http://gpu"},
        fires=extender_calls(success="0+4x60", timeout="0+6x60"),
        quiet=extender_calls(success="0+6x60", timeout="0+4x60"),
    ),
    AlertCase(
        "KschedulerPodsWaitForExtender",
        "40m",
        labels=JOB | {"extender": "http://gpu"},
        **growing("kscheduler_extender_pods", 'extender="http://gpu", state="waiting"', "3x60", "0x15 9x5 0x40"),
    ),
    AlertCase(
        "KschedulerUnexpectedErrors",
        "30m",
        fires={of_a("kscheduler_unexpected_errors_total", 'boundary="worker"'): "0x20 1x60"},
        # plugins have an alert of their own
        quiet={of_a("kscheduler_unexpected_errors_total", 'boundary="plugin"'): "0x20 1x60"},
        labels=INSTANCE | {"boundary": "worker"},
    ),
    AlertCase(
        "KschedulerEventLoopLate",
        "30m",
        fires={
            of_a("kscheduler_loop_lag_seconds_bucket", 'le="0.25"'): "0+50x60",
            of_a("kscheduler_loop_lag_seconds_bucket", 'le="0.5"'): "0+100x60",
            of_a("kscheduler_loop_lag_seconds_bucket", 'le="+Inf"'): "0+100x60",
        },
        quiet={
            of_a("kscheduler_loop_lag_seconds_bucket", 'le="0.25"'): "0+100x60",
            of_a("kscheduler_loop_lag_seconds_bucket", 'le="0.5"'): "0+100x60",
            of_a("kscheduler_loop_lag_seconds_bucket", 'le="+Inf"'): "0+100x60",
            of_a("kscheduler_loop_lag_worst_seconds"): "0.1x15 6 0.1x60",
        },
        labels=INSTANCE,
    ),
    AlertCase(
        "KschedulerMemoryGrows",
        "450m",
        labels=INSTANCE,
        **growing("process_resident_memory_bytes", "", "400000000+1000000x900", "400000000+1000x900"),
    ),
    AlertCase(
        "KschedulerMemoryNearLimit",
        "20m",
        fires={of_a("process_resident_memory_bytes"): "900x60", of_a("kscheduler_memory_limit_bytes"): "1000x60"},
        quiet={
            of_a("process_resident_memory_bytes"): "700x12 900x4 700x60",
            of_a("kscheduler_memory_limit_bytes"): "1000x80",
        },
        labels=INSTANCE,
    ),
    AlertCase(
        "KschedulerLeaseRenewedLate",
        "20m",
        labels=INSTANCE | {"name": "kscheduler"},
        **growing("kscheduler_leader_election_renewal_age_seconds", 'name="kscheduler"', "8x60", "1x18 8 1x60"),
    ),
    AlertCase(
        "KschedulerRecordingStopped",
        "20m",
        labels=INSTANCE,
        **growing("kscheduler_recorder_recording", "", "1x10 0x60", "1x10 0x4 1x60"),
    ),
    AlertCase(
        "KschedulerQuestionsNotAnswered",
        "60m",
        fires={of_a(QUERIES, 'outcome="busy", question="explain"'): "0+2x90"},
        quiet={
            of_a(QUERIES, 'outcome="busy", question="explain"'): "0x15 20x75",
            of_a(QUERIES, 'outcome="wrong", question="explain"'): "0+9x90",
        },
        labels=JOB,
    ),
    AlertCase(
        "KschedulerShadowDiffers",
        "20m",
        fires={of_a("kscheduler_shadow_differences_total"): "0x10 1x60"},
        quiet={of_a("kscheduler_shadow_differences_total"): "3x70"},
        labels=JOB,
    ),
    AlertCase(
        "KschedulerConfigRefused",
        "20m",
        labels=INSTANCE,
        **growing("kscheduler_config_reload_last_successful", "", "1x10 0x60", "0x10 1x60"),
    ),
    AlertCase(
        "KschedulerVersionNotFollowed",
        "20m",
        fires={
            of_a("kscheduler_kubernetes_version_info", 'server="1.38", decides_as="1.37"'): "1x60",
            of_a("kscheduler_kubernetes_version_followed"): "1x10 0x60",
        },
        # the API server tells another version, whose rules are taken over; --emulated-version has chosen
        quiet={
            of_a("kscheduler_kubernetes_version_info", 'server="1.38", decides_as="1.37"'): "1x60",
            of_a("kscheduler_kubernetes_version_followed"): "1x10 0x3 1x60",
            of_b("kscheduler_kubernetes_version_info", 'server="1.38", decides_as="1.36"'): "1x60",
            of_b("kscheduler_kubernetes_version_followed"): "1x60",
        },
        labels=INSTANCE | {"server": "1.38", "decides_as": "1.37"},
    ),
    AlertCase(
        "KschedulerConfigsDiffer",
        "40m",
        fires={
            of_a("kscheduler_config_reload_info", 'hash="sha256:1"'): "1x60",
            of_b("kscheduler_config_reload_info", 'hash="sha256:2"'): "1x60",
        },
        # one takes the change over a minute before the other
        quiet={
            of_a("kscheduler_config_reload_info", 'hash="sha256:1"'): "1x25 _x60",
            of_a("kscheduler_config_reload_info", 'hash="sha256:2"'): "_x25 1x60",
            of_b("kscheduler_config_reload_info", 'hash="sha256:1"'): "1x26 _x60",
            of_b("kscheduler_config_reload_info", 'hash="sha256:2"'): "_x26 1x60",
        },
        labels=JOB,
    ),
    AlertCase(
        "KschedulerCertificateExpires",
        "30m",
        labels=INSTANCE,
        # promtool's clock starts at 0, so that this is the seconds that are left
        **growing("kscheduler_serving_certificate_expiration_timestamp_seconds", "", "600000x60", "700000x60"),
    ),
    AlertCase(
        "KschedulerCertificateRefused",
        "30m",
        labels=INSTANCE | {"result": "error"},
        **growing("kscheduler_serving_certificate_reloads_total", 'result="error"', "0x20 1x60", "1x60"),
    ),
)
