"""Scenarios from files: a cluster's objects and the pod to decide, a JSON object per line (docs/explain.md).

    {"id": "...", "config": null, "objects": {"nodes": [...], "pods": [...], ...}, "pod": {...}}
    {"id": "...", "config": null, "gates": {"GenericWorkload": true}, "objects": {...}, "podGroup": "default/gang"}

`config` is null (all defaults) or a KubeSchedulerConfiguration. An unknown key of a line or of its `objects` is an
error. An unknown field within an object is an error only if the object's own reader says so, but a misspelt field gets
a note (`Scenario.notes`). Lists of objects that no built rule reads, and `expect`, are ignored.

Files may be gzipped (detected by their first bytes); `-` is standard input. Lines are read one at a time, so a file of
any size needs only the memory of its longest line. Objects printed over many lines, in JSON or YAML, are read as a
whole: single scenarios, lists of them, and Kubernetes objects from `kubectl get -o yaml` and `-o json` (`Document`).
"""

import gzip
import re
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader, RawIOBase
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final, cast

import msgspec
import yaml

from kscheduler.api.codec import Decoder, UndecodableError
from kscheduler.api.core import Namespace, Node, Pod
from kscheduler.api.devices import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from kscheduler.api.groups import POD_GROUPS, CompositePodGroup, KubernetesPodGroup
from kscheduler.api.kinds import Kind
from kscheduler.api.manifest_yaml import load_documents
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
from kscheduler.config.feature_gates import DEFAULT_GATES, FeatureGates, parse_feature_gates
from kscheduler.config.loader import LoadedConfig, default_configuration, from_tree
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.framework.registry import Registry
from kscheduler.whatif.fields.unknown_fields import misspelt, nearest
from kscheduler.whatif.gate_owners import gate_owners

_GZIP_MAGIC = b"\x1f\x8b"
STANDARD_INPUT = "-"
MOST_WHOLE_BYTES: Final = 1 << 30
"""The longest document or line, unpacked: 100,000 pods with their nodes, as JSON, are 0.8 GiB."""
MOST_YAML_BYTES: Final = 128 << 20
"""The longest YAML, whose reading takes seventy times its size in memory, and seconds for each MiB; JSON a tenth."""
UNPACKED_ANYWAY_BYTES: Final = 64 << 20
MOST_GROWTH: Final = 200
"""Times its size that a gzip file may unpack to, once that is more than `UNPACKED_ANYWAY_BYTES`. Objects that differ in
name and UID only are packed to a fortieth; gzip could do a thousandth."""


class ScenarioError(ValueError):
    """A scenario cannot be read. The text is a line, `FILE:LINE: field: what is wrong`; of new objects one for each."""


_NOT_READ = frozenset(("priorityclasses",))
"""Lists that scenarios may have although no built rule reads them."""


