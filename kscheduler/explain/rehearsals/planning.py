"""What a rehearsal is to be about, over the objects of a file or of a cluster."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from typing import Any, Final

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS
from kscheduler.api.meta import KubeObject
from kscheduler.assembly import group_apis
from kscheduler.explain.questions.as_if import locally_defaulted, merged
from kscheduler.explain.questions.membership import groups_not_followed, unfollowed
from kscheduler.explain.questions.serving import Serving
from kscheduler.explain.rehearsals.running_already import notes_on_running
from kscheduler.explain.text.printable import printable
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.state.pod_groups.group_apis import GroupAPI
from kscheduler.whatif.fields.unknown_fields import nearest
from kscheduler.whatif.files import named_files
from kscheduler.whatif.manifests import (
    CLAIM_TEMPLATE,
    KIND_BY_NAME,
    PRIORITY_CLASS,
    DefaultPod,
    Manifests,
    read_object,
    sorted_out,
)
from kscheduler.whatif.new_pods import WORKLOADS, NewPod, all_new_pods, misspelt_in_new, on_each_node, pods_wanted
from kscheduler.whatif.priority import SYSTEM_PRIORITIES, classes_of
from kscheduler.whatif.rehearsal.plan import HeldCluster, MoreNodes, NodeEdit, RehearsalPlan
from kscheduler.whatif.scenario import (
    ClusterObjects,
    Document,
    ScenarioError,
    names_of,
    no_object_in,
    nothing_in,
    read_objects,
)
from kscheduler.whatif.unreadable import LeftOut, notes_of, readable, unreadable_quantity

Tree = dict[str, Any]
MOST_NEW_PODS: Final = 20_000
"""Of one question."""
MOST_PROBLEMS: Final = 20
"""That are told of new objects, a line each."""


@dataclass(frozen=True, slots=True)
class NewObjectRules:
    """What new objects must be like."""

    default_pod: DefaultPod
    objections: Callable[[Tree], Sequence[str]]
    """What an API server would say against an object, each as `FIELD: TEXT`."""
    priorities: Mapping[str, Tree] | None = None
    """The PriorityClasses that are known, by name: others are refused. `None`: others are noted, and count as 0."""
    classes: Mapping[str, Tree] = field(default_factory=dict)
    """Where others are noted: those that are known, besides the ones that pods have."""


@dataclass(frozen=True, slots=True)
class NewObjects:
    """Manifests of what does not exist yet."""

    where: str
    """Where they come from, for messages."""
    documents: tuple[Document, ...]
    notes: tuple[str, ...] = ()
    """What was not read."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is asked."""

    new_objects: Sequence[NewObjects] = ()
    replicas: int | None = None
    namespace: str = "default"
    more_nodes: tuple[MoreNodes, ...] = ()
    gone_nodes: tuple[str, ...] = ()
    cordoned: tuple[str, ...] = ()
    drained: tuple[str, ...] = ()
    edits: tuple[NodeEdit, ...] = ()
    capacity: bool = False


def new_objects_of(given: Sequence[str]) -> list[NewObjects]:
    """The manifests of each file that the names stand for. Raises `ScenarioError`."""
    files, not_read = named_files(given)
    found = []
    for path in files:
        notes, not_read = not_read, []
        documents = read_objects([path], notes)
        if not documents:
            notes.append(no_object_in(path))
        for document in documents:
            refuse_too_many(document)
        found.append(NewObjects(path, tuple(documents), tuple(notes)))
    if found and not any(each.documents for each in found):
        nothing = "no object in it, only an empty file or list: give pods, or what makes pods"
        raise ScenarioError(f"{names_of(given)}: {nothing}")
    return found


def refuse_too_many(document: Document) -> None:
    """A workload's own count is bounded as `replicas` is: whoever made its pods would work on it until it is killed.

    Raises `ScenarioError`.
    """
    spec = document.tree.get("spec")
    if not isinstance(spec, dict):
        return
    for name in ("replicas", "parallelism"):
        count = spec.get(name)
        if isinstance(count, int) and not 0 <= count <= MOST_NEW_PODS:
            raise ScenarioError(f"{document.where}: spec.{name}: {count} is not from 0 to {MOST_NEW_PODS}")


