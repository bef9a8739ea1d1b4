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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kscheduler.config.reading.yaml_tree import MAX_BYTES
from kscheduler.framework.registry import Registry
from kscheduler.loading import ConfigurationReader, Configured

LOOK_SECONDS: Final = 2.0
"""The time between two looks: a change is in force within twice that."""

_Stamp = tuple[int, ...] | None
"""Equal as long as nobody has touched the file; `None` if there is none."""


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """Where the configuration came from, and how to read it again."""

    path: str
    """Empty: there is no file, and the plugins of the command line are all that may change."""
    read: Callable[[bytes], Configured]
    """From the file's bytes to the configuration, flags of the command line included, and its plugins. Raises
    `ConfigError`. It is called in a thread."""
    is_watched: bool = True
    """Whether a changed file is read by itself, or only at SIGHUP."""
    plugin_files: Callable[[], Sequence[str]] = tuple
    """The plugin files of the last reading: a change of one is a change of the configuration."""


def source_of(path: str, *, is_watched: bool = True, registry: Registry | None = None) -> ConfigSource:
    """The source for programs that take no flags. `registry`: with the plugins that your program has registered."""
    reader = ConfigurationReader(base=registry)
    return ConfigSource(path, lambda data: reader.read_bytes(data, path), is_watched, lambda: reader.paths)


class SettledFiles:
    """Tells once of each change of the files that belong together, when it is complete."""

    def __init__(self, source: ConfigSource) -> None:
        self._source = source
        self._seen = self._told = self._stamps()

    def has_changed(self) -> bool:
        """Look at the files: whether one differs from what was told before, and all have rested since the last look."""
        stamps = self._stamps()
        have_rested, self._seen = stamps == self._seen, stamps
        # a file that nobody looked at before is no change: it was read a moment ago
        self._told = {path: self._told.get(path, stamp) for path, stamp in stamps.items()}
        if not have_rested or stamps == self._told:
            return False
        self._told = stamps
        return True

    def _stamps(self) -> dict[str, _Stamp]:
        paths = (self._source.path, *self._source.plugin_files())
        return {path: _stamp_of(path) for path in paths if path}


def _stamp_of(path: str) -> _Stamp:
    """The stamp of the file behind all symlinks."""
    try:
        found = os.stat(path)  # noqa: PTH116  the path is text, as the user gave it
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def bytes_of(path: str) -> bytes:
    """The file's content, or a byte more than a configuration may have; none without a file. Raises `OSError`."""
    if not path:
        return b""
    with Path(path).open("rb") as file:
        return file.read(MAX_BYTES + 1)


def digest_of(data: bytes) -> str:
    """The content's name, for logs and metrics: as `sha256sum` prints it, with the algorithm in front."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
