"""What the Grafana dashboard of the chart shows: a table of rows, panels and queries.

A query that would return nothing while nothing has ever gone wrong ends in `or vector(0)`: an empty panel looks like a
broken one. `$instance` chooses replicas; `kscheduler:deciding` is the rule of files/rules.yaml in the chart, spelled
out here so that the dashboard works without the rules.
"""

from dataclasses import dataclass
from typing import Final

JOB: Final = 'job="kscheduler"'
MINE: Final = f'{JOB}, instance=~"$instance"'
DECIDING: Final = (
    f"(leader_election_master_status{{{JOB}}} == 1"
    f" or (up{{{JOB}}} == 1 unless on (job) leader_election_master_status{{{JOB}}}))"
)
ATTEMPTS: Final = "scheduler_schedule_attempts_total"


@dataclass(frozen=True)
class Query:
    """An expression, and how its series are called."""

    expression: str
    legend: str


@dataclass(frozen=True)
class Panel:
    """A graph, or a single number where `stat` is set. `about` is shown behind the (i)."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    about: str = ""
    stat: bool = False


@dataclass(frozen=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


def rate(series: str, labels: str = "", window: str = "$__rate_interval") -> str:
    chosen = f"{MINE}, {labels}" if labels else MINE
    return f"rate({series}{{{chosen}}}[{window}])"


def total(by: str, inner: str, *, zero: bool = False) -> str:
    grouped = f"sum by ({by}) ({inner})" if by else f"sum({inner})"
    return f"{grouped} or vector(0)" if zero else grouped


def quantiles(series: str, labels: str = "", by: str = "", *, zero: bool = False) -> tuple[Query, ...]:
    """The median, the 90th and the 99th percentile of a histogram; by a label the last one alone."""
    grouping = f"le, {by}" if by else "le"
    behind = f" {{{{{by}}}}}" if by else ""
    inner = total(grouping, rate(f"{series}_bucket", labels))
    wanted = ((0.99, "p99"),) if by else ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"))
    end = " or vector(0)" if zero else ""
    return tuple(Query(f"histogram_quantile({share}, {inner}){end}", f"{name}{behind}") for share, name in wanted)


def graph(title: str, unit: str, *queries: Query, about: str = "") -> Panel:
    return Panel(title, unit, queries, about)


def stat(title: str, unit: str, expression: str, legend: str = "", about: str = "") -> Panel:
    return Panel(title, unit, (Query(expression, legend),), about, stat=True)


ROWS: Final = (
    Row(
        "Now",
        (
            stat("Replicas up", "short", f"sum(up{{{JOB}}})"),
            stat("Decides", "none", f"{DECIDING} == 1", "{{instance}}", "The leader, or the only replica."),
            stat(
                "Pods bound a second", "ops", total("", rate("scheduler_schedule_attempts_total", 'result="scheduled"'))
            ),
            stat(
                "Wait for an attempt",
                "short",
                f'sum(scheduler_pending_pods{{{JOB}, queue=~"active|backoff"}} and on (instance) {DECIDING})',
            ),
            stat(
                "Fit nowhere",
                "short",
                f'sum(scheduler_pending_pods{{{JOB}, queue="unschedulable"}} and on (instance) {DECIDING})',
            ),
            stat("API server away", "s", f"max(kscheduler_api_server_unreachable_seconds{{{MINE}}})"),
        ),
    ),
    Row(
        "Decisions",
        (
            graph(
                "Attempts by result",
                "ops",
                Query(total("result", rate(ATTEMPTS)), "{{result}}"),
            ),
            graph(
                "Pods waiting",
                "short",
                Query(
                    f"sum by (queue) (scheduler_pending_pods{{{JOB}}} and on (instance) {DECIDING})",
                    "{{queue}}",
                ),
                about="Of the replica that decides; those that stand by hold the same pods.",
            ),
            graph(
                "From the queue to the binding",
                "s",
                *quantiles("scheduler_pod_scheduling_sli_duration_seconds", 'attempts="1"'),
                about="Pods bound at their first attempt: what kscheduler itself takes. The goal: 99 % in 1.28 s.",
            ),
            graph("Attempt", "s", *quantiles("scheduler_scheduling_attempt_duration_seconds", 'result="scheduled"')),
            graph("The decision alone", "s", *quantiles("scheduler_scheduling_algorithm_duration_seconds")),
            graph(
                "Extension points, p99",
                "s",
                *quantiles("scheduler_framework_extension_point_duration_seconds", by="extension_point"),
            ),
            graph(
                "Plugins, p99 of the slowest",
                "s",
                Query(
                    "topk(10, histogram_quantile(0.99, "
                    + total("le, plugin, extension_point", rate("scheduler_plugin_execution_duration_seconds_bucket"))
                    + "))",
                    "{{plugin}} {{extension_point}}",
                ),
            ),
            graph(
                "Attempts that a bound pod needed",
                "short",
                *quantiles("scheduler_pod_scheduling_attempts"),
            ),
        ),
    ),
    Row(
        "Why pods wait",
        (
            graph(
                "Pods rejected, by plugin",
                "short",
                Query(
                    f"sum by (plugin) (scheduler_unschedulable_pods{{{MINE}}}) or vector(0)",
                    "{{plugin}}",
                ),
            ),
            graph(
                "Gated pods, by plugin, and groups",
                "short",
                Query(f"max by (plugin) (kscheduler_gated_pods{{{MINE}}})", "{{plugin}}"),
                Query(
                    f"max by (queue) (kscheduler_pod_group_members{{{MINE}}}) or vector(0)",
                    "members of groups, {{queue}}",
                ),
                about="DynamicResources: a claim to devices is missing. Members of groups wait together.",
            ),
            graph(
                "Device pools, and claims in error",
                "short",
                Query(
                    f"max by (driver, state) (kscheduler_device_pools{{{MINE}}}) or vector(0)", "{{driver}}, {{state}}"
                ),
                Query(
                    total("", f"increase(kscheduler_claim_errors_total{{{MINE}}}[15m])"), "attempts in error by a claim"
                ),
                about="Nothing is allocated of an incomplete pool.",
            ),
            graph(
                "Pods put into a queue",
                "ops",
                Query(
                    "topk(10, " + total("queue, event", rate("scheduler_queue_incoming_pods_total")) + ")",
                    "{{queue}}: {{event}}",
                ),
            ),
            graph(
                "Preemption",
                "ops",
                Query(total("", rate("scheduler_preemption_attempts_total")), "searches"),
                Query(total("", rate("scheduler_preemption_victims_sum")), "victims"),
                Query(
                    total(
                        "",
                        rate("scheduler_preemption_goroutines_execution_total", 'result="error"'),
                        zero=True,
                    ),
                    "not carried out",
                ),
            ),
            graph(
                "Pods rescued by the flush",
                "short",
                Query(total("", f"increase(scheduler_pod_scheduled_after_flush_total{{{MINE}}}[1h])"), "in an hour"),
                about="Should be 0: an event that made room woke nobody.",
            ),
        ),
    ),
    Row(
        "Free room",
        (
            graph(
                "Requested of what is allocatable",
                "percentunit",
                Query(
                    f'max by (resource) (kscheduler_node_resources{{{MINE}, state="requested"}}) / '
                    f'(max by (resource) (kscheduler_node_resources{{{MINE}, state="allocatable"}}) > 0) or vector(0)',
                    "{{resource}}",
                ),
                Query(
                    f'max by (device_class, driver, pool) (kscheduler_class_devices{{{MINE}, state="taken"}}) / '
                    "(sum by (device_class, driver, pool) (max by (device_class, driver, pool, state) "
                    f"(kscheduler_class_devices{{{MINE}}})) > 0) or vector(0)",
                    "devices of {{device_class}}, {{driver}} {{pool}}",
                ),
            ),
            graph(
                "Free, but of no use",
                "percentunit",
                Query(
                    "sum by (resource, reason) (max by (resource, reason) "
                    f"(kscheduler_unusable_resources{{{MINE}}})) / on (resource) group_left () "
                    f'(max by (resource) (kscheduler_node_resources{{{MINE}, state="allocatable"}}) > 0) or vector(0)',
                    "{{resource}}: {{reason}}",
                ),
                Query(
                    "max by (device_class, driver, pool, reason) "
                    f"(kscheduler_unusable_devices{{{MINE}}}) / on (device_class, driver, pool) group_left () "
                    "(sum by (device_class, driver, pool) (max by (device_class, driver, pool, state) "
                    f"(kscheduler_class_devices{{{MINE}}})) > 0) or vector(0)",
                    "devices of {{device_class}}, {{driver}} {{pool}}: {{reason}}",
                ),
                about="Of what is allocatable: free on nodes where no pod like those that run or wait could use it. "
                "The reason is what most of these pods lack there (the resource itself: the pieces are too small), or "
                "cordoned. docs/packing.md says which policies leave less of it.",
            ),
        ),
    ),
    Row(
        "API server",
        (
            graph("Requests by answer", "ops", Query(total("code", rate("rest_client_requests_total")), "{{code}}")),
            graph("Requests, p99", "s", *quantiles("rest_client_request_duration_seconds", by="verb")),
            graph(
                "Bindings by result",
                "ops",
                Query(
                    total("result", rate("scheduler_async_api_call_execution_total", 'call_type="pod_binding"')),
                    "{{result}}",
                ),
                Query(total("", rate("kscheduler_bind_conflicts_total")), "refused with 409"),
            ),
            graph(
                "Watches: seconds since the last news",
                "s",
                Query(f"max by (resource) (kscheduler_watch_last_event_age_seconds{{{MINE}}})", "{{resource}}"),
                about="A bookmark comes about once a minute.",
            ),
            graph(
                "Watches and lists begun again",
                "short",
                Query(
                    total(
                        "resource",
                        f'increase(kscheduler_watch_restarts_total{{{MINE}, reason!="quiet"}}[15m])',
                        zero=True,
                    ),
                    "watch {{resource}}",
                ),
                Query(
                    total("resource", f"increase(kscheduler_relists_total{{{MINE}}}[15m])", zero=True),
                    "list {{resource}}",
                ),
            ),
            graph(
                "Kubernetes Events",
                "ops",
                Query(total("", rate("kscheduler_events_sent_total")), "sent"),
                Query(total("", rate("kscheduler_events_patched_total")), "series"),
                Query(total("", rate("kscheduler_events_dropped_total")), "dropped"),
                Query(total("", rate("kscheduler_events_failed_total")), "refused"),
                Query(total("", rate("kscheduler_scheduled_events_omitted_total")), "left out"),
            ),
            graph(
                "Waiting to be written",
                "short",
                Query(f"sum(kscheduler_status_patches_pending{{{MINE}}})", "conditions"),
                Query(f"sum(kscheduler_events_queued{{{MINE}}})", "Events"),
            ),
            graph(
                "Throttled and sent again",
                "ops",
                Query(total("", rate("kscheduler_rest_client_throttled_total")), "answers 429"),
                Query(total("", rate("kscheduler_rest_client_retries_total")), "sent again"),
            ),
        ),
    ),
    Row(
        "Is it right",
        (
            graph("Cache", "short", Query(f"max by (type) (scheduler_cache_size{{{MINE}}})", "{{type}}")),
            graph(
                "Wrong and repaired",
                "short",
                Query(
                    total("what", f"increase(kscheduler_cache_drift_objects_total{{{MINE}}}[1h])", zero=True),
                    "cache {{what}}",
                ),
                Query(
                    total("what", f"increase(kscheduler_store_drift_objects_total{{{MINE}}}[1h])", zero=True),
                    "store {{what}}",
                ),
                Query(total("", f"increase(kscheduler_cache_drift_unmended_total{{{MINE}}}[1h])"), "still wrong"),
                about="In an hour. Should be 0.",
            ),
            graph(
                "Plugins that fail or are slow",
                "short",
                Query(
                    total("plugin", f"increase(kscheduler_plugin_failures_total{{{MINE}}}[15m])", zero=True),
                    "fails {{plugin}}",
                ),
                Query(
                    total("plugin", f"increase(kscheduler_slow_plugin_calls_total{{{MINE}}}[15m])", zero=True),
                    "slow {{plugin}}",
                ),
            ),
            graph(
                "Bugs caught",
                "short",
                Query(total("boundary", f"increase(kscheduler_unexpected_errors_total{{{MINE}}}[1h])"), "{{boundary}}"),
                about="In an hour. Should be 0.",
            ),
        ),
    ),
    Row(
        "Policies of your own, extenders, other schedulers",
        (
            graph(
                "Plugins that are quarantined",
                "short",
                Query(
                    f"max by (plugin, profile) (kscheduler_plugin_quarantined{{{MINE}}}) or vector(0)",
                    "{{plugin}} in {{profile}}",
                ),
                about="1: it has failed three times and is no longer called; a reload lifts that.",
            ),
            graph(
                "Share of the memory limit",
                "percentunit",
                Query(
                    f"process_resident_memory_bytes{{{MINE}}}"
                    f" / on (job, instance) kscheduler_memory_limit_bytes{{{MINE}}}",
                    "{{instance}}",
                ),
                about="The alarm is raised at 80 %, and again at 90 %. 0 where there is no limit.",
            ),
            graph(
                "Extenders: calls by result",
                "ops",
                Query(
                    total("extender, verb, result", rate("kscheduler_extender_call_duration_seconds_count"), zero=True),
                    "{{extender}} {{verb}}: {{result}}",
                ),
                about="A pod waits for its extenders; whoever does not concern one does not wait.",
            ),
            graph(
                "Extenders: calls, p99",
                "s",
                *quantiles("kscheduler_extender_call_duration_seconds", by="extender", zero=True),
            ),
            graph(
                "Extenders: pods",
                "short",
                Query(f"sum by (state) (kscheduler_extender_pods{{{MINE}}}) or vector(0)", "{{state}}"),
                about="Asked about now, or waiting for their turn behind a slow one.",
            ),
            graph(
                "Age of plugins' own data",
                "s",
                Query(
                    f"max by (plugin, profile) (kscheduler_plugin_data_age_seconds{{{MINE}}}) or vector(0)",
                    "{{plugin}} in {{profile}}",
                ),
                about="Since prices, load or an outside source were last fetched. Infinite before the first time.",
            ),
            graph(
                "Overfilled nodes",
                "short",
                Query(
                    f"max by (resource, cause) (kscheduler_overfilled_nodes{{{MINE}}}) or vector(0)",
                    "{{resource}}: {{cause}}",
                ),
                about="Nodes whose pods request more than they have. Should be 0.",
            ),
            graph(
                "What another scheduler has taken, in an hour",
                "short",
                Query(
                    total(
                        "",
                        f'increase(kscheduler_node_overfills_total{{{MINE}, cause="another_scheduler"}}[1h])',
                        zero=True,
                    ),
                    "nodes overfilled",
                ),
                Query(
                    total("", f"increase(kscheduler_pods_bound_by_others_total{{{MINE}}}[1h])"), "pods of ours bound"
                ),
                Query(
                    total("result", f"increase(kscheduler_overfill_evictions_total{{{MINE}}}[1h])", zero=True),
                    "repair {{result}}",
                ),
            ),
        ),
    ),
    Row(
        "Leader, configuration, certificate, clients",
        (
            graph(
                "Who leads",
                "short",
                Query(f"leader_election_master_status{{{MINE}}}", "{{instance}}"),
                Query(f"sum(leader_election_master_status{{{JOB}}})", "all"),
                about="One in all, but for the moment of a change. No series where leader election is off.",
            ),
            graph(
                "Seconds since the Lease was renewed",
                "s",
                Query(f"max by (instance) (kscheduler_leader_election_renewal_age_seconds{{{MINE}}})", "{{instance}}"),
                about="Every 2 s is usual; at the renew deadline (10 s) the leader ends.",
            ),
            graph(
                "Configurations read again",
                "short",
                Query(total("result", f"increase(kscheduler_config_reloads_total{{{MINE}}}[1h])"), "{{result}}"),
                Query(f"count(count by (hash) (kscheduler_config_reload_info{{{JOB}}}))", "different files in force"),
                about="In the last hour. Replicas of one Deployment should have one file in force.",
            ),
            graph(
                "The serving certificate ends in",
                "s",
                Query(
                    f"kscheduler_serving_certificate_expiration_timestamp_seconds{{{MINE}}} - time()", "{{instance}}"
                ),
            ),
            graph(
                "Clients of the port rejected, in an hour",
                "short",
                Query(
                    total("reason", f"increase(kscheduler_http_connections_closed_total{{{MINE}}}[1h])"),
                    "closed: {{reason}}",
                ),
                Query(total("", f"increase(kscheduler_http_requests_refused_total{{{MINE}}}[1h])"), "429"),
                Query(total("", f"increase(kscheduler_http_malformed_requests_total{{{MINE}}}[1h])"), "malformed"),
            ),
            graph(
                "Logins by result",
                "ops",
                Query(total("result", rate("authentication_attempts"), zero=True), "{{result}}"),
            ),
            graph(
                "Writes blocked after losing the lease",
                "short",
                Query(total("instance", f"increase(kscheduler_fenced_writes_total{{{MINE}}}[1h])"), "{{instance}}"),
                about="More than 0 only of a replica that lost its Lease and is about to end.",
            ),
            graph(
                "Leader changes in an hour",
                "short",
                Query(f"sum by (instance) (changes(leader_election_master_status{{{MINE}}}[1h]))", "{{instance}}"),
            ),
        ),
    ),
    Row(
        "Process",
        (
            graph(
                "CPU", "short", Query(rate("process_cpu_seconds_total"), "{{instance}}"), about="Cores. One at most."
            ),
            graph("Memory", "bytes", Query(f"process_resident_memory_bytes{{{MINE}}}", "{{instance}}")),
            graph(
                "How late the event loop is",
                "s",
                *quantiles("kscheduler_loop_lag_seconds"),
                Query(f"max(kscheduler_loop_lag_worst_seconds{{{MINE}}})", "worst of the last minute"),
            ),
            graph(
                "Tasks and connections",
                "short",
                Query(f"sum by (instance) (kscheduler_asyncio_tasks{{{MINE}}})", "tasks {{instance}}"),
                Query(f"sum by (instance) (kscheduler_http_connections{{{MINE}}})", "connections {{instance}}"),
            ),
        ),
    ),
)
