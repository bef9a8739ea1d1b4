"""Scenarios from files: a cluster's objects and the pod to be judged, one JSON object per line.

    {"id": "...", "config": null, "objects": {"nodes": [...], "pods": [...], ...}, "pod": {...}}

`config` is null (all defaults) or a KubeSchedulerConfiguration.

Files may be gzipped (told by their first bytes); `-` is standard input. Lines are read one at a time, so a file of any
size needs the memory of its longest line. A file named `.json` may also hold a single object or a list of them, printed
over many lines. Lists of objects that no built rule reads, and `expect`, are passed over.
"""

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from kscheduler.api.codec import Decoder, UndecodableError
from kscheduler.api.core import Namespace, Node, Pod
from kscheduler.api.meta import KubeObject
from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from kscheduler.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from kscheduler.config.errors import ConfigError
from kscheduler.config.loader import LoadedConfig, default_configuration, from_tree
from kscheduler.config.types import DEFAULT_SCHEDULER_NAME

_GZIP_MAGIC = b"\x1f\x8b"
STANDARD_INPUT = "-"


class ScenarioError(ValueError):
    """A scenario that cannot be read. The text is one line: `FILE:LINE: field: what is wrong`."""


class ClusterObjects(msgspec.Struct, frozen=True):
    """The objects of a cluster that the built rules read."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    """With `spec.nodeName`: on that node. Without: pending, and of no consequence to another pod."""
    namespaces: tuple[Namespace, ...] = ()
    """For their labels, which namespace selectors ask for."""
    persistentvolumes: tuple[PersistentVolume, ...] = ()
    persistentvolumeclaims: tuple[PersistentVolumeClaim, ...] = ()
    storageclasses: tuple[StorageClass, ...] = ()
    csinodes: tuple[CSINode, ...] = ()
    csidrivers: tuple[CSIDriver, ...] = ()
    csistoragecapacities: tuple[CSIStorageCapacity, ...] = ()
    volumeattachments: tuple[VolumeAttachment, ...] = ()
    services: tuple[Service, ...] = ()
    replicationcontrollers: tuple[ReplicationController, ...] = ()
    replicasets: tuple[ReplicaSet, ...] = ()
    statefulsets: tuple[StatefulSet, ...] = ()
    poddisruptionbudgets: tuple[PodDisruptionBudget, ...] = ()

    def storage(self) -> Iterator[KubeObject]:
        """All that volume plugins read."""
        yield from (*self.persistentvolumes, *self.persistentvolumeclaims, *self.storageclasses, *self.csinodes)
        yield from (*self.csidrivers, *self.csistoragecapacities, *self.volumeattachments)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A question: where would this pod go?"""

    objects: ClusterObjects
    pod: Pod
    """The pod to be judged, whatever its `spec.nodeName` says."""
    config: LoadedConfig
    id: str = ""
    where: str = ""
    """`FILE:LINE`, for messages."""


class _Line(msgspec.Struct):
    pod: Pod
    objects: ClusterObjects = ClusterObjects()
    config: Any = None
    id: str = ""


_DECODER = Decoder(_Line)
_BUILT_IN = default_configuration(DEFAULT_SCHEDULER_NAME)
"""What `config: null` stands for: all of kube-scheduler's defaults, its profile's name included."""


def read_scenarios(path: str) -> Iterator[Scenario]:
    """The scenarios of a file, one after another. Raises `ScenarioError` at the first that cannot be read."""
    name = "standard input" if path == STANDARD_INPUT else path
    try:
        with _opened(path) as file:
            for number, line in _documents(file, path):
                yield parse_scenario(line, f"{name}:{number}")
    except EOFError:
        raise ScenarioError(f"{name}: the gzip stream ends in the middle") from None
    except zlib.error as error:
        raise ScenarioError(f"{name}: not a gzip stream: {error}") from None
    except OSError as error:
        raise ScenarioError(f"{name}: cannot be read: {error.strerror or error}") from None


def parse_scenario(line: bytes | msgspec.Raw, where: str) -> Scenario:
    """One scenario from JSON. Raises `ScenarioError` whose text begins with `where`."""
    try:
        read = _DECODER.decode(line)
    except UndecodableError as error:
        raise ScenarioError(f"{where}: {_with_field_first(str(error))}") from None
    try:
        config = _BUILT_IN if read.config is None else from_tree(read.config, "")
    except ConfigError as error:
        raise ScenarioError(f"{where}: config: {'; '.join(str(problem) for problem in error.problems)}") from None
    return Scenario(read.objects, read.pod, config, read.id, where)


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    """The file, unpacked where its first bytes say that it is gzipped. Standard input stays open."""
    if path == STANDARD_INPUT:
        yield _unpacked(cast("BufferedReader", sys.stdin.buffer))
        return
    with Path(path).open("rb") as file:
        yield _unpacked(file)


def _unpacked(file: BufferedReader) -> IO[bytes]:
    is_packed = file.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
    return cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if is_packed else file


def _documents(file: IO[bytes], path: str) -> Iterator[tuple[int, bytes | msgspec.Raw]]:
    """The JSON documents with the lines they stand on."""
    if path.removesuffix(".gz").endswith(".json"):
        whole = file.read()
        try:
            yield from _from_whole(whole)
        except msgspec.DecodeError:
            yield from _lines(iter(whole.splitlines()))
    else:
        yield from _lines(file)


def _from_whole(whole: bytes) -> Iterator[tuple[int, bytes | msgspec.Raw]]:
    """A single document, or the members of a list (numbered as if each had a line). Raises `msgspec.DecodeError`."""
    if whole.lstrip().startswith(b"["):
        yield from enumerate(msgspec.json.decode(whole, type=list[msgspec.Raw]), 1)
    else:
        yield 1, msgspec.json.decode(whole, type=msgspec.Raw)


def _lines(lines: Iterator[bytes] | IO[bytes]) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, line


def _with_field_first(message: str) -> str:
    """Turn msgspec's ``Expected `str`, got `int` - at `$.pod.spec` `` into `pod.spec: expected str, got int`."""
    if message.startswith("not JSON"):
        return message
    text, _, path = message.partition(" - at ")
    field = path.strip("`").removeprefix("$").removeprefix(".")
    plain = text.replace("`", "")
    plain = plain[:1].lower() + plain[1:]
    return f"{field}: {plain}" if field else plain
