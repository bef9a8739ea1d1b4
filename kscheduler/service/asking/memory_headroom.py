"""Whether there is memory for a copy of the process.

A copy shares its pages with the service; each page that either of them changes while both are there exists twice. A
question that looks at every pod changes the reference count of each, so in the end a copy may need as much as the
service has, and the kernel would count it to the same container, which it may end as a whole (`memory.oom.group`). So
copies begin only while there is room, and one that uses it up is killed: it can grow by about a page in 4 us.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

# Of the limit: beyond this no copy begins.
ENOUGH_PERCENT: Final = 75
# Beyond this the copy is killed.
TOO_MUCH_PERCENT: Final = 92
LOOK_SECONDS: Final = 0.02


class MemoryHeadroom:
    """Compares what is used with the limit."""

    def __init__(self, limit: Callable[[], int | None], used: Callable[[], int]) -> None:
        """Both in bytes. `limit` `None`: there is none, and always room. `used`: by everything that counts to it."""
        self._limit, self._used = limit, used

    def obstacle(self) -> str:
        """Why no copy may begin; empty if one may."""
        percent = self._percent()
        if percent < ENOUGH_PERCENT:
            return ""
        return (
            f"{percent} % of the memory limit is used, and a copy of the process is made only below {ENOUGH_PERCENT} %"
        )

    def is_short(self) -> bool:
        """Whether a copy must end at once."""
        return self._percent() >= TOO_MUCH_PERCENT

    def _percent(self) -> int:
        limit = self._limit()
        return 100 * self._used() // limit if limit else 0


NO_LIMIT: Final = MemoryHeadroom(lambda: None, lambda: 0)


def cgroup_used(resident: Callable[[], int], root: Path = Path("/sys/fs/cgroup")) -> int:
    """The memory of this container in bytes that the kernel cannot drop; `resident` where the system does not say.

    Without page cache, which `memory.current` counts too.
    """
    for file, name in ((root / "memory.stat", "anon"), (root / "memory" / "memory.stat", "total_rss")):
        try:
            lines = file.read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            key, _, value = line.partition(" ")
            if key == name:
                return max(int(value), resident())
    return resident()
