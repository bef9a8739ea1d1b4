"""What the flags of `kscheduler simulate` ask for, over the objects of a file or of a live cluster."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from kscheduler.api.core import Pod, Taint
from kscheduler.api.kinds import PODS
from kscheduler.explain.questions.as_if import locally_defaulted, merged
from kscheduler.explain.questions.serving import Serving
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.whatif.manifests import KIND_BY_NAME, DefaultPod, Manifests, read_object, sorted_out
from kscheduler.whatif.new_pods import NewPod, all_new_pods, on_each_node
from kscheduler.whatif.rehearsal.plan import MoreNodes, NodeEdit, RehearsalPlan
from kscheduler.whatif.scenario import ClusterObjects, Document, ScenarioError, read_source

_TAINT: Final = re.compile(r"(?P<key>[^=:-][^=:]*?)(=(?P<value>[^:]*))?:(?P<effect>[A-Za-z]+)(?P<removes>-?)")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Wishes:
    """The flags, as they were given."""

    manifests: Sequence[str] = ()
    replicas: int | None = None
    namespace: str = "default"
    add_nodes: Sequence[str] = ()
    """Each `COUNT:NODE`."""
    remove_nodes: Sequence[str] = ()
    cordon: Sequence[str] = ()
    drain: Sequence[str] = ()
    labels: Sequence[str] = ()
    """Each `NODE:KEY=VALUE`, or `NODE:KEY-`."""
    taints: Sequence[str] = ()
    """Each `NODE:KEY=VALUE:EFFECT`, or with a minus sign at its end."""
    capacity: bool = False


def cluster_of_file(path: str, served: Serving, default_pod: DefaultPod) -> Manifests:
    """The objects that kubectl has printed into a file. Raises `ScenarioError`."""
    documents: list[Document] = []
    for document in read_source(path, served.config.gates):
        if not isinstance(document, Document):
            raise ScenarioError(f"{document.where}: a scenario where Kubernetes objects were expected")
        documents.append(document)
    found = sorted_out(documents, default_pod)
    found.note_others()
    return found


def planned(
    wishes: Wishes,
    objects: ClusterObjects,
    groups: Iterable[GroupDefinition],
    served: Serving,
    where: str,
    default_pod: DefaultPod,
) -> tuple[RehearsalPlan, list[str]]:
    """The plan, and notes for the reader. Raises `ScenarioError`."""
    added = Manifests()
    pods: list[Pod] = []
    for path in wishes.manifests:
        for new in _new_of(path, wishes, objects, added, default_pod):
            pod = locally_defaulted(new, added, default_pod)
            pods.append(pod)
            added.notes.extend(new.notes)
    pods = _named_apart(pods, objects)
    cluster = merged(objects, added)
    if wishes.capacity and not pods:
        raise ScenarioError("--capacity counts pods like the first of -f FILE: give one")
    plan = RehearsalPlan(
        objects=cluster,
        config=served.config,
        where=where,
        new_pods=tuple(pods),
        groups=tuple(groups),
        plugins=served.registry,
        more_nodes=tuple(map(_more_nodes, wishes.add_nodes)),
        gone_nodes=tuple(wishes.remove_nodes),
        cordoned=tuple(wishes.cordon),
        drained=tuple(wishes.drain),
        edits=(*map(_label, wishes.labels), *map(_taint, wishes.taints)),
        capacity_of=pods[0] if wishes.capacity else None,
    )
    plan.nodes()
    notes = [*added.notes, *_not_served(pods, served)]
    return plan, notes


def _new_of(
    path: str, wishes: Wishes, objects: ClusterObjects, added: Manifests, default_pod: DefaultPod
) -> Iterable[NewPod]:
    documents: list[Document] = []
    for document in read_source(path):
        if not isinstance(document, Document):
            raise ScenarioError(f"{document.where}: a scenario where a Kubernetes object was expected")
        documents.append(document)
    others = sorted_out([each for each in documents if each.tree.get("kind") != PODS.name], default_pod)
    added.priority_classes |= others.priority_classes
    added.groups.extend(others.groups)
    for plural, listed in others.objects.items():
        added.objects[plural].extend(listed)
    news: list[NewPod] = []
    for new in all_new_pods(documents, wishes.namespace, wishes.replicas):
        for document in new.besides:
            kind = KIND_BY_NAME[str(document.tree["kind"])]
            added.objects[kind.plural].append(read_object(document, kind, added, default_pod))
        is_of_each_node = new.origin.startswith("DaemonSet")
        names = sorted(node.metadata.name for node in objects.nodes)
        news.extend(on_each_node(new, names) if is_of_each_node else [new])
    if not news and not others.objects["nodes"]:
        raise ScenarioError(f"{path}: no pod and nothing that makes pods")
    return news


def _named_apart(pods: Sequence[Pod], objects: ClusterObjects) -> list[Pod]:
    """The pods with UIDs of their own. Raises `ScenarioError` for a name that is taken."""
    taken = {pod.key for pod in objects.pods}
    for pod in pods:
        if pod.key in taken:
            raise ScenarioError(f"pod {pod.key} exists already: give the new one another name or namespace")
        taken.add(pod.key)
    return [
        msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=f"new-{pod.key}"))
        for pod in pods
    ]


def _not_served(pods: Iterable[Pod], served: Serving) -> list[str]:
    others = sorted({pod.spec.scheduler_name for pod in pods} - set(served.names))
    names = ", ".join(served.names)
    return [f"new pods of scheduler {name} are left alone: served here is {names} ({served.source})" for name in others]


def _more_nodes(text: str) -> MoreNodes:
    count, colon, like = text.partition(":")
    if not (colon and like and count.isdigit() and int(count)):
        raise ScenarioError(f"--add-nodes {text}: COUNT:NODE was expected, such as 3:node-7")
    return MoreNodes(int(count), like)


def _label(text: str) -> NodeEdit:
    node, colon, label = text.partition(":")
    key, equals, value = label.partition("=")
    if not (node and colon and key) or (not equals and not key.endswith("-")):
        raise ScenarioError(f"--label-node {text}: NODE:KEY=VALUE or NODE:KEY- was expected")
    return NodeEdit(node, labels={key: value} if equals else {key.removesuffix("-"): None})


def _taint(text: str) -> NodeEdit:
    node, colon, taint = text.partition(":")
    found = _TAINT.fullmatch(taint)
    if not (node and colon) or found is None or found["effect"] not in _EFFECTS:
        effects = ", ".join(_EFFECTS)
        raise ScenarioError(f"--taint-node {text}: NODE:KEY=VALUE:EFFECT was expected, with one of {effects}")
    chosen = Taint(key=found["key"], value=found["value"] or "", effect=found["effect"])
    return NodeEdit(node, taint=chosen, removes_taint=bool(found["removes"]))
