"""What a recording says of one pod: the same entries as a replay judges, with their times."""

import json
from collections import Counter
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from kscheduler.cli import main
from kscheduler.recorder.entries import DecisionEnd, Entry, Op, Output
from kscheduler.recorder.replaying.pod_decisions import PodDecision, PodDecisions, _awaited_under
from kscheduler.recorder.replaying.replay import Replay, runs_of
from kscheduler.recorder.report.answers import schema_text
from kscheduler.recorder.report.of_pod import pod_decisions_answer, pod_decisions_text
from kscheduler.recorder.report.times import time_text
from kscheduler.recorder.segments import segments_in
from tests.recorder.recorded import record

Captured = pytest.CaptureFixture[str]
Decided = tuple[int, str, int, str]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pods")
    record(directory, 600, seed=21, nodes=4, segment_bytes=4_000)
    assert len(list(segments_in(directory))) > 1
    return directory


@pytest.fixture(scope="module")
def decided(recording: Path) -> list[Decided]:
    """Time, pod, attempt and node of each pod that a replay decides about."""
    found: list[Decided] = []
    replay = Replay(on_outcome=lambda entry, _: note(entry))

    def note(entry: Entry) -> None:
        assert replay.scheduler is not None
        if entry[0] == Op.DECIDED:
            found.append((replay.scheduler.clock.micros, entry[3], entry[4], entry[6]))

    for run in runs_of(recording):
        replay.run(run)
    return found


def read(recording: Path, pod: str, until: int | None = None) -> PodDecisions:
    decisions = PodDecisions(pod, until)
    for run in runs_of(recording):
        decisions.read(run)
    return decisions


def test_every_decision_about_a_pod_is_found_with_the_time_attempt_and_node_of_a_replay(
    recording: Path, decided: list[Decided]
) -> None:
    """Of each twentieth pod: the whole recording is read for each."""
    pods = sorted({pod for _, pod, _, _ in decided})[::20]
    assert len(pods) > 10
    expected = [each for each in decided if each[1] in pods]
    reported = [
        (each.micros, each.pod, each.attempt, each.node)
        for pod in pods
        for each in read(recording, pod).found
        if each.attempt is not None
    ]
    assert sorted(reported) == sorted(expected)


def test_who_fits_nowhere_has_the_text_of_its_condition_and_who_turned_it_down(
    recording: Path, decided: list[Decided]
) -> None:
    (pod, _), *_ = Counter(pod for _, pod, _, node in decided if not node).most_common(1)
    found = read(recording, pod).found
    # Of a Binding that has failed, and of a pod that needs no node any more, the entry says something else.
    without = [each for each in found if not each.node and each.attempt is not None and each.text]
    assert without
    assert all("nodes are available" in each.text and each.plugins for each in without)


