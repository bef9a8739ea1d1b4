"""kube-scheduler's flags: what is accepted, what wins, what warns."""

import argparse
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.cli import main
from kscheduler.cli.flags import (
    DEPRECATED,
    FLAGS_WITHOUT_EFFECT,
    LEADER_ELECTION,
    SWITCHES_WITHOUT_EFFECT,
    Resolved,
    add_flags,
    read_again,
    resolve,
)
from kscheduler.config.errors import ConfigError
from kscheduler.config.loader import from_tree
from kscheduler.config.types import KubeSchedulerConfiguration
from kscheduler.config.unsupported_settings import unhonoured
from kscheduler.server.serving import HTTPServing
from tests.config.test_expansion import WITHOUT_DECLARED_FEATURES

FILE = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: from-file, qps: 7}
leaderElection: {leaderElect: true, leaseDuration: 40s}
enableProfiling: true
profiles: [{schedulerName: in-file}]
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "config.yaml"
    path.write_text(FILE)
    return str(path)


def resolved(*flags: str) -> Resolved:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_flags(parser)
    return resolve(parser.parse_args(flags))


def configured(*flags: str) -> KubeSchedulerConfiguration:
    return resolved(*flags).config.configuration


def warned(found: Resolved) -> dict[str, str]:
    return {warning.flag: warning.reason for warning in found.warnings}


