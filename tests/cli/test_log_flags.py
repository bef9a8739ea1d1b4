"""How much is logged and how, by our names and kube-scheduler's; what makes no sense is refused in one line."""

import argparse
import json

import pytest

from kscheduler.cli.flags import add_flags, resolve
from kscheduler.cli.log_flags import add_log_flags, configure_logs
from kscheduler.config.errors import ConfigError
from kscheduler.logs import get_logger, verbose
from tests.logs.logging_left_alone import logging_left_alone


def parsed(*flags: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_flags(parser)
    add_log_flags(parser)
    return parser.parse_args(flags)


@pytest.mark.parametrize("flags", [["-v=5"], ["-v", "5"], ["-v5"], ["--v=5"], ["--v", "5"]], ids=" ".join)
def test_verbosity_may_be_spelled_as_klogs(flags: list[str]) -> None:
    with logging_left_alone():
        configure_logs(parsed(*flags))
        assert verbose(5)
        assert not verbose(6)


def test_without_it_the_service_tells_of_itself_only() -> None:
    with logging_left_alone():
        configure_logs(parsed())
        assert verbose(0)
        assert not verbose(1)


@pytest.mark.parametrize(
    "flags",
    [["-v", "-1"], ["-v=high"], ["-v="], ["-v=1.5"], ["-v=99999999999"], ["--logging-format=xml"], ["--log-format="]],
    ids=" ".join,
)
def test_other_values_are_refused(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parsed(*flags)
    assert caught.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "error: argument" in last
    assert "Traceback" not in last


@pytest.mark.parametrize(
    ("flags", "is_json"),
    [
        pytest.param(["--log-format=json"], True, id="ours, json"),
        pytest.param(["--log-format=text"], False, id="ours, text"),
        pytest.param(["--logging-format=json"], True, id="kube-scheduler's, json"),
        pytest.param(["--logging-format", "text"], False, id="kube-scheduler's, text"),
        pytest.param(["--logging-format=text", "--log-format=text"], False, id="both"),
        pytest.param([], True, id="neither, and no terminal"),
    ],
)
def test_the_format_goes_by_either_name(flags: list[str], is_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with logging_left_alone():
        configure_logs(parsed(*flags))
        get_logger("t").info("told")
    text = capsys.readouterr().err
    assert text.startswith("{") is is_json
    assert "told" in text
    assert not is_json or json.loads(text)["msg"] == "told"


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--log-format=json", "--logging-format=text"], "mean the same: give one"),
        (["--vmodule=attempt"], "--vmodule 'attempt' is not pattern=LEVEL"),
    ],
)
def test_a_contradiction_is_refused(flags: list[str], problem: str) -> None:
    with logging_left_alone(), pytest.raises(ConfigError, match=problem):
        configure_logs(parsed(*flags))


def test_levels_by_go_file_are_accepted_and_warned_about() -> None:
    args = parsed("--vmodule=schedule_one=10,eventhandlers=5")
    with logging_left_alone():
        configure_logs(args)
    (warning,) = resolve(args).warnings
    assert warning.flag == "--vmodule"
    assert "Go's source files" in warning.reason
