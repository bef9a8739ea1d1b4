"""Another configuration over the same recording: what would have been different, and nothing else."""

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from kscheduler.assembly.configured import Configured
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import load_bytes
from kscheduler.recorder.alternatives.comparing import PolicyComparison, RecordedRun, compared, rules_apart
from kscheduler.recorder.alternatives.served_names import serving_recorded, unserved
from kscheduler.recorder.replaying.recorded_configuration import configured_with
from kscheduler.recorder.replaying.replay import RecordingError, last_run_of, runs_of
from kscheduler.recorder.report.answers import schema_text
from kscheduler.recorder.report.other_policy import comparison_answer, comparison_text
from kscheduler.text import Style
from tests.recorder.recorded import record

SAME = "profiles: [{schedulerName: kscheduler}]"
PACKING = """profiles:
- schedulerName: kscheduler
  plugins:
    score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit}]}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""
WITHOUT_PREEMPTION = """profiles:
- schedulerName: kscheduler
  plugins: {postFilter: {disabled: [{name: "*"}]}}
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("policies")
    record(directory, 300, seed=11, nodes=8)
    return directory


def against(recording: Path, text: str) -> PolicyComparison:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    (run,) = runs_of(recording)
    return compared(RecordedRun(run), Configured(load_bytes((head + text).encode(), "other")))


def test_the_same_configuration_makes_no_difference(recording: Path) -> None:
    found = against(recording, SAME)
    assert list(found.moved()) == []
    assert found.before.placed == found.after.placed
    assert found.before.pending == found.after.pending
    assert found.before.evicted == found.after.evicted
    assert found.notes == []
    assert len(found.before.placed) > 50


@pytest.fixture(scope="module")
def packed(recording: Path) -> PolicyComparison:
    return against(recording, PACKING)


def test_packing_puts_pods_elsewhere_and_fills_nodes(packed: PolicyComparison) -> None:
    found = packed
    assert len(list(found.moved())) > 5
    assert found.after.mean("in_use") <= found.before.mean("in_use")


def test_without_preemption_nobody_is_evicted_and_pods_wait(recording: Path) -> None:
    found = against(recording, WITHOUT_PREEMPTION)
    assert found.before.evicted
    assert found.after.evicted == []


def test_both_answers_name_the_same_pods(packed: PolicyComparison) -> None:
    found = packed
    answer = comparison_answer(found, "here")
    text = comparison_text(answer)
    assert f"{len(answer.elsewhere):,} pods would be elsewhere" in text
    assert answer.elsewhere[0].pod in text
    assert answer.recorded.queue_seconds.max >= answer.recorded.queue_seconds.p50


FAILING = """from kscheduler.framework.per_node import plugin


@plugin("Boom")
def score(pod, node):
    {body}
"""


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        ("raise ValueError('boom')", "in {all} of {all} decisions"),
        ("return 'much'", "in {all} of {all} decisions"),
        ("return 1 // (node.name != 'node-2')", "to some of the nodes in"),
    ],
    ids=["raises", "wrong type", "some nodes"],
)
def test_a_score_that_fails_is_reported_beside_what_came_of_it(
    body: str, reported: str, recording: Path, tmp_path: Path
) -> None:
    """Otherwise a policy that never worked looks like one that makes no difference."""
    path = tmp_path / "boom.py"
    path.write_text(FAILING.format(body=body))
    recorded = RecordedRun(last_run_of(recording))
    other = configured_with(recorded.description, recorded.description.feature_gates, [str(path)], "")
    found = compared(recorded, other)
    answer = comparison_answer(found, "here")
    lines = comparison_text(answer, Style(width=1000)).splitlines()
    (line,) = (line for line in lines if "gave no points" in line)
    assert line.startswith("OTHER: Boom gave no points ")
    assert reported.format(all=found.after.scored) in line
    assert "(boom.py:" in line
    jsonschema.Draft202012Validator(json.loads(schema_text())).validate(json.loads(msgspec.json.encode(answer)))
    (failed,) = answer.other.without_points
    assert failed.plugin == "Boom"
    assert failed.decisions + failed.partly > 0
    assert answer.recorded.without_points == ()


def test_the_only_profile_decides_for_all_recorded_pods_whatever_its_name(recording: Path) -> None:
    found = against(recording, "profiles: [{schedulerName: other}]")
    assert found.notes == ["OTHER's only profile, other, decides for the pods of kscheduler"]
    assert list(found.moved()) == []


def test_profiles_of_which_none_serves_the_recorded_pods_are_refused(recording: Path) -> None:
    with pytest.raises(
        RecordingError, match="OTHER has the profiles a, b; the recorded pods name kscheduler"
    ) as refused:
        against(recording, "profiles: [{schedulerName: a}, {schedulerName: b}]")
    assert "set schedulerName: kscheduler in the profile that shall decide" in str(refused.value)


def test_pods_whose_profile_only_one_of_the_two_has_are_counted() -> None:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"

    def with_names(*names: str) -> Configured:
        text = head + "".join(f"- {{schedulerName: {name}}}\n" for name in names)
        return Configured(load_bytes(text.encode(), "given"))

    own, other, came = with_names("a", "b"), with_names("a", "c"), {"a": 3, "b": 1, "": 2}
    assert serving_recorded(own, other, came) == (other, [])
    assert list(unserved(own, other, came)) == [
        "1 pod of b: no profile of OTHER has this name; its room is taken as recorded",
        "no recorded profile has the name c: its pods were another scheduler's",
    ]


def test_gates_and_version_that_differ_are_reported() -> None:
    recorded = parse_feature_gates("GenericWorkload=true", version="1.37")
    assert list(rules_apart(recorded, recorded)) == []
    assert list(rules_apart(recorded, parse_feature_gates("", version="1.37"))) == [
        "OTHER has the feature gates GenericWorkload=false, the recorded one GenericWorkload=true"
    ]
    version, _ = rules_apart(recorded, parse_feature_gates("", version="1.36"))
    assert version == "OTHER decides as kube-scheduler 1.36, the recorded one as 1.37"


@pytest.fixture(scope="module")
def segmented(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("segments")
    record(directory, 400, seed=5, nodes=4, segment_bytes=3_000)
    return directory


@pytest.mark.parametrize("gap", ["cut", "missing"])
def test_after_a_gap_the_next_snapshot_says_what_is_there(gap: str, segmented: Path, tmp_path: Path) -> None:
    """What came, changed or went in the lost part would stay as it was before it."""
    (run,) = runs_of(segmented)
    assert len(run) > 3
    for name in run:
        data = name.path.read_bytes()
        if name is not run[1]:
            (tmp_path / name.path.name).write_bytes(data)
        elif gap == "cut":
            (tmp_path / name.path.name).write_bytes(data[: len(data) // 2])

    def last_objects(path: Path) -> tuple[dict[tuple[str, str], object], list[str]]:
        recorded, found = RecordedRun(last_run_of(path)), dict[tuple[str, str], object]()
        for change in recorded.external_changes():
            if change.kind is None:
                continue
            if change.old is not None and change.new is None:
                del found[change.kind.resource, change.old.key]
            elif change.new is not None:
                found[change.kind.resource, change.new.key] = change.new
        return found, recorded.notes

    whole, no_notes = last_objects(segmented)
    found, (note,) = last_objects(tmp_path)
    assert no_notes == []
    assert found == whole
    assert run[1].path.name in note if gap == "cut" else "segments are missing" in note
