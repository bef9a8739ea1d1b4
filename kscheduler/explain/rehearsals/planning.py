"""What a rehearsal is to be about, over the objects of a file or of a cluster."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from time import perf_counter
from typing import Any, Final

import msgspec

from kscheduler.api.core import Node, Pod
from kscheduler.api.kinds import PODS
from kscheduler.api.meta import KubeObject
from kscheduler.assembly import group_apis
from kscheduler.explain.questions.as_if import locally_defaulted, merged
from kscheduler.explain.questions.membership import groups_not_followed, unfollowed
from kscheduler.explain.questions.serving import Serving
from kscheduler.explain.rehearsals.running_already import RunningWorkloads
from kscheduler.explain.text.printable import printable
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.state.pod_groups.group_apis import GroupAPI
from kscheduler.whatif.fields.unknown_fields import nearest
from kscheduler.whatif.files import named_files
from kscheduler.whatif.known_kinds import known
from kscheduler.whatif.manifests import (
    CLAIM_TEMPLATE,
    KIND_BY_NAME,
    PRIORITY_CLASS,
    DefaultPod,
    Manifests,
    read_object,
    sorted_out,
)
from kscheduler.whatif.new_pods import NewPod, all_new_pods, misspelt_in_new, on_each_node
from kscheduler.whatif.priority import SYSTEM_PRIORITIES, classes_of
from kscheduler.whatif.rehearsal.plan import HeldCluster, MoreNodes, NodeEdit, RehearsalPlan
from kscheduler.whatif.scenario import (
    ClusterObjects,
    Document,
    ScenarioError,
    names_of,
    nothing_in,
    read_objects,
    source_name,
)
from kscheduler.whatif.unreadable import LeftOut, notes_of, readable, unreadable_quantity
from kscheduler.whatif.wanted_pods import WORKLOADS, counts_in, pods_wanted, why_none

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
    found, problems = list[NewObjects](), list[str]()
    for path in files:
        notes, not_read = not_read, []
        documents = read_objects([path], notes)
        for document in documents:
            refuse_too_many(document)
        try:
            found.append(new_objects(path, documents, notes))
        except ScenarioError as problem:  # the other files may do
            problems.append(str(problem))
    if problems and not found:
        raise ScenarioError("\n".join(problems))
    return [replace(each, notes=(*problems, *each.notes)) if each is found[0] else each for each in found]


def new_objects(where: str, documents: Sequence[Document], notes: Sequence[str] = ()) -> NewObjects:
    """The manifests of kinds that are known; others are noted. Raises `ScenarioError` if nothing is left of them."""
    if not documents:
        nothing = "no object in it, only an empty file or list: give pods, or what makes pods"
        raise ScenarioError("\n".join([*notes, f"{source_name(where)}: {nothing}"]))
    told: list[str] = []
    found = known(documents, told, are_new=True)
    if not found:
        raise ScenarioError("\n".join([f"{source_name(where)}: {_why_no_pods(documents, None)}", *told]))
    return NewObjects(where, tuple(found), (*notes, *told))


def refuse_too_many(document: Document) -> None:
    """A workload's own count is bounded as `replicas` is: whoever made its pods would work on it until it is killed.

    Raises `ScenarioError`.
    """
    for path, count in counts_in(document.tree).items():
        if isinstance(count, int) and not 0 <= count <= MOST_NEW_PODS and not path.endswith("completions"):
            raise ScenarioError(f"{document.where}: {path}: {count} is not from 0 to {MOST_NEW_PODS}")


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
    documents = known(documents, notes)
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
    wishes, unread = _what_a_server_would_take(wishes, rules)
    left_out: list[LeftOut] = []
    if running is None:  # whose cache has left them out
        objects, left_out = readable(objects)
    known = classes_of(objects.pods) | dict(rules.classes) if rules.priorities is None else dict(rules.priorities)
    added = Manifests(priority_classes=known)

    def nodes() -> tuple[Node, ...]:
        """As they would be at the beginning: a DaemonSet has pods on nodes that come, and none on those that go."""
        every = {node.metadata.name: node for node in (*objects.nodes, *added.cluster().nodes)}
        changed = msgspec.structs.replace(objects, nodes=tuple(every.values()))
        return _plan_of_nodes(wishes, changed, served, where).nodes()

    made = _new_pods(wishes, objects, rules, added, seconds, group_apis(served.config), nodes)
    pods = _named_apart(made, objects)
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
        *unread,
        *added.notes,
        *plan.without_effect(),
        *served.presumptions(where),
        *_not_served(pods, served),
        *unfollowed(concerned, served.config),
        *groups_not_followed(added.groups, concerned, served.config),
    ]
    return plan, notes


def _plan_of_nodes(wishes: Wishes, objects: ClusterObjects, served: Serving, where: str) -> RehearsalPlan:
    """What becomes of the nodes alone."""
    return RehearsalPlan(
        objects=objects,
        config=served.config,
        where=where,
        more_nodes=wishes.more_nodes,
        gone_nodes=wishes.gone_nodes,
        cordoned=wishes.cordoned,
        drained=wishes.drained,
        edits=wishes.edits,
    )


def _new_pods(
    wishes: Wishes,
    objects: ClusterObjects,
    rules: NewObjectRules,
    added: Manifests,
    seconds: float,
    apis: Sequence[GroupAPI],
    nodes: Callable[[], Sequence[Node]],
) -> list[Pod]:
    """The pods of all manifests, each with its copies; other objects go to `added`. Raises `ScenarioError`."""
    ends_at = perf_counter() + seconds
    pods: list[Pod] = []
    problems: list[str] = []
    makes_none: list[str] = []
    running = RunningWorkloads(objects)
    for manifests in wishes.new_objects:
        news = list(_new_of(manifests, wishes, added, rules.default_pod, apis, len(pods), nodes, running))
        on_running = list(running.notes_on(news))
        added.notes.extend(on_running)
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
        if not (news or on_running or any(_may_make_none(each.tree) for each in manifests.documents)):
            makes_none.append(f"{manifests.where}: {_why_no_pods(manifests.documents, wishes.replicas)}")
    _refuse(problems)
    if makes_none and not pods:
        if not (any(added.objects.values()) or added.groups or added.claim_templates):
            raise ScenarioError("\n".join(makes_none))
    elif len(wishes.new_objects) > 1:
        added.notes.extend(makes_none)
    return pods


def _may_make_none(tree: Tree) -> bool:
    """Whether the answer "no pods" is one about this object: no node suits a DaemonSet, a Job is suspended."""
    kind = tree.get("kind")
    return kind == "DaemonSet" or (kind in WORKLOADS and pods_wanted(tree) > 0 and why_none(tree) != "")


def _names(nodes: Iterable[KubeObject]) -> frozenset[str]:
    return frozenset(node.metadata.name for node in nodes)


def _what_a_server_would_take(wishes: Wishes, rules: NewObjectRules) -> tuple[Wishes, list[str]]:
    """The wishes without what cannot be read, and a note for each. Raises `ScenarioError` for what would be refused."""
    named = rules.objections({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": wishes.namespace}})
    if named:
        raise ScenarioError(f"namespace: {named[0].removeprefix('metadata.name: ')}")
    for edit in wishes.edits:
        found = rules.objections(_as_node(edit))
        if found:
            raise ScenarioError(f"node {edit.node}: {'; '.join(found)}")
    problems: list[str] = []
    unread: list[str] = []
    sound: list[NewObjects] = []
    for manifests in wishes.new_objects:
        documents = []
        for document in manifests.documents:
            try:
                problems += [f"{_place_of(document)}: {each}" for each in rules.objections(document.tree)]
                documents.append(document)
            except ScenarioError as problem:
                unread.append(f"{_place_of(document)}: {problem}")
        sound.append(replace(manifests, documents=tuple(documents)))
    _refuse(problems)
    if not unread:
        return wishes, []
    if not any(each.documents for each in sound):
        _refuse(unread)
    return replace(wishes, new_objects=sound), [f"{each}: it is left out" for each in unread]


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
    added: Manifests,
    default_pod: DefaultPod,
    apis: Sequence[GroupAPI],
    made_before: int,
    nodes: Callable[[], Sequence[Node]],
    running: RunningWorkloads,
) -> Iterable[NewPod]:
    """`made_before`: pods that other manifests make. `nodes`: as DaemonSets find them."""
    documents = list(given.documents)
    added.notes.extend(given.notes)
    for document in documents:
        added.notes.extend(misspelt_in_new(document))
        if wishes.replicas is None and document.tree.get("kind") in WORKLOADS:
            added.notes.extend(_makes_no_pods(document))
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
    made = made_before
    for new in all_new_pods(documents, wishes.namespace, wishes.replicas):
        if running.is_there(new):  # before its claims, which are there, too
            continue
        for document in new.besides:
            kind = KIND_BY_NAME[str(document.tree["kind"])]
            added.objects[kind.plural].append(read_object(document, kind, added, default_pod))
        is_daemon = new.workload is not None and new.workload[0] == "DaemonSet"
        before = len(news)
        for each in on_each_node(new, nodes()) if is_daemon else (new,):
            if is_daemon and running.is_there(each):
                continue
            made += 1 + len(each.copies)
            if made > MOST_NEW_PODS:  # before any is made of a manifest: each takes memory
                raise ScenarioError(f"{new.where}: more than {MOST_NEW_PODS} new pods: ask for fewer")
            news.append(each)
        if len(news) == before:  # whose notes come with them
            added.notes.extend(new.notes)
    return news


def _makes_no_pods(document: Document) -> Iterator[str]:
    """A note on a workload whose controller makes no pods, with the way to see all the same where they would go."""
    reason = why_none(document.tree)
    if reason:
        count = pods_wanted(document.tree) or "N"
        yield f"{_called(document)} makes no pods as it stands: {reason}; with --replicas {count} they are tried"


def _why_no_pods(documents: Sequence[Document], replicas: int | None) -> str:
    """`no pod and nothing that makes pods: Deploymnet web (do you mean Deployment?)`."""
    found = []
    for document in documents[:MOST_PROBLEMS]:
        kind = str(document.tree.get("kind"))
        if kind in WORKLOADS and not pods_wanted(document.tree, replicas):
            found.append(f"{_called(document)} asks for 0 pods (--replicas N tries some)")
        else:
            near = "" if kind in KIND_BY_NAME or kind in WORKLOADS else nearest(kind, (*WORKLOADS, *KIND_BY_NAME))
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