def problems(*flags: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        resolved(*flags)
    return str(caught.value).splitlines()


def test_without_flags_the_defaults_hold_and_nothing_warns() -> None:
    found = resolved()
    configuration = found.config.configuration
    assert [profile.scheduler_name for profile in configuration.profiles] == ["kscheduler"]
    assert configuration.leader_election.resource_name == "kscheduler"
    assert (found.serving, found.warnings) == (HTTPServing(), ())
    assert (found.serving.bind_address, found.serving.secure_port) == ("0.0.0.0", 10259)
    assert (found.serving.metrics_address, found.serving.insecure_port) == (None, None)
    assert found.config.given == frozenset()


def test_the_command_line_of_a_kubeadm_cluster_is_understood() -> None:
    found = resolved(
        "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
        "--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
        "--bind-address=127.0.0.1",
        "--kubeconfig=/etc/kubernetes/scheduler.conf",
        "--leader-elect=true",
    )
    assert found.config.configuration.client_connection.kubeconfig == "/etc/kubernetes/scheduler.conf"
    assert found.serving.bind_address == "127.0.0.1"
    assert found.serving.authentication.kubeconfig == "/etc/kubernetes/scheduler.conf"
    assert found.serving.authorization.kubeconfig == "/etc/kubernetes/scheduler.conf"
    assert warned(found) == {}
    assert "leaderElection.leaderElect" in found.config.given


def test_without_a_file_deprecated_flags_count() -> None:
    configuration = configured(
        "--kubeconfig=k", "--kube-api-qps=3.5", "--kube-api-burst=9", "--profiling=false", "--contention-profiling=0"
    )
    connection = configuration.client_connection
    assert (connection.kubeconfig, connection.qps, connection.burst) == ("k", 3.5, 9)
    assert not configuration.enable_profiling
    assert configuration.enable_contention_profiling is False


def test_with_a_file_deprecated_flags_are_skipped_and_say_so(file: str) -> None:
    given_flags = ["--kube-api-qps=3", "--profiling=false", "--scheduler-name=other"]
    found = resolved("--config", file, *given_flags)
    connection = found.config.configuration.client_connection
    assert (connection.kubeconfig, connection.qps) == ("from-file", 7)
    assert found.config.configuration.enable_profiling
    assert [profile.scheduler_name for profile in found.config.configuration.profiles] == ["in-file"]
    assert sorted(warned(found)) == ["--kube-api-qps", "--profiling", "--scheduler-name"]
    assert set(warned(found).values()) == {"is ignored: --config is given"}


def test_a_kubeconfig_beside_a_file_that_names_none_is_the_one(tmp_path: Path) -> None:
    """Ignored, as kube-scheduler does, it would leave $KUBECONFIG: perhaps production."""
    path = tmp_path / "config.yaml"
    path.write_text(FILE.replace("kubeconfig: from-file, ", ""))
    found = resolved("--config", str(path), "--kubeconfig=k")
    assert found.config.configuration.client_connection.kubeconfig == "k"
    assert warned(found) == {}


def test_a_kubeconfig_beside_a_file_that_names_another_is_skipped_and_warns(file: str) -> None:
    found = resolved("--config", file, "--kubeconfig=k")
    assert found.config.configuration.client_connection.kubeconfig == "from-file"
    reason = (
        f"is ignored: clientConnection.kubeconfig of {file} names from-file; the flag holds where the file names none"
    )
    assert warned(found) == {"--kubeconfig": reason}
    assert resolved("--config", file, "--kubeconfig=from-file").warnings == ()


def test_leader_election_flags_win_over_the_file_and_only_those_that_were_given(file: str) -> None:
    election = configured("--config", file, "--leader-elect=false", "--leader-elect-retry-period", "3s").leader_election
    assert not election.leader_elect
    assert str(election.retry_period) == "3s"
    assert str(election.lease_duration) == "40s", "as the file says"


def test_what_flags_make_of_a_file_is_checked(file: str) -> None:
    assert problems("--config", file, "--leader-elect-renew-deadline=50s") == [
        (
            'command line: --leader-elect-renew-deadline: Invalid value: "50s": must be less than '
            "leaderElection.leaseDuration, which is 40s"
        )
    ]
    (problem,) = problems("--kube-api-burst=-1")
    assert problem.startswith("command line: --kube-api-burst: Invalid value: -1")


@pytest.mark.parametrize(
    ("flags", "reported"),
    [
        (
            ["--leader-elect-lease-duration=5s"],
            (
                '--leader-elect-lease-duration: Invalid value: "5s": must be greater than '
                "leaderElection.renewDeadline, which is 10s"
            ),
        ),
        (
            ["--leader-elect-lease-duration=30s", "--leader-elect-renew-deadline=1m"],
            (
                '--leader-elect-lease-duration: Invalid value: "30s": must be greater than '
                "leaderElection.renewDeadline, which is 1m0s"
            ),
        ),
        (
            ["--leader-elect-renew-deadline=2s"],
            (
                '--leader-elect-renew-deadline: Invalid value: "2s": must be greater than 1.2 times '
                "leaderElection.retryPeriod, which is 2s"
            ),
        ),
        (
            ["--leader-elect-retry-period=9s"],
            (
                '--leader-elect-retry-period: Invalid value: "9s": 1.2 times it must be less than '
                "leaderElection.renewDeadline, which is 10s"
            ),
        ),
    ],
)
def test_a_flag_that_contradicts_another_time_is_named_with_its_own_value(flags: list[str], reported: str) -> None:
    assert problems(*flags) == [f"command line: {reported}"]


@pytest.mark.parametrize(
    ("flag", "reported"),
    [
        (
            "--leader-elect-retry-period=1ms",
            '--leader-elect-retry-period: Invalid value: "1ms": must be at least 100ms',
        ),
        ("--leader-elect-resource-name=My_Lease", '--leader-elect-resource-name: Invalid value: "My_Lease"'),
        ("--leader-elect-resource-namespace=a.b", '--leader-elect-resource-namespace: Invalid value: "a.b"'),
    ],
)
def test_a_lease_that_cannot_work_is_refused_as_in_a_file(flag: str, reported: str) -> None:
    with pytest.raises(ConfigError) as refused:
        resolved(flag)
    assert str(refused.value).startswith(f"command line: {reported}")


def test_a_flag_that_sets_a_field_warns_as_the_field_does() -> None:
    warned = unhonoured(resolved("--kube-api-content-type=application/cbor").config)
    assert [one.path for one in warned] == ["clientConnection.contentType"]
    assert unhonoured(resolved("--leader-elect", "--leader-elect-lease-duration=20s").config) == ()


@pytest.mark.parametrize(
    ("flags", "given_path", "qps"),
    [
        ([], False, 50),
        (["--kube-api-qps=0"], True, 50),
        (["--kube-api-qps=-1"], False, 50),
        (["--kube-api-qps=5"], True, 5),
    ],
    ids=["unset adapts", "zero is the default", "negative has no limit", "set is honoured"],
)
def test_rate_limits(flags: list[str], given_path: bool, qps: float) -> None:
    config = resolved(*flags).config
    assert config.is_given("clientConnection.qps") is given_path
    assert config.configuration.client_connection.qps == qps


@pytest.mark.parametrize("name", [*FLAGS_WITHOUT_EFFECT, *SWITCHES_WITHOUT_EFFECT])
def test_what_is_not_built_is_accepted_and_names_itself(name: str) -> None:
    value = "true" if name in SWITCHES_WITHOUT_EFFECT else "anything"
    found = resolved(f"--{name}={value}")
    assert warned(found) == {f"--{name}": f"has no effect: {ALL_WITHOUT_EFFECT[name]}"}
    assert found.config.given == frozenset()


ALL_WITHOUT_EFFECT = {**FLAGS_WITHOUT_EFFECT, **SWITCHES_WITHOUT_EFFECT}


@pytest.mark.parametrize("name", [*SWITCHES_WITHOUT_EFFECT, "leader-elect", "profiling", "contention-profiling"])
def test_a_switch_needs_no_value(name: str) -> None:
    assert resolved(f"--{name}", "--port=1") == resolved(f"--{name}=true", "--port=1")


def test_gates_go_by_kube_schedulers_names() -> None:
    found = resolved("--feature-gates=OpportunisticBatching=false", "--feature-gates", "StorageCapacityScoring=true")
    assert not found.config.gates.enabled("OpportunisticBatching")
    assert [warning.flag for warning in found.warnings] == ["--feature-gates"], "the other one is built"
    assert problems("--feature-gates=Nope=true,ImageVolume=false,Neither=1") == [
        "--feature-gates: unrecognized feature gate: Nope",
        "--feature-gates: cannot set feature gate ImageVolume to false, feature is locked to true",
        "--feature-gates: unrecognized feature gate: Neither",
    ]


@pytest.mark.parametrize("given", ["1.37", "v1.37", "kube=1.37", "1.37.0", "v1.37.0-beta.0"])
def test_a_version_brings_its_gates_and_plugins(given: str) -> None:
    gates = resolved(f"--emulated-version={given}", "--feature-gates=CompositePodGroup=false").config.gates
    assert (gates.version, gates.enabled("StorageCapacityScoring")) == ("1.37", True)
    names = [
        plugin.name for plugin in configured(f"--emulated-version={given}").profiles[0].plugins.multi_point.enabled
    ]
    assert names.index("NodeName") < names.index("NodeUnschedulable")
    assert problems("--emulated-version=1.37", "--feature-gates=GangScheduling=true") == [
        "--feature-gates: unrecognized feature gate: GangScheduling (Kubernetes 1.36 has it: see --emulated-version)"
    ]


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("1.35", ""),
        ("2", " (as MAJOR.MINOR)"),
        ("", " (as MAJOR.MINOR)"),
        ("kube:1.37", " (as MAJOR.MINOR)"),
        ("1.37.1", " (as MAJOR.MINOR; all patch releases decide alike: write 1.37)"),
    ],
)
def test_a_version_that_is_not_followed_is_refused(given: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        resolved(f"--emulated-version={given}")
    refusal = f"{given!r} is none of the versions that are followed: 1.36, 1.37, 1.38{hint}"
    assert capsys.readouterr().err.endswith(f"argument --emulated-version: {refusal}\n")


def test_a_gate_reaches_the_plugins_of_the_file(file: str) -> None:
    def plugins(*flags: str) -> set[str]:
        enabled = configured("--config", file, *flags).profiles[0].plugins.multi_point.enabled
        return {plugin.name for plugin in enabled}

    off = f"--feature-gates={WITHOUT_DECLARED_FEATURES}"
    assert plugins() - plugins(off) == {"NodeDeclaredFeatures"}


@pytest.mark.parametrize(
    "flags",
    [
        ["--nope"],
        ["positional"],
        ["--leader-elect=maybe"],
        ["--leader-elect-lease-duration=1x"],
        ["--port=70000"],
        ["--secure-port=-1"],
        ["--kube-api-burst=1.5"],
        ["--leader"],
    ],
    ids=" ".join,
)
def test_a_command_line_that_makes_no_sense_ends_with_2(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run", *flags])
    assert caught.value.code == 2
    assert flags[0].partition("=")[0] in capsys.readouterr().err


numbers = st.one_of(st.none(), st.integers(0, 2**31 - 1))
seconds = st.one_of(st.none(), st.integers(1, 10**6))


@given(seconds, seconds, seconds, numbers, st.booleans())
def test_flags_and_file_say_the_same(
    lease: int | None, renew: int | None, retry: int | None, burst: int | None, elect: bool
) -> None:
    """Whatever is given as flags is judged, and comes out, as if a file had said it."""
    values = {
        "leader-elect-lease-duration": lease and f"{lease}s",
        "leader-elect-renew-deadline": renew and f"{renew}s",
        "leader-elect-retry-period": retry and f"{retry}s",
        "kube-api-burst": burst,
    }
    flags = [f"--{name}={value}" for name, value in values.items() if value is not None]
    flags.append(f"--leader-elect={str(elect).lower()}")
    paths = {flag.name: flag.path for flag in (*LEADER_ELECTION, *DEPRECATED)}
    tree: dict[str, Any] = {"leaderElection": {"leaderElect": elect, "resourceName": "kscheduler"}}
    for name, value in values.items():
        if value is not None:
            section, _, field = paths[name].partition(".")
            tree.setdefault(section, {})[field] = value
    by_flags, by_file = outcome(lambda: configured(*flags)), outcome(lambda: from_file(tree))
    if not isinstance(by_file, tuple):
        assert by_flags == by_file
        return
    assert len(by_flags) == len(by_file), "only the words differ: each names what was given"
    assert all(problem.path in {flag.partition("=")[0] for flag in flags} for problem in by_flags)


def from_file(tree: dict[str, Any]) -> KubeSchedulerConfiguration:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return from_tree({**head, **tree, "profiles": [{"schedulerName": "kscheduler"}]}, "f").configuration


def outcome(make: Any) -> Any:
    """The configuration, or what is wrong with it."""
    try:
        return make()
    except ConfigError as error:
        return error.problems


def test_without_a_kubeconfig_that_of_the_file_is_not_read_now_or_when_the_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "of-kubeadm.yaml"
    path.write_text(FILE.replace("from-file", "/etc/kubernetes/scheduler.conf"))
    flags = ("--config", str(path), "--master", "http://127.0.0.1:1")
    assert configured(*flags).client_connection.kubeconfig == "/etc/kubernetes/scheduler.conf"
    assert configured(*flags, "--no-kubeconfig").client_connection.kubeconfig == ""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_flags(parser)
    args = parser.parse_args([*flags, "--no-kubeconfig"])
    again = read_again(args, resolve(args).reader)(path.read_bytes())
    assert again.config.configuration.client_connection.kubeconfig == ""
    for wrong in (("--no-kubeconfig",), ("--no-kubeconfig", "--master", "http://x", "--kubeconfig", "f")):
        assert any("--no-kubeconfig" in problem for problem in problems(*wrong))
