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
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from kscheduler.assembly.configured import ConfigurationReader, Configured
from kscheduler.client.access.credentials import check_regular
from kscheduler.config.changes import EXCHANGEABLE
from kscheduler.config.errors import ConfigError, Problem, in_order_of_lines
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.loader import LoadedConfig, start_of
from kscheduler.config.reading.lines import with_lines
from kscheduler.config.reading.yaml_tree import parse_yaml
from kscheduler.framework.registry import Registry
from kscheduler.scheduling.extenders.addresses import unusable_extenders, with_unusable_extenders

# The time between two looks: a change is in force within twice that.
LOOK_SECONDS: Final = 2.0

# Equal as long as nobody has touched the file; `None` if there is none.
_Stamp = tuple[int, ...] | None


def _stay(_gates: FeatureGates) -> None:
    """There is one version only."""


class ConfigSource(msgspec.Struct, frozen=True):
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
    follow: Callable[[FeatureGates], None] = _stay
    """Called when a configuration is in force: from now on the file is read under its gates, and the version of
    Kubernetes that they are of."""
    being_loaded: Callable[[], str] = str
    """What the latest reading loads plugins from at this moment, as `file PATH`; empty: from nowhere."""
    stands_at: Callable[[], str] = str
    """The line at which that import stands, as `FILE:LINE`."""

    @property
    def name(self) -> str:
        """For messages: the file, or without one what `--plugin` names."""
        return self.path or ", ".join(self.plugin_files()) or "--plugin"


def source_of(path: str, *, is_watched: bool = True, registry: Registry | None = None) -> ConfigSource:
    """The source for programs that take no flags. `registry`: with the plugins that your program has registered."""
    reader = ConfigurationReader(base=registry)
    return ConfigSource(
        path,
        lambda data: reader.read_bytes(data, path),
        is_watched,
        lambda: reader.paths,
        reader.follow,
        lambda: reader.being_loaded,
        lambda: reader.stands_at,
    )


class FileChangeDetector:
    """Tells once of each change of the files that belong together, when it is complete."""

    def __init__(self, source: ConfigSource) -> None:
        self._source = source
        self._seen = self._reported = self._stamps()

    def has_changed(self) -> bool:
        """Look at the files: whether one differs from what was told before, and all have rested since the last look."""
        stamps = self._stamps()
        have_rested, self._seen = stamps == self._seen, stamps
        # a file that nobody looked at before is no change: it was read a moment ago
        self._reported = {path: self._reported.get(path, stamp) for path, stamp in stamps.items()}
        if not have_rested or stamps == self._reported:
            return False
        self._reported = stamps
        return True

    def note_reading(self) -> None:
        """The files are about to be read because somebody asks: as they are now, they are no change any more.

        What is written after this is one: a file that is half written now will be told of when it is complete.
        """
        self._seen = self._reported = self._stamps()

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


def _bytes_of(path: str) -> bytes:
    """The file's content, or a byte more than a configuration may have; none without a file. Raises `OSError`."""
    if not path:
        return b""
    check_regular(path)
    return start_of(path)


def digest_of(data: bytes) -> str:
    """The content's name, for logs and metrics: as `sha256sum` prints it, with the algorithm in front."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


# --- reading ----------------------------------------------------------------------------------------------------------


class FileRead(msgspec.Struct, frozen=True):
    """A file's content, and what it means or what is wrong with it."""

    digest: str = ""
    data: bytes = b""
    found: Configured | None = None
    problems: tuple[Problem, ...] = ()
    is_reported: bool = False
    """Whether these problems have been told before."""
    unexchangeable: LoadedConfig | None = None
    """Of a file with mistakes: the fields that only a start reads, if the mistakes are in others."""

    def refused_for(self, problems: tuple[Problem, ...]) -> "FileRead":
        """The same file, with what a check of its meaning has found."""
        return replace(self, problems=in_order_of_lines(with_lines(problems, self.data)))


def read_source(source: ConfigSource, read: Callable[[bytes], Configured]) -> FileRead:
    """Everything that takes time: reading, parsing, checking; in a thread, because the disk may not answer."""
    try:
        data = _bytes_of(source.path)
    except OSError as failure:
        return FileRead(problems=(Problem("", f"cannot be read: {failure.strerror or failure}"),))
    digest = digest_of(data)
    try:
        found = read(data)
        unusable = unusable_extenders(found.config.configuration.extenders)
    except ConfigError as failure:
        refused = FileRead(digest, data, unexchangeable=_unexchangeable(source, read, data))
        return refused.refused_for(tuple(_reported_where(with_unusable_extenders(failure), source.path)))
    if unusable:
        return FileRead(digest, data, unexchangeable=found.config).refused_for(tuple(unusable))
    return FileRead(digest, data, found)


def _unexchangeable(source: ConfigSource, read: Callable[[bytes], Configured], data: bytes) -> LoadedConfig | None:
    """The file without the fields that a running process takes over; `None` if it has mistakes all the same.

    Plugins are loaded again, so that the source goes on knowing their files.
    """
    left_out = EXCHANGEABLE - {"pluginSources"}
    try:
        tree = parse_yaml(data, source.path)
        if not isinstance(tree, dict):
            return None
        return read(json.dumps({key: value for key, value in tree.items() if key not in left_out}).encode()).config
    except (ConfigError, TypeError, ValueError, RecursionError):
        return None


def _reported_where(failure: ConfigError, path: str) -> Iterator[Problem]:
    """The problems; one of the command line says so, since no line of the file has it."""
    for problem in failure.problems:
        is_elsewhere = failure.where not in ("", path)
        yield Problem("", f"{failure.where}: {problem}") if is_elsewhere else problem
