"""A configuration is judged by each version that may be followed, wherever it is read: the API server decides later."""

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import yaml

from kscheduler.api.releases import BEHAVIOURS
from kscheduler.cli import main
from kscheduler.config.feature_gates import gates_of

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
POST_FILTER = "plugins: {podGroupPostFilter: {enabled: []}}"
SHAPE = (
    "pluginConfig: [{name: VolumeBinding, args: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}]"
)
SCENARIO = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1"},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "asker", "namespace": "default"},
            "spec": {"schedulerName": "x", "containers": [{"name": "c", "image": "i"}]},
        },
    ],
}

NEW_IN_1_37 = [
    pytest.param((), POST_FILTER, id="a field"),
    pytest.param((), SHAPE, id="an argument"),
    pytest.param(("--feature-gates=DRAFractionalCapacityRange=false",), "plugins: {}", id="a gate"),
]

# From the text of a configuration to the value of a flag that names it.
Given = Callable[[str, Path, pytest.MonkeyPatch], AbstractContextManager[str]]


@contextmanager
def as_file(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    del monkeypatch
    path = folder / "config.yaml"
    path.write_text(text)
    yield str(path)


@contextmanager
def as_standard_input(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    del folder
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    yield "-"


@contextmanager
def as_pipe(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """As the shell's `<(...)` gives it."""
    del folder, monkeypatch
    reading, writing = os.pipe()
    os.write(writing, text.encode())
    os.close(writing)
    try:
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)


def verbs(folder: Path) -> dict[str, list[str]]:
    """What a user does with a configuration before any API server has been asked."""
    scenario = folder / "scenario.yaml"
    scenario.write_text(yaml.safe_dump(SCENARIO))
    return {
        "config check": ["config", "check", "CONFIG"],
        "run": ["run", "--config", "CONFIG", "--write-config-to", str(folder / "complete.yaml")],
        "plugin list": ["plugin", "list", "--config", "CONFIG"],
        "explain": ["explain", "default/asker", "--from", str(scenario), "--config", "CONFIG"],
    }


@pytest.mark.parametrize("given", [as_file, as_standard_input, as_pipe], ids=lambda given: str(given.__name__))
@pytest.mark.parametrize("verb", ["config check", "run", "plugin list", "explain"])
@pytest.mark.parametrize(("flags", "profile"), NEW_IN_1_37)
def test_what_another_followed_version_takes_is_no_mistake(
    given: Given,
    verb: str,
    flags: tuple[str, ...],
    profile: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = f"{HEAD}leaderElection: {{leaderElect: false}}\nprofiles: [{{schedulerName: x, {profile}}}]\n"
    argv = verbs(tmp_path)[verb]
    with given(text, tmp_path, monkeypatch) as name:
        assert main([*(name if word == "CONFIG" else word for word in argv), *flags]) == 0, capsys.readouterr().err
    with given(text, tmp_path, monkeypatch) as name:
        assert main([*(name if word == "CONFIG" else word for word in argv), *flags, "--emulated-version=1.36"]) == 2


POST_FILTER_REFUSED = "unknown field (Kubernetes 1.37 and 1.38 have it: see --emulated-version)"


@pytest.mark.parametrize(
    ("profile", "gates", "warnings", "verdict"),
    [
        pytest.param(
            POST_FILTER,
            "",
            [
                f"not with Kubernetes 1.36: FILE:4: profiles[0].plugins.podGroupPostFilter: {POST_FILTER_REFUSED}",
                "on an API server of Kubernetes 1.36 the rules of 1.37 apply",
            ],
            "with Kubernetes 1.37 and 1.38, not with 1.36; it schedules for x, 2 warnings",
            id="a field of two versions",
        ),
        pytest.param(
            "",
            "SchedulerQueueingHints=true",
            [
                (
                    "not with Kubernetes 1.37 and 1.38: --feature-gates: unrecognized feature gate: "
                    "SchedulerQueueingHints (Kubernetes 1.36 has it: see --emulated-version)"
                ),
                "on an API server of Kubernetes 1.37 or 1.38 the rules of 1.36 apply",
            ],
            "with Kubernetes 1.36, not with 1.37 or 1.38; it schedules for x, 2 warnings",
            id="a gate of the oldest version",
        ),
        pytest.param(
            "",
            "GenericWorkload=true,PodGroupPreemptionPolicy=true",
            [
                (
                    "not with Kubernetes 1.36: --feature-gates: feature gate GenericWorkload cannot be switched on, "
                    "it is not built: pod groups are built as 1.37 and 1.38 have them: add --emulated-version 1.37"
                ),
                (
                    "not with Kubernetes 1.36 and 1.38: --feature-gates: unrecognized feature gate: "
                    "PodGroupPreemptionPolicy (Kubernetes 1.37 has it: see --emulated-version)"
                ),
                "on an API server of Kubernetes 1.36 or 1.38 the rules of 1.37 apply",
            ],
            "with Kubernetes 1.37, not with 1.36 or 1.38; it schedules for x, 3 warnings",
            id="a gate of the version in the middle",
        ),
    ],
)
def test_check_says_which_versions_take_the_file_and_what_follows_where_one_does_not(
    profile: str,
    gates: str,
    warnings: list[str],
    verdict: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"{HEAD}leaderElection: {{leaderElect: false}}\nprofiles: [{{schedulerName: x, {profile}}}]\n")
    assert main(["config", "check", str(path), *([f"--feature-gates={gates}"] if gates else [])]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{path}: can be used {verdict}\n"
    expected = [f"kscheduler: warning: {text.replace('FILE', str(path))}" for text in warnings]
    assert printed.err.splitlines() == expected


@pytest.mark.parametrize("verb", ["config check", "run", "plugin list", "explain"])
def test_an_unknown_field_is_one_mistake_whatever_it_holds(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing else is said of the plugins in it: at that point the version has none."""
    path = tmp_path / "config.yaml"
    path.write_text(
        f"{HEAD}leaderElection: {{leaderElect: false}}\n"
        "profiles: [{schedulerName: x, plugins: {placementFeasible: {enabled: [{name: GangScheduling}]}}}]\n"
    )
    argv = [str(path) if word == "CONFIG" else word for word in verbs(tmp_path)[verb]]
    assert main([*argv, "--emulated-version=1.37"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        (
            f"kscheduler: {path}:4: profiles[0].plugins.placementFeasible: "
            "unknown field (Kubernetes 1.38 has it: see --emulated-version)"
        )
    ]
    assert main([*argv, "--emulated-version=1.38"]) == 0


@pytest.mark.parametrize("version", BEHAVIOURS)
def test_every_gate_of_one_followed_version_only_lets_the_service_start(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As its default is: what a gate needs that is on is another question."""
    others = {name for other in BEHAVIOURS if other != version for name in gates_of(other)}
    only_here = [gate for gate in gates_of(version).values() if gate.name not in others]
    assert only_here
    for gate in only_here:
        setting = f"--feature-gates={gate.name}={str(gate.default).lower()}"
        assert main(["run", setting, "--write-config-to", str(tmp_path / "complete.yaml")]) == 0, (
            capsys.readouterr().err
        )


def test_what_no_version_takes_is_reported_as_the_version_with_the_fewest_mistakes_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A field that is new in 1.37 is not the mistake, beside one that nobody knows."""
    path = tmp_path / "config.yaml"
    path.write_text(f"{HEAD}profiles: [{{schedulerName: x, {POST_FILTER}}}]\nnonsense: 1\n")
    for argv in (["config", "check", str(path)], ["run", "--config", str(path)]):
        assert main(argv) == 2
        reported = capsys.readouterr().err
        assert "nonsense" in reported
        assert "podGroupPostFilter" not in reported


@pytest.mark.parametrize(
    "flag",
    [
        pytest.param("--feature-gates=Nonsense=true", id="a gate that nobody has"),
        pytest.param("--feature-gates=DRADerivedAttributes=true", id="a gate of 1.37 that is not built"),
        pytest.param("--emulated-version=1.32", id="a version that is not followed"),
    ],
)
@pytest.mark.parametrize("verb", ["config check", "run", "explain"])
def test_a_file_beside_a_wrong_flag_is_judged_by_each_version_too(
    verb: str, flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sound file of 1.37 has no mistakes to tell of, because a flag has one."""
    path = tmp_path / "config.yaml"
    path.write_text(f"{HEAD}profiles: [{{schedulerName: x, {POST_FILTER}, {SHAPE}}}]\n")
    try:
        ended: object = main([*(str(path) if word == "CONFIG" else word for word in verbs(tmp_path)[verb]), flag])
    except SystemExit as of_the_parser:
        ended = of_the_parser.code
    assert ended == 2
    reported = capsys.readouterr().err
    assert flag.partition("=")[2].partition("=")[0] in reported
    assert "config.yaml" not in reported, reported


@pytest.mark.parametrize("gate", ["DRAPartitionableDevicesType", "GangScheduling"])
def test_a_gate_that_no_version_can_switch_on_is_reported_by_the_one_that_knows_it(
    gate: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", f"--feature-gates={gate}=true"]) == 2
    assert f"feature gate {gate} cannot be switched on, it is not built" in capsys.readouterr().err


def test_the_defaults_are_those_of_the_oldest_version_that_takes_the_gates(capsys: pytest.CaptureFixture[str]) -> None:
    for flags, version in (([], "1.36"), (["--feature-gates=ManagedFieldsOptOutClient=false"], "1.38")):
        assert main(["config", "default", *flags]) == 0
        found = capsys.readouterr()
        said = f"kscheduler: the defaults of kube-scheduler {version}, the oldest that takes the feature gates\n"
        assert found.err == (said if flags else "")
        assert main(["config", "default", f"--emulated-version={version}"]) == 0
        assert found.out == capsys.readouterr().out
        assert main(["plugin", "list", *flags, "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["emulationVersion"] == version
