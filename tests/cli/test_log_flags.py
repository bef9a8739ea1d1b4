"""How much is logged and how, by our names and kube-scheduler's; what makes no sense is refused in one line."""

import argparse
import json
import re
from pathlib import Path

import pytest

import kscheduler
from kscheduler.cli.flags import add_flags
from kscheduler.cli.log_flags import OWN_MODULES, add_log_flags, configure_logs
from kscheduler.config.errors import ConfigError
from kscheduler.telemetry.logs import get_logger, verbose
from kscheduler.telemetry.logs.pipeline import flush
from tests.telemetry.logs.logging_left_alone import logging_left_alone


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


def test_without_it_the_service_reports_of_itself_only() -> None:
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
        (["--logging-format=json", "--feature-gates=LoggingBetaOptions=false"], "log format json is disabled"),
        (["--log-text-split-stream"], "--log-text-split-stream needs --feature-gates=LoggingAlphaOptions=true"),
        (["--log-json-split-stream=true"], "--log-json-split-stream needs --feature-gates=LoggingAlphaOptions=true"),
        (["--log-text-info-buffer-size=1k"], "--log-text-info-buffer-size needs --feature-gates=LoggingAlpha"),
        (["--log-json-info-buffer-size", "1Mi"], "--log-json-info-buffer-size needs --feature-gates=LoggingAlpha"),
        (["--feature-gates=Nonsense=true"], "unrecognized feature gate: Nonsense"),
    ],
)
def test_a_contradiction_is_refused(flags: list[str], problem: str) -> None:
    with logging_left_alone(), pytest.raises(ConfigError, match=problem):
        configure_logs(parsed(*flags))


ALPHA = "--feature-gates=LoggingAlphaOptions=true"


@pytest.mark.parametrize(
    "flags",
    [
        ["--log-text-split-stream=false"],
        ["--log-json-info-buffer-size=0"],
        ["--log-flush-frequency=1m"],
        ["--vmodule="],
        ["--vmodule=a=0,,b=3,"],
    ],
    ids=" ".join,
)
def test_what_changes_nothing_needs_no_gate(flags: list[str]) -> None:
    with logging_left_alone():
        configure_logs(parsed(*flags))


def test_without_the_beta_gate_text_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_left_alone():
        configure_logs(parsed("--feature-gates=LoggingBetaOptions=false"))
        get_logger("t").info("told")
    assert " I told " in capsys.readouterr().err


def warned(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, str]:
    """Flags that are said to have no effect, with the reason."""
    with logging_left_alone():
        configure_logs(parsed("--log-format=json", *flags))
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    return {line["flag"]: line["reason"] for line in lines if line["msg"] == "flag_not_honoured"}


@pytest.mark.parametrize(
    ("flags", "flag", "reason"),
    [
        (["--log-flush-frequency=9s"], "--log-flush-frequency", "has no effect: each line is written at once"),
        ([ALPHA, "--log-text-split-stream"], "--log-text-split-stream", "has no effect: logs are written as json"),
        ([ALPHA, "--log-json-info-buffer-size=1k"], "--log-json-info-buffer-size", "only split streams are buffered"),
        (["--vmodule=schedule_one=10"], "--vmodule", "no module of kscheduler has such a name"),
    ],
)
def test_a_flag_that_cannot_be_honoured_is_named(
    flags: list[str], flag: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = warned(capsys, *flags)
    assert list(found) == [flag]
    assert reason in found[flag]


def test_nothing_is_said_of_flags_that_are_honoured(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--log-json-split-stream", "--log-json-info-buffer-size=1k", "--log-flush-frequency=9s"]
    assert warned(capsys, ALPHA, *flags, "--vmodule=pods=4,refl*=4,my.own=3") == {}


@pytest.mark.parametrize(
    "flags",
    [
        ["--vmodule=attempt"],
        ["--vmodule==3"],
        ["--vmodule=a=b"],
        ["--vmodule=a=1=2"],
        ["--vmodule=a=-1"],
        ["--vmodule=a=2147483648"],
        ["--log-flush-frequency=0"],
        ["--log-flush-frequency=-1s"],
        ["--log-flush-frequency=soon"],
        ["--log-text-info-buffer-size=-1"],
        ["--log-json-info-buffer-size=1K"],
        ["--log-json-split-stream=perhaps"],
        ["-v=2147483648"],
    ],
    ids=" ".join,
)
def test_values_that_make_no_sense_are_refused(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(*flags)
    assert "error: argument" in capsys.readouterr().err


def test_the_streams_are_split_and_errors_are_never_buffered(capsys: pytest.CaptureFixture[str]) -> None:
    flags = [ALPHA, "--log-json-split-stream", "--log-json-info-buffer-size=1Mi"]
    with logging_left_alone():
        configure_logs(parsed("--log-format=json", *flags))
        get_logger("t").info("quiet")
        get_logger("t").error("loud")
        captured = capsys.readouterr()
        assert ("quiet" in captured.out, "loud" in captured.err) == (False, True)
        flush()
        captured = capsys.readouterr()
        assert json.loads(captured.out)["msg"] == "quiet"
        assert captured.err == ""


def own_loggers() -> set[str]:
    """The last part of the name of each logger in the sources of the service."""
    names = set()
    for path in Path(kscheduler.__file__).parent.rglob("*.py"):
        if {"embedded", "bench"} & set(path.parts):  # its processes are no scheduler
            continue
        for name in re.findall(r"get_logger\(([^)]+)\)", path.read_text(encoding="utf-8")):
            if name == "__name__":
                names.add(path.stem)
            elif name.startswith('"'):
                names.add(name.strip('"').rpartition(".")[2])
    return names


def test_the_modules_that_can_be_named_are_those_that_log() -> None:
    assert own_loggers() == set(OWN_MODULES)