class ClusterObjects(msgspec.Struct, frozen=True):
    """The objects of a cluster that the built rules read."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    """Pods with `spec.nodeName` are on that node; others are pending and do not affect the decision."""
    namespaces: tuple[Namespace, ...] = ()
    """For their labels, which namespace selectors match."""
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
    resourceclaims: tuple[ResourceClaim, ...] = ()
    resourceclaimtemplates: tuple[ResourceClaimTemplate, ...] = ()
    """No rule reads them: claims are made from them, in a rehearsal and for a pod that does not exist yet."""
    resourceslices: tuple[ResourceSlice, ...] = ()
    deviceclasses: tuple[DeviceClass, ...] = ()
    devicetaintrules: tuple[DeviceTaintRule, ...] = ()
    """Read with the gate DRADeviceTaintRules only."""
    podgroups: tuple[KubernetesPodGroup, ...] = ()
    """Of scheduling.k8s.io, with the feature gate GenericWorkload."""
    compositepodgroups: tuple[CompositePodGroup, ...] = ()
    """With the feature gate CompositePodGroup."""

    def groups(self, kind: Kind) -> Sequence[KubeObject]:
        """The pod groups of a kind; those of other projects are not here."""
        if kind.group != POD_GROUPS.group:
            return ()
        return self.podgroups if kind is POD_GROUPS else self.compositepodgroups

    def storage(self) -> Iterator[KubeObject]:
        """All that volume plugins read."""
        yield from (*self.persistentvolumes, *self.persistentvolumeclaims, *self.storageclasses, *self.csinodes)
        yield from (*self.csidrivers, *self.csistoragecapacities, *self.volumeattachments)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A question: where would this pod go?"""

    objects: ClusterObjects
    pod: Pod
    """The pod to decide, whatever its `spec.nodeName` says."""
    config: LoadedConfig
    id: str = ""
    where: str = ""
    """`FILE:LINE`, for messages."""
    notes: tuple[str, ...] = ()
    """Notes on fields that look misspelt."""
    plugins: Registry | None = None
    """The plugins by name; `None`: the in-tree ones."""
    gate_owners: tuple[str, ...] = ()
    """Who has set the pod's scheduling gates, as far as `managedFields` say it."""
    claim_templates: Mapping[str, ResourceClaimTemplate | None] = field(default_factory=dict)
    """By name those that the pod names, as far as somebody has looked; `None`: there is none of this name."""
    was_on_node: bool = False
    """Whether the pod is on a node and is judged as if it were not: what it holds there counts as its own."""


@dataclass(frozen=True, slots=True)
class GroupScenario:
    """A question: where would the waiting members of this pod group go?"""

    objects: ClusterObjects
    group: str
    """`namespace/name`."""
    config: LoadedConfig
    id: str = ""
    where: str = ""
    notes: tuple[str, ...] = ()
    plugins: Registry | None = None
    """As for `Scenario`."""
    definitions: tuple[GroupDefinition, ...] = ()
    """Groups besides those of the objects, of any API that the configuration follows."""
    unserved: tuple[str, ...] = ()
    """Kinds of groups (`podgroups.scheduling.x-k8s.io`) that the API server does not have."""
    claim_templates: Mapping[str, ResourceClaimTemplate | None] = field(default_factory=dict)
    """As for `Scenario`, of the waiting members."""


@dataclass(frozen=True, slots=True)
class Document:
    """A Kubernetes object of a file."""

    tree: dict[str, Any]
    where: str
    """`FILE: document 2`, for messages."""


class _Line(msgspec.Struct, rename="camel"):
    pod: Pod | None = None
    objects: ClusterObjects = ClusterObjects()
    config: Any = None
    id: str = ""
    gates: dict[str, bool] = {}
    pod_group: str = ""


_DECODER = Decoder(_Line)
_SHALLOW: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KEYS = frozenset((*_Line.__struct_encode_fields__, "expect"))
_LISTS = frozenset(ClusterObjects.__struct_encode_fields__)


def read_scenarios(path: str, gates: FeatureGates = DEFAULT_GATES) -> Iterator[Scenario]:
    """Yields the scenarios of a file about pods. Raises `ScenarioError` at the first that cannot be read."""
    for scenario in read_source(path, gates):
        if isinstance(scenario, GroupScenario):
            raise ScenarioError(f"{scenario.where}: podGroup: a scenario about a pod was expected")
        if isinstance(scenario, Document):
            raise ScenarioError(f"{scenario.where}: a Kubernetes object where a scenario was expected")
        yield scenario


def read_source(path: str, gates: FeatureGates = DEFAULT_GATES) -> Iterator[Scenario | GroupScenario | Document]:
    """Yields the scenarios or objects of a file. Raises `ScenarioError` at the first that cannot be read.

    `gates`: of the scheduler in the scenarios, with the version of Kubernetes that it follows.
    """
    built_in = default_configuration(DEFAULT_SCHEDULER_NAME, gates)
    name = source_name(path)
    try:
        with _opened(path) as file:
            for number, document in _documents(file, path, name):
                tree = document if isinstance(document, dict) else _object_in(document, f"{name}:{number}")
                if tree is not None:
                    yield from flattened(tree, f"{name}: document {number}")
                elif not isinstance(document, dict):
                    yield parse_line(document, f"{name}:{number}", built_in)
    except MemoryError:
        raise ScenarioError(f"{name}: it needs more memory than there is") from None
    except EOFError:
        raise ScenarioError(f"{name}: the gzip stream ends in the middle") from None
    except zlib.error as error:
        raise ScenarioError(f"{name}: not a gzip stream: {error}") from None
    except OSError as error:
        raise ScenarioError(f"{name}: cannot be read: {error.strerror or error}") from None


