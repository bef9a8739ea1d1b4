"""`kscheduler shadow` on the command line: flags, refusals, the report as text."""

import argparse
import json
from typing import Any

import msgspec
import pytest

from kscheduler.cli import main
from kscheduler.cli.commands import shadow
from kscheduler.shadow.as_page import shadow_page
from kscheduler.shadow.as_text import shadow_text
from kscheduler.shadow.comparison import KSCHEDULER, KUBE_SCHEDULER
from kscheduler.shadow.report import ShadowReport


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    shadow.add_parser(parser.add_subparsers())
    return parser.parse_args(["shadow", *words])


def test_kube_scheduler_is_followed_by_default_and_kscheduler_neither_samples_nor_ties_by_chance() -> None:
    assert shadow._followed(parsed()) == KUBE_SCHEDULER
    assert shadow._followed(parsed("--followed", "kscheduler")) == KSCHEDULER
    assert shadow._followed(parsed("--followed-percentage", "100")).percentage is None
    assert shadow._followed(parsed("--followed-percentage", "30")).percentage == 30


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["--followed-percentage", "101"], "whole number from 0 to 100", id="percentage"),
        pytest.param(["--insecure-port", "no"], "must be between 0 and 65535", id="port"),
        pytest.param(["--followed", "yunikorn"], "invalid choice: 'yunikorn'", id="program"),
        pytest.param(["--settle", "soon"], "soon", id="duration"),
        pytest.param(["--leader-elect"], "unknown flag --leader-elect", id="no-election"),
    ],
)
def test_a_bad_flag_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["shadow", *words])
    assert end.value.code == 2
    reported = capsys.readouterr().err
    assert said in reported
    assert reported.count("\n") == 1


def test_a_configuration_that_is_not_there_is_refused_before_anything_is_queried(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["shadow", "--config", "/nowhere/new.yaml", "--master", "http://127.0.0.1:1"]) == 2
    assert "/nowhere/new.yaml" in capsys.readouterr().err


def test_the_report_of_nothing_says_so() -> None:
    tree: dict[str, Any] = {
        "follows": {
            "schedulers": ["default-scheduler"],
            "program": "kube-scheduler",
            "tiesByChance": True,
            "percentageOfNodesToScore": 0,
        },
        "config": None,
        "emulationVersion": "1.37",
        "seconds": 3.0,
        "compared": 0,
        "hasBegun": True,
        "differences": 0,
        "agreement": None,
        "kinds": dict.fromkeys(
            ("same", "order", "tie", "sampled", "different score", "not feasible", "unknown rule"), 0
        ),
        "notCompared": 0,
        "withoutSearch": 0,
        "orderTries": 0,
        "reasons": [],
        "examples": {},
        "nominations": {},
        "evictions": {"theirs": 0, "ours": 0},
        "leftPending": {"now": 0, "ever": 0, "pods": []},
        "placements": {
            "pods": 0,
            "leftOut": 0,
            "elsewhere": 0,
            "unplaced": 0,
            "theirs": {"nodesUsed": 0, "zoneSkew": 0, "podsByZone": {}},
            "ours": {"nodesUsed": 0, "zoneSkew": 0, "podsByZone": {}},
        },
        "room": {},
        "behindSeconds": 0.0,
        "settleSeconds": 2.0,
    }

    def report(**fields: object) -> ShadowReport:
        return msgspec.convert({**tree, **fields}, ShadowReport)

    text = shadow_text(report())
    decided_by = "decided by the default configuration, as kube-scheduler 1.37"
    assert text.startswith(f"shadow of default-scheduler (kube-scheduler), 3 s\n  {decided_by}\n")
    assert "no pod was bound since the start" in text
    assert "overdue" not in text
    assert "nothing was compared: the first lists" in shadow_text(report(hasBegun=False))
    assert "held back for 2 s; the oldest that waits is 1.5 s overdue" in shadow_text(report(behindSeconds=1.5))
    assert "nothing compared yet" in shadow_page(report())
    assert "agreement 75.00%." in shadow_page(report(compared=4, differences=1, agreement=0.75))


def test_a_shadow_that_could_not_read_the_cluster_does_not_end_as_if_all_were_equal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kscheduler.service.shadowing.service.SYNC_SECONDS", 0.1)
    flags = ("--master", "http://127.0.0.1:1", "--duration", "100ms", "--insecure-port", "off", "-o", "json")
    assert main(["shadow", *flags]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["hasBegun"], report["compared"]) == (False, 0)
