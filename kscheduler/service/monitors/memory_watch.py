"""An alarm before the kernel ends the process: resident memory compared with the limit of its cgroup.

The problem: a plugin that leaks is noticed when the container is killed, and then nothing says why. The idea: read both
numbers every 5 s, say so at 80 % and at 90 %, and name the plugins that are not in-tree. Which of them it was cannot
be told: Python does not account memory to code. What helps is how much the process has grown since it was started.
Where there is no limit (on a workstation), or one that is far too high, `--memory-alarm` stands for it.

Limits: Linux only; with neither limit nor flag there is nothing to compare with, and nothing is said. Compared is the
resident set, which the kernel kills for; the cgroup's own count includes page cache, which it drops.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from resource import getpagesize
from typing import Final

from kscheduler.aio.clock import Clock
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.samples import Sample, gauge
from kscheduler.telemetry.series import MetricSeries

_log = get_logger("kscheduler")

LOOK_SECONDS: Final = 5.0
WARNING_PERCENT: Final = 80
ERROR_PERCENT: Final = 90
# Below this the next rise is news again.
CALM_PERCENT: Final = 75
# cgroup v1 writes a number of this size where there is no limit.
_UNLIMITED: Final = 1 << 60

MEMORY_LIMIT: Final = MetricSeries(
    "kscheduler_memory_limit_bytes",
    "The memory limit of the process's cgroup, or --memory-alarm where that is less; +Inf without both.",
)


class MemoryWatch:
    """Looks at the memory of this process, and says when little is left."""

    def __init__(
        self,
        resident: Callable[[], int],
        limit: Callable[[], int | None],
        plugins: Callable[[], Sequence[str]],
        clock: Clock,
    ) -> None:
        """`resident`, `limit`: bytes. `plugins`: the names of those that are not in-tree."""
        self._resident = resident
        self._limit = limit
        self._plugins = plugins
        self._clock = clock
        self._at_start = resident()
        self._said_percent = 0
        """The highest level that was logged: 0, 80 or 90."""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            await self._clock.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Compare, and log a level that is new."""
        limit = self._limit()
        if limit is None:
            return
        resident = self._resident()
        percent = 100 * resident // limit
        level = next((level for level in (ERROR_PERCENT, WARNING_PERCENT) if percent >= level), 0)
        if level > self._said_percent:
            self._said_percent = level
            write = _log.error if level == ERROR_PERCENT else _log.warning
            grown, plugins = resident - self._at_start, list(self._plugins())
            write(
                "memory_near_limit",
                resident_bytes=resident,
                limit_bytes=limit,
                percent=percent,
                grown_bytes=grown,
                plugins=plugins,
            )
        elif self._said_percent and percent < CALM_PERCENT:
            self._said_percent = 0
            _log.info("memory_below_limit", resident_bytes=resident, percent=percent)

    def notes(self) -> Iterable[str]:
        """A line for `/readyz?verbose` while little memory is left."""
        limit = self._limit() if self._said_percent else None
        if limit is not None:
            names = ", ".join(self._plugins()) or "none"
            percent = 100 * self._resident() // limit
            yield f"memory: {percent} % of {limit} bytes are used; plugins that are not in-tree: {names}"

    def samples(self) -> Iterable[Sample]:
        """The limit, as a gauge: infinite where there is none, so that no share of it is much."""
        limit = self._limit()
        return [gauge(MEMORY_LIMIT, {(): math.inf if limit is None else float(limit)})]


def limit_with_alarm(alarm: int | None, limit: Callable[[], int | None]) -> Callable[[], int | None]:
    """The limit to compare with: the smaller of the two, where there are any. `alarm`: bytes, as the user set them."""

    def smaller() -> int | None:
        return min((bound for bound in (alarm, limit()) if bound is not None), default=None)

    return smaller


def resident_bytes() -> int:
    """The resident set of this process; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()
    except (OSError, ValueError, IndexError):
        return 0


def cgroup_limit(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int | None:
    """The memory limit of this process in bytes: the smallest of its cgroup and the groups above; `None` without one.

    In a container the root of the tree is the container's own group.
    """
    limits = [limit for place in _places(root, own) if (limit := _limit_in(place)) is not None]
    return min(limits, default=None)


def _places(root: Path, own: Path) -> Iterable[Path]:
    """Files that may hold a limit: version 1, then version 2 from the process's group up to the root."""
    yield root / "memory" / "memory.limit_in_bytes"
    yield root / "memory.max"
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        if line.startswith("0::/"):
            group = root / line.removeprefix("0::/")
            while group != root and root in group.parents:
                yield group / "memory.max"
                group = group.parent


def _limit_in(file: Path) -> int | None:
    try:
        limit = int(file.read_text())
    except (OSError, ValueError):  # no such file, or the word `max`
        return None
    return limit if 0 < limit < _UNLIMITED else None
