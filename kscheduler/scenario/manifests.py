"""A cluster from manifests: the output of `kubectl get ... -o yaml`, or files written by hand.

Objects from a server are complete. Manifests written by hand lack the API server's defaults; those that a scheduler
needs are filled in for objects without a UID.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kscheduler.api.codec import UndecodableError, convert
from kscheduler.api.core import Pod
from kscheduler.api.defaults.pods import default_new_pod
from kscheduler.api.devices import ResourceClaimTemplate
from kscheduler.api.groups import COMPOSITES, POD_GROUPS
from kscheduler.api.kinds import KINDS, PODS, RESOURCE_CLAIM_TEMPLATES, Kind
from kscheduler.api.meta import KubeObject
from kscheduler.api.new_objects import UncheckableObjectError, objections
from kscheduler.api.priority import PRIORITY_CLASS, SYSTEM_PRIORITIES, default_priority_class
from kscheduler.api.storage import PersistentVolumeClaim, StorageClass, default_class
from kscheduler.api.topologies import TOPOLOGY_KINDS
from kscheduler.framework.cluster.pod_groups import GroupDefinition, unreadable
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.fields import misspelt, nearest
from kscheduler.scenario.new_objects import place_of
from kscheduler.scenario.object_files import Document
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.state.group_apis import OTHER_APIS, GroupAPI, kubernetes_apis

Tree = dict[str, Any]

KIND_BY_NAME: Final[Mapping[str, Kind]] = {kind.name: kind for kind in KINDS.values()}
_OF_KUBERNETES: Final = tuple(api for kind in COMPOSITES.values() for api in kubernetes_apis(None, kind))
# By `apiVersion` and `kind`.
_GROUP_APIS: Final = {(api.kind.group_version, api.kind.name): api for api in (*_OF_KUBERNETES, *OTHER_APIS.values())}
_TOPOLOGY_KINDS: Final = {(kind.group_version, kind.name): kind for kind in TOPOLOGY_KINDS.values()}
_PLURALS_OF_TOPOLOGIES: Final = tuple(dict.fromkeys(kind.plural for kind in TOPOLOGY_KINDS.values()))
NO_CLASSES: Final[Mapping[str, Tree]] = {}
# No rule reads it, but claims are made from it.
CLAIM_TEMPLATE: Final = RESOURCE_CLAIM_TEMPLATES.name


# Objects of one kind of problem that are named.
MAX_REPORTED: Final = 20
_OF_DEVICES: Final = ("resourceclaims", "resourceslices", "deviceclasses")
# What kubectl is to print of a cluster whose pods claim devices.
DUMPED: Final = ("nodes", "pods", "resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses")


@dataclass(slots=True)
class Manifests:
    """The objects of a file, sorted for a scheduler."""

    objects: dict[str, list[KubeObject]] = field(
        default_factory=lambda: {plural: [] for plural in (*KINDS, *_PLURALS_OF_TOPOLOGIES)}
    )
    """By resource name."""
    priority_classes: dict[str, Tree] = field(default_factory=dict)
    claim_templates: list[ResourceClaimTemplate] = field(default_factory=list)
    groups: list[GroupDefinition] = field(default_factory=list)
    """Pod groups of all APIs."""
    others: list[Document] = field(default_factory=list)
    """Objects of kinds that a scheduler does not read, such as Deployments and Jobs."""
    notes: list[str] = field(default_factory=list)
    namespace: str = "default"
    """Of objects that name none."""
    unread: dict[tuple[str, str], str] = field(default_factory=dict)
    """By kind and key what is wrong with objects that cannot be read, with their place."""

    missing_groups: dict[str, str] = field(default_factory=dict)
    """Pod groups that cannot be read, as `why_missing` takes them."""
    awaited_topologies: Mapping[str, str] = field(default_factory=dict)
    """By resource, why the objects that name levels are not known; of files all are."""

    def reported_unread(self) -> list[str]:
        """What is wrong with them, a bounded number."""
        reported = list(self.unread.values())
        more = len(reported) - MAX_REPORTED
        return [*reported[:MAX_REPORTED], f"and {more} more objects cannot be read"] if more > 0 else reported

    def leave_out_doubled(self) -> None:
        """Of objects that are there twice, as in two dumps of one cluster, keep the last, and note it."""
        doubled: list[str] = []
        for plural, listed in self.objects.items():
            kept = {each.key if each.metadata.name else id(each): each for each in listed}
            if len(kept) < len(listed):
                counts = Counter(each.key for each in listed)
                doubled += [f"{plural} {key}" for key, count in counts.items() if count > 1]
                self.objects[plural] = list(kept.values())
        if doubled:
            more = f" and {len(doubled) - MAX_REPORTED} more" if len(doubled) > MAX_REPORTED else ""
            listed_names = ", ".join(doubled[:MAX_REPORTED])
            self.notes.append(f"given more than once, of which the last counts: {listed_names}{more}")

    def cluster(self) -> ClusterObjects:
        """The objects in the form of a scenario."""
        fields: dict[str, Any] = {plural: tuple(found) for plural, found in self.objects.items()}
        return ClusterObjects(**fields, resourceclaimtemplates=tuple(self.claim_templates))

    def note_others(self, read_elsewhere: Container[str] = ()) -> None:
        """Add a note with the kinds that were not read. `read_elsewhere`: kinds to leave out of it, such as Jobs."""
        counts = Counter(kind for each in self.others if (kind := str(each.tree.get("kind"))) not in read_elsewhere)
        if counts:
            listed = ", ".join(f"{kind} ({count})" for kind, count in sorted(counts.items()))
            self.notes.append(f"kinds that no scheduling rule reads are skipped: {listed}")

    def note_no_devices(self, where: str) -> None:
        """Add a note if pods claim devices, and what that takes is not among the objects: it was not printed."""
        pods = [pod for pod in self.cluster().pods if pod.spec.resource_claims and not pod.is_terminal]
        if not pods or any(self.objects[plural] for plural in _OF_DEVICES):
            return
        more = f" and {len(pods) - 1} more" if pods[1:] else ""
        self.notes.append(
            f"{where}: {pods[0].key}{more} claim devices, and it has no claim, slice or class: `kubectl get "
            f"{','.join(DUMPED)} -A -o yaml` prints them, too"
        )

    def note_no_nodes(self, where: str) -> None:
        """Add a note if there is no node, so that no pod could fit: it may have been forgotten."""
        if not self.objects["nodes"]:
            note = "no node is among its objects, and without nodes no pod fits: `kubectl get nodes` prints them"
            self.notes.append(f"{where}: {note}")


def sorted_out(
    documents: Iterable[Document],
    *,
    namespace: str = "default",
    apis: Iterable[GroupAPI] = (),
    classes: Mapping[str, Tree] = NO_CLASSES,
    are_all: bool = True,
) -> Manifests:
    """The objects of some documents. One that cannot be read is left out and noted: the others are read.

    `namespace`: of objects that name none. `apis`: of groups, those that are followed, as their gates have them.
    `classes`: the PriorityClasses that are known already, by name. Raises `ScenarioError` if none can be
    read and they `are_all`.
    """
    found = Manifests(namespace=namespace, priority_classes=dict(classes))
    group_apis = {**_GROUP_APIS, **{(api.kind.group_version, api.kind.name): api for api in apis}}
    every = list(documents)
    for document in every:
        if document.tree.get("kind") == PRIORITY_CLASS:
            found.priority_classes[_named(document.tree)[1]] = document.tree
    for document in every:
        try:
            _sort_in(document, found, group_apis)
        except ScenarioError as problem:
            namespace_of, name = _named(document.tree)
            key = f"{namespace_of or namespace}/{name}"
            found.unread[str(document.tree.get("kind")), key] = str(problem)
            if api := group_apis.get(_full_name(document)):
                found.missing_groups[f"{api.kind.resource} {key}"] = unreadable(str(problem))
    if are_all and found.unread and len(found.unread) == len(every):
        raise ScenarioError("\n".join(found.reported_unread()))
    found.notes.extend(f"{text}: it is left out" for text in found.reported_unread())
    found.leave_out_doubled()
    return found


def _sort_in(document: Document, found: Manifests, group_apis: Mapping[tuple[str, str], GroupAPI]) -> None:
    """Raises `ScenarioError`."""
    full_name = _, name = _full_name(document)
    kind = KIND_BY_NAME.get(name) or _TOPOLOGY_KINDS.get(full_name)
    group_api = group_apis.get(full_name)
    if kind is not None:
        found.objects[kind.plural].append(read_object(document, kind, found))
    elif group_api is not None:
        group = read_object(document, group_api.kind, found)
        found.groups.append(group_api.definition_of(group))
    elif name == CLAIM_TEMPLATE:
        template = read_object(document, RESOURCE_CLAIM_TEMPLATES, found)
        assert isinstance(template, ResourceClaimTemplate)  # noqa: S101  it was read as one
        found.claim_templates.append(template)
    elif name != PRIORITY_CLASS:
        found.others.append(document)


def _full_name(document: Document) -> tuple[str, str]:
    """`apiVersion` and `kind`."""
    return str(document.tree.get("apiVersion")), str(document.tree.get("kind"))


def _named(tree: Tree) -> tuple[str, str]:
    """Namespace and name, as far as they are there."""
    metadata = tree.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    return str(known.get("namespace") or ""), str(known.get("name") or "")


def read_object(document: Document, kind: Kind, found: Manifests) -> KubeObject:
    """An object, with defaults unless it comes from a server. Raises `ScenarioError`."""
    tree = document.tree
    metadata = tree.setdefault("metadata", {})
    where = f"{document.where} ({kind.name} {metadata.get('name', '') if isinstance(metadata, dict) else ''})"
    if not isinstance(metadata, dict):
        raise ScenarioError(f"{where}: metadata: expected an object")
    if not (metadata.get("name") or metadata.get("generateName")):
        raise ScenarioError(f"{where}: metadata.name: is missing")
    if kind.namespaced:
        metadata.setdefault("namespace", found.namespace)
    found.notes.extend(f"{where}: {problem}" for problem in misspelt(tree, kind.type) if not is_header(problem))
    if not metadata.get("uid"):
        _fill_in(tree, kind, found, where)
    try:
        return convert(tree, kind.type)
    except UndecodableError as error:
        raise ScenarioError(f"{where}: {error}") from None


def is_header(problem: str) -> bool:
    """Whether the field is `apiVersion` or `kind`, which no struct has."""
    return problem.partition(" ")[0] in ("apiVersion", "kind")


def _fill_in(tree: Tree, kind: Kind, found: Manifests, where: str) -> None:
    metadata = tree["metadata"]
    match kind.name:
        case "Pod":
            fill_in_pod(tree, found, where)
        case "Node":
            status = tree.setdefault("status", {})
            if isinstance(status, dict) and "allocatable" not in status:
                status["allocatable"] = status.get("capacity") or {}
        case "Namespace":
            labels = metadata.setdefault("labels", {})
            if isinstance(labels, dict):
                labels.setdefault("kubernetes.io/metadata.name", metadata.get("name", ""))
        case "PodGroup" | "CompositePodGroup" if kind.group == POD_GROUPS.group:
            _give_group_priority(tree, found, where)
        case "StorageClass":
            tree.setdefault("volumeBindingMode", "Immediate")


def fill_in_pod(tree: Tree, found: Manifests, where: str) -> None:
    """Fill in a pod's defaults and its priority. Raises `ScenarioError`."""
    spec = tree.setdefault("spec", {})
    if not isinstance(spec, dict):
        raise ScenarioError(f"{where}: spec: expected an object")
    try:
        default_new_pod(tree)
    except (TypeError, AttributeError, KeyError) as error:
        raise ScenarioError(f"{where}: {error}") from None
    if spec.get("priority") is None:
        _give_priority(spec, found, where)


