"""The configuration file as a thing that changes.

Files are replaced in different ways: the kubelet swaps the symlink `..data` of a ConfigMap's mount, editors rename a
new file over the old one, `cp` and `>` write in place. Looking at the file's stamp (device, inode, size, times) every
few seconds finds all of them, and works on every file system. inotify would need a watch on each directory of the
symlinks, set again after each swap, and a dependency; the kubelet itself takes up to a minute to bring a changed
ConfigMap.

A file that is being written in place may be valid while half of it is missing. So a change counts once two looks in a
row have found the same stamp.
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kscheduler.config.loader import LoadedConfig, load_bytes
from kscheduler.config.reading.yaml_tree import MAX_BYTES

LOOK_SECONDS: Final = 2.0
"""The time between two looks: a change is in force within twice that."""

_Stamp = tuple[int, ...] | None
"""Equal as long as nobody has touched the file; `None` if there is none."""


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """Where the configuration came from, and how to read it again."""

    path: str
    read: Callable[[bytes], LoadedConfig]
    """From the file's bytes to the configuration, flags of the command line included. Raises `ConfigError`. It is
    called in a thread."""
    is_watched: bool = True
    """Whether a changed file is read by itself, or only at SIGHUP."""


def source_of(path: str, *, is_watched: bool = True) -> ConfigSource:
    """The source for programs that take no flags."""
    return ConfigSource(path, lambda data: load_bytes(data, path), is_watched)


class SettledFile:
    """Tells once of each change, when it is complete."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen = self._told = _stamp_of(path)

    def has_changed(self) -> bool:
        """Look at the file: whether it differs from what was told before, and has rested since the last look."""
        stamp = _stamp_of(self._path)
        has_rested, self._seen = stamp == self._seen, stamp
        if not has_rested or stamp == self._told:
            return False
        self._told = stamp
        return True


def _stamp_of(path: str) -> _Stamp:
    """The stamp of the file behind all symlinks."""
    try:
        found = os.stat(path)  # noqa: PTH116  the path is text, as the user gave it
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def bytes_of(path: str) -> bytes:
    """The file's content, or a byte more than a configuration may have. Raises `OSError`."""
    with Path(path).open("rb") as file:
        return file.read(MAX_BYTES + 1)


def digest_of(data: bytes) -> str:
    """The content's name, for logs and metrics: as `sha256sum` prints it, with the algorithm in front."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
