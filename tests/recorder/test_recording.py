"""Recording never disturbs who decides: what cannot be written is told, counted, and made good by a snapshot."""

import asyncio
import shutil
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from benchmarks.recorder.random_cluster import RandomCluster
from kscheduler.aio.clock import VirtualClock
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import default_configuration
from kscheduler.plugins.in_tree import registry
from kscheduler.recorder import entries as entries_module
from kscheduler.recorder import flight_recorder as recorder_module
from kscheduler.recorder import segment_thread
from kscheduler.recorder.building import flight_recorder
from kscheduler.recorder.entries import Op
from kscheduler.recorder.flight_recorder import FlightRecorder, RecordedState, RecordSettings
from kscheduler.recorder.packing import ObjectPacker
from kscheduler.recorder.replaying.replay import last_run_of, runs_of
from kscheduler.recorder.segments import SegmentReader, room_for, segment_path, segments_in
from kscheduler.recorder.step_clock import StepClock
from kscheduler.scheduling.attempt_events import STEP_BEGAN, BackoffFlushed, NodesTouched, SchedulingBegan
from tests.recorder.recorded import record, replayed


def cluster_with(directory: Path, seed: int = 3) -> RandomCluster:
    return RandomCluster(
        default_configuration(),
        seed,
        recorder=lambda clock: flight_recorder(RecordSettings(directory), clock),
        nodes=4,
    )


def entries_of(path: Path) -> list[Any]:
    return [entry for block in SegmentReader(path).blocks() for entry in block]


def written(recorder: FlightRecorder) -> None:
    """Wait until all that was handed over is written, as `tend` does turn by turn."""
    for _ in range(2000):
        recorder._thread.catch_up()
        if recorder._thread.is_idle():
            return
        threading.Event().wait(0.005)
    raise AssertionError("the thread has not ended its work in ten seconds")


async def play(cluster: RandomCluster, turns: int, at: dict[int, Any]) -> None:
    recorder = cluster.recorder
    assert recorder is not None

    def turn(number: int) -> None:
        if number in at:
            at[number]()
        if number % 20 == 0:
            written(recorder)
            recorder.tend()

    await cluster.play(turns, turn)


def test_the_time_stands_still_within_a_step_and_is_whole_microseconds() -> None:
    clock = VirtualClock(start=0.1234567891)
    steps = StepClock(clock)
    before = steps.time()
    asyncio.run(clock.advance(1.0))
    assert steps.time() == before
    steps.step()
    assert steps.time() == pytest.approx(before + 1.0, abs=1e-6)
    assert steps.time() == steps.micros / 1_000_000


async def test_times_are_right_in_every_segment_whatever_steps_nobody_recorded(tmp_path: Path) -> None:
    """A step that nothing came of is in the file only as a time; that of a new segment is in its snapshot."""
    clock = VirtualClock(start=1000.0)
    recorder = flight_recorder(RecordSettings(tmp_path), clock)
    state = RecordedState(
        lambda _config: {},
        lambda micros, _attempts, _number: lambda: [(Op.SNAPSHOT, "configuration", {}, micros, [])],
        dict,
    )

    async def step(seconds: float) -> None:
        await clock.advance(seconds)
        recorder.step_began(STEP_BEGAN)

    recorder.start(state)
    expected = []
    for _ in range(2):
        await step(1.5)
        await step(0.25)
        recorder.flushed_backoff(BackoffFlushed())
        expected.append((Op.BACKOFF, recorder.clock.micros))
        written(recorder)
        recorder.tend()
        written(recorder)
        await step(2.0)
        recorder._begin_segment()
        await step(0.5)
        recorder.began(SchedulingBegan())
        expected.append((Op.BEGAN, recorder.clock.micros))
    await recorder.stop()
    names = segments_in(tmp_path)
    assert len(names) == 3
    found = [entry for name in names for entry in entries_of(name.path)]
    assert [tuple(entry) for entry in found if entry[0] in (Op.BACKOFF, Op.BEGAN)] == expected


async def test_where_nothing_can_be_written_scheduling_goes_on_and_it_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = cluster_with(tmp_path / "not" / "there")
    assert cluster.recorder is not None
    await play(cluster, 60, {})
    found = cluster.recorder.statistics()
    assert cluster.decided > 5
    assert found.thread.failures >= 1
    assert found.lost > 0
    assert "not/there" in found.thread.problem
    assert any("nothing is recorded" in note for note in cluster.recorder.notes())


