"""What is attached to nodes is counted between decisions: nothing is left for the first pod that asks."""

import asyncio
from typing import NoReturn

import pytest
import structlog

from kscheduler.aio.clock import VirtualClock
from kscheduler.aio.tasks import BackgroundService, running
from kscheduler.scheduling.background import volume_counts
from kscheduler.scheduling.background.volume_counts import (
    PAUSE_AFTER_FAILURE_SECONDS,
    PAUSE_SECONDS,
    VolumeCounts,
)
from kscheduler.state.cache import Cache
from kscheduler.telemetry.logs.caught import Boundary, caught
from tests.builders import make_node
from tests.state.test_volume_table import claim, csi_node, user, volume

NODES = 200


async def test_a_bug_is_told_and_counted_and_met_again_a_minute_later(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, clock, before = Cache(), VirtualClock(), caught()[Boundary.EVENT_HANDLER]
    cache.add_node(make_node("node"))
    for obj in (volume(), claim(), csi_node(3)):
        cache.volumes.put(obj)
    attached = cache.volumes._attached

    def fails(_: str) -> NoReturn:
        raise RuntimeError("a bug")

    async with running(BackgroundService("volume counts", VolumeCounts(cache.volumes, clock).run)):
        with monkeypatch.context() as broken:
            broken.setattr(attached, "_count", fails)
            with structlog.testing.capture_logs() as lines:
                await clock.advance(PAUSE_AFTER_FAILURE_SECONDS / 2)
        assert [line["event"] for line in lines] == ["volumes_not_counted_ahead"]
        assert caught()[Boundary.EVENT_HANDLER] == before + 1
        assert attached._marked
        await clock.advance(PAUSE_AFTER_FAILURE_SECONDS)
        assert not attached._marked


async def test_nodes_are_counted_in_slices_and_again_after_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, clock = Cache(), VirtualClock()
    for number in range(NODES):
        cache.add_node(make_node(f"node-{number}"))
    cache.add_node(make_node("node"))
    for obj in (volume(), claim(), csi_node(3)):
        cache.volumes.put(obj)
    cache.add_pod(user())
    attached = cache.volumes._attached
    monkeypatch.setattr(volume_counts, "_SLICE_SECONDS", 0.0)
    turns = 0
    async with running(BackgroundService("volume counts", VolumeCounts(cache.volumes, clock).run)):
        while attached._marked:
            await asyncio.sleep(0)
            turns += 1
        assert turns >= NODES, "each slice is one node here"
        cache.volumes.put(csi_node(4))
        await clock.advance(PAUSE_SECONDS / 2)
        assert attached._marked == {"node"}
        await clock.advance(PAUSE_SECONDS)
        assert not attached._marked
