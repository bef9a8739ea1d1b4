"""What a simulation is to be about, over the objects of a file or of a cluster."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from time import perf_counter
from typing import Any, Final

import msgspec

from kscheduler.api.core import Node, Pod
from kscheduler.api.kinds import PODS
from kscheduler.api.meta import KubeObject
from kscheduler.api.new_objects import objections
from kscheduler.api.priority import classes_of
from kscheduler.assembly import group_apis
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.scenario.absent import NOTHING_ABSENT, Absent
from kscheduler.scenario.errors import ScenarioError, refuse
from kscheduler.scenario.manifests import (
    KIND_BY_NAME,
    NO_CLASSES,
    Manifests,
    merged,
    new_pod,
    objections_to,
    read_object,
    sorted_out,
)
from kscheduler.scenario.membership import groups_not_followed, unfollowed
from kscheduler.scenario.new_pods import WORKLOADS, NewPod, all_new_pods, misspelt_in_new, on_each_node, simulated
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scenario.serving import Serving
from kscheduler.scenario.unreadable import LeftOut, notes_of, readable, unreadable_quantity
from kscheduler.simulate.requested_changes import (
    MAX_NEW_PODS,
    NewObjects,
    RequestedChanges,
    makes_no_pods,
    may_make_none,
    why_no_pods,
)
from kscheduler.simulate.requested_nodes import NodeEdit
from kscheduler.simulate.running_already import RunningWorkloads
from kscheduler.simulate.simulation_plan import HeldCluster, SimulationPlan
from kscheduler.state.group_apis import GroupAPI
from kscheduler.text import pods as pods_text

Tree = dict[str, Any]
# Scheduler names that a note counts pods of: anyone who creates a pod may write a new one.
MAX_NAMES: Final = 5


def planned(
    requested_changes: RequestedChanges,
    objects: ClusterObjects,
    groups: Iterable[GroupDefinition],
    served: Serving,
    where: str,
    classes: Mapping[str, Tree] = NO_CLASSES,
    running: HeldCluster | None = None,
    seconds: float = inf,
    more_pods: Sequence[Pod] = (),
    absent: Absent = NOTHING_ABSENT,
) -> tuple[SimulationPlan, list[str]]:
    """The plan, and notes for the reader. Raises `ScenarioError`.

    `more_pods`: new pods that are no manifests, each with its copies; they come after those of manifests.

    `classes`: the PriorityClasses that are known, by name. `running`: a service's own cache, which holds these objects.
    `seconds`: how long it may be played. `absent`: what the live cluster does not have.
    """
    ends_at = perf_counter() + seconds
    requested_changes, unread = _what_a_server_would_take(requested_changes)
    left_out: list[LeftOut] = []
    if running is None:  # whose cache has left them out
        objects, left_out = readable(objects)
    added = Manifests(priority_classes={**classes_of(objects.pods), **classes})

    def nodes() -> tuple[Node, ...]:
        """As they would be at the beginning: a DaemonSet has pods on nodes that come, and none on those that go."""
        every = {node.metadata.name: node for node in (*objects.nodes, *added.cluster().nodes)}
        changed = msgspec.structs.replace(objects, nodes=tuple(every.values()))
        return _plan_of_nodes(requested_changes, changed, served, where).nodes()

    made = _new_pods(requested_changes, objects, added, seconds, group_apis(served.config), nodes)
    pods = _named_apart([*made, *_with_copies(more_pods, requested_changes.replicas, len(made))], objects)
    served = served.following(pod.spec.scheduler_name for pod in pods)
    cluster = merged(objects, added)
    if requested_changes.capacity and not pods:
        raise ScenarioError("capacity counts pods like the first new one: give one")
    plan = SimulationPlan(
        objects=cluster,
        config=served.config,
        where=where,
        new_pods=tuple(pods),
        groups=(*groups, *added.groups),
        plugins=served.registry,
        more_nodes=requested_changes.more_nodes,
        given_nodes=_names(added.objects["nodes"]) - _names(objects.nodes),
        gone_nodes=requested_changes.gone_nodes,
        cordoned=requested_changes.cordoned,
        drained=requested_changes.drained,
        edits=requested_changes.edits,
        counts_capacity=requested_changes.capacity,
        running=running,
        absent=absent.beside(cluster, added.missing_groups),
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
        *_pending_not_served(objects.pods, served),
        *unfollowed(concerned, served.config),
        *groups_not_followed(added.groups, concerned, served.config),
    ]
    return plan, notes


def _plan_of_nodes(
    requested_changes: RequestedChanges, objects: ClusterObjects, served: Serving, where: str
) -> SimulationPlan:
    """What becomes of the nodes alone."""
    return SimulationPlan(
        objects=objects,
        config=served.config,
        where=where,
        more_nodes=requested_changes.more_nodes,
        gone_nodes=requested_changes.gone_nodes,
        cordoned=requested_changes.cordoned,
        drained=requested_changes.drained,
        edits=requested_changes.edits,
    )


def _new_pods(
    requested_changes: RequestedChanges,
    objects: ClusterObjects,
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
    for manifests in requested_changes.new_objects:
        news = list(_new_of(manifests, requested_changes, added, apis, len(pods), nodes, running))
        on_running = list(running.notes_on(news))
        added.notes.extend(on_running)
        for new in news:
            if perf_counter() > ends_at:
                raise ScenarioError(
                    f"{new.where}: to make the new pods alone takes more than {seconds:.1f} s: ask for fewer"
                )
            pod = new_pod(new.tree, added, new.where)
            problem = unreadable_quantity(pod)
            problems += [f"{new.where}: {problem}"] if problem else []
            pods.append(pod)
            pods.extend(_named(pod, name) for name in new.copies)
            added.notes.extend(new.notes)
        if not (news or on_running or any(map(may_make_none, manifests.documents))):
            makes_none.append(f"{manifests.where}: {why_no_pods(manifests.documents, requested_changes.replicas)}")
    refuse(problems)
    if makes_none and not pods:
        if not (any(added.objects.values()) or added.groups or added.claim_templates):
            raise ScenarioError("\n".join(makes_none))
    elif len(requested_changes.new_objects) > 1:
        added.notes.extend(makes_none)
    return pods


def _names(nodes: Iterable[KubeObject]) -> frozenset[str]:
    return frozenset(node.metadata.name for node in nodes)


def _what_a_server_would_take(
    requested_changes: RequestedChanges,
) -> tuple[RequestedChanges, list[str]]:
    """The requested changes without what cannot be read, and a note for each.

    Raises `ScenarioError` for what would be refused.
    """
    named = objections({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": requested_changes.namespace}})
    if named:
        raise ScenarioError(f"namespace: {named[0].removeprefix('metadata.name: ')}")
    for edit in requested_changes.edits:
        found = objections(_as_node(edit))
        if found:
            raise ScenarioError(f"node {edit.node}: {'; '.join(found)}")
    problems: list[str] = []
    unread: list[str] = []
    sound: list[NewObjects] = []
    for manifests in requested_changes.new_objects:
        documents = []
        for document in manifests.documents:
            try:
                problems += objections_to(document)
                documents.append(document)
            except ScenarioError as problem:
                unread.append(str(problem))
        sound.append(replace(manifests, documents=tuple(documents)))
    refuse(problems)
    if not unread:
        return requested_changes, []
    if not any(each.documents for each in sound):
        refuse(unread)
    return replace(requested_changes, new_objects=sound), [f"{each}: it is left out" for each in unread]


def _as_node(edit: NodeEdit) -> Tree:
    """A node with nothing but what is set."""
    labels = {key: value or "" for key, value in (edit.labels or {}).items()}
    tree: Tree = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": edit.node, "labels": labels}}
    if edit.taint is not None and not edit.removes_taint:
        tree["spec"] = {"taints": [msgspec.to_builtins(edit.taint)]}
    return tree


def _new_of(
    given: NewObjects,
    requested_changes: RequestedChanges,
    added: Manifests,
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
        if requested_changes.replicas is None and (note := makes_no_pods(document)):
            added.notes.append(note)
    not_pods = [each for each in documents if each.tree.get("kind") != PODS.name]
    others = sorted_out(not_pods, namespace=requested_changes.namespace, apis=apis, classes=added.priority_classes)
    others.note_others(WORKLOADS)
    added.notes.extend(others.notes)
    added.priority_classes |= others.priority_classes
    added.groups.extend(others.groups)
    added.missing_groups |= others.missing_groups
    added.claim_templates.extend(others.claim_templates)
    for plural, listed in others.objects.items():
        added.objects[plural].extend(listed)
    news: list[NewPod] = []
    made = made_before
    for new in all_new_pods(documents, requested_changes.namespace, requested_changes.replicas):
        if running.is_there(new):  # before its claims, which are there, too
            continue
        for document in new.accompanying:
            kind = KIND_BY_NAME[str(document.tree["kind"])]
            added.objects[kind.plural].append(read_object(document, kind, added))
        is_daemon = new.workload is not None and new.workload[0] == "DaemonSet"
        before = len(news)
        for each in on_each_node(new, nodes()) if is_daemon else (new,):
            if is_daemon and running.is_there(each):
                continue
            made += 1 + len(each.copies)
            if made > MAX_NEW_PODS:  # before any is made of a manifest: each takes memory
                raise ScenarioError(f"{new.where}: more than {MAX_NEW_PODS} new pods: ask for fewer")
            news.append(each)
        if len(news) == before:  # whose notes come with them
            added.notes.extend(new.notes)
    return news


def _with_copies(pods: Sequence[Pod], replicas: int | None, made_before: int) -> Iterator[Pod]:
    """The pods, `replicas` of each, named as copies of a manifest are. Raises `ScenarioError` if they are too many."""
    count = 1 if replicas is None else replicas
    if made_before + len(pods) * count > MAX_NEW_PODS:
        raise ScenarioError(f"more than {MAX_NEW_PODS} new pods: ask for fewer")
    for pod in pods:
        yield pod
        yield from (_named(pod, f"{pod.metadata.name}-{number}") for number in range(1, count))


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
    refuse(f"pod {pod.key} exists already: give the new one another name or namespace" for pod in twice)
    return [simulated(pod) for pod in pods]


def _not_served(pods: Iterable[Pod], served: Serving) -> list[str]:
    others = sorted({pod.spec.scheduler_name for pod in pods} - set(served.names))
    names = ", ".join(served.names)
    return [f"new pods of scheduler {name} are left alone: served here is {names} ({served.source})" for name in others]


def _pending_not_served(pods: Iterable[Pod], served: Serving) -> list[str]:
    """A note, or none, on the pods of the cluster that wait for other schedulers: no list of the answer has them."""
    waiting = (pod for pod in pods if not pod.spec.node_name and not pod.is_terminal)
    counts = Counter(pod.spec.scheduler_name for pod in waiting)
    others = sorted((-count, name) for name, count in counts.items() if name not in served.names)
    if not others:
        return []
    total = -sum(count for count, _ in others)
    if len(others) == 1:
        whose = f"scheduler {others[0][1]}"
    else:
        named = ", ".join(f"{name} ({-count})" for count, name in others[:MAX_NAMES])
        left_off = len(others) - MAX_NAMES
        whose = f"schedulers {named}{f' and {left_off} more' if left_off > 0 else ''}"
    verb = "is" if total == 1 else "are"
    names = ", ".join(served.names)
    return [f"{pods_text(total)} of {whose} {verb} pending and left alone: served here is {names} ({served.source})"]