async def test_after_a_failure_a_new_segment_says_what_is_missing_and_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is gone for a while: full disks and lost mounts fail in the same place."""
    monkeypatch.setattr(segment_thread, "RETRY_SECONDS", 0.0)
    directory = tmp_path / "recording"
    cluster = cluster_with(directory)
    recorder = cluster.recorder
    assert recorder is not None
    real = segment_thread._Segment.append
    is_full = False

    def write(segment: Any, data: bytes) -> int:
        if is_full:
            raise OSError(28, "No space left on device", str(segment.path))
        return real(segment, data)

    def fill() -> None:
        nonlocal is_full
        is_full = True

    def empty() -> None:
        nonlocal is_full
        is_full = False

    monkeypatch.setattr(segment_thread._Segment, "append", write)
    await play(cluster, 300, {100: fill, 160: empty})
    found = recorder.statistics()
    assert found.lost > 0
    assert found.thread.problem == ""
    names = segments_in(directory)
    lost = [entry for name in names for entry in entries_of(name.path) if entry[0] == Op.LOST]
    assert sum(count for _, count in lost) == found.lost
    report = replayed(directory).report
    assert report.is_equal
    assert report.lost == found.lost
    assert report.decisions > 100


async def test_a_thread_that_cannot_keep_up_loses_entries_and_goes_on_with_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "MAX_WAITING", 300)
    monkeypatch.setattr(recorder_module, "BATCH", 64)
    cluster = cluster_with(tmp_path)
    recorder = cluster.recorder
    assert recorder is not None
    gate = threading.Event()
    gate.set()
    real = segment_thread._Segment.append

    def write(segment: Any, data: bytes) -> int:
        gate.wait(20)
        return real(segment, data)

    monkeypatch.setattr(segment_thread._Segment, "append", write)

    def turn(number: int) -> None:
        if number == 60:
            gate.clear()
        if number == 200:
            gate.set()
        if number % 20 == 0:
            if gate.is_set():
                written(recorder)
            recorder.tend()

    await cluster.play(320, turn)
    found = recorder.statistics()
    assert found.lost > 0
    report = replayed(tmp_path).report
    assert report.is_equal
    assert 0 < report.lost <= found.lost


@pytest.mark.parametrize("begins_at", [-1, 40], ids=["at the end", "in between"])
async def test_what_comes_before_the_segment_has_begun_is_held_back_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins_at: int
) -> None:
    """The thread packs the snapshot meanwhile, or has not had its turn."""
    monkeypatch.setattr(recorder_module, "BATCH", 16)
    cluster = cluster_with(tmp_path)
    recorder = cluster.recorder
    assert recorder is not None
    thread = recorder._thread
    begin, held = thread._thread.start, 0
    monkeypatch.setattr(thread._thread, "start", lambda: None)

    def turn(number: int) -> None:
        nonlocal held
        if number == begins_at:
            begin()
        if number % 20 == 0:
            recorder.tend()
        held = max(held, len(thread._held))

    real = thread.finish

    def finish() -> None:
        real()
        if begins_at < 0:
            begin()

    monkeypatch.setattr(thread, "finish", finish)
    await cluster.play(120, turn)
    assert held > 3
    report = replayed(tmp_path).report
    assert report.is_equal
    assert report.decisions == recorder.statistics().decisions > 30
    assert recorder.statistics().lost == 0


async def test_what_comes_after_the_end_is_counted_and_does_not_touch_the_file(tmp_path: Path) -> None:
    """While the loop waits for the thread's end, its other tasks go on."""
    cluster = cluster_with(tmp_path)
    recorder = cluster.recorder
    assert recorder is not None
    await play(cluster, 60, {})
    before = [name.path.read_bytes() for name in segments_in(tmp_path)]
    for _ in range(recorder_module.BATCH):
        recorder.touched(NodesTouched(["node-0"], "Late"))
    assert recorder.statistics().lost == recorder_module.BATCH
    assert recorder._thread.waiting == 0
    assert [name.path.read_bytes() for name in segments_in(tmp_path)] == before
    assert replayed(tmp_path).report.is_equal


@pytest.mark.parametrize("where", ["objects", "batches"])
async def test_a_bug_in_packing_ends_the_segment_and_not_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(segment_thread, "RETRY_SECONDS", 0.0)
    cluster = cluster_with(tmp_path)
    assert cluster.recorder is not None
    broken = 0

    def breaking(real: Callable[..., Any]) -> Callable[..., Any]:
        def packed(*args: Any) -> Any:
            nonlocal broken
            if broken == 1:
                broken = 2
                raise KeyError("unlike any entry")
            return real(*args)

        return packed

    def begin_to_break() -> None:
        nonlocal broken
        broken = 1

    if where == "objects":
        monkeypatch.setattr(ObjectPacker, "update", breaking(ObjectPacker.update))
    else:
        monkeypatch.setattr(recorder_module, "batch_of", breaking(entries_module.batch_of))
    await play(cluster, 300, {120: begin_to_break})
    found = cluster.recorder.statistics()
    assert broken == 2
    assert found.thread.failures == 1
    assert found.lost > 0
    report = replayed(tmp_path).report
    assert report.is_equal
    assert report.lost == found.lost
    assert report.decisions > 100


