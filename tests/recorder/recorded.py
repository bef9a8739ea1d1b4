"""A recording of a random cluster, made in a fraction of a second or two."""

import asyncio
import time
from pathlib import Path

from benchmarks.recorder.random_cluster import RandomCluster
from kscheduler.aio.clock import Clock
from kscheduler.config.loader import LoadedConfig, default_configuration
from kscheduler.framework.registry import Registry
from kscheduler.recorder.blocks import BlockReader
from kscheduler.recorder.building import flight_recorder
from kscheduler.recorder.flight_recorder import FlightRecorder, RecordSettings
from kscheduler.recorder.replaying.recorded_configuration import configured_as
from kscheduler.recorder.replaying.replay import Replay, runs_of
from kscheduler.recorder.replaying.replayed_scheduler import Configure
from kscheduler.recorder.segments import segments_in

# Turns after which the recorder does what is due: the half seconds of a service.
TEND_EVERY = 50


def record(
    directory: Path,
    events: int,
    seed: int,
    *,
    config: LoadedConfig | None = None,
    nodes: int = 6,
    segment_bytes: int = 0,
    redaction_key: bytes = b"",
    cluster_type: type[RandomCluster] = RandomCluster,
    known: Registry | None = None,
    clock: Clock | None = None,
) -> RandomCluster:
    """Let a scheduler work, and record it. Returns the cluster as it is in the end.

    `clock`: by default time passes by turns of the play, and a seed has one story.
    """

    async def play() -> RandomCluster:
        settings = RecordSettings(directory, segment_bytes=segment_bytes, redaction_key=redaction_key)
        cluster = cluster_type(
            config or default_configuration(),
            seed,
            recorder=lambda clock: flight_recorder(settings, clock),
            nodes=nodes,
            known=known,
            clock=clock,
        )
        recorder = cluster.recorder
        assert recorder is not None
        await cluster.play(events, lambda turn: None if turn % TEND_EVERY else tend(recorder, waits=segment_bytes > 0))
        return cluster

    return asyncio.run(play())


def tend(recorder: FlightRecorder, *, waits: bool) -> None:
    """What the service does every half second. `waits`: for the thread, since a turn takes no time here, and how many
    segments there are must not depend on how busy the machine is.
    """
    recorder.tend()
    for _ in range(200 if waits else 0):
        recorder._thread.catch_up()
        if recorder._thread.is_idle():
            return
        time.sleep(0.001)


def replayed(path: Path, *, each_segment: bool = False, configure: Configure = configured_as) -> Replay:
    """All of it again."""
    replay = Replay(configure, each_segment=each_segment)
    for run in runs_of(path):
        replay.run(run)
    return replay


def written(directory: Path) -> bytes:
    """The data of all blocks."""
    found = b""
    for name in segments_in(directory):
        with name.path.open("rb") as file:
            found += b"".join(BlockReader(file))
    return found
