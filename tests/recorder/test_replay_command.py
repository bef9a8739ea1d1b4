"""`kscheduler replay`: what it prints, and its exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kscheduler.cli import build_parser, main
from kscheduler.cli.commands import replay
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import default_configuration, load_bytes
from kscheduler.recorder.replaying.replay import Report
from kscheduler.recorder.report.answers import schema_text
from kscheduler.recorder.report.of_replay import replay_answer, replay_text
from kscheduler.recorder.segments import segments_in
from kscheduler.text import Style
from tests.recorder.recorded import record

OTHER = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: kscheduler}]
"""
GATE = "InPlacePodVerticalScalingSchedulerPreemption"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("command")
    record(directory, 120, seed=21, nodes=4)
    return directory


def test_an_equal_recording_ends_with_0_and_its_hash(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(recording)]) == 0
    said = capsys.readouterr()
    assert "all came out as recorded" in said.out
    assert said.err == ""


def test_lost_entries_are_in_the_first_line() -> None:
    style = Style(width=200)
    first, second, *_ = replay_text(
        replay_answer(Report(entries=90, decisions=450, first=1, last=2, lost=1887), ""), style
    ).splitlines()
    assert first.startswith("450 decisions, 90 entries (1,887 more were lost), 0 segments: ")
    assert second.startswith("all that was recorded came out the same (450 judged)")
    first, second = replay_text(replay_answer(Report(decisions=450, first=1, last=2), ""), style).splitlines()
    assert "lost" not in first
    assert second.startswith("all came out as recorded (450 judged)")


def test_for_programs_there_is_one_object(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(recording), "-o", "json"]) == 0
    tree = json.loads(capsys.readouterr().out.splitlines()[-1])  # other tests may have switched the log on
    assert tree["equal"] is True
    assert tree["decisions"] > 50
    assert (tree["batches"] > 0, tree["batchesWithAnotherDigest"]) == (True, 0)