def source_name(path: str) -> str:
    """The file as messages name it."""
    return "standard input" if path == STANDARD_INPUT else path


def nothing_in(path: str) -> ScenarioError:
    """The refusal of a dump that is empty: an answer about it would look like an all-clear."""
    return ScenarioError(
        f"{source_name(path)}: no object in it, only an empty file or list: give what "
        "`kubectl get nodes,pods -A -o yaml` prints"
    )


def parse_scenario(line: bytes | msgspec.Raw, where: str, built_in: LoadedConfig | None = None) -> Scenario:
    """A scenario about a pod, as `parse_line`. Raises `ScenarioError`, also for one about a group."""
    scenario = parse_line(line, where, built_in)
    if isinstance(scenario, GroupScenario):
        raise ScenarioError(f"{where}: podGroup: a scenario about a pod was expected")
    return scenario


def parse_line(line: bytes | msgspec.Raw, where: str, built_in: LoadedConfig | None = None) -> Scenario | GroupScenario:
    """A scenario from JSON. Raises `ScenarioError` whose text begins with `where`.

    `built_in`: the configuration for `config: null`; by default kube-scheduler's, including its profile's name.
    """
    built_in = built_in or default_configuration(DEFAULT_SCHEDULER_NAME)
    try:
        read = _DECODER.decode(line)
    except UndecodableError as error:
        mapping = "" if bytes(line).lstrip().startswith(b"{") else "; a mapping with apiVersion and kind was expected"
        raise ScenarioError(f"{where}: {field_first(str(error))}{mapping}") from None
    tree = _whole(line, where)
    if not tree:
        raise ScenarioError(f"{where}: an empty object is neither a Kubernetes object nor a scenario")
    _refuse_unknown(tree, _KEYS, "", where)
    _refuse_unknown(tree.get("objects") or {}, _LISTS | _NOT_READ, "objects", where)
    config = _config_of(read, where, built_in)
    notes = tuple(f"{where}: {problem}" for problem in misspelt(tree, _Line))
    if read.pod_group and read.pod is None:
        return GroupScenario(read.objects, read.pod_group, config, read.id, where, notes)
    if read.pod is None or read.pod_group:
        raise ScenarioError(f"{where}: object missing required field pod, or both pod and podGroup are there")
    owners = gate_owners(tree["pod"])
    return Scenario(read.objects, read.pod, config, read.id, where, notes, gate_owners=owners)


def _config_of(read: _Line, where: str, built_in: LoadedConfig) -> LoadedConfig:
    """The configuration of a line, under its own feature gates where it has any. Raises `ScenarioError`."""
    gates = built_in.gates
    try:
        if read.gates:
            chosen = {**gates.chosen, **read.gates}
            text = ",".join(f"{name}={str(value).lower()}" for name, value in chosen.items())
            gates = parse_feature_gates(text, "gates", gates.version)
        if read.config is not None:
            return from_tree(read.config, "", gates)
    except ConfigError as error:
        place = error.where or "config"
        raise ScenarioError(f"{where}: {place}: {'; '.join(str(problem) for problem in error.problems)}") from None
    return built_in if gates is built_in.gates else default_configuration(DEFAULT_SCHEDULER_NAME, gates)


def _whole(document: bytes | msgspec.Raw, where: str) -> dict[str, Any]:
    """The whole document, including fields that are not read but may be broken. Raises `ScenarioError`."""
    try:
        tree: dict[str, Any] = msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ScenarioError(f"{where}: not JSON: {error}") from None
    return tree


