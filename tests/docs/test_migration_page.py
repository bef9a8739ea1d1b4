"""docs/migration.md is true where code can tell: flags, files of the chart, names that follow from the release's."""

import re
from pathlib import Path

from kscheduler.cli.flags import DEPRECATED, FLAGS_WITHOUT_EFFECT, SWITCHES_WITHOUT_EFFECT
from tests.docs.source_index import ROOT, text_of

TEXT = text_of("docs/migration.md")
FLAGS = TEXT.partition("\n## Flags\n")[2].partition("\n## ")[0]
CHART = Path("deploy/helm/kscheduler")


def test_each_flag_that_does_something_else_here_is_in_the_table() -> None:
    reported = set(re.findall(r"`--([\w-]+)`", FLAGS))
    assert reported >= {*FLAGS_WITHOUT_EFFECT, *SWITCHES_WITHOUT_EFFECT, *(flag.name for flag in DEPRECATED)}


def test_the_files_that_commands_name_are_there() -> None:
    files = re.findall(r"(?:--values|install kscheduler(?:-main)?|upgrade kscheduler-main|apply -f) (deploy/\S+)", TEXT)
    assert len(files) >= 4
    assert [path for path in files if not (ROOT / path).exists()] == []


def test_the_alerts_that_it_names_are_rules_of_the_chart() -> None:
    rules = text_of(str(CHART / "files" / "rules.yaml"))
    alerts = set(re.findall(r"`(Kscheduler\w+)`", TEXT))
    assert alerts
    assert [name for name in alerts if f"alert: {name}\n" not in rules] == []


def test_the_label_of_a_namespace_is_the_one_that_the_example_selects() -> None:
    key, value = re.findall(r"label namespace staging ([\w./]+)=(\w+)", TEXT)[0]
    assert f"{key}: {value}\n" in text_of("deploy/examples/namespaces.yaml")
