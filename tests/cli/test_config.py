"""`kscheduler config`: a file is right or every mistake is told; the defaults are a file that is right."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kscheduler.cli import main
from kscheduler.config.loader import default_configuration, load_bytes

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

HTTP = "must be http://HOST or https://HOST, with a port and a path where needed"
NO_TEXT = "expected text (in quotes, if it looks like a number or yes or no)"

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def check(file: Path, text: str, *flags: str) -> int:
    file.write_text(HEAD + text)
    return main(["config", "check", str(file), *flags])


def test_a_file_that_is_right_says_for_whom_it_schedules(file: Path, capsys: Captured) -> None:
    text = "profiles: [{schedulerName: one}, {schedulerName: two}]\nleaderElection: {leaderElect: false}"
    assert check(file, text) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{file}: can be used; it schedules for one, two\n"
    assert captured.err == ""


def test_a_name_with_white_space_is_shown_in_quotes_and_doubted(file: Path, capsys: Captured) -> None:
    assert check(file, "profiles: [{schedulerName: ' '}]\nleaderElection: {leaderElect: false}") == 0
    captured = capsys.readouterr()
    assert captured.out == f'{file}: can be used; it schedules for " ", 1 warning\n'
    assert 'profiles[0].schedulerName: only pods that name exactly " " are scheduled' in captured.err


def test_settings_plugins_and_gates_without_effect_are_warnings(file: Path, capsys: Captured) -> None:
    text = "extenders: [{urlPrefix: x}]\nleaderElection: {leaderElect: true}"
    assert check(file, text, "--feature-gates=SchedulerPopFromBackoffQ=false") == 0
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        "kscheduler: warning: feature gate SchedulerPopFromBackoffQ=false is known but has no effect yet",
        f"kscheduler: warning: {file}: extenders[0]: it is never called: it has no verb",
    ]
    assert captured.out.endswith("schedules for default-scheduler, 2 warnings\n")


def test_an_extender_that_cannot_be_called_is_a_mistake(file: Path, capsys: Captured) -> None:
    text = "extenders:\n- urlPrefix: ftp://x\n  filterVerb: f\n  tlsConfig: {caFile: /no/ca.crt}\n"
    assert check(file, text) == 2
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        f'kscheduler: {file}:4: extenders[0].urlPrefix: Invalid value: "ftp://x": {HTTP}',
        f"kscheduler: {file}:6: extenders[0].tlsConfig.caFile: /no/ca.crt: No such file or directory",
    ]


def test_every_mistake_has_a_line(file: Path, capsys: Captured) -> None:
    text = "parallelism: -1\nfoo: 1\npercentageOfNodesToScore: 101\nprofiles: [{schedulerNam: x}, {schedulerName: 3}]"
    assert check(file, text) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        f"kscheduler: {file}:4: foo: unknown field",
        f"kscheduler: {file}:6: profiles[0].schedulerNam: unknown field",
        f"kscheduler: {file}:6: profiles[1].schedulerName: {NO_TEXT}, got 3",
        f"kscheduler: {file}:3: parallelism: Invalid value: -1: should be an integer value greater than zero",
        f"kscheduler: {file}:5: percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
    ]


def test_plugins_that_do_not_exist_are_found_in_every_profile(file: Path, capsys: Captured) -> None:
    text = """\
profiles:
- {schedulerName: a, plugins: {filter: {enabled: [{name: Nope}, {name: PrioritySort}]}}}
- {schedulerName: b, plugins: {score: {enabled: [{name: Neither}]}}}
"""
    assert check(file, text) == 2
    nope, sort, neither = capsys.readouterr().err.splitlines()
    assert nope.startswith(f'kscheduler: {file}:4: profiles[0].plugins.filter: FilterPlugin "Nope" does not exist: ')
    assert sort == (
        f'kscheduler: {file}:4: profiles[0].plugins.filter: plugin "PrioritySort" does not extend FilterPlugin plugin'
    )
    assert neither.startswith(
        f'kscheduler: {file}:5: profiles[1].plugins.score: ScorePlugin "Neither" does not exist: '
    )


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ("a: &x 1\nb: *x", "alias"),
        ("parallelism: 1\nparallelism: 2", "parallelism"),
        ("profiles: []\n---\nprofiles: []", "document"),
    ],
    ids=["alias", "duplicate key", "second document"],
)
def test_a_file_that_means_two_things_is_refused(file: Path, capsys: Captured, document: str, text: str) -> None:
    assert check(file, document) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["check", "no-such-file"], ["check", "f", "--feature-gates=Nope=1"]], ids=" ".join)
def test_what_cannot_be_read_or_is_unknown_ends_with_2(capsys: Captured, flags: list[str]) -> None:
    assert main(["config", *flags]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_defaults_read_back_as_what_holds_without_a_file(capsys: Captured) -> None:
    assert main(["config", "default", "--scheduler-name", "mine"]) == 0
    printed = capsys.readouterr().out
    assert load_bytes(printed.encode(), "f").configuration == default_configuration("mine").configuration


def test_the_defaults_name_no_rate_because_unset_it_adapts(capsys: Captured) -> None:
    assert main(["config", "default"]) == 0
    printed = capsys.readouterr().out
    assert not {"qps", "burst"} & yaml.safe_load(printed)["clientConnection"].keys()
    assert not load_bytes(printed.encode(), "f").is_given("clientConnection.qps")


def test_the_defaults_under_gates(capsys: Captured) -> None:
    assert main(["config", "default", "--feature-gates=StorageCapacityScoring=true"]) == 0
    captured = capsys.readouterr()
    configured = yaml.safe_load(captured.out)["profiles"][0]["pluginConfig"]
    (binding,) = [one["args"] for one in configured if one["name"] == "VolumeBinding"]
    assert binding["shape"]
    assert captured.err == "", "it is built"


def run(*flags: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "kscheduler", "run", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_run_writes_the_complete_configuration_and_ends(tmp_path: Path) -> None:
    target = tmp_path / "complete.yaml"
    flags = ["--scheduler-name=mine", "--leader-elect=false", "--kube-api-qps=3", "--tls-curve-preferences=29", "-v=1"]
    done = run("--write-config-to", str(target), "--log-format=text", *flags)
    assert done.returncode == 0, done.stderr
    assert "--tls-curve-preferences" in done.stderr
    written = load_bytes(target.read_bytes(), "f").configuration
    assert [profile.scheduler_name for profile in written.profiles] == ["mine"]
    assert not written.leader_election.leader_elect
    assert written.client_connection.qps == 3
    assert main(["config", "check", str(target)]) == 0


def test_run_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    done = run("--write-config-to", str(tmp_path / "no" / "such"), "--feature-gates=Nope=true")
    assert (done.returncode, done.stderr) == (2, "kscheduler: --feature-gates: unrecognized feature gate: Nope\n")
    done = run("--write-config-to", str(tmp_path / "no" / "such"))
    assert done.returncode == 2
    assert done.stderr.endswith("No such file or directory\n")
