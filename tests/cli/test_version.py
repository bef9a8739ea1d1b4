"""`kscheduler version`, and output that nobody reads to its end."""

import json
import subprocess
import sys

import pytest

from kscheduler import __version__
from kscheduler.api.releases import RELEASE
from kscheduler.cli import main
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
