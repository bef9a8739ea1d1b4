"""New pods: from the manifest of a pod, or of a workload whose controller would create them.

Of a workload's pods the first is explained. It gets what its controller would add, as far as a scheduler reads it:
the owner, whose selector default spreading uses, a StatefulSet's claims, a DaemonSet's tolerations. The owner is a
ReplicaSet for a Deployment, as in a real cluster.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from kscheduler.api.codec import UndecodableError, convert
from kscheduler.api.core import Node, Pod
from kscheduler.api.names import generated_name
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.fields import misspelt
from kscheduler.scenario.object_files import Document
from kscheduler.scenario.workload_fields import FIELDS
from kscheduler.scenario.workload_pods import bound_to, daemon_fit, stateful_labels, tolerate_as_daemon

# How many pods a workload's controller would make of a manifest, and why it may make none.
#
# The problem: a Job that is created suspended, as every Job of Kueue is, makes no pods until somebody resumes it.
# Counting `parallelism` alone, the answer would be "4 pods would get a node".
#
# The idea: the fields that keep a controller from making pods, by kind, beside those that count them. A question about
# such a workload may still be meant as "where would they go": `replicas` of the question says how many, whatever the
# manifest says.

Tree = dict[str, Any]

# Kinds that create pods, with the path of their pod template.
WORKLOADS: Final = {
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
}
_JOBS: Final = ("Job", "CronJob")
_JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
_COUNTS: Final = ("replicas", "parallelism", "completions")


def counts_in(tree: Tree) -> dict[str, Any]:
    """What a workload says of the number of its pods, by the path of the field."""
    path, spec = _counting_spec(tree)
    return {f"{path}.{name}": spec[name] for name in _COUNTS if spec.get(name) is not None}


def pods_wanted(tree: Tree, replicas: int | None = None) -> int:
    """How many pods a workload is to have at a time, if its controller makes some; of a DaemonSet, on a node.

    Of a Job those that it begins with: as many as run side by side, and no more than are to complete.
    `replicas`: whatever its manifest says.
    """
    kind = str(tree.get("kind"))
    if kind == "DaemonSet":
        return 1
    if replicas is not None:
        return replicas
    _, spec = _counting_spec(tree)
    if kind not in _JOBS:
        return _count(spec.get("replicas"))
    parallelism, completions = _count(spec.get("parallelism")), spec.get("completions")
    return parallelism if completions is None else min(parallelism, _count(completions))


def why_none(tree: Tree) -> str:
    """Why the controller of a workload makes no pods of this manifest as it stands; empty: it makes some.

    A DaemonSet has no number; whether any node is right for it is not asked here.
    """
    kind = str(tree.get("kind"))
    spec = _mapping(tree.get("spec"))
    if kind in _JOBS and spec.get("suspend") is True:
        return "it is suspended (spec.suspend: true)"
    path, job = _counting_spec(tree)
    if kind == "CronJob" and job.get("suspend") is True:
        return f"its Jobs are made suspended ({path}.suspend: true)"
    manager = job.get("managedBy")
    if kind in _JOBS and manager and manager != _JOB_CONTROLLER:
        return f"the Job controller leaves it to {manager} ({path}.managedBy)"
    if kind == "Deployment" and spec.get("paused") is True:
        return "it is paused (spec.paused: true)"
    if not pods_wanted(tree):
        zero = next(name for name, count in counts_in(tree).items() if count == 0)
        return f"it asks for 0 pods ({zero}: 0)"
    return ""


def _counting_spec(tree: Tree) -> tuple[str, Tree]:
    """The part of a workload that counts its pods, with its path: a CronJob's Jobs do it."""
    spec = _mapping(tree.get("spec"))
    if tree.get("kind") == "CronJob":
        return "spec.jobTemplate.spec", _mapping(_mapping(spec.get("jobTemplate")).get("spec"))
    return "spec", spec


def _count(value: Any) -> int:
    """A number of pods; what is not set, or cannot be one, counts as 1."""
    return value if isinstance(value, int) and value >= 0 else 1


def _mapping(value: Any) -> Tree:
    return value if isinstance(value, dict) else {}


_APPS: Final = "apps/v1"
_BATCH: Final = "batch/v1"
# What the UIDs of pods begin with that only a simulation has.
_SIMULATED: Final = "new-"


@dataclass(slots=True)
class NewPod:
    """A new pod to explain."""

    tree: Tree
    origin: str
    """The object it comes from: `Deployment default/web (the first of 3 pods)`."""
    where: str
    accompanying: list[Document] = field(default_factory=list)
    """Objects that would be created with it: its owner, its claims."""
    notes: list[str] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)
    """Names of further pods that are alike but for their names."""
    workload: tuple[str, str, str] | None = None
    """What makes it, as kind, namespace and name; `None`: it has a manifest of its own."""
    source: Document | None = None
    """The manifest that it was made of."""
    node: str = ""
    """Of a DaemonSet: the only node that it may go to."""


def simulated(pod: Pod) -> Pod:
    """The pod as a simulation has it: with a UID of its own that no API server gives."""
    metadata = msgspec.structs.replace(pod.metadata, uid=f"{_SIMULATED}{pod.key}")
    return msgspec.structs.replace(pod, metadata=metadata)


