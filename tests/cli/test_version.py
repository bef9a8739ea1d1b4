"""`kscheduler version`, and output that nobody reads to its end."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kscheduler import __version__
from kscheduler.api.releases import RELEASE
from kscheduler.cli import kubectl_plugin, main
from tests.effort import sampled


def test_it_reports_what_is_installed_and_whose_rules_it_follows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    text = capsys.readouterr().out
    assert f"kscheduler {__version__}" in text
    assert RELEASE in text


def test_a_program_can_read_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rules"] == RELEASE


@pytest.mark.parametrize("words", sampled([("completion", "bash"), ("bench", "--list")], 1, "starts a process"))
def test_a_reader_that_goes_costs_no_traceback(words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "kscheduler", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, reported = process.communicate(timeout=60)
    assert (process.returncode, reported) == (141, b"")


@pytest.mark.parametrize(
    "words",
    [("version",), ("config", "default"), ("--version",), ("run", "--help"), ("replay", "--schema")],
    ids=" ".join,
)
def test_a_full_disk_costs_a_line_and_no_traceback(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(words) == 1
        full.flush()  # nothing is left for the end of the process, where it would fail again
    assert capsys.readouterr().err == "kscheduler: standard output cannot be written: No space left on device\n"


def test_so_does_one_of_kubectls_plugin(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert kubectl_plugin.main(["why", "--help"]) == 1
    assert capsys.readouterr().err == "kscheduler: standard output cannot be written: No space left on device\n"
