"""The Grafana dashboard of the chart, from a table of panels: `python -m tests.deploy.dashboard` writes it anew.

A dashboard's JSON is nine tenths layout, which nobody reads. Here a panel is its title, its unit and its queries; rows
of four are laid out by the program. A query that would return nothing while nothing has ever gone wrong ends in `or
vector(0)`: an empty panel looks like a broken one. `$instance` chooses replicas; `kscheduler:deciding` is the rule of
files/rules.yaml in the chart, spelled out here so that the dashboard works without the rules.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PATH: Final = Path(__file__).parents[2] / "deploy" / "helm" / "kscheduler" / "files" / "dashboard.json"

JOB: Final = 'job="kscheduler"'
MINE: Final = f'{JOB}, instance=~"$instance"'
DECIDING: Final = (
    f"(leader_election_master_status{{{JOB}}} == 1"
    f" or (up{{{JOB}}} == 1 unless on (job) leader_election_master_status{{{JOB}}}))"
)
ATTEMPTS: Final = "scheduler_schedule_attempts_total"
COLUMNS: Final = 24
HEIGHT: Final = 8
STAT_HEIGHT: Final = 4

Json = dict[str, Any]


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


def quantiles(series: str, labels: str = "", by: str = "") -> tuple[Query, ...]:
    """The median, the 90th and the 99th percentile of a histogram."""
    grouping = f"le, {by}" if by else "le"
    behind = f" {{{{{by}}}}}" if by else ""
    inner = total(grouping, rate(f"{series}_bucket", labels))
    wanted = ((0.99, "p99"),) if by else ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"))
    return tuple(Query(f"histogram_quantile({share}, {inner})", f"{name}{behind}") for share, name in wanted)


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
                "Pods turned down, by plugin",
                "short",
                Query(
                    f"sum by (plugin) (scheduler_unschedulable_pods{{{MINE}}}) or vector(0)",
                    "{{plugin}}",
                ),
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
                    total("resource", f"increase(kscheduler_watch_restarts_total{{{MINE}}}[15m])", zero=True),
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


def panel_json(panel: Panel, number: int, place: Json) -> Json:
    """A panel at its place."""
    legends = sum(1 for query in panel.queries if query.legend) > 0
    shown: Json = (
        {"colorMode": "value", "graphMode": "area", "textMode": "value_and_name" if legends else "auto"}
        if panel.stat
        else {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}
    )
    return {
        "id": number,
        "type": "stat" if panel.stat else "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": {"type": "prometheus", "uid": "$datasource"},
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": shown,
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "expr": query.expression,
                "legendFormat": query.legend or "__auto",
                "datasource": {"type": "prometheus", "uid": "$datasource"},
            }
            for index, query in enumerate(panel.queries)
        ],
    }


def laid_out() -> Iterator[Json]:
    """Headings, and below each its panels, four abreast; single numbers all in one line."""
    number = top = 0
    for row in ROWS:
        number += 1
        heading = {"h": 1, "w": COLUMNS, "x": 0, "y": top}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": heading, "panels": []}
        top += 1
        small = row.panels[0].stat
        abreast, height = (len(row.panels), STAT_HEIGHT) if small else (4, HEIGHT)
        width = COLUMNS // abreast
        for index, panel in enumerate(row.panels):
            number += 1
            line, column = divmod(index, abreast)
            yield panel_json(panel, number, {"h": height, "w": width, "x": column * width, "y": top + line * height})
        top += height * -(-len(row.panels) // abreast)


def dashboard() -> Json:
    """The whole dashboard, by Grafana's schema 39 (Grafana 10 and later)."""
    return {
        "uid": "kscheduler",
        "title": "kscheduler",
        "tags": ["kubernetes", "scheduler"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "graphTooltip": 1,
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                {
                    "name": "instance",
                    "label": "Replica",
                    "type": "query",
                    "datasource": {"type": "prometheus", "uid": "$datasource"},
                    "query": {"query": f"label_values(up{{{JOB}}}, instance)", "refId": "instances"},
                    "refresh": 2,
                    "sort": 1,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "annotations": {"list": []},
        "panels": list(laid_out()),
    }


def text() -> str:
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    PATH.write_text(text())