def is_simulated(pod: Pod) -> bool:
    """Whether the pod was new in a simulation, or is made again there in place of one: no cluster has it."""
    uid = pod.metadata.uid
    return uid.startswith(_SIMULATED) and "/" in uid


def new_pods(documents: list[Document], namespace: str) -> Iterator[NewPod]:
    """The pods of some documents; documents of other kinds are ignored. Raises `ScenarioError`."""
    for document in documents:
        kind = str(document.tree.get("kind"))
        if kind == "Pod":
            tree = _placed_in(deepcopy(document.tree), namespace, document.where)
            yield NewPod(tree, "its manifest", document.where, source=document)
        elif kind in WORKLOADS:
            yield _of_workload(document, kind, namespace)


def misspelt_in_new(document: Document) -> Iterator[str]:
    """A note for each misspelt field of a pod, or of what makes pods; of other kinds `read_object` tells them."""
    kind = str(document.tree.get("kind"))
    fields = FIELDS.get(kind)
    for problem in misspelt(document.tree, fields) if fields is not None else ():
        if problem.partition(" ")[0] not in ("apiVersion", "kind"):  # which no struct has
            yield f"{document.where} ({kind}): {problem}"


def all_new_pods(documents: list[Document], namespace: str, replicas: int | None = None) -> Iterator[NewPod]:
    """Every pod that the documents would make: as many as their workloads want, or `replicas` of each.

    Of a workload that makes none as it stands, a suspended Job say, there are `replicas`, or none. Pods that differ in
    nothing but their names come as one with `copies`: thousands of replicas are one manifest. A DaemonSet yields one;
    `on_each_node` makes the others. Raises `ScenarioError`.
    """
    for document in documents:
        kind = str(document.tree.get("kind"))
        if kind == "Pod":
            count = 1 if replicas is None else replicas
            tree = _placed_in(deepcopy(document.tree), namespace, document.where)
            name = tree["metadata"]["name"]
            yield NewPod(tree, "its manifest", document.where, copies=[f"{name}-{nth}" for nth in range(1, count)])
        elif kind in WORKLOADS and (replicas is not None or not why_none(document.tree)):
            yield from _pods_of_workload(document, kind, namespace, pods_wanted(document.tree, replicas))


def others_like(new: NewPod, most: int) -> Iterator[NewPod]:
    """The other pods that the manifest of a first pod makes, or would make if its controller made some.

    Raises `ScenarioError` if that is more than `most`.
    """
    if new.source is None or new.workload is None:
        return
    tree = new.source.tree
    count = pods_wanted(tree)
    if count > most:
        whose = new.origin.partition(" (")[0]
        raise ScenarioError(f"{new.where}: {whose} asks for {count} pods: at most {most} are judged with their group")
    kind, namespace, _ = new.workload
    for other in _pods_of_workload(new.source, kind, namespace, count):
        if other.tree["metadata"]["name"] != new.tree["metadata"]["name"]:
            yield other
        for name in other.copies:
            yield replace(other, tree={**other.tree, "metadata": {**other.tree["metadata"], "name": name}}, copies=[])


def on_each_node(new: NewPod, nodes: Sequence[Node]) -> Iterator[NewPod]:
    """A DaemonSet's pods: one for each node that its controller makes one for, which may go to that node alone.

    Raises `ScenarioError` for a template that cannot be read.
    """
    try:
        daemon = convert(new.tree, Pod)
    except UndecodableError as error:
        raise ScenarioError(f"{new.where}: {error}") from None
    chosen = [node.metadata.name for node in nodes if daemon_fit(daemon, node).should_run]
    if len(chosen) < len(nodes):
        new.notes.append(
            f"{new.origin.partition(' (')[0]}: a pod on {len(chosen)} of {len(nodes)} nodes; of the others it does not "
            "tolerate a taint, or its selector or affinity leaves them out"
        )
    for name in chosen:
        tree = deepcopy(new.tree)
        tree["metadata"]["name"] = f"{new.tree['metadata']['name']}-{name}"
        tree["spec"]["affinity"] = bound_to(name, tree["spec"].get("affinity") or {})
        yield NewPod(tree, new.origin, new.where, new.accompanying, new.notes, workload=new.workload, node=name)


def _pods_of_workload(document: Document, kind: str, namespace: str, count: int) -> Iterator[NewPod]:
    if kind == "StatefulSet":  # each has a label and claims of its own
        yield from (_of_workload(document, kind, namespace, ordinal) for ordinal in range(count))
    elif count:
        first = _of_workload(document, kind, namespace)
        name = document.tree["metadata"].get("name") or generated_name(document.tree["metadata"]["generateName"], "new")
        first.copies = [_name_of(name, kind, ordinal) for ordinal in range(1, count)]
        yield first