def templates_in(news: Iterable[NewObjects], namespace: str) -> Iterator[tuple[str, str]]:
    """Namespace and name of each template that claims of the new pods are made from, and that is not among them."""
    documents = [document.tree for given in news for document in given.documents]
    given = {_place(tree, namespace) for tree in documents if tree.get("kind") == CLAIM_TEMPLATE}
    field = "resourceClaimTemplateName"
    named = [(_place(tree, namespace)[0], name) for tree in documents for name in _texts(tree, field)]
    yield from (place for place in dict.fromkeys(named) if place not in given)


def classes_for(news: Iterable[NewObjects], classes: Mapping[str, Tree]) -> Iterator[Tree]:
    """Of these PriorityClasses those that new pods name, or get by default, and that are not among the new objects."""
    documents = [document.tree for given in news for document in given.documents]
    given = {_place(tree, "")[1] for tree in documents if tree.get("kind") == PRIORITY_CLASS}
    named = {name for tree in documents for name in _texts(tree, "priorityClassName")}
    yield from (
        tree for name, tree in classes.items() if name not in given and (name in named or tree.get("globalDefault"))
    )


def _place(tree: Tree, namespace: str) -> tuple[str, str]:
    metadata = tree.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    return str(known.get("namespace") or namespace), str(known.get("name"))


def _texts(tree: Any, field: str) -> Iterator[str]:
    """What a field says in a pod, or in the pod template anywhere in an object."""
    if isinstance(tree, dict):
        text = tree.get(field)
        if text and isinstance(text, str):
            yield text
        for part in tree.values():
            yield from _texts(part, field)
    elif isinstance(tree, list):
        for part in tree:
            yield from _texts(part, field)


def cluster_of_file(given: Sequence[str], served: Serving, default_pod: DefaultPod) -> Manifests:
    """The objects that kubectl has printed into files. Raises `ScenarioError`."""
    notes: list[str] = []
    documents = read_objects(given, notes, served.config.gates)
    if not documents:
        raise nothing_in(given)
    found = sorted_out(documents, default_pod, apis=group_apis(served.config))
    found.notes[:0] = notes
    found.note_others()
    found.note_no_nodes(names_of(given))
    found.note_no_devices(names_of(given))
    return found


def planned(
    wishes: Wishes,
    objects: ClusterObjects,
    groups: Iterable[GroupDefinition],
    served: Serving,
    where: str,
    rules: NewObjectRules,
    running: HeldCluster | None = None,
    seconds: float = inf,
) -> tuple[RehearsalPlan, list[str]]:
    """The plan, and notes for the reader. Raises `ScenarioError`.

    `running`: a service's own cache, which holds these objects. `seconds`: how long it may be played.
    """
    ends_at = perf_counter() + seconds
    _refuse_what_a_server_would(wishes, rules)
    left_out: list[LeftOut] = []
    if running is None:  # whose cache has left them out
        objects, left_out = readable(objects)
    known = classes_of(objects.pods) | dict(rules.classes) if rules.priorities is None else dict(rules.priorities)
    added = Manifests(priority_classes=known)
    pods = _named_apart(_new_pods(wishes, objects, rules, added, seconds, group_apis(served.config)), objects)
    served = served.following(pod.spec.scheduler_name for pod in pods)
    cluster = merged(objects, added)
    if wishes.capacity and not pods:
        raise ScenarioError("capacity counts pods like the first new one: give one")
    plan = RehearsalPlan(
        objects=cluster,
        config=served.config,
        where=where,
        new_pods=tuple(pods),
        groups=(*groups, *added.groups),
        plugins=served.registry,
        more_nodes=wishes.more_nodes,
        given_nodes=_names(added.objects["nodes"]) - _names(objects.nodes),
        gone_nodes=wishes.gone_nodes,
        cordoned=wishes.cordoned,
        drained=wishes.drained,
        edits=wishes.edits,
        counts_capacity=wishes.capacity,
        running=running,
        seconds=ends_at - perf_counter(),
        left_out=tuple(each.name for each in left_out),
    )
    plan.nodes()
    concerned = [pod for pod in (*pods, *objects.pods) if not pod.is_terminal]
    notes = [
        *notes_of(left_out, where),
        *added.notes,
        *plan.without_effect(),
        *served.presumptions(),
        *_not_served(pods, served),
        *unfollowed(concerned, served.config),
        *groups_not_followed(added.groups, concerned, served.config),
    ]
    return plan, notes