async def test_a_directory_that_was_deleted_is_noticed_and_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing to a deleted file succeeds, and what was written is nowhere."""
    monkeypatch.setattr(segment_thread, "RETRY_SECONDS", 0.0)
    directory = tmp_path / "recording"
    cluster = cluster_with(directory)
    assert cluster.recorder is not None
    await play(cluster, 200, {100: lambda: shutil.rmtree(directory)})
    found = cluster.recorder.statistics()
    assert found.thread.failures == 1
    assert found.lost > 0
    assert found.thread.problem == ""
    report = replayed(directory).report
    assert report.is_equal
    assert report.lost == found.lost


@pytest.mark.parametrize("written_bytes", [0, 3000], ids=["no byte has room", "half a snapshot has room"])
async def test_a_full_disk_is_not_filled_with_segments_that_are_of_no_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written_bytes: int
) -> None:
    monkeypatch.setattr(segment_thread, "RETRY_SECONDS", 0.0)

    def write(segment: Any, data: bytes) -> int:
        segment._file.write(data[:written_bytes])
        raise OSError(28, "No space left on device", str(segment.path))

    monkeypatch.setattr(segment_thread._Segment, "append", write)
    cluster = cluster_with(tmp_path)
    assert cluster.recorder is not None
    await play(cluster, 100, {})
    assert cluster.recorder.statistics().thread.failures > 1
    assert segments_in(tmp_path) == []


async def test_a_gap_is_reported_once_when_it_is_over_and_no_number_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_thread, "RETRY_SECONDS", 0.0)
    is_full = threading.Event()
    real = segment_thread._Segment.append

    def write(segment: Any, data: bytes) -> int:
        if is_full.is_set():
            raise OSError(28, "No space left on device", str(segment.path))
        return real(segment, data)

    monkeypatch.setattr(segment_thread._Segment, "append", write)
    cluster = cluster_with(tmp_path)
    recorder = cluster.recorder
    assert recorder is not None
    with capture_logs() as lines:
        await play(cluster, 200, {60: is_full.set, 140: is_full.clear})
    said = [line["event"] for line in lines if line["event"].startswith("recording_")]
    assert said[:2] == ["recording_started", "recording_interrupted"]
    assert said[-2:] == ["recording_has_a_gap", "recording_resumed"]
    assert said.count("recording_has_a_gap") == 1
    assert recorder.statistics().thread.failures > 2
    assert [name.number for name in segments_in(tmp_path)] == [1, 2]
    report = replayed(tmp_path).report
    assert report.is_equal
    assert report.lost == recorder.statistics().lost > 0


def test_what_is_no_segment_is_skipped_by_name(tmp_path: Path) -> None:
    record(tmp_path, 60, seed=1, nodes=3)
    alone = replayed(tmp_path).report
    (tmp_path / "20260101T000000Z-1-000001.ksrec").mkdir()
    mine = tmp_path / "notes.ksrec"
    mine.write_text("mine")
    (tmp_path / "notes.txt").write_text("nobody takes this for a recording")
    last = segments_in(tmp_path)[-1]
    foreign = tmp_path / f"{last.run}-000009.ksrec"
    foreign.write_text("not yours")
    report = replayed(tmp_path).report
    assert (report.decisions, report.differing) == (alone.decisions, 0)
    assert report.stopped == [f"{path}: it is no recording of kscheduler" for path in (foreign, mine)]
    assert not report.is_equal, "it may be a segment whose beginning is destroyed"


def test_the_start_of_a_recording_is_logged_once_with_its_place_and_size(tmp_path: Path) -> None:
    with capture_logs() as lines:
        record(tmp_path, 60, seed=1, nodes=3)
    (line,) = (line for line in lines if line["event"] == "recording_started")
    assert (line["directory"], line["max_bytes"], line["redacted"]) == (str(tmp_path), 1 << 30, False)


async def test_a_recording_that_may_grow_larger_than_its_volume_is_warned_about(tmp_path: Path) -> None:
    for most_bytes in (1 << 20, 1 << 60):
        settings = RecordSettings(tmp_path / str(most_bytes), most_bytes)
        cluster = RandomCluster(default_configuration(), 3, recorder=partial(flight_recorder, settings))
        with capture_logs() as lines:
            await play(cluster, 20, {})
        warned = [line for line in lines if line["event"] == "recording_may_fill_its_volume"]
        assert len(warned) == (most_bytes == 1 << 60)
    (line,) = warned
    assert (line["directory"], line["max_bytes"]) == (str(settings.directory), 1 << 60)
    assert 0 < line["free_bytes"] < 1 << 60


def test_files_that_may_be_deleted_are_room_for_a_recording(tmp_path: Path) -> None:
    before = room_for(tmp_path)
    with segment_path(tmp_path, "20260101T000000Z-1", 1).open("wb") as file:
        file.truncate(1 << 40)  # a sparse file takes no place
    assert room_for(tmp_path) - before == pytest.approx(1 << 40, abs=1 << 32)


def test_a_version_that_is_followed_is_no_other_configuration(tmp_path: Path) -> None:
    before, now = (default_configuration(gates=parse_feature_gates("", version=each)) for each in ("1.36", "1.37"))

    async def go() -> None:
        cluster = RandomCluster(
            before, 1, recorder=lambda clock: flight_recorder(RecordSettings(tmp_path), clock), nodes=3
        )
        assembly = cluster.assembly

        def follow(turn: int) -> None:
            if turn in (20, 40):
                assembly.apply(assembly.draft(now, registry()), lambda _: [])

        await cluster.play(60, follow)

    asyncio.run(go())
    notes = [note for note in replayed(tmp_path).report.notes if "version" in note or "configuration" in note]
    assert notes == ["followed version: 1.37, as the API server; 1.36 before", "another configuration was taken over"]


def test_a_copy_is_found_under_any_name_and_in_its_place_in_time(tmp_path: Path) -> None:
    record(tmp_path, 60, seed=1, nodes=3)
    (name,) = segments_in(tmp_path)
    alone = replayed(tmp_path).report
    copy = name.path.rename(tmp_path / "monday of the incident")
    assert replayed(tmp_path).report.decisions == alone.decisions
    (tmp_path / "a.ksrec").write_text("mine")
    assert [run[0].path for run in runs_of(tmp_path)] == [copy, tmp_path / "a.ksrec"]
    assert last_run_of(tmp_path)[0].path == copy


def test_the_recording_keeps_within_its_size(tmp_path: Path) -> None:
    """The oldest segments go, and what is left replays."""
    from tests.recorder import recorded

    async def go() -> None:
        cluster = RandomCluster(
            default_configuration(),
            5,
            recorder=lambda clock: flight_recorder(
                RecordSettings(tmp_path, most_bytes=30_000, segment_bytes=5_000), clock
            ),
            nodes=4,
        )
        assert cluster.recorder is not None
        recorder = cluster.recorder
        await cluster.play(500, lambda turn: None if turn % recorded.TEND_EVERY else recorder.tend())

    asyncio.run(go())
    names = segments_in(tmp_path)
    assert names[0].number > 1
    assert sum(name.path.stat().st_size for name in names) < 60_000
    assert replayed(tmp_path).report.is_equal


def test_the_same_seed_is_the_same_recording(tmp_path: Path) -> None:
    """However busy the machine is: what tests expect of a random cluster does not depend on it."""
    found = []
    for name in ("one", "two"):
        record(tmp_path / name, 100, seed=7, nodes=3)
        found.append([entry for each in segments_in(tmp_path / name) for entry in entries_of(each.path)])
    assert found[0] == found[1]


def test_two_runs_in_one_directory_are_replayed_each_for_itself(tmp_path: Path) -> None:
    record(tmp_path / "one", 60, seed=1, nodes=3)
    record(tmp_path / "two", 60, seed=2, nodes=3)
    both = tmp_path / "both"
    both.mkdir()
    for number, name in enumerate(("one", "two"), start=1):
        for segment in segments_in(tmp_path / name):
            other = segment.path.name.replace(segment.run, f"2026010{number}T000000Z-{number}")
            shutil.copy(segment.path, both / other)
    alone = [replayed(tmp_path / name).report.decisions for name in ("one", "two")]
    from kscheduler.recorder.replaying.replay import Replay, runs_of

    replay = Replay()
    for run in runs_of(both):
        replay.run(run)
    assert replay.report.decisions == sum(alone)
    assert replay.report.is_equal


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    directory = tmp_path / "recording"
    record(directory, 20, seed=1, nodes=3)
    (name,) = segments_in(directory)
    assert directory.stat().st_mode & 0o777 == 0o700
    assert name.path.stat().st_mode & 0o777 == 0o600