def _of_workload(document: Document, kind: str, namespace: str, ordinal: int = 0) -> NewPod:
    tree = _placed_in(deepcopy(document.tree), namespace, document.where)
    meta, where = tree["metadata"], f"{document.where} ({kind} {tree['metadata']['name']})"
    template = _part(tree, WORKLOADS[kind], where)
    template_meta = template.get("metadata") or {}
    if not isinstance(template_meta, dict) or not isinstance(template.get("spec"), dict):
        raise ScenarioError(f"{where}: {'.'.join((*WORKLOADS[kind], 'spec'))}: is missing")
    pod: Tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": _name_of(meta["name"], kind, ordinal),
            "namespace": meta["namespace"],
            "labels": template_meta.get("labels") or {},
            "annotations": template_meta.get("annotations") or {},
        },
        "spec": deepcopy(template["spec"]),
    }
    origin = f"{kind} {meta['namespace']}/{meta['name']}{_how_many(tree, kind)}"
    new = NewPod(pod, origin, where, workload=(kind, meta["namespace"], meta["name"]), source=document)
    reason = why_none(document.tree)
    if reason:
        whose = f"{kind} {meta['namespace']}/{meta['name']}"
        new.notes.append(f"{whose} makes no pods as it stands: {reason}; this is where they would go if it did")
    _add_controller_fields(new, tree, kind, ordinal)
    return new


def _name_of(name: str, kind: str, ordinal: int) -> str:
    if kind == "StatefulSet":
        return f"{name}-{ordinal}"
    return f"{name}-new-{ordinal}" if ordinal else f"{name}-new"


def _how_many(tree: Tree, kind: str) -> str:
    if kind == "DaemonSet":
        return " (one pod on each node that it fits on)"
    count = pods_wanted(tree)
    return f" (the first of {count} pods)" if count > 1 else ""


def _add_controller_fields(new: NewPod, tree: Tree, kind: str, ordinal: int) -> None:
    meta, spec = tree["metadata"], tree.get("spec") or {}
    match kind:
        case "Deployment" | "ReplicaSet":
            _add_owner(new, _APPS, "ReplicaSet", meta, spec)
        case "StatefulSet":
            _add_owner(new, _APPS, "StatefulSet", meta, spec)
            pod = new.tree["metadata"]
            pod["labels"] = {**pod["labels"], **stateful_labels(pod["name"], ordinal)}
            _add_claims(new, spec.get("volumeClaimTemplates") or [])
        case "ReplicationController":
            _add_owner(new, "v1", "ReplicationController", meta, spec)
        case "DaemonSet":
            _set_owner(new, _APPS, "DaemonSet", meta["name"], meta)
            tolerate_as_daemon(new.tree["spec"])
        case "Job":
            _set_owner(new, _BATCH, "Job", meta["name"], meta)
        case "CronJob":  # whose Jobs have names of their own
            _set_owner(new, _BATCH, "Job", f"{meta['name']}-new", meta)


def _add_owner(new: NewPod, api_version: str, kind: str, meta: Tree, spec: Tree) -> None:
    """Add an owner with a name of its own, since an existing object of its name is another version."""
    name = f"{meta['name']} (new)"
    uid = _set_owner(new, api_version, kind, name, meta)
    owner_meta = {"name": name, "namespace": meta["namespace"], "uid": uid}
    body = {"apiVersion": api_version, "kind": kind, "metadata": owner_meta, "spec": {"selector": spec.get("selector")}}
    new.accompanying.append(Document(body, new.where))


def _set_owner(new: NewPod, api_version: str, kind: str, name: str, meta: Tree) -> str:
    """Name what makes the pod, and makes it again when it is evicted; returns the owner's UID."""
    uid = f"new-{meta['name']}"
    owner = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}
    new.tree["metadata"]["ownerReferences"] = [owner]
    return uid


def _add_claims(new: NewPod, templates: Any) -> None:
    """Add a claim per template, named after the pod, and the volume that uses it."""
    volumes = list(new.tree["spec"].get("volumes") or [])
    for template in templates if isinstance(templates, list) else []:
        body = deepcopy(template)
        name = str((body.get("metadata") or {}).get("name", ""))
        claim_name = f"{name}-{new.tree['metadata']['name']}"
        namespace = new.tree["metadata"]["namespace"]
        claim_meta = {**(body.get("metadata") or {}), "name": claim_name, "namespace": namespace}
        body |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": claim_meta}
        new.accompanying.append(Document(body, new.where))
        volumes = [volume for volume in volumes if volume.get("name") != name]
        volumes.append({"name": name, "persistentVolumeClaim": {"claimName": claim_name}})
    new.tree["spec"]["volumes"] = volumes


def _part(tree: Tree, path: tuple[str, ...], where: str) -> Tree:
    found: Any = tree
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        raise ScenarioError(f"{where}: {'.'.join(path)}: is missing")
    return found


def _placed_in(tree: Tree, namespace: str, where: str) -> Tree:
    """The tree with a namespace and a name. Raises `ScenarioError`."""
    metadata = tree.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise ScenarioError(f"{where}: metadata: expected an object")
    metadata["namespace"] = metadata.get("namespace") or namespace
    if not metadata.get("name"):
        prefix = metadata.get("generateName")
        if not prefix:
            raise ScenarioError(f"{where}: metadata.name: is missing")
        metadata["name"] = generated_name(prefix, "new")
    return tree
