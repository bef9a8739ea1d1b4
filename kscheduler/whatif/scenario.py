"""Scenarios from files: a cluster's objects and the pod to be judged, one JSON object per line (docs/explain.md).

    {"id": "...", "config": null, "objects": {"nodes": [...], "pods": [...], ...}, "pod": {...}}

`config` is null (all defaults) or a KubeSchedulerConfiguration. A key that a line or its `objects` cannot have is an
error; an unknown field within an object is one only where the object's own reader says so, but a misspelt one is told
(`Scenario.notes`). Lists of objects that no built rule reads, and `expect`, are passed over.

Files may be gzipped (told by their first bytes); `-` is standard input. Lines are read one at a time, so a file of any
size needs the memory of its longest line. Objects printed over many lines, in JSON or YAML, are read as a whole: single
scenarios, lists of them, and Kubernetes objects as `kubectl get -o yaml` and `-o json` print them (`Document`).
"""

import gzip
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import IO, Any, cast

import msgspec
import yaml

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
from kscheduler.api.well_known import DEFAULT_SCHEDULER_NAME
from kscheduler.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from kscheduler.config.errors import ConfigError
from kscheduler.config.loader import LoadedConfig, default_configuration, from_tree
from kscheduler.config.yaml_tree import LOADER
from kscheduler.whatif.unknown_fields import misspelt, nearest

_GZIP_MAGIC = b"\x1f\x8b"
STANDARD_INPUT = "-"


class _ManifestLoader(LOADER):  # type: ignore[misc]  # one of two classes, as PyYAML was built
    """Times stay text, as in JSON."""