def _new_pods(
    wishes: Wishes,
    objects: ClusterObjects,
    rules: NewObjectRules,
    added: Manifests,
    seconds: float,
    apis: Sequence[GroupAPI],
) -> list[Pod]:
    """The pods of all manifests, each with its copies; other objects go to `added`. Raises `ScenarioError`."""
    ends_at = perf_counter() + seconds
    pods: list[Pod] = []
    problems: list[str] = []
    for manifests in wishes.new_objects:
        news = list(_new_of(manifests, wishes, objects, added, rules.default_pod, apis, len(pods)))
        added.notes.extend(notes_on_running(news, objects))
        for new in news:
            unknown = "" if rules.priorities is None else _unknown_priority(new, added)
            if perf_counter() > ends_at:
                raise ScenarioError(
                    f"{new.where}: to make the new pods alone takes more than {seconds:.1f} s: ask for fewer"
                )
            pod = locally_defaulted(new, added, rules.default_pod)
            problems.extend(f"{new.where}: {problem}" for problem in (unknown, unreadable_quantity(pod)) if problem)
            pods.append(pod)
            pods.extend(_named(pod, name) for name in new.copies)
            added.notes.extend(new.notes)
    _refuse(problems)
    return pods


def _names(nodes: Iterable[KubeObject]) -> frozenset[str]:
    return frozenset(node.metadata.name for node in nodes)