def _give_group_priority(tree: Tree, found: Manifests, where: str) -> None:
    """Set the priority of the group's class, which its members must have, too; its preemption policy is its own."""
    spec = tree.setdefault("spec", {})
    if not isinstance(spec, dict) or spec.get("priority") is not None:
        return
    given = dict(spec)
    _give_priority(given, found, where)
    if "priority" in given:
        spec["priority"] = given["priority"]


def _give_priority(spec: Tree, found: Manifests, where: str) -> None:
    """Set the priority as the API server's admission does: from the pod's class, or else the default class."""
    name = str(spec.get("priorityClassName") or "")
    chosen = found.priority_classes.get(name)
    if not name:
        chosen = default_priority_class(found.priority_classes.values())
    if chosen is not None:
        spec["priority"] = chosen.get("value", 0)
        spec.setdefault("preemptionPolicy", chosen.get("preemptionPolicy", "PreemptLowerPriority"))
    elif name in SYSTEM_PRIORITIES:
        spec["priority"] = SYSTEM_PRIORITIES[name]
    elif name:
        near = nearest(name, (*found.priority_classes, *SYSTEM_PRIORITIES))
        meant = f"; do you mean {near}? An API server refuses pods of a class that does not exist" if near else ""
        found.notes.append(f"{where}: PriorityClass {name} is not known here: priority 0 is presumed{meant}")


