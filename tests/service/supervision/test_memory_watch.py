"""The alarm on the process's memory: once a level, with the plugins that may have caused it."""

import argparse
import asyncio
import json
import math
from pathlib import Path

import pytest
import structlog

from kscheduler.aio.clock import VirtualClock
from kscheduler.cli.commands.run import memory_size
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.service.monitors.memory_watch import (
    LOOK_SECONDS,
    MemoryWatch,
    cgroup_limit,
    limit_with_alarm,
    resident_bytes,
)
from kscheduler.telemetry.samples import Numbers
from tests.builders import node_tree, pod_tree
from tests.service.process.test_signals import scheduler
from tests.service.running import put

PROCESSES = pytest.mark.slow("fills the memory of a process")


class Memory:
    """A process whose memory a test sets."""

    def __init__(self, limit: int | None = 1000) -> None:
        self.resident, self.limit = 300, limit
        self.watch = MemoryWatch(
            lambda: self.resident, lambda: self.limit, lambda: ["Leaky", "PreferCheap"], VirtualClock()
        )

    def levels(self, *sizes: int) -> list[str]:
        """The levels of the lines that these sizes cause, one after the other."""
        with structlog.testing.capture_logs() as lines:
            for self.resident in sizes:
                self.watch.look()
        return [line["log_level"] for line in lines]


@pytest.mark.parametrize(
    ("sizes", "levels"),
    [
        ((500, 799), []),
        ((800, 850, 899), ["warning"]),
        ((850, 900, 950), ["warning", "error"]),
        ((950, 850, 950), ["error"]),
        ((850, 760, 850), ["warning"]),
        ((850, 749, 850), ["warning", "info", "warning"]),
    ],
    ids=["enough", "a warning once", "an error after it", "no step back", "still high", "again after a rest"],
)
def test_a_level_is_said_once(sizes: tuple[int, ...], levels: list[str]) -> None:
    assert Memory().levels(*sizes) == levels


def test_the_line_names_growth_and_the_plugins_that_are_not_in_tree() -> None:
    memory = Memory()
    memory.resident = 900
    with structlog.testing.capture_logs() as lines:
        memory.watch.look()
    assert lines == [
        {
            "event": "memory_near_limit",
            "log_level": "error",
            "resident_bytes": 900,
            "limit_bytes": 1000,
            "percent": 90,
            "grown_bytes": 600,
            "plugins": ["Leaky", "PreferCheap"],
        }
    ]
    assert list(memory.watch.notes()) == [
        "memory: 90 % of 1000 bytes are used; plugins that are not in-tree: Leaky, PreferCheap"
    ]


@pytest.mark.parametrize(
    ("alarm", "limit", "compared"),
    [(None, None, None), (500, None, 500), (None, 1000, 1000), (500, 1000, 500), (2000, 1000, 1000)],
)
def test_the_smaller_of_limit_and_alarm_is_compared(alarm: int | None, limit: int | None, compared: int | None) -> None:
    assert limit_with_alarm(alarm, lambda: limit)() == compared


LEAKY = """\
from kscheduler.framework.per_node import plugin

kept = []


@plugin("Leaky")
def filter(pod, node):
    kept.append(bytearray(b"x" * 10_000_000))
"""


@PROCESSES
async def test_a_plugin_that_leaks_trips_the_alarm_of_a_process_without_a_limit(tmp_path: Path) -> None:
    (tmp_path / "leaky.py").write_text(LEAKY)
    flags = ("--leader-elect=false", "--plugin", str(tmp_path / "leaky.py"), "--memory-alarm", "400Mi")
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        async with scheduler(server, flags=flags) as running:
            await running.until_said('"scheduling"')
            assert not any("memory_near_limit" in line for line in running.lines)
            for number in range(45):
                put(server, "pods", pod_tree(f"p{number}"))
            line = json.loads(await running.until_said("memory_near_limit"))
    assert line["limit_bytes"] == 400 * 2**20
    assert line["resident_bytes"] >= 0.8 * line["limit_bytes"]
    assert line["grown_bytes"] >= 100_000_000
    assert line["plugins"] == ["Leaky"]


def test_without_a_limit_nothing_is_compared() -> None:
    memory = Memory(limit=None)
    assert memory.levels(1 << 40) == []
    assert list(memory.watch.notes()) == []


def test_the_limit_is_a_gauge() -> None:
    (sample,) = Memory(1000).watch.samples()
    assert isinstance(sample, Numbers)
    assert (sample.series.name, sample.values) == ("kscheduler_memory_limit_bytes", {(): 1000.0})
    (unlimited,) = Memory(None).watch.samples()
    assert isinstance(unlimited, Numbers)
    assert unlimited.values == {(): math.inf}, "no share of it is much: the alert stays quiet"


async def test_it_looks_again_and_again() -> None:
    looks: list[int] = []
    clock = VirtualClock()

    def limit() -> int | None:
        looks.append(1)
        return None

    watch = MemoryWatch(lambda: 1, limit, list, clock)
    task = asyncio.ensure_future(watch.run())
    await clock.next_sleep()
    await clock.advance(3 * LOOK_SECONDS)
    task.cancel()
    assert len(looks) == 4


def group(folder: Path, text: str, name: str = "memory.max") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_limits_of_both_versions_of_cgroups(tmp_path: Path) -> None:
    root, own = tmp_path / "cgroup", tmp_path / "own"
    own.write_text("0::/a.slice/b.service\n")
    assert cgroup_limit(root, own) is None
    group(root / "a.slice" / "b.service", "max\n")
    assert cgroup_limit(root, own) is None
    group(root / "a.slice", "2000\n")
    assert cgroup_limit(root, own) == 2000, "a limit of the group above holds as well"
    group(root, "1000\n")
    assert cgroup_limit(root, own) == 1000, "as in a container"
    old = tmp_path / "old"
    group(old / "memory", "9223372036854771712\n", "memory.limit_in_bytes")
    assert cgroup_limit(old, own) is None, "version 1 has no word for it"
    group(old / "memory", "3000\n", "memory.limit_in_bytes")
    assert cgroup_limit(old, tmp_path / "nothing") == 3000


def test_this_process_uses_memory() -> None:
    assert resident_bytes() > 10_000_000


@pytest.mark.parametrize(("text", "found"), [("500Mi", 500 * 2**20), ("2G", 2 * 10**9), ("0", 0)])
def test_the_alarm_is_a_quantity(text: str, found: int) -> None:
    assert memory_size(text) == found


@pytest.mark.parametrize("text", ["500m", "1000", "-1Gi", "much"])
def test_a_size_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        memory_size(text)