def _refuse_what_a_server_would(wishes: Wishes, rules: NewObjectRules) -> None:
    """Raises `ScenarioError`."""
    named = rules.objections({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": wishes.namespace}})
    if named:
        raise ScenarioError(f"namespace: {named[0].removeprefix('metadata.name: ')}")
    for edit in wishes.edits:
        found = rules.objections(_as_node(edit))
        if found:
            raise ScenarioError(f"node {edit.node}: {'; '.join(found)}")
    _refuse(
        f"{_place_of(document)}: {objection}"
        for manifests in wishes.new_objects
        for document in manifests.documents
        for objection in rules.objections(document.tree)
    )


def _refuse(problems: Iterable[str]) -> None:
    """Raises `ScenarioError` with the problems, if there are any: each once, a bounded number."""
    lines = list(dict.fromkeys(problems))
    if lines:
        left_off = len(lines) - MOST_PROBLEMS
        more = [f"and {left_off} more"] if left_off > 0 else []
        raise ScenarioError("\n".join([*lines[:MOST_PROBLEMS], *more]))


def _place_of(document: Document) -> str:
    """`FILE: document 2 (Deployment web)`; nothing is known of the object yet."""
    return f"{document.where} ({_called(document)})"


def _called(document: Document) -> str:
    """Kind and name, as far as they are there."""
    metadata = document.tree.get("metadata")
    name = (metadata.get("name") or metadata.get("generateName")) if isinstance(metadata, dict) else None
    return printable(" ".join(str(word) for word in (document.tree.get("kind"), name) if word))


def _as_node(edit: NodeEdit) -> Tree:
    """A node with nothing but what is set."""
    labels = {key: value or "" for key, value in (edit.labels or {}).items()}
    tree: Tree = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": edit.node, "labels": labels}}
    if edit.taint is not None and not edit.removes_taint:
        tree["spec"] = {"taints": [msgspec.to_builtins(edit.taint)]}
    return tree


def _unknown_priority(new: NewPod, known: Manifests) -> str:
    """What is wrong with the pod's PriorityClass; empty if it is known."""
    name = new.tree["spec"].get("priorityClassName")
    if not name or new.tree["spec"].get("priority") is not None:
        return ""
    if name in known.priority_classes or name in SYSTEM_PRIORITIES:
        return ""
    hint = "no pod of the cluster has it: add the PriorityClass to the objects"
    return f"priorityClassName: no PriorityClass with name {name} is known; {hint}"


def _new_of(
    given: NewObjects,
    wishes: Wishes,
    objects: ClusterObjects,
    added: Manifests,
    default_pod: DefaultPod,
    apis: Sequence[GroupAPI],
    before: int,
) -> Iterable[NewPod]:
    """`before`: pods that other manifests make."""
    documents = list(given.documents)
    added.notes.extend(given.notes)
    for document in documents:
        added.notes.extend(misspelt_in_new(document))
    besides = [each for each in documents if each.tree.get("kind") != PODS.name]
    others = sorted_out(besides, default_pod, namespace=wishes.namespace, apis=apis, classes=added.priority_classes)
    others.note_others(WORKLOADS)
    added.notes.extend(others.notes)
    added.priority_classes |= others.priority_classes
    added.groups.extend(others.groups)
    added.claim_templates.extend(others.claim_templates)
    for plural, listed in others.objects.items():
        added.objects[plural].extend(listed)
    news: list[NewPod] = []
    node_names = sorted(node.metadata.name for node in objects.nodes)
    made = before
    for new in all_new_pods(documents, wishes.namespace, wishes.replicas):
        is_daemon = new.origin.startswith("DaemonSet")
        made += len(node_names) if is_daemon else 1 + len(new.copies)
        if made > MOST_NEW_PODS:  # before any is made: each takes memory
            raise ScenarioError(f"{new.where}: more than {MOST_NEW_PODS} new pods: ask for fewer")
        for document in new.besides:
            kind = KIND_BY_NAME[str(document.tree["kind"])]
            added.objects[kind.plural].append(read_object(document, kind, added, default_pod))
        if is_daemon:
            news.extend(on_each_node(new, node_names))
        else:
            news.append(new)
    if not news and not (any(others.objects.values()) or others.groups or others.claim_templates):
        raise ScenarioError(f"{given.where}: {_why_no_pods(documents, wishes.replicas)}")
    return news


def _why_no_pods(documents: Sequence[Document], replicas: int | None) -> str:
    """`no pod and nothing that makes pods: Deploymnet web (do you mean Deployment?)`."""
    found = []
    for document in documents[:MOST_PROBLEMS]:
        kind = str(document.tree.get("kind"))
        if kind in WORKLOADS and not pods_wanted(document.tree, replicas):
            found.append(f"{_called(document)} asks for 0 pods")
        else:
            near = "" if kind in KIND_BY_NAME else nearest(kind, (*WORKLOADS, *KIND_BY_NAME))
            found.append(f"{_called(document)}{f' (do you mean {near}?)' if near else ''}")
    named = f": {', '.join(found)}" if found else ""
    return f"no pod and nothing that makes pods{named}"


def _named(pod: Pod, name: str) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=name))


def _named_apart(pods: Sequence[Pod], objects: ClusterObjects) -> list[Pod]:
    """The pods with UIDs of their own. Raises `ScenarioError` for a name that is taken."""
    taken = {pod.key for pod in objects.pods}
    twice: list[Pod] = []
    for pod in pods:
        if pod.key in taken:
            twice.append(pod)
        taken.add(pod.key)
    _refuse(f"pod {pod.key} exists already: give the new one another name or namespace" for pod in twice)
    return [
        msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=f"new-{pod.key}"))
        for pod in pods
    ]


def _not_served(pods: Iterable[Pod], served: Serving) -> list[str]:
    others = sorted({pod.spec.scheduler_name for pod in pods} - set(served.names))
    names = ", ".join(served.names)
    return [f"new pods of scheduler {name} are left alone: served here is {names} ({served.source})" for name in others]