def _refuse_unknown(tree: dict[str, Any], known: frozenset[str], path: str, where: str) -> None:
    for name in tree:
        if name not in known:
            place = f"{path}.{name}" if path else name
            suggestion = nearest(name, known)
            hint = f"do you mean {suggestion}?" if suggestion else f"there are {', '.join(sorted(known))}"
            raise ScenarioError(f"{where}: {place}: unknown field; {hint}")


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    """The file, unpacked if its first bytes say that it is gzipped. Standard input stays open."""
    if path == STANDARD_INPUT:
        yield _unpacked(cast("BufferedReader", sys.stdin.buffer), path)
        return
    with Path(path).open("rb") as file:
        yield _unpacked(file, path)


def _unpacked(file: BufferedReader, path: str) -> IO[bytes]:
    is_packed = file.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
    return BufferedReader(_Unpacking(file, source_name(path))) if is_packed else file


class _Unpacking(RawIOBase):
    """What a gzip file unpacks to, unless it is far more than files of objects unpack to: a few hundred kilobytes could
    fill the memory. `read` and its like raise `ScenarioError` then.
    """

    def __init__(self, packed: IO[bytes], name: str) -> None:
        # The packed bytes are counted where they are read: standard input has no position to ask for.
        self._packed = _Counting(packed)
        self._stream = gzip.GzipFile(fileobj=cast("IO[bytes]", self._packed))
        self._name, self._unpacked = name, 0

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, or less; 0 at the end."""
        data = self._stream.read(len(buffer))
        self._unpacked += len(data)
        if self._unpacked > max(UNPACKED_ANYWAY_BYTES, MOST_GROWTH * self._packed.count):
            raise ScenarioError(
                f"{self._name}: a gzip stream that unpacks to more than {MOST_GROWTH} times its size, which no file of "
                "objects does"
            )
        buffer[: len(data)] = data
        return len(data)


class _Counting:
    """The part of a file that `gzip` needs, which counts the bytes that were read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.count = file, 0

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes."""
        data = self._file.read(size)
        self.count += len(data)
        return data


def _whole_file(file: IO[bytes], name: str, first: bytes = b"") -> bytes:
    """All of it, after the line that was read already. Raises `ScenarioError` if it is too large for that."""
    whole = first + file.read(MOST_WHOLE_BYTES + 1 - len(first))
    if len(whole) > MOST_WHOLE_BYTES:
        raise ScenarioError(
            f"{name}: more than {MOST_WHOLE_BYTES >> 20} MiB in one document: give one object a line, as "
            "`jq -c '.items[]'` prints them"
        )
    return whole


def _documents(file: IO[bytes], path: str, name: str) -> Iterator[tuple[int, "bytes | msgspec.Raw | dict[str, Any]"]]:
    """The documents, numbered; documents that are lines have their line numbers."""
    if path.removesuffix(".gz").endswith(".json"):
        whole = _whole_file(file, name)
        try:
            yield from _from_whole(whole)
        except msgspec.DecodeError:
            yield from _lines(iter(whole.splitlines()))
        return
    blank, first = _first_line(file, name)
    if not first or _is_a_line(first):
        yield from _lines(chain([b"\n"] * blank, [first], _bounded_lines(file, name)))
        return
    whole = _whole_file(file, name, first)
    try:
        yield from _from_whole(whole)
    except msgspec.DecodeError as error:
        if first.lstrip().startswith((b"{", b"[")):
            raise ScenarioError(f"{name}: not JSON: {error}") from None
        yield from enumerate(yaml_documents(whole, name), 1)


def _bounded_lines(file: IO[bytes], name: str) -> Iterator[bytes]:
    """The lines of a file. Raises `ScenarioError` at one that is too long to be held in memory."""
    while line := file.readline(MOST_WHOLE_BYTES + 1):
        if len(line) > MOST_WHOLE_BYTES:
            raise ScenarioError(f"{name}: a line of more than {MOST_WHOLE_BYTES >> 20} MiB")
        yield line


def _first_line(file: IO[bytes], name: str) -> tuple[int, bytes]:
    """The number of leading blank lines, and the first line that is not blank."""
    blank = 0
    for line in _bounded_lines(file, name):
        if line.strip():
            return blank, line
        blank += 1
    return blank, b""


def _is_a_line(first: bytes) -> bool:
    """Whether a file with this first line has a document per line.

    JSON printed over many lines begins with a lone bracket; YAML is recognised by its form. Anything else counts as
    lines, so that errors in them are reported by line.
    """
    stripped = first.strip()
    if stripped in (b"{", b"["):
        return False
    return stripped.startswith(b"{") or not (stripped.startswith(b"[") or _looks_like_yaml(stripped))


def _looks_like_yaml(line: bytes) -> bool:
    return line.startswith((b"---", b"#", b"%YAML", b"- ")) or re.match(rb"[A-Za-z]+:(\s|$)", line) is not None


def _object_in(document: bytes | msgspec.Raw, where: str) -> dict[str, Any] | None:
    """The Kubernetes object in a document; `None` for a scenario or anything else. Raises `ScenarioError`."""
    try:
        keys = _SHALLOW.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if "kind" not in keys or "apiVersion" not in keys:
        return None
    return _whole(document, where)


def flattened(tree: dict[str, Any], where: str) -> Iterator[Document]:
    """The object, or the members of a List. Raises `ScenarioError` if it is neither."""
    kind = tree.get("kind")
    if not isinstance(kind, str) or not kind:
        raise ScenarioError(f"{where}: kind: is missing; a Kubernetes object has apiVersion and kind")
    if not _is_list(tree, kind):
        yield Document(tree, where)
        return
    if "items" not in tree:
        raise ScenarioError(f"{where} ({kind}): items: is missing; a list without objects has `items: []`")
    items = [] if tree["items"] is None else tree["items"]
    if not isinstance(items, list):
        raise ScenarioError(f"{where} ({kind}): items: expected a list")
    for position, item in enumerate(items):
        if not isinstance(item, dict):
            raise ScenarioError(f"{where}: items[{position}]: expected an object")
        # kubectl's List has a kind in each member; the API server's PodList does not
        named = {"apiVersion": tree.get("apiVersion"), "kind": kind.removesuffix("List"), **item}
        yield from flattened(named, f"{where}: items[{position}]")


def _is_list(tree: dict[str, Any], kind: str) -> bool:
    """Whether it is a list of objects. An object of a kind whose name ends so, an allow list say, has a name."""
    metadata = tree.get("metadata")
    return kind.endswith("List") and not (isinstance(metadata, dict) and metadata.get("name"))


def yaml_documents(text: bytes, name: str) -> Iterator[dict[str, Any]]:
    """The documents of a YAML file without empty documents. Raises `ScenarioError`."""
    if len(text) > MOST_YAML_BYTES:
        raise ScenarioError(f"{name}: more than {MOST_YAML_BYTES >> 20} MiB of YAML: give JSON (`kubectl get -o json`)")
    try:
        for tree in load_documents(text):
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
    """A single document, or the members of a list, numbered from 1. Raises `msgspec.DecodeError`."""
    try:
        if whole.lstrip().startswith(b"["):
            yield from enumerate(msgspec.json.decode(whole, type=list[msgspec.Raw]), 1)
        else:
            yield 1, msgspec.json.decode(whole, type=msgspec.Raw)
    except RecursionError:
        message = "nested too deep"
        raise msgspec.DecodeError(message) from None


def _lines(lines: Iterator[bytes] | IO[bytes]) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, line


def field_first(message: str) -> str:
    """Turn msgspec's ``Expected `str`, got `int` - at `$.pod.spec` `` into `pod.spec: expected str, got int`."""
    if message.startswith("not JSON"):
        return message
    text, _, path = message.partition(" - at ")
    field = path.strip("`").removeprefix("$").removeprefix(".")
    plain = text.replace("`", "")
    plain = plain[:1].lower() + plain[1:]
    return f"{field}: {plain}" if field else plain
