"""The alerts of the chart: each fires alone when it should, is quiet when it should, and is told of in the runbook."""

import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from kscheduler.client.access.connection import plain_connection
from kscheduler.recorder.metrics import IS_RECORDING, LOST
from kscheduler.service import App
from tests.deploy import helm, prometheus
from tests.deploy.chart.alert_cases import CASES, AlertCase, Series
from tests.deploy.chart.monitored import IN_USE
from tests.telemetry.metrics.series_stories import plain

ROOT: Final = Path(__file__).parents[3]
RUNBOOK: Final = (ROOT / "docs" / "runbook.md").read_text()
RULES: Final[list[dict[str, Any]]] = [
    rule
    for group in yaml.safe_load((helm.CHART / "files" / "rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
ALERTS: Final = {rule["alert"]: rule for rule in RULES if "alert" in rule}
SEVERITIES: Final = {"critical", "warning", "info"}
FROM_PROMETHEUS: Final = {"up"}
# Of a process that shadows.
OF_A_SHADOW: Final = {"kscheduler_shadow_differences_total"}
# Series that are there only with `--record`.
OF_A_RECORDER: Final = {IS_RECORDING.name, LOST.name}


@pytest.fixture(scope="session")
def rule_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rules as the chart renders them, as a file for promtool."""
    rendered = helm.objects(helm.render(settings={"metrics.prometheusRule.enabled": True}))
    (rule,) = (one for one in rendered if one["kind"] == "PrometheusRule")
    path = tmp_path_factory.mktemp("rules") / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": rule["spec"]["groups"]}))
    return path


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [prometheus.find("promtool"), *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def unit_test(rules: Path, folder: Path, case: AlertCase, series: Series, *, fires: bool) -> Path:
    """A file for promtool with one story: which alerts fire at its end, with all their labels."""
    labels = {"alertname": case.alert, "alertstate": "firing", **ALERTS[case.alert]["labels"], **case.labels}
    written = ", ".join(f'{name}="{value}"' for name, value in labels.items())
    story = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in {**case.normal, **series}.items()],
        "promql_expr_test": [
            {
                "expr": 'ALERTS{alertstate="firing"}',
                "eval_time": case.at,
                "exp_samples": [{"labels": f"ALERTS{{{written}}}", "value": 1}] if fires else [],
            }
        ],
    }
    path = folder / "story.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [story]}))
    return path


def test_promtool_finds_nothing_wrong(rule_file: Path) -> None:
    finished = promtool("check", "rules", "--lint=all", "--lint-fatal", rule_file)
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alert)
@pytest.mark.parametrize("kind", ["fires", "quiet"])
def test_each_alert_fires_alone_when_it_should_and_not_otherwise(
    rule_file: Path, tmp_path: Path, case: AlertCase, kind: str
) -> None:
    story = unit_test(rule_file, tmp_path, case, getattr(case, kind), fires=kind == "fires")
    finished = promtool("test", "rules", story)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_each_alert_has_its_stories() -> None:
    assert {case.alert for case in CASES} == set(ALERTS)


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_says_how_bad_it_is_and_where_to_read_on(alert: str) -> None:
    rule = ALERTS[alert]
    assert rule["labels"].keys() == {"severity"}
    assert rule["labels"]["severity"] in SEVERITIES
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{alert.lower()}"


@pytest.mark.parametrize("alert", ALERTS)
def test_the_runbook_has_a_section_for_it_in_four_parts(alert: str) -> None:
    section = RUNBOOK.partition(f"\n## {alert}\n")[2].partition("\n## ")[0]
    assert [part for part in ("**Meaning.**", "**Impact.**", "**Look.**", "**Do.**") if part not in section] == []
    assert f"({ALERTS[alert]['labels']['severity']})" in section


def test_the_runbook_reports_of_no_alert_that_does_not_exist() -> None:
    assert set(re.findall(r"^## (Kscheduler\w+)$", RUNBOOK, re.MULTILINE)) == set(ALERTS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alert)
def test_its_words_use_only_labels_that_it_has(case: AlertCase) -> None:
    used = set(re.findall(r"\$labels\.(\w+)", ALERTS[case.alert]["annotations"]["description"]))
    assert used <= set(case.labels)


async def exposed_names() -> set[str]:
    """All series that the service can expose, with the names of histograms' parts."""
    app = App(plain(), plain_connection("http://127.0.0.1:1"))
    names = app.http_app.exposition.names()
    app.http_app.exposition.close()
    return {f"{name}{part}" for name in names for part in ("", "_bucket", "_count", "_sum")}


async def test_rules_ask_for_nothing_that_is_not_exposed() -> None:
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    queried = set().union(*(re.findall(r"\b([a-z]\w+(?::\w+)*)\{", rule["expr"]) for rule in RULES))
    assert queried - recorded - FROM_PROMETHEUS - IN_USE - OF_A_RECORDER - OF_A_SHADOW <= await exposed_names()


def test_the_chart_leaves_out_what_is_disabled_and_labels_the_rest() -> None:
    settings = {
        "metrics.prometheusRule.enabled": True,
        "metrics.prometheusRule.disabled": ["KschedulerMemoryGrows"],
        "metrics.prometheusRule.alertLabels": {"team": "platform"},
        "metrics.prometheusRule.runbookURL": "https://wiki.example/kscheduler",
        "metrics.jobName": "kube-scheduler",
    }
    (rule,) = (one for one in helm.objects(helm.render(settings=settings)) if one["kind"] == "PrometheusRule")
    rules = [one for group in rule["spec"]["groups"] for one in group["rules"]]
    alerts = {one["alert"]: one for one in rules if "alert" in one}
    assert set(alerts) == set(ALERTS) - {"KschedulerMemoryGrows"}
    assert {one["labels"]["team"] for one in alerts.values()} == {"platform"}
    assert alerts["KschedulerDown"]["annotations"]["runbook_url"] == "https://wiki.example/kscheduler#kschedulerdown"
    assert not [one for one in rules if 'job="kscheduler"' in one["expr"]]
