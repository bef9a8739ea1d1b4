"""What is attached to nodes is counted between decisions: nothing is left for the first pod that asks."""

import asyncio

import pytest

from kscheduler.aio.clock import VirtualClock
from kscheduler.aio.tasks import BackgroundService, running
from kscheduler.scheduling.background import volume_counts
from kscheduler.scheduling.background.volume_counts import PAUSE_SECONDS, VolumeCounts
from kscheduler.state.cache import Cache
from tests.builders import make_node
from tests.state.test_volume_table import claim, csi_node, user, volume

NODES = 200


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