_ManifestLoader.yaml_implicit_resolvers = {
    first: [one for one in resolvers if one[0] != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in LOADER.yaml_implicit_resolvers.items()
}


class ScenarioError(ValueError):
    """A scenario that cannot be read. The text is one line: `FILE:LINE: field: what is wrong`."""


_NOT_READ = frozenset(("resourceslices", "resourceclaims", "deviceclasses", "podgroups", "priorityclasses"))
"""Lists that scenarios may have and that no built rule reads."""


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
    notes: tuple[str, ...] = ()
    """What looks misspelt."""


@dataclass(frozen=True, slots=True)
class Document:
    """A Kubernetes object of a file."""

    tree: dict[str, Any]
    where: str
    """`FILE: document 2`, for messages."""


class _Line(msgspec.Struct):
    pod: Pod
    objects: ClusterObjects = ClusterObjects()
    config: Any = None
    id: str = ""


_DECODER = Decoder(_Line)
_SHALLOW: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KEYS = frozenset((*_Line.__struct_encode_fields__, "expect"))
_LISTS = frozenset(ClusterObjects.__struct_encode_fields__)
_BUILT_IN = default_configuration(DEFAULT_SCHEDULER_NAME)
"""What `config: null` stands for: all of kube-scheduler's defaults, its profile's name included."""


def read_scenarios(path: str) -> Iterator[Scenario]:
    """The scenarios of a file, one after another. Raises `ScenarioError` at the first that cannot be read."""
    for one in read_source(path):
        if isinstance(one, Document):
            raise ScenarioError(f"{one.where}: a Kubernetes object where a scenario was expected")
        yield one


def read_source(path: str) -> Iterator[Scenario | Document]:
    """The scenarios or objects of a file. Raises `ScenarioError` at the first that cannot be read."""
    name = "standard input" if path == STANDARD_INPUT else path
    try:
        with _opened(path) as file:
            for number, document in _documents(file, path, name):
                tree = document if isinstance(document, dict) else _object_in(document, f"{name}:{number}")
                if tree is not None:
                    yield from flattened(tree, f"{name}: document {number}")
                elif not isinstance(document, dict):
                    yield parse_scenario(document, f"{name}:{number}")
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
    tree = _whole(line, where)
    _refuse_unknown(tree, _KEYS, "", where)
    _refuse_unknown(tree.get("objects") or {}, _LISTS | _NOT_READ, "objects", where)
    try:
        config = _BUILT_IN if read.config is None else from_tree(read.config, "")
    except ConfigError as error:
        raise ScenarioError(f"{where}: config: {'; '.join(str(problem) for problem in error.problems)}") from None
    notes = tuple(f"{where}: {one}" for one in misspelt(tree, _Line))
    return Scenario(read.objects, read.pod, config, read.id, where, notes)


def _whole(document: bytes | msgspec.Raw, where: str) -> dict[str, Any]:
    """With the fields that nobody reads, which may be what is broken. Raises `ScenarioError`."""
    try:
        tree: dict[str, Any] = msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ScenarioError(f"{where}: not JSON: {error}") from None
    return tree


def _refuse_unknown(tree: dict[str, Any], known: frozenset[str], path: str, where: str) -> None:
    for name in tree:
        if name not in known:
            place = f"{path}.{name}" if path else name
            meant = nearest(name, known)
            hint = f"do you mean {meant}?" if meant else f"there are {', '.join(sorted(known))}"
            raise ScenarioError(f"{where}: {place}: unknown field; {hint}")


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


def _documents(file: IO[bytes], path: str, name: str) -> Iterator[tuple[int, "bytes | msgspec.Raw | dict[str, Any]"]]:
    """The documents with their numbers: those of lines with the lines they stand on."""
    if path.removesuffix(".gz").endswith(".json"):
        whole = file.read()
        try:
            yield from _from_whole(whole)
        except msgspec.DecodeError:
            yield from _lines(iter(whole.splitlines()))
        return
    blank, first = _first_line(file)
    if not first or _is_a_line(first):
        yield from _lines(chain([b"\n"] * blank, [first], file))
        return
    whole = first + file.read()
    try:
        yield from _from_whole(whole)
    except msgspec.DecodeError as error:
        if first.lstrip().startswith((b"{", b"[")):
            raise ScenarioError(f"{name}: not JSON: {error}") from None
        yield from enumerate(yaml_documents(whole, name), 1)


def _first_line(file: IO[bytes]) -> tuple[int, bytes]:
    """The number of blank lines, and the first that is not."""
    blank = 0
    while True:
        line = file.readline()
        if not line or line.strip():
            return blank, line
        blank += 1


def _is_a_line(first: bytes) -> bool:
    """Whether a file that begins so has a document in each line: what is printed over many begins with a lone bracket.

    Neither is YAML; a line that begins like JSON and is broken, or no JSON at all, is told as a line.
    """
    stripped = first.strip()
    if stripped in (b"{", b"["):
        return False
    return stripped.startswith(b"{") or not (stripped.startswith(b"[") or _looks_like_yaml(stripped))


def _looks_like_yaml(line: bytes) -> bool:
    return line.startswith((b"---", b"#", b"%YAML", b"- ")) or re.match(rb"[A-Za-z]+:(\s|$)", line) is not None


def _object_in(document: bytes | msgspec.Raw, where: str) -> dict[str, Any] | None:
    """The Kubernetes object in a document; `None` for a scenario and what is no object. Raises `ScenarioError`."""
    try:
        keys = _SHALLOW.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if "kind" not in keys or "apiVersion" not in keys:
        return None
    return _whole(document, where)


def flattened(tree: dict[str, Any], where: str) -> Iterator[Document]:
    """The object, or the members of a List. Raises `ScenarioError` for what is neither."""
    kind = tree.get("kind")
    if not isinstance(kind, str) or not kind:
        raise ScenarioError(f"{where}: kind: is missing; a Kubernetes object has apiVersion and kind")
    items = tree.get("items")
    if not kind.endswith("List") or not isinstance(items, list):
        yield Document(tree, where)
        return
    for position, item in enumerate(items):
        if not isinstance(item, dict):
            raise ScenarioError(f"{where}: items[{position}]: expected an object")
        # kubectl's List names each member's kind; the API server's PodList does not
        named = {"apiVersion": tree.get("apiVersion"), "kind": kind.removesuffix("List"), **item}
        yield from flattened(named, f"{where}: items[{position}]")


def yaml_documents(text: bytes, name: str) -> Iterator[dict[str, Any]]:
    """The documents of a YAML file; empty ones are passed over. Raises `ScenarioError`."""
    try:
        for tree in yaml.load_all(text, Loader=_ManifestLoader):
            if tree is None:
                continue
            if not isinstance(tree, dict):
                raise ScenarioError(f"{name}: a Kubernetes object was expected, not a {type(tree).__name__}")
            yield tree
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise ScenarioError(f"{name}:{line}: not YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise ScenarioError(f"{name}: not YAML: {' '.join(str(error).split())}") from None


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