def test_the_command_reports_it_in_words_and_as_its_schema_says(
    recording: Path, decided: list[Decided], capsys: Captured
) -> None:
    (pod, _), *_ = Counter(pod for _, pod, _, node in decided if not node).most_common(1)
    found = read(recording, pod).found
    assert main(["replay", str(recording), "--pod", pod]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"{pod}: {len(found)} decisions, " in out
    assert f"{time_text(found[0].micros)} attempt {found[0].attempt}: " in out
    before = time_text(found[-1].micros - 1)
    assert f"kscheduler replay {recording} --until {before}" in out
    assert main(["replay", str(recording), "--until", before]) == 0
    capsys.readouterr()
    assert main(["replay", str(recording), "--pod", pod.partition("/")[2], "-o", "json"]) == 0
    tree = json.loads(capsys.readouterr().out.splitlines()[-1])
    Draft202012Validator(json.loads(schema_text())).validate(tree)
    assert tree["decisions"][0]["time"] == time_text(found[0].micros)


def test_until_ends_it_and_a_time_beyond_the_end_is_said_to_be(
    recording: Path, decided: list[Decided], capsys: Captured
) -> None:
    _, pod, _, _ = decided[-1]
    whole = read(recording, pod)
    assert len(read(recording, pod, whole.found[-1].micros - 1).found) == len(whole.found) - 1
    assert main(["replay", str(recording), "--pod", pod, "--until", "+10h"]) == 0
    ends = f"--until +10h: the recording ends at {time_text(whole.last)}, which is shown"
    assert ends in capsys.readouterr().err
    assert main(["replay", str(recording), "--until", "+10h"]) == 0
    assert ends in capsys.readouterr().err
    assert main(["replay", str(recording), "--until", "+1ms"]) == 0
    assert "ends at" not in capsys.readouterr().err


def test_a_pod_that_nobody_decided_about_ends_with_1(recording: Path, capsys: Captured) -> None:
    assert main(["replay", str(recording), "--pod", "default/nobody"]) == 1
    assert "--pod: nothing was decided about a pod default/nobody from 20" in capsys.readouterr().err
    assert main(["replay", str(recording), "--pod", "a", "--config", "b.yaml"]) == 2
    assert "it goes with --until alone" in capsys.readouterr().err


@pytest.mark.parametrize(("extenders", "text"), [
    ("[]", "a search for devices goes on"),
    ("[{urlPrefix: 'http://x', filterVerb: f}]", "extenders are asked"),
    ("[{urlPrefix: 'http://x', filterVerb: f, managedResources: [{name: a.b/c}]}]",
     "extenders are asked, or a search goes on"),
])  # fmt: skip
def test_what_a_decision_waits_for_is_reported_by_the_configuration(extenders: str, text: str) -> None:
    assert _awaited_under({"configuration": f"kind: KubeSchedulerConfiguration\nextenders: {extenders}\n"}) == text


def test_members_of_a_group_victims_and_what_came_later_are_reported() -> None:
    decisions = PodDecisions("ml/a")
    failed = [Output.FAILED, "ml/a", "0/3 nodes are available", "", ["Fit"], ["Gang"], "none", False]
    entries: list[Entry] = [
        [Op.GROUP, 1, "ml/train", [[7, "ml/a", "node-1"], [8, "ml/b", "node-2"]], []],
        [Op.ABANDONED, 2, 7, 1, ["the Binding was refused"], "", "none", []],
        [Op.GROUP, 3, "ml/train", [[9, "ml/b", "node-2"]], [failed]],
        [Op.DECIDED, 4, 10, "ml/a", 3, DecisionEnd.OVER, "", [failed, [Output.PREEMPTS, "ml/a", "node-3", ["ml/c"]]]],
        [Op.DECIDED, 5, 11, "ml/a", 4, DecisionEnd.AWAITED, "", []],
        [Op.LATER, 6, 11, "ml/a", True, "node-3", []],
    ]
    for number, entry in enumerate(entries):
        decisions.found += decisions._decisions(number, entry)
    no_node = {"text": "0/3 nodes are available", "plugins": ("Fit", "Gang")}
    assert decisions.found == [
        PodDecision(0, "ml/a", None, "node-1", group="ml/train"),
        PodDecision(1, "ml/a", None, text="the Binding was refused"),
        PodDecision(2, "ml/a", None, **no_node, group="ml/train"),  # type: ignore[arg-type]
        PodDecision(3, "ml/a", 3, **no_node, victims=("ml/c",), victims_on="node-3"),  # type: ignore[arg-type]
        PodDecision(4, "ml/a", 4, text="extenders are asked, or a search goes on"),
        PodDecision(5, "ml/a", None, "node-3"),
    ]
    text = " ".join(pod_decisions_text(pod_decisions_answer(decisions, "DIR")).split())
    assert "with pod group ml/train: node node-1" in text
    assert "attempt 3: no node (Fit, Gang): 0/3 nodes are available" in text
    assert "preempts on node-3: ml/c" in text
    assert "later: node node-3" in text
