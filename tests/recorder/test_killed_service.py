"""A service that was killed leaves a recording that comes out again: on the embedded API server, as a process."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.recorder.entries import Op
from kscheduler.recorder.segments import SegmentReader, segments_in
from tests.builders import node_tree, pod_tree
from tests.recorder.recorded import replayed
from tests.service.process.test_signals import SECONDS, scheduler
from tests.service.running import node_of, put, until

PROCESSES = pytest.mark.slow("starts kscheduler as a process, with all its imports")

COUNT = 60
# Five nodes of 4 CPUs, half a CPU a pod: the others wait.
ROOM = 40


def count_of(directory: Path) -> Counter[int]:
    """Entries by kind, of what is in the file now."""
    entries: Counter[int] = Counter()
    for name in segments_in(directory):
        for block in SegmentReader(name.path).blocks():
            entries.update(entry[0] for entry in block)
    return entries


@PROCESSES
async def test_after_kill_9_every_decision_up_to_the_last_whole_block_comes_out_again(tmp_path: Path) -> None:
    directory = tmp_path / "recording"
    async with EmbeddedAPIServer(seed=1) as server:
        for number in range(5):
            put(server, "nodes", node_tree(f"node-{number}", cpu="4"))
        async with scheduler(server, flags=(f"--record={directory}", "--leader-elect=false")) as running:
            await running.until_said('"scheduling"')
            for number in range(COUNT):
                put(server, "pods", pod_tree(f"pod-{number}", requests={"cpu": "500m"}))
            await until(server, lambda: sum(bool(node_of(server, f"pod-{number}")) for number in range(COUNT)) >= ROOM)
            async with asyncio.timeout(SECONDS):
                while count_of(directory)[Op.BOUND] < ROOM:  # noqa: ASYNC110  # a file tells nobody
                    await asyncio.sleep(0.2)
            running.process.kill()
            async with asyncio.timeout(SECONDS):
                await running.process.wait()
    replay = replayed(directory)
    report = replay.report
    assert report.decisions >= ROOM
    assert report.is_equal
    assert report.wrong_digests == 0
    assert replay.scheduler is not None
    assert replay.scheduler.assembly.cache.statistics().pods == ROOM