def test_each_answer_is_as_its_schema_says(recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "other.yaml"
    config.write_text(OTHER)
    assert main(["replay", "--schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    Draft202012Validator.check_schema(schema)
    answers = {"Replay": [], "ReplayedState": ["--until", "+10m"], "PolicyComparison": ["--config", str(config)]}
    for kind, flags in answers.items():
        assert main(["replay", str(recording), *flags, "-o", "json"]) == 0
        tree = json.loads(capsys.readouterr().out.splitlines()[-1])  # other tests may have switched the log on
        assert tree["kind"] == kind
        Draft202012Validator(schema).validate(tree)


def test_the_recorded_gates_hold_for_the_other_configuration_unless_flags_say_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "other.yaml"
    config.write_text(OTHER)
    gates = parse_feature_gates(f"{GATE}=true", version="1.37")
    record(tmp_path / "recorded", 30, seed=3, nodes=2, config=default_configuration(gates=gates))

    def reported(*flags: str) -> list[str]:
        assert main(["replay", str(tmp_path / "recorded"), "--config", str(config), "-o", "json", *flags]) == 0
        return [note for note in json.loads(capsys.readouterr().out.splitlines()[-1])["notes"] if "OTHER" in note]

    assert reported() == []
    off = f"OTHER has the feature gates {GATE}=false, the recorded one {GATE}=true"
    assert reported("--feature-gates", f"{GATE}=false") == [off]
    assert main(["replay", str(tmp_path / "recorded"), "--config", str(config), "--emulated-version", "1.36"]) == 2
    assert GATE in capsys.readouterr().err
    newer = ["replay", str(tmp_path / "recorded"), "--config", str(config), "--emulated-version", "1.38"]
    assert main([*newer, "-o", "json"]) == 0
    tree = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [tree[side]["emulationVersion"] for side in ("recorded", "other")] == ["1.37", "1.38"]
    assert main(["replay", str(tmp_path / "recorded"), "--emulated-version", "1.36"]) == 2
    assert "give --config or --plugin" in capsys.readouterr().err


PLUGIN = """from kscheduler.framework.per_node import plugin


@plugin("PreferCheap")
def score(pod, node):
    return {body}
"""
PACKING = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: other
- schedulerName: kscheduler
  plugins: {score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


def test_a_plugin_alone_joins_the_recorded_configuration_in_each_of_its_profiles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plugin that gives all nodes the same changes nothing, though the recorded profiles are not the default one."""
    record(tmp_path / "recorded", 120, seed=5, nodes=4, config=load_bytes(PACKING.encode(), "packing"))
    constant, by_name = tmp_path / "same.py", tmp_path / "name.py"
    constant.write_text(PLUGIN.format(body="0"))
    by_name.write_text(PLUGIN.format(body="100 if node.name.endswith('1') else 0"))

    def compared(path: Path) -> dict[str, Any]:
        assert main(["replay", str(tmp_path / "recorded"), "--plugin", str(path), "-o", "json"]) == 0
        tree: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
        return tree

    same = compared(constant)
    assert same["recorded"]["placed"] == same["other"]["placed"] > 10
    assert (same["elsewhere"], same["notes"]) == ([], [])
    assert compared(by_name)["elsewhere"]


def test_a_recording_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay"]) == 2
    assert "which recording?" in capsys.readouterr().err


def test_the_page_names_every_key_of_a_replay() -> None:
    page = (Path(__file__).parents[2] / "docs" / "recorder.md").read_text(encoding="utf-8")
    keys = json.loads(schema_text())["$defs"]["ReplayAnswer"]["properties"]
    assert [key for key in keys if key not in ("apiVersion", "kind") and f"`{key}`" not in page] == []


def test_the_state_at_a_time_has_nodes_and_queue(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(recording), "--until", "+10m", "-o", "json"]) == 0
    tree = json.loads(capsys.readouterr().out.splitlines()[-1])  # other tests may have switched the log on
    assert {node["name"] for node in tree["nodes"]}
    assert all({"pod", "place", "attempts", "backoffUntil"} <= set(pod) for pod in tree["queue"])
    assert main(["replay", str(recording), "--until", "+10m"]) == 0
    assert "NODE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--until", "yesterday"], "2026-11-24T15:30:00Z"),
        (["--until", "2020-01-01T00:00:00Z"], "no state to show at this time: the recording begins at 20"),
        (["--config", "not/there.yaml"], "not/there.yaml"),
    ],
    ids=["a time that is none", "a time before the recording", "a configuration that is not there"],
)
def test_what_cannot_be_used_ends_with_2_and_is_named(
    recording: Path, capsys: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    assert main(["replay", str(recording), *flags]) == 2
    assert said in capsys.readouterr().err


def test_a_reader_that_has_gone_is_no_fault_of_the_recording(
    recording: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object, **__: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("builtins.print", gone)
    with pytest.raises(BrokenPipeError):
        replay.run(build_parser(("replay",)).parse_args(["replay", str(recording)]))
    assert capsys.readouterr().err == ""


def test_a_directory_without_recordings_and_another_file_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err
    other = tmp_path / "notes.txt"
    other.write_text("no recording")
    assert main(["replay", str(other)]) == 2
    assert "notes.txt" in capsys.readouterr().err


def test_a_plugin_of_the_other_configuration_that_is_not_known_is_reported_with_the_file(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(OTHER.replace("kscheduler}", "kscheduler, plugins: {filter: {enabled: [{name: Nope}]}}}"))
    assert main(["replay", str(recording), "--config", str(other)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"kscheduler: {other}: ")
    assert "Nope" in said


def test_a_cut_file_says_where_it_stops(recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (name,) = segments_in(recording)
    cut = tmp_path / name.path.name
    cut.write_bytes(name.path.read_bytes()[:-7])
    assert main(["replay", str(cut)]) == 0
    assert "it was cut within block" in capsys.readouterr().out
    other = tmp_path / "other.yaml"
    other.write_text(OTHER)
    assert main(["replay", str(cut), "--config", str(other)]) == 0
    out = capsys.readouterr().out
    assert out.count("it was cut within block") == 1
    assert "everything before it is used" in " ".join(out.split())


@pytest.mark.parametrize("at", [0, 20], ids=["an empty file", "a snapshot that was cut"])
def test_a_file_without_a_whole_snapshot_is_refused(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], at: int
) -> None:
    name = segments_in(recording)[0]
    (tmp_path / name.path.name).write_bytes(name.path.read_bytes()[:at])
    assert main(["replay", str(tmp_path)]) == 2
    assert "its snapshot is not whole" in capsys.readouterr().err


def test_damage_ends_with_1_and_is_reported(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = segments_in(recording)[0]
    data = bytearray(name.path.read_bytes())
    data[-5] ^= 0xFF
    (tmp_path / name.path.name).write_bytes(data)
    assert main(["replay", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "none came out differently, but a part could not be replayed" in said
    assert "wrong checksum" in said


def test_a_time_before_the_recording_is_reported_as_such(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(recording), "--until", "1969-12-31T00:00:00Z"]) == 2
    assert "the recording begins at" in capsys.readouterr().err
