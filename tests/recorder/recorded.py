"""A recording of a random cluster, made in a fraction of a second or two."""

import asyncio
from pathlib import Path

from benchmarks.recorder.random_cluster import RandomCluster
from kscheduler.config.loader import LoadedConfig, default_configuration
from kscheduler.recorder.building import flight_recorder
from kscheduler.recorder.flight_recorder import RecordSettings
from kscheduler.recorder.replaying.replay import Replay, runs_of

TEND_EVERY = 50
"""Turns after which the recorder does what is due: the half seconds of a service."""


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
) -> RandomCluster:
    """Let a scheduler work, and record it. Returns the cluster as it is in the end."""

    async def play() -> RandomCluster:
        settings = RecordSettings(directory, segment_bytes=segment_bytes, redaction_key=redaction_key)
        cluster = cluster_type(
            config or default_configuration(),
            seed,
            recorder=lambda clock: flight_recorder(settings, clock),
            nodes=nodes,
        )
        recorder = cluster.recorder
        assert recorder is not None
        await cluster.play(events, lambda turn: None if turn % TEND_EVERY else recorder.tend())
        return cluster

    return asyncio.run(play())


def replayed(path: Path, *, each_segment: bool = False) -> Replay:
    """All of it again."""
    replay = Replay(each_segment=each_segment)
    for run in runs_of(path):
        replay.run(run)
    return replay
