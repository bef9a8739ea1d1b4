"""Each panel of our dashboard, and of kubernetes-mixin's, shows data of a running scheduler; the rules are healthy."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.controlplane.process import NotReadyError, wait_until
from tests.deploy import dashboard, helm
from tests.deploy.chart.monitored import WINDOW, Prometheus, monitored_cluster

DATA_SECONDS: Final = 90.0
MIXIN: Final = 'job="kube-scheduler"'
ATTEMPT: Final = "scheduler_scheduling_attempt_duration_seconds"
ALGORITHM: Final = "scheduler_scheduling_algorithm_duration_seconds"
SLI: Final = "scheduler_pod_scheduling_sli_duration_seconds"
VOLUMES: Final = "scheduler_volume_scheduling_duration_seconds"

BY_CLUSTER: Final = f'cluster="", {MIXIN}, instance=~".*"'
REQUESTS: Final = "rest_client_request_duration_seconds"


def mixin_rate(series: str, by: str, *labels: str) -> str:
    """A rate of one series as the mixin's panels write it."""
    chosen = ", ".join((BY_CLUSTER, *labels))
    return f"sum(rate({series}{{{chosen}}}[{WINDOW}])) by ({by})"


def histogram_99(series: str, by: str, *labels: str) -> str:
    return f"histogram_quantile(0.99, {mixin_rate(series, by, *labels)})"


# What kubernetes-mixin's dashboard and rules for the scheduler ask for: metric names and labels, as facts.
MIXIN_QUERIES: Final = {
    "up": f'sum(up{{cluster="", {MIXIN}}})',
    "attempts by instance": mixin_rate(f"{ATTEMPT}_count", "cluster, instance"),
    "pods by instance": mixin_rate(f"{SLI}_count", "cluster, instance"),
    "algorithm by instance": mixin_rate(f"{ALGORITHM}_count", "cluster, instance"),
    "volumes by instance": mixin_rate(f"{VOLUMES}_count", "cluster, instance"),
    "attempts' quantile": histogram_99(f"{ATTEMPT}_bucket", "instance, le"),
    "pods' quantile": histogram_99(f"{SLI}_bucket", "instance, le"),
    "algorithm's quantile": histogram_99(f"{ALGORITHM}_bucket", "instance, le"),
    "answers 2xx": mixin_rate("rest_client_requests_total", "instance", 'code=~"2.."'),
    "POST": histogram_99(f"{REQUESTS}_bucket", "verb, le", 'verb="POST"'),
    "GET": histogram_99(f"{REQUESTS}_bucket", "verb, le", 'verb="GET"'),
    "memory": f"process_resident_memory_bytes{{{BY_CLUSTER}}}",
    "CPU": f"rate(process_cpu_seconds_total{{{BY_CLUSTER}}}[{WINDOW}])",
    "goroutines": f"go_goroutines{{{BY_CLUSTER}}}",
    "recorded quantile": f"histogram_quantile(0.99, sum(rate({SLI}_bucket{{{MIXIN}}}[5m])) without(instance, pod))",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("monitored")
    rendered = helm.objects(helm.render(settings={"metrics.prometheusRule.enabled": True}))
    (rule,) = (one for one in rendered if one["kind"] == "PrometheusRule")
    rules = folder / "rules.yaml"
    rules.write_text(yaml.safe_dump({"groups": rule["spec"]["groups"]}))
    with monitored_cluster(folder, rules) as found:
        missing = list((panel_queries() | MIXIN_QUERIES).values())

        def all_have_data() -> bool:
            missing[:] = [query for query in missing if not found.has_numbers(query)]
            return not missing

        # which ones have not is said by the tests
        with suppress(NotReadyError):
            wait_until("data for each query", all_have_data, DATA_SECONDS, 1.0)
        yield found


def panel_queries() -> dict[str, str]:
    """By panel and letter, with the variables filled in as for all replicas."""
    return {
        f"{panel['title']}: {target['refId']}": target["expr"]
        .replace("$instance", ".*")
        .replace("$__rate_interval", WINDOW)
        for panel in dashboard.dashboard()["panels"]
        for target in panel.get("targets", ())
    }


@pytest.mark.parametrize("name", panel_queries())
def test_each_query_of_our_dashboard_returns_data(running: Prometheus, name: str) -> None:
    assert running.has_numbers(panel_queries()[name]), panel_queries()[name]


@pytest.mark.parametrize("name", MIXIN_QUERIES)
def test_each_query_of_kubernetes_mixin_returns_data(running: Prometheus, name: str) -> None:
    assert running.has_numbers(MIXIN_QUERIES[name]), MIXIN_QUERIES[name]


def test_every_rule_is_healthy_and_none_fires_while_all_is_well(running: Prometheus) -> None:
    wait_until(
        "every rule evaluated", lambda: all(rule["health"] != "unknown" for rule in running.rules()), DATA_SECONDS
    )
    assert [(rule["name"], rule.get("lastError")) for rule in running.rules() if rule["health"] != "ok"] == []
    firing = {rule["name"] for rule in running.rules() if rule.get("state") == "firing"}
    assert firing == set()
    recorded = [rule["name"] for rule in running.rules() if rule["type"] == "recording"]
    assert [name for name in recorded if not running.query(name)] == []


def test_panels_do_not_overlap_and_fill_the_width() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in dashboard.dashboard()["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies over {taken[x, y]}"
                taken[x, y] = panel["title"]
    assert max(x for x, _ in taken) == dashboard.COLUMNS - 1


def test_the_dashboard_in_the_chart_is_the_programs() -> None:
    board: dict[str, Any] = json.loads(Path(dashboard.PATH).read_text())
    assert board == dashboard.dashboard()
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    assert not re.search(r'job=(?!\\"kscheduler\\")', Path(dashboard.PATH).read_text())
