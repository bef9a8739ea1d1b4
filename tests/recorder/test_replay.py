"""What was recorded comes out again: every decision, and everything that cache and queue held."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.recorder.random_cluster import RandomCluster
from kscheduler.api.core import Pod
from kscheduler.api.kinds import NODES, PODS
from kscheduler.recorder.replaying.replay import RecordingError, Replay, beginning_of, runs_of
from kscheduler.recorder.segments import segments_in
from kscheduler.state.queue.queue_snapshot import elements_in
from tests.effort import example_count
from tests.recorder.recorded import record, replayed

PROCESSES = pytest.mark.slow("replays in a process of its own")

EVENTS = 350
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RandomCluster]:
    directory = tmp_path_factory.mktemp("recording")
    return directory, record(directory, EVENTS, seed=1)


@pytest.fixture(scope="module")
def segmented(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("segmented")
    record(directory, EVENTS, seed=2, segment_bytes=3000)
    return directory


def test_every_decision_comes_out_as_recorded(recording: tuple[Path, RandomCluster]) -> None:
    directory, cluster = recording
    report = replayed(directory).report
    assert cluster.recorder is not None
    assert report.decisions == cluster.recorder.statistics().decisions > 200
    assert report.is_equal
    assert report.differences == []
    assert report.wrong_digests == 0 < report.digests
    assert (report.astray, report.stopped, report.lost) == ([], [], 0)


def test_in_the_end_cache_and_queue_are_as_they_were(recording: tuple[Path, RandomCluster]) -> None:
    directory, cluster = recording
    scheduler = replayed(directory).scheduler
    assert scheduler is not None
    was, is_now = cluster.assembly, scheduler.assembly
    assert is_now.queue.statistics() == was.queue.statistics()
    assert is_now.queue.rejections() == was.queue.rejections()
    assert _sub_queues(is_now.queue._sub_queues) == _sub_queues(was.queue._sub_queues)
    assert is_now.cache.statistics() == was.cache.statistics()
    for name in was.cache.node_names():
        before, after = was.cache.node_info(name), is_now.cache.node_info(name)
        assert before is not None
        assert after is not None
        assert list(after.pods) == list(before.pods)
        assert after.requested == before.requested
    assert list(is_now.cache.nominator.nominated()) == list(was.cache.nominator.nominated())
    assert scheduler.stores[PODS].list() == cluster.informers[PODS].store.list()
    assert scheduler.stores[NODES].list() == cluster.informers[NODES].store.list()


def _sub_queues(places: object) -> list[object]:
    return [
        (element.place, element.common, [(pod.key, facts) for pod, facts in element.members])
        for element in elements_in(places)  # type: ignore[arg-type]
    ]


def test_segments_of_a_run_are_replayed_one_after_the_other(segmented: Path) -> None:
    report = replayed(segmented).report
    assert report.segments > 2
    assert report.is_equal
    assert report.wrong_digests == 0


def test_each_segment_can_be_replayed_from_its_own_snapshot(segmented: Path) -> None:
    whole, by_segment = replayed(segmented).report, replayed(segmented, each_segment=True).report
    assert by_segment.is_equal
    assert by_segment.digest == whole.digest


def test_a_single_segment_can_be_read_alone(segmented: Path) -> None:
    name = segments_in(segmented)[2]
    replay = Replay()
    for run in runs_of(name.path):
        replay.run(run)
    assert replay.report.segments == 1
    assert replay.report.decisions > 0
    assert replay.report.is_equal


def test_where_a_segment_is_missing_the_next_snapshot_is_put_back(segmented: Path, tmp_path: Path) -> None:
    for name in segments_in(segmented):
        if name.number != 2:
            (tmp_path / name.path.name).write_bytes(name.path.read_bytes())
    report = replayed(tmp_path).report
    assert report.is_equal
    assert any("segments are missing" in note for note in report.notes)


@pytest.mark.parametrize("seed", range(example_count(8)))
def test_a_recording_cut_at_any_byte_replays_to_the_cut(
    recording: tuple[Path, RandomCluster], tmp_path: Path, seed: int
) -> None:
    (name,) = segments_in(recording[0])
    data = name.path.read_bytes()
    cut = tmp_path / name.path.name
    cut.write_bytes(data[: random.Random(seed).randrange(len(data))])
    report = replayed(tmp_path).report
    assert report.differing == report.wrong_digests == 0
    assert len(report.stopped) >= 1
    assert name.path.name in report.stopped[0]


@pytest.mark.parametrize("seed", range(example_count(8)))
def test_after_a_wrong_byte_nothing_is_believed(
    recording: tuple[Path, RandomCluster], tmp_path: Path, seed: int
) -> None:
    (name,) = segments_in(recording[0])
    data = bytearray(name.path.read_bytes())
    at = random.Random(seed).randrange(20, len(data))
    data[at] ^= 0xFF
    (tmp_path / name.path.name).write_bytes(data)
    report = replayed(tmp_path).report
    assert report.differing == report.wrong_digests == 0
    assert report.stopped
    assert not report.is_equal, "a part cannot be followed: exit code 1"


def test_the_replay_stops_at_a_time(recording: tuple[Path, RandomCluster]) -> None:
    directory, _ = recording
    whole = replayed(directory).report
    middle = (whole.first + whole.last) // 2
    replay = Replay(until=middle)
    for run in runs_of(directory):
        replay.run(run)
    assert replay.is_over
    assert replay.scheduler is not None
    assert whole.first < replay.scheduler.clock.micros <= middle
    assert 0 < replay.report.decisions < whole.decisions
    assert beginning_of(next(runs_of(directory))) == whole.first


def test_a_decision_that_differs_is_reported_and_the_recorded_one_is_followed(
    recording: tuple[Path, RandomCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The spread of pods over zones decides nothing here, so some pods go elsewhere."""
    from kscheduler.assembly.configured import Configured
    from kscheduler.config.loader import load_bytes
    from kscheduler.recorder.replaying.recorded_configuration import RecordedConfiguration

    def configure(recorded: RecordedConfiguration) -> Configured:
        text = """
            apiVersion: kubescheduler.config.k8s.io/v1
            kind: KubeSchedulerConfiguration
            profiles:
            - schedulerName: kscheduler
              plugins: {score: {disabled: [{name: "*"}]}}
        """
        return Configured(load_bytes(text.encode(), "test"))

    replay = Replay(configure)
    for run in runs_of(recording[0]):
        replay.run(run)
    report = replay.report
    assert not report.is_equal
    assert report.decisions == replayed(recording[0]).report.decisions
    assert 0 < report.differing < report.decisions
    assert "recorded: node node-" in report.differences[0].text
    assert report.astray == []


@PROCESSES
def test_another_process_with_another_hash_seed_comes_to_the_same_digest(
    recording: tuple[Path, RandomCluster],
) -> None:
    """The order of sets and hashes differs from process to process; no decision may depend on it."""
    here = replayed(recording[0]).report.digest
    program = (
        "import sys; from pathlib import Path; from kscheduler.recorder.replaying.replay import Replay, runs_of\n"
        "replay = Replay()\n"
        "for run in runs_of(Path(sys.argv[1])): replay.run(run)\n"
        "print(replay.report.digest)"
    )
    there = subprocess.run(
        [sys.executable, "-c", program, str(recording[0])],
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.split()[-1] == here


def test_a_directory_without_a_recording_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=str(tmp_path)):
        list(runs_of(tmp_path))


def test_no_secret_and_no_annotation_that_nobody_reads_is_in_the_file(
    recording: tuple[Path, RandomCluster],
) -> None:
    """Objects are written as the scheduler's structs, which have no field for environment, commands or secrets."""
    fields = set(Pod.__struct_fields__)
    assert fields == {"metadata", "spec", "status"}
    containers = type(Pod().spec).__annotations__["containers"]
    assert "env" not in str(containers)
