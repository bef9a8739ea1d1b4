"""Scenarios from files: a cluster's objects and the pod to decide, a JSON object per line (docs/explain.md).

    {"id": "...", "config": null, "objects": {"nodes": [...], "pods": [...], ...}, "pod": {...}}
    {"id": "...", "config": null, "gates": {"GenericWorkload": true}, "objects": {...}, "podGroup": "default/gang"}

`config` is null (all defaults) or a KubeSchedulerConfiguration. An unknown key of a line or of its `objects` is an
error. An unknown field within an object is an error only if the object's own reader says so, but a misspelt field gets
a note (`Scenario.notes`). Lists of objects that no built rule reads, and `expect`, are ignored.

Lines are read one at a time, so a file of any size needs only the memory of its longest line. Objects printed over many
lines, in JSON or YAML, are read as a whole: single scenarios, lists of them, and Kubernetes objects from `kubectl get
-o yaml` and `-o json` (`Document`). `files` says what a file is, and `documents` what a document.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kscheduler.api.codec import Decoder
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
from kscheduler.api.topologies import HyperNode, KueueTopology
from kscheduler.api.well_known import DEFAULT_SCHEDULER_NAME
from kscheduler.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import DEFAULT_GATES, FeatureGates, parse_feature_gates
from kscheduler.config.loader import LoadedConfig, default_configuration, from_tree
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.framework.registry import Registry
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.fields import misspelt, nearest
from kscheduler.scenario.object_files import Document, OtherDocument, decoded_line, read_documents, whole_tree
from kscheduler.scenario.owners import gate_owners

# Lists that scenarios may have although no built rule reads them.
_NOT_READ = frozenset(("priorityclasses",))


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
    """No rule reads them: claims are made from them, in a simulation and for a pod that does not exist yet."""
    resourceslices: tuple[ResourceSlice, ...] = ()
    deviceclasses: tuple[DeviceClass, ...] = ()
    devicetaintrules: tuple[DeviceTaintRule, ...] = ()
    """Read with the gate DRADeviceTaintRules only."""
    podgroups: tuple[KubernetesPodGroup, ...] = ()
    """Of scheduling.k8s.io, with the feature gate GenericWorkload."""
    compositepodgroups: tuple[CompositePodGroup, ...] = ()
    """With the feature gate CompositePodGroup."""
    topologies: tuple[KueueTopology, ...] = ()
    """Of Kueue, where `topologyAPIs` names it."""
    hypernodes: tuple[HyperNode, ...] = ()
    """Of Volcano, likewise."""

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
    missing: Mapping[str, str] = field(default_factory=dict)
    """How groups are missing that may be there, as `framework.cluster.pod_groups.why_missing` takes it."""
    awaited: Mapping[str, str] = field(default_factory=dict)
    """By resource, why the objects that name levels of the topology are not known."""
    claim_templates: Mapping[str, ResourceClaimTemplate | None] = field(default_factory=dict)
    """As for `Scenario`, of the waiting members."""
    of_file: frozenset[tuple[str, str, str]] = frozenset()
    """By resource, namespace and name what does not exist yet: members and other objects of a file."""


class _Line(msgspec.Struct, rename="camel"):
    pod: Pod | None = None
    objects: ClusterObjects = ClusterObjects()
    config: Any = None
    id: str = ""
    gates: dict[str, bool] = {}
    pod_group: str = ""


_DECODER = Decoder(_Line)
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


def read_source(
    path: str, gates: FeatureGates = DEFAULT_GATES, notes: list[str] | None = None
) -> Iterator[Scenario | GroupScenario | Document]:
    """Yields the scenarios or objects of a file. Raises `ScenarioError` at the first that cannot be read.

    `gates`: of the scheduler in the scenarios, with the version of Kubernetes that it follows. `notes`: gets what is
    passed over, and which objects are none: without it these raise, too.
    """
    built_in = default_configuration(DEFAULT_SCHEDULER_NAME, gates)
    for document in read_documents(path, notes):
        yield document if isinstance(document, Document) else parse_line(document.text, document.where, built_in)


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
    read = decoded_line(OtherDocument(line, where), _DECODER)
    tree = whole_tree(line, where)
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


def _refuse_unknown(tree: dict[str, Any], known: frozenset[str], path: str, where: str) -> None:
    for name in tree:
        if name not in known:
            place = f"{path}.{name}" if path else name
            suggestion = nearest(name, known)
            hint = f"do you mean {suggestion}?" if suggestion else f"there are {', '.join(sorted(known))}"
            raise ScenarioError(f"{where}: {place}: unknown field; {hint}")