def objections_to(document: Document) -> list[str]:
    """What an API server would say against a new object, with its place. Raises `ScenarioError`: it cannot be read."""
    try:
        return [f"{place_of(document)}: {each}" for each in objections(document.tree)]
    except UncheckableObjectError as problem:
        raise ScenarioError(f"{place_of(document)}: {problem}") from None


def new_pod(tree: Tree, known: Manifests, where: str) -> Pod:
    """A pod that is only a manifest yet, with the defaults that every API server sets. Raises `ScenarioError`."""
    fill_in_pod(tree, known, where)
    pod = read_object(Document(tree, where), PODS, Manifests())
    assert isinstance(pod, Pod)  # noqa: S101  that is the struct of PODS
    return pod


def merged(objects: ClusterObjects, more: Manifests) -> ClusterObjects:
    """The cluster with further objects; an object replaces another of the same name. Groups are not among them."""
    fields: dict[str, Any] = {
        plural: _replaced(getattr(objects, plural), more.objects.get(plural, ()))
        for plural in (*KINDS, *_PLURALS_OF_TOPOLOGIES)
    }
    fields["resourceclaimtemplates"] = _replaced(objects.resourceclaimtemplates, more.claim_templates)
    fields["persistentvolumeclaims"] = tuple(
        _with_default_class(claim, fields["storageclasses"]) for claim in fields["persistentvolumeclaims"]
    )
    return msgspec.structs.replace(objects, **fields)


def _replaced(before: Iterable[KubeObject], more: Iterable[KubeObject]) -> tuple[KubeObject, ...]:
    found = {obj.key: obj for obj in before}
    found.update((obj.key, obj) for obj in more)
    return tuple(found.values())


def _with_default_class(claim: PersistentVolumeClaim, classes: Iterable[StorageClass]) -> PersistentVolumeClaim:
    """The claim with the default class if it is new and names none, as the API server's admission does."""
    if claim.metadata.uid or claim.spec.storage_class_name is not None or claim.storage_class:
        return claim
    chosen = default_class(classes)
    if chosen is None:
        return claim
    spec = msgspec.structs.replace(claim.spec, storage_class_name=chosen.metadata.name)
    return msgspec.structs.replace(claim, spec=spec)
