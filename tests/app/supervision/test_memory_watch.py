"""The alarm on the process's memory: once a level, with the plugins that may have caused it."""

import asyncio
import math
from pathlib import Path

import pytest
import structlog

from kscheduler.aio.clock import VirtualClock
from kscheduler.app.memory_watch import LOOK_SECONDS, MemoryWatch, cgroup_limit, resident_bytes
from kscheduler.metrics import Numbers


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
