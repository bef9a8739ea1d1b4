"""The parts of a run, as values that can be sent to other processes, and its key.

    key = hash of (policy, workload with its node shape, seed, version of the code)

Files count by their content and not by their path: moving a recording or touching a plugin does not change the key. A
spec is complete except for the data of traces and recordings, which must be under the given path with that content.
"""

import hashlib
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from kscheduler import __version__
from kscheduler.config.plugin_args import Settings

PolicyKind: TypeAlias = Literal["profile", "trace", "recorded"]
# Of a key: 128 bits.
_KEY_DIGITS: Final = 32


class NodeShaping(msgspec.Struct, frozen=True):
    """How a workload's nodes are changed."""

    name: str = ""
    """Empty: unchanged."""
    scale: tuple[tuple[str, float], ...] = ()
    """By resource, what allocatable is multiplied by."""
    share: float = 1.0
    """The share of the nodes that exist, picked evenly from all."""

    def has_node(self, index: int) -> bool:
        """Whether the node at this index of all nodes exists."""
        return int((index + 1) * self.share) > int(index * self.share)


UNCHANGED: Final = NodeShaping()


class TraceWorkload(msgspec.Struct, frozen=True, tag="openb"):
    """Tasks of the trace openb."""

    name: str
    directory: str
    list: str
    arrival: float
    digest: str
    """Of its files."""
    shape: NodeShaping = UNCHANGED


class SyntheticWorkload(msgspec.Struct, frozen=True, tag="synthetic"):
    """Tasks like those of openb."""

    name: str
    scale: float
    arrival: float
    shape: NodeShaping = UNCHANGED


class RecordedWorkload(msgspec.Struct, frozen=True, tag="recording"):
    """The last run of a recording of `kscheduler run --record`."""

    name: str
    path: str
    digest: str
    """Of its segments."""
    gpu: str
    shape: NodeShaping = UNCHANGED


class GeneratedNodes(Settings, frozen=True):
    """Equal nodes."""

    count: int = 1
    allocatable: dict[str, str] = msgspec.field(default_factory=dict)
    """As in a node's status; `pods` is 110 if it is left out."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    zones: tuple[str, ...] = ()
    """Values of `topology.kubernetes.io/zone`, in turn."""
    price: str = ""
    """What such a node costs, as the policy NodeCost reads it."""


class GeneratedPods(Settings, frozen=True):
    """Equal pods."""

    weight: int = 1
    """How many of them arrive, relative to the other kinds."""
    requests: dict[str, str] = msgspec.field(default_factory=dict)
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    priority: int = 0
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    """More of the pod's spec, as in a manifest: affinity, topologySpreadConstraints, tolerations ..."""


class GeneratedGangs(GeneratedPods, frozen=True):
    """Equal gangs: `weight` is that of a whole gang, the other fields of pods are those of each member."""

    members: tuple[int, ...] = ()
    """How many members a gang has: one of these, each equally likely."""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    """Of the PodGroup: what it asks of the topology."""


class GeneratedWorkload(msgspec.Struct, frozen=True, tag="generated"):
    """Pods of some kinds that arrive at random times on nodes of some kinds, and end after a random run time."""

    name: str
    nodes: tuple[GeneratedNodes, ...]
    pods: tuple[GeneratedPods, ...]
    count: int
    """How many pods and gangs arrive."""
    arrival_seconds: float
    """Between two of them, on average."""
    life_seconds: float
    """How long a pod or a gang runs, on average; 0: to the end."""
    gpu: str
    shape: NodeShaping = UNCHANGED
    gangs: tuple[GeneratedGangs, ...] = ()


Workload: TypeAlias = TraceWorkload | SyntheticWorkload | RecordedWorkload | GeneratedWorkload


class PolicyPlugin(msgspec.Struct, frozen=True):
    """A file, or a module, of plugins."""

    path: str
    digest: str
    """Of its source."""
    text: str = ""
    """The content of a file, used where the path does not have it. Empty: a module."""


class PlayedPolicy(msgspec.Struct, frozen=True):
    """One profile that places all pods."""

    name: str
    kind: PolicyKind = "profile"
    configuration: str = ""
    """JSON of a KubeSchedulerConfiguration with one profile; of a trace's policy its name."""
    plugins: tuple[PolicyPlugin, ...] = ()
    enables_plugins: bool = False
    """Whether the plugins are enabled behind the others."""
    installed: tuple[PolicyPlugin, ...] = ()
    """Modules of installed packages that declare plugins which the profile names: loaded by these names."""

    def part_of_key(self) -> "PlayedPolicy":
        """The same wherever its files are."""
        without_paths = (tuple(PolicyPlugin("", each.digest) for each in of) for of in (self.plugins, self.installed))
        plugins, installed = without_paths
        return msgspec.structs.replace(self, plugins=plugins, installed=installed)


class RunSpec(msgspec.Struct, frozen=True):
    """A run: what `run` is a pure function of."""

    policy: PlayedPolicy
    workload: Workload
    seed: int
    version: str

    @property
    def key(self) -> str:
        """Equal for equal runs, on any machine."""
        workload = self.workload
        if isinstance(workload, TraceWorkload):
            workload = msgspec.structs.replace(workload, directory="")
        elif isinstance(workload, RecordedWorkload):
            workload = msgspec.structs.replace(workload, path="")
        policy = self.policy.part_of_key()
        parts = msgspec.json.encode((policy, workload, self.seed, self.version), order="deterministic")
        return hashlib.sha256(parts).hexdigest()[:_KEY_DIGITS]


@cache
def code_version() -> str:
    """The version of kscheduler with a digest of its source: any part of it may change a decision."""
    package, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if path.suffix in (".py", ".json", ".yaml", ".txt"):
            digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{__version__}+{digest.hexdigest()[:12]}"


def digest_of(paths: Iterable[Path]) -> str:
    """Of the content of files, in this order. Raises `OSError`."""
    digest = hashlib.sha256()
    for path in paths:
        found = path.stat()
        digest.update(_digest_of(path, found.st_size, found.st_mtime_ns))
    return digest.hexdigest()[:_KEY_DIGITS]


@lru_cache(maxsize=10_000)
def _digest_of(path: Path, _size: int, _changed: int) -> bytes:
    """Cached: each run of a worker asks for it, and a recording may be large."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
